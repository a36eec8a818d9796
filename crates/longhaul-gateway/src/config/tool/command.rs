//! Checking the texts of a tool that take placeholders: its command line, environment and standard input.

use std::ops::Range;

use super::{
    interpreter::Language,
    runs::{By, runs},
    script::{Script, scripts},
};
use crate::config::{
    diagnostic::{Diagnostic, Edit},
    input::{Kind, Presence, read::Declared},
    reader::{At, Reader, quoted},
    spelling::nearest,
    template::{Template, Token, tokens, unclosed},
    value::Number,
};

/// Resolves one text, reporting placeholders that name no input and marking the inputs used.
pub(super) fn template(
    reader: &mut Reader<'_>,
    tool: &str,
    text: &At<&str>,
    inputs: &mut [Declared],
) -> Option<Template> {
    for token in tokens(text.value) {
        let Token::Input { name, at } = token else { continue };
        if let Some(input) = inputs.iter_mut().find(|input| input.name == name) {
            input.used = true;
            continue;
        }
        let placeholder = &text.value[at.clone()];
        let span = place_of(reader.source(), text, at);
        let message = format!("`{placeholder}` names no input of {tool}");
        let shown = if spans_lines(reader.source(), &text.span) { &span } else { &text.span };
        let diagnostic = Diagnostic::error(message).at(shown.clone(), "no such input");
        let near = nearest(name, inputs.iter().map(|input| input.name.as_str())).map(str::to_owned);
        reader.push(match near {
            Some(near) => {
                // The one that was meant is not also unused.
                inputs.iter_mut().filter(|input| input.name == near).for_each(|input| input.used = true);
                diagnostic.fix(
                    format!("an input with a similar name exists: `{near}`"),
                    edit(reader.source(), &span, placeholder, &format!("{{{near}}}")),
                )
            }
            None => diagnostic.help(format!("to make it an input, declare `input.{name}`")).fix(
                format!("to pass the text `{placeholder}` as it is, write `{{{placeholder}}}`"),
                edit(reader.source(), &span, placeholder, &format!("{{{placeholder}}}")),
            ),
        });
    }
    for (name, at) in unclosed(text.value) {
        let Some(input) = inputs.iter_mut().find(|input| input.name == name) else { continue };
        // Nobody has to be told besides that it is used nowhere.
        input.used = true;
        let (span, brace) = (place_of(reader.source(), text, at.clone()), &text.value[at]);
        let message =
            format!("`{brace}` of {tool} is not closed and passed as it is, though `{name}` is an input");
        let shown = if spans_lines(reader.source(), &text.span) { &span } else { &text.span };
        // A warning: there is no other way to write this text, should it be meant.
        reader.push(Diagnostic::warning(message).at(shown.clone(), "no `}` behind it").fix(
            format!("for its value, write `{brace}}}`"),
            edit(reader.source(), &span, brace, &format!("{brace}}}")),
        ));
    }
    if text.value.contains('\0') {
        let message = format!("a text of {tool} holds a NUL character, which no program can be given");
        reader.push(Diagnostic::error(message).at(text.span.clone(), "holds a NUL character"));
    }
    Template::resolve(text.value, |name| inputs.iter().position(|input| input.name == name))
}

/// Reports inputs that take a list where there is no room for more than one value.
pub(super) fn reject_lists(
    reader: &mut Reader<'_>,
    tool: &str,
    place: &str,
    text: &At<&str>,
    template: &Template,
    inputs: &[Declared],
) {
    for name in template.inputs().filter_map(|index| {
        let declared = &inputs[index];
        matches!(declared.input.as_ref()?.kind, Kind::Array(_)).then_some(&declared.name)
    }) {
        let message = format!("`{{{name}}}` of {tool} is a list, and {place} takes one value");
        reader.push(
            Diagnostic::error(message).at(text.span.clone(), "one value only").help(format!(
                "write \"{{{name}}}\" as an argument of its own: each item becomes one argument"
            )),
        );
    }
}

/// Checks a command line whose placeholders are known.
pub(super) fn command(
    reader: &mut Reader<'_>,
    tool: &str,
    words: &[At<&str>],
    templates: &[Template],
    inputs: &[Declared],
) {
    program(reader, tool, &words[0], &templates[0], inputs);
    reject_choice(reader, tool, words, templates, inputs);
    let found = scripts(&words.iter().map(|word| word.value).collect::<Vec<_>>());
    let mut ended = false;
    for (index, (word, template)) in words.iter().zip(templates).enumerate() {
        if template.as_literal() == Some("--") {
            ended = true;
        }
        if template.sole_input().is_none() {
            reject_lists(reader, tool, "a part of an argument", word, template, inputs);
        }
        if let Some(script) = found.iter().find(|script| script.arguments.contains(&index)) {
            reject_script(reader, tool, words, index, template, inputs, script);
        }
        if index > 0 && !ended {
            reject_dashes(reader, word, template, inputs);
        }
        warn_of_open_option(reader, tool, word, template, inputs);
        warn_of_secret(reader, tool, word, template, inputs);
    }
}

