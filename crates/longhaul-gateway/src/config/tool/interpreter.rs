//! The programs that read program text from their command line, and how each of them takes it.

use std::ops::Range;

/// How a script takes a value without becoming it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// `$1`, after a name for `$0`.
    Posix,
    /// `$argv[1]`.
    Fish,
    /// Arguments after the script, read there by this expression.
    Arguments(&'static str),
    /// The program joins its arguments into one text for a shell, and has no other way.
    Joined,
}

/// How one family of programs takes program text on its command line.
pub(super) struct Program {
    pub(super) names: &'static [&'static str],
    pub(super) language: Language,
    /// Single letters behind which program text stands.
    script: &'static str,
    /// Long options behind which program text stands.
    long: &'static [&'static str],
    /// Single letters behind which some other value stands.
    value: &'static str,
    /// Single letters whose value, if any, is the rest of the same argument.
    attached: &'static str,
    /// Single letters behind which nothing is an option of this program any more.
    ends: &'static str,
    /// Single letters with which the first operand is not run: it is only checked (`sh -n`), or another argument, or what
    /// is run stands elsewhere (`sh -s`, `sed -f`).
    passive: &'static str,
    /// Long options behind which some other value stands.
    long_value: &'static [&'static str],
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `-c` is a flag among others, and the script is the first argument that is no option: `sh -ec SCRIPT`.
    FirstOperand,
    /// The script is the value of the option: `perl -e SCRIPT`; options end at the first operand.
    OptionValue,
    /// The same, with options after operands as well: `su root -c SCRIPT`.
    OptionValueAnywhere,
    /// Everything behind the option is script: `cmd /c …`, `pwsh -Command …`.
    RestAfterOption,
    /// Everything behind the first operand is script: `ssh HOST …`.
    RestAfterOperand,
    /// Everything behind the operand of this name is script: `deno eval …`.
    Subcommand(&'static str),
}

