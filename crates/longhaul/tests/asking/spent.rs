//! States that count once, for an effect follows: whoever brings one again is told what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::proto::model::{Field, Form};
use longhaul::server::{Prompt, RoundOptions, TaskMode, TaskPolicy, ToolError};
use longhaul::store::{Memory, Registry, Rerun, TaskStore};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::rig::{Bare, Nothing, accept, asked, code, text};

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Amount {
    amount: u64,
}

fn tool(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

/// What was paid, and when whoever pays may go on.
#[derive(Clone, Debug)]
struct Till {
    paid: Arc<AtomicUsize>,
    open: Arc<Semaphore>,
}

impl Till {
    fn open() -> Self {
        Self { paid: Arc::default(), open: Arc::new(Semaphore::new(1)) }
    }

    fn closed() -> Self {
        Self { open: Arc::new(Semaphore::new(0)), ..Self::open() }
    }

    fn paid(&self) -> usize {
        self.paid.load(Ordering::SeqCst)
    }

    async fn pay(&self, amount: u64) -> Result<String, ToolError> {
        let number = self.paid.fetch_add(1, Ordering::SeqCst) + 1;
        let _open = self.open.acquire().await.map_err(|error| ToolError::new(error.to_string()))?;
        Ok(format!("payment {number} of {amount}"))
    }
}

async fn how_much(cx: &Cx) -> Result<u64, ToolError> {
    let answer = cx.elicit::<Amount>("How much?").key("amount").await?;
    Ok(answer.accepted().map_or(0, |Amount { amount }| amount))
}

/// Pays once it is known how much.
async fn pay(till: Till, cx: Cx) -> Result<String, ToolError> {
    let amount = how_much(&cx).await?;
    if amount == 0 {
        return Ok("nothing".to_owned());
    }
    cx.step("pay", || till.pay(amount)).await
}

/// Asks twice before it pays.
async fn pay_surely(till: Till, cx: Cx) -> Result<String, ToolError> {
    let amount = how_much(&cx).await?;
    let again = how_much(&cx).await?;
    cx.step("pay", || till.pay(amount + again)).await
}

/// Pays, asks, and pays again.
async fn pay_twice(till: Till, cx: Cx) -> Result<String, ToolError> {
    let amount = how_much(&cx).await?;
    let first = cx.step("pay", || till.pay(amount)).await?;
    let more = how_much(&cx).await?;
    let second = cx.step("pay", || till.pay(more)).await?;
    Ok(format!("{first}, {second}"))
}

/// Only looks.
async fn look(till: Till, cx: Cx) -> Result<String, ToolError> {
    let amount = how_much(&cx).await?;
    cx.step("look", || till.pay(amount)).pure().await
}

/// Pays while it asks.
async fn pay_meanwhile(till: Till, cx: Cx) -> Result<String, ToolError> {
    how_much(&cx).await?;
    let (paid, more) = tokio::join!(cx.step("pay", || till.pay(1)), how_much(&cx));
    Ok(format!("{} and {}", paid?, more?))
}

/// The same, a moment later.
async fn pay_soon_meanwhile(till: Till, cx: Cx) -> Result<String, ToolError> {
    how_much(&cx).await?;
    let paying = async {
        tokio::task::yield_now().await;
        cx.step("pay", || till.pay(1)).await
    };
    let (paid, more) = tokio::join!(paying, how_much(&cx));
    Ok(format!("{} and {}", paid?, more?))
}

/// Asks in the middle of what has an effect.
async fn pay_and_ask(till: Till, cx: Cx) -> Result<String, ToolError> {
    how_much(&cx).await?;
    let asking = cx.clone();
    let paid = cx.step("pay", || async move {
        till.pay(1).await?;
        how_much(&asking).await
    });
    Ok(format!("{}", paid.await?))
}

/// Learns more than can travel, and then asks how much to pay.
async fn pay_with_a_letter(till: Till, cx: Cx) -> Result<String, ToolError> {
    let form = Form::new().with("text", Field::text());
    let letter = cx.elicit_form("What do you write?", form).key("letter").await?;
    let amount = how_much(&cx).await?;
    let paid = cx.step("pay", || till.pay(amount)).await?;
    Ok(format!("{paid}, {} bytes", letter.accepted().map_or(0, |letter| letter.get().len())))
}

fn with<F>(till: &Till, name: &str, work: fn(Till, Cx) -> F) -> Tool
where
    F: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    let till = till.clone();
    Tool::typed(name, "Pay", move |cx: Cx, _: Nothing| work(till.clone(), cx)).reentrant(true)
}

