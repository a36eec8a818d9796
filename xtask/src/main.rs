//! Every check this repository runs, as `cargo xtask NAME`.
#![expect(clippy::print_stdout, reason = "this program's output is for the terminal")]

mod bench;
mod chaos;
mod conformance;
mod fuzz;
mod interop;
mod limits;
mod mutants;
mod package;
mod public_types;
mod requirements;
mod sabotage;
mod semver;
mod shown;
mod site;
mod stamp;
mod stories;
mod tally;
mod test;
mod tidy;
mod tools;
mod wire;
mod workspace;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Parser, Subcommand};

use interop::Target;
use shown::Outcome;
use site::Site;
use tally::Tally;
use workspace::Workspace;

/// Every check this repository runs.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask test                  everything, set-up included
  cargo xtask test fmt clippy       two stages of it
  cargo xtask tidy                  the shape of the tree
  cargo xtask bench                 our speed against our peers', and the goals
  cargo xtask chaos --kills 200     random kills of the program under load
  cargo xtask chaos load            ten thousand tasks on three nodes, which are killed a thousand times
  cargo xtask chaos fleet --store postgres --minutes 5   seven nodes on one database, all of which fails
  cargo xtask chaos explore         a crash at every operation of the store, one at a time (--pairs: two)
  cargo xtask chaos sim --seed 7    thirty days of misfortune in simulated time, told line by line
  cargo xtask sabotage              a guard less, one after the other: its test must fail
  cargo xtask fuzz --seconds 600    stories that fail, or reach what none did before
  cargo xtask mutants --resume      every small change to the machine, one after the other
  cargo xtask interop --checks echo -- target/debug/longhaul-everything --stdio";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every check, or the stages named, and set up what they need
    #[command(after_help = test_help())]
    Test {
        /// Stages to run; all of them by default
        stages: Vec<String>,
    },
    /// Check the shape of the tree: arrows, names, lengths, the architecture document
    #[command(after_help = tidy_help())]
    Tidy {
        /// The repository to check; the one around the current folder by default
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
    /// Write conformance/REQUIREMENTS.md: what is required of tasks, and what shows it
    Requirements,
    /// Write LIMITS.md: every bound of the code, and what becomes of what goes beyond it
    Limits,
    /// Make every published crate's archive as a registry gets it, and build each from its archive
    Package,
    /// Check the libraries with one of any two of their features and without the other, and the tests of each package by itself
    #[command(
        after_help = "Example:\n  cargo xtask features    # before a release, or after features have come or changed"
    )]
    Features,
    /// Compare whose types the published crates show with what their manifests allow
    #[command(
        after_help = "Example:\n  cargo xtask public    # before a release, or after an interface has come to show another crate's types"
    )]
    Public,
    /// Compare what the published libraries show with what they showed in the last release
    #[command(after_help = "Example:\n  cargo xtask semver --against HEAD~10")]
    Semver {
        /// The revision to compare with; the newest tag of a release (v*) by default
        #[arg(long, value_name = "REVISION")]
        against: Option<String>,
    },
    /// Measure our speed against our peers' in one run
    #[command(after_help = bench_help(), args_conflicts_with_subcommands = true)]
    Bench {
        #[command(subcommand)]
        instead: Option<Bench>,
        /// Benches to run; all of them by default
        benches: Vec<String>,
        /// How often each is measured
        #[arg(long, value_name = "N", default_value = "7")]
        rounds: NonZeroUsize,
        /// Write what was found to benches/RESULTS.md
        #[arg(long)]
        keep: bool,
    },
    /// Kill the program at random under load, then check every task's history
    #[command(args_conflicts_with_subcommands = true)]
    Chaos {
        #[command(subcommand)]
        instead: Option<Chaos>,
        /// How many servers are killed
        #[arg(long, default_value = "200")]
        kills: String,
        /// Repeats the choices of an earlier run, which printed its seed
        #[arg(long)]
        seed: Option<String>,
        /// How many clients call at once
        #[arg(long, default_value = "8")]
        clients: String,
        /// How many servers share the store
        #[arg(long, default_value = "1")]
        servers: String,
        /// Kill supervisors as well
        #[arg(long)]
        supervisors: bool,
    },
    /// Take one guard out of the code after the other, in a copy, and see the test of it fail
    #[command(after_help = "Example:\n  cargo xtask sabotage epoch lock")]
    Sabotage {
        /// Parts of names of patches; all of them by default
        patches: Vec<String>,
        /// Also those that were shown of the same code before
        #[arg(long)]
        again: bool,
        /// Keep what came of it in conformance/shown.toml
        #[arg(long, conflicts_with = "patches")]
        keep: bool,
    },
    /// Tell stories to the machine, to tasks and to the decoder, and keep those that reach something new
    #[command(after_help = fuzz_help())]
    Fuzz {
        /// Targets; all of them by default
        targets: Vec<String>,
        /// How long each
        #[arg(long, value_name = "N", default_value_t = 60)]
        seconds: u64,
    },
    /// Break the machine and the projections in every small way, in a copy, and see their tests notice
    #[command(after_help = "Example:\n  cargo xtask mutants --shard 0/4\n  cargo xtask mutants --resume")]
    Mutants {
        /// One part of them: 0/4 is the first of four
        #[arg(long, value_name = "I/N")]
        shard: Option<mutants::Shard>,
        /// Those that were noticed before are not tried again
        #[arg(long)]
        resume: bool,
    },
    /// Run the official conformance suite against our programs
    #[command(
        after_help = "Examples:\n  cargo xtask conformance server --kills 100\n  cargo xtask conformance client --strict"
    )]
    Conformance {
        #[command(subcommand)]
        side: Side,
    },
    /// Point clients in other languages at a server
    #[command(after_help = interop_help())]
    Interop {
        /// Sets of checks to run
        #[arg(long, value_name = "SET", value_delimiter = ',', default_value = "echo")]
        checks: Vec<String>,
        /// Clients to run; all that have the checks by default
        #[arg(long, value_name = "CLIENT", value_delimiter = ',')]
        client: Vec<String>,
        /// The endpoint of a server that runs
        #[arg(long, conflicts_with = "command", required_unless_present = "command")]
        url: Option<String>,
        /// A command that serves on its stdin and stdout
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Do what the README has a newcomer do, from a clean clone to the first result, three times over
    #[command(after_help = "Example:\n  cargo xtask stories")]
    Stories,
    /// Put servers that others wrote behind ours, and see that clients see the same and that nothing is left of them
    #[command(
        after_help = "Examples:\n  cargo xtask behind everything rmcp\n  cargo xtask behind --sessions 1000 rmcp\n  cargo xtask behind --killed"
    )]
    Behind {
        /// Servers to put there; all of them by default
        servers: Vec<String>,
        /// How many sessions are begun and end, each in its own way
        #[arg(long, value_name = "N", default_value_t = 50)]
        sessions: usize,
        /// Only kill ours in the middle of calls, and see what its clients come back to
        #[arg(long, conflicts_with_all = ["servers", "sessions"])]
        killed: bool,
        /// Keep what came of it in conformance/shown.toml
        #[arg(long, conflicts_with_all = ["servers", "killed"])]
        keep: bool,
    },
    /// Have our client visit servers that others wrote
    #[command(after_help = "Example:\n  cargo xtask visit everything python")]
    Visit {
        /// Servers to visit; all of them by default
        servers: Vec<String>,
    },
}

