//! How often the planner of the database works: it takes longer than to run what is short.

use longhaul_store::{
    Batch, Filter, Fingerprint, Json, Owner, Park, PostgresOptions, Question, Scope, Step, StepState,
    TaskStore,
};

use crate::{
    networked::task,
    rig::{Server, multiply, query, run},
};

/// How many pages are looked at, and how often one looks at the task that asks.
const LOOKS: usize = 30;

/// How often PostgreSQL makes a plan for the values at hand, and then the one for all values.
const AT_FIRST: usize = 6;

#[tokio::test]
async fn lists_and_looks_at_what_tasks_ask_keep_to_their_plans() {
    let server = Server::start_with([
        "shared_preload_libraries=pg_stat_statements",
        "pg_stat_statements.track_planning=on",
    ]);
    let url = server.database();
    let store = PostgresOptions::new().with_connections(1).open(&url).await.unwrap();
    let made = store.create(task("asks")).await.unwrap().into_record();
    let question = Question::new("q", Json::parse("{}").unwrap());
    let asks = Step::new("ask", Fingerprint::new([7; Fingerprint::LEN]), StepState::Asked(question));
    let batch = Batch::new().with_step(asks).with_park(Park::new(vec!["q".into()], None));
    store.write(&made.id, made.epoch, batch).await.unwrap();
    store.create(task("t")).await.unwrap();
    multiply(&url, "t", "t", 3..=5_000);
    query(
        &url,
        "INSERT INTO longhaul.steps (task, key, fingerprint, state, name, asked, asked_at, until, json) \
         SELECT 1000000 + n, key, fingerprint, state, name, asked, asked_at, until, json \
         FROM longhaul.steps, generate_series(1, 5000) AS n",
    );
    query(&url, "VACUUM ANALYZE longhaul.tasks, longhaul.steps");
    query(&url, "CREATE EXTENSION pg_stat_statements");

    let ann = Owner::principal("ann").unwrap();
    let mut cursor = None;
    for _ in 0..LOOKS {
        let page = store.list(Scope::Owner(&ann), &Filter::all(), cursor.as_ref(), 50).await.unwrap();
        assert_eq!(page.tasks.len(), 50);
        cursor = page.next;
        assert_eq!(store.get(Scope::Owner(&ann), &made.id).await.unwrap().unwrap().questions.len(), 1);
    }
    for statement in ["%longhaul.tasks%ORDER BY nth DESC%", "%longhaul.steps%ORDER BY task, asked%"] {
        let of = |what: &str| {
            let found = run(
                &url,
                &format!(
                    "SELECT coalesce(sum({what}), 0) FROM pg_stat_statements WHERE query LIKE '{statement}'"
                ),
            );
            found.unwrap().remove(0).parse::<usize>().unwrap()
        };
        assert_eq!(of("calls"), LOOKS, "{statement}");
        assert!(of("plans") <= AT_FIRST, "{statement} is planned {} times", of("plans"));
    }
}
