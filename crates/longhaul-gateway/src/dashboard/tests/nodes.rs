//! The page of the nodes, and the same as JSON.

use std::time::Duration;

use longhaul::client::Options;

use super::*;
use crate::config::{Colour, check};
use crate::upstream::Upstream;

/// What it tells of the configuration, and the latest words of a server that is served on.
#[tokio::test]
async fn it_tells_what_came_of_a_reload_and_what_a_server_said_last() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let page = browser.page("/nodes").await;
    assert!(page.contains("when the server began") && page.contains("and began <time"), "{page}");
    let (_, told) = browser.api(Method::GET, "nodes", &Value::Null).await;
    assert!(told["upMs"].as_i64().is_some_and(|up| up >= 0) && told["readAgain"].is_null(), "{told}");

    let config = "[servers.files]\ncommand = [\"sh\", \"-c\", \"echo 'no <b>disk</b>' >&2; exit 3\"]\n";
    let servers = check("/longhaul.toml", config).unwrap().config.servers;
    let upstream = Upstream::new(servers.into_iter().next().unwrap(), Options::default());
    let why = upstream.client().await.unwrap_err().why;
    assert!(why.contains("no <b>disk</b>"), "{why}");
    let heard = async {
        while upstream.last_line().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), heard).await.expect("it has said why");
    let mut facts = (*scene.dashboard.facts()).clone();
    facts.upstreams = vec![upstream];
    scene.dashboard.tell(facts);
    let mistakes = check("longhaul.toml", "[tools.say]\ncomand = []\n").unwrap_err();
    let said = vec!["was read again and has mistakes".to_owned()];
    scene.dashboard.read_again(said, mistakes.render(Colour::Never));

    let page = browser.page("/nodes").await;
    for part in ["no &lt;b&gt;disk&lt;/b&gt;", "was read again and has mistakes", "longhaul.toml:2:1"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("when the server began"), "{page}");
    let (_, told) = browser.api(Method::GET, "nodes", &Value::Null).await;
    assert_eq!(told["servers"][0]["lastLine"], "no <b>disk</b>", "{told}");
    assert_eq!(told["readAgain"]["said"][0], "was read again and has mistakes", "{told}");
}
