//! Streamable HTTP over a socket of this machine: who may connect, who they are, and whose socket it is.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use longhaul::client::Options as ClientOptions;
use longhaul::proto::dialect::Revision;
use longhaul::server::local_user;
use longhaul::transport::http::server::{Options, Socket, serve};
use longhaul::{Client, Cx, Server, Tool};
use serde_json::json;
use tokio::sync::oneshot;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

async fn whoami(cx: Cx, _: Nothing) -> String {
    cx.principal().map_or("nobody", |principal| principal.as_str()).to_owned()
}

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(socket: Socket) -> (oneshot::Sender<()>, tokio::task::JoinHandle<std::io::Result<()>>) {
    let tool = Tool::typed("whoami", "Say who calls", whoami);
    let dispatcher = Server::new("local", "1.0.0").tool(tool).dispatcher().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(dispatcher, socket, Options::default(), async {
        let _ = stopped.await;
    }));
    (stop, served)
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

#[tokio::test]
async fn callers_over_a_socket_are_the_users_they_are() {
    let folder = Folder::new("callers");
    let path = folder.0.join("mcp.sock");
    let socket = Socket::bind(&path).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (stop, served) = start(socket);
    for revision in [Revision::V2026_07_28, Revision::V2025_11_25] {
        let options = ClientOptions::default().revision(revision);
        let client =
            Client::connect_with(format!("unix:{}", path.display()).as_str(), options).await.unwrap();
        let answer = client.call("whoami", &json!({})).await.unwrap();
        assert_eq!(answer.content[0].as_text(), Some(local_user().as_str()));
        client.close().await;
    }
    stop.send(()).unwrap();
    served.await.unwrap().unwrap();
    assert!(!path.exists(), "its file goes with it");
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on_is_replaced_and_no_other_is() {
    let folder = Folder::new("stale");
    let path = folder.0.join("mcp.sock");
    // What a server leaves that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(is_socket(&path));
    let socket = Socket::bind(&path).await.unwrap();
    let (stop, served) = start(socket);

    let second = Socket::bind(&path).await.unwrap_err();
    assert_eq!(
        (second.kind(), second.to_string().as_str()),
        (ErrorKind::AddrInUse, "a server listens there")
    );
    let target = format!("unix:{}", path.display());
    Client::connect(target.as_str()).await.unwrap().close().await;

    // A server whose socket has been replaced leaves the other's alone.
    std::fs::remove_file(&path).unwrap();
    let other = Socket::bind(&path).await.unwrap();
    stop.send(()).unwrap();
    served.await.unwrap().unwrap();
    assert!(is_socket(&path));
    drop(other);

    std::fs::write(&path, "something else").unwrap();
    assert_eq!(Socket::bind(&path).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "something else");
    std::fs::remove_file(&path).unwrap();
    let nobody = Client::connect(target.as_str()).await.unwrap_err();
    assert!(nobody.to_string().contains(&target), "{nobody}");
}

#[tokio::test]
async fn of_servers_that_start_at_once_one_has_the_socket() {
    let folder = Folder::new("race");
    let path = folder.0.join("mcp.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let starting: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            tokio::spawn(async move { Socket::bind(path).await })
        })
        .collect();
    let mut bound = Vec::new();
    for start in starting {
        bound.extend(start.await.unwrap());
    }
    assert_eq!(bound.len(), 1);
}