/// What else there is of it than measuring.
#[derive(Debug, Subcommand)]
enum Bench {
    /// Run them all, and keep what is found in benches/RESULTS.md
    Compare {
        /// How often each is measured
        #[arg(long, value_name = "N", default_value = "5")]
        rounds: NonZeroUsize,
    },
    /// Count the instructions of the hottest operations and hold them against what is recorded, on however busy a machine
    Check {
        /// Keep what was counted in benches/instructions.toml
        #[arg(long)]
        record: bool,
    },
    /// Draw where the time of a call and of a durable create goes, for docs/where-the-time-goes.md
    Flame,
}

/// What else there is of it than random kills.
#[derive(Debug, Subcommand)]
enum Chaos {
    /// Load several nodes on one file with tasks of every kind, kill them at random, and say what each promise comes to
    Load {
        /// How many tasks
        #[arg(long, default_value_t = 10_000)]
        tasks: u64,
        /// How often a node is killed
        #[arg(long, default_value_t = 1_000)]
        kills: u64,
        /// How many nodes share the store
        #[arg(long, default_value_t = 3)]
        processes: u64,
        /// Repeats the choices of an earlier run, which printed its seed
        #[arg(long)]
        seed: Option<String>,
        /// By when all is to be called and killed
        #[arg(long, default_value_t = 25)]
        minutes: u64,
        /// Keep what came of it in conformance/shown.toml
        #[arg(long)]
        keep: bool,
    },
    /// Load a fleet on one database while nodes, their ways to it, clocks and the database fail, then check every history
    #[command(after_help = FLEET_HELP)]
    Fleet {
        /// What the nodes share: postgres or redis
        #[arg(long)]
        store: String,
        /// For how long
        #[arg(long, default_value_t = 5)]
        minutes: u64,
        /// How many tasks are begun each second
        #[arg(long, default_value_t = 10)]
        rate: u64,
        /// Only these faults, separated by commas: kill, stop, cut, silence, delay, flap, database, clock
        #[arg(long)]
        faults: Option<String>,
        /// Keep what came of it in conformance/shown.toml
        #[arg(long, conflicts_with = "faults")]
        keep: bool,
        /// Repeats the choices of an earlier run, which printed its seed
        #[arg(long)]
        seed: Option<String>,
    },
    /// Have the power go in the middle of writing, whatever part of it has reached the disk
    Power {
        /// How often
        #[arg(long, default_value = "5000")]
        cuts: String,
        /// Repeats the choices of an earlier run
        #[arg(long)]
        seed: Option<String>,
    },
    /// Have the tests of very many try as many as there may be: a list of a million tasks, a million guesses
    Many,
    /// Let a server end before and after every operation of its store, scenario by scenario
    Explore {
        /// And the next one too: hours, which need not be in a row
        #[arg(long)]
        pairs: bool,
        /// Pairs that were tried before are not tried again
        #[arg(long, requires = "pairs")]
        resume: bool,
        /// How long to go on with pairs
        #[arg(long, default_value_t = 50)]
        minutes: u64,
        /// Keep what came of it in conformance/shown.toml
        #[arg(long, requires = "pairs")]
        keep: bool,
    },
    /// Let a fleet have thirty days of misfortune in simulated time, once for each seed
    Sim {
        /// How many seeds
        #[arg(long)]
        seeds: Option<u64>,
        /// The first of them; without a number of seeds this one alone, and all that happened in it
        #[arg(long)]
        seed: Option<u64>,
        /// How many at a time
        #[arg(long, default_value_t = 2)]
        at_once: u64,
        /// Keep what came of it in conformance/shown.toml
        #[arg(long, requires = "seeds")]
        keep: bool,
    },
}

