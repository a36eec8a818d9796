//! Which addresses a client may be asked to open: for its user, or for a picture.

/// Says what is wrong with the address of a page. It must be read alike by whoever shows it and whoever opens it, and
/// lead to a page: a scheme such as `javascript` or `file` runs something, or reads what is the user's own, in their
/// name.
pub(super) fn check(url: &str) -> Result<(), &'static str> {
    if !url.bytes().all(|byte| byte.is_ascii_graphic() && !br#"\"<>^`{|}"#.contains(&byte)) {
        return Err("its address has a character that must be percent-encoded");
    }
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("its address names somebody before its host");
    }
    let host = without_port(authority).ok_or("its address names no host")?;
    match scheme.to_ascii_lowercase().as_str() {
        "https" => Ok(()),
        "http" if is_loopback(host) => Ok(()),
        _ => {
            Err("its address must begin with https://, or with http:// and a name of this machine for itself")
        }
    }
}

/// The same for a picture, which may also stand in its address itself.
pub(super) fn check_picture(src: &str) -> Result<(), &'static str> {
    let scheme = src.split_once(':').map_or("", |(scheme, _)| scheme);
    if scheme.eq_ignore_ascii_case("data") { Ok(()) } else { check(src) }
}

fn without_port(authority: &str) -> Option<&str> {
    let end = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, port) = authority.split_at(end);
    let is_port = |port: &str| port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (!host.is_empty() && (port.is_empty() || is_port(port))).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_page_is_behind_tls_or_on_this_machine() {
        for url in [
            "https://example.com",
            "HTTPS://example.com:8443/sign-in?state=%22#top",
            "https://xn--bcher-kva.example/",
            "https://[2001:db8::1]/",
            "http://localhost/",
            "http://LocalHost:3000/?a",
            "http://127.0.0.1:1",
            "http://[::1]:8080#a",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for url in [
            "",
            "https",
            "https:example.com",
            "https:///example.com",
            "https://:443/",
            "https://example.com:x/",
            "https://example.com:65536/",
            "https://[::1/",
            "https://user@example.com/",
            "https://example.com\\@evil.example/",
            "https://bücher.example/",
            "https://example.com/a b",
            "https://example.com/\n",
            " https://example.com/",
            "http://example.com/",
            "http://localhost.evil.example/",
            "http://localhost@evil.example/",
            "http://127.0.0.1.evil.example/",
            "http://0.0.0.0/",
            "http://[::]/",
            "javascript:alert(1)",
            "javascript://example.com/%0Aalert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "ms-settings://localhost",
            "//example.com",
        ] {
            assert!(check(url).is_err(), "{url}");
        }
    }
}
