//! What a server says that means harm to the terminal of whoever uses it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use longhaul::proto::model::{Field, Form, InputKind};
use longhaul::server::{TaskPolicy, ToolError};
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Cx, Server, Tool};
use longhaul_store::Sqlite;

use super::run;

type Nothing = BTreeMap<String, String>;

/// The word, and what sets the title, recolours, clears the screen, goes back over what is there and turns letters around.
fn hostile(word: &str) -> String {
    format!("\u{1b}[31m{word}\u{1b}]0;title\u{7}\u{9b}2J\u{8}\u{7f}\u{202e}\u{90}q\u{9c}")
}

/// The words that each of them stands around.
const WORDS: [&str; 9] =
    ["Named", "Titled", "Described", "Status", "Asked", "Field", "Option", "Broken", "Refused"];

async fn ask(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    cx.status(hostile("Status"));
    let form = Form::new()
        .with("how", Field::integer().titled(hostile("Field")))
        .with("to", Field::named_choice([("one", hostile("Option").as_str()), ("two", "Other")]));
    cx.elicit_form(hostile("Asked"), form).await?;
    Err(ToolError::new(hostile("Broken")))
}

async fn refuse(_: Cx, _: Nothing) -> Result<String, ToolError> {
    let error = longhaul::proto::jsonrpc::ErrorObject::invalid_params(hostile("Refused"));
    Err(ToolError::protocol(error))
}

/// The server, for as long as the runtime is there.
pub(super) fn start(folder: &Path) -> (tokio::runtime::Runtime, String) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = Sqlite::open(folder.join("longhaul.db")).unwrap();
    let url = runtime.block_on(async {
        let ask = Tool::typed("ask", hostile("Described"), ask).title(hostile("Titled"));
        let dispatcher = Server::new(hostile("Named"), hostile("1"))
            .tool(ask.asks(InputKind::Form).task(TaskPolicy::always()))
            .tool(Tool::typed("refuse", "Refuse", refuse).task(TaskPolicy::always()))
            .store(store)
            .dispatcher()
            .unwrap();
        dispatcher.start().await.unwrap();
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(serve(dispatcher, listener, Options::default(), std::future::pending()));
        url
    });
    (runtime, url)
}

/// A8 of `conformance/REQUIREMENTS.md`.
#[test]
fn a8_nothing_that_a_server_says_does_anything_to_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (_runtime, url) = start(folder.path());
    let mut shown = String::new();
    let mut at = |words: &[&str]| {
        let (code, out, err) = run(folder.path(), words);
        for said in [&out, &err] {
            let harm = said.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t') || *c == '\u{202e}');
            assert_eq!(harm, None, "{words:?}: {said:?}");
        }
        shown += &format!("{out}{err}");
        (code, err)
    };
    for revision in ["2025-11-25", "2026-07-28"] {
        at(&["tools", &url]);
        at(&["tools", &url, "ask"]);
        at(&["tools", &url, "--json"]);
        at(&["doctor", &url]);
        let call = |tool: &'static str| ["call", "--revision", revision, &url, tool];
        at(&call("refuse"));
        let (code, err) = at(&call("ask"));
        assert_eq!(code, 6, "{revision}: {err}");
        let line = err.lines().find_map(|line| line.strip_prefix("error: ")).unwrap();
        let id = line.split_once(' ').unwrap().0.to_owned();
        for verb in ["get", "answer"] {
            at(&["tasks", verb, &id]);
            at(&["tasks", verb, &id, "--json"]);
        }
        at(&["tasks", "answer", &id, "--decline"]);
        for verb in ["watch", "get", "log"] {
            at(&["tasks", verb, &id]);
            at(&["tasks", verb, &id, "--json"]);
        }
        at(&["tasks"]);
        at(&["tasks", "--json"]);
    }
    for word in WORDS {
        assert!(shown.contains(word), "{word} is shown without its harm: {shown}");
    }
}