/// What the official suite is run against.
#[derive(Debug, Subcommand)]
enum Side {
    /// Our server
    Server {
        /// How often it is killed, before it is tried again on the same store
        #[arg(long, value_name = "N", default_value_t = conformance::KILLS)]
        kills: usize,
    },
    /// Our client
    Client {
        /// Run each scenario alone: then the suite also looks at how the client ends, and at warnings
        #[arg(long)]
        strict: bool,
    },
}

const FLEET_HELP: &str = "\
Three fronts and four workers share one database. What was told to clients, and what effects were had, is held against
what is promised; exit code 1 where it is not kept.

Examples:
  cargo xtask chaos fleet --store postgres --minutes 30
  cargo xtask chaos fleet --store redis --faults stop,silence --seed 7";

fn test_help() -> String {
    format!(
        "Stages:\n{}\nWhat a stage needs is set up first: npm and PyPI packages under target/tools from committed\n\
         lock files, Debian packages when this runs as root. Everything may take {} minutes.\n\
         What a command prints is shown when it fails; with {}=1 it is shown as it comes.\n\n\
         Examples:\n  cargo xtask test\n  cargo xtask test fmt clippy",
        test::stages(),
        test::BUDGET.as_secs() / 60,
        site::VERBOSE
    )
}

fn tidy_help() -> String {
    format!(
        "Rules:\n{}\nExceptions are listed with their reasons in xtask/tidy.toml.\n\nExample:\n  cargo xtask tidy",
        tidy::rules()
    )
}

