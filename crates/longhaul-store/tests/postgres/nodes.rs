//! Several nodes on one database: who is alive, and what they do at once.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use longhaul_store::{Batch, Postgres, PostgresOptions, Scope, Settings, StoreError, TaskStore};
use tokio::time::{sleep, timeout};

use crate::{
    networked::{self, Rig, task, until, way::Way},
    rig::{Server, multiply, query, session, shared, try_query},
};

impl Rig for Server {
    fn shared() -> &'static Self {
        shared()
    }

    fn start() -> Self {
        Self::start()
    }

    fn launch(&mut self) {
        self.launch();
    }

    fn kill(&mut self) {
        self.kill();
    }

    fn writes(&self) -> u64 {
        self.writes()
    }

    fn store(&self) -> String {
        self.database()
    }

    fn bind(&self, url: &str, task: &str, host: &str) {
        query(url, &format!("UPDATE longhaul.tasks SET host = '{host}' WHERE id = '{task}'"));
    }

    fn damage_step(&self, url: &str, task: &str, step: &str) {
        let of = format!("(SELECT ord FROM longhaul.tasks WHERE id = '{task}')");
        query(url, &format!("UPDATE longhaul.steps SET state = 99 WHERE task = {of} AND key = '{step}'"));
    }

    fn crowd(&self, url: &str, task: &str) {
        multiply(url, task, "crowd", 2..=6_000);
    }

    fn way(&self) -> Way {
        Way::to(&self.folder().join(".s.PGSQL.5432"))
    }

    fn by(way: &Way, url: &str) -> String {
        format!("postgres://tester@{}/{}", way.address, url.rsplit('/').next().unwrap())
    }

    fn over_tls() -> Self {
        Self::over_tls()
    }

    fn authority(&self) -> PathBuf {
        self.authority()
    }

    fn store_over_tls(&self, host: &str, authority: &Path) -> String {
        self.store_over_tls(host, authority)
    }

    async fn open(url: &str, settings: Settings) -> Result<Arc<dyn TaskStore>, StoreError> {
        let options = PostgresOptions::new().with_settings(settings).with_connections(4);
        Ok(Arc::new(options.open(url).await?))
    }
}

/// Not a test: the node that is killed.
#[tokio::test]
async fn a_node_that_waits_to_be_killed() {
    networked::nodes::wait_to_be_killed::<Server>().await;
}

/// Not a test: the node that stands still.
#[tokio::test]
async fn a_node_that_waits_to_be_stopped() {
    networked::partitions::wait_to_be_stopped::<Server>().await;
}

networked::scenarios! { Server:
    claims::a_task_whose_host_is_damaged_keeps_no_other_from_being_claimed,
    claims::what_a_claim_could_take_is_found_however_much_is_open,
    families::a_task_with_many_children_at_work_can_be_ended,
    lists::s3_a_list_of_thousands_meets_each_lasting_task_once_while_others_come_and_go,
    nodes::a_node_that_is_killed_loses_its_leases_and_no_other_does,
    nodes::a_node_knows_until_when_nobody_takes_it_for_dead,
    nodes::an_owners_bound_holds_while_nodes_race,
    nodes::what_nodes_do_to_one_task_at_once_is_done_once_each,
    nodes::nodes_that_claim_at_once_share_a_queue_without_one_task_twice,
    outages::what_was_acknowledged_is_there_however_often_the_server_is_killed,
    partitions::n1_a_worker_that_is_cut_off_knows_it_before_another_has_its_task,
    partitions::n2_what_a_node_writes_that_stood_still_for_too_long_is_refused,
    partitions::n3_a_node_that_is_cut_off_says_so_and_makes_up_nothing,
    partitions::n5_while_the_way_comes_and_goes_nothing_acknowledged_is_lost_and_nothing_ends_twice,
    sweeps::many_tasks_are_forgotten_by_few_writes,
    sweeps::tasks_that_cannot_be_ended_keep_no_other_from_its_end,
    tls::over_tls_a_server_is_who_its_certificate_says,
}

