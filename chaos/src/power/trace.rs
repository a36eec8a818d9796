//! What `strace -f -yy -xx` wrote, as the calls it saw, each with where it began and where it returned.

use std::collections::HashMap;
use std::io::BufRead;

use anyhow::{Context, Result, bail};

/// The calls that are recorded: whatever changes a file or a folder, makes either durable, or speaks to a socket.
pub(super) const CALLS: &str = "open,openat,openat2,creat,write,pwrite64,writev,pwritev,pwritev2,sendto,sendmsg,\
    ftruncate,truncate,fallocate,fsync,fdatasync,syncfs,sync,sync_file_range,msync,rename,renameat,renameat2,unlink,\
    unlinkat,mkdir,mkdirat,rmdir,link,linkat,mknod,mknodat,sendfile,copy_file_range,splice";

/// One line of the trace that matters: a call began, or returned. Calls of several threads interleave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A call began. Nothing is known of its success.
    Began(Call),
    /// It returned, and had succeeded. A call that returned at once has both events.
    Returned(Call),
}

/// One call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// Who made it.
    pub(super) thread: u32,
    /// Its name.
    pub(super) name: String,
    /// The arguments as they were written, strings replaced by `""`.
    pub(super) arguments: Vec<String>,
    /// The strings among the arguments, decoded: paths, and what was written.
    pub(super) strings: Vec<Vec<u8>>,
    /// What the descriptors among the arguments were open on, in order; the current folder stands for `AT_FDCWD`.
    pub(super) targets: Vec<String>,
    /// What the returned descriptor is open on.
    pub(super) opened: Option<String>,
}

impl Call {
    /// An argument that is a plain number.
    pub(super) fn number(&self, at: usize) -> Result<u64> {
        let text = self.arguments.get(at).with_context(|| format!("{} has too few arguments", self.name))?;
        text.parse().with_context(|| format!("{text:?} is no number in a call of {}", self.name))
    }

    /// Whether an argument names this flag.
    pub(super) fn has_flag(&self, flag: &str) -> bool {
        self.arguments.iter().any(|argument| argument.split('|').any(|one| one == flag))
    }

    /// A path among the strings, absolute. `target` is the descriptor that it is relative to.
    pub(super) fn path(&self, string: usize, target: usize) -> Option<String> {
        let path = String::from_utf8_lossy(self.strings.get(string)?).into_owned();
        if path.starts_with('/') {
            return Some(path);
        }
        Some(format!("{}/{path}", self.targets.get(target)?))
    }
}

/// Reads a whole trace.
pub(super) fn read(reader: impl BufRead) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut unfinished: HashMap<u32, String> = HashMap::new();
    for (number, line) in reader.lines().enumerate() {
        let line = line?;
        let at = || format!("line {} of the trace: {:.200}", number + 1, line);
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let thread: u32 = thread.parse().with_context(at)?;
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            events.push(Event::Began(call(thread, begun).with_context(at)?));
            unfinished.insert(thread, begun.to_owned());
            continue;
        }
        let resumed = rest.strip_prefix("<... ");
        let whole = match resumed {
            Some(resumed) => {
                let (_, end) = resumed.split_once(" resumed>").with_context(at)?;
                let begun = unfinished.remove(&thread).with_context(at)?;
                begun.trim_end().to_owned() + end
            }
            None => rest.to_owned(),
        };
        let (text, result) = whole.rsplit_once(" = ").with_context(at)?;
        let mut call = call(thread, text.trim_end().strip_suffix(')').with_context(at)?).with_context(at)?;
        if resumed.is_none() {
            events.push(Event::Began(call.clone()));
        }
        // A failed call has changed nothing; one that a signal or an end interrupted is unknown and shows `?`.
        if result.starts_with(|digit: char| digit.is_ascii_digit()) {
            call.opened = target(result).map(|(target, _)| target);
            events.push(Event::Returned(call));
        }
    }
    Ok(events)
}

/// `name(arguments`, as far as it was written.
fn call(thread: u32, text: &str) -> Result<Call> {
    let (name, mut rest) = text.split_once('(').context("no call")?;
    let mut call = Call { thread, name: name.to_owned(), ..Call::default() };
    let mut argument = String::new();
    while let Some(next) = rest.chars().next() {
        match next {
            '"' => {
                let end = rest[1..].find('"').context("a string without end")? + 1;
                call.strings.push(bytes(&rest[1..end])?);
                argument.push_str("\"\"");
                rest = &rest[end + 1..];
                if rest.starts_with("...") {
                    bail!("a string was cut short: record longer ones");
                }
            }
            '<' => match target(rest) {
                Some((target, length)) => {
                    call.targets.push(target);
                    rest = &rest[length..];
                }
                None => rest = &rest[1..],
            },
            ',' => {
                call.arguments.push(argument.trim().to_owned());
                argument.clear();
                rest = &rest[1..];
            }
            other => {
                argument.push(other);
                rest = &rest[other.len_utf8()..];
            }
        }
    }
    call.arguments.push(argument.trim().to_owned());
    Ok(call)
}

