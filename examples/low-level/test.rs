//! What the example promises.

#[path = "../host.rs"]
mod host;

use std::process::Command;

use host::{Host, REVISIONS, nothing};
use serde_json::json;

#[test]
fn tools_come_from_a_file_and_methods_from_nowhere() {
    for revision in REVISIONS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_low-level"));
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/low-level/units.json"));
        let mut host = Host::start(&mut command, revision, json!({}), nothing);

        let (miles, failed) = host.call("km_to_miles", json!({"value": 10}));
        assert_eq!((miles.as_str(), failed), ("6.21371", false));
        for unfit in
            [json!({}), json!({"value": -1}), json!({"value": "ten"}), json!({"value": 1, "more": 1})]
        {
            let (text, failed) = host.call("km_to_miles", unfit);
            assert!(failed && text.contains("invalid arguments"), "{text}");
        }

        let as_sent = json!({"a": [1, 2], "b": null});
        let expected = format!("{} bytes", as_sent.to_string().len());
        assert_eq!(host.call("length", as_sent).0, expected);
        let refused =
            host.try_ask("tools/call", json!({"name": "length", "arguments": {"a": "x".repeat(2_000)}}));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");

        assert_eq!(host.ask("units/factor", json!({"name": "kg_to_pounds"}))["factor"], 2.204623);
        assert_eq!(host.try_ask("units/factor", json!({"name": "ells"}))["error"]["code"], -32602);
    }
}
