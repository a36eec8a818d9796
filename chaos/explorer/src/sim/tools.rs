//! The tools of a run. What one does stands in its arguments, so that the seed chooses it.

use std::time::Duration;

use longhaul::proto::model::Progress;
use longhaul::server::{
    AskError, CancelPolicy, Child, ChildError, Elicited, StepName, TaskMode, TaskPolicy, ToolError,
};
use longhaul::store::Rerun;
use longhaul::{Cx, Tool};
use serde_json::json;

use super::outside::{Care, Hands};

/// What a call is to do: words of a letter and a number, in order.
///
/// `p` `l` `m` `r` `c` are steps: pure, at least once, at most once, reconciled, undone by what compensates it. Each
/// takes so many seconds. `a` asks, and `d` asks for so many seconds; `s` sleeps, `w` works without a step, `g` says how
/// far it is, `e` gives so many parts of its result, `h` makes so many tasks and waits for all of them, `q` for one of them,
/// `f` fails, `x` panics, and `k` takes its process along so often.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    plan: String,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Chosen {
    choice: i64,
}

/// Ends as it sees fit when it is cancelled.
pub(crate) const GENTLE: &str = "gentle";

/// Has a time from its creation.
pub(crate) const TIMED: &str = "timed";

/// Is at work on one call at a time in a process; one that waits for what it has made, or for somebody, leaves its place.
pub(crate) const NARROW: &str = "narrow";

/// What a call of [`GENTLE`] says that has heeded its cancel.
pub(crate) const STOPPED: &str = "stopped";

/// The tool of which a task is that another makes.
const CHILD: &str = "flow";

/// All of them, for a node of this generation.
pub(crate) fn tools(hands: &Hands, generation: u64) -> Vec<Tool> {
    let day = Duration::from_secs(86_400);
    let always = |rerun, ttl| {
        let mut policy = TaskPolicy::always();
        (policy.rerun, policy.ttl) = (rerun, ttl);
        policy
    };
    let mut later = TaskPolicy::new(TaskMode::After(Duration::from_secs(2)));
    later.rerun = Rerun::Resumable;
    let (mut gentle, mut narrow) = (always(Rerun::Resumable, day), always(Rerun::Resumable, day));
    gentle.cancel = CancelPolicy::Cooperative { grace: Duration::from_secs(60) };
    narrow.limit = Some(1);
    let timed = always(Rerun::Resumable, day).with_ttl_from_creation(Duration::from_secs(600));
    let all = [
        ("flow", always(Rerun::Resumable, day)),
        ("brief", always(Rerun::Resumable, Duration::from_secs(900))),
        ("later", later),
        ("again", always(Rerun::Restart, 2 * day)),
        ("never", always(Rerun::Never, day)),
        (GENTLE, gentle),
        (TIMED, timed),
        (NARROW, narrow),
    ];
    let version = format!("{generation}.0.0");
    let accepts = format!(">=1.0.0, <={version}");
    let tool = |(name, policy): (&'static str, TaskPolicy)| {
        let hands = hands.clone();
        let handler = move |cx: Cx, order: Order| {
            let hands = hands.clone();
            async move {
                match name {
                    GENTLE => heed(&hands, &cx, order).await,
                    NARROW => carry_out(&hands.one_at_a_time(), &cx, order).await,
                    _ => carry_out(&hands, &cx, order).await,
                }
            }
        };
        Tool::typed(name, "Does as it is told", handler).task(policy).version(&version).accepts(&accepts)
    };
    all.map(tool).into()
}

/// Does as it is told until it is cancelled; then it cleans up, and says so or gives up.
async fn heed(hands: &Hands, cx: &Cx, order: Order) -> Result<String, ToolError> {
    let gives_up = order.plan.len().is_multiple_of(2);
    tokio::select! {
        biased;
        () = cx.cancelled() => {
            step(hands, cx, "clean up", 1, Care::AtLeastOnce).await?;
            if gives_up { Err(cx.give_up()) } else { Ok(STOPPED.to_owned()) }
        }
        done = carry_out(hands, cx, order) => done,
    }
}

async fn carry_out(hands: &Hands, cx: &Cx, order: Order) -> Result<String, ToolError> {
    for (at, word) in order.plan.split(' ').filter(|word| !word.is_empty()).enumerate() {
        let (what, number) = word.split_at(1);
        let number: u64 = number.parse().unwrap_or(0);
        let name = ("step", at);
        match what {
            "p" => step(hands, cx, name, number, Care::Pure).await?,
            "l" => step(hands, cx, name, number, Care::AtLeastOnce).await?,
            "m" => step(hands, cx, name, number, Care::AtMostOnce).await?,
            "r" => step(hands, cx, name, number, Care::Reconciled).await?,
            "c" => step(hands, cx, name, number, Care::Undone).await?,
            "a" => ask(hands, cx, at, None).await?,
            "d" => ask(hands, cx, at, Some(number)).await?,
            "s" => cx.sleep(Duration::from_secs(number)).await,
            "w" => hands.take(number).await,
            "g" => cx.progress(Progress::new(at as f64)).await,
            "e" => {
                for part in parts_of(at, number) {
                    cx.emit(part).await?;
                }
            }
            "h" | "q" => children(hands, cx, at, number, what == "q").await,
            "f" => return Err(ToolError::new("it fails as it was told to")),
            "x" => std::panic::resume_unwind(Box::new("on purpose")),
            "k" => {
                // Its caller hears of it first.
                hands.take(1).await;
                hands.crash(&cx.effect_key("crash"), number as u32).await;
            }
            other => return Err(ToolError::new(format!("what is {other}?"))),
        }
    }
    Ok("done".to_owned())
}

