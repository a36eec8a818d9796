//! What the attributes say of functions that they can make nothing of: each in `ui/`, with the words of the compiler.

#[test]
fn mistakes_are_shown_where_they_are() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
