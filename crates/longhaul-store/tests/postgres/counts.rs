//! Counting what owners are charged, where there are many of them and of their tasks.

use longhaul_store::{
    Postgres, TaskStore,
    transfer::{Miscount, Transfer as _},
};

use crate::{
    networked::task,
    rig::{query, run, shared},
};

/// How many tasks one owner has, and how many owners have one each: some pages of both.
const MANY: u64 = 2_500;

/// Makes tasks like the one that is there: `MANY` of an owner `many`, each charged 3, and one each of as many others, charged 5. What is
/// left of forgotten ones has the numbers of some of them.
fn fill(url: &str) {
    let like = |owner: &str, id: &str, nth: &str, charged: u64, of: &str| {
        format!(
            "INSERT INTO longhaul.tasks SELECT (jsonb_populate_record(t, jsonb_build_object('ord', nextval('longhaul.seq'), \
             'id', {id}, 'owner', {owner}, 'nth', {nth}, 'charged', {charged}))).* \
             FROM longhaul.tasks AS t, generate_series(1, {of}) AS n WHERE t.id = 't';"
        )
    };
    let bytes = |name: &str| format!("'\\x' || encode(convert_to({name}, 'UTF8'), 'hex')");
    let (many, other) = (bytes("'many'"), bytes("'other' || n"));
    let all = MANY.to_string();
    query(
        url,
        &[
            like(&many, "'m' || n", "n", 3, &all),
            like(&many, "'f' || n", "n", 0, "1200"),
            like(&other, "'o' || n", "1", 5, &all),
            format!("INSERT INTO longhaul.accounts (who, task_bytes) VALUES (sha256('many'), {});", 3 * MANY),
            "INSERT INTO longhaul.accounts (who, task_bytes) SELECT sha256(owner), 5 FROM longhaul.tasks WHERE id LIKE 'o%'"
                .to_owned(),
        ]
        .concat(),
    );
}

#[tokio::test]
async fn what_many_owners_and_tasks_are_charged_is_counted_in_pages_and_to_the_byte() {
    let url = shared().database();
    let store = Postgres::open(&url).await.unwrap();
    store.create(task("t")).await.unwrap();
    fill(&url);
    assert_eq!(store.miscounted().await.unwrap(), []);
    let rows = run(&url, "SELECT count(*) FROM longhaul.tasks").unwrap().remove(0);
    assert_eq!(store.rows().await.unwrap().to_string(), rows);
    query(
        &url,
        "UPDATE longhaul.accounts SET task_bytes = task_bytes + 1 WHERE who = sha256('many');
         UPDATE longhaul.accounts SET task_bytes = 0 WHERE who = sha256('other1');
         UPDATE longhaul.tasks SET charged = 9 WHERE id = 'o2500';
         INSERT INTO longhaul.accounts (who, task_bytes) VALUES (sha256('nobody'), 7)",
    );
    let who = |name: &str| run(&url, &format!("SELECT encode(sha256('{name}'), 'hex')")).unwrap().remove(0);
    let mut wrong =
        [("many", 3 * MANY + 1, 3 * MANY), ("other1", 0, 5), ("other2500", 5, 9), ("nobody", 7, 0)]
            .map(|(name, charged, has)| Miscount::new(who(name), charged, has));
    wrong.sort_by(|one, other| one.owner.cmp(&other.owner));
    assert_eq!(store.miscounted().await.unwrap(), wrong);
}
