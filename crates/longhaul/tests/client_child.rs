//! Servers that are child processes, most of them bad ones.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::client::{Client, Command, Error, Options};

/// A server in shell that answers the discovery and then runs `then`.
fn shell(then: &str) -> Command {
    let welcome = r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"resultType":"complete","ttlMs":0,"cacheScope":"public","capabilities":{"tools":{}}}}'"#;
    Command::new("sh").args(["-c", &format!("{welcome}\n{then}")])
}

fn quick() -> Options {
    let mut options = Options::default();
    options.close_grace = Duration::from_millis(200);
    options
}

/// Whether a process of that id is there and no zombie.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    status.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

fn exists(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

async fn eventually(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}");
}

/// The first line that a server wrote to its standard error.
async fn first_word(words: &Arc<Mutex<Vec<String>>>) -> String {
    eventually("the server said nothing", || !words.lock().unwrap().is_empty()).await;
    words.lock().unwrap()[0].clone()
}

fn listening() -> (Options, Arc<Mutex<Vec<String>>>) {
    let words = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&words);
    (quick().on_stderr(move |line| heard.lock().unwrap().push(line)), words)
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_unreachable() {
    let error = Client::connect(Command::new("/nowhere/to/be/found")).await.unwrap_err();
    assert!(
        matches!(&error, Error::Unreachable { target, .. } if target == "/nowhere/to/be/found"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_program_that_dies_at_once_is_reported_with_its_last_words() {
    let command = Command::new("sh").args(["-c", "echo 'no DATABASE_URL' >&2; exit 3"]);
    let error = Client::connect_with(command, quick()).await.unwrap_err();
    let Error::Died { program, status, last_words, .. } = &error else { panic!("{error:?}") };
    assert_eq!((program.as_str(), status.as_str()), ("sh", "exit code 3"));
    assert_eq!(last_words, "no DATABASE_URL");
}

#[tokio::test]
async fn a_program_that_another_starts_is_known_by_its_own_name() {
    let command = Command::new("sh").args(["-c", "echo $GIVEN >&2; exit 3"]);
    let started = command.clone().started_by("env", ["GIVEN=by another"]);
    assert_ne!(started, command);
    let error = Client::connect_with(started, quick()).await.unwrap_err();
    let Error::Died { program, status, last_words, .. } = &error else { panic!("{error:?}") };
    assert_eq!((program.as_str(), status.as_str(), last_words.as_str()), ("sh", "exit code 3", "by another"));
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_reported_so() {
    let client = Client::connect_with(shell("read line; echo boom >&2; kill -9 $$"), quick()).await.unwrap();
    let error = client.call("x", &()).await.unwrap_err();
    let Error::Died { status, last_words, .. } = &error else { panic!("{error:?}") };
    assert_eq!((status.as_str(), last_words.as_str()), ("killed by signal 9", "boom"));
}

#[tokio::test]
async fn a_legacy_server_that_ends_at_a_foreign_first_message_is_started_again() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"old","version":"0"},"capabilities":{}}}"#;
    let script =
        format!("read line; case $line in *initialize*) echo '{answer}'; cat >/dev/null;; esac; exit 1");
    let client = Client::connect_with(Command::new("sh").args(["-c", &script]), quick()).await.unwrap();
    assert_eq!(client.server_info().unwrap().name, "old");
    client.close().await;
}

/// A server that says which methods it hears, and is of the era that the file `modern` decides.
const OF_EITHER_ERA: &str = r#"while read line; do
    id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    echo "$line" | sed 's/.*"method":"\([^"]*\)".*/\1/' >&2
    modern=no; [ -e modern ] && modern=yes
    case $modern:$line in
        no:*initialize\"*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"x","version":"0"},"capabilities":{}}}';;
        yes:*discover*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"supportedVersions":["2026-07-28"],"resultType":"complete","ttlMs":0,"cacheScope":"public","capabilities":{}}}';;
        *:*'"id"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"unknown"}}';;
    esac
done"#;

