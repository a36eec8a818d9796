//! `wire FOLDER [--peers]`: whether all that was noted in a folder is what the schemas say.
#![expect(clippy::print_stdout, reason = "this program's output is for the terminal")]

use std::path::Path;
use std::process::ExitCode;

use longhaul_test::wire::hold;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        println!("usage: wire FOLDER [--peers]");
        return ExitCode::from(2);
    };
    match hold(Path::new(&folder), arguments.next().as_deref() == Some("--peers")) {
        Ok(held) => {
            for invalid in &held.invalid {
                println!("{invalid}");
            }
            println!("wire: {} passed, {} failed", held.messages - held.invalid.len(), held.invalid.len());
            if held.messages > 0 && held.invalid.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("cannot read what was said: {error}");
            ExitCode::from(2)
        }
    }
}
