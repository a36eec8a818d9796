//! What holds for every value a caller can send.

#![expect(clippy::unwrap_used, reason = "a test, and what it is built of, fails by panicking")]

use std::sync::LazyLock;

use longhaul_gateway::config::{CommandTool, check, escape_placeholders, file_schema};
use proptest::{collection::vec, prelude::*};

/// What editors hold a configuration against.
static SCHEMA: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::draft4::new(&file_schema()).unwrap());

/// A text of the characters that shells, option parsers and templates care about, and any others.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(
            prop::sample::select("-= {}ab\"'\\$`;|&<>*?~#\n\t\u{e9}\u{202e}".chars().collect::<Vec<_>>()),
            0..12
        )
        .prop_map(|chars| chars.into_iter().collect()),
        "\\PC{0,20}",
        Just("--".to_owned()),
        Just("-rf".to_owned()),
        Just("{a}".to_owned()),
    ]
}

/// A literal part of an argument, which is never empty and begins with no dash.
fn literal() -> impl Strategy<Value = String> {
    "[a-z=:/. ${}'\"\\\\-]{0,8}".prop_map(|text| format!("x{text}"))
}

/// One element of a command: literals and placeholders of the inputs `a`, `b` and `c`.
#[derive(Clone, Debug)]
enum Part {
    Literal(String),
    Input(usize),
}

fn element() -> impl Strategy<Value = Vec<Part>> {
    vec(prop_oneof![literal().prop_map(Part::Literal), (0..3_usize).prop_map(Part::Input)], 1..4)
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn written(element: &[Part]) -> String {
    element
        .iter()
        .map(|part| match part {
            Part::Literal(text) => escape_placeholders(text),
            Part::Input(index) => format!("{{{}}}", NAMES[*index]),
        })
        .collect()
}

/// Whether what is written is read back as these parts: neighbouring braces may not join with ours.
fn is_plain(element: &[Part]) -> bool {
    element.iter().all(|part| match part {
        Part::Literal(text) => !text.contains(['{', '}']),
        Part::Input(_) => true,
    })
}

fn tool(command: &[String], extra: &str) -> CommandTool {
    let items: Vec<String> =
        command.iter().map(|item| toml::Value::String(item.clone()).to_string()).collect();
    let text = format!(
        "[tools.t]\ndescription = \"d\"\ncommand = [\"prog\", {}]\n\
         input.a = {{ {extra} }}\ninput.b = {{ {extra} }}\ninput.c = {{ {extra} }}\n",
        items.join(", ")
    );
    check("longhaul.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}")).config.tools.remove(0)
}

fn call(values: &[String; 3]) -> String {
    let members: Vec<String> = NAMES
        .iter()
        .zip(values)
        .map(|(name, value)| format!("\"{name}\":{}", serde_json::to_string(value).unwrap()))
        .collect();
    format!("{{{}}}", members.join(","))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_value_splits_or_joins_arguments(
        elements in vec(element().prop_filter("plain", |element| is_plain(element)), 1..5),
        values in [hostile(), hostile(), hostile()],
    ) {
        let tool = tool(&elements.iter().map(|element| written(element)).collect::<Vec<_>>(), "allow_dash = true");
        let bound = tool.bind(&call(&values)).unwrap();
        let expected: Vec<String> = std::iter::once("prog".to_owned())
            .chain(elements.iter().map(|element| {
                element
                    .iter()
                    .map(|part| match part {
                        Part::Literal(text) => text.as_str(),
                        Part::Input(index) => values[*index].as_str(),
                    })
                    .collect()
            }))
            .collect();
        prop_assert_eq!(bound.argv, expected);
    }

    #[test]
    fn no_value_becomes_an_option(
        elements in vec(element().prop_filter("plain", |element| is_plain(element)), 1..5),
        values in [hostile(), hostile(), hostile()],
    ) {
        // No element is written with a dash first, so whatever begins with one has it from a value.
        let tool = tool(&elements.iter().map(|element| written(element)).collect::<Vec<_>>(), "");
        if let Ok(bound) = tool.bind(&call(&values)) {
            prop_assert!(!bound.argv.iter().any(|argument| argument.starts_with('-')), "{:?}", bound.argv);
        } else {
            prop_assert!(values.iter().any(|value| value.starts_with('-')));
        }
    }

    #[test]
    fn no_item_splits_joins_or_becomes_an_option(items in vec(hostile(), 0..6), more in hostile()) {
        let text = "[tools.t]\ndescription = \"d\"\ncommand = [\"prog\", \"{l}\", \"x{a}\"]\n\
                    input.l = { type = \"array\" }\ninput.a = {}\n";
        let tool = check("longhaul.toml", text).unwrap().config.tools.remove(0);
        let json = serde_json::json!({ "l": items, "a": more }).to_string();
        match tool.bind(&json) {
            Ok(bound) => {
                let mut expected = vec!["prog".to_owned()];
                expected.extend(items.iter().cloned());
                expected.push(format!("x{more}"));
                prop_assert!(!items.iter().any(|item| item.starts_with('-')));
                prop_assert_eq!(bound.argv, expected);
            }
            Err(_) => prop_assert!(items.iter().any(|item| item.starts_with('-'))),
        }
    }

    #[test]
    fn literal_braces_come_out_as_they_went_in(text in "[{}a-c.\"' ]{1,30}") {
        let bound = tool(&[escape_placeholders(&text), "{a}{b}{c}".to_owned()], "").bind(&call(&Default::default()));
        prop_assert_eq!(&bound.unwrap().argv[1], &text);
    }

    #[test]
    fn arguments_never_panic(arguments in "\\PC{0,60}", tail in hostile()) {
        let tool = tool(&["{a}{b}{c}".to_owned()], "required = false");
        let _ = tool.bind(&arguments).map_err(|errors| errors.to_string());
        let _ = tool.bind(&format!("{{\"a\":{tail}")).map_err(|errors| errors.to_string());
    }

    #[test]
    fn a_file_never_panics(
        text in prop_oneof![
            "\\PC{0,200}",
            // What looks like a configuration reaches deeper than noise does.
            vec(
                prop::sample::select(vec![
                    "[tools.t]\n", "[server]\n", "[http]\n", "[store]\n", "command = [", "\"sh\", ", "\"-c\", ",
                    "\"{a} '{b}' \\\"{c}\", ", "]\n", "input.a = { ", "type = \"integer\", ", "default = -3, ",
                    "enum = [1, \"x\"], ", "}\n", "pattern = \"[\", ", "ttl = \"9d\"\n", "task = \"after\"\n",
                    "env.A = ", "{ from = \"x\" }\n", "\u{e9}", "\r\n", "\"\"\"", "stdin = '{x}'\n", "= ", "3\n",
                ]),
                0..25,
            )
            .prop_map(|parts| parts.concat()),
        ],
    ) {
        match check("longhaul.toml", &text) {
            Ok(checked) => {
                prop_assert_eq!(checked.warnings.errors(), 0);
                let json = serde_json::to_value(toml::from_str::<toml::Table>(&text).unwrap()).unwrap();
                prop_assert!(SCHEMA.is_valid(&json), "without mistakes, and not valid:\n{text}");
            }
            Err(mistakes) => {
                prop_assert!(mistakes.errors() > 0);
                prop_assert!(mistakes.to_string().contains("error: "));
            }
        }
    }
}
