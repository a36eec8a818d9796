//! Where the tokens of this user are kept.

use std::path::PathBuf;

use longhaul::client::auth::FileTokens;

/// The file of tokens: `longhaul/tokens.json` where programs keep what they should remember (XDG Base Directory).
/// `None` for whoever has no home.
pub(crate) fn store() -> Option<FileTokens> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?;
    Some(FileTokens::new(folder.join("longhaul/tokens.json")))
}