fn program(reader: &mut Reader<'_>, tool: &str, word: &At<&str>, template: &Template, inputs: &[Declared]) {
    if word.value.trim().is_empty() {
        let message = format!("the program of {tool} is empty");
        let help = "the first item of `command` is the program to run";
        reader.push(Diagnostic::error(message).at(word.span.clone(), "no program").help(help));
        return;
    }
    for declared in template.inputs().map(|index| &inputs[index]) {
        let Some(input) = &declared.input else { continue };
        let name = &declared.name;
        let (message, help) = if !input.kind.is_closed() {
            let message = format!("`{{{name}}}` lets the caller choose the program that {tool} runs");
            (message, format!("name the program here, or list the allowed ones in `enum` of `input.{name}`"))
        } else if input.presence == Presence::Optional || matches!(input.kind, Kind::Array(_)) {
            // What is left out goes with its argument, and the next one would be the program.
            let message = format!("`{{{name}}}` can be nothing, and {tool} would have no program");
            (message, format!("give `input.{name}` a `default`, or let it be required, and no list"))
        } else {
            continue;
        };
        reader.push(Diagnostic::error(message).at(word.span.clone(), "the program to run").help(help));
    }
}

/// Reports words behind the program that say what is run, where the caller may write them freely.
fn reject_choice(
    reader: &mut Reader<'_>,
    tool: &str,
    words: &[At<&str>],
    templates: &[Template],
    inputs: &[Declared],
) {
    let mut left: Vec<usize> = (0..words.len()).collect();
    let mut seen = vec![false; words.len()];
    loop {
        let argv: Vec<&str> = left.iter().map(|index| words[*index].value).collect();
        let mut may_go = None;
        for run in runs(&argv) {
            let index = left[run.at];
            for declared in templates[index].inputs().map(|input| &inputs[input]) {
                let Some(input) = &declared.input else { continue };
                let is_list = matches!(input.kind, Kind::Array(_));
                if input.presence == Presence::Optional || is_list || input.allow_dash {
                    may_go = may_go.or(Some(run.at));
                }
                let is_number = matches!(input.kind, Kind::Integer(_) | Kind::Number(_));
                let is_harmless = input.kind.is_closed() || is_number && matches!(run.by, By::Text(_));
                if !is_harmless && !seen[index] {
                    reader.push(
                        choice(tool, &declared.name, &run.by).at(words[index].span.clone(), "what is run"),
                    );
                }
            }
            seen[index] = true;
        }
        // Where it can be nothing or an option, the next word is what is run.
        match may_go {
            Some(at) => drop(left.remove(at)),
            None => return,
        }
    }
}

fn choice(tool: &str, name: &str, by: &By) -> Diagnostic {
    let (what, instead) = match by {
        By::Wrapper => (format!("the program that {tool} runs"), "name the program here"),
        By::Interpreter(interpreter) => {
            (format!("what `{interpreter}` runs for {tool}"), "name the script here")
        }
        By::Text(program) => {
            (format!("the script that `{program}` runs for {tool}"), "write the script here")
        }
    };
    let help = format!("{instead}, or list the allowed ones in `enum` of `input.{name}`");
    Diagnostic::error(format!("`{{{name}}}` lets the caller choose {what}")).help(help)
}

fn reject_script(
    reader: &mut Reader<'_>,
    tool: &str,
    words: &[At<&str>],
    index: usize,
    template: &Template,
    inputs: &[Declared],
    script: &Script,
) {
    let Some(input) = template.inputs().next() else { return };
    let name = &inputs[input].name;
    let word = &words[index];
    let spelling = &script.spelling;
    let message = format!("`{{{name}}}` of {tool} stands in the script of `{spelling}`");
    let label = "a value here becomes code";
    let diagnostic = if script.certain {
        Diagnostic::error(message).at(word.span.clone(), label)
    } else {
        Diagnostic::warning(message).at(word.span.clone(), label)
    };
    reader.push(match script.language {
        Language::Posix | Language::Fish => match positional(words, index, script.language) {
            Some((position, edits)) => {
                diagnostic.fix(format!("pass it as an argument of the script, there as `{position}`"), edits)
            }
            None => diagnostic.help("pass it as an argument of the script, there as `$1`"),
        },
        Language::Arguments(expression) => diagnostic.help(format!(
            "put \"{{{name}}}\" after the script as an argument of its own, and read it there as `{expression}`"
        )),
        Language::Joined => diagnostic.help(format!(
            "`{spelling}` makes one text of its arguments and gives it to a shell: write a script file, and run that"
        )),
    });
}

