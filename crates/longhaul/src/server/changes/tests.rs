//! What one node tells of what it sees, and what the others say that they have.

use tokio::time::sleep;

use super::*;

/// Notes what other nodes are told.
#[derive(Clone, Debug, Default)]
struct Others(Arc<Mutex<Vec<(Seen, News)>>>);

impl Others {
    fn note(&self, seen: Seen, news: &News) {
        self.0.lock().expect("nobody panics with it").push((seen, news.clone()));
    }
}

impl Elsewhere for Others {
    fn tell(&self, news: &News) {
        self.note(Seen::Here, news);
    }

    fn tell_seen(&self, news: &News) {
        self.note(Seen::ByEach, news);
    }
}

const URI: &str = "app://watched";

fn updated(uris: &[&str]) -> News {
    News { uris: uris.iter().map(|uri| (*uri).to_owned()).collect(), ..News::default() }
}

/// A node with others beside it, and somebody who wants to hear of all.
fn node() -> (Arc<Changes>, Others, Listener) {
    let (changes, others) = (Arc::new(Changes::new(8)), Others::default());
    changes.tell_elsewhere(Arc::new(others.clone()));
    let listener = changes.listen(SubscriptionFilter::default().lists().resource(URI));
    (changes, others, listener)
}

/// What has been told, if anything has, or is at just this time.
async fn told(listener: &Listener) -> Option<News> {
    tokio::time::timeout(Duration::from_millis(5), listener.news()).await.ok()
}

#[tokio::test(start_paused = true)]
async fn what_one_node_alone_has_changed_is_told_in_a_moment() {
    let (changes, others, listener) = node();
    changes.resource_updated(URI, Seen::Here);
    sleep(MOMENT).await;
    assert_eq!(told(&listener).await, Some(updated(&[URI])));
    assert_eq!(*others.0.lock().unwrap(), [(Seen::Here, updated(&[URI]))]);
    changes.tell(&updated(&[URI]));
    assert_eq!(told(&listener).await, Some(updated(&[URI])), "another has changed it since");
}

#[tokio::test(start_paused = true)]
async fn what_every_node_sees_is_told_once_whoever_sees_it_first() {
    let (changes, others, listener) = node();
    let seen_here = || changes.resource_updated(URI, Seen::ByEach);
    let seen_elsewhere = || changes.gather(updated(&[URI]));
    let both: [[&dyn Fn(); 2]; 2] = [[&seen_here, &seen_elsewhere], [&seen_elsewhere, &seen_here]];
    for (number, [first, second]) in both.into_iter().enumerate() {
        first();
        sleep(Duration::from_millis(700)).await;
        second();
        assert_eq!(told(&listener).await, None, "not before the others had their time");
        sleep(MOMENT + GATHERED - Duration::from_millis(700)).await;
        assert_eq!(told(&listener).await, Some(updated(&[URI])));
        sleep(3 * GATHERED).await;
        assert_eq!(told(&listener).await, None, "nor again");
        assert_eq!(others.0.lock().unwrap().len(), number + 1, "what was heard is not said on");
    }
    assert!(others.0.lock().unwrap().iter().all(|(seen, _)| *seen == Seen::ByEach));
}

#[tokio::test(start_paused = true)]
async fn the_last_change_is_told_after_it_whoever_sees_it_and_when() {
    // Each change by what number of milliseconds it comes after the one before, and which way.
    for gap in (0..=2500).step_by(50) {
        for ways in [[true, true], [true, false], [false, true], [false, false]] {
            let (changes, _, listener) = node();
            for is_here in ways {
                // Whatever was told before says nothing of this.
                drop(told(&listener).await);
                if is_here {
                    changes.resource_updated(URI, Seen::ByEach);
                } else {
                    changes.gather(updated(&[URI]));
                }
                sleep(Duration::from_millis(gap)).await;
            }
            sleep(MOMENT + GATHERED).await;
            assert_eq!(told(&listener).await, Some(updated(&[URI])), "{gap} ms, {ways:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_alone_waits_for_no_other() {
    let changes = Arc::new(Changes::new(8));
    let listener = changes.listen(SubscriptionFilter::default().lists());
    changes.list_changed(Listed::Tools, Seen::ByEach);
    sleep(MOMENT).await;
    assert_eq!(told(&listener).await, Some(News { tools: true, ..News::default() }));
}
