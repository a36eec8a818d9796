//! Tasks in the store in memory against their model, and what each dialect shows of them and of any other.
#![no_main]

#[path = "../../crates/longhaul-tasks/tests/engine/model/bytes.rs"]
mod bytes;
#[path = "../../crates/longhaul-tasks/tests/engine/model/life.rs"]
mod life;
#[path = "../../crates/longhaul-tasks/tests/engine/model/shown.rs"]
mod shown;
#[path = "../../crates/longhaul-tasks/tests/engine/model/task.rs"]
mod task;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for story in [life::story, shown::story] {
        if let Err(why) = story(bytes) {
            panic!("{why}");
        }
    }
});
