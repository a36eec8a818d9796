//! What a host does with the skills of a server (SEP-2640): it lists them, and loads none whose files are others than
//! listed.

use anyhow::{Context, Result, bail, ensure};
use longhaul::client::Client;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// A skill as it is listed.
#[derive(Debug, Deserialize)]
pub(crate) struct Skill {
    uri: String,
    frontmatter: Map<String, Value>,
    resources: Vec<File>,
}

/// One of its files.
#[derive(Debug, Deserialize)]
struct File {
    uri: String,
    digest: String,
    size: usize,
}

/// The skills that the server lists: one at least.
pub(crate) async fn list(client: &Client) -> Result<Vec<Skill>> {
    #[derive(Deserialize)]
    struct Listed {
        skills: Vec<Skill>,
    }
    let listed = client.request("skills/list", &json!({})).await?;
    let Listed { skills } = serde_json::from_str(listed.get())?;
    ensure!(!skills.is_empty(), "no skills are listed");
    Ok(skills)
}

/// Loads each skill, and succeeds if none is as it is listed. Of what is not, nothing more is read.
pub(crate) async fn refuse(client: &Client) -> Result<()> {
    for skill in list(client).await? {
        if load(client, &skill).await.is_ok() {
            bail!("{} was loaded, and is another than listed", skill.uri);
        }
    }
    Ok(())
}

/// Reads a skill, file by file.
async fn load(client: &Client, skill: &Skill) -> Result<()> {
    let main = skill.resources.iter().find(|file| file.uri == skill.uri).context("its file is not listed")?;
    let text = verified(client, main).await?;
    ensure!(frontmatter(&text)? == skill.frontmatter, "its frontmatter is another than listed");
    for file in skill.resources.iter().filter(|file| file.uri != skill.uri) {
        verified(client, file).await?;
    }
    Ok(())
}

/// The text of a file, if it is what is listed.
async fn verified(client: &Client, file: &File) -> Result<String> {
    let read = client.read_resource(&file.uri).await?;
    let text = read.contents.into_iter().next().and_then(|contents| contents.text);
    let text = text.with_context(|| format!("{} is no text", file.uri))?;
    ensure!(text.len() == file.size, "{} is of another size than listed", file.uri);
    let digest = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    ensure!(file.digest == format!("sha256:{digest}"), "{} is another than listed", file.uri);
    Ok(text)
}

/// The lines `name: value` between the two fences at the beginning; a host of real skills has a reader of YAML here.
fn frontmatter(text: &str) -> Result<Map<String, Value>> {
    let rest = text.strip_prefix("---\n").context("it has no frontmatter")?;
    let (lines, _) = rest.split_once("\n---\n").context("its frontmatter has no end")?;
    let entry = |line: &str| {
        let (name, value) = line.split_once(": ").context("a line of its frontmatter is none")?;
        Ok((name.to_owned(), Value::from(value)))
    };
    lines.lines().map(entry).collect()
}
