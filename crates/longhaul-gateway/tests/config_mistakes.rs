//! Every kind of mistake a configuration can have, with the whole text its author is shown.
//!
//! Each `tests/config_mistakes/NAME.toml` is checked, and what is reported must be `NAME.stderr` to the byte. Run with
//! `LONGHAUL_BLESS=1` to write those files anew, and read the difference before it is committed.

#![expect(clippy::unwrap_used, reason = "a test, and what it is built of, fails by panicking")]

use std::{collections::BTreeSet, env, ffi::OsString, fs, io, path::Path};

use longhaul_gateway::config::{
    Colour, Machine, REFERENCE, Severity, Sources, StoreUrl, check_with, file_schema, load,
};

/// A machine where `CI_TOKEN` is set and `/run/secrets/token` holds one.
struct Known;

impl Sources for Known {
    fn variable(&self, name: &str) -> Option<OsString> {
        (name == "CI_TOKEN").then(|| "s3cret".into())
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        vec![("CI_TOKEN".into(), "s3cret".into())]
    }

    fn file(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("/run/secrets/token") => Ok(b"s3cret\n".to_vec()),
            Some("/run/secrets/key") => Ok(vec![0xff, 0xfe]),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

#[test]
fn every_mistake_is_shown_to_the_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config_mistakes");
    let bless = env::var_os("LONGHAUL_BLESS").is_some();
    let mut wrong = Vec::new();
    let cases = names(&folder, "toml");
    for name in &cases {
        let text = fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
        let diagnostics = match check_with("longhaul.toml", &text, &Known) {
            Ok(checked) => checked.warnings,
            Err(diagnostics) => diagnostics,
        };
        let shown = diagnostics.render(Colour::Never);
        assert!(!shown.is_empty(), "{name}.toml has no mistake");
        let expected = folder.join(format!("{name}.stderr"));
        if bless {
            fs::write(&expected, &shown).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != shown {
            wrong.push(format!("== {name}\n{shown}"));
        }
    }
    assert!(wrong.is_empty(), "these differ from what is expected:\n\n{}", wrong.join("\n"));
    assert_eq!(cases, names(&folder, "stderr"), "each mistake needs its expected text, and no more of them");
}

/// Mistakes that an editor finds by the schema. What it cannot know (other keys, how long a duration is, what a placeholder means)
/// is left to the program.
const SEEN_BY_EDITORS: &[&str] = &[
    "answers_by_the_model",
    "arguments_apart",
    "auth_proxy",
    "auth_token_in_the_file",
    "bad_duration",
    "bad_env",
    "bad_limit",
    "bad_scope",
    "bad_size",
    "bad_store_keys",
    "bad_task_word",
    "cancel_by_the_command",
    "command_as_one_string",
    "command_with_a_number",
    "default_of_wrong_type",
    "enum_wrong",
    "job_that_calls_back",
    "job_with_unknown_keys",
    "key_not_of_this_type",
    "many_at_once",
    "misspelled_command",
    "page_for_operators_of_nothing",
    "rerun_not_for_commands",
    "server_and_its_secrets",
    "server_of_both_kinds",
    "server_of_no_revision",
    "tool_not_a_table",
    "tools_not_a_table",
    "unknown_annotation",
    "unknown_key_far_from_all",
    "unknown_key_of_input",
    "unknown_key_with_a_near_one",
    "unknown_section",
    "unknown_type",
    "unknown_word",
    "word_that_is_no_text",
    "wrong_in_two_ways",
    "wrong_type",
];

#[test]
fn an_editor_finds_what_the_schema_can_say_and_nothing_else() {
    let schema = jsonschema::draft4::new(&file_schema()).unwrap();
    let valid = |text: &str| {
        let table = toml::from_str::<toml::Table>(text).ok()?;
        Some(schema.is_valid(&serde_json::to_value(table).unwrap()))
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for example in [
        "examples/quickstart/longhaul.toml",
        "examples/existing-server/longhaul.toml",
        "examples/http-job/longhaul.toml",
        "conformance/interop/longhaul.toml",
    ] {
        assert_eq!(valid(&fs::read_to_string(root.join(example)).unwrap()), Some(true), "{example}");
    }
    assert_eq!(valid(REFERENCE), Some(true));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config_mistakes");
    let mut seen = Vec::new();
    for name in names(&folder, "toml") {
        let text = fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
        if valid(&text) == Some(false) {
            let checked = check_with("longhaul.toml", &text, &Known);
            assert!(checked.is_err(), "{name}: the program takes what the schema refuses");
            seen.push(name);
        }
    }
    assert_eq!(seen, SEEN_BY_EDITORS);
}

#[test]
fn the_configurations_of_the_readme_and_the_manual_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manual = root.join("crates/longhaul/src/manual");
    let mut pages = vec![fs::read_to_string(root.join("README.md")).unwrap()];
    pages.extend(
        names(&manual, "md")
            .iter()
            .map(|name| fs::read_to_string(manual.join(format!("{name}.md"))).unwrap()),
    );
    let blocks: Vec<&str> = pages
        .iter()
        .flat_map(|page| page.split("```toml\n").skip(1))
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() > 10);
    let schema = jsonschema::draft4::new(&file_schema()).unwrap();
    for block in blocks {
        let table: toml::Table = toml::from_str(block).unwrap();
        let mistakes: Vec<_> = schema
            .iter_errors(&serde_json::to_value(table).unwrap())
            .map(|error| error.to_string())
            .collect();
        assert!(mistakes.is_empty(), "{mistakes:?} in\n{block}");
    }
}

fn names(folder: &Path, extension: &str) -> BTreeSet<String> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

/// What `load` reports about a file with this content, with the folder left out.
fn loaded(content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("longhaul.toml");
    fs::write(&path, content).unwrap();
    report(&path)
}

fn report(path: &Path) -> String {
    let diagnostics = match load(path) {
        Ok(checked) => checked.warnings,
        Err(diagnostics) => diagnostics,
    };
    diagnostics.to_string().replace(&format!("{}/", path.parent().unwrap().display()), "")
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        report(&folder.path().join("absent.toml")),
        "\
error: absent.toml: cannot read the configuration: No such file or directory (os error 2)
 |
 = help: name the file that describes your tools
"
    );
}

