//! What the example promises.

use longhaul::Client;
use longhaul::client::Command;
use serde_json::{Value, json};

#[tokio::test]
async fn a_file_is_looked_into_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("birds.db");
    let made = rusqlite::Connection::open(&file).unwrap();
    made.execute_batch("CREATE TABLE bird (name TEXT, legs INTEGER); INSERT INTO bird VALUES ('wren', 2);")
        .unwrap();

    let command = Command::new(env!("CARGO_BIN_EXE_sqlite-explorer")).args([&file]);
    let client = Client::connect(command).await.unwrap();
    let schema = client.read_resource("schema://main").await.unwrap();
    assert!(schema.contents[0].text.as_deref().unwrap().contains("CREATE TABLE bird"));

    let found = client.call("query", &json!({"sql": "SELECT * FROM bird"})).await.unwrap();
    let rows: Value = serde_json::from_str(found.structured_content.unwrap().get()).unwrap();
    assert_eq!(rows, json!({"columns": ["name", "legs"], "rows": [["wren", 2]], "more": false}));

    for harm in ["DELETE FROM bird", "DROP TABLE bird", "SELEKT"] {
        let refused = client.call("query", &json!({"sql": harm})).await.unwrap();
        assert!(refused.is_error, "{harm}");
    }
    let left: i64 = made.query_row("SELECT count(*) FROM bird", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1);
    client.close().await;
}
