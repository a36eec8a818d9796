//! What a command is started with, and what is said when it cannot be.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    process::{Command, Stdio},
    time::Duration,
};

use longhaul_gateway::command::{
    Cause, Cut, Output, Run, RunsDir, RunsError, Spec, StartError, StartFailure, State, Stream,
    SupervisorProgram,
};

use super::scene::{SUPERVISOR, Scene, end_of, expect_nothing_left, marker, runs_at, sh, text_of};

#[tokio::test]
async fn a_normal_end_is_recorded() {
    let scene = Scene::new();
    let (exit, run) = scene.run("echo out; echo err >&2").await;
    assert!(exit.is_success() && !exit.is_truncated());
    assert_eq!((exit.cause, exit.code, exit.signal), (Cause::Exited, Some(0), None));
    assert_eq!((exit.stdout.total, exit.stderr.total), (4, 4));
    assert!(exit.started_at_ms <= exit.ended_at_ms && exit.survivors == 0);
    assert_eq!(text_of(&run, Stream::Stdout), "out\n");
    assert_eq!(text_of(&run, Stream::Stderr), "err\n");
    assert_eq!(scene.runs.state("run").unwrap(), State::Exited(Box::new(exit)));
    expect_nothing_left(run.dir());
}

#[tokio::test]
async fn the_exit_code_is_the_commands() {
    let scene = Scene::new();
    let (exit, _run) = scene.run("exit 42").await;
    assert_eq!((exit.cause, exit.code, exit.signal), (Cause::Exited, Some(42), None));
    assert!(!exit.is_success());
}

