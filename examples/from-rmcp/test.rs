//! What the example promises: the counter does what rmcp's does.

#[path = "../host.rs"]
mod host;

use std::process::Command;

use host::{Host, REVISIONS, nothing};
use serde_json::{Value, json};

#[test]
fn the_counter_counts_as_it_did() {
    for revision in REVISIONS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_from-rmcp"));
        let mut host = Host::start(&mut command, revision, json!({}), nothing);
        let listed = host.ask("tools/list", json!({}));
        let names: Vec<&str> =
            listed["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
        let counting = ["increment", "decrement", "get_value"];
        assert_eq!(names[..3], counting);
        assert_eq!(names[3..7], ["long_task", "say_hello", "echo", "sum"]);

        let mut text = |tool: &str, arguments: Value| host.call(tool, arguments).0;
        assert_eq!([text("increment", json!({})), text("increment", json!({}))], ["1", "2"]);
        assert_eq!([text("decrement", json!({})), text("get_value", json!({}))], ["1", "1"]);
        assert_eq!(text("say_hello", json!({})), "hello");
        assert_eq!(text("echo", json!({"a": [1]})), r#"{"a":[1]}"#);
        assert_eq!(text("sum", json!({"a": 40, "b": 2})), "42");

        let example =
            host.ask("prompts/get", json!({"name": "example_prompt", "arguments": {"message": "hi"}}));
        assert_eq!(example["messages"][0]["content"]["text"], "The message is: 'hi'");
        // A number of a prompt's is text on the wire.
        let arguments = json!({"goal": "20"});
        let analysis = host.ask("prompts/get", json!({"name": "counter_analysis", "arguments": arguments}));
        assert_eq!(analysis["description"], "How to get from 1 to 20");
        assert!(
            analysis["messages"][1]["content"]["text"].as_str().unwrap().contains("19 away"),
            "{analysis}"
        );

        let cwd = host.ask("resources/read", json!({"uri": "str:////Users/to/some/path/"}));
        assert_eq!(cwd["contents"][0]["text"], "/Users/to/some/path/");
    }
}
