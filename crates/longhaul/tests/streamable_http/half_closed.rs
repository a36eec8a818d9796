//! Clients that shut their side of a connection once they have asked: as far as anybody can tell they have gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::BodyExt;
use longhaul::{Cx, Server, Tool};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::rig::{Echo, Host, body, modern_params};

/// How a call has come along.
#[derive(Clone)]
struct Course {
    begun: Arc<Semaphore>,
    go_on: Arc<Semaphore>,
    over: Arc<Semaphore>,
    is_done: Arc<AtomicBool>,
}

impl Course {
    fn new() -> Self {
        let none = || Arc::new(Semaphore::new(0));
        Self { begun: none(), go_on: none(), over: none(), is_done: Arc::default() }
    }
}

/// Tells that a call is over, done or not.
struct Over(Course);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over.add_permits(1);
    }
}

async fn host(course: &Course) -> Host {
    let course = course.clone();
    let linger = move |_: Cx, _: Echo| {
        let over = Over(course.clone());
        async move {
            over.0.begun.add_permits(1);
            over.0.go_on.acquire().await.unwrap().forget();
            over.0.is_done.store(true, Ordering::SeqCst);
            "lingered"
        }
    };
    Host::start_with(Server::new("test", "1.0.0").tool(Tool::typed("linger", "Linger", linger)), |_| {}).await
}

/// Sends a call and shuts this side of the connection as soon as the call has begun; gives what came back until the other
/// side was shut, too.
async fn ask_and_shut(host: &Host, course: &Course, headers: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(host.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\n{headers}content-length: {}\r\n\r\n",
        host.address,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    course.begun.acquire().await.unwrap().forget();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // A reset says the same as an end.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_modern_call_ends_with_its_clients_side_of_the_connection() {
    let course = Course::new();
    let host = host(&course).await;
    let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: linger\r\n";
    let params = modern_params(json!({"name": "linger", "arguments": {"message": "x"}}));
    let body = body("tools/call", params).collect().await.unwrap().to_bytes();
    let answer = ask_and_shut(&host, &course, headers, &body).await;
    assert!(!answer.contains("lingered"), "{answer}");
    course.over.acquire().await.unwrap().forget();
    assert!(!course.is_done.load(Ordering::SeqCst), "it was cancelled");
}

#[tokio::test]
async fn a_call_of_a_session_does_not() {
    let course = Course::new();
    let host = host(&course).await;
    let session = host.initialize().await;
    let headers = format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
    let params = json!({"name": "linger", "arguments": {"message": "x"}});
    let body = body("tools/call", params).collect().await.unwrap().to_bytes();
    let answer = ask_and_shut(&host, &course, &headers, &body).await;
    assert!(!answer.contains("lingered"), "{answer}");
    course.go_on.add_permits(1);
    course.over.acquire().await.unwrap().forget();
    assert!(course.is_done.load(Ordering::SeqCst), "it went on");
}
