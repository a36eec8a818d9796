//! A server that is away for a while: one over HTTP has forgotten all sessions when it is back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use longhaul::client::{CallOptions, Client, Options};
use longhaul::proto::model::CallToolResult;
use longhaul::server::TaskMode;
use longhaul_gateway::config::Reach;
use serde_json::json;
use tokio::sync::Notify;

use super::rig::{Elsewhere, Front, as_a_program, at, begun, both_eras, eventually, says};

/// One that stays free until it is bound again: where there are several addresses of this machine, each test has its own, `127.0.0.own`.
fn free_address(own: u8) -> SocketAddr {
    let own = if cfg!(target_os = "linux") { own } else { 1 };
    TcpListener::bind((Ipv4Addr::new(127, 0, 0, own), 0)).unwrap().local_addr().unwrap()
}

async fn is_listed(client: &Client, prompt: &str) -> bool {
    client.prompts().collect().await.unwrap().iter().any(|listed| listed.name == prompt)
}

fn said(result: &CallToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

#[tokio::test]
async fn a_server_that_was_killed_and_is_back_is_gone_on_with() {
    for behind in both_eras() {
        let address = free_address(2);
        let program = Elsewhere::at(address, "before");
        let url = format!("http://{address}/mcp");
        let front = Front::before(vec![at("one", &url, "task = \"never\"\n")], behind).await;
        let client = front.caller(Options::default()).await;
        assert!(is_listed(&client, "before").await);

        let (caller, has_begun) = (client.clone(), Arc::new(Notify::new()));
        let begun = Arc::clone(&has_begun);
        let under_way = tokio::spawn(async move {
            let told = CallOptions::default().on_progress(move |_| begun.notify_one());
            caller.call_with("endless", &json!({}), told).await
        });
        has_begun.notified().await;
        program.kill();
        // A call that it was at, and one that comes meanwhile, end, and say that it was the server.
        for ended in [under_way.await.unwrap(), client.call("who", &json!({})).await] {
            let ended = ended.unwrap();
            assert!(ended.is_error && said(&ended).contains("the server one"), "{behind}: {ended:?}");
        }

        let _program = Elsewhere::at(address, "after");
        eventually("it is not called", async || {
            let called = client.call("who", &json!({})).await.unwrap();
            !called.is_error && said(&called) == "elsewhere"
        })
        .await;
        eventually("what it has now is not listed", async || {
            is_listed(&client, "after").await && !is_listed(&client, "before").await
        })
        .await;
    }
}

#[tokio::test]
async fn a_task_whose_call_never_left_waits_for_its_server_and_a_plain_call_fails() {
    for behind in both_eras() {
        let address = free_address(3);
        let program = Elsewhere::at(address, "before");
        let url = format!("http://{address}/mcp");
        let more = "at_once = 1\ntask = \"always\"\ntools.pid.task = \"never\"\n";
        let front = Front::before(vec![at("one", &url, more)], behind).await;
        let client = front.caller(Options::default()).await;
        program.kill();
        let task = begun(&client, "who").await;
        says(&task, "waiting to be called, for its server is away").await;
        // The one that waits is not at the server, which takes one call at once.
        let plain = client.call("pid", &json!({})).await.unwrap();
        assert!(plain.is_error && said(&plain).contains("the server one"), "{behind}: {plain:?}");
        let _program = Elsewhere::at(address, "after");
        let answered = task.wait().await.unwrap();
        assert!(!answered.is_error && said(&answered) == "elsewhere", "{behind}: {answered:?}");
    }
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it comes to its end")
}

/// Somebody in front of a server that is away, who answers every request in these words; until it is dropped.
struct InFront {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl InFront {
    fn at(address: SocketAddr, status: &'static str) -> Self {
        let (listener, is_over) = (TcpListener::bind(address).unwrap(), Arc::<AtomicBool>::default());
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            for connection in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                // Who has hung up hears nothing.
                let _heard = refuse(connection.unwrap(), status);
            }
        });
        Self { address, is_over, thread: Some(thread) }
    }
}

impl Drop for InFront {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _woken = TcpStream::connect(self.address);
        // Its place is free once it has gone.
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Reads one request to its end, and answers it.
fn refuse(connection: TcpStream, status: &str) -> std::io::Result<()> {
    connection.set_read_timeout(Some(Duration::from_secs(1)))?;
    let (mut request, mut length) = (BufReader::new(connection), 0);
    loop {
        let mut line = String::new();
        request.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(said) = line.strip_prefix("content-length:") {
            length = said.trim().parse().unwrap();
        }
    }
    request.read_exact(&mut vec![0; length])?;
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    request.get_mut().write_all(answer.as_bytes())
}

#[tokio::test]
async fn a_task_whose_call_was_refused_waits_if_it_was_not_passed_on_or_may_be_made_again() {
    for (status, rerun, waits) in [
        ("429 Too Many Requests", "never", true),
        ("503 Service Unavailable", "restart", true),
        // Perhaps somebody behind was asked before.
        ("503 Service Unavailable", "never", false),
    ] {
        let address = free_address(4);
        let program = Elsewhere::at(address, "before");
        let more = format!("task = \"always\"\nrerun = \"{rerun}\"\n");
        let front =
            Front::before(vec![at("one", &format!("http://{address}/mcp"), &more)], both_eras()[1]).await;
        let client = front.caller(Options::default()).await;
        program.kill();
        let in_front = InFront::at(address, status);
        let task = begun(&client, "who").await;
        if waits {
            says(&task, "waiting to be called, for its server is away").await;
            drop(in_front);
            let _program = Elsewhere::at(address, "after");
            let answered = in_time(task.wait()).await.unwrap();
            assert!(!answered.is_error && said(&answered) == "elsewhere", "{status}: {answered:?}");
        } else {
            let ended = in_time(task.wait()).await.unwrap();
            assert!(ended.is_error && said(&ended).contains("503"), "{ended:?}");
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_task_waits_for_a_program_that_cannot_be_started_until_it_can() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let (script, away) = (folder.path().join("server"), folder.path().join("away"));
    let program = std::env::current_exe().unwrap();
    let words = "rig::serves_on_its_standard_streams --exact --ignored --nocapture";
    std::fs::write(&script, format!("#!/bin/sh\nexec {} {words}\n", program.display())).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let mut server = as_a_program("one", "");
    server.defaults.task = TaskMode::After(Duration::ZERO);
    let Reach::Command(command) = &mut server.reach else { panic!("it is a program") };
    command.argv = vec![script.display().to_string()];
    for behind in both_eras() {
        let front = Front::before(vec![server.clone()], behind).await;
        let client = front.caller(Options::default()).await;
        let pid = begun(&client, "pid").await.wait().await.unwrap();
        std::fs::rename(&script, &away).unwrap();
        kill_process(Pid::from_raw(said(&pid).parse().unwrap()).unwrap(), Signal::KILL).unwrap();
        let upstream = front.upstreams.iter().next().unwrap();
        eventually("that it has ended is not seen", async || upstream.client().await.is_err()).await;
        let task = begun(&client, "who").await;
        says(&task, "is not found").await;
        std::fs::rename(&away, &script).unwrap();
        let answered = task.wait().await.unwrap();
        assert!(!answered.is_error && said(&answered) == "program", "{behind}: {answered:?}");
        front.upstreams.close().await;
    }
}
