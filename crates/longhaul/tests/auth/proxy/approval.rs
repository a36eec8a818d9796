//! The page on which a user decides, and what is remembered of it.

use http::StatusCode;

use crate::rig::{APP, Browser, CLI, Front, asks, damaged, field, parameters};

#[tokio::test]
async fn advisory_ghsa_c2jp_c369_7pvx_p01_every_client_is_approved_here_before_anybody_is_sent_upstream() {
    let front = Front::start().await;
    let registered = front.register("App", APP).await;
    for (client, redirect) in [(registered.as_str(), APP), ("known", "https://known.example/callback")] {
        let mut browser = Browser::default();
        let page = browser.get(&front.host, &asks(client, redirect, &[])).await;
        assert_eq!((page.status, page.header("location")), (StatusCode::OK, ""));
        let to = browser.decide(&front.host, &page, "approve").await;
        assert_eq!(to.status, StatusCode::SEE_OTHER);
        assert!(to.header("location").starts_with(&format!("{}/auth?", front.upstream.url())));
        let asked = parameters(to.header("location"));
        // Upstream knows one client, whoever asks.
        assert_eq!(asked["client_id"], "longhaul");
        assert_eq!(asked["redirect_uri"], "https://mcp.example/authorize/callback");
        assert_eq!(asked["scope"], "openid email");
        assert!(!to.header("location").contains("its-state"), "the client's state is not for upstream");
    }
}

#[tokio::test]
async fn p01_a_client_that_is_denied_learns_so_and_nobody_is_sent_upstream() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let denied = browser.decide(&front.host, &page, "deny").await;
    assert!(
        denied
            .header("location")
            .starts_with("https://app.example/callback?error=access_denied&state=its-state")
    );
    let neither = browser.decide(&front.host, &page, "").await;
    assert_eq!(neither.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn p02_an_approval_is_remembered_for_one_client_in_one_browser() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let address = asks(&client, APP, &[]);
    front.back(&mut browser, &address, "ann").await;
    let again = browser.get(&front.host, &address).await;
    assert_eq!(again.status, StatusCode::SEE_OTHER, "approved before");
    let back = browser.get(&front.host, &front.upstream.sign_in(again.header("location"), "ann")).await;
    assert!(back.header("location").starts_with("https://app.example/callback?code="));

    // Another client that calls itself the same, more scopes, another browser: a page each.
    let other = front.register("App", APP).await;
    for address in [asks(&other, APP, &[]), asks(&client, APP, &[("scope", "mcp deploy")])] {
        assert_eq!(browser.get(&front.host, &address).await.status, StatusCode::OK);
    }
    assert_eq!(Browser::default().get(&front.host, &address).await.status, StatusCode::OK);
    let mut forged = browser.clone();
    forged.change("__Host-longhaul-approved", damaged);
    assert_eq!(forged.get(&front.host, &address).await.status, StatusCode::OK);
}

#[tokio::test]
async fn p02_an_approval_is_one_persons() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let address = asks(&client, APP, &[]);
    front.back(&mut browser, &address, "ann").await;
    let to = browser.get(&front.host, &address).await;
    let back = browser.get(&front.host, &front.upstream.sign_in(to.header("location"), "bob")).await;
    assert_eq!((back.status, back.header("location")), (StatusCode::FORBIDDEN, ""));
    // And bob is asked himself.
    assert_eq!(browser.get(&front.host, &address).await.status, StatusCode::OK);
}

#[tokio::test]
async fn p02_a_program_on_the_users_machine_is_approved_each_time() {
    let front = Front::start().await;
    let client = front.register("CLI", CLI).await;
    let mut browser = Browser::default();
    for _ in 0..2 {
        front.back(&mut browser, &asks(&client, CLI, &[]), "ann").await;
    }
}

#[tokio::test]
async fn advisory_cve_2025_62800_s36_p03_the_page_says_who_asks_for_what_and_where_it_leads_in_plain_words() {
    let front = Front::start().await;
    let name = "<script>alert(1)</script>\u{202e}\u{7} & \"friends\"";
    let client = front.register(name, "https://app.example/cb?a=1&b=2").await;
    let address = asks(&client, "https://app.example/cb?a=1&b=2", &[("scope", "mcp deploy")]);
    let page = Browser::default().get(&front.host, &address).await;
    assert_eq!(page.status, StatusCode::OK);
    let shows = |text: &str| assert!(page.body.contains(text), "{text}: {}", page.body);
    shows("<b>&lt;script&gt;alert(1)&lt;/script&gt;\u{fffd}\u{fffd} &amp; &quot;friends&quot;</b>");
    shows("<p class=\"host\">app.example</p>");
    shows("<code>https://app.example/cb?a=1&amp;b=2</code>");
    shows("<code>deploy</code>, <code>mcp</code>");
    shows("nobody has checked it");
    // What is asked of the server that knows the user.
    shows(&format!("<code>{}</code>", front.upstream.url()));
    shows("<code>openid</code>, <code>email</code>");
    assert!(!page.body.contains("<script"));

    let long = front.register(&"x".repeat(500), APP).await;
    let page = Browser::default().get(&front.host, &asks(&long, APP, &[])).await;
    assert!(page.body.contains(&"x".repeat(80)) && !page.body.contains(&"x".repeat(81)));
    let local = front.register("CLI", CLI).await;
    let page = Browser::default().get(&front.host, &asks(&local, CLI, &[])).await;
    assert!(page.body.contains("a program on your own machine"));
}

