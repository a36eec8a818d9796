//! Where a client may be called back: what may be registered, and what is the same as what was.

use reqwest::Url;

use super::super::fetch::is_safe;

/// The longest address.
const LONGEST: usize = 1024;

/// Whether a client may register this address: `https`, or `http` on the user's own machine
/// (2026-07-28, Communication Security).
pub(super) fn may_be_registered(text: &str) -> bool {
    let plain = |url: &Url| url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let visible = text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic());
    // Where a backslash is taken for a slash, two readers would see two hosts.
    visible
        && !text.contains(['\\', '"', '<', '>'])
        && Url::parse(text).is_ok_and(|url| is_safe(&url) && plain(&url))
}

/// Whether `asked` is the address that was registered, byte for byte. A program on the user's machine cannot know its
/// port beforehand, so there any will do (RFC 8252, 7.3; OAuth 2.1, 8.4.2).
pub(super) fn is_same(registered: &str, asked: &str) -> bool {
    if !may_be_registered(asked) {
        return false;
    }
    registered == asked
        || matches!((local(registered), local(asked)), (Some(ours), Some(theirs)) if ours == theirs)
}

/// Whether it is a program on the user's own machine that is called back: any program there could be.
pub(super) fn is_local(text: &str) -> bool {
    local(text).is_some()
}

/// The address without its port, in two parts, if it is on the user's own machine.
pub(super) fn local(text: &str) -> Option<(&str, &str)> {
    let after = text.strip_prefix("http://")?;
    let (authority, rest) = after.split_at(after.find(['/', '?']).unwrap_or(after.len()));
    let host = authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = host.map_or(authority, |(host, _)| host);
    ["127.0.0.1", "[::1]", "localhost"].contains(&host).then_some((host, rest))
}

/// Whom the user is asked to trust.
pub(super) fn host(text: &str) -> String {
    let url = Url::parse(text).ok();
    url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s58_p07_only_the_very_address_is_the_same() {
        let registered = "https://app.example/cb?a=1";
        assert!(is_same(registered, registered));
        for near in [
            "https://app.example/cb",
            "https://app.example/cb?a=1&b=2",
            "https://app.example/cb?a=2",
            "https://app.example/cb/?a=1",
            "https://app.example/CB?a=1",
            "https://APP.example/cb?a=1",
            "HTTPS://app.example/cb?a=1",
            "http://app.example/cb?a=1",
            "https://app.example:443/cb?a=1",
            "https://app.example:8443/cb?a=1",
            "https://app.example./cb?a=1",
            "https://app.example.evil.example/cb?a=1",
            "https://evil.example/https://app.example/cb?a=1",
            "https://app.example@evil.example/cb?a=1",
            "https://evil.example\\@app.example/cb?a=1",
            "https://app.example/x/../cb?a=1",
            "https://app.example/./cb?a=1",
            "https://app.example//cb?a=1",
            "https://app.example/%63b?a=1",
            "https://app.example/cb?a=1#",
            "https://app.example/cb?a=1#x",
            "https://app.example/cb?a=1 ",
            " https://app.example/cb?a=1",
            "https://app.example/cb?a=1\n",
            "https://app.example/cb?a=%31",
            "https://app.example/cb;x?a=1",
            "https://sub.app.example/cb?a=1",
            "//app.example/cb?a=1",
            "javascript:alert(1)//https://app.example/cb?a=1",
            "",
        ] {
            assert!(!is_same(registered, near), "{near}");
        }
    }

    #[test]
    fn p07_on_the_users_machine_any_port_will_do_and_nothing_else() {
        let registered = "http://127.0.0.1/cb";
        for same in ["http://127.0.0.1/cb", "http://127.0.0.1:1/cb", "http://127.0.0.1:65535/cb"] {
            assert!(is_same(registered, same), "{same}");
        }
        assert!(
            is_same("http://[::1]:7/cb", "http://[::1]:8/cb")
                && is_same("http://localhost:1/", "http://localhost:2/")
        );
        for near in [
            "http://localhost:1/cb",
            "http://[::1]:1/cb",
            "http://127.0.0.2:1/cb",
            "http://127.1:1/cb",
            "http://0x7f000001/cb",
            "http://2130706433/cb",
            "http://127.0.0.1:1/CB",
            "http://127.0.0.1:1/cb/",
            "http://127.0.0.1:1/cb?x",
            "http://127.0.0.1:1/x/../cb",
            "http://127.0.0.1:99999/cb",
            "http://127.0.0.1:1:2/cb",
            "http://127.0.0.1:@evil.example/cb",
            "http://127.0.0.1:1@evil.example/cb",
            "http://127.0.0.1.evil.example/cb",
            "http://127.0.0.1:evil/cb",
            "https://127.0.0.1:1/cb",
            "http:///127.0.0.1/cb",
        ] {
            assert!(!is_same(registered, near), "{near}");
        }
        // Elsewhere a port is a part like any other.
        assert!(!is_same("https://app.example:1/cb", "https://app.example:2/cb"));
    }

    #[test]
    fn p15_only_safe_addresses_may_be_registered() {
        for bad in [
            "http://app.example/cb",
            "ftp://app.example/",
            "javascript:alert(1)",
            "data:text/html,x",
            "app:/cb",
            "https://a@b.example/",
            "https://b.example/#x",
            "https://b.example/\"x",
            "https://b.example/a b",
        ] {
            assert!(!may_be_registered(bad), "{bad}");
        }
        assert!(!may_be_registered(&format!("https://b.example/{}", "a".repeat(LONGEST))));
        assert!(
            may_be_registered("https://b.example/cb?x=y") && may_be_registered("http://localhost:33418/")
        );
    }
}
