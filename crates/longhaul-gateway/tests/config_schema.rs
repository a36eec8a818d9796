//! What a tool tells its callers about itself, and the defaults of a configuration that says little.

use std::time::Duration;

use longhaul::{
    proto::dialect::Revision,
    server::TaskMode,
    store::{OnOrphan, OrphanRule, Rerun},
};
use longhaul_gateway::config::{
    Calls, CommandTool, Config, Join, Output, Polls, Quotas, Role, StoreUrl, Versions, check,
};

fn config(text: &str) -> Config {
    match check("longhaul.toml", text) {
        Ok(checked) => {
            assert!(checked.warnings.is_empty(), "{}", checked.warnings);
            checked.config
        }
        Err(mistakes) => panic!("{mistakes}"),
    }
}

fn tool(lines: &str) -> CommandTool {
    config(&format!("[tools.t]\ndescription = \"d\"\n{lines}")).tools.remove(0)
}

const EVERY_INPUT: &str = r#"
command = ["x", "{s}", "{i}", "{n}", "{b}", "{l}", "{plain}"]
input.s = { type = "string", description = "Say \"which\"", enum = ["a", "b"], default = "a" }
input.i = { type = "integer", minimum = 1, maximum = 10, required = false }
input.n = { type = "number", minimum = 0.5, enum = [0.5, 2], default = 2 }
input.b = { type = "boolean", default = false }
input.l = { type = "array", pattern = "^[a-z]$", default = ["x"] }
input.plain = {}
"#;

#[test]
fn every_rule_stands_in_the_schema_in_the_order_of_the_file() {
    assert_eq!(
        tool(EVERY_INPUT).input_schema().get(),
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""s":{"type":"string","description":"Say \"which\"","enum":["a","b"],"default":"a"},"#,
            r#""i":{"type":"integer","minimum":1,"maximum":10},"#,
            r#""n":{"type":"number","enum":[0.5,2],"minimum":0.5,"default":2},"#,
            r#""b":{"type":"boolean","default":false},"#,
            r#""l":{"type":"array","items":{"type":"string","pattern":"^[a-z]$"},"default":["x"]},"#,
            r#""plain":{"type":"string"}"#,
            r#"},"required":["plain"],"additionalProperties":false}"#,
        )
    );
    assert_eq!(
        tool("command = [\"x\"]\n").input_schema().get(),
        r#"{"type":"object","properties":{},"additionalProperties":false}"#
    );
}

