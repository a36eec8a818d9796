//! Finding the arguments that a program reads as program text: the script of `sh -c`, `python -c`, `perl -e`.
//!
//! A value put into such a text becomes code, whatever its quotes. So no placeholder may stand there.

use std::ops::Range;

use super::interpreter::{Language, PROGRAMS};

/// An argument that some program of the command line reads as program text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    /// Which arguments of the command line: one, or all from one on.
    pub(super) arguments: Range<usize>,
    /// How the command line spells it: `sh -c`.
    pub(super) spelling: String,
    pub(super) language: Language,
    /// Whether the program is surely run: it comes first, or behind a program known to run its arguments.
    pub(super) certain: bool,
}

/// Every script in a command line, in order.
pub(super) fn scripts(argv: &[&str]) -> Vec<Script> {
    let mut found: Vec<Script> = Vec::new();
    let runs_its_arguments = argv.first().is_some_and(|program| RUNNERS.contains(&base_name(program)));
    for (at, word) in argv.iter().enumerate() {
        // A script's own arguments are data, even when one is called `sh`.
        if found.iter().any(|script| script.certain && script.arguments.start < at) {
            break;
        }
        let name = base_name(word);
        let Some(program) = PROGRAMS.iter().find(|program| program.names.contains(&name)) else { continue };
        // Of programs like `ssh` only the first word counts: the name is too common elsewhere in a command line.
        if at > 0 && program.language == Language::Joined && !runs_its_arguments {
            continue;
        }
        let certain = at == 0 || runs_its_arguments;
        found.extend(program.scripts(&argv[at + 1..]).into_iter().map(|(range, option)| Script {
            arguments: range.start + at + 1..range.end + at + 1,
            spelling: if option.is_empty() { name.to_owned() } else { format!("{name} {option}") },
            language: program.language,
            certain,
        }));
    }
    found
}

/// The name of a program without its folder, `.exe` and version: `/usr/bin/python3.12` is `python`.
pub(super) fn base_name(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.strip_suffix(".exe").unwrap_or(name);
    let short = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if short.is_empty() { name } else { short }
}