fn paying(server: Server, till: &Till) -> Server {
    let task = |rerun| {
        let mut policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(60)));
        policy.rerun = rerun;
        policy
    };
    let its = till.clone();
    server
        .tool(with(till, "pay", pay))
        .tool(with(till, "pay_surely", pay_surely))
        .tool(with(till, "pay_twice", pay_twice))
        .tool(with(till, "pay_meanwhile", pay_meanwhile))
        .tool(with(till, "pay_meanwhile_in_a_task", pay_meanwhile).task(task(Rerun::Resumable)))
        .tool(with(till, "pay_soon_meanwhile_in_a_task", pay_soon_meanwhile).task(task(Rerun::Resumable)))
        .tool(with(till, "pay_and_ask", pay_and_ask))
        .tool(with(till, "pay_with_a_letter", pay_with_a_letter))
        .tool(with(till, "letter_in_a_task", pay_with_a_letter).task(task(Rerun::Resumable)))
        .tool(with(till, "letter_in_a_task_once", pay_with_a_letter).task(task(Rerun::Never)))
        .tool(with(till, "look", look))
        .tool(with(till, "pay_in_a_task", pay).task(task(Rerun::Resumable)))
        .tool(with(till, "pay_in_a_task_once", pay).task(task(Rerun::Never)))
        .prompt(Prompt::typed("receipt", "Pay and write", move |cx: Cx, Nothing {}| {
            let paid = pay(its.clone(), cx);
            async move { paid.await.unwrap() }
        }))
}

fn server(till: &Till) -> Bare {
    Bare::with(|server| paying(server, till))
}

/// Nodes that share what nodes can.
async fn fleet(till: &Till) -> [Bare; 2] {
    let shared = Arc::new(Memory::new());
    let nodes = [(); 2].map(|()| {
        let (registry, store): (Arc<dyn Registry>, Arc<dyn TaskStore>) = (shared.clone(), shared.clone());
        Bare::with(|server| paying(server, till).registry(registry).store(store))
    });
    for node in &nodes {
        node.dispatcher.start().await.unwrap();
    }
    nodes
}

fn amount(amount: u64) -> Value {
    json!({"amount": accept(json!({"amount": amount}))})
}

const PAYING: [&str; 3] = ["pay", "pay_in_a_task", "pay_in_a_task_once"];

#[tokio::test]
async fn s24_a_state_that_is_replayed_by_its_own_owner_repeats_nothing() {
    for name in PAYING {
        let till = Till::open();
        let bare = server(&till);
        let first = bare.call(tool(name)).await;
        let done = bare.answer(tool(name), &first, amount(7)).await;
        assert_eq!(text(&done), "payment 1 of 7", "{name}");
        for again in [7, 9] {
            let again = bare.answer(tool(name), &first, amount(again)).await;
            assert_eq!(again["result"], done["result"], "{name}: the first answers count");
        }
        assert_eq!(till.paid(), 1, "{name}");
        // What has no effect is as it was.
        assert_eq!(text(&bare.answer(tool(name), &first, amount(0)).await), "nothing", "{name}");
        let anew = bare.call(tool(name)).await;
        assert_eq!(text(&bare.answer(tool(name), &anew, amount(7)).await), "payment 2 of 7", "{name}");
    }
}

#[tokio::test]
async fn who_brings_a_state_that_is_being_used_waits_for_what_comes_of_it() {
    for name in PAYING {
        let till = Till::closed();
        let bare = server(&till);
        let first = bare.call(tool(name)).await;
        let opens = async {
            while till.paid() == 0 {
                tokio::task::yield_now().await;
            }
            // Whoever was second has got as far as it gets.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            till.open.add_permits(1);
        };
        let (one, two, ()) = tokio::join!(
            bare.answer(tool(name), &first, amount(7)),
            bare.answer(tool(name), &first, amount(7)),
            opens,
        );
        assert_eq!((text(&one), text(&two)), ("payment 1 of 7", "payment 1 of 7"), "{name}");
        assert_eq!(till.paid(), 1, "{name}");
    }
}

#[tokio::test]
async fn nodes_that_share_a_store_spend_a_state_once() {
    for name in PAYING {
        let till = Till::closed();
        let nodes = fleet(&till).await;
        let first = nodes[0].call(tool(name)).await;
        let opens = async {
            while till.paid() == 0 {
                tokio::task::yield_now().await;
            }
            till.open.add_permits(1);
        };
        let (one, two, ()) = tokio::join!(
            nodes[0].answer(tool(name), &first, amount(7)),
            nodes[1].answer(tool(name), &first, amount(7)),
            opens,
        );
        assert_eq!((text(&one), text(&two)), ("payment 1 of 7", "payment 1 of 7"), "{name}");
        let late = nodes[1].answer(tool(name), &first, amount(8)).await;
        assert_eq!(late["result"], one["result"], "{name}");
        assert_eq!(till.paid(), 1, "{name}");
    }
}