impl Program {
    /// The ranges of scripts in the arguments of this program, with the option that makes them one.
    pub(super) fn scripts(&self, arguments: &[&str]) -> Vec<(Range<usize>, String)> {
        let end = arguments.len();
        let mut found = Vec::new();
        let mut flag: Option<String> = None;
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            let option = self.option(argument);
            let here = at;
            at += 1;
            match option {
                Opt::Other => {}
                Opt::TakesValue => at += 1,
                Opt::Script(name) if self.shape == Shape::FirstOperand => {
                    // `-co pipefail SCRIPT`: the value of `-o` comes first.
                    at += usize::from(argument.contains(|letter| self.value.contains(letter)));
                    flag = Some(name);
                }
                Opt::Script(name) if self.shape == Shape::RestAfterOption => return vec![(at..end, name)],
                Opt::Script(name) => {
                    if at < end {
                        found.push((at..at + 1, name));
                    }
                    at += 1;
                }
                Opt::Attached(name) => found.push((here..here + 1, name)),
                Opt::End | Opt::Operand => {
                    let operand = if option == Opt::End { at } else { here };
                    match self.shape {
                        Shape::FirstOperand => {
                            found.extend(
                                flag.filter(|_| operand < end).map(|name| (operand..operand + 1, name)),
                            );
                            return found;
                        }
                        Shape::RestAfterOperand if operand + 1 < end => {
                            return vec![(operand + 1..end, String::new())];
                        }
                        Shape::Subcommand(word) if *argument == word => {
                            return vec![(at..end, word.to_owned())];
                        }
                        Shape::OptionValueAnywhere if option == Opt::Operand => {}
                        _ => return found,
                    }
                }
            }
        }
        found
    }

    /// Which of the arguments is what this program runs, where that is neither the value of an option nor for a shell.
    pub(super) fn operand(&self, arguments: &[&str]) -> Option<usize> {
        if self.language == Language::Joined || matches!(self.shape, Shape::Subcommand(_)) {
            return None;
        }
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            if self.is_passive(argument) {
                return None;
            }
            match self.option(argument) {
                Opt::Other => at += 1,
                Opt::TakesValue => at += 2,
                Opt::Script(_) | Opt::Attached(_) => return None,
                // `python -m MODULE`: the option says what the next argument is.
                Opt::Operand if self.names_next(argument) => return behind(at, arguments),
                Opt::End => return behind(at, arguments),
                Opt::Operand => return Some(at),
            }
        }
        None
    }

    /// Whether this is an option behind which stands what is run, in an argument of its own.
    fn names_next(&self, argument: &str) -> bool {
        let letter = argument.strip_prefix('-').and_then(|letters| letters.find(|c| self.ends.contains(c)));
        letter.is_some_and(|index| index + 2 == argument.len())
    }

    /// Whether this is an option with which the first operand is not run.
    fn is_passive(&self, argument: &str) -> bool {
        if argument.starts_with("--") {
            let name = argument.split('=').next().unwrap_or(argument);
            return ["--check", "--no-execute", "--file"].contains(&name);
        }
        let letters = argument.strip_prefix('-').unwrap_or_default();
        let has_value = |letter: &char| self.value.contains(*letter) || self.attached.contains(*letter);
        let passive = letters.chars().find(|letter| self.passive.contains(*letter) || has_value(letter));
        passive.is_some_and(|letter| self.passive.contains(letter))
    }

    fn option(&self, argument: &str) -> Opt {
        if argument == "--" {
            return Opt::End;
        }
        if self.shape == Shape::RestAfterOption {
            // Options of `cmd` and PowerShell are words, in any case.
            let lower = argument.to_ascii_lowercase();
            return match self.long.iter().find(|long| **long == lower) {
                Some(long) => Opt::Script((*long).to_owned()),
                None if lower.starts_with(['-', '/']) => Opt::Other,
                None => Opt::Operand,
            };
        }
        if argument.starts_with("--") {
            let (name, value) =
                argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)));
            return match value {
                Some(_) if self.long.contains(&name) => Opt::Attached(name.to_owned()),
                None if self.long.contains(&name) => Opt::Script(name.to_owned()),
                None if self.long_value.contains(&name) => Opt::TakesValue,
                _ => Opt::Other,
            };
        }
        let Some(letters) = argument.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty()) else {
            return if self.assigns(argument) { Opt::Other } else { Opt::Operand };
        };
        let mut takes_value = false;
        let mut script = false;
        for (index, letter) in letters.char_indices() {
            let last = index + letter.len_utf8() == letters.len();
            let is_script = self.script.contains(letter) && argument.starts_with('-');
            if self.shape == Shape::FirstOperand {
                script |= is_script;
                takes_value |= self.value.contains(letter);
            } else if is_script {
                let name = argument[..=index + letter.len_utf8()].to_owned();
                return if last || self.is_flag_cluster(&letters[index..]) {
                    Opt::Script(argument.to_owned())
                } else {
                    Opt::Attached(name)
                };
            } else if self.value.contains(letter) {
                return if last { Opt::TakesValue } else { Opt::Other };
            } else if self.attached.contains(letter) {
                return Opt::Other;
            } else if self.ends.contains(letter) {
                return Opt::Operand;
            }
        }
        match (script, takes_value) {
            (true, _) => Opt::Script(argument.to_owned()),
            (false, true) => Opt::TakesValue,
            (false, false) => Opt::Other,
        }
    }

    /// Node's `-pe` is two letters of script, one value.
    fn is_flag_cluster(&self, letters: &str) -> bool {
        letters.chars().all(|letter| self.script.contains(letter))
    }

    /// `env NAME=value program` sets variables before the program.
    fn assigns(&self, argument: &str) -> bool {
        self.names.contains(&"env") && argument.contains('=')
    }
}

fn behind(at: usize, arguments: &[&str]) -> Option<usize> {
    (at + 1 < arguments.len()).then_some(at + 1)
}

#[derive(PartialEq, Eq)]
enum Opt {
    /// The next argument is a script.
    Script(String),
    /// The rest of this argument is a script.
    Attached(String),
    /// The next argument is some value.
    TakesValue,
    Other,
    /// `--`.
    End,
    Operand,
}

