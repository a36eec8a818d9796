//! The tools of a run. What one does stands in its arguments, so that the seed chooses it.

use std::time::Duration;

use longhaul::proto::model::Progress;
use longhaul::server::{AskError, Elicited, TaskMode, TaskPolicy, ToolError};
use longhaul::store::Rerun;
use longhaul::{Cx, Tool};

use super::outside::{Care, Hands};

/// What a call is to do: words of a letter and a number, in order.
///
/// `p` `l` `m` `r` `c` are steps: pure, at least once, at most once, reconciled, undone by what compensates it. Each
/// takes so many seconds. `a` asks, and `d` asks for so many seconds; `s` sleeps, `w` works without a step, `g` says how
/// far it is, `f` fails, `x` panics, and `k` takes its process along so often.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    plan: String,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Chosen {
    choice: i64,
}

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
    let all = [
        ("flow", always(Rerun::Resumable, day)),
        ("brief", always(Rerun::Resumable, Duration::from_secs(900))),
        ("later", later),
        ("again", always(Rerun::Restart, 2 * day)),
        ("never", always(Rerun::Never, day)),
    ];
    let version = format!("{generation}.0.0");
    let accepts = format!(">=1.0.0, <={version}");
    let tool = |(name, policy): (&'static str, TaskPolicy)| {
        let hands = hands.clone();
        let handler = move |cx: Cx, order: Order| carry_out(hands.clone(), cx, order);
        Tool::typed(name, "Does as it is told", handler).task(policy).version(&version).accepts(&accepts)
    };
    all.map(tool).into()
}

async fn carry_out(hands: Hands, cx: Cx, order: Order) -> Result<String, ToolError> {
    for (at, word) in order.plan.split(' ').filter(|word| !word.is_empty()).enumerate() {
        let (what, number) = word.split_at(1);
        let number: u64 = number.parse().unwrap_or(0);
        match what {
            "p" => step(&hands, &cx, at, number, Care::Pure).await?,
            "l" => step(&hands, &cx, at, number, Care::AtLeastOnce).await?,
            "m" => step(&hands, &cx, at, number, Care::AtMostOnce).await?,
            "r" => step(&hands, &cx, at, number, Care::Reconciled).await?,
            "c" => step(&hands, &cx, at, number, Care::Undone).await?,
            "a" => ask(&hands, &cx, at, None).await?,
            "d" => ask(&hands, &cx, at, Some(number)).await?,
            "s" => cx.sleep(Duration::from_secs(number)).await,
            "w" => hands.take(number).await,
            "g" => cx.progress(Progress::new(at as f64)).await,
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

async fn step(hands: &Hands, cx: &Cx, at: usize, takes: u64, care: Care) -> Result<(), ToolError> {
    let name = ("step", at);
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