#[tokio::test]
async fn a_node_whose_sessions_are_ended_makes_others_and_keeps_its_leases() {
    let url = shared().database();
    let grace = Duration::from_secs(5);
    let open = async || PostgresOptions::new().with_session_grace(grace).open(&url).await.unwrap();
    let (one, other) = (open().await, open().await);
    let held = one.create(task("held")).await.unwrap().into_record();
    query(
        &url,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
    );
    assert!(other.claim(10, None).await.unwrap().is_empty(), "it may come back");
    let count = "SELECT 1 / (count(*) = 2)::int FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    until(async || try_query(&url, count)).await;
    sleep(grace).await;
    assert!(other.claim(10, None).await.unwrap().is_empty(), "it has come back");
    let renewed = one.renew(&[(held.id.clone(), held.epoch)]).await.unwrap();
    assert!(renewed.is_empty(), "its lease is its own");
}

/// A node that has lost its session makes another in the same way: one that never comes would be the end of it.
#[tokio::test]
async fn who_takes_up_a_connection_and_says_nothing_is_not_waited_for_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://tester@{}/tasks", silent.local_addr().unwrap());
    let options = PostgresOptions::new().with_patience(Duration::from_millis(200));
    let opening = timeout(Duration::from_secs(60), options.open(&url));
    let refusal = opening.await.expect("it is given up").unwrap_err();
    assert!(matches!(refusal, StoreError::Unreachable { .. }), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_tells_of_a_change_before_anybody_looks() {
    let url = shared().database();
    let open = async || {
        let options = PostgresOptions::new().with_poll(Duration::from_secs(24 * 60 * 60));
        Arc::new(options.open(&url).await.unwrap())
    };
    networked::nodes::hints_tell_of_changes(open().await, open().await).await;
}

#[tokio::test]
async fn n4_a_change_that_no_hint_tells_of_is_found() {
    let url = shared().database();
    let (one, other) = (Postgres::open(&url).await.unwrap(), Postgres::open(&url).await.unwrap());
    let held = one.create(task("watched")).await.unwrap().into_record();
    let mut watch = other.watch(&held.id);
    let waiting = async {
        // What is seen for the first time may have changed, so the second one tells.
        watch.changed().await;
        // A node that tells nobody.
        query(&url, "UPDATE longhaul.tasks SET seq = nextval('longhaul.seq') WHERE id = 'watched'");
        watch.changed().await;
    };
    timeout(Duration::from_secs(60), waiting).await.expect("it is found by looking");
}

#[tokio::test]
async fn a_statement_that_somebody_stands_in_the_way_of_is_given_up_in_time_and_has_done_nothing() {
    let url = shared().database();
    let holder = session(&url).await;
    for pooler in [false, true] {
        let options = PostgresOptions::new().with_patience(Duration::from_secs(1)).with_pooler(pooler);
        let store = options.open(&url).await.unwrap();
        let name = format!("pooler-{pooler}");
        let held = store.create(task(&name)).await.unwrap().into_record();
        let hold = format!("BEGIN; SELECT 1 FROM longhaul.tasks WHERE id = '{name}' FOR UPDATE");
        holder.batch_execute(&hold).await.unwrap();
        let late = Batch::new().with_status_message("late");
        let writing = timeout(Duration::from_secs(60), store.write(&held.id, held.epoch, late));
        let refusal = writing.await.expect("it is given up").unwrap_err();
        assert!(matches!(refusal, StoreError::Busy { .. }) && refusal.is_retryable(), "{refusal:?}");
        holder.batch_execute("COMMIT").await.unwrap();
        let found = store.get(Scope::Operator, &held.id).await.unwrap();
        assert_eq!(found.as_ref(), Some(&held));
        store.write(&held.id, held.epoch, Batch::new().with_status_message("on")).await.unwrap();
    }
}