/// The first `<…>` of a text: what is in it, and where it ends. Paths are in hexadecimal, so that no `>` is theirs;
/// what else is in it (`TCP:[…->…]`, `<char 1:3>`) is not.
fn target(text: &str) -> Option<(String, usize)> {
    let start = text.find('<')?;
    let inside = &text[start + 1..];
    let hex = inside.len()
        - inside.trim_start_matches(|c: char| c == '\\' || c.is_ascii_hexdigit() || c == 'x').len();
    if hex >= 4 && inside.starts_with('\\') {
        let path = String::from_utf8_lossy(&bytes(&inside[..hex]).ok()?).into_owned();
        // A device says which it is: `<…<char 1:3>>`.
        let end = inside[hex..].find('>')? + hex;
        let more = inside[end..].len() - inside[end..].trim_start_matches('>').len();
        return Some((path, start + 1 + end + more));
    }
    let end = inside.find("]>").map(|end| end + 1).or_else(|| inside.find('>'))?;
    Some((inside[..end].to_owned(), start + 1 + end + 1))
}

/// `\x2f\x61` as bytes.
fn bytes(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4);
    for pair in text.split("\\x").skip(1) {
        bytes.push(u8::from_str_radix(pair, 16).with_context(|| format!("{pair:?} is no byte"))?);
    }
    if bytes.len() * 4 != text.len() {
        bail!("a string is not in hexadecimal: {text:.80}");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Vec<Event> {
        read(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_write_has_its_file_its_bytes_and_its_place() {
        let [Event::Began(_), Event::Returned(call)] =
            &events(r#"7  pwrite64(4<\x2f\x61>, "\x62\x0a", 2, 4096) = 2"#)[..]
        else {
            panic!("two events")
        };
        assert_eq!((call.name.as_str(), call.targets.as_slice()), ("pwrite64", &["/a".to_owned()][..]));
        assert_eq!((call.strings[0].as_slice(), call.number(3).unwrap()), (&b"b\n"[..], 4096));
    }

    #[test]
    fn a_call_that_was_interrupted_by_another_returns_later() {
        let events = events(
            "7  fsync(4<\\x2f\\x61> <unfinished ...>\n8  fsync(5<\\x2f\\x62>) = 0\n7  <... fsync resumed>)             = 0",
        );
        let order: Vec<(bool, u32)> = events
            .iter()
            .map(|event| match event {
                Event::Began(call) => (false, call.thread),
                Event::Returned(call) => (true, call.thread),
            })
            .collect();
        assert_eq!(order, [(false, 7), (false, 8), (true, 8), (true, 7)]);
    }

    #[test]
    fn a_path_is_resolved_against_its_descriptor() {
        let text = r#"7  openat(AT_FDCWD<\x2f\x77>, "\x61", O_RDWR|O_CREAT, 0600) = 20<\x2f\x77\x2f\x61>"#;
        let Event::Returned(call) = &events(text)[1] else { panic!("it returned") };
        assert_eq!(call.path(0, 0).as_deref(), Some("/w/a"));
        assert_eq!((call.opened.as_deref(), call.has_flag("O_CREAT")), (Some("/w/a"), true));
    }

    #[test]
    fn sockets_devices_and_failures_are_understood() {
        let text = "7  sendto(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, \"\\x61\", 1, MSG_NOSIGNAL, NULL, 0) = 1\n\
                    7  dup2(3<\\x2f\\x6e<char 1:3>>, 0<UNIX-STREAM:[5->6]>) = 0<\\x2f\\x6e<char 1:3>>\n\
                    7  unlink(\"\\x2f\\x61\") = -1 ENOENT (No such file or directory)";
        let events = events(text);
        let Event::Returned(sent) = &events[1] else { panic!("it returned") };
        assert!(sent.targets[0].starts_with("TCP:"), "{sent:?}");
        let Event::Returned(dup) = &events[3] else { panic!("it returned") };
        assert_eq!(dup.targets, ["/n", "UNIX-STREAM:[5->6]"]);
        assert!(matches!(&events[4..], [Event::Began(_)]), "a failure changes nothing");
    }
}
