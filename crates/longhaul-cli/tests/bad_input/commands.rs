//! Commands that cannot be started, or that write what nobody expects.

use std::fs;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::rig::modern::{self, begin, call, ended, output, text};
use crate::rig::place::Place;
use crate::rig::scene::Scene;
use crate::rig::server::Server;
use crate::rig::session::Session;

/// A tool that runs a script of the shell, as a task from the start.
fn tool(name: &str, script: &str, more: &str) -> String {
    format!(
        "[tools.{name}]\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", '''{script}''']\ntask = \"always\"\n\
         grace = \"200ms\"\n{more}\n"
    )
}

fn facts(task: &Value) -> &Value {
    &task["result"]["_meta"]["dev.longhaul/run"]
}

#[test]
fn commands_that_cannot_be_started_say_why() {
    let tools = [
        ("missing", "command = [\"no-such-program-anywhere\"]"),
        ("absolute", "command = [\"/no/such/program\"]"),
        ("data", "command = [\"./longhaul.toml\"]"),
        ("folder", "command = [\"/tmp\"]"),
        ("place", "command = [\"true\"]\ncwd = \"gone\""),
        ("interpreter", "command = [\"./script\"]"),
    ];
    let configured: String = tools
        .iter()
        .map(|(name, how)| format!("[tools.{name}]\ndescription = \"d\"\n{how}\ntask = \"always\"\n"))
        .collect();
    let place = Place::new(&configured);
    // What `check` can know it says; a program may also come and go while the server runs.
    fs::create_dir(place.path("gone")).unwrap();
    fs::write(place.path("script"), "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(place.path("script"), mode).unwrap();
    let mut server = Server::start(&place);
    fs::remove_dir(place.path("gone")).unwrap();
    for (name, _) in tools {
        for answer in [modern::call_held(server.address(), name, json!({})), {
            let id = begin(server.address(), name, json!({}));
            ended(server.address(), &id)
        }] {
            let result = &answer["result"];
            assert_eq!(result["isError"], true, "{answer}");
            assert!(text(result).contains(&format!("{name} did not start: ")), "{}", text(result));
        }
    }
    assert_eq!(text(&call(server.address(), "echo", json!({"text": "x"}))["result"]), "x");
    server.kill();
}

#[test]
fn a_flood_is_kept_in_part_with_the_gap_named_and_holds_no_memory() {
    let scene =
        Scene::new(&tool("flood", "yes abcdefghij | head -c 60000000; echo end", "max_output = \"1MiB\""));
    let address = scene.server.address();
    let before = scene.server.memory();
    let task = begin(address, "flood", json!({}));
    let result = ended(address, &task);
    let grown = scene.server.memory().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes more");
    assert_eq!(facts(&result)["truncated"], true);
    assert_eq!(
        (facts(&result)["stdoutBytes"].as_u64(), facts(&result)["exitCode"].as_i64()),
        (Some(60_000_004), Some(0))
    );
    assert!(text(&result["result"]).ends_with("end\n"), "the end is what counts");
    assert!(text(&result["result"]).contains(" of 60000004 bytes of stdout; "), "and it says that it is cut");
    let read = output(address, &task, "stdout");
    let gap = read.iter().find_map(|part| part["_meta"]["dev.longhaul/output"].get("gap"));
    let gap = gap.unwrap_or_else(|| panic!("no gap is named in {} reads", read.len()));
    assert!(gap["to"].as_u64() > gap["from"].as_u64(), "{gap}");
    let kept: usize = read.iter().filter_map(|part| part["text"].as_str()).map(str::len).sum();
    assert!((512 << 10..=1 << 20).contains(&kept), "{kept} bytes kept");
    scene.ends_well();
}

#[test]
fn bytes_that_are_no_text_are_shown_as_far_as_they_can_be() {
    let scene = Scene::new(&tool("bytes", "printf 'a\\377\\376b\\000c'", ""));
    let address = scene.server.address();
    let task = begin(address, "bytes", json!({}));
    let result = ended(address, &task);
    assert_eq!(text(&result["result"]), "a\u{fffd}\u{fffd}b\u{0}c");
    let read = output(address, &task, "stdout");
    let blob = read[0]["blob"].as_str().unwrap_or_else(|| panic!("{read:?}"));
    assert_eq!(base64::engine::general_purpose::STANDARD.decode(blob).unwrap(), b"a\xff\xfeb\0c");
    scene.ends_well();
}

#[test]
fn terminal_sequences_stay_out_of_the_status_and_in_the_result() {
    let script = "printf '\\033[31mred\\033[0m\\033]0;title\\007\\033]8;;http://evil\\007link\\n'; \
        while [ ! -e seen ]; do sleep 0.05; done";
    let scene = Scene::new(&tool("colours", script, ""));
    let address = scene.server.address();
    let task = begin(address, "colours", json!({}));
    let status = crate::rig::eventually("a status", || {
        modern::task(address, &task)["statusMessage"].as_str().map(str::to_owned)
    });
    assert_eq!(status, "redlink");
    fs::write(scene.place.path("seen"), "").unwrap();
    let result = ended(address, &task);
    assert!(text(&result["result"]).starts_with("\u{1b}[31mred"), "results are byte for byte");
    assert!(!scene.server.said().contains('\u{1b}'), "{:?}", scene.server.said());
    scene.ends_well();
}

#[test]
fn a_line_without_an_end_is_cut_in_the_status_and_whole_in_the_output() {
    // The status is of whole lines: the long one is whole once its end has come.
    let script = "head -c 10000000 /dev/zero | tr '\\0' x; while [ ! -e seen ]; do sleep 0.05; done; echo; \
        while [ ! -e ended ]; do sleep 0.05; done";
    let scene = Scene::new(&tool("line", script, ""));
    let address = scene.server.address();
    let task = begin(address, "line", json!({}));
    let whole = |part: &Value| part["_meta"]["dev.longhaul/output"]["total"].as_u64() == Some(10_000_000);
    crate::rig::eventually("the line", || {
        output(address, &task, "stdout").last().is_some_and(whole).then_some(())
    });
    assert_eq!(modern::task(address, &task)["statusMessage"], Value::Null, "no line is whole");
    fs::write(scene.place.path("seen"), "").unwrap();
    let status = crate::rig::eventually("a status", || {
        modern::task(address, &task)["statusMessage"].as_str().map(str::to_owned)
    });
    assert_eq!(status, "x".repeat(200));
    fs::write(scene.place.path("ended"), "").unwrap();
    let result = ended(address, &task);
    assert!(text(&result["result"]).len() <= 64 << 10);
    let (said, _) = text(&result["result"]).split_once('\n').unwrap();
    assert!(said.starts_with("(cut: the last ") && said.contains(" of 10000001 bytes of stdout;"), "{said}");
    assert!(said.ends_with(&format!("all of them: longhaul://tasks/{task}/stdout)")), "{said}");
    let read = output(address, &task, "stdout");
    let bytes: usize = read.iter().filter_map(|part| part["text"].as_str()).map(str::len).sum();
    assert_eq!(bytes, 10_000_001);
    assert!(read.iter().all(|part| part["text"].as_str().is_none_or(|text| text.len() <= 256 << 10)));
    scene.ends_well();
}

#[test]
fn what_a_result_leaves_out_of_the_output_it_says() {
    let long = "yes 0123456789abcde | head -c 100000";
    let failing = format!("{long} >&2; exit 3");
    let quick = format!("[tools.long]\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", \"{long}\"]\n");
    let scene = Scene::new(&[quick, tool("failing", &failing, "")].concat());
    let address = scene.server.address();
    // What is no task leaves nothing behind.
    let answer = call(address, "long", json!({}));
    let (said, rest) = text(&answer["result"]).split_once('\n').unwrap();
    let shown = rest.len();
    assert_eq!(said, format!("(cut: the last {shown} of 100000 bytes of stdout; the others are not kept)"));
    let task = begin(address, "failing", json!({}));
    let failed = ended(address, &task);
    let (said, _) = text(&failed["result"]).split_once('\n').unwrap();
    let whole = format!("bytes of stderr; all of them: longhaul://tasks/{task}/stderr)");
    assert!(said.starts_with("(cut: the last ") && said.ends_with(&whole), "{said}");
    scene.ends_well();
}

#[test]
fn output_that_should_be_json_and_is_not_is_an_error() {
    let scene = Scene::new(
        &[
            tool("broken", "echo '{\"a\":'", "output = \"json\""),
            tool("nested", "yes '[' | head -c 200000", "output = \"json\""),
            tool("list", "echo '[1,2]'", "output = \"json\""),
        ]
        .concat(),
    );
    let address = scene.server.address();
    for name in ["broken", "nested"] {
        let task = begin(address, name, json!({}));
        let result = ended(address, &task);
        assert_eq!(result["result"]["isError"], true, "{name}: {result}");
        let said = result["result"]["content"][1]["text"].as_str().unwrap_or_default();
        assert!(said.contains("JSON"), "{name}: {said}");
    }
    let task = begin(address, "list", json!({}));
    let listed = &ended(address, &task)["result"];
    assert_eq!((&listed["isError"], &listed["structuredContent"]), (&Value::Null, &json!([1, 2])));
    // A legacy revision allows an object alone.
    let session = Session::open(address);
    let task = session.begin("list", json!({}));
    let listed = session.ask("tasks/result", json!({"taskId": task}));
    assert_eq!(listed["result"]["structuredContent"], json!({"value": [1, 2]}), "{listed}");
    scene.ends_well();
}

/// A1 of `conformance/REQUIREMENTS.md`.
#[test]
fn s22_output_that_is_read_is_fresh_and_for_its_reader_alone() {
    let scene = Scene::new(&tool("says", "echo word", ""));
    let address = scene.server.address();
    let task = begin(address, "says", json!({}));
    ended(address, &task);
    let uri = format!("longhaul://tasks/{task}/stdout");
    let read = modern::ask(address, "resources/read", &uri, json!({"uri": uri})).message();
    assert_eq!(read["result"]["contents"][0]["text"], "word\n");
    assert_eq!((&read["result"]["ttlMs"], &read["result"]["cacheScope"]), (&json!(0), &json!("private")));
    scene.ends_well();
}

#[test]
fn s33_a_command_that_reads_finds_nothing_and_its_environment_holds_no_secret_of_ours() {
    let more = [
        tool("reads", "cat; echo done", ""),
        tool("shows", "env; ls -l /proc/self/fd | wc -l", ""),
        "[tools.secret]\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", 'test \"$TOKEN\" = hunter2secret && echo same']\n\
         task = \"always\"\nenv = { TOKEN = \"{token}\" }\ninput.token = { type = \"string\", secret = true }\n"
            .to_owned(),
    ];
    let place = Place::new(&more.concat());
    let variables = [("LONGHAUL_LOG", "trace"), ("LONGHAUL_TOKEN", "canary-of-ours"), ("PASSED_ON", "yes")];
    let mut server = Server::start_with(&place, &[], &variables);
    let address = server.address();
    let run = |tool: &str, arguments: Value| {
        let task = begin(address, tool, arguments);
        ended(address, &task)
    };
    assert_eq!(text(&run("reads", json!({}))["result"]), "done\n");
    let shown = run("shows", json!({}));
    let shown = text(&shown["result"]);
    assert!(shown.contains("PASSED_ON=yes") && !shown.contains("canary"), "{shown}");
    // But for the mark by which what a lost run leaves behind is found.
    let ours = |line: &&str| line.starts_with("LONGHAUL_") && !line.starts_with("LONGHAUL_RUN=");
    assert_eq!(shown.lines().find(ours), None);
    let used = run("secret", json!({"token": "hunter2secret"}));
    assert_eq!(text(&used["result"]), "same\n");
    let wrong = call(address, "secret", json!({"token": "hunter2secret", "more": "hunter2secret"}));
    assert!(!wrong["result"]["content"].to_string().contains("hunter2secret"), "{wrong}");
    let said = server.said();
    assert!(said.contains("ready"), "{said}");
    assert!(!said.contains("hunter2secret") && !said.contains("canary-of-ours"), "{said}");
    server.kill();
}