#[test]
fn the_schema_accepts_what_a_call_accepts() {
    let tool = tool(EVERY_INPUT);
    let schema = serde_json::from_str(tool.input_schema().get()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for arguments in [
        r#"{"plain":"x"}"#,
        r#"{"plain":"x","s":"b","i":10,"n":0.5,"b":true,"l":["a","b"]}"#,
        r#"{"plain":"x","i":3.0,"n":2.0,"l":[]}"#,
        r#"{}"#,
        r#"{"plain":1}"#,
        r#"{"plain":null}"#,
        r#"{"plain":"x","s":"c"}"#,
        r#"{"plain":"x","i":0}"#,
        r#"{"plain":"x","i":11}"#,
        r#"{"plain":"x","i":1.5}"#,
        r#"{"plain":"x","i":"1"}"#,
        r#"{"plain":"x","n":1}"#,
        r#"{"plain":"x","b":"true"}"#,
        r#"{"plain":"x","l":"a"}"#,
        r#"{"plain":"x","l":["A"]}"#,
        r#"{"plain":"x","l":[1]}"#,
        r#"{"plain":"x","other":1}"#,
        r#"[]"#,
    ] {
        let value = serde_json::from_str(arguments).unwrap();
        assert_eq!(tool.bind(arguments).is_ok(), validator.is_valid(&value), "{arguments}");
    }
}

#[test]
fn a_tool_of_text_promises_its_run_facts() {
    let schema = tool("command = [\"x\"]\n").output_schema().unwrap();
    let schema = serde_json::from_str(schema.get()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let facts = |text: &str| validator.is_valid(&serde_json::from_str(text).unwrap());
    assert!(facts(
        r#"{"exitCode":0,"signal":null,"durationMs":5,"stdoutBytes":1,"stderrBytes":0,"truncated":false}"#
    ));
    assert!(facts(
        r#"{"exitCode":null,"signal":9,"durationMs":5,"stdoutBytes":1,"stderrBytes":0,"truncated":true}"#
    ));
    let left = |left: u32| {
        facts(&format!(
            r#"{{"exitCode":0,"signal":null,"durationMs":5,"stdoutBytes":0,"stderrBytes":0,"truncated":false,"left":{left}}}"#
        ))
    };
    assert!(left(1) && !left(0), "none is left out");
    assert!(!facts(r#"{"exitCode":0}"#));
    assert!(tool("command = [\"x\"]\noutput = \"json\"\n").output_schema().is_none());
}

/// What a store with these is opened with.
fn limits(quotas: &Quotas) -> [u64; 8] {
    let limits = quotas.settings().limits;
    [
        limits.max_open,
        limits.max_open_per_owner,
        limits.max_open_anonymous,
        limits.max_open_per_stranger,
        limits.max_made_per_stranger,
        limits.max_retained,
        limits.max_retained_per_owner,
        limits.max_task_bytes_per_owner,
    ]
}

#[test]
fn what_is_not_said_has_the_documented_default() {
    let config = config("[tools.t]\ndescription = \"d\"\ncommand = [\"x\"]\n");
    assert_eq!(config.server.name, "longhaul");
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:8420");
    assert_eq!((config.http.allowed_hosts, config.http.allowed_origins), (None, None));
    assert_eq!(config.http.max_body, 4 << 20);
    assert_eq!((config.polls, config.audit.is_none()), (Polls::default(), true));
    assert_eq!((config.polls.each, config.polls.in_all, config.polls.in_vain), (200, 10_000, 300));
    assert_eq!((config.calls, config.calls.each, config.calls.in_all), (Calls::default(), None, None));
    assert!(config.page.enabled && config.page.operators.is_none() && config.metrics.is_none());
    assert!(!config.server.drafted_tasks && config.server.role == Role::All);
    assert_eq!(config.store.url, StoreUrl::Sqlite("longhaul.db".into()));
    assert_eq!(config.store.state, None);
    assert_eq!((config.store.max_run_bytes, config.store.sealing), (10 << 30, None));
    assert_eq!(config.store.host_grace, Duration::from_secs(600));
    assert_eq!(config.store.quotas, Quotas::default());
    assert_eq!(
        limits(&config.store.quotas),
        [10_000, 1_000, 1_000, 300, 10_000, 1_000_000, 100_000, 4 << 30]
    );
    let tool = &config.tools[0];
    assert_eq!(tool.task, TaskMode::After(Duration::from_secs(2)));
    assert_eq!((tool.rerun, tool.join, tool.output), (Rerun::Reattach, Join::SameArguments, Output::Text));
    assert_eq!((tool.timeout, tool.grace), (None, Duration::from_secs(10)));
    assert_eq!((tool.ttl, tool.hold), (Duration::from_secs(86_400), Duration::from_secs(50)));
    assert_eq!(tool.orphan, OrphanRule::default());
    assert_eq!((tool.limit, tool.max_output), (None, 64 << 20));
    assert!(tool.progress.is_none());
    assert_eq!(tool.versions.version.to_string(), "0.0.0");
    assert!(tool.versions.accepts.admits(&tool.versions.version));
}

/// What can be said but for inputs, jobs and other servers.
const EVERYTHING: &str = r#"
        [server]
        name = "ci"
        version = "1.2.3"
        title = "CI"
        instructions = "Test before you build."
        drafted_tasks = true
        role = "front"

        [store]
        url = "sqlite:state/tasks.db"
        state = "/var/lib/longhaul"
        max_run_bytes = "1GB"
        host_grace = "1h"
        max_open = 1
        max_open_per_owner = 2
        max_open_anonymous = 3
        max_open_per_stranger = 4
        max_made_per_stranger = 5
        max_retained = 6
        max_retained_per_owner = 7
        max_task_bytes_per_owner = "8MiB"

        [http]
        listen = "[::1]:9000"
        allowed_hosts = ["CI.example:9000"]
        allowed_origins = []
        legacy_sse = true
        http2 = true
        max_body = "64KiB"

        [page]
        enabled = false
        operators = "longhaul:operator"

        [metrics]
        listen = "127.0.0.1:9000"

        [calls]
        each = 8
        in_all = 80

        [polls]
        each = 5
        in_all = 50
        in_vain = 7

        [audit]
        path = "trail"
        max_file = "1MiB"
        max_files = 9

        [tools.build]
        title = "Build"
        description = "Build it"
        command = ["make"]
        timeout = "1h30m"
        grace = "0s"
        limit = 2
        output = "json"
        max_output = "16MiB"
        annotations = { readOnlyHint = false, destructiveHint = true, idempotentHint = true, openWorldHint = false }
        task = "after 1m 30s"
        ttl = "7d"
        on_orphan = "cancel"
        orphan_grace = "5m"
        rerun = "never"
        version = "2.1"
        accepts = ">=1, <3"
        hold = "3s"
        progress = '(\d+)/(\d+)'
        join = "never"

        [tools.a]
        description = "A"
        command = ["x"]
        task = "always"

        [tools.b]
        description = "B"
        command = ["x"]
        task = "required"

        [tools.c]
        description = "C"
        command = ["x"]
        task = "never"
        "#;

#[test]
fn everything_that_is_said_is_taken() {
    let config = config(EVERYTHING);
    assert_eq!((config.server.name.as_str(), config.server.version.as_str()), ("ci", "1.2.3"));
    assert_eq!(config.server.title.as_deref(), Some("CI"));
    assert_eq!(config.server.instructions.as_deref(), Some("Test before you build."));
    assert!(config.server.drafted_tasks && config.server.role == Role::Front);
    assert_eq!(config.store.url, StoreUrl::Sqlite("state/tasks.db".into()));
    assert_eq!(config.store.state, Some("/var/lib/longhaul".into()));
    assert_eq!(config.store.max_run_bytes, 1_000_000_000);
    assert_eq!(config.store.host_grace, Duration::from_secs(3600));
    assert_eq!(limits(&config.store.quotas), [1, 2, 3, 4, 5, 6, 7, 8 << 20]);
    assert_eq!(config.http.listen.to_string(), "[::1]:9000");
    assert_eq!(config.http.allowed_hosts.as_deref(), Some(["ci.example:9000".to_owned()].as_slice()));
    assert_eq!(config.http.allowed_origins.as_deref(), Some([].as_slice()), "an empty list denies");
    assert_eq!((config.http.max_body, config.http.legacy_sse, config.http.http2), (64 << 10, true, true));
    assert!(!config.page.enabled);
    assert_eq!(config.page.operators.as_ref().unwrap().to_string(), "longhaul:operator");
    assert_eq!((config.polls.each, config.polls.in_all, config.polls.in_vain), (5, 50, 7));
    assert_eq!((config.calls.each, config.calls.in_all), (Some(8), Some(80)));
    let options = config.calls.options();
    assert_eq!((options.each, options.in_all), (Some(8), Some(80)));
    assert_eq!(config.metrics.as_ref().unwrap().listen.to_string(), "127.0.0.1:9000");
    let audit = config.audit.clone().unwrap();
    assert_eq!((audit.path, audit.max_file, audit.max_files), ("trail".into(), 1 << 20, 9));
    let names: Vec<_> = config.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["build", "a", "b", "c"], "the order of the file");
    let tool = config.tool("build").unwrap();
    assert_eq!((tool.timeout, tool.grace), (Some(Duration::from_secs(5400)), Duration::ZERO));
    assert_eq!((tool.limit.map(u32::from), tool.max_output), (Some(2), 16 << 20));
    assert_eq!((tool.rerun, tool.join, tool.output), (Rerun::Never, Join::Never, Output::Json));
    assert_eq!(tool.task, TaskMode::After(Duration::from_secs(90)));
    assert_eq!((tool.ttl, tool.hold), (Duration::from_secs(604_800), Duration::from_secs(3)));
    assert_eq!(tool.orphan, OrphanRule::new(Duration::from_secs(300), OnOrphan::Cancel));
    let Versions { version, accepts, .. } = &tool.versions;
    assert_eq!((version.to_string(), accepts.to_string()), ("2.1.0".to_owned(), ">=1, <3".to_owned()));
    let annotations = tool.annotations;
    assert_eq!((annotations.read_only_hint, annotations.destructive_hint), (Some(false), Some(true)));
    assert_eq!((annotations.idempotent_hint, annotations.open_world_hint), (Some(true), Some(false)));
    assert_eq!(tool.progress.as_ref().unwrap().pattern.as_str(), r"(\d+)/(\d+)");
    let policies: Vec<_> = config.tools[1..].iter().map(|tool| tool.task).collect();
    assert_eq!(policies, [TaskMode::After(Duration::ZERO), TaskMode::Required, TaskMode::Never]);
}

#[test]
fn a_server_is_held_to_a_revision_that_is_spoken() {
    let server = |revision: &str| {
        let text = format!("[servers.s]\ncommand = [\"x\"]\n{revision}");
        check("longhaul.toml", &text).map(|checked| checked.config.servers[0].revision)
    };
    assert_eq!(server("").unwrap(), None);
    for revision in Revision::ALL {
        assert_eq!(server(&format!("revision = \"{revision}\"")).unwrap(), Some(revision));
    }
    let mistake = server("revision = \"2025-11-24\"").unwrap_err().to_string();
    assert!(Revision::ALL.iter().all(|revision| mistake.contains(revision.as_str())), "{mistake}");
}

#[test]
fn what_would_be_read_as_an_option_is_not_promised() {
    let minimum = |lines: &str| {
        let text = format!("[tools.t]\ndescription = \"d\"\n{lines}");
        let tool = check("longhaul.toml", &text).unwrap().config.tools.remove(0);
        let schema: serde_json::Value = serde_json::from_str(tool.input_schema().get()).unwrap();
        let passes = tool.bind(r#"{"n":-5}"#).is_ok();
        (schema["properties"]["n"]["minimum"].clone(), passes)
    };
    let (zero, none) = (serde_json::json!(0), serde_json::Value::Null);
    for kind in ["integer", "number"] {
        let input = format!("input.n = {{ type = \"{kind}\" }}\n");
        let dash = format!("input.n = {{ type = \"{kind}\", allow_dash = true }}\n");
        let low = format!("input.n = {{ type = \"{kind}\", minimum = -9 }}\n");
        assert_eq!(minimum(&format!("command = [\"x\", \"{{n}}\"]\n{input}")), (zero.clone(), false));
        assert_eq!(minimum(&format!("command = [\"x\", \"{{n}}\"]\n{low}")), (zero.clone(), false));
        assert_eq!(minimum(&format!("command = [\"x\", \"{{n}}\"]\n{dash}")), (none.clone(), true));
        assert_eq!(minimum(&format!("command = [\"x\", \"--\", \"{{n}}\"]\n{input}")), (none.clone(), true));
        assert_eq!(minimum(&format!("command = [\"x\", \"--n={{n}}\"]\n{input}")), (none.clone(), true));
    }
}

#[test]
fn who_says_a_version_accepts_it_alone_unless_more_is_said() {
    let text = r#"
        [tools.t]
        description = "d"
        command = ["x"]
        version = "2"
        [jobs.j]
        description = "d"
        version = "3.1.0-rc.1"
        accepts = ">=3.1.0-rc.1, <4"
        start.url = "https://cluster.example/jobs"
        id = "/id"
        status = { url = "https://cluster.example/jobs/{job}", state = "/state", done = ["ok"] }
        [servers.s]
        command = ["serve"]
        version = "1.4"
        accepts = ">=1, <2"
        [servers.s.tools.new]
        version = "5"
        [servers.s.tools.old]
        accepts = "<2"
        "#;
    let config = config(text);
    let said = |versions: &Versions| format!("{} {}", versions.version, versions.accepts);
    assert_eq!(said(&config.tools[0].versions), "2.0.0 =2.0.0");
    assert_eq!(said(&config.jobs[0].versions), "3.1.0-rc.1 >=3.1.0-rc.1, <4");
    let of = |tool| said(&config.servers[0].policy(tool).versions);
    assert_eq!((of("other"), of("new")), ("1.4.0 >=1, <2".to_owned(), "5.0.0 =5.0.0".to_owned()));
    assert_eq!(of("old"), "1.4.0 <2");
}