/// Programs that run another one, given in their arguments.
const RUNNERS: [&str; 44] = [
    "env",
    "sudo",
    "doas",
    "nice",
    "nohup",
    "timeout",
    "time",
    "stdbuf",
    "setsid",
    "ionice",
    "chrt",
    "taskset",
    "xargs",
    "unshare",
    "nsenter",
    "chroot",
    "flock",
    "systemd-run",
    "systemd-inhibit",
    "docker",
    "podman",
    "nerdctl",
    "kubectl",
    "lxc",
    "lxc-attach",
    "flatpak",
    "bwrap",
    "firejail",
    "strace",
    "ltrace",
    "busybox",
    "toybox",
    "nix",
    "find",
    "parallel",
    "command",
    "exec",
    "prlimit",
    "catchsegv",
    "unbuffer",
    "ssh",
    "watch",
    "mise",
    "direnv",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments found to be script, with the spelling of the first.
    fn found(argv: &[&str]) -> Option<(Range<usize>, String)> {
        scripts(argv)
            .into_iter()
            .find(|script| script.certain)
            .map(|script| (script.arguments, script.spelling))
    }

    fn at(index: usize, spelling: &str) -> Option<(Range<usize>, String)> {
        Some((index..index + 1, spelling.to_owned()))
    }

    #[test]
    fn shells_take_their_script_behind_any_cluster_with_c() {
        assert_eq!(found(&["sh", "-c", "S"]), at(2, "sh -c"));
        assert_eq!(found(&["/bin/bash", "-ec", "S", "x"]), at(2, "bash -ec"));
        assert_eq!(found(&["bash", "-c", "-e", "S"]), at(3, "bash -c"));
        assert_eq!(found(&["bash", "-o", "pipefail", "-c", "S"]), at(4, "bash -c"));
        assert_eq!(found(&["bash", "-euo", "pipefail", "-c", "S"]), at(4, "bash -c"));
        assert_eq!(found(&["bash", "-euxco", "pipefail", "S"]), at(3, "bash -euxco"));
        assert_eq!(found(&["bash", "--norc", "--rcfile", "f", "-lc", "S"]), at(5, "bash -lc"));
        assert_eq!(found(&["zsh", "-c", "--", "S"]), at(3, "zsh -c"));
        assert_eq!(found(&["fish", "-c", "S"]), at(2, "fish -c"));
        assert_eq!(found(&["fish", "--command=S"]), at(1, "fish --command"));
        assert_eq!(found(&["bash.exe", "-c", "S"]), at(2, "bash -c"));
    }

    #[test]
    fn a_file_of_script_is_no_script_argument() {
        assert_eq!(found(&["sh", "build.sh", "-c", "x"]), None);
        assert_eq!(found(&["python3", "manage.py", "-c", "x"]), None);
        assert_eq!(found(&["python3", "-m", "pytest", "-c", "x"]), None);
        assert_eq!(found(&["perl", "-I", "lib", "a.pl", "-e", "x"]), None);
        assert_eq!(found(&["sh", "-c"]), None);
    }

    #[test]
    fn interpreters_take_their_script_as_the_value_of_an_option() {
        assert_eq!(found(&["python3.12", "-Ic", "S"]), at(2, "python -Ic"));
        assert_eq!(found(&["python", "-cprint({x})"]), at(1, "python -c"));
        assert_eq!(found(&["node", "-pe", "S"]), at(2, "node -pe"));
        assert_eq!(found(&["node", "--eval=S"]), at(1, "node --eval"));
        assert_eq!(found(&["perl", "-lane", "S"]), at(2, "perl -lane"));
        assert_eq!(found(&["perl", "-l", "-i.bak", "-pe", "S"]), at(4, "perl -pe"));
        assert_eq!(found(&["ruby", "-r", "json", "-e", "S"]), at(4, "ruby -e"));
        assert_eq!(found(&["php", "-r", "S"]), at(2, "php -r"));
        assert_eq!(found(&["deno", "eval", "S"]), at(2, "deno eval"));
        assert_eq!(
            found(&["pwsh", "-NoProfile", "-Command", "S", "T"]),
            Some((3..5, "pwsh -command".into()))
        );
        assert_eq!(found(&["cmd", "/C", "S"]), at(2, "cmd /c"));
        assert_eq!(scripts(&["perl", "-e", "S", "-e", "T"]).len(), 2);
    }

    #[test]
    fn a_script_is_found_behind_programs_that_run_others() {
        assert_eq!(found(&["env", "A=1", "sh", "-c", "S"]), at(4, "sh -c"));
        assert_eq!(found(&["sudo", "-u", "ci", "bash", "-lc", "S"]), at(5, "bash -lc"));
        assert_eq!(found(&["docker", "exec", "web", "sh", "-c", "S"]), at(5, "sh -c"));
        assert_eq!(found(&["timeout", "5", "env", "python3", "-c", "S"]), at(5, "python -c"));
        assert_eq!(found(&["env", "-S", "sh {x}"]), at(2, "env -S"));
        assert_eq!(found(&["su", "root", "-c", "S"]), at(3, "su -c"));
        assert_eq!(found(&["ssh", "-p", "22", "host", "ls", "S"]), Some((4..6, "ssh".into())));
    }

    #[test]
    fn behind_an_unknown_program_a_script_is_only_suspected() {
        assert_eq!(found(&["mytool", "sh", "-c", "S"]), None);
        assert!(!scripts(&["mytool", "sh", "-c", "S"])[0].certain);
        assert_eq!(scripts(&["cargo", "test", "ssh", "a", "b"]), []);
    }

    #[test]
    fn arguments_of_a_script_are_data() {
        assert_eq!(scripts(&["sh", "-c", "S", "sh", "-c", "x"]).len(), 1);
    }
}
