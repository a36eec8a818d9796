//! The traveller's server is killed while the hotel's is at work for it, which goes on; and whoever waits hears of neither.

use longhaul::store::{SqliteOptions, TaskStore as _};
use serde_json::json;

use crate::served::{Served, begin, ends_with, until};

#[tokio::test]
async fn the_other_agent_has_one_task_and_books_one_room() {
    let folder = tempfile::tempdir().unwrap();
    let hotel_folder = folder.path().join("hotel");
    let mut traveller = Served::start("agent-to-agent", folder.path()).await;
    let _hotel = Served::start("agent-to-agent/hotel", &hotel_folder).await;
    let client = traveller.connect().await;
    let journey = begin(&client, "travel", json!({"city": "Oslo", "nights": 3})).await;
    let hotel_tasks = SqliteOptions::default().open_to_read(hotel_folder.join("tasks.db")).unwrap();
    let counts = async || {
        let counts = hotel_tasks.counts().await.unwrap();
        (counts.open, counts.retained)
    };
    until(&journey, async |_| counts().await != (0, 0)).await;
    traveller.kill_and_restart().await;
    assert_eq!(counts().await, (1, 1), "the hotel goes on, and is not asked again");
    std::fs::write(hotel_folder.join("open"), "").unwrap();

    assert_eq!(ends_with(&journey).await, "to Oslo: a room for 3 nights");
    assert_eq!(counts().await, (0, 1), "it was one task, which has ended");
    let bookings = std::fs::read_to_string(hotel_folder.join("bookings")).unwrap();
    assert_eq!(bookings, "Oslo, 3 nights\n");
}
