//! A minute of a fleet on each database, which finds a fence that is gone: `cargo xtask sabotage` takes one away that is needed
//! only where nodes stand still or are cut off.

use std::error::Error;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "`cargo xtask chaos fleet` plays the same for longer, and `cargo xtask sabotage` runs it"]
fn a_fleet_on_postgresql_breaks_no_promise() {
    run("postgres").unwrap();
}

#[test]
#[ignore = "`cargo xtask chaos fleet` plays the same for longer, and `cargo xtask sabotage` runs it"]
fn a_fleet_on_redis_breaks_no_promise() {
    run("redis").unwrap();
}

fn run(store: &str) -> Result<(), Box<dyn Error>> {
    let chaos = Path::new(env!("CARGO_BIN_EXE_longhaul-chaos"));
    let built = chaos.parent().ok_or("it is nowhere")?;
    // The program is of another crate, and nobody may have built it.
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--locked", "-p", "longhaul-cli", "--bin", "longhaul", "--target-dir"]);
    assert!(build.arg(built.parent().ok_or("nor is what is built")?).status()?.success());
    let mut fleet = Command::new(chaos);
    fleet.arg("--program").arg(built.join("longhaul")).args(["fleet", "--store", store]);
    // Clocks are wrong only where libfaketime is installed.
    fleet.args(["--minutes", "1", "--seed", "7", "--faults", "kill,stop,cut,silence,delay,flap,database"]);
    let output = fleet.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}
