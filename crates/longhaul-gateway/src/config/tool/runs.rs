//! Finding the words of a command line that say what is run: the program behind `timeout 5`, the file that `sh` runs, the
//! text that `awk` does.
//!
//! Whoever chooses such a word chooses what runs on this machine, as with the first one.

use super::{
    interpreter::{PROGRAMS, Program, TEXTS},
    script::base_name,
};

/// A word of a command line that says what is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Which word.
    pub(super) at: usize,
    pub(super) by: By,
}

/// Who runs it, and as what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A program that runs another: the word is that other program.
    Wrapper,
    /// An interpreter: the word is its script, or the file of it.
    Interpreter(String),
    /// A program that takes its own language as an argument, such as `awk`: the word is a text in it.
    Text(String),
}

/// Every word behind the first that says what is run, in order.
pub(super) fn runs(argv: &[&str]) -> Vec<Run> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(word) = argv.get(at) {
        let name = base_name(word);
        let arguments = &argv[at + 1..];
        if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
            let Some(next) = wrapper.program(arguments) else { break };
            at += 1 + next;
            found.push(Run { at, by: By::Wrapper });
            continue;
        }
        let named =
            |programs: &'static [Program]| programs.iter().find(|program| program.names.contains(&name));
        if let Some(program) = named(&TEXTS) {
            let texts = program.scripts(arguments).into_iter().flat_map(|(range, _)| range);
            let texts = texts.chain(program.operand(arguments));
            found.extend(texts.map(|text| Run { at: at + 1 + text, by: By::Text(name.to_owned()) }));
        } else if let Some(file) = named(&PROGRAMS).and_then(|program| program.operand(arguments)) {
            found.push(Run { at: at + 1 + file, by: By::Interpreter(name.to_owned()) });
        }
        break;
    }
    found
}

/// How one family of programs takes the program that it runs.
struct Wrapper {
    names: &'static [&'static str],
    /// How many operands stand before the program.
    operands: usize,
    /// Single letters behind which a value stands.
    value: &'static str,
    /// Long options behind which a value stands.
    long_value: &'static [&'static str],
    /// What an option begins with behind which no program stands.
    ends: &'static [&'static str],
}

impl Wrapper {
    /// Which of its arguments is the program.
    fn program(&self, arguments: &[&str]) -> Option<usize> {
        let mut operands = self.operands;
        let mut options_ended = false;
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            let here = at;
            at += 1;
            if options_ended || !argument.starts_with('-') || *argument == "-" {
                if self.assigns() && argument.contains('=') {
                    continue;
                }
                if operands == 0 {
                    return Some(here);
                }
                operands -= 1;
            } else if *argument == "--" {
                options_ended = true;
            } else if self.ends.iter().any(|end| argument.starts_with(end)) {
                return None;
            } else {
                at += usize::from(self.takes_next(argument));
            }
        }
        None
    }

    /// Whether the value of this option is the next argument.
    fn takes_next(&self, option: &str) -> bool {
        if option.starts_with("--") {
            return self.long_value.contains(&option);
        }
        // The first letter with a value takes the rest of the argument for it, if there is a rest.
        let valued = option.char_indices().skip(1).find(|(_, letter)| self.value.contains(*letter));
        valued.is_some_and(|(index, letter)| index + letter.len_utf8() == option.len())
    }

    /// `env NAME=value program` sets variables before the program.
    fn assigns(&self) -> bool {
        self.names.iter().any(|name| ["env", "sudo"].contains(name))
    }
}

const fn plain(names: &'static [&'static str]) -> Wrapper {
    Wrapper { names, operands: 0, value: "", long_value: &[], ends: &[] }
}