/// What a plan gives of its result, in order, if it is carried out to its end.
pub(crate) fn parts(plan: &str) -> Vec<String> {
    let words = plan.split(' ').filter(|word| !word.is_empty()).enumerate();
    let gives = words.filter_map(|(at, word)| Some(parts_of(at, word.strip_prefix('e')?.parse().ok()?)));
    gives.flatten().collect()
}

fn parts_of(at: usize, number: u64) -> impl Iterator<Item = String> {
    (0..number).map(move |nth| format!("part {at} {nth}"))
}

/// What the task does that is the so-manieth which the word at this place makes.
fn child(at: usize, nth: u64) -> &'static str {
    const PLANS: [&str; 5] = ["l0", "s20 l1", "e1 m0", "h1", "r0 f0"];
    PLANS[(at + nth as usize) % PLANS.len()]
}

/// Makes tasks and waits for them: for all, or until one has ended.
async fn children(hands: &Hands, cx: &Cx, at: usize, number: u64, race: bool) {
    let key = cx.effect_key(("children", at));
    let mut children = Vec::new();
    for nth in 0..number {
        // Where there is no room for one more there may be later.
        if let Ok(child) = cx.spawn(CHILD, json!({"plan": child(at, nth)})).await {
            hands.told(&format!("{key}/{nth}"), child.id().as_str());
            children.push(child);
        }
    }
    if race && let Some((first, came)) = cx.race(&children).await {
        hands.told(&format!("{key}/first"), children[first].id().as_str());
        said(hands, &children[first], &came.map(drop));
    }
    for (child, came) in children.iter().zip(cx.join_all(&children).await) {
        said(hands, child, &came.map(drop));
    }
}

/// What a task came to that another has made: it is told the same of it, however often.
fn said(hands: &Hands, child: &Child, came: &Result<(), ChildError>) {
    let came = came.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned());
    hands.told(&format!("{}/came to", child.id().as_str()), &came);
}

async fn step(
    hands: &Hands,
    cx: &Cx,
    name: impl StepName + Copy,
    takes: u64,
    care: Care,
) -> Result<(), ToolError> {
    let key = cx.effect_key(name);
    let (its, doing) = (key.clone(), hands.clone());
    let of = cx.clone();
    let body = move || async move {
        let times = doing.effect(&its, care, of.fence());
        doing.take(takes).await;
        Ok::<_, ToolError>(times)
    };
    let call = cx.step(name, body);
    let came = match care {
        Care::Pure => call.pure().await,
        Care::AtLeastOnce => call.await,
        Care::AtMostOnce => call.at_most_once().await,
        Care::Reconciled => {
            let hands = hands.clone();
            call.reconcile(move |key| async move { Ok::<_, ToolError>(hands.had(&key)) }).await
        }
        Care::Undone => {
            let (hands, key) = (hands.clone(), key.clone());
            call.compensate(move |_: usize, _| {
                let (hands, key) = (hands.clone(), key.clone());
                async move {
                    hands.undo(&key);
                    Ok::<_, ToolError>(())
                }
            })
            .await
        }
    };
    // One that is in doubt is told so, every time.
    let said = came.as_ref().map_or_else(|error| format!("{error:?}"), ToString::to_string);
    hands.told(&key, &said);
    if care == Care::AtMostOnce { Ok(()) } else { came.map(drop) }
}

async fn ask(hands: &Hands, cx: &Cx, at: usize, within: Option<u64>) -> Result<(), ToolError> {
    let key = cx.effect_key(("ask", at));
    let mut asking = cx.elicit::<Chosen>("Which?").key(format!("ask {at}"));
    if let Some(within) = within {
        asking = asking.within(Duration::from_secs(within));
    }
    let id = key.split('/').next().and_then(|id| longhaul_store::TaskId::new(id).ok());
    match asking.await {
        Ok(Elicited::Accepted(Chosen { choice })) => {
            if let Some(id) = id {
                hands.answered(&id, &key, &format!("\"choice\":{choice}"));
            }
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(AskError::TimedOut { .. }) => {
            hands.told(&key, "nothing in time");
            Ok(())
        }
        Err(error) => Err(ToolError::new(error.to_string())),
    }
}