#[tokio::test]
async fn p04_a_decision_counts_only_from_the_page_in_the_browser_it_was_shown_in() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let transaction = field(&page.body, "transaction");
    let approve = |transaction: &str| {
        vec![
            ("transaction".to_owned(), transaction.to_owned()),
            ("decision".to_owned(), "approve".to_owned()),
        ]
    };
    let refused = async |browser: &mut Browser, site: &str, transaction: &str| {
        let form = approve(transaction);
        let form: Vec<(&str, &str)> = form.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let answer = browser.post_from(&front.host, site, "/authorize/consent", &form).await;
        assert_eq!((answer.status, answer.header("location")), (StatusCode::FORBIDDEN, ""), "{answer:?}");
        assert!(browser.cookies("__Host-longhaul-state").is_empty());
    };
    // Another browser, no page, another page's, a changed one, another site.
    refused(&mut Browser::default(), "same-origin", &transaction).await;
    refused(&mut browser, "same-origin", "").await;
    let mut stranger = Browser::default();
    let theirs = stranger.get(&front.host, &asks(&client, APP, &[])).await;
    refused(&mut browser, "same-origin", &field(&theirs.body, "transaction")).await;
    refused(&mut browser, "same-origin", &damaged(&transaction)).await;
    refused(&mut browser, "cross-site", &transaction).await;
    refused(&mut browser, "same-site", &transaction).await;
    let mut tampered = browser.clone();
    tampered.change("__Host-longhaul-page", damaged);
    refused(&mut tampered, "same-origin", &transaction).await;
    // The cookie of another page does not do, under this page's name.
    let stolen = stranger.clone();
    let mut mixed = browser.clone();
    let cookie = stolen.cookie(&stolen.cookies("__Host-longhaul-page")[0]);
    mixed.change("__Host-longhaul-page", |_| cookie.clone());
    refused(&mut mixed, "same-origin", &transaction).await;
}

#[tokio::test]
async fn p04_any_number_of_pages_may_be_open_and_gone_back_to() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let mut pages = Vec::new();
    for state in ["one", "two", "three"] {
        pages.push(browser.get(&front.host, &asks(&client, APP, &[("state", state)])).await);
    }
    let mut back = Vec::new();
    // The last first, and one of them twice: its user went back.
    for page in [&pages[2], &pages[0], &pages[0], &pages[1]] {
        let to = browser.decide(&front.host, page, "approve").await;
        back.push(front.upstream.sign_in(to.header("location"), "ann"));
    }
    for (back, state) in back.iter().zip(["three", "one", "one", "two"]) {
        let answer = browser.get(&front.host, back).await;
        assert_eq!(parameters(answer.header("location"))["state"], state);
    }
    assert!(browser.cookies("__Host-longhaul-page-").is_empty(), "no page is left to go back to");
}

#[tokio::test]
async fn p05_no_page_is_shown_in_a_frame() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let asked = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let refused = browser.get(&front.host, "/authorize?client_id=x").await;
    let foreign = browser.get(&front.host, "/authorize/callback?state=x").await;
    for page in [asked, refused, foreign] {
        let policy = page.header("content-security-policy");
        assert!(
            policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"),
            "{policy}"
        );
        assert_eq!(page.header("x-frame-options"), "DENY");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        assert_eq!(page.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn p06_cookies_are_this_hosts_alone_and_name_their_client() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let to = browser.decide(&front.host, &page, "approve").await;
    let back =
        browser.get(&front.host, &front.upstream.sign_in(to.header("location"), "ann-from-accounting")).await;
    let mut seen = 0;
    for answer in [&page, &to, &back] {
        for (_, cookie) in answer.headers.iter().filter(|(name, _)| name == "set-cookie") {
            assert!(cookie.starts_with("__Host-longhaul-"), "{cookie}");
            for attribute in ["HttpOnly", "Secure", "SameSite=Lax", "Path=/", "Max-Age="] {
                assert!(cookie.contains(attribute), "{attribute}: {cookie}");
            }
            assert!(!cookie.contains("Domain"), "{cookie}");
            // Sealed: nothing of what it holds can be read.
            assert!(!cookie.contains("app.example") && !cookie.contains("ann-from-accounting"), "{cookie}");
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
}