/// The edits that move the placeholders of a shell script into its arguments, and the first one's new name.
fn positional(words: &[At<&str>], index: usize, language: Language) -> Option<(String, Vec<Edit>)> {
    let text = words[index].value;
    let behind = words.len() - index - 1;
    // A POSIX shell takes the first argument behind the script as `$0`.
    let (variable, mut next, name) = match language {
        Language::Posix => ("$", behind.max(1), (behind == 0).then_some("sh")),
        _ => ("$argv", behind + 1, None),
    };
    let mut rewritten = String::new();
    let mut added: Vec<String> = name.into_iter().map(quoted).collect();
    let mut first = None;
    let mut done = 0;
    for token in tokens(text) {
        let Token::Input { name, at } = token else { continue };
        let literal = text.get(done..at.start)?;
        rewritten.push_str(literal);
        let position = match language {
            Language::Posix if next > 9 => format!("${{{next}}}"),
            Language::Posix => format!("{variable}{next}"),
            _ => format!("{variable}[{next}]"),
        };
        done = at.end;
        // Quotes right around the placeholder are replaced; within longer ones the text goes on around it.
        match quote_at(&text[..at.start]) {
            Some(quote) if literal.ends_with(quote) && text[at.end..].starts_with(quote) => {
                rewritten.pop();
                rewritten.push_str(&format!("\"{position}\""));
                done += 1;
            }
            Some('\'') => rewritten.push_str(&format!("'\"{position}\"'")),
            Some(_) => rewritten.push_str(&position),
            None => rewritten.push_str(&format!("\"{position}\"")),
        }
        first.get_or_insert(position);
        added.push(quoted(&format!("{{{name}}}")));
        next += 1;
    }
    rewritten.push_str(&text[done..]);
    let added = added.join(", ");
    let edits = if behind == 0 {
        vec![Edit::new(words[index].span.clone(), format!("{}, {added}", quoted(&rewritten)))]
    } else {
        let end = words.last()?.span.end;
        vec![
            Edit::new(words[index].span.clone(), quoted(&rewritten)),
            Edit::new(end..end, format!(", {added}")),
        ]
    };
    Some((first?, edits))
}

/// The shell quote that is open at the end of `script`.
fn quote_at(script: &str) -> Option<char> {
    let mut open = None;
    let mut chars = script.chars();
    while let Some(c) = chars.next() {
        match (open, c) {
            (Some('\''), '\'') | (Some('"'), '"') => open = None,
            (None, '\'' | '"') => open = Some(c),
            (None | Some('"'), '\\') => {
                chars.next();
            }
            _ => {}
        }
    }
    open
}

/// Reports values that the author named and that could never be passed, for they begin with `-`.
fn reject_dashes(reader: &mut Reader<'_>, word: &At<&str>, template: &Template, inputs: &[Declared]) {
    let Some(declared) = template.first_input().map(|index| &inputs[index]) else { return };
    let Some(input) = declared.input.as_ref().filter(|input| !input.allow_dash) else { return };
    let name = &declared.name;
    let help = format!("say `allow_dash = true` in `input.{name}`, or put an argument \"--\" before it");
    if let Some(diagnostic) = below_zero(name, &input.kind, &declared.bounds) {
        reader.push(diagnostic.at(word.span.clone(), "becomes an argument here").help(help.clone()));
    }
    for value in &declared.dashes {
        let message =
            format!("`{}` can never be passed as `{{{name}}}`: it would be read as an option", value.value);
        reader.push(
            Diagnostic::error(message)
                .at(value.span.clone(), "begins with `-`")
                .at(word.span.clone(), "becomes an argument here")
                .help(help.clone()),
        );
    }
}

/// What is wrong with a range whose author wants numbers below 0 where none can be passed: with all of it, or a part.
fn below_zero(name: &str, kind: &Kind, bounds: &[Option<Range<usize>>; 2]) -> Option<Diagnostic> {
    let (no_choices, minimum, maximum) = match kind {
        Kind::Integer(range) => {
            let negative = |bound: &Option<i64>| bound.is_some_and(|bound| bound < 0);
            (range.choices.is_empty(), negative(&range.minimum), negative(&range.maximum))
        }
        Kind::Number(range) => {
            let negative = |bound: &Option<Number>| bound.as_ref().is_some_and(|bound| bound.as_f64() < 0.0);
            (range.choices.is_empty(), negative(&range.minimum), negative(&range.maximum))
        }
        _ => return None,
    };
    match bounds {
        [_, Some(span)] if no_choices && maximum => {
            let message =
                format!("no value of `{{{name}}}` can ever be passed: each would be read as an option");
            Some(Diagnostic::error(message).at(span.clone(), "all begin with `-`"))
        }
        [Some(span), _] if no_choices && minimum => {
            let message =
                format!("no value below 0 can be passed as `{{{name}}}`: it would be read as an option");
            Some(Diagnostic::warning(message).at(span.clone(), "callers are told that 0 is the least"))
        }
        _ => None,
    }
}

