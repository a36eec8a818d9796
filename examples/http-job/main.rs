//! The API of a renderer that takes a second for each frame, on 127.0.0.1:8430. It says what it is asked for.
#![expect(clippy::print_stderr, reason = "it is watched in a terminal")]

mod api;

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use api::Api;

fn main() -> anyhow::Result<()> {
    let api = Api::serve(TcpListener::bind("127.0.0.1:8430")?)?;
    api.state().works = true;
    api.state().token = std::env::var("RENDERER_TOKEN").ok();
    eprintln!("rendering on http://{}", api.address());
    let mut told = (0, 0, 0, 0);
    loop {
        let now = {
            let state = api.state();
            (state.requests, state.starts, state.jobs.len(), state.cancels)
        };
        if now != told {
            eprintln!("requests: {}, starts: {}, jobs: {}, cancels: {}", now.0, now.1, now.2, now.3);
            told = now;
        }
        thread::sleep(Duration::from_millis(100));
    }
}