/// An older state of the call, whose answers were all given before, leads to the same effect.
#[tokio::test]
async fn all_states_of_a_call_are_spent_together() {
    let till = Till::open();
    let bare = server(&till);
    let call = || tool("pay_surely");
    let first = bare.call(call()).await;
    let second = bare.answer(call(), &first, amount(1)).await;
    assert_eq!(asked(&second), ["amount#2"]);
    // The same round again, before and after.
    let other = bare.answer(call(), &first, amount(2)).await;
    let more = json!({"amount#2": accept(json!({"amount": 10}))});
    let done = bare.answer(call(), &second, more.clone()).await;
    assert_eq!(text(&done), "payment 1 of 11");
    let late = bare.answer(call(), &first, amount(3)).await;
    for state in [&other, &late] {
        assert_eq!(bare.answer(call(), state, more.clone()).await["result"], done["result"]);
    }
    assert_eq!(till.paid(), 1);
}

#[tokio::test]
async fn a_call_that_asks_after_an_effect_goes_on_from_there() {
    let till = Till::open();
    for [one, two] in
        [server(&till), server(&till)].iter().map(|bare| [bare, bare]).chain([fleet(&till).await.each_ref()])
    {
        till.paid.store(0, Ordering::SeqCst);
        let call = || tool("pay_twice");
        let first = one.call(call()).await;
        let second = one.answer(call(), &first, amount(1)).await;
        assert_eq!(asked(&second), ["amount#2"]);
        let again = two.answer(call(), &first, amount(1)).await;
        assert_eq!(again["result"], second["result"], "the same questions, and the same state");
        let more = json!({"amount#2": accept(json!({"amount": 2}))});
        let done = two.answer(call(), &second, more.clone()).await;
        assert_eq!(text(&done), "payment 1 of 1, payment 2 of 2");
        assert_eq!(one.answer(call(), &again, more).await["result"], done["result"]);
        assert_eq!(till.paid(), 2);
    }
}

/// What cannot travel waits in one place, however often it is sent there.
#[tokio::test]
async fn a_call_that_has_grown_too_long_stands_still_once() {
    let till = Till::open();
    let bare = server(&till);
    let call = || tool("pay_with_a_letter");
    let first = bare.call(call()).await;
    let letter = |length: usize| json!({"letter": accept(json!({"text": "x".repeat(length)}))});
    let second = bare.answer(call(), &first, letter(20_000)).await;
    assert_eq!(asked(&second), ["amount"]);
    let again = bare.answer(call(), &first, letter(30_000)).await;
    assert_eq!(again["result"], second["result"]);
    let done = bare.answer(call(), &second, amount(1)).await;
    assert_eq!(text(&done), "payment 1 of 1, 20011 bytes");
    assert_eq!(bare.answer(call(), &again, amount(2)).await["result"], done["result"]);
    assert_eq!(till.paid(), 1);
}

/// Of a call that may become a task: what cannot travel is asked by the task, whose row is the only one of its state.
#[tokio::test]
async fn a_state_that_has_grown_too_long_makes_the_only_task_there_is() {
    let till = Till::open();
    let long = || json!({"letter": accept(json!({"text": "x".repeat(20_000)}))});
    let short = || json!({"letter": accept(json!({"text": "x"})), "amount": accept(json!({"amount": 2}))});
    for name in ["letter_in_a_task", "letter_in_a_task_once"] {
        for [one, two] in
            [server(&till)].iter().map(|bare| [bare, bare]).chain([fleet(&till).await.each_ref()])
        {
            till.paid.store(0, Ordering::SeqCst);
            let call = || tool(name);
            let first = one.call(call()).await;
            let second = one.answer(call(), &first, long()).await;
            let key = asked(&second)[0].to_owned();
            let other = two.answer(call(), &first, short()).await;
            assert_eq!(asked(&other), [key.as_str()], "{name}: it is that task that goes on");
            let amount = json!({ (key): accept(json!({"amount": 1})) });
            let done = two.answer(call(), &second, amount).await;
            assert_eq!(text(&done), "payment 1 of 1, 20011 bytes", "{name}");
            for answers in [long(), short()] {
                assert_eq!(one.answer(call(), &first, answers).await["result"], done["result"], "{name}");
            }
            assert_eq!(till.paid(), 1, "{name}");

            // The other way about.
            let first = one.call(call()).await;
            let done = one.answer(call(), &first, short()).await;
            assert_eq!(text(&done), "payment 2 of 2, 12 bytes", "{name}");
            let late = two.answer(call(), &first, long()).await;
            assert_eq!(late["result"], done["result"], "{name}");
            assert_eq!(till.paid(), 2, "{name}");
        }
    }
}