#[tokio::test]
async fn the_era_of_a_server_is_found_out_once_and_again_when_it_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (options, words) = listening();
    let connect = async || {
        words.lock().unwrap().clear();
        let server = Command::new("sh").args(["-c", OF_EITHER_ERA]).current_dir(folder.path());
        let client = Client::connect_with(server, options.clone()).await.unwrap();
        client.close().await;
        words.lock().unwrap().clone()
    };
    let [discover, initialize, initialized] = ["server/discover", "initialize", "notifications/initialized"];
    assert_eq!(connect().await, [discover, initialize, initialized]);
    assert_eq!(connect().await, [initialize, initialized]);
    std::fs::write(folder.path().join("modern"), "").unwrap();
    assert_eq!(connect().await, [initialize, discover]);
    assert_eq!(connect().await, [discover]);
}

#[tokio::test]
async fn a_server_that_ends_with_its_input_leaves_in_peace() {
    let (options, words) = listening();
    let client =
        Client::connect_with(shell("echo $$ >&2; cat >/dev/null; echo bye >&2"), options).await.unwrap();
    let pid = first_word(&words).await;
    client.close().await;
    assert!(!exists(&pid), "no process and no zombie");
    eventually("its last words came", || words.lock().unwrap().last().is_some_and(|w| w == "bye")).await;
}

#[tokio::test]
async fn a_server_that_ignores_everything_is_killed_with_its_children() {
    let (options, words) = listening();
    let script = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $! >&2; echo $$ >&2
        while :; do sleep 1; done";
    let client = Client::connect_with(shell(script), options).await.unwrap();
    eventually("two pids", || words.lock().unwrap().len() == 2).await;
    let pids = words.lock().unwrap().clone();
    assert!(is_alive(&pids[0]) && is_alive(&pids[1]));
    client.close().await;
    assert!(!exists(&pids[1]), "no process and no zombie");
    eventually("the child of the server lives on", || !is_alive(&pids[0])).await;
}

#[tokio::test]
async fn what_a_server_leaves_behind_goes_with_it() {
    let (options, words) = listening();
    let script = "(while :; do sleep 1; done) >/dev/null 2>&1 & echo $! >&2; cat >/dev/null";
    let client = Client::connect_with(shell(script), options).await.unwrap();
    let left = first_word(&words).await;
    client.close().await;
    eventually("the child of the server lives on", || !is_alive(&left)).await;
}

#[tokio::test]
async fn a_dropped_client_ends_what_a_server_that_died_has_left() {
    let (options, words) = listening();
    let script = "(while :; do sleep 1; done) >/dev/null 2>&1 & echo $! >&2; read line; exit 1";
    let client = Client::connect_with(shell(script), options).await.unwrap();
    let left = first_word(&words).await;
    assert!(matches!(client.call("x", &()).await, Err(Error::Died { .. })));
    drop(client);
    eventually("the child of the server lives on", || !is_alive(&left)).await;
}

#[tokio::test]
async fn a_client_that_is_dropped_leaves_no_process() {
    let (options, words) = listening();
    let client =
        Client::connect_with(shell("echo $$ >&2; trap '' TERM; while :; do sleep 1; done"), options).await;
    let pid = first_word(&words).await;
    drop(client);
    eventually("the server lives on", || !exists(&pid)).await;
}

#[test]
fn a_runtime_that_ends_leaves_no_process() {
    let (options, words) = listening();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (client, pid) = runtime.block_on(async {
        let client =
            Client::connect_with(shell("echo $$ >&2; trap '' TERM; while :; do sleep 1; done"), options)
                .await;
        (client.unwrap(), first_word(&words).await)
    });
    drop(runtime);
    drop(client);
    for _ in 0..1000 {
        if !is_alive(&pid) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the server lives on");
}

#[tokio::test]
async fn a_flood_on_standard_error_does_not_stop_the_server() {
    let script = r#"read line; i=0; while [ $i -lt 3000 ]; do echo "a line of noise number $i, long enough to fill a pipe" >&2; i=$((i+1)); done
        echo '{"jsonrpc":"2.0","id":2,"result":{"content":[],"resultType":"complete"}}'; cat >/dev/null"#;
    let client = Client::connect_with(shell(script), quick()).await.unwrap();
    assert!(client.call("x", &()).await.unwrap().content.is_empty());
    client.close().await;
}
