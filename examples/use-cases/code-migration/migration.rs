//! The tool: every file of a repository that has a name is changed and checked, and all of them are one commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::UNIX_EPOCH;

use longhaul::server::{State, ToolError};
use longhaul::{Cx, Server, tool};
use tokio::process::Command;

/// Give something another name in every file of the repository that has it, check each, and commit them.
#[tool(task = "always", rerun = "resumable")]
async fn rename(
    cx: Cx,
    repository: State<Repository>,
    from: String,
    to: String,
) -> Result<String, ToolError> {
    // All that follows is made of this commit, whatever a crash leaves in the folder.
    let base = cx.step("base", || repository.base()).pure().await?;
    let files = cx.step("files", || repository.files_with(&base, &from)).pure().await?;
    for file in &files {
        cx.step(("change", file), || repository.change(&base, file, &from, &to)).await?;
        cx.emit(format!("{file} is changed, and passes its checks")).await?;
    }
    let time = cx.now_once().await?.duration_since(UNIX_EPOCH)?.as_secs();
    let message = format!("Rename {from} to {to}");
    let commit = cx.step("commit", || repository.commit(&base, &files, &message, time)).await?;
    Ok(format!("{} files changed in {commit}", files.len()))
}

/// A repository, whose script `check` says whether a file is as it should be.
struct Repository(PathBuf);

impl Repository {
    /// Where it stands, with nothing in the folder that is not committed.
    async fn base(&self) -> Result<String, ToolError> {
        if !self.git(&["status", "--porcelain", "--untracked-files=no"]).await?.is_empty() {
            return Err(ToolError::new("there are changes in the repository: commit them first"));
        }
        Ok(self.git(&["rev-parse", "HEAD"]).await?.trim_end().to_owned())
    }

    /// The files of a commit that have this text; none is an error, as is no text.
    async fn files_with(&self, base: &str, text: &str) -> Result<Vec<String>, ToolError> {
        let found = self.git(&["grep", "-IlzF", "-e", text, base]).await;
        let found = found.map_err(|_| ToolError::new(format!("no file has `{text}`")))?;
        let files = found.split_terminator('\0').filter_map(|found| found.split_once(':'));
        Ok(files.map(|(_, file)| file.to_owned()).collect())
    }

    /// Done twice, this comes to the same: it begins with the file as it was committed.
    async fn change(&self, base: &str, file: &str, from: &str, to: &str) -> Result<(), ToolError> {
        let before = self.git(&["show", &format!("{base}:{file}")]).await?;
        fs::write(self.0.join(file), before.replace(from, to))?;
        let checked = Command::new("sh").args(["check", file]).current_dir(&self.0).output().await?;
        printed(checked).map(|_| ())
    }

    /// Done twice, this comes to the same: a commit is known by what is in it, its time included, and the branch moves from
    /// `base` alone.
    async fn commit(
        &self,
        base: &str,
        files: &[String],
        message: &str,
        time: u64,
    ) -> Result<String, ToolError> {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        self.git(&[&["add", "--"], &files[..]].concat()).await?;
        let tree = self.git(&["write-tree"]).await?;
        let date = format!("@{time} +0000");
        let mut write = self.command(&["commit-tree", tree.trim_end(), "-p", base, "-m", message]);
        write.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        let commit = printed(write.output().await?)?.trim_end().to_owned();
        if self.git(&["rev-parse", "HEAD"]).await?.trim_end() != commit {
            self.git(&["update-ref", "-m", message, "HEAD", &commit, base]).await?;
        }
        Ok(commit)
    }

    async fn git(&self, arguments: &[&str]) -> Result<String, ToolError> {
        printed(self.command(arguments).output().await?)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=migration", "-c", "user.email=migration@localhost"]);
        command.args(arguments).current_dir(&self.0);
        command
    }
}

/// What a command has printed; if it failed, what it says of that.
fn printed(command: Output) -> Result<String, ToolError> {
    if command.status.success() {
        return Ok(String::from_utf8(command.stdout)?);
    }
    let said = [command.stdout, command.stderr].concat();
    Err(ToolError::new(format!("{}: {}", command.status, String::from_utf8_lossy(&said))))
}

/// The server of the repository in this folder.
pub(crate) fn server(folder: &Path) -> Server {
    Server::new("migration", "1.0.0").state(Repository(folder.join("repository"))).tool(rename)
}
