//! The numbers of a server, for who watches it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::fleet::{CONFIG, Fleet};
use super::{Server, folder, run};

/// What `request`, but for its end, is answered.
fn answer(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{request}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn numbers_are_told_at_an_address_of_their_own() {
    // What names callers know the server by says nothing of who watches it.
    let folder = folder(
        "[metrics]\nlisten = \"127.0.0.1:1\"\n[http]\nallowed_hosts = [\"ci.example\", \"127.0.0.1\"]",
    );
    let server = Server::start(folder.path(), &["--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    let address = address_of(&server);
    for _ in 0..2 {
        assert_eq!(run(folder.path(), &["call", server.url(), "say"]).0, 0);
    }
    let told = answer(address, &format!("GET /metrics HTTP/1.1\r\nHost: {address}"));
    assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("application/openmetrics-text"), "{told}");
    let called = "longhaul_request_duration_seconds_count{method=\"tools/call\",outcome=\"result\"} 2";
    assert!(told.contains(called) && told.contains("\nlonghaul_store_up 1"), "{told}");
    let size = told.lines().find_map(|line| line.strip_prefix("longhaul_store_size_bytes ")).unwrap();
    assert!(size.parse::<u64>().unwrap() > 4096, "{size}");

    for named in ["ci.example:9464", "10.0.0.7", "localhost"] {
        let told = answer(address, &format!("GET /metrics HTTP/1.1\r\nHost: {named}"));
        assert!(told.starts_with("HTTP/1.1 200 "), "{named}\n{told}");
    }
    let endpoint = server.url().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    for (at, request, refused) in [
        (address, "GET /metrics HTTP/1.1\r\nHost: somewhere.example".to_owned(), "403"),
        (address, format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nOrigin: http://a.example"), "403"),
        (address, format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0"), "404"),
        (endpoint, format!("GET /metrics HTTP/1.1\r\nHost: {endpoint}"), "404"),
    ] {
        let told = answer(at, &request);
        assert!(told.starts_with(&format!("HTTP/1.1 {refused} ")), "{request}\n{told}");
    }
}

/// Where a server tells its numbers.
fn address_of(server: &Server) -> &str {
    let line = server.said.lines().find(|line| line.starts_with("  metrics  ")).unwrap();
    line.trim().strip_prefix("metrics  http://").unwrap().strip_suffix("/metrics").unwrap()
}

#[tokio::test]
async fn a_worker_tells_its_numbers_and_those_of_the_store() {
    for fleet in [Fleet::new(CONFIG), Fleet::on_redis(CONFIG)] {
        let front = fleet.node(&["--role", "front"]);
        let worker = fleet.node(&["--role", "worker", "--metrics", "127.0.0.1:0"]);
        let task = front.call("ann", "ask", serde_json::json!({})).await;
        front.until(&task, |task| task["status"] == "input_required").await;
        let address = address_of(&worker.server);
        let told = answer(address, &format!("GET /metrics HTTP/1.1\r\nHost: {address}"));
        for line in ["longhaul_store_up 1", "longhaul_tasks_open 1"] {
            assert!(told.lines().any(|told| told == line), "{line}\n{told}");
        }
    }
}

/// Each window of an editor starts its own of one configuration.
#[test]
fn of_servers_with_one_configuration_one_tells_its_numbers_and_the_others_serve() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = folder(&format!("[metrics]\nlisten = \"{address}\""));
    let server = Server::start(folder.path(), &["--http", "127.0.0.1:0"]);
    assert!(server.said.contains(&format!("note     {address} is taken")), "{}", server.said);
    assert_eq!(run(folder.path(), &["call", server.url(), "say"]).0, 0);
}

#[test]
fn an_address_that_is_taken_is_said_with_the_flag_that_names_another() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = folder("");
    let words = ["serve", "--http", "127.0.0.1:0", "--metrics", &address];
    let (code, _, said) = run(folder.path(), &words);
    assert!(
        code == 2 && said.contains("cannot be listened on") && said.contains("--metrics 127.0.0.1:"),
        "{said}"
    );
}
