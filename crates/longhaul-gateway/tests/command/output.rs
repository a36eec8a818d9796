//! What is kept of a command's output, and how it is read.

use std::fs;

use longhaul_gateway::command::{Cut, Output, Run, Stream};

use super::scene::{Scene, bytes_of, end_of, expect_nothing_left, sh, soon, text_of};

/// The lines `1` to `last`, as `seq` writes them.
fn lines_to(last: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in 1..=last {
        bytes.extend(line.to_string().as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

#[tokio::test]
async fn of_a_flood_the_first_and_last_halves_are_kept_in_little_memory() {
    let scene = Scene::new();
    let script = "seq 1 24000000; grep VmHWM /proc/$PPID/status >&2";
    let (exit, run) = scene.run_spec(&sh(script).with_max_output(1 << 20)).await;
    let all = lines_to(24_000_000);
    assert!(all.len() > 200_000_000);

    let half = 1 << 19;
    assert_eq!((exit.stdout.total, exit.stdout.kept), (all.len() as u64, 2 * half as u64));
    let gap = exit.stdout.gap.unwrap();
    assert_eq!((gap.from, gap.to), (half as u64, (all.len() - half) as u64));
    assert!(exit.is_truncated() && !exit.stderr.is_truncated());
    assert_eq!(bytes_of(run.dir(), Stream::Stdout), [&all[..half], &all[all.len() - half..]].concat());
    assert_eq!(fs::metadata(run.dir().join("stdout")).unwrap().len(), 1 << 20);

    let output = run.output(Stream::Stdout).unwrap();
    let in_gap = output.read(half as u64 + 5, 10, Cut::Anywhere).unwrap();
    assert_eq!(in_gap.gap.unwrap().from, half as u64 + 5);
    assert_eq!((in_gap.start, in_gap.bytes.as_slice()), (gap.to, &all[all.len() - half..][..10]));

    let text = text_of(&run, Stream::Stderr);
    let kilobytes: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kilobytes < 16 << 10, "the supervisor's peak: {text}");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_kept_as_they_are() {
    let scene = Scene::new();
    let copy = scene.file("copy");
    let (_exit, run) = scene.run(&format!("head -c 700000 /dev/urandom | tee {}", copy.display())).await;
    assert_eq!(bytes_of(run.dir(), Stream::Stdout), fs::read(copy).unwrap());
}

#[tokio::test]
async fn output_is_complete_when_the_end_is_known() {
    let scene = Scene::new();
    for turn in 0..20 {
        let run =
            Run::start(&scene.runs, &format!("run-{turn}"), &sh("seq 1 5000; seq 1 5000 >&2")).await.unwrap();
        end_of(&run).await;
        assert_eq!(bytes_of(run.dir(), Stream::Stdout), lines_to(5000));
        assert_eq!(bytes_of(run.dir(), Stream::Stderr), lines_to(5000));
    }
}

#[tokio::test]
async fn a_command_that_closes_its_output_is_waited_for() {
    let scene = Scene::new();
    let (exit, run) = scene.run("echo before; exec >&- 2>&- 3>&-; sleep 0.5; exit 5").await;
    assert_eq!(exit.code, Some(5));
    assert!(exit.duration_ms >= 500);
    assert_eq!(text_of(&run, Stream::Stdout), "before\n");
}

#[tokio::test]
async fn what_a_child_writes_after_the_command_has_ended_is_kept() {
    let scene = Scene::new();
    let (exit, run) = scene.run("(sleep 0.7; echo late) & echo early").await;
    assert!(exit.is_success());
    assert_eq!(text_of(&run, Stream::Stdout), "early\nlate\n");
    expect_nothing_left(run.dir());
}

#[tokio::test]
async fn a_child_that_holds_the_output_open_holds_nothing_up_and_is_ended() {
    let scene = Scene::new();
    let (exit, run) = scene.run("sleep 600 & echo done").await;
    assert!(exit.is_success());
    assert_eq!(text_of(&run, Stream::Stdout), "done\n");
    expect_nothing_left(run.dir());
}

#[tokio::test]
async fn a_child_that_never_stops_writing_is_ended_too() {
    let scene = Scene::new();
    let (exit, run) = scene.run("(while :; do echo more; sleep 0.3; done) & exit 4").await;
    assert_eq!(exit.code, Some(4));
    expect_nothing_left(run.dir());
}

#[tokio::test]
async fn output_is_readable_while_the_command_runs() {
    let scene = Scene::new();
    let go = scene.file("go");
    let script = format!("printf one; while [ ! -e {} ]; do sleep 0.02; done; printf two", go.display());
    let run = Run::start(&scene.runs, "run", &sh(&script)).await.unwrap();
    let output = run.output(Stream::Stdout).unwrap();
    let first = soon("the first word", || {
        Some(output.read(0, 100, Cut::Anywhere).unwrap()).filter(|chunk| !chunk.bytes.is_empty())
    })
    .await;
    assert_eq!((first.bytes.as_slice(), first.next, first.total), (&b"one"[..], 3, 3));
    assert!(!first.closed && !first.done);
    fs::write(go, "").unwrap();
    end_of(&run).await;
    let second = output.read(first.next, 100, Cut::Anywhere).unwrap();
    assert_eq!((second.bytes.as_slice(), second.start, second.done), (&b"two"[..], 3, true));
    let beyond = output.read(1000, 100, Cut::Anywhere).unwrap();
    assert!(beyond.bytes.is_empty() && beyond.done && beyond.next == 6 && beyond.gap.is_none());
}

#[tokio::test]
async fn a_chunk_ends_between_characters() {
    let scene = Scene::new();
    let text = "añ€😀".repeat(50);
    let (_exit, run) = scene.run_spec(&sh("cat").with_stdin(text.clone())).await;
    let output = run.output(Stream::Stdout).unwrap();
    for max in 4..15 {
        let (mut read, mut cursor) = (String::new(), 0);
        loop {
            let chunk = output.read(cursor, max, Cut::AtChar).unwrap();
            read += std::str::from_utf8(&chunk.bytes).expect("whole characters");
            assert!(chunk.bytes.len() <= max && chunk.start == cursor);
            cursor = chunk.next;
            if chunk.done {
                break;
            }
        }
        assert_eq!(read, text);
        let end = output.read_end(max, Cut::AtChar).unwrap();
        assert!(text.ends_with(std::str::from_utf8(&end.bytes).unwrap()) && end.done);
        assert!(end.bytes.len() + 4 > max && end.bytes.len() <= max);
    }
}

#[tokio::test]
async fn a_character_that_stays_incomplete_is_delivered_at_the_end() {
    let scene = Scene::new();
    let (_exit, run) = scene.run(r"printf 'ab\303'").await;
    let chunk = run.output(Stream::Stdout).unwrap().read(0, 100, Cut::AtChar).unwrap();
    assert_eq!((chunk.bytes.as_slice(), chunk.done), (&b"ab\xc3"[..], true));
}

#[tokio::test]
async fn of_a_stream_with_a_gap_the_end_is_one_piece() {
    let scene = Scene::new();
    let spec = sh("cat").with_stdin("é".repeat(500)).with_max_output(101);
    let (exit, run) = scene.run_spec(&spec).await;
    assert_eq!((exit.stdout.total, exit.stdout.kept), (1000, 101));
    let output = Output::open(run.dir(), Stream::Stdout).unwrap();
    let end = output.read_end(4096, Cut::AtChar).unwrap();
    assert_eq!(
        String::from_utf8(end.bytes).unwrap(),
        "é".repeat(25),
        "51 bytes are kept, the first is half a character"
    );
    let head = output.read(0, 4096, Cut::AtChar).unwrap();
    assert_eq!((head.bytes, head.next), ("é".repeat(25).into_bytes(), 50));
    let behind = output.read(50, 4096, Cut::AtChar).unwrap();
    assert_eq!((behind.gap.unwrap().from, behind.gap.unwrap().to, behind.start), (50, 950, 950));
    assert!(behind.done);
}