#[test]
fn s64_the_value_of_a_secret_input_is_shown_nowhere() {
    const SECRET: &str = "hunter2secret";
    let place = Place::new(
        "[tools.secret]\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", 'test \"$TOKEN\" = hunter2secret && echo same']\n\
         task = \"after 1h\"\nenv = { TOKEN = \"{token}\", WORD = \"{word}\" }\n\
         input.token = { type = \"string\", secret = true }\ninput.word = { type = \"string\" }\n",
    );
    let mut server = Server::start_with(&place, &[], &[("LONGHAUL_LOG", "trace")]);
    let address = server.address();
    let good = json!({"token": SECRET, "word": "plain"});
    let session = Session::open(address);
    let task = session.begin("secret", good.clone());
    let done = ended(address, &task);
    assert_eq!(text(&done["result"]), "same\n", "the command gets it");
    let mut shown = vec![
        done.to_string(),
        call(address, "secret", json!({"token": SECRET, "word": "plain", "more": SECRET})).to_string(),
        call(address, "secret", json!({"token": [SECRET]})).to_string(),
        modern::call_held(address, "secret", good).to_string(),
        session.ask("tasks/get", json!({"taskId": task})).to_string(),
        session.ask("tasks/list", json!({})).to_string(),
        session.ask("tasks/result", json!({"taskId": task})).to_string(),
    ];
    for arguments in [
        &["get", &task] as &[&str],
        &["get", &task, "--json"],
        &["list"],
        &["list", "--json"],
        &["log", &task],
        &["result", &task, "--json"],
    ] {
        let mut program = place.program();
        program.args(["tasks", "--store", "sqlite:tasks.db"]).args(arguments);
        let said = program.output().unwrap();
        assert!(said.status.success(), "{arguments:?}: {said:?}");
        let said = [said.stdout, said.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let names_arguments = said.contains("arguments");
        assert_eq!(names_arguments, said.contains("plain"), "{arguments:?}: {said}");
        assert_eq!(names_arguments, said.contains("[hidden]"), "{arguments:?}: {said}");
        shown.push(said);
    }
    shown.push(server.said());
    for said in shown {
        assert!(!said.contains(SECRET), "{said}");
    }
    server.kill();
}