#[test]
fn every_path_of_a_loaded_file_is_absolute() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let path = Path::new(folder.path().file_name().unwrap()).join("longhaul.toml");
    fs::write(&path, "[tools.a]\ndescription = \"A\"\ncommand = [\"true\"]\n").unwrap();
    assert!(path.is_relative());
    let config = load(&path).unwrap().config;
    let here = env::current_dir().unwrap().join(path.parent().unwrap());
    assert_eq!(config.tools[0].cwd, here);
    assert_eq!(config.store.url, StoreUrl::Sqlite(here.join("longhaul.db")));
}

#[test]
fn a_folder_is_no_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conf");
    fs::create_dir(&path).unwrap();
    assert_eq!(
        report(&path),
        "\
error: conf: cannot read the configuration: it is a folder
 |
 = help: name the file inside it, such as `longhaul.toml`
"
    );
}

#[test]
fn what_is_no_file_is_no_configuration_and_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conf");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    for path in [path.as_path(), Path::new("/dev/null")] {
        let said = report(path);
        assert!(said.contains("cannot read the configuration: it is a pipe, a socket or a device"), "{said}");
    }
    // Nor is one where a secret is said to be.
    assert_eq!(Machine.file(&path, 10).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn bytes_that_are_not_utf8_are_pointed_at() {
    assert_eq!(
        loaded(b"[server]\nname = \"caf\xe9\"\n"),
        "\
error: the configuration is not UTF-8 text
 --> longhaul.toml:2:12
  |
2 | name = \"caf\u{fffd}\"
  |            ^ not UTF-8
  |
  = help: save the file as UTF-8
"
    );
}

#[test]
fn a_file_larger_than_a_mebibyte_is_refused_unread() {
    let mut content = b"[server]\n#".to_vec();
    content.resize((1 << 20) + 1, b'x');
    assert_eq!(
        loaded(&content),
        "\
error: longhaul.toml: the configuration is larger than 1MiB
 |
 = help: is it the right file?
"
    );
    content.truncate(1 << 20);
    assert!(loaded(&content).contains("the configuration has no tools"), "the bound itself is allowed");
}

#[cfg(unix)]
#[test]
fn s32_a_file_that_others_can_change_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("longhaul.toml");
    fs::write(&path, "[tools.a]\ndescription = \"A\"\ncommand = [\"true\"]\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(
        report(&path),
        "\
warning: longhaul.toml: every user of this machine can change the configuration
 |
 = help: whoever changes it chooses the commands that run: `chmod o-w` it
"
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
    assert_eq!(report(&path), "");
}

#[test]
fn s35_hostile_text_in_a_file_cannot_reach_the_terminal() {
    let text = "[tools.\"a\\u001b]0;x\\u0007\"]\ncommand = [\"{\u{202e}x}\", \"{a}\", \"\\u001b[2J{b}\"]\n\"\\u001b[1m\" = 1\n";
    let shown = check_with("long\u{1b}haul.toml", text, &Known).unwrap_err().render(Colour::Never);
    let hostile = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!shown.contains(hostile), "{shown:?}");
}

#[test]
fn colour_is_the_callers_choice() {
    let diagnostics = check_with("longhaul.toml", "[tols]\n", &Known).unwrap_err();
    assert!(diagnostics.render(Colour::Always).contains("\u{1b}["));
    assert!(!diagnostics.render(Colour::Never).contains('\u{1b}'));
}

#[test]
fn a_mistake_says_where_it_is_to_programs_too() {
    let text = "[server]\n# é\nnaem = \"x\"\n\n[tools.a]\ncommand = []\n";
    let diagnostics = check_with("longhaul.toml", text, &Known).unwrap_err();
    let found: Vec<_> = diagnostics
        .iter()
        .map(|diagnostic| (diagnostics.position(diagnostic).unwrap(), diagnostic.severity()))
        .collect();
    let expected = [((3, 1), Severity::Error), ((5, 8), Severity::Warning), ((6, 11), Severity::Error)];
    assert_eq!(found, expected);
    assert_eq!((diagnostics.errors(), diagnostics.warnings()), (2, 1));
}

#[test]
fn a_flood_of_mistakes_is_cut_and_counted() {
    let text: String = (0..150).map(|n| format!("key{n} = 1\n")).collect();
    let diagnostics = check_with("longhaul.toml", &text, &Known).unwrap_err();
    assert_eq!(diagnostics.errors(), 150);
    let shown = diagnostics.render(Colour::Never);
    assert_eq!(shown.matches("error: unknown key").count(), 100);
    assert!(shown.ends_with("\nnote: 50 more mistakes are not shown\n"), "{shown}");
}
