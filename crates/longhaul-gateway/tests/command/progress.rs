//! What a command says of itself while it runs.

use longhaul_gateway::command::{Progress, Run, Status};

use super::scene::{Scene, end_of, sh, soon};

fn amount(progress: &Progress) -> (f64, Option<f64>, Option<&str>) {
    (progress.value, progress.total, progress.message.as_deref())
}

/// The last news of a script, as who is attached hears it.
async fn last_news(scene: &Scene, script: &str, pattern: Option<&str>) -> Status {
    let mut spec = sh(script);
    spec.progress = pattern.map(str::to_owned);
    let run = Run::start(&scene.runs, "run", &spec).await.unwrap();
    let updates = run.updates();
    end_of(&run).await;
    let heard = updates.borrow().clone();
    let later = Run::attach(&scene.runs, "run").await.unwrap().updates().borrow().clone();
    assert_eq!(heard, later, "who comes later reads the same");
    heard
}

#[tokio::test]
async fn descriptor_3_carries_progress() {
    let script = "echo '1/10 first' >&3; echo 'not progress' >&3; printf '7/10 linking\\n8/10' >&3; echo out";
    let news = last_news(&Scene::new(), script, None).await;
    assert_eq!(
        amount(&news.progress.unwrap()),
        (7.0, Some(10.0), Some("linking")),
        "an open line does not count"
    );
    assert_eq!(news.line.as_deref(), Some("out"), "descriptor 3 is no output");
    assert_eq!((news.stdout_bytes, news.stderr_bytes), (4, 0));
}

#[tokio::test]
async fn terminal_progress_sequences_carry_progress() {
    let news =
        last_news(&Scene::new(), r"printf '\033]9;4;1;30\007working\033]9;4;1;42\033\\\n' >&2", None).await;
    assert_eq!(amount(&news.progress.unwrap()), (42.0, Some(100.0), None));
    assert_eq!(news.line.as_deref(), Some("working"));
}

#[tokio::test]
async fn a_pattern_finds_progress_in_lines_and_bars() {
    let scene = Scene::new();
    let script = r"echo '[1/12] one'; printf '\033[32m[2/12]\033[0m two\r[3/12] three\r'; sleep 0.2; echo '[4/12]' >&2; sleep 0.1; echo other";
    let news = last_news(&scene, script, Some(r"^\[(\d+)/(\d+)\]")).await;
    assert_eq!(amount(&news.progress.unwrap()), (4.0, Some(12.0), None));
    assert_eq!(news.line.as_deref(), Some("other"));
}

#[tokio::test]
async fn the_last_line_is_clean_and_short() {
    let script = r"printf '10%%\r99%%\r\033[1mdone\033[0m \007with\tit \342\200\256abc\n\n   \nopen'";
    let news = last_news(&Scene::new(), script, None).await;
    assert_eq!(news.line.as_deref(), Some("done with it abc"));
    let news = last_news(&Scene::new(), "seq -s ' ' 1 1000", None).await;
    assert_eq!(news.line.unwrap().chars().count(), 200);
}

#[tokio::test]
async fn the_stream_that_wrote_last_has_the_last_line() {
    let scene = Scene::new();
    let script = "echo first; sleep 0.2; echo second >&2; sleep 0.2; printf open";
    let news = last_news(&scene, script, None).await;
    assert_eq!(news.line.as_deref(), Some("second"));
}

#[tokio::test]
async fn news_comes_while_the_command_runs_and_at_most_once_a_second() {
    let scene = Scene::new();
    let script = "for n in $(seq 1 60); do echo \"$n/60\" >&3; echo \"line $n\"; sleep 0.05; done";
    let run = Run::start(&scene.runs, "run", &sh(script)).await.unwrap();
    let updates = run.updates();
    soon("news of a command that runs", || {
        updates.borrow().progress.as_ref().filter(|news| news.value < 60.0).map(drop)
    })
    .await;
    let exit = end_of(&run).await;
    let news = updates.borrow().clone();
    assert_eq!(news.progress.unwrap().value, 60.0);
    assert!(news.sequence <= exit.duration_ms / 1000 + 2, "{} in {} ms", news.sequence, exit.duration_ms);
}
