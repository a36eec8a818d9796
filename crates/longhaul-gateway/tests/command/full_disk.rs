//! A disk without space, as a small tmpfs. Needs the right to mount one: a test that has not run must not pass.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command};

use longhaul_gateway::command::{Run, RunsDir, Stream};

use super::scene::{Scene, bytes_of, end_of, file_appears, runs_at, sh};

/// A file system of its own, unmounted with the test.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    fn new(scene: &Scene, kilobytes: u32) -> Self {
        let path = scene.file("disk");
        fs::create_dir(&path).unwrap();
        let options = format!("size={kilobytes}k,mode=700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&mounted.stderr);
        assert!(
            mounted.status.success(),
            "this test mounts a tmpfs and may not ({said}); run it as root, or under `unshare -Urm`"
        );
        Self { path }
    }

    /// Runs on the disk that need little of it.
    fn runs(&self) -> RunsDir {
        let path = self.path.join("runs");
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        runs_at(&path)
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.path.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        while file.write_all(&[0; 16]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.path).status();
        assert!(std::thread::panicking() || unmounted.is_ok_and(|status| status.success()));
    }
}

#[tokio::test]
async fn a_disk_that_fills_during_output_costs_output_and_nothing_else() {
    let scene = Scene::new();
    let disk = SmallDisk::new(&scene, 1024);
    let runs = disk.runs();
    let run = Run::start(&runs, "run", &sh("seq 1 500000; echo '9/9 done' >&3; echo trouble >&2; exit 5"))
        .await
        .unwrap();
    run.commit().await.unwrap();
    let exit = end_of(&run).await;
    let all: Vec<u8> = (1..=500_000).flat_map(|line| format!("{line}\n").into_bytes()).collect();
    assert_eq!((exit.code, exit.stdout.total), (Some(5), all.len() as u64));
    assert!(exit.is_truncated() && exit.stdout.fault.is_some(), "{exit:?}");

    let gap = exit.stdout.gap.unwrap();
    let (from, to) = (usize::try_from(gap.from).unwrap(), usize::try_from(gap.to).unwrap());
    let kept = bytes_of(run.dir(), Stream::Stdout);
    assert!(kept == [&all[..from], &all[to..]].concat(), "the beginning and the end, whole");
    assert!(kept.len() > 500_000, "as much as the disk took: {}", kept.len());
    let status = Run::attach(&runs, "run").await.unwrap().updates().borrow().clone();
    assert_eq!(status.progress.unwrap().value, 9.0);
}

#[tokio::test]
async fn a_disk_that_is_full_when_the_command_ends_still_takes_its_end() {
    let scene = Scene::new();
    let disk = SmallDisk::new(&scene, 1024);
    let runs = disk.runs();
    let (ready, go) = (scene.file("ready"), scene.file("go"));
    let script = format!(
        "echo > {}; while [ ! -e {} ]; do sleep 0.02; done; echo lost; exit 6",
        ready.display(),
        go.display()
    );
    let run = Run::start(&runs, "run", &sh(&script)).await.unwrap();
    file_appears(&ready).await;
    disk.fill();
    run.commit().await.unwrap();
    fs::write(go, "").unwrap();
    let exit = end_of(&run).await;
    assert_eq!((exit.code, exit.stdout.total, exit.stdout.kept), (Some(6), 5, 0));
    assert!(exit.stdout.fault.unwrap().contains("space"));
    let (_, found) = (drop(run), Run::attach(&runs, "run").await.unwrap());
    assert_eq!(end_of(&found).await.code, Some(6));
    assert!(runs.remove("run").unwrap());
}

#[tokio::test]
async fn on_a_full_disk_nothing_is_started() {
    let scene = Scene::new();
    let effects = scene.file("effects");
    // From no space at all to enough: it fails at each step of making a directory, and at each says so.
    let (mut refused, mut started) = (0, 0);
    for kilobytes in (40..=120).step_by(4) {
        let scene = Scene::new();
        let disk = SmallDisk::new(&scene, kilobytes);
        let runs = disk.runs();
        fs::write(disk.path.join("filler"), vec![0; 36 << 10]).unwrap();
        match Run::start(&runs, "run", &sh(&format!("echo ran >> {}", effects.display()))).await {
            Ok(run) => {
                assert!(end_of(&run).await.is_success());
                started += 1;
            }
            Err(error) => {
                assert!(
                    error.is_out_of_space() || error.to_string().contains("free some space"),
                    "{error:?}"
                );
                refused += 1;
            }
        }
        let ran = fs::read_to_string(&effects).unwrap_or_default().lines().count();
        assert_eq!(ran, started, "what was refused did not run");
    }
    assert!(refused > 0 && started > 0, "{refused} refused, {started} started");
}
