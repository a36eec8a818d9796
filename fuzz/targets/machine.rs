//! The machine against its rules, and against what can never come.
#![no_main]

#[path = "../../crates/longhaul-tasks/tests/engine/model/bytes.rs"]
mod bytes;
#[path = "../../crates/longhaul-tasks/tests/engine/model/call.rs"]
mod call;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for story in [call::story, call::anything] {
        if let Err(why) = story(bytes) {
            panic!("{why}");
        }
    }
});
