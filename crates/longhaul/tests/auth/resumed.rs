//! Work that is entered again in another process: it is its caller's still, and may no more than it might.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longhaul::server::{Grant, Scopes, SpawnError, TaskPolicy, ToolError};
use longhaul::store::{Memory, Rerun, Scope, TaskId, TaskStore};
use longhaul::tasks::runner::Pace;
use longhaul::transport::http::server::Options;
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::rig::{Host, LocalIssuer, Signer, claims, modern, now, server};

/// How long anything may take before it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Whose the work is, what was granted, and whether it may use a tool that asks for more than most have.
async fn of_whom(cx: &Cx) -> String {
    let principal = cx.principal().map_or("nobody", |principal| principal.as_str());
    let scopes = cx.grant().and_then(Grant::scopes).map(Scopes::to_string).unwrap_or_default();
    let email = cx.grant().and_then(|grant| grant.claim::<String>("email")).unwrap_or_default();
    let deploys = match cx.spawn("deploy", json!({})).await {
        Ok(_) => "deploys",
        Err(SpawnError::Forbidden { .. }) => "may not deploy",
        Err(_) => "fails",
    };
    format!("{principal} with {scopes} at {email} {deploys}")
}

/// Says of whom it is in the process that begins it, and in the next; the first never gets further.
async fn twice(cx: Cx, entered: Arc<AtomicUsize>) -> Result<String, ToolError> {
    let first = cx.step("first", || async { Ok::<_, ToolError>(of_whom(&cx.clone()).await) }).await?;
    if entered.fetch_add(1, Ordering::SeqCst) < BEGUN {
        pending::<()>().await;
    }
    Ok(format!("{first}, then {}", of_whom(&cx).await))
}

/// How many tasks the first process begins.
const BEGUN: usize = 2;

/// A server in a process of its own.
struct Process(Runtime, Host);

impl Process {
    fn start(issuer: &LocalIssuer, store: &Memory, entered: &Arc<AtomicUsize>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (mut policy, mut pace) = (TaskPolicy::always(), Pace::default());
        policy.rerun = Rerun::Resumable;
        (pace.recover_every, pace.retry_work) = (Duration::from_millis(20), Duration::from_millis(10));
        let entered = Arc::clone(entered);
        let tool =
            Tool::typed("twice", "Say of whom it is", move |cx, _: Nothing| twice(cx, Arc::clone(&entered)));
        let server: Server =
            server().tool(tool.task(policy)).store(Arc::new(store.another_node())).pace(pace);
        let guard = Host::protection(issuer).leeway(Duration::ZERO).guard().unwrap();
        let host = runtime.block_on(Host::of(server, Options::default().guard(guard)));
        Self(runtime, host)
    }

    /// Everything of it is gone at once.
    fn crash(self) {
        self.0.shutdown_timeout(PATIENCE);
    }
}

async fn get(host: &Host, token: &str, id: &str) -> Value {
    host.send(modern(token, "tasks/get", Some(id), json!({"taskId": id}))).await.json()
}

/// A3 of `conformance/REQUIREMENTS.md`.
#[test]
fn a3_work_that_is_entered_again_is_its_callers_with_what_was_granted_and_without_a_token() {
    let around = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let signer = Signer::new("k", "EdDSA");
    let issuer = around.block_on(LocalIssuer::start(&[&signer]));
    let (store, entered) = (Memory::new(), Arc::new(AtomicUsize::new(0)));
    let token = |scope: &str, expires: u64| {
        signer.sign(&claims(&issuer, "ann", json!({"scope": scope, "exp": now() + expires})))
    };
    let (narrow, wide) = (token("mcp", 20), token("mcp deploy audit", 20));

    let one = Process::start(&issuer, &store, &entered);
    let whose = around.block_on(one.1.whoami(&narrow)).text();
    let principal = whose.split(' ').next().unwrap().to_owned();
    let ids = [&narrow, &wide].map(|token| {
        let created = around.block_on(one.1.call(token, "twice", json!({}))).json();
        created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
    });
    let begun = Instant::now();
    while entered.load(Ordering::SeqCst) < BEGUN {
        assert!(begun.elapsed() < PATIENCE, "both get to where they stay");
        std::thread::sleep(Duration::from_millis(5));
    }
    one.crash();
    for (id, token) in ids.iter().zip([&narrow, &wide]) {
        let found = around.block_on(store.get(Scope::Operator, &TaskId::new(id.as_str()).unwrap()));
        let kept = found.unwrap().unwrap().caller.as_str().to_owned();
        assert!(kept.contains("ann@example.com"), "what the issuer said of it is kept: {kept}");
        let secret = token.rsplit('.').next().unwrap();
        assert!(!kept.contains(secret), "and its token is not");
    }

    let two = Process::start(&issuer, &store, &entered);
    let renewed = token("mcp", 600);
    let [of_narrow, of_wide] = ids.each_ref().map(|id| {
        let begun = Instant::now();
        loop {
            let answer = around.block_on(get(&two.1, &renewed, id));
            if answer["result"]["status"] != "working" {
                return answer["result"]["result"]["content"][0]["text"]
                    .as_str()
                    .unwrap_or_else(|| panic!("{answer}"))
                    .to_owned();
            }
            assert!(begun.elapsed() < PATIENCE, "{answer}");
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let narrow = format!("{principal} with mcp at ann@example.com may not deploy");
    let wide = format!("{principal} with audit deploy mcp at ann@example.com deploys");
    assert_eq!(of_narrow, format!("{narrow}, then {narrow}"));
    assert_eq!(of_wide, format!("{wide}, then {wide}"));
    assert_eq!(entered.load(Ordering::SeqCst), 2 * BEGUN, "each was entered again, once");
    two.crash();
}