fn bench_help() -> String {
    format!(
        "Benches:\n{}\nThe server has the first processor to itself and the load the second: leave both alone meanwhile.\n\
         The first run builds the peers. benches/README.md says what is compared, benches/RESULTS.md how it came out.\n\n\
         Examples:\n  cargo xtask bench compare\n  cargo xtask bench --rounds 3 http\n  cargo xtask bench check\n  \
         cargo xtask bench flame",
        bench::benches()
    )
}

fn fuzz_help() -> String {
    format!("Targets:\n{}\nExample:\n  cargo xtask fuzz machine --seconds 600", fuzz::targets())
}

fn interop_help() -> String {
    format!(
        "Clients and their sets of checks:\n{}\nconformance/interop/README.md says what each set expects of the server.\n\n\
         Examples:\n  cargo xtask interop --checks echo -- target/debug/longhaul-everything --stdio\n  \
         cargo xtask interop --checks tasks --client node-legacy --url http://127.0.0.1:8420/mcp",
        interop::clients()
    )
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(tally) if tally.is_success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(e) => {
            println!("cannot run: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn bench_instead(site: &Site, what: Bench) -> Result<Tally> {
    let (name, tally) = match what {
        Bench::Check { record } => ("check", bench::check::run(site, record)?),
        Bench::Compare { rounds } => ("bench", bench::run(site, &[], rounds, true)?),
        Bench::Flame => ("flame", bench::flame::run(site)?),
    };
    println!("{name}: {tally}");
    Ok(tally)
}

fn chaos_instead(what: Chaos) -> Result<Tally> {
    match what {
        Chaos::Explore { pairs: false, .. } => chaos::explore(&site(chaos::BUDGET)?),
        Chaos::Explore { resume, minutes, keep, .. } => {
            let site = site(chaos::BUDGET + Duration::from_secs(minutes.saturating_mul(60)))?;
            shown::kept(keep, &site.root, "explore pairs", &[], || {
                chaos::explore_pairs(&site, resume, minutes)
            })
        }
        Chaos::Many => chaos::many(&site(chaos::BUDGET)?),
        Chaos::Sim { seeds, seed, at_once, keep } => {
            let site = site(chaos::BUDGET)?;
            let seeds = seeds.or_else(|| seed.is_none().then_some(2000));
            let numbers = seeds.map(|seeds| ("seeds", seeds));
            shown::kept(keep, &site.root, "sim", numbers.as_slice(), || {
                chaos::simulate(&site, seeds, seed, at_once)
            })
        }
        Chaos::Load { tasks, kills, processes, seed, minutes, keep } => {
            let numbers =
                [("tasks", tasks), ("kills", kills), ("processes", processes), ("minutes", minutes)];
            let site = site(chaos::BUDGET)?;
            shown::kept(keep, &site.root, "load", &numbers, || {
                chaos::drive(&site, "load", &flags(&numbers, seed))
            })
        }
        Chaos::Fleet { store, minutes, rate, faults, seed, keep } => {
            let what = format!("fleet {store}");
            let numbers = [("minutes", minutes), ("rate", rate)];
            let mut arguments = flags(&numbers, seed);
            arguments.push(format!("--store={store}"));
            arguments.extend(faults.map(|faults| format!("--faults={faults}")));
            let site = site(chaos::BUDGET + Duration::from_secs(minutes.saturating_mul(60)))?;
            shown::kept(keep, &site.root, &what, &numbers, || chaos::fleet(&site, &arguments))
        }
        Chaos::Power { cuts, seed } => {
            let cuts = flags(&[("cuts", cuts)], seed);
            Ok(chaos::drive(&site(chaos::BUDGET)?, "power", &cuts)?.tally)
        }
    }
}

/// Prints what a command has come to.
fn told(name: &str, tally: Tally) -> Tally {
    println!("{name}: {tally}");
    tally
}

fn run(command: Command) -> Result<Tally> {
    Ok(match command {
        Command::Test { stages } => test::run(&site(test::BUDGET)?, &stages)?,
        Command::Bench { instead: Some(what), .. } => bench_instead(&site(bench::BUDGET)?, what)?,
        Command::Bench { instead: None, benches, rounds, keep } => {
            let tally = bench::run(&site(bench::BUDGET)?, &benches, rounds, keep)?;
            println!("bench: {tally}");
            tally
        }
        Command::Tidy { root } => {
            let root = root.map_or_else(|| site(test::BUDGET).map(|site| site.root), Ok)?;
            let tally = tidy::run(&root)?;
            println!("tidy: {tally}");
            tally
        }
        Command::Stories => stories::run(&site(stories::BUDGET)?)?,
        Command::Package => package::run(&site(test::BUDGET)?)?,
        Command::Features => told("features", test::any_two_features(&site(test::BUDGET)?)?),
        Command::Public => public_types::run(&site(test::BUDGET)?)?,
        Command::Semver { against } => told("semver", semver::run(&site(test::BUDGET)?, against)?),
        Command::Limits => limits::write(&site(test::BUDGET)?.root)?,
        Command::Requirements => requirements::write(&site(test::BUDGET)?.root)?,
        Command::Chaos { instead: Some(what), .. } => chaos_instead(what)?,
        Command::Chaos { instead: None, kills, seed, clients, servers, supervisors } => {
            let mut arguments = flags(&[("kills", kills), ("clients", clients), ("servers", servers)], seed);
            arguments.extend(supervisors.then(|| "--supervisors".to_owned()));
            chaos::run(&site(chaos::BUDGET)?, &arguments)?
        }
        Command::Sabotage { patches, again, keep } => {
            let site = site(sabotage::BUDGET)?;
            shown::kept(keep, &site.root, "sabotage", &[], || {
                let tally = told("sabotage", sabotage::run(&site, &patches, again)?);
                Ok(Outcome::of("sabotage", tally))
            })?
        }
        Command::Fuzz { targets, seconds } => {
            let time = fuzz::BUDGET + Duration::from_secs(seconds.saturating_mul(3));
            let tally = fuzz::run(&site(time)?, &targets, seconds)?;
            println!("fuzz: {tally}");
            tally
        }
        Command::Mutants { shard, resume } => {
            let tally = mutants::run(&site(mutants::BUDGET)?, shard, resume)?;
            println!("mutants: {tally}");
            tally
        }
        Command::Conformance { side } => {
            let site = site(test::BUDGET)?;
            let tally = match side {
                Side::Server { kills } => conformance::server(&site, kills)?,
                Side::Client { strict } => conformance::client(&site, strict)?,
            };
            println!("conformance: {tally}");
            tally
        }
        Command::Interop { checks, client, url, command } => {
            let target = url.map_or(Target::Command(command), Target::Url);
            let tally = interop::run(&site(test::BUDGET)?, &checks, &client, &target)?;
            println!("interop: {tally}");
            tally
        }
        Command::Behind { servers, sessions, killed, keep } => {
            let site = site(test::BUDGET)?;
            shown::kept(keep, &site.root, "behind", &[("sessions", sessions as u64)], || {
                let tally = told("behind", interop::behind(&site, &servers, sessions, killed)?);
                Ok(Outcome::of("behind", tally))
            })?
        }
        Command::Visit { servers } => {
            let tally = interop::visit(&site(test::BUDGET)?, &servers)?;
            println!("visit: {tally}");
            tally
        }
    })
}

/// Numbers as a driver takes them.
fn flags(numbers: &[(&str, impl fmt::Display)], seed: Option<String>) -> Vec<String> {
    let numbers = numbers.iter().map(|(name, number)| format!("--{name}={number}"));
    numbers.chain(seed.map(|seed| format!("--seed={seed}"))).collect()
}

/// The workspace around the current folder, and so much time from now on.
fn site(budget: Duration) -> Result<Site> {
    let workspace = Workspace::members(&std::env::current_dir()?)?;
    Ok(Site::new(workspace.workspace_root, workspace.target_directory, Instant::now() + budget))
}
