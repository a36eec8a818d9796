//! Several nodes on one server: who is alive, and what they hear of each other.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use longhaul_store::{Batch, Outcome, Redis, RedisOptions, Scope, Settings, StoreError, TaskStore};

use crate::{
    networked::{self, Rig, task, way::Way},
    rig::{Server, shared},
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
        self.store()
    }

    fn bind(&self, url: &str, task: &str, host: &str) {
        let (_, name) = url.rsplit_once("name=").unwrap();
        self.say(&["HSET", &format!("{{{name}}}:task:{task}"), "o", host]);
    }

    fn damage_step(&self, url: &str, task: &str, step: &str) {
        let (_, name) = url.rsplit_once("name=").unwrap();
        self.say(&["HSET", &format!("{{{name}}}:steps:{task}"), step, "no step"]);
    }

    /// Of which nothing but their places is there, which is enough to be looked at.
    fn crowd(&self, url: &str, _: &str) {
        let (_, name) = url.rsplit_once("name=").unwrap();
        let crowd = "for i = 1, 6000 do redis.call('ZADD', KEYS[1], 1000000 + i, 'crowd' .. i) end return 1";
        self.say(&["EVAL", crowd, "1", &format!("{{{name}}}:open")]);
    }

    fn way(&self) -> Way {
        Way::to(&self.socket())
    }

    fn by(way: &Way, url: &str) -> String {
        format!("redis://{}/?{}", way.address, url.split_once('?').unwrap().1)
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
        Ok(Arc::new(RedisOptions::new().with_settings(settings).open(url).await?))
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
    let server = Server::start();
    let url = server.store();
    let grace = Duration::from_secs(3);
    let open = async || RedisOptions::new().with_session_grace(grace).open(&url).await.unwrap();
    let (one, other) = (open().await, open().await);
    let held = one.create(task("held")).await.unwrap().into_record();
    server.say(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert!(other.claim(10, None).await.unwrap().is_empty(), "it may come back");
    tokio::time::sleep(grace).await;
    assert!(other.claim(10, None).await.unwrap().is_empty(), "it has come back");
    let renewed = one.renew(&[(held.id.clone(), held.epoch)]).await.unwrap();
    assert!(renewed.is_empty(), "its lease is its own");
}

#[tokio::test]
async fn n4_a_change_that_no_hint_tells_of_is_found() {
    let server = Server::start();
    let url = server.store();
    let (one, other) = (Redis::open(&url).await.unwrap(), Redis::open(&url).await.unwrap());
    let held = one.create(task("watched")).await.unwrap().into_record();
    let mut watch = other.watch(&held.id);
    // A node that tells nobody: it may not speak on the channel of this store.
    let name = url.rsplit('=').next().unwrap();
    let row = format!("{{{name}}}:task:watched");
    let waiting = async {
        // What is seen for the first time may have changed, so the second one tells.
        watch.changed().await;
        server.say(&["HSET", &row, "s", "1000"]);
        watch.changed().await;
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it is found by looking");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_tells_of_a_change_before_anybody_looks() {
    let url = shared().store();
    let open = async || {
        let options = RedisOptions::new().with_poll(Duration::from_secs(24 * 60 * 60));
        Arc::new(options.open(&url).await.unwrap())
    };
    networked::nodes::hints_tell_of_changes(open().await, open().await).await;
}

/// It reads nothing, and tells nobody while it is alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_with_what_it_has_written() {
    let server = Server::start();
    let one = Redis::open(&server.store()).await.unwrap();
    let asked = || ["hmget", "publish"].map(|command| server.calls(command));
    let [reads, hints] = asked();
    let tasks: usize = 100;
    for nth in 0..tasks {
        let held = one.create(task(&format!("held-{nth}"))).await.unwrap().into_record();
        for words in ["half", "whole"] {
            one.write(&held.id, held.epoch, Batch::new().with_status_message(words)).await.unwrap();
        }
        one.finish(&held.id, held.epoch, Outcome::lost("over"), Batch::new()).await.unwrap();
    }
    let [now_read, now_hints] = asked();
    // The node itself looks now and then whether it is to go on, by the same command.
    let read = now_read - reads;
    assert!(read < tasks as u64 / 2, "{read} reads for {tasks} tasks");
    assert_eq!(now_hints, hints);
}

/// What it knows of the task is of before, whatever it has to say.
#[tokio::test]
async fn a_worker_finds_out_that_another_has_its_task_though_it_reads_nothing() {
    let url = shared().store();
    let mut settings = Settings::default();
    settings.lease = Duration::from_millis(300);
    let (one, other) =
        (Server::join(&url, settings.clone()).await, Server::join(&url, settings.clone()).await);
    for (id, last) in [("empty", None), ("said", Some("on")), ("ended", None)] {
        let held = one.create(task(id)).await.unwrap().into_record();
        tokio::time::sleep(settings.lease * 2).await;
        let taken = other.claim_one(&held.id).await.unwrap().expect("its lease is over");
        let report = last.map_or_else(Batch::new, |words| Batch::new().with_status_message(words));
        let refused = match id {
            "ended" => one.finish(&held.id, held.epoch, Outcome::lost("over"), report).await.map(drop),
            _ => one.write(&held.id, held.epoch, report).await.map(drop),
        };
        assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{id}: {refused:?}");
        other.finish(&taken.id, taken.epoch, Outcome::lost("over"), Batch::new()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_again_is_told_by_the_version_of_a_task() {
    let server = Server::start();
    let url = server.store();
    let (one, other) = (Redis::open(&url).await.unwrap(), Redis::open(&url).await.unwrap());
    let look = async |id| one.get(Scope::Operator, id).await.unwrap().map(|task| task.status_message);
    let held = other.create(task("held")).await.unwrap().into_record();
    // Until it has a connection of this runtime.
    let mut read = u64::MAX;
    while read != server.calls("hmget") {
        read = server.calls("hmget");
        assert_eq!(look(&held.id).await, Some(None));
    }
    for words in ["half", "whole"] {
        other.write(&held.id, held.epoch, Batch::new().with_status_message(words)).await.unwrap();
        read = server.calls("hmget");
        for _ in 0..3 {
            assert_eq!(look(&held.id).await, Some(Some(words.into())));
        }
        assert_eq!(server.calls("hmget"), read + 1);
    }
    let nobody = Scope::Owner(&longhaul_store::Owner::principal("nobody").unwrap());
    assert_eq!(one.get(nobody, &held.id).await.unwrap(), None);
    other.finish(&held.id, held.epoch, Outcome::lost("over"), Batch::new()).await.unwrap();
    other.erase(Scope::Operator, &held.id).await.unwrap();
    assert_eq!(look(&held.id).await, None);
}
