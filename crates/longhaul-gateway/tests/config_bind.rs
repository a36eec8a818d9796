//! What the arguments of a call become, and what is refused before anything runs.

#![expect(clippy::unwrap_used, reason = "a test, and what it is built of, fails by panicking")]

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use longhaul_gateway::config::{
    ArgumentError, Bound, CommandTool, EnvError, Reach, Rule, Sources, check, check_with,
};

/// The one tool of a configuration with these lines in it.
fn tool(lines: &str) -> CommandTool {
    let text = format!("[tools.t]\ndescription = \"d\"\n{lines}");
    match check("conf/longhaul.toml", &text) {
        Ok(checked) => checked.config.tools.into_iter().next().unwrap(),
        Err(mistakes) => panic!("{mistakes}"),
    }
}

fn argv(tool: &CommandTool, arguments: &str) -> Vec<String> {
    tool.bind(arguments).unwrap_or_else(|errors| panic!("{errors}")).argv
}

/// The whole message that a caller gets.
fn refused(tool: &CommandTool, arguments: &str) -> String {
    match tool.bind(arguments) {
        Ok(bound) => panic!("not refused: {bound:?}"),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn a_placeholder_fills_its_place_inside_one_argument() {
    let tool = tool("command = [\"x\", \"--p={a}:{b}\", \"{a}\"]\ninput.a = {}\ninput.b = {}\n");
    assert_eq!(argv(&tool, r#"{"a":"1 2","b":"\"$(x)\" ; *"}"#), ["x", "--p=1 2:\"$(x)\" ; *", "1 2"]);
    assert_eq!(argv(&tool, r#"{"a":"","b":""}"#), ["x", "--p=:", ""], "an empty value is still an argument");
}

#[test]
fn s30_a_value_is_never_expanded_again() {
    let tool = tool("command = [\"x\", \"{a}\", \"{b}\"]\ninput.a = {}\ninput.b = {}\n");
    assert_eq!(argv(&tool, r#"{"a":"{b}","b":"{{a}}"}"#), ["x", "{b}", "{{a}}"]);
}

#[test]
fn a_list_alone_becomes_one_argument_for_each_item() {
    let tool = tool("command = [\"x\", \"{files}\", \"end\"]\ninput.files = { type = \"array\" }\n");
    assert_eq!(argv(&tool, r#"{"files":["a b","c",""]}"#), ["x", "a b", "c", "", "end"]);
    assert_eq!(argv(&tool, r#"{"files":[]}"#), ["x", "end"]);
}

#[test]
fn what_names_an_input_left_out_is_left_out_with_it() {
    let tool = tool(
        "command = [\"x\", \"--only={a}\", \"{a}\", \"{l}\", \"{b}\"]\nenv.A = \"<{a}>\"\nenv.B = \"<{b}>\"\n\
         input.a = { required = false }\ninput.b = { default = \"b\" }\n\
         input.l = { type = \"array\", required = false }\n",
    );
    let bound = tool.bind("{}").unwrap();
    assert_eq!(bound.argv, ["x", "b"]);
    assert_eq!(bound.environment(&Machine::default()).unwrap(), [("B".into(), "<b>".into())]);
    assert_eq!(argv(&tool, r#"{"a":"1","l":["2"],"b":"3"}"#), ["x", "--only=1", "1", "2", "3"]);
}

#[test]
fn numbers_and_booleans_have_one_spelling() {
    let tool = tool(
        "command = [\"x\", \"{i}\", \"{n}\", \"{b}\"]\n\
         input.i = { type = \"integer\" }\ninput.n = { type = \"number\" }\ninput.b = { type = \"boolean\" }\n",
    );
    assert_eq!(argv(&tool, r#"{"i":3.0,"n":1.50,"b":true}"#), ["x", "3", "1.5", "true"]);
    assert_eq!(argv(&tool, r#"{"i":1e3,"n":2.0,"b":false}"#), ["x", "1000", "2", "false"]);
}

#[test]
fn equal_calls_have_equal_arguments() {
    let tool = tool(
        "command = [\"x\", \"{a}\", \"{n}\", \"{o}\"]\ninput.a = {}\n\
         input.n = { type = \"number\", default = 2.0 }\ninput.o = { required = false }\n",
    );
    let arguments = |json: &str| tool.bind(json).unwrap().arguments;
    assert_eq!(arguments(r#"{ "n": 2.0, "a": "\u0041" }"#), r#"{"a":"A","n":2}"#);
    assert_eq!(arguments(r#"{"a":"A"}"#), r#"{"a":"A","n":2}"#);
}

#[test]
fn s31_a_value_that_would_be_an_option_is_refused() {
    let tool = tool("command = [\"x\", \"{a}\", \"{a}{b}\"]\ninput.a = {}\ninput.b = {}\n");
    assert_eq!(
        refused(&tool, r#"{"a":"-rf","b":""}"#),
        "tool `t` was not run: `a` must not begin with `-`, for it would be read as an option: \"-rf\"; the author of \
         the configuration can let it pass: `allow_dash = true`\n\
         usage: t(a: string, b: string)"
    );
    let message = refused(&tool, r#"{"a":"","b":"-x"}"#);
    assert!(
        message.contains("`b` must not begin with `-`"),
        "the empty one before it is no shelter: {message}"
    );
    assert_eq!(argv(&tool, r#"{"a":"a-","b":"-x"}"#), ["x", "a-", "a--x"]);
}

#[test]
fn s31_items_and_numbers_are_options_as_well() {
    let tool = tool(
        "command = [\"x\", \"{l}\", \"{n}\"]\ninput.l = { type = \"array\" }\ninput.n = { type = \"integer\" }\n",
    );
    let errors = tool.bind(r#"{"l":["a","-b"],"n":-1}"#).unwrap_err();
    let found: Vec<_> = errors
        .errors()
        .iter()
        .map(|error| match error {
            ArgumentError::Value { name, violation } => {
                (name.as_str(), violation.item(), violation.rule().clone())
            }
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(found, [("l", Some(1), Rule::NoDash), ("n", None, Rule::NoDash)]);
}

#[test]
fn a_dash_is_allowed_where_it_can_do_no_harm() {
    let behind = tool("command = [\"x\", \"--\", \"{a}\"]\ninput.a = {}\n");
    assert_eq!(argv(&behind, r#"{"a":"-rf"}"#), ["x", "--", "-rf"]);
    let said = tool("command = [\"x\", \"{a}\"]\ninput.a = { allow_dash = true }\n");
    assert_eq!(argv(&said, r#"{"a":"-rf"}"#), ["x", "-rf"]);
    let within = tool("command = [\"x\", \"--n={a}\", \"-j{a}\"]\ninput.a = {}\n");
    assert_eq!(argv(&within, r#"{"a":"-1"}"#), ["x", "--n=-1", "-j-1"]);
    let elsewhere = tool("command = [\"x\"]\nstdin = \"{a}\"\nenv.A = \"{a}\"\ninput.a = {}\n");
    assert_eq!(elsewhere.bind(r#"{"a":"-rf"}"#).unwrap().stdin.as_deref(), Some("-rf"));
}

#[test]
fn s31_a_separator_behind_the_value_does_not_shelter_it() {
    let tool = tool("command = [\"x\", \"{a}\", \"--\", \"y\"]\ninput.a = {}\n");
    assert!(tool.bind(r#"{"a":"-rf"}"#).is_err());
    assert!(tool.bind(r#"{"a":"--"}"#).is_err());
}

#[test]
fn all_mistakes_of_a_call_are_told_at_once() {
    let tool = tool(
        "command = [\"x\", \"{crate}\", \"{mode}\", \"{jobs}\", \"{name}\", \"{files}\"]\n\
         input.crate = {}\n\
         input.mode = { enum = [\"debug\", \"release\"], default = \"debug\" }\n\
         input.jobs = { type = \"integer\", minimum = 1, maximum = 8, required = false }\n\
         input.name = { pattern = \"^[a-z]+$\", required = false }\n\
         input.files = { type = \"array\", required = false }\n",
    );
    assert_eq!(
        refused(
            &tool,
            r#"{"crat":"x","mode":"fast","jobs":9,"name":"A1","files":["a",1],"zzzzz":1,"name":"b"}"#
        ),
        "\
tool `t` was not run: 8 mistakes in its arguments
- there is no argument `crat`; did you mean `crate`?
- `mode` must be one of \"debug\", \"release\", not \"fast\"
- `jobs` must be at most 8, not 9
- `name` must match the pattern `^[a-z]+$`, not \"A1\"
- `files[1]` must be a string, not a number
- there is no argument `zzzzz`
- `name` is passed twice
- `crate` is missing: it is required and must be a string
usage: t(crate: string, mode?: string = \"debug\", jobs?: integer, name?: string, files?: array)"
    );
}

#[test]
fn each_type_refuses_the_others() {
    let tool = tool(
        "command = [\"x\", \"{s}\", \"{i}\", \"{n}\", \"{b}\", \"{l}\"]\n\
         input.s = { required = false }\ninput.i = { type = \"integer\", required = false }\n\
         input.n = { type = \"number\", required = false }\ninput.b = { type = \"boolean\", required = false }\n\
         input.l = { type = \"array\", required = false }\n",
    );
    for (arguments, expected) in [
        (r#"{"s":1}"#, "`s` must be a string, not a number"),
        (r#"{"s":null}"#, "`s` must be a string, not null; leave it out instead"),
        (r#"{"s":{"a":1}}"#, "`s` must be a string, not an object"),
        (r#"{"s":"\ud800"}"#, "`s` must be a string, not a string with half a surrogate pair"),
        (r#"{"i":"1"}"#, "`i` must be an integer, not a string"),
        (r#"{"i":1.5}"#, "`i` must be a whole number, not 1.5"),
        (
            r#"{"i":9223372036854775808}"#,
            "`i` must be a number that 64 bits can hold, not 9223372036854775808",
        ),
        (r#"{"n":true}"#, "`n` must be a number, not a boolean"),
        (r#"{"n":1e999}"#, "`n` must be a number that 64 bits can hold, not 1e999"),
        (r#"{"b":"true"}"#, "`b` must be a boolean, not a string"),
        (r#"{"b":1}"#, "`b` must be a boolean, not a number"),
        (r#"{"l":"a"}"#, "`l` must be an array of strings, not a string"),
        (r#"{"l":[null]}"#, "`l[0]` must be a string, not null"),
        (r#"{"s":"a\u0000b"}"#, "`s` must not contain a NUL character"),
        ("[]", "the arguments must be an object, not an array"),
        ("null", "the arguments must be an object, not null"),
        (" {\"s\":}", "the arguments must be an object, not broken JSON"),
        ("", "the arguments must be an object, not broken JSON"),
    ] {
        let message = refused(&tool, arguments);
        let line = message.lines().next().unwrap();
        assert_eq!(line, format!("tool `t` was not run: {expected}"), "{arguments}");
    }
}

#[test]
fn values_longer_than_the_system_takes_are_refused() {
    let tool = tool(
        "command = [\"x\", \"--a={a}\"]\nenv.VALUE = \"{b}\"\ninput.a = { required = false }\n\
         input.b = { required = false }\n",
    );
    let call = |name: &str, length: usize| format!(r#"{{"{name}":"{}"}}"#, "x".repeat(length));
    let limit = 128 * 1024;
    assert!(tool.bind(&call("a", limit - 1 - "--a=".len())).is_ok());
    assert!(
        refused(&tool, &call("a", limit - "--a=".len())).contains("`a` make an argument 131072 bytes long")
    );
    assert!(
        refused(&tool, &call("a", limit + 1)).contains("`a` must be at most 131072 bytes long, not 131073")
    );
    assert!(tool.bind(&call("b", limit - 1 - "VALUE=".len())).is_ok());
    assert!(refused(&tool, &call("b", limit - "VALUE=".len())).contains("the variable `VALUE`"));
}

#[test]
fn a_command_line_longer_than_the_system_takes_is_refused() {
    let tool = tool("command = [\"x\", \"{l}\"]\ninput.l = { type = \"array\" }\n");
    let items =
        |count: usize| format!(r#"{{"l":[{}]}}"#, vec![format!("{:?}", "y".repeat(1023)); count].join(","));
    assert!(tool.bind(&items(1023)).is_ok());
    let message = refused(&tool, &items(1024));
    assert!(message.contains("the arguments make the command line 1048578 bytes long"), "{message}");
}

#[test]
fn messages_stay_short_whatever_is_sent() {
    let tool = tool(
        "command = [\"x\", \"{a}\", \"{l}\"]\ninput.a = { enum = [\"b\"] }\ninput.l = { type = \"array\", pattern = \"^a$\" }\n",
    );
    let long = "é".repeat(60_000);
    let unknown: Vec<String> = (0..1000).map(|n| format!("\"{n}{long:.200}\":1")).collect();
    let items = vec!["\"b\""; 5000].join(",");
    let call = format!("{{\"a\":\"{long}\",\"l\":[{items}],{}}}", unknown.join(","));
    let message = refused(&tool, &call);
    assert!(message.len() < 8_000, "{}", message.len());
    assert!(message.contains("- and 989 more"), "{message}");
}

#[test]
fn s64_a_secret_is_in_no_message() {
    let tool = tool(
        "command = [\"x\", \"{k}\", \"--l={l}\"]\nstdin = \"{t}\"\nenv.T = \"{t}\"\n\
         input.t = { secret = true, pattern = \"^[a-z0-9]+$\" }\n\
         input.k = { secret = true, type = \"integer\", minimum = 5, required = false }\n\
         input.l = { secret = true, required = false }\n",
    );
    for wrong in [
        r#"{"t":"HUNTER2"}"#,
        r#"{"t":"a","k":2222}"#,
        r#"{"t":"a","k":-2222}"#,
        r#"{"t":"a","k":0.2222}"#,
        r#"{"t":"a","l":"HUNTER2\u0000"}"#,
    ] {
        if let Err(errors) = tool.bind(wrong) {
            let said = format!("{errors} {errors:?}");
            assert!(!said.contains("HUNTER2") && !said.contains("2222"), "{said}");
        }
    }
    let bound = tool.bind(r#"{"t":"hunter2","k":7777,"l":"hunter2"}"#).unwrap();
    let said = format!("{bound:?} {tool:?} {:?}", bound.shown_argv());
    assert!(!said.contains("hunter2") && !said.contains("7777"), "{said}");
    assert_eq!(bound.shown_argv(), ["x", "[hidden]", "--l=[hidden]"]);
    assert_eq!(bound.argv, ["x", "7777", "--l=hunter2"]);
}

#[test]
fn standard_input_is_a_text_with_placeholders() {
    let given = |tool: &CommandTool, arguments: &str| tool.bind(arguments).unwrap().stdin;
    assert_eq!(given(&tool("command = [\"x\"]\n"), "{}"), None);
    assert_eq!(given(&tool("command = [\"x\"]\nstdin = \"\"\n"), "{}").as_deref(), Some(""));
    let around = tool("command = [\"x\"]\nstdin = \"a {b} {{b}}\\n\"\ninput.b = { required = false }\n");
    assert_eq!(given(&around, r#"{"b":"x\ny"}"#).as_deref(), Some("a x\ny {b}\n"));
    assert_eq!(given(&around, "{}").as_deref(), Some("a  {b}\n"));
    let sole = tool("command = [\"x\"]\nstdin = \"{b}\"\ninput.b = { required = false }\n");
    assert_eq!(given(&sole, "{}"), None, "nothing to read is `/dev/null`");
}

#[test]
fn relative_folders_start_at_the_file() {
    assert_eq!(tool("command = [\"x\"]\n").cwd, PathBuf::from("conf"));
    assert_eq!(tool("command = [\"x\"]\ncwd = \"sub\"\n").cwd, PathBuf::from("conf/sub"));
    assert_eq!(tool("command = [\"x\"]\ncwd = \"/srv\"\n").cwd, PathBuf::from("/srv"));
}

/// A machine with these variables and one file.
#[derive(Default)]
struct Machine {
    variables: Vec<(&'static str, &'static str)>,
    file: Vec<u8>,
}

impl Sources for Machine {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.iter().find(|(found, _)| *found == name).map(|(_, value)| value.into())
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn file(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        assert_eq!(path, Path::new("conf/token"));
        match self.file.as_slice() {
            [] => Err(io::ErrorKind::NotFound.into()),
            content => Ok(content[..content.len().min(limit)].to_vec()),
        }
    }
}

/// A call of a tool whose variables come from everywhere.
fn with_variables() -> Bound {
    let tool = tool(
        "command = [\"x\"]\nenv.PATH = \"/bin\"\nenv.MODE = \"{m}\"\nenv.TOKEN = { from = \"env:LONGHAUL_CI\" }\n\
         env.KEY = { from = \"file:token\" }\ninput.m = {}\n",
    );
    assert_eq!(tool.env_sources().map(|(name, _)| name).collect::<Vec<_>>(), ["TOKEN", "KEY"]);
    tool.bind(r#"{"m":"fast"}"#).unwrap()
}

#[test]
fn a_command_sees_the_servers_environment_without_the_servers_own_variables() {
    let machine = Machine {
        variables: vec![("HOME", "/h"), ("PATH", "/usr/bin"), ("LONGHAUL_CI", "t"), ("LONGHAUL_STORE", "s")],
        file: b"k\n".to_vec(),
    };
    let expected: Vec<(OsString, OsString)> =
        [("HOME", "/h"), ("PATH", "/bin"), ("MODE", "fast"), ("TOKEN", "t"), ("KEY", "k")]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec();
    let mut found = with_variables().environment(&machine).unwrap();
    let mut sorted = expected;
    sorted.sort();
    found.sort();
    assert_eq!(found, sorted);
}

#[test]
fn a_program_sees_no_secret_that_is_for_another() {
    let text = r#"
        [store]
        keys = ["env:STORE_KEY"]
        [auth.tokens.ci]
        from = "env:CI_TOKEN"
        [tools.plain]
        command = ["x"]
        [tools.named]
        command = ["x"]
        env.TOKEN = { from = "env:DEPLOY_TOKEN" }
        env.PGPASSWORD = { from = "env:PGPASSWORD" }
        env.BASE = { from = "env:HOME" }
        [servers.files]
        command = ["files"]
        [servers.notes]
        url = "https://notes.example/mcp"
        headers.Authorization = { from = "env:NOTES_TOKEN" }
    "#;
    let machine = Machine {
        variables: vec![
            ("HOME", "/h"),
            ("LANG", "C"),
            ("PGPASSWORD", "p"),
            ("REDISCLI_AUTH", "r"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=o"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization=t"),
            ("APP_SECRET", "a"),
            ("STORE_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
            ("CI_TOKEN", "c"),
            ("DEPLOY_TOKEN", "d"),
            ("NOTES_TOKEN", "n"),
        ],
        file: Vec::new(),
    };
    let mut config = check_with("conf/longhaul.toml", text, &machine).unwrap().config;
    // The server signs in with it, which the file does not say.
    config.withhold(["APP_SECRET", "HOME"].map(str::to_owned).into());
    let of = |environment: Vec<(OsString, OsString)>| {
        let mut names: Vec<String> =
            environment.into_iter().map(|(name, _)| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let tool = |name: &str| of(config.tool(name).unwrap().bind("{}").unwrap().environment(&machine).unwrap());
    assert_eq!(tool("plain"), ["HOME", "LANG"], "what every program needs stays, though it be read");
    assert_eq!(tool("named"), ["BASE", "HOME", "LANG", "PGPASSWORD", "TOKEN"]);
    let Reach::Command(files) = &config.servers[0].reach else { panic!("a program") };
    assert_eq!(of(files.environment(&machine).unwrap()), ["HOME", "LANG"]);
}

#[test]
fn a_variable_without_its_source_fails_the_call() {
    let call = with_variables();
    let unset = call.environment(&Machine { file: b"k".to_vec(), ..Machine::default() }).unwrap_err();
    assert_eq!(unset.to_string(), "the environment variable `LONGHAUL_CI` is not set");
    let variables = vec![("LONGHAUL_CI", "t")];
    let missing = call.environment(&Machine { variables: variables.clone(), file: Vec::new() }).unwrap_err();
    assert!(matches!(missing, EnvError::Unreadable { .. }), "{missing}");
    for (content, said) in [
        (b"a\0b".to_vec(), "cannot use `conf/token`: it holds a NUL character"),
        (vec![0xff], "cannot use `conf/token`: it is not UTF-8 text"),
        (vec![b'x'; 1 << 20], "cannot use `conf/token`: it is too long for a variable"),
    ] {
        let error = call.environment(&Machine { variables: variables.clone(), file: content }).unwrap_err();
        assert_eq!(error.to_string(), said);
    }
}
