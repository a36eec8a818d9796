//! Whether a loopback address is shared: every user of a machine reaches it, whoever serves there.

use rustix::process::geteuid;

/// What to tell the operator of a server on loopback, if others have accounts on this machine.
///
/// Those of `/etc/passwd` count which people sign in to: a number of 1000 or more and a shell. Users that a
/// directory service knows are not looked for.
pub(crate) fn note() -> Option<String> {
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let other = other(&accounts, geteuid().as_raw())?;
    Some(format!(
        "other users of this machine, such as {other}, can call these tools too; --http unix:FILE serves you alone"
    ))
}

/// An account of a person who is not `user`.
fn other(accounts: &str, user: u32) -> Option<&str> {
    accounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let &[name, _, uid, _, _, _, shell] = &fields[..] else { return None };
        let uid: u32 = uid.parse().ok()?;
        let signs_in = PEOPLE.contains(&uid) && !shell.ends_with("nologin") && !shell.ends_with("/false");
        (signs_in && uid != user).then_some(name)
    })
}

/// The numbers of people; above them is `nobody`.
const PEOPLE: std::ops::Range<u32> = 1000..65534;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_people_who_sign_in_are_other_users() {
        let accounts = "root:x:0:0:root:/root:/bin/bash\n\
            www:x:1005:1005::/srv:/usr/sbin/nologin\n\
            ann:x:1000:1000:Ann:/srv/ann:/bin/bash\n\
            nobody:x:65534:65534::/:/bin/sh\n";
        assert_eq!(other(accounts, 0), Some("ann"));
        assert_eq!(other(accounts, 1000), None);
        assert_eq!(other("", 1000), None);
    }
}