/// What was about to have one when the question was put has none: the call goes no further than it asks.
#[tokio::test]
async fn what_begins_beside_a_question_has_its_effect_once() {
    let till = Till::open();
    let bare = server(&till);
    let call = || tool("pay_soon_meanwhile_in_a_task");
    let first = bare.call(call()).await;
    let second = bare.answer(call(), &first, amount(1)).await;
    assert_eq!(asked(&second), ["amount#2"]);
    let again = bare.answer(call(), &first, amount(1)).await;
    let more = json!({"amount#2": accept(json!({"amount": 2}))});
    let done = bare.answer(call(), &second, more.clone()).await;
    assert_eq!(text(&done), "payment 1 of 1 and 2");
    assert_eq!(bare.answer(call(), &again, more).await["result"], done["result"]);
    assert_eq!(till.paid(), 1);
}

#[tokio::test]
async fn what_has_no_effect_spends_nothing() {
    let till = Till::open();
    let bare = server(&till);
    let first = bare.call(tool("look")).await;
    for number in 1..4 {
        let seen = bare.answer(tool("look"), &first, amount(7)).await;
        assert_eq!(text(&seen), format!("payment {number} of 7"));
    }
}

#[tokio::test]
async fn prompts_spend_their_states_too() {
    let till = Till::open();
    let bare = server(&till);
    let get = |params: Value| bare.ask_as("ann", "prompts/get", params);
    let first = get(json!({"name": "receipt"})).await;
    let params = json!({"name": "receipt", "requestState": first["result"]["requestState"],
        "inputResponses": amount(5)});
    let done = get(params.clone()).await;
    assert!(done["result"]["messages"].to_string().contains("payment 1 of 5"), "{done}");
    assert_eq!(get(params).await["result"], done["result"]);
    assert_eq!(till.paid(), 1);
}

/// It may have paid.
#[tokio::test]
async fn a_state_whose_call_was_cut_off_repeats_nothing() {
    let till = Till::closed();
    let nodes = fleet(&till).await;
    let first = nodes[0].call(tool("pay")).await;
    let cut_off = async {
        while till.paid() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        done = nodes[0].answer(tool("pay"), &first, amount(7)) => panic!("{done}"),
        () = cut_off => {}
    }
    till.open.add_permits(1);
    for node in &nodes {
        let late = node.answer(tool("pay"), &first, amount(7)).await;
        assert_eq!(code(&late), -32603);
        assert_eq!(late["error"]["data"]["reason"], "worker_lost", "{late}");
    }
    assert_eq!(till.paid(), 1);
}

#[tokio::test]
async fn no_question_cuts_off_an_effect() {
    for name in ["pay_meanwhile", "pay_meanwhile_in_a_task"] {
        let till = Till::closed();
        let bare = server(&till);
        let call = || tool(name);
        let first = bare.call(call()).await;
        let opens = async {
            while till.paid() == 0 {
                tokio::task::yield_now().await;
            }
            till.open.add_permits(1);
        };
        let (second, ()) = tokio::join!(bare.answer(call(), &first, amount(1)), opens);
        let mut asked = second["result"]["inputRequests"].as_object().unwrap().keys();
        let more = json!({ (asked.next().unwrap()): accept(json!({"amount": 2})) });
        let last = bare.answer(call(), &second, more).await;
        assert_eq!(text(&last), "payment 1 of 1 and 2", "{name}: {second}");
        assert_eq!(till.paid(), 1, "{name}");
    }
}

#[tokio::test]
async fn what_asks_in_the_middle_of_an_effect_is_told_that_it_cannot() {
    let till = Till::open();
    let bare = server(&till);
    let first = bare.call(tool("pay_and_ask")).await;
    let answer = bare.answer(tool("pay_and_ask"), &first, amount(1)).await;
    assert_eq!(code(&answer), -32603);
    assert!(answer.to_string().contains("ask before the step"), "{answer}");
}

#[tokio::test]
async fn an_expired_state_has_no_effect_spent_or_not() {
    for name in PAYING {
        let till = Till::open();
        let patience = Duration::from_millis(50);
        let bare =
            Bare::with(|server| paying(server, &till).rounds(RoundOptions::default().patience(patience)));
        let first = bare.call(tool(name)).await;
        let unused = bare.call(tool(name)).await;
        let _done = bare.answer(tool(name), &first, amount(7)).await;
        let paid = till.paid();
        std::thread::sleep(patience + Duration::from_millis(20));
        for state in [&first, &unused] {
            assert_eq!(code(&bare.answer(tool(name), state, amount(7)).await), -32602, "{name}");
        }
        assert_eq!(till.paid(), paid, "{name}");
    }
}
