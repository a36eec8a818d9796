//! What the program remembers for its user, in files that nobody else reads.

use std::path::PathBuf;

use longhaul::client::auth::FileTokens;

/// The folder: `longhaul` where programs keep what they should remember (XDG Base Directory). `None` for whoever has no
/// home.
pub(crate) fn folder() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?;
    Some(folder.join("longhaul"))
}

/// The file of tokens.
pub(crate) fn tokens() -> Option<FileTokens> {
    Some(FileTokens::new(folder()?.join("tokens.json")))
}