/// Runs of which the first `deaths` supervisors are killed before they have begun.
fn deadly(scene: &Scene, deaths: u32) -> RunsDir {
    let script = scene.file("supervisor");
    let text = format!(
        "#!/bin/sh\necho >> {0}.begun\n[ $(wc -l < {0}.begun) -le {deaths} ] && kill -KILL $$\nexec {SUPERVISOR} \"$@\"\n",
        script.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    scene.runs.clone().with_supervisor(SupervisorProgram::new(script))
}

#[tokio::test]
async fn a_supervisor_that_is_killed_before_it_has_begun_is_replaced() {
    let scene = Scene::new();
    let run = Run::start(&deadly(&scene, 2), "run", &sh("echo once")).await.unwrap();
    assert!(end_of(&run).await.is_success());
    assert_eq!(text_of(&run, Stream::Stdout), "once\n");
}

#[tokio::test]
async fn a_supervisor_that_never_begins_is_given_up() {
    let scene = Scene::new();
    let error = Run::start(&deadly(&scene, 1000), "run", &sh("true")).await.unwrap_err();
    assert!(matches!(error, StartError::Died), "{error:?}");
    assert_eq!(scene.runs.state("run").unwrap(), State::Fresh);
}

#[tokio::test]
async fn a_signal_that_ends_the_command_is_named() {
    let scene = Scene::new();
    let (exit, _run) = scene.run("kill -SEGV $$").await;
    assert_eq!((exit.cause, exit.code, exit.signal), (Cause::Exited, None, Some(11)));
}

#[tokio::test]
async fn stdin_is_delivered_to_the_byte() {
    let scene = Scene::new();
    let input: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let (exit, run) = scene.run_spec(&sh("cat").with_stdin(input.clone())).await;
    assert!(exit.is_success());
    assert_eq!(super::scene::bytes_of(run.dir(), Stream::Stdout), input);
}

#[tokio::test]
async fn without_input_stdin_is_at_its_end() {
    let scene = Scene::new();
    let (exit, run) = scene.run("cat; readlink /proc/self/fd/0").await;
    assert!(exit.is_success());
    assert_eq!(text_of(&run, Stream::Stdout), "/dev/null\n");
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_the_mark() {
    let scene = Scene::new();
    let spec = Spec::new(["env"], "/").with_env([("PATH", "/usr/bin:/bin"), ("GIVEN", "yes"), ("EMPTY", "")]);
    let (_exit, run) = scene.run_spec(&spec).await;
    let text = text_of(&run, Stream::Stdout);
    let mut names: Vec<&str> = text.lines().map(|line| line.split_once('=').unwrap().0).collect();
    names.sort_unstable();
    assert_eq!(names, ["EMPTY", "GIVEN", "LONGHAUL_RUN", "PATH"]);
    assert!(text.contains("GIVEN=yes\n") && text.contains(&format!("LONGHAUL_RUN={}\n", marker(run.dir()))));
}

#[tokio::test]
async fn the_command_starts_in_its_directory_under_its_own_name() {
    let scene = Scene::new();
    let cwd = scene.root.path().canonicalize().unwrap();
    fs::create_dir(cwd.join("bin")).unwrap();
    std::os::unix::fs::symlink("/bin/sh", cwd.join("bin/hull")).unwrap();
    let argv = ["hull", "-c", "pwd -P; tr '\\0' ' ' < /proc/$$/cmdline | cut -d' ' -f1"];
    // A relative entry of PATH is meant from where the command starts.
    let spec = Spec::new(argv, &cwd).with_env([("PATH", "bin:/usr/bin:/bin")]);
    let (_exit, run) = scene.run_spec(&spec).await;
    assert_eq!(text_of(&run, Stream::Stdout), format!("{}\nhull\n", cwd.display()));
}

#[tokio::test]
async fn the_command_leads_its_group_and_has_no_signals_blocked_or_ignored() {
    let scene = Scene::new();
    let script = "echo $$; cut -d' ' -f5,6 /proc/$$/stat; grep -E 'Sig(Blk|Ign)' /proc/self/status";
    let (_exit, run) = scene.run(script).await;
    let text = text_of(&run, Stream::Stdout);
    let lines: Vec<&str> = text.lines().collect();
    let supervisor = super::scene::supervisor_pid(run.dir()).as_raw_nonzero().get();
    assert_eq!(lines[1], format!("{} {supervisor}", lines[0]), "group of its own, session of the supervisor");
    // Numbers 32 and 33 are the C library's own; its `posix_spawn` leaves them ignored in every child.
    let mask =
        |line: &str| u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap() & !(3 << 31);
    assert_eq!((mask(lines[2]), mask(lines[3])), (0, 0), "{text}");
}

#[tokio::test]
async fn the_command_has_four_descriptors() {
    let scene = Scene::new();
    let (_exit, run) = scene.run("ls /proc/$$/fd; true").await;
    assert_eq!(text_of(&run, Stream::Stdout), "0\n1\n2\n3\n");
}

/// A host may start the server with descriptors that it forgot to close. Neither supervisor nor command keeps one.
#[tokio::test]
async fn descriptors_that_the_server_inherited_are_closed() {
    let scene = Scene::new();
    let script = "ls /proc/$$/fd; readlink /proc/$PPID/fd/0 /proc/$PPID/fd/1 /proc/$PPID/fd/2; \
                  for fd in /proc/$PPID/fd/*; do readlink $fd; done";
    let dir = scene.runs.prepare("run", &sh(script)).unwrap();
    let leak = scene.file("leak");
    fs::write(&leak, "").unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut supervisor = Command::new("/bin/sh")
        .args(["-c", "exec 3<\"$2\" 4<\"$2\" 9<\"$2\"; exec \"$0\" supervise \"$1\"", SUPERVISOR])
        .args([&dir, &leak])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    assert!(supervisor.wait().unwrap().success());
    drop(ours);
    let run = Run::attach(&scene.runs, "run").await.unwrap();
    let text = text_of(&run, Stream::Stdout);
    assert!(
        text.starts_with("0\n1\n2\n3\n/dev/null\n/dev/null\n/dev/null\n") && !text.contains("leak"),
        "{text}"
    );
}

#[tokio::test]
async fn a_state_directory_with_a_long_path_works() {
    let scene = Scene::new();
    let deep = (0..4).fold(scene.root.path().to_owned(), |path, _| path.join("d".repeat(100)));
    let runs = runs_at(&deep);
    let go = scene.file("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.02; done", go.display());
    let first = Run::start(&runs, "run", &sh(&script)).await.unwrap();
    assert!(first.dir().join("control.sock").as_os_str().len() > 400);
    let second = Run::attach(&runs, "run").await.unwrap();
    second.commit().await.unwrap();
    drop(first);
    fs::write(go, "").unwrap();
    assert!(end_of(&second).await.is_success());
}

async fn refusal(scene: &Scene, spec: &Spec) -> StartFailure {
    let error = Run::start(&scene.runs, "run", spec).await.unwrap_err();
    let StartError::Command(failure) = error else { panic!("not the command's fault: {error:?}") };
    let State::Exited(exit) = scene.runs.state("run").unwrap() else { panic!("the refusal is recorded") };
    assert_eq!((exit.cause, exit.failure.as_ref()), (Cause::NotStarted, Some(&failure)));
    expect_nothing_left(&scene.runs.dir("run").unwrap());
    assert!(scene.runs.remove("run").unwrap());
    failure
}

#[tokio::test]
async fn a_command_that_cannot_start_says_why_and_what_to_do() {
    let scene = Scene::new();
    let file = |name: &str, content: &str, mode: u32| {
        let path = scene.file(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let path = |path: &str| Spec::new(["no-such-program"], "/").with_env([("PATH", path)]);

    let failure = refusal(&scene, &path("/usr/bin:/opt/none")).await;
    assert!(
        matches!(&failure, StartFailure::NotFound { searched, .. } if searched == "/usr/bin:/opt/none"),
        "{failure:?}"
    );
    assert!(failure.to_string().contains("set PATH"), "{failure}");

    let failure = refusal(&scene, &Spec::new(["./no-such-file"], "/usr")).await;
    assert!(
        matches!(&failure, StartFailure::NotFound { searched, .. } if searched == "/usr/./no-such-file"),
        "{failure:?}"
    );

    let plain = file("plain", "#!/bin/sh\n", 0o644);
    let failure = refusal(&scene, &Spec::new([&plain], "/")).await;
    assert!(matches!(failure, StartFailure::NotExecutable { .. }), "{failure:?}");
    assert!(failure.to_string().contains("chmod +x"), "{failure}");
    let in_path = Spec::new(["plain"], "/").with_env([("PATH", scene.root.path())]);
    let failure = refusal(&scene, &in_path).await;
    assert!(matches!(failure, StartFailure::NotExecutable { .. }), "{failure:?}");

    let failure = refusal(&scene, &Spec::new(["/bin/true"], "/no/such/place")).await;
    assert!(
        matches!(&failure, StartFailure::Directory { cwd, .. } if cwd == "/no/such/place"),
        "{failure:?}"
    );
    let failure = refusal(&scene, &Spec::new(["/bin/true"], &plain)).await;
    assert!(
        matches!(&failure, StartFailure::Directory { problem, .. } if problem.contains("ot a directory")),
        "{failure:?}"
    );

    let orphan = file("orphan", "#!/no/such/interpreter\n", 0o755);
    let failure = refusal(&scene, &Spec::new([&orphan], "/")).await;
    assert!(failure.to_string().contains("interpreter"), "{failure}");

    let garbage = file("garbage", "\u{1}\u{2}no program", 0o755);
    let failure = refusal(&scene, &Spec::new([&garbage], "/")).await;
    assert!(matches!(failure, StartFailure::NotAProgram { .. }), "{failure:?}");

    let long = "x".repeat(3 << 20);
    let failure = refusal(&scene, &Spec::new(["/bin/true", &long], "/")).await;
    assert_eq!(failure, StartFailure::TooLong);
}

#[tokio::test]
async fn what_is_refused_before_the_start_leaves_nothing() {
    let scene = Scene::new();
    let relative = Run::start(&scene.runs, "run", &Spec::new(["x"], "here")).await.unwrap_err();
    assert!(matches!(relative, StartError::Runs(RunsError::Spec(_))), "{relative:?}");
    let climbing = Run::start(&scene.runs, "../run", &sh("true")).await.unwrap_err();
    assert!(matches!(climbing, StartError::Runs(RunsError::BadId { .. })), "{climbing:?}");
    let small = scene.runs.clone().with_max_bytes(1 << 20);
    let full = Run::start(&small, "run", &sh("true")).await.unwrap_err();
    assert!(full.is_out_of_space() && full.to_string().contains("max_run_bytes"), "{full}");
    assert_eq!(fs::read_dir(scene.root.path().join("runs")).unwrap().count(), 0);
}

#[test]
fn what_is_admitted_counts_at_once_and_what_is_removed_no_more() {
    let scene = Scene::new();
    // Room for two.
    let runs = runs_at(&scene.file("few")).with_max_bytes(5 << 20);
    let spec = sh("true").with_max_output(1 << 20);
    runs.prepare("first", &spec).unwrap();
    runs.prepare("second", &spec).unwrap();
    let full = runs.prepare("third", &spec).unwrap_err();
    assert!(matches!(full, RunsError::Full { used, .. } if used > 4 << 20), "{full:?}");
    assert!(runs.remove("first").unwrap());
    runs.prepare("third", &spec).unwrap();
    runs.prepare("fourth", &spec).unwrap_err();
}

#[test]
fn a_directory_of_runs_that_was_removed_is_made_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    let root = scene.root.path().join("runs");
    fs::remove_dir_all(&root).unwrap();
    scene.runs.prepare("run", &sh("true")).unwrap();
    assert_eq!(scene.runs.ids().unwrap(), ["run"]);
    assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn who_is_refused_for_want_of_room_counts_no_more_often_than_it_helps() {
    let scene = Scene::new();
    let root = scene.file("few");
    let runs = runs_at(&root).with_max_bytes(3 << 20);
    let spec = sh("true").with_max_output(1 << 20);
    let refused = || matches!(runs.prepare("second", &spec), Err(RunsError::Full { .. }));
    runs.prepare("first", &spec).unwrap();
    // Counted while there was room, then again now that there is none.
    assert!(refused());
    let began = std::time::Instant::now();
    assert!(refused());
    // Somebody else makes room, which only another count would show.
    fs::remove_dir_all(root.join("first")).unwrap();
    let still = refused();
    assert!(still || began.elapsed() > Duration::from_secs(1), "it counted at each refusal");
    std::thread::sleep(Duration::from_millis(1100));
    assert!(!refused(), "and in a moment it counts again");
}

#[tokio::test]
async fn an_id_is_used_once() {
    let scene = Scene::new();
    let (_exit, _run) = scene.run("true").await;
    let again = Run::start(&scene.runs, "run", &sh("true")).await.unwrap_err();
    assert!(matches!(again, StartError::Runs(RunsError::Exists { .. })), "{again:?}");
    let again = Run::launch(&scene.runs, "run").await.unwrap_err();
    assert!(matches!(again, StartError::AlreadyStarted), "{again:?}");
}

#[tokio::test]
async fn runs_are_counted_and_removed() {
    let scene = Scene::new();
    let spec = sh("head -c 500000 /dev/zero").with_max_output(1 << 20);
    let first = Run::start(&scene.runs, "first", &spec).await.unwrap();
    end_of(&first).await;
    let ended = scene.runs.usage().unwrap();
    assert!(ended.runs == 1 && ended.open == 0 && (500_000..1 << 20).contains(&ended.bytes), "{ended:?}");

    scene.runs.prepare("second", &spec).unwrap();
    let both = scene.runs.usage().unwrap();
    assert!(both.runs == 2 && both.open == 1 && both.bytes >= ended.bytes + (2 << 20), "{both:?}");
    let tight = scene.runs.clone().with_max_bytes(both.bytes);
    assert!(matches!(tight.prepare("third", &spec), Err(RunsError::Full { .. })));

    assert!(scene.runs.remove("first").unwrap());
    assert!(scene.runs.remove("second").unwrap());
    assert!(!scene.runs.remove("second").unwrap(), "there is none any more");
    assert_eq!(scene.runs.usage().unwrap().bytes, 0);
    assert_eq!(fs::read_dir(scene.root.path().join("runs")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_run_that_goes_on_is_not_removed() {
    let scene = Scene::new();
    let run = Run::start(&scene.runs, "run", &sh("sleep 600")).await.unwrap();
    assert!(matches!(scene.runs.remove("run"), Err(RunsError::Open { .. })));
    run.cancel().await.unwrap();
    end_of(&run).await;
    assert!(scene.runs.remove("run").unwrap());
}

#[test]
fn a_directory_that_others_can_read_is_refused() {
    let scene = Scene::new();
    let shared = scene.file("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    let error = RunsDir::open(&shared).unwrap_err();
    assert!(error.to_string().contains("chmod 700"), "{error}");
}

#[test]
fn the_files_of_a_run_are_this_users_alone() {
    let scene = Scene::new();
    let dir = scene.runs.prepare("run", &sh("true").with_stdin("secret")).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_withdrawn_run_never_starts() {
    let scene = Scene::new();
    let effects = scene.file("effects");
    let spec = sh(&format!("echo ran >> {}", effects.display()));
    scene.runs.prepare_committed("run", &spec).unwrap();
    let before = scene.runs.usage().unwrap();
    assert_eq!(scene.runs.withdraw("run").unwrap(), State::Fresh);
    let after = scene.runs.usage().unwrap();
    assert!(after.open == 0 && after.bytes < before.bytes, "it speaks for no space any more: {after:?}");
    let output = Output::open(&scene.runs.dir("run").unwrap(), Stream::Stdout).unwrap();
    assert!(output.read(0, 1, Cut::Anywhere).unwrap().done, "who follows its output need not wait");
    // A supervisor that was on its way comes too late.
    let run = Run::launch(&scene.runs, "run").await.unwrap();
    assert_eq!(end_of(&run).await.cause, Cause::Cancelled);
    assert!(!effects.exists());
    assert!(matches!(scene.runs.withdraw("run").unwrap(), State::Exited(_)));
    assert_eq!(scene.runs.withdraw("none").unwrap(), State::Absent);
}

/// Whichever is faster: what is told of the run is what happened.
#[tokio::test]
async fn a_run_withdrawn_while_it_starts_has_started_or_never_does() {
    let scene = Scene::new();
    for turn in 0..30_u64 {
        let (id, effects) = (format!("run-{turn}"), scene.file(&format!("effects-{turn}")));
        let spec = sh(&format!("echo ran >> {}; exec sleep 600", effects.display()));
        scene.runs.prepare_committed(&id, &spec).unwrap();
        let (runs, started) = (scene.runs.clone(), id.clone());
        let starting = tokio::spawn(async move { Run::launch(&runs, &started).await });
        tokio::time::sleep(Duration::from_micros(turn * 500)).await;
        let (runs, withdrawn) = (scene.runs.clone(), id.clone());
        let state = tokio::task::spawn_blocking(move || runs.withdraw(&withdrawn).unwrap()).await.unwrap();
        let run = starting.await.unwrap().unwrap();
        if matches!(state, State::Alive { .. }) {
            run.cancel().await.unwrap();
        }
        assert_eq!(end_of(&run).await.cause, Cause::Cancelled, "turn {turn}");
        assert!(state != State::Fresh || !effects.exists(), "turn {turn}: withdrawn, and it ran");
    }
}