/// Warns where the author wrote only the dashes of an option and leaves its name to the caller.
fn warn_of_open_option(
    reader: &mut Reader<'_>,
    tool: &str,
    word: &At<&str>,
    template: &Template,
    inputs: &[Declared],
) {
    let Some(index) = template.input_behind_dashes() else { return };
    let open = inputs[index].input.as_ref().is_some_and(|input| {
        !input.kind.is_closed() && matches!(&input.kind, Kind::String(text) if text.pattern.is_none())
    });
    if open {
        let name = &inputs[index].name;
        let message = format!("`{}` lets the caller of {tool} choose any option", word.value.escape_debug());
        reader.push(
            Diagnostic::warning(message)
                .at(word.span.clone(), "any option")
                .help(format!("list the allowed ones in `enum` of `input.{name}`")),
        );
    }
}

fn warn_of_secret(
    reader: &mut Reader<'_>,
    tool: &str,
    word: &At<&str>,
    template: &Template,
    inputs: &[Declared],
) {
    let secret = |index: &usize| inputs[*index].input.as_ref().is_some_and(|input| input.secret);
    if let Some(index) = template.inputs().find(secret) {
        let name = &inputs[index].name;
        let message = format!("the secret `{{{name}}}` of {tool} stands in its command line");
        reader.push(
            Diagnostic::warning(message)
                .at(word.span.clone(), "every user of this machine can read command lines")
                .help(format!("pass it by the environment, `env.NAME = \"{{{name}}}\"`, or by `stdin`")),
        );
    }
}

/// Where a part of a text stands in the source, or the whole text when it is written with escapes.
fn place_of(source: &str, text: &At<&str>, part: Range<usize>) -> Range<usize> {
    match source[text.span.clone()].find(text.value) {
        Some(quotes) => {
            let start = text.span.start + quotes;
            start + part.start..start + part.end
        }
        None => text.span.clone(),
    }
}

fn spans_lines(source: &str, span: &Range<usize>) -> bool {
    source[span.clone()].contains('\n')
}

/// The edit that replaces a placeholder, when it stands in the source as it reads.
fn edit(source: &str, span: &Range<usize>, placeholder: &str, replacement: &str) -> Vec<Edit> {
    if source[span.clone()] == *placeholder { vec![Edit::new(span.clone(), replacement)] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a command line after its script's placeholders have moved.
    fn moved(words: &[&str], index: usize, language: Language) -> String {
        let source = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ");
        let mut at = 0;
        let spanned: Vec<_> = words
            .iter()
            .map(|word| {
                let span = at..at + quoted(word).len();
                at = span.end + 2;
                At { value: *word, span }
            })
            .collect();
        let (_, edits) = positional(&spanned, index, language).unwrap();
        let mut fixed = source;
        for edit in edits.iter().rev() {
            fixed.replace_range(edit.span(), edit.replacement());
        }
        let array: toml::Table = format!("a = [{fixed}]").parse().unwrap();
        let words: Vec<_> =
            array["a"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        words.join(" | ")
    }

    #[test]
    fn placeholders_of_a_script_move_into_its_arguments() {
        let posix = |words: &[&str]| moved(words, 2, Language::Posix);
        assert_eq!(posix(&["sh", "-c", "ls {d}"]), "sh | -c | ls \"$1\" | sh | {d}");
        assert_eq!(posix(&["sh", "-c", "ls '{d}' \"{e}\""]), "sh | -c | ls \"$1\" \"$2\" | sh | {d} | {e}");
        assert_eq!(posix(&["sh", "-c", "ls \"a {d} b\""]), "sh | -c | ls \"a $1 b\" | sh | {d}");
        assert_eq!(posix(&["sh", "-c", "ls 'a {d} b'"]), "sh | -c | ls 'a '\"$1\"' b' | sh | {d}");
        assert_eq!(posix(&["sh", "-c", "f $1 {d}", "x", "y"]), "sh | -c | f $1 \"$2\" | x | y | {d}");
        assert_eq!(moved(&["fish", "-c", "ls {d}"], 2, Language::Fish), "fish | -c | ls \"$argv[1]\" | {d}");
    }

    #[test]
    fn an_open_quote_is_found_past_escapes() {
        assert_eq!(quote_at(r"a \' b"), None);
        assert_eq!(quote_at(r#"a "\""#), Some('"'));
        assert_eq!(quote_at(r"'\"), Some('\''));
        assert_eq!(quote_at("'a' \"'"), Some('"'));
    }
}
