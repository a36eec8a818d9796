//! The page of the nodes, and the same as JSON.

use std::time::Duration;

use longhaul::client::Options;
use longhaul::proto::dialect::Dialect;
use longhaul::store::{EntryKey, Overlay, StoreFuture, Value as StoredValue};

use super::*;
use crate::config::{Colour, check};
use crate::upstream::{Seen, Upstream, Upstreams};

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
    let told = upstream.client().await.unwrap_err().to_string();
    assert!(told.contains("it ended (") && !told.contains("disk"), "its words are no caller's: {told}");
    let seen = format!("{:?}", upstream.seen().borrow());
    assert!(seen.contains("its last words: no <b>disk</b>"), "{seen}");
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

/// A store that says how large it is.
#[derive(Debug)]
struct Weighed(Arc<Memory>);

impl Overlay for Weighed {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.0
    }

    fn size(&self) -> StoreFuture<'_, Option<u64>> {
        Box::pin(std::future::ready(Ok(Some(5 << 20))))
    }
}

#[tokio::test]
async fn it_tells_how_large_the_store_is_where_that_is_known() {
    let unknown = Scene::new().await;
    let browser = unknown.enter().await;
    assert!(!browser.page("/nodes").await.contains("<dt>Size"));
    assert!(browser.api(Method::GET, "nodes", &Value::Null).await.1["store"]["bytes"].is_null());

    let store = Arc::new(Memory::new());
    let server = Server::new("ci", "1.0.0").store(Weighed(Arc::clone(&store)));
    let known = Scene::serving(server, store).await;
    let browser = known.enter().await;
    let page = browser.page("/nodes").await;
    assert!(page.contains("<dt>Size</dt><dd>5.0 MiB</dd>"), "{page}");
    let (_, told) = browser.api(Method::GET, "nodes", &Value::Null).await;
    assert_eq!(told["store"]["bytes"], 5 << 20, "{told}");
}

/// A server that has a tool, and says which process it is.
#[cfg(unix)]
const HAS_A_TOOL: &str = r#"
echo $$ >pid
while IFS= read -r line; do
    id=${line#*\"id\":} id=${id%%,*}
    case $line in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
    esac
done
"#;

#[cfg(unix)]
#[tokio::test]
async fn a_server_that_has_died_is_said_to_be_away_and_its_tools_to_be_offered_still() {
    use rustix::process::{Pid, Signal, kill_process};

    let folder = tempfile::tempdir().unwrap();
    let config =
        format!("[servers.files]\ncommand = [\"sh\", \"-c\", {HAS_A_TOOL:?}]\ncwd = {:?}\n", folder.path());
    let servers = check("/longhaul.toml", &config).unwrap().config.servers;
    let options = Options::default().revision(Dialect::newest_legacy().revision());
    let upstream = Upstream::new(servers.into_iter().next().unwrap(), options);
    let upstreams = Upstreams::new(vec![Arc::clone(&upstream)], [""; 0]);
    let (server, catalogue) = upstreams.room(Server::new("front", "1.0.0"));
    let _dispatcher = server.dispatcher().unwrap();
    upstreams.keep_offered(&catalogue);
    let mut seen = upstream.seen();
    let mut is = async |is_away: bool| {
        let is = |seen: &Seen| matches!(seen, Seen::Listed { away, .. } if away.is_some() == is_away);
        let is = tokio::time::timeout(Duration::from_secs(60), seen.wait_for(is)).await;
        drop(is.expect("its end is seen").unwrap());
    };
    is(false).await;

    let scene = Scene::new().await;
    let mut facts = (*scene.dashboard.facts()).clone();
    facts.upstreams = vec![Arc::clone(&upstream)];
    scene.dashboard.tell(facts);
    let browser = scene.enter().await;
    let (_, told) = browser.api(Method::GET, "nodes", &Value::Null).await;
    assert!(told["servers"][0]["state"] == "connected" && told["servers"][0]["why"].is_null(), "{told}");

    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    is(true).await;
    let page = browser.page("/nodes").await;
    for part in
        ["not connected for <time", "its connection has ended", "what it has is offered still", "1 tool"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let (_, told) = browser.api(Method::GET, "nodes", &Value::Null).await;
    let server = &told["servers"][0];
    assert!(server["state"] == "away" && server["tools"][0] == "t", "{told}");
    assert!(server["why"].as_str().is_some_and(|why| why.contains("has ended")), "{told}");

    // Whoever calls it starts it again.
    upstream.client().await.unwrap();
    is(false).await;
    let (_, told) = browser.api(Method::GET, "nodes", &Value::Null).await;
    assert_eq!(told["servers"][0]["state"], "connected", "{told}");
    upstreams.close().await;
}

#[tokio::test]
async fn what_servers_say_of_themselves_is_shown_also_of_those_that_hold_nothing() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let engine = scene.dispatcher.engine();
    let other = br#"{"release":"9.9.9","role":"<b>","began":-9223372036854775808,"said":2000,"is_draining":false,"more":1}"#;
    // The first is of a later release.
    for (name, said) in [("idle", &other[..]), ("none", b"{}"), ("no node", other)] {
        let key = EntryKey::of_server("server", name);
        scene.registry.put(key, StoredValue::lasting(said, Duration::from_secs(60))).await.unwrap();
    }
    let (_, told) = browser.api(Method::GET, "nodes", &Value::Null).await;
    let nodes = told["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2, "what cannot be read is nobody: {told}");
    let of = |name: &str| nodes.iter().find(|node| node["name"] == name).unwrap();
    let (own, idle) = (of(engine.store().node().as_str()), of("idle"));
    assert!(own["isThis"] == true && own["role"] == "worker", "one that tells nobody knows itself: {own}");
    assert_eq!(
        (&idle["release"], &idle["tasks"], &idle["isDraining"]),
        (&"9.9.9".into(), &0.into(), &false.into())
    );
    let page = browser.page("/nodes").await;
    for part in ["<code>idle</code>", "9.9.9", "&lt;b&gt;", ">worker<"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("(about to go)"), "{page}");

    tokio::spawn(scene.fleet.clone().keep_telling());
    // What the others read of this one.
    let told = async |is: fn(&Value) -> bool| {
        let key = EntryKey::of_server("server", engine.store().node().as_str());
        let told = async {
            loop {
                if let Some(entry) = scene.registry.entry(key).await.unwrap()
                    && is(&serde_json::from_slice(&entry.value).unwrap())
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), told).await.expect("it is told")
    };
    told(|said| said["role"] == "worker" && said["is_draining"] == false).await;
    engine.drain(Duration::ZERO).await;
    told(|said| said["is_draining"] == true).await;
    assert!(browser.page("/nodes").await.contains("(about to go)"));
}
