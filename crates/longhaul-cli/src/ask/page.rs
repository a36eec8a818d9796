//! A page that a server wants its user to visit: shown whole, with who asks, and opened only when the user says so.

use longhaul::proto::model::{ElicitAction, ElicitUrl};

use super::fill::Dialogue;
use crate::term::clean;

/// Asks whether to go there; `None` if nobody is there any more. `open` opens a browser.
pub(super) async fn visit(
    page: &ElicitUrl,
    to: &mut impl Dialogue,
    open: impl Fn(&str) -> std::io::Result<()> + Send,
) -> Option<ElicitAction> {
    // Nothing of it may be hidden: what is decided on is the whole.
    let shown = clean::line(&page.url, LONGEST);
    to.say(&format!("  {shown}"));
    if shown != page.url {
        to.say("  ! the address has signs that cannot be shown, or is too long: it cannot be opened here");
    }
    for warning in warnings(&page.url) {
        to.say(&format!("  ! {warning}"));
    }
    to.say(
        "  o opens it in the browser; y once you have opened it yourself; n declines; !cancel; Ctrl-C leaves",
    );
    loop {
        let line = to.ask("  [o/y/n]: ").await?;
        match line.trim().to_lowercase().as_str() {
            "o" | "open" if shown == page.url => match open(&page.url) {
                Ok(()) => return Some(ElicitAction::Accept),
                Err(error) => {
                    to.say(&format!("  ! no browser was opened ({error}); open the address yourself"))
                }
            },
            "y" | "yes" => return Some(ElicitAction::Accept),
            "n" | "no" | "!decline" | "!d" => return Some(ElicitAction::Decline),
            "!cancel" | "!c" => return Some(ElicitAction::Cancel),
            _ => to.say("  ! o, y or n"),
        }
    }
}

/// The longest address that is shown, in characters.
const LONGEST: usize = 8000;

/// Where the address leads, and what is suspicious about it.
fn warnings(url: &str) -> Vec<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let mut warnings = vec![format!("it leads to {}", clean::line(name, 255))];
    if authority.contains('@') {
        warnings.push("what stands before `@` is no part of that name".to_owned());
    }
    if !name.is_ascii() || name.split('.').any(|label| label.to_lowercase().starts_with("xn--")) {
        warnings.push("that name has letters of other alphabets, which may look like another's".to_owned());
    }
    let is_here = matches!(name, "localhost" | "127.0.0.1" | "::1");
    if scheme != "https" && !is_here {
        warnings.push("it is not encrypted on the way: others may read and change it".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::fill::tests::Person;
    use super::*;

    async fn ask(url: &str, lines: &[&'static str]) -> (Option<ElicitAction>, usize, String) {
        let mut person = Person::who_says(lines);
        let opened = AtomicUsize::new(0);
        let open = |address: &str| {
            assert_eq!(address, url);
            opened.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let action = visit(&ElicitUrl::new("Sign in", url, "1"), &mut person, open).await;
        (action, opened.into_inner(), person.shown)
    }

    #[tokio::test]
    async fn a_page_is_shown_whole_and_opened_only_when_asked_for() {
        let url = "https://bank.example/login?next=%2Fx#y";
        let (action, opened, shown) = ask(url, &["perhaps", "y"]).await;
        assert_eq!((action, opened), (Some(ElicitAction::Accept), 0));
        assert!(shown.contains(&format!("  {url}\n  ! it leads to bank.example\n")), "{shown}");
        assert!(shown.contains("o, y or n"), "{shown}");
        assert_eq!(ask(url, &["o"]).await.1, 1);
        assert_eq!(ask(url, &["n"]).await.0, Some(ElicitAction::Decline));
        assert_eq!(ask(url, &["!cancel"]).await.0, Some(ElicitAction::Cancel));
        assert_eq!(ask(url, &[]).await.0, None);
    }

    #[tokio::test]
    async fn what_is_suspicious_about_an_address_is_said() {
        for (url, said) in [
            ("https://bank.example@evil.example/", "it leads to evil.example\n  ! what stands before `@`"),
            ("https://bank.example\\@evil.example/", "it leads to bank.example"),
            ("https://xn--bnk-sna.example/", "letters of other alphabets"),
            ("https://b\u{e4}nk.example/", "letters of other alphabets"),
            ("http://bank.example/", "not encrypted"),
            ("https://bank.example:99/\u{202e}x", "cannot be shown"),
        ] {
            let (_, opened, shown) = ask(url, &["o", "n"]).await;
            assert!(shown.contains(said), "{url}: {shown}");
            assert!(opened == 1 || url.contains('\u{202e}'), "{url}");
            if opened == 1 {
                continue;
            }
            assert!(shown.contains("o, y or n"), "{shown}");
        }
        assert!(!ask("http://localhost:1/", &["n"]).await.2.contains("not encrypted"));
    }
}
