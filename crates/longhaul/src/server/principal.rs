//! The principal of local callers.

pub use longhaul_tasks::store::Principal;

/// The user this process runs as: whoever holds the other end of its standard input.
///
/// On systems without user ids it is always the same principal.
pub fn local_user() -> Principal {
    #[cfg(unix)]
    let user = local_principal(rustix::process::getuid().as_raw());
    #[cfg(not(unix))]
    let user = Principal::new("local").expect("it is a short name");
    user
}

/// The user of this machine with that number.
#[cfg(unix)]
pub(crate) fn local_principal(user: u32) -> Principal {
    Principal::new(format!("local:{user}")).expect("a user id is a short name")
}