pub(super) const PROGRAMS: [Program; 15] = [
    Program {
        names: &["sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "yash", "oksh", "posh", "hush"],
        language: Language::Posix,
        script: "c",
        long: &[],
        value: "oO",
        attached: "",
        ends: "",
        passive: "ns",
        long_value: &["--rcfile", "--init-file"],
        shape: Shape::FirstOperand,
    },
    Program {
        names: &["csh", "tcsh"],
        language: Language::Arguments("$1:q"),
        script: "c",
        long: &[],
        value: "",
        attached: "",
        ends: "",
        passive: "ns",
        long_value: &[],
        shape: Shape::FirstOperand,
    },
    Program {
        names: &["fish"],
        language: Language::Fish,
        script: "cC",
        long: &["--command", "--init-command"],
        value: "dopD",
        attached: "",
        ends: "",
        passive: "n",
        long_value: &["--debug", "--debug-output", "--profile", "--features"],
        shape: Shape::OptionValue,
    },
    Program {
        names: &["python", "pypy", "pythonw"],
        language: Language::Arguments("sys.argv[1]"),
        script: "c",
        long: &[],
        value: "WX",
        attached: "",
        ends: "m",
        passive: "",
        long_value: &["--check-hash-based-pycs"],
        shape: Shape::OptionValue,
    },
    Program {
        names: &["node", "nodejs", "bun"],
        language: Language::Arguments("process.argv[1]"),
        script: "ep",
        long: &["--eval", "--print"],
        value: "rC",
        attached: "",
        ends: "",
        passive: "c",
        long_value: &[
            "--require",
            "--import",
            "--loader",
            "--input-type",
            "--conditions",
            "--env-file",
            "--cwd",
        ],
        shape: Shape::OptionValue,
    },
    Program {
        names: &["deno"],
        language: Language::Arguments("Deno.args[0]"),
        script: "",
        long: &[],
        value: "",
        attached: "",
        ends: "",
        passive: "",
        long_value: &[],
        shape: Shape::Subcommand("eval"),
    },
    Program {
        names: &["perl"],
        language: Language::Arguments("$ARGV[0]"),
        script: "eE",
        long: &[],
        value: "ImM",
        attached: "iFCDVx",
        ends: "",
        passive: "",
        long_value: &[],
        shape: Shape::OptionValue,
    },
    Program {
        names: &["ruby", "jruby", "irb"],
        language: Language::Arguments("ARGV[0]"),
        script: "e",
        long: &[],
        value: "IrEC",
        attached: "iFKx",
        ends: "",
        passive: "c",
        long_value: &[],
        shape: Shape::OptionValue,
    },
    Program {
        names: &["php"],
        language: Language::Arguments("$argv[1]"),
        script: "rBRE",
        long: &["--run", "--process-begin", "--process-code", "--process-end"],
        value: "cdztS",
        attached: "",
        ends: "fF",
        passive: "lsw",
        long_value: &["--php-ini", "--define", "--file"],
        shape: Shape::OptionValue,
    },
    Program {
        names: &["lua", "luajit", "julia", "elixir", "osascript", "Rscript", "groovy", "scala"],
        language: Language::Arguments("the script's arguments"),
        script: "eE",
        long: &["--eval", "--print"],
        value: "l",
        attached: "",
        ends: "",
        passive: "",
        long_value: &[],
        shape: Shape::OptionValue,
    },
    Program {
        names: &["pwsh", "powershell"],
        language: Language::Joined,
        script: "",
        long: &[
            "-c",
            "-command",
            "/c",
            "/command",
            "-commandwithargs",
            "-cwa",
            "-encodedcommand",
            "-e",
            "-ec",
            "-enc",
        ],
        value: "",
        attached: "",
        ends: "",
        passive: "",
        long_value: &[],
        shape: Shape::RestAfterOption,
    },
    Program {
        names: &["cmd"],
        language: Language::Joined,
        script: "",
        long: &["/c", "/k", "/r"],
        value: "",
        attached: "",
        ends: "",
        passive: "",
        long_value: &[],
        shape: Shape::RestAfterOption,
    },
    Program {
        names: &["env"],
        language: Language::Joined,
        script: "S",
        long: &["--split-string"],
        value: "uC",
        attached: "",
        ends: "",
        passive: "",
        long_value: &["--unset", "--chdir"],
        shape: Shape::OptionValue,
    },
    Program {
        names: &["su", "runuser", "script", "flock"],
        language: Language::Joined,
        script: "c",
        long: &["--command", "--session-command"],
        value: "ugGwEsTIOBmo",
        attached: "",
        ends: "",
        passive: "",
        long_value: &["--group", "--timeout", "--shell"],
        shape: Shape::OptionValueAnywhere,
    },
    Program {
        names: &["ssh"],
        language: Language::Joined,
        script: "",
        long: &[],
        value: "BbcDEeFIiJLlmOopPQRSWw",
        attached: "",
        ends: "",
        passive: "",
        long_value: &[],
        shape: Shape::RestAfterOperand,
    },
];

/// The programs that take a text in a language of their own as an argument, which can run others.
pub(super) const TEXTS: [Program; 2] = [
    Program {
        names: &["awk", "gawk", "mawk", "nawk"],
        language: Language::Arguments("ENVIRON"),
        script: "e",
        long: &["--source"],
        value: "Filv",
        attached: "",
        ends: "",
        passive: "Ef",
        long_value: &["--assign", "--field-separator", "--include", "--load"],
        shape: Shape::OptionValue,
    },
    Program {
        names: &["sed", "gsed"],
        language: Language::Arguments(""),
        script: "e",
        long: &["--expression"],
        value: "l",
        attached: "i",
        ends: "",
        passive: "f",
        long_value: &["--line-length"],
        shape: Shape::OptionValueAnywhere,
    },
];
