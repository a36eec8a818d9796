//! The floor over stdio: a loop over lines that parses a `tools/call` of `echo` into types, answers it with the bytes
//! that ours answers with, and checks nothing.

use std::io::{self, BufRead, BufReader, BufWriter, Write};

use serde::{Deserialize, Serialize};
use serde_json::json;

/// As ours has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Deserialize)]
struct Request<'a> {
    /// Absent from a notification.
    id: Option<i64>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    /// Absent from `initialize`.
    #[serde(borrow)]
    arguments: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    message: &'a str,
}

#[derive(Serialize)]
struct Answer<R> {
    jsonrpc: &'static str,
    id: i64,
    result: R,
}

#[derive(Serialize)]
struct Called<'a> {
    content: [Block<'a>; 1],
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'static str,
    text: &'a str,
}

fn main() -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let Request { id, params } = serde_json::from_slice(&line)?;
        match (id, params.and_then(|params| params.arguments)) {
            (Some(id), Some(Message { message })) => {
                let content = [Block { r#type: "text", text: message }];
                write(&mut output, &Answer { jsonrpc: "2.0", id, result: Called { content } })?;
            }
            (Some(id), None) => write(&mut output, &Answer { jsonrpc: "2.0", id, result: initialized() })?,
            (None, _) => {}
        }
        // What was piped is answered together.
        if input.buffer().is_empty() {
            output.flush()?;
        }
        line.clear();
    }
    output.flush()
}

fn write(output: &mut impl Write, answer: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *output, answer)?;
    output.write_all(b"\n")
}

fn initialized() -> serde_json::Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bench", "version": "1.0.0"},
    })
}
