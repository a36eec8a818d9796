//! What is acknowledged was flushed before. A killed process leaves the page cache behind, so that only its system calls
//! show it.
#![cfg(target_os = "linux")]

use std::fs;

use super::node::Node;

#[test]
fn what_is_acknowledged_was_flushed_before() {
    let folder = tempfile::tempdir().unwrap();
    let (path, trace) = (folder.path().join("tasks.db"), folder.path().join("trace"));
    let mut node = Node::traced(&path, &trace);
    node.answer().expect("strace must be installed, and be allowed to trace");
    let orders = [
        ("create t", "1"),
        ("ask t 1", "asked"),
        ("answer t", "1"),
        ("claim 1", "t"),
        ("write t 3 half", "written"),
        ("finish t 3", "finished"),
        ("create-queued u", "0"),
        ("cancel u", "cancelled"),
        ("erase u", "Erased"),
        ("append event", "1"),
    ];
    for (order, answer) in orders {
        assert_eq!(node.ask(order), answer, "{order}");
    }
    node.leave();
    let trace = fs::read_to_string(trace).unwrap();
    let said = acknowledged(&trace).unwrap_or_else(|early| panic!("{early}\n{trace}"));
    assert!(said > orders.len(), "only {said} answers are in the trace:\n{trace}");
}

/// How many answers the trace has; or the first that was given before all that was written was flushed.
fn acknowledged(trace: &str) -> Result<usize, String> {
    // What was written since it was last flushed, and whose flush is under way, which is one thread's at a time.
    let (mut written, mut under_way) = (None, None);
    let mut said = 0;
    for line in trace.lines() {
        let call = line.split_once(' ').map_or(line, |(_, call)| call.trim_start());
        let of_log = call.contains("-wal>");
        let begins = of_log && (call.starts_with("fsync(") || call.starts_with("fdatasync("));
        let resumed = call.contains("sync resumed>");
        if call.starts_with("pwrite64(") && of_log {
            written = Some(call);
        } else if begins && call.ends_with("<unfinished ...>") {
            under_way = written.take();
        } else if (begins || resumed) && !call.ends_with("= 0") {
            return Err(format!("a flush failed: {call}"));
        } else if begins {
            written = None;
        } else if resumed {
            under_way = None;
        } else if call.starts_with("write(1") && call.contains("@@ ") {
            said += 1;
            if let Some(early) = written.or(under_way) {
                return Err(format!("{call} came before {early} was flushed"));
            }
        }
    }
    Ok(said)
}

#[test]
fn an_answer_before_its_flush_is_seen() {
    let write = "7  pwrite64(4</a-wal>, \"x\", 1, 0) = 1";
    let flush = "7  fdatasync(4</a-wal>) = 0";
    let answer = "8  write(1<pipe:[1]>, \"@@ 1\\n\", 5) = 5";
    let begun = "7  fdatasync(4</a-wal> <unfinished ...>";
    let done = "7  <... fdatasync resumed>) = 0";
    let trace = |lines: &[&str]| acknowledged(&lines.join("\n"));
    assert_eq!(trace(&[write, flush, answer]), Ok(1));
    assert_eq!(trace(&[write, begun, done, answer]), Ok(1));
    for early in [&[write, answer, flush][..], &[write, begun, answer, done], &[flush, write, answer]] {
        assert!(trace(early).is_err(), "{early:?}");
    }
    assert!(trace(&[write, "7  fdatasync(4</a-wal>) = -1 EIO (Input/output error)", answer]).is_err());
}
