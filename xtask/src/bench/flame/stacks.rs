//! What perf saw, as stacks that can be read: without how a thread begins, what a type is generic in, and what the kernel
//! does within a system call.

use std::collections::BTreeMap;

/// How often each stack was seen. Its functions are in order, the outermost first, with `;` between.
pub(super) type Stacks = BTreeMap<String, u64>;

/// Who is below every task, and says nothing of it: the names of functions begin so.
const BELOW: &[&str] = &[
    "std::",
    "core::",
    "alloc::",
    "tokio::",
    "clone",
    "start_thread",
    "_start",
    "__libc_start",
    "main",
    "[",
];

/// Reads what `perf script -F comm,ip,sym` tells.
pub(super) fn fold(script: &str) -> Stacks {
    let mut stacks = Stacks::new();
    for seen in script.split("\n\n") {
        // The first line is the thread's name.
        let frames = seen.lines().filter(|line| line.starts_with([' ', '\t']));
        let mut stack: Vec<(bool, String)> = frames.filter_map(|line| frame(line.trim())).collect();
        stack.reverse();
        if !stack.is_empty() {
            *stacks.entry(readable(&stack)).or_default() += 1;
        }
    }
    stacks
}

/// As inferno reads them.
pub(super) fn written(stacks: &Stacks) -> String {
    stacks.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
}

/// Whether it is of the kernel, and its name.
fn frame(line: &str) -> Option<(bool, String)> {
    let (address, name) = line.split_once(' ')?;
    // The upper half of what can be addressed is the kernel's.
    let is_kernel = address.len() == 16 && address.starts_with("ffff") && name != "[unknown]";
    Some((is_kernel, if is_kernel { name.to_owned() } else { plain(name) }))
}

fn readable(stack: &[(bool, String)]) -> String {
    let mut user = stack.iter().filter(|(is_kernel, _)| !is_kernel).map(|(_, name)| name.as_str());
    let is_below = |name: &&str| BELOW.iter().any(|below| name.starts_with(below));
    let mut names: Vec<&str> = user.clone().skip_while(is_below).collect();
    if names.is_empty() {
        names.push("tokio");
        names.extend(user.next_back().filter(|name| !name.starts_with('[')));
    }
    names.dedup();
    let kernel: Vec<&str> =
        stack.iter().filter(|(is_kernel, _)| *is_kernel).map(|(_, name)| name.as_str()).collect();
    let system = kernel
        .iter()
        .find_map(|name| name.split_once("_sys_").filter(|(before, _)| before.starts_with("__")));
    let within = match system {
        Some((_, call)) => Some(format!("system: {call}")),
        None => kernel.last().map(|_| "system".to_owned()),
    };
    let mut shown: Vec<String> = names.into_iter().map(short).collect();
    shown.extend(within);
    shown.join(";")
}

/// The end of a path, which tells most, and its crate.
fn short(path: &str) -> String {
    let parts: Vec<&str> = path.split("::").collect();
    match parts[..] {
        [] | [_] => path.to_owned(),
        [of, .., module, function] if module != of => format!("{module}::{function} [{of}]"),
        [of, .., function] => format!("{function} [{of}]"),
    }
}

/// A function's path without types that it is for, closures in it, and what the compiler has added.
fn plain(name: &str) -> String {
    let name = ["{{closure}}", ".llvm.", ".part.", ".isra.", ".constprop.", ".cold", "{{vtable.shim}}"]
        .iter()
        .fold(name, |name, added| name.split(added).next().unwrap_or_default());
    let name = name.trim_end_matches(':');
    // `<T as Trait>::method` is of `T`.
    let path = match name.strip_prefix('<').and_then(|rest| closed(rest)) {
        Some((of, method)) => {
            let of = of.split(" as ").next().unwrap_or_default();
            format!("{}{method}", of.trim_start_matches('&').trim_start_matches("mut "))
        }
        None => name.to_owned(),
    };
    let (mut plain, mut depth) = (String::new(), 0_u32);
    for character in path.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            // What lies between names in a line.
            ';' | ' ' => {}
            other if depth == 0 => plain.push(other),
            _ => {}
        }
    }
    plain.replace("::::", "::")
}

/// What is within angle brackets, the first of which is open already, and what is behind them.
fn closed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1_u32;
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_begins_where_the_server_does_and_ends_at_the_system_call() {
        let script = "tokio-rt-worker \n\
            \tffffffff81e2eaf9 tcp_sendmsg\n\tffffffff81e2eb88 __x64_sys_writev\n\tffffffff821ed511 do_syscall_64\n\
            \t          10afa8 writev\n\t          1d7891 hyper::proto::h1::io::Buffered<T,B>::poll_flush\n\
            \t          1ee323 longhaul::serve::{{closure}}::{{closure}}\n\t          1ee324 longhaul::serve\n\
            \t          656 tokio::runtime::task::raw::poll\n\t           891 clone3\n\n\
            tokio-rt-worker \n\t          65 tokio::runtime::park\n\t           891 clone3\n\n";
        let expected = "serve [longhaul];Buffered::poll_flush [hyper];writev;system: writev 1\n\
                        tokio;runtime::park [tokio] 1\n";
        assert_eq!(written(&fold(script)), expected);
    }

    #[test]
    fn a_name_is_the_path_of_a_function() {
        for (name, expected) in [
            ("<core::pin::Pin<P> as core::future::future::Future>::poll", "core::pin::Pin::poll"),
            ("<&mut a::B<C> as D>::e", "a::B::e"),
            ("a::b::<impl a::C>::d::{{closure}}", "a::b::d"),
            ("sqlite3PagerCommitPhaseOne.part.0", "sqlite3PagerCommitPhaseOne"),
            ("a::b::c.llvm.123", "a::b::c"),
        ] {
            assert_eq!(plain(name), expected, "{name}");
        }
    }
}
