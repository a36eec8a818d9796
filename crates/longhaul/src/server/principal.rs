//! The principal of local callers.

pub use longhaul_tasks::store::Principal;

/// The user this process runs as: whoever holds the other end of its standard input.
///
/// On systems without user ids it is always the same principal.
pub fn local_user() -> Principal {
    #[cfg(unix)]
    let name = format!("local:{}", rustix::process::getuid().as_raw());
    #[cfg(not(unix))]
    let name = "local";
    Principal::new(name).expect("a user id is a short name")
}