const WRAPPERS: [Wrapper; 19] = [
    Wrapper { ends: &["--list", "--install"], ..plain(&["busybox", "toybox"]) },
    Wrapper { ends: &["-v", "-V"], ..plain(&["command"]) },
    plain(&["nohup", "setsid", "unbuffer", "catchsegv"]),
    Wrapper { value: "a", ..plain(&["exec"]) },
    Wrapper {
        value: "uC",
        long_value: &["--unset", "--chdir"],
        ends: &["-S", "--split-string"],
        ..plain(&["env"])
    },
    Wrapper {
        value: "CDghpRrTtUu",
        long_value: &[
            "--close-from",
            "--chdir",
            "--chroot",
            "--command-timeout",
            "--group",
            "--host",
            "--other-user",
            "--prompt",
            "--role",
            "--type",
            "--user",
        ],
        ends: &["-e", "-l", "-v", "-V", "--edit", "--list", "--validate", "--version"],
        ..plain(&["sudo"])
    },
    Wrapper { value: "aCu", ..plain(&["doas"]) },
    Wrapper { value: "n", long_value: &["--adjustment"], ..plain(&["nice"]) },
    Wrapper { operands: 1, value: "ks", long_value: &["--kill-after", "--signal"], ..plain(&["timeout"]) },
    Wrapper { value: "fo", long_value: &["--format", "--output"], ..plain(&["time"]) },
    Wrapper { value: "ioe", long_value: &["--input", "--output", "--error"], ..plain(&["stdbuf"]) },
    Wrapper {
        value: "cn",
        long_value: &["--class", "--classdata"],
        ends: &["-p", "-P", "-u", "--pid", "--pgid", "--uid"],
        ..plain(&["ionice"])
    },
    Wrapper {
        operands: 1,
        value: "DPT",
        long_value: &["--sched-deadline", "--sched-period", "--sched-runtime"],
        ends: &["-m", "-p", "--max", "--pid"],
        ..plain(&["chrt"])
    },
    Wrapper { operands: 1, ends: &["-p", "--pid"], ..plain(&["taskset"]) },
    Wrapper {
        value: "adEILnPs",
        long_value: &[
            "--arg-file",
            "--delimiter",
            "--max-args",
            "--max-chars",
            "--max-procs",
            "--process-slot-var",
        ],
        ..plain(&["xargs"])
    },
    Wrapper { operands: 1, long_value: &["--groups", "--userspec"], ..plain(&["chroot"]) },
    Wrapper {
        operands: 1,
        value: "Ew",
        long_value: &["--conflict-exit-code", "--timeout", "--wait"],
        ends: &["-c", "--command"],
        ..plain(&["flock"])
    },
    Wrapper {
        value: "abeEIoOpPsSuUX",
        long_value: &["--attach", "--env", "--output", "--string-limit", "--trace", "--user"],
        ..plain(&["strace"])
    },
    Wrapper { value: "n", long_value: &["--interval"], ..plain(&["watch"]) },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that say what is run.
    fn found<'w>(argv: &[&'w str]) -> Vec<&'w str> {
        runs(argv).into_iter().map(|run| argv[run.at]).collect()
    }

    #[test]
    fn a_program_is_found_behind_those_that_run_it() {
        for argv in [
            &["nohup", "X"][..],
            &["timeout", "5", "X", "hello"],
            &["timeout", "-k", "1", "--signal", "INT", "5", "X"],
            &["timeout", "-k1", "--signal=INT", "--", "5", "X"],
            &["env", "-i", "-u", "A", "B=1", "X"],
            &["/usr/bin/sudo", "-nu", "ci", "A=1", "--", "X", "y"],
            &["nice", "-n", "5", "X"],
            &["nice", "-5", "X"],
            &["taskset", "-c", "0", "X"],
            &["flock", "-n", "lock", "X"],
            &["xargs", "-0", "-n", "1", "X"],
            &["busybox", "X"],
            &["stdbuf", "-oL", "X"],
        ] {
            assert_eq!(found(argv), ["X"], "{argv:?}");
        }
        assert_eq!(found(&["sudo", "timeout", "5", "env", "X"]), ["timeout", "env", "X"]);
        assert_eq!(found(&["nohup", "sh", "X"]), ["sh", "X"]);
    }

    #[test]
    fn what_an_interpreter_runs_is_found() {
        for argv in [
            &["sh", "X", "y"][..],
            &["bash", "-euo", "pipefail", "X"],
            &["bash", "--norc", "--", "X"],
            &["python3.12", "-I", "-W", "error", "X"],
            &["python3", "-m", "X"],
            &["node", "--require", "r", "X"],
            &["perl", "-w", "-I", "lib", "X"],
            &["php", "-f", "X"],
            &["ruby", "X"],
            &["fish", "X"],
            &["awk", "-F", ",", "-v", "a=b", "X", "file"],
            &["gawk", "-e", "X", "file"],
            &["sed", "-n", "X", "file"],
            &["sed", "-i.bak", "-e", "X", "file"],
            &["sed", "--expression=X"],
        ] {
            assert!(found(argv).iter().all(|word| word.ends_with('X')), "{argv:?}");
            assert_eq!(found(argv).len(), 1, "{argv:?}");
        }
    }

    #[test]
    fn other_words_are_arguments() {
        for argv in [
            &["prog", "x"][..],
            &["sh", "-c", "s", "sh", "x"],
            &["sh", "-s", "x"],
            &["bash", "-n", "x"],
            &["php", "-l", "x"],
            &["node", "--check", "x"],
            &["python3", "-c", "s", "x"],
            &["perl", "-ne", "s", "x"],
            &["awk", "-f", "file", "x"],
            &["sed", "--file=f", "x"],
            &["sed", "-nf", "f", "x"],
            &["env"],
            &["timeout", "5"],
            &["command", "-v", "x"],
            &["flock", "lock", "-c", "s"],
            &["ssh", "host", "x"],
            &["find", "x"],
        ] {
            assert_eq!(found(argv), [""; 0], "{argv:?}");
        }
        assert_eq!(found(&["sh", "build.sh", "x"]), ["build.sh"]);
        assert_eq!(found(&["python3", "-m", "pytest", "x"]), ["pytest"]);
        assert_eq!(found(&["python3", "-mpytest", "x"]), ["-mpytest"]);
        assert_eq!(found(&["python3", "-", "x"]), ["-"]);
    }
}
