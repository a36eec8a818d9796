//! A clone of this repository, in which a type that hundreds of its files name gets another name. The check of one file in the middle
//! waits until the server was killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::served::{Served, begin, ends_with, parts, until};

/// A name that the new one has in it: changed twice, a file would show it.
const FROM: &str = "TaskId";
const TO: &str = concat!("The", "TaskId");

/// Waits at one file, for as long as there is something to wait for.
const CHECK: &str = r#"
echo "$1" >> ../checked
[ "$1" != "$(cat ../slow)" ] || while [ -e ../slow ] && [ ! -e ../go ]; do sleep 0.02; done
! grep -q "T[h]eThe" "$1"
"#;

fn git(repository: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=test", "-c", "user.email=test@localhost"]);
    let output = command.args(arguments).current_dir(repository).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A clone of the repository that this stands in, as it is committed.
fn clone(to: &Path) {
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--shared", concat!(env!("CARGO_MANIFEST_DIR"), "/..")]).arg(to);
    let output = clone.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "what is migrated is the clone of longhaul that this is run in: {said}");
}

#[tokio::test]
async fn each_file_is_changed_once_and_all_are_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("repository");
    clone(&repository);
    fs::write(repository.join("check"), CHECK).unwrap();
    git(&repository, &["add", "check"]);
    git(&repository, &["commit", "-q", "-m", "Check"]);
    let base = git(&repository, &["rev-parse", "HEAD"]);
    let text = |name: &str| fs::read_to_string(repository.join(name)).unwrap();
    let due = git(&repository, &["grep", "-IlF", "-e", FROM]);
    let due: Vec<&str> = due.lines().collect();
    let before: BTreeMap<&str, String> = due.iter().map(|name| (*name, text(name))).collect();
    assert!(due.len() > 100, "{due:?}");
    let middle = due.len() / 2;
    fs::write(folder.path().join("slow"), due[middle]).unwrap();

    let mut server = Served::start("code-migration", folder.path()).await;
    let client = server.connect().await;
    let migration = begin(&client, "rename", json!({"from": FROM, "to": TO})).await;
    let checked = || {
        let checked = fs::read_to_string(folder.path().join("checked")).unwrap_or_default();
        checked.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // It is in the middle of that file: changed, and not known to be.
    until(&migration, async |_| checked().len() == middle + 1).await;
    let mut told = 0;
    while let more @ 1.. = parts(&client, migration.id(), told).await.len() {
        told += more;
    }
    assert_eq!(told, middle);
    server.kill_and_restart().await;
    until(&migration, async |_| checked().len() == middle + 2).await;
    fs::write(folder.path().join("go"), "").unwrap();

    let said = ends_with(&migration).await;
    let commit = git(&repository, &["rev-parse", "HEAD"]);
    assert_eq!(said, format!("{} files changed in {}", due.len(), commit.trim_end()));
    assert_eq!(git(&repository, &["rev-parse", "HEAD^"]), base, "one commit");
    assert_eq!(git(&repository, &["status", "--porcelain"]), "", "and nothing besides");
    let changed = git(&repository, &["diff", "--name-only", "HEAD^", "HEAD"]);
    assert_eq!(changed.lines().collect::<Vec<_>>(), due);
    for (name, before) in before {
        assert_eq!(text(name), before.replace(FROM, TO), "{name}");
    }
    let mut expected = due.clone();
    // The one that was cut off was done again, and no other.
    expected.insert(middle, due[middle]);
    assert_eq!(checked(), expected);
}

#[tokio::test]
async fn what_is_not_committed_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("repository");
    fs::create_dir(&repository).unwrap();
    fs::write(repository.join("a.rs"), "old").unwrap();
    for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "Begin"]] {
        git(&repository, arguments);
    }
    fs::write(repository.join("a.rs"), "old, and what somebody is at").unwrap();
    let server = Served::start("code-migration", folder.path()).await;
    let client = server.connect().await;
    let migration = begin(&client, "rename", json!({"from": "old", "to": "new"})).await;
    assert_eq!(ends_with(&migration).await, "there are changes in the repository: commit them first");
    assert_eq!(fs::read_to_string(repository.join("a.rs")).unwrap(), "old, and what somebody is at");
}
