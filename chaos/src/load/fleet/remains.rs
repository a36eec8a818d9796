//! What is in the database itself when all is over: whether what it has counted is what there is (I12), and what is left that
//! nobody needs any more (I14).

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Kind;
use super::witness::asked;

/// What is there, at one moment.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// What is counted: what the store says, and how many there are.
    pub(super) counters: Vec<(String, i64, i64)>,
    /// How many there are of what must not be there, and among how many it was looked for.
    pub(super) left: Vec<(String, i64, i64)>,
}

/// Of all counters, that of the tasks that are there.
const TASKS: &str = "tasks";

/// How long what is about to go has for it.
const PATIENCE: Duration = Duration::from_secs(10);

impl Remains {
    /// What is there once nothing is wrong with it, or will not go.
    pub(super) fn of(kind: Kind, url: &str) -> Result<Self> {
        let until = Instant::now() + PATIENCE;
        loop {
            let remains = match kind {
                Kind::Postgres => in_postgres(url),
                Kind::Redis => in_redis(url),
            };
            let remains = remains.context("what is left cannot be read")?;
            if remains.broken().is_empty() || Instant::now() > until {
                return Ok(remains);
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// What is wrong with it.
    pub(super) fn broken(&self) -> Vec<String> {
        let miscounted = self.counters.iter().filter(|(_, said, counted)| said != counted);
        let miscounted = miscounted
            .map(|(what, said, counted)| format!("I12: {what}: it says {said}, and there are {counted}"));
        let left = self.left.iter().filter(|(_, count, _)| *count != 0);
        miscounted.chain(left.map(|(what, count, _)| format!("I14: {count} are left: {what}"))).collect()
    }

    /// How many tasks were found.
    pub(super) fn tasks(&self) -> usize {
        let found = self.counters.iter().find(|(what, ..)| what == TASKS);
        found.and_then(|(_, _, there)| usize::try_from(*there).ok()).unwrap_or_default()
    }

    /// Among how many things what is left was looked for.
    pub(super) fn among(&self) -> usize {
        self.left.iter().filter_map(|(_, _, among)| usize::try_from(*among).ok()).sum()
    }

    /// That it was looked for where nothing is: so many tasks there must be at least.
    pub(super) fn blind(&self, least: usize) -> Option<String> {
        let tasks = self.tasks();
        let what = || format!("I12: {tasks} tasks are found in the database, and at least {least} are in it");
        (tasks < least).then(what)
    }
}

const COUNTERS: &str = "WITH owned AS (
    SELECT who, coalesce(t.open, 0) AS open, coalesce(t.retained, 0) AS retained, coalesce(t.bytes, 0)::bigint AS bytes,
        coalesce(s.bytes, 0)::bigint AS event_bytes, coalesce(e.entries, 0) AS entries
    FROM (SELECT sha256(owner) AS who, count(*) FILTER (WHERE phase < 8) AS open, count(*) AS retained,
            sum(charged) AS bytes FROM longhaul.tasks GROUP BY 1) AS t
        FULL JOIN (SELECT sha256(owner) AS who, sum(bytes) AS bytes FROM longhaul.streams GROUP BY 1) AS s USING (who)
        FULL JOIN (SELECT sha256(owner) AS who, count(*) AS entries FROM longhaul.entries WHERE is_own = 1 GROUP BY 1)
            AS e USING (who)
), accounts (name, o, o_is, r, r_is, b, b_is, v, v_is, n, n_is) AS (
    SELECT encode(who, 'hex'), a.open, owned.open, a.retained, owned.retained, a.task_bytes, owned.bytes,
        a.event_bytes, owned.event_bytes, a.entries, owned.entries
    FROM longhaul.accounts AS a FULL JOIN owned USING (who)
)
SELECT what || ' of ' || left(name, 12), coalesce(said, 0), coalesce(there, 0) FROM accounts, LATERAL (VALUES
    ('open tasks', o, o_is), ('tasks', r, r_is), ('bytes of tasks', b, b_is), ('bytes of events', v, v_is),
    ('entries', n, n_is)) AS counted (what, said, there)
UNION ALL SELECT what, said::bigint, there::bigint FROM (SELECT sum(open) AS o, sum(retained) AS r,
    sum(event_bytes) AS v, sum(entries) AS n FROM longhaul.totals) AS totals, LATERAL (VALUES
    ('open tasks', o, (SELECT count(*) FROM longhaul.tasks WHERE phase < 8)),
    ('tasks', r, (SELECT count(*) FROM longhaul.tasks)),
    ('bytes of events', v, (SELECT coalesce(sum(bytes), 0) FROM longhaul.streams)),
    ('entries', n, (SELECT count(*) FROM longhaul.entries))) AS counted (what, said, there)";

const LEFT: &str = "SELECT what, left_over, among FROM (SELECT count(*) AS tasks, count(*) FILTER (WHERE phase < 8) AS open,
        count(*) FILTER (WHERE lease_node IS NOT NULL OR lease_until IS NOT NULL) AS leased,
        count(*) FILTER (WHERE not_before IS NOT NULL) AS waits, count(*) FILTER (WHERE phase <> 9 AND asked > 0) AS asks,
        count(*) FILTER (WHERE phase = 8 AND outcome = 0 AND outcome_code = 0 AND children > 0) AS parents
    FROM longhaul.tasks) AS of_tasks, LATERAL (VALUES ('open tasks', open, tasks), ('leases', leased, tasks),
    ('tasks that wait', waits, tasks), ('tasks that ask', asks, tasks), ('tasks that wait for others', parents, tasks))
    AS looked (what, left_over, among)
UNION ALL SELECT 'steps of no task', count(*) FILTER (WHERE task NOT IN (SELECT ord FROM longhaul.tasks)), count(*)
    FROM longhaul.steps
UNION ALL SELECT 'steps of what is forgotten', count(*) FILTER (WHERE task IN (SELECT ord FROM longhaul.tasks
    WHERE phase = 9)), count(*) FROM longhaul.steps
UNION ALL SELECT 'parts of no task', count(*) FILTER (WHERE task NOT IN (SELECT ord FROM longhaul.tasks)), count(*)
    FROM longhaul.parts
UNION ALL SELECT 'events of no stream', count(*) FILTER (WHERE stream NOT IN (SELECT ord FROM longhaul.streams)), count(*)
    FROM longhaul.events";

fn in_postgres(url: &str) -> Result<Remains> {
    let (counters, left) =
        asked(url, async |client| Ok((client.query(COUNTERS, &[]).await?, client.query(LEFT, &[]).await?)))?;
    let counters = counters.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)));
    let left = left.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)));
    Ok(Remains { counters: counters.collect::<Result<_>>()?, left: left.collect::<Result<_>>()? })
}

/// The same in Redis, in a script, which sees one moment.
const SCRIPT: &str = r#"
local tag = ARGV[1]
local counters, left = {}, {}
local function counted(what, said, there) counters[#counters + 1] = {what, tonumber(said or 0), there} end
local function all(pattern) return redis.call('KEYS', tag .. pattern) end
local function behind(key, begins) return string.sub(key, #tag + #begins + 1) end
local function many(set) return redis.call('ZCARD', tag .. set) end

local rows, open = all('task:*'), 0
for _, row in ipairs(rows) do
  local found = redis.call('HMGET', row, 'r', 'g')
  if not string.find(found[1], '"phase":{"Done"', 1, true) then open = open + 1 end
end
counted('open tasks', many('open'), open)
counted('tasks', many('tasks'), #rows)

local of_owners, open_of_owners = 0, 0
for _, key in ipairs(all('open:*')) do open_of_owners = open_of_owners + redis.call('ZCARD', key) end
local charged = {}
for _, key in ipairs(all('tasks:*')) do
  local owner, bytes = behind(key, 'tasks:'), 0
  local ids = redis.call('ZRANGE', key, 0, -1)
  of_owners = of_owners + #ids
  for _, id in ipairs(ids) do bytes = bytes + tonumber(redis.call('HGET', tag .. 'task:' .. id, 'k') or '0') end
  charged[owner] = bytes
end
counted('tasks of all owners', of_owners, #rows)
counted('open tasks of all owners', open_of_owners, open)

local function hold(what, hash, there)
  local said = redis.call('HGETALL', tag .. hash)
  for i = 1, #said, 2 do
    counted(what .. ' of ' .. said[i], said[i + 1], there[said[i]] or 0)
    there[said[i]] = nil
  end
  for owner, is in pairs(there) do counted(what .. ' of ' .. owner, 0, is) end
end
hold('bytes of tasks', 'task-bytes-of', charged)

local entries = {}
for _, word in ipairs(redis.call('ZRANGE', tag .. 'entries', 0, -1)) do
  local owner = cjson.decode(word)[1]
  if owner ~= cjson.null then
    owner = cjson.encode(owner)
    entries[owner] = (entries[owner] or 0) + 1
  end
end
hold('entries', 'entries-of', entries)

local events, bytes = {}, 0
for _, word in ipairs(redis.call('ZRANGE', tag .. 'streams', 0, -1)) do
  local owner = cjson.encode(cjson.decode(word)[1])
  local its = tonumber(redis.call('HGET', tag .. 'stream:' .. word, 'bytes') or '0')
  events[owner], bytes = (events[owner] or 0) + its, bytes + its
end
counted('bytes of events', redis.call('GET', tag .. 'event-bytes'), bytes)
hold('bytes of events', 'event-bytes-of', events)

-- What is kept in a key of its own goes with its last member: it was looked for among no more than what is left.
local function is_left(what, count, among) left[#left + 1] = {what, count, among or count} end
is_left('open tasks', open, #rows)
is_left('members of open', many('open'))
is_left('leases', many('leases'))
is_left('tasks that wait', many('waiting'))
is_left('nodes that hold leases', redis.call('HLEN', tag .. 'holders'))
for _, begins in ipairs({'held:', 'children:', 'open:', 'share:'}) do
  local members = 0
  for _, key in ipairs(all(begins .. '*')) do members = members + redis.call('ZCARD', key) end
  is_left('members of ' .. begins .. '*', members)
end
for _, begins in ipairs({'stand:', 'joins:'}) do
  local members = 0
  for _, key in ipairs(all(begins .. '*')) do members = members + redis.call('HLEN', key) end
  is_left('members of ' .. begins .. '*', members)
end
for _, begins in ipairs({'steps:', 'parts:', 'given:'}) do
  local keys, lonely = all(begins .. '*'), 0
  for _, key in ipairs(keys) do
    local row = redis.call('HMGET', tag .. 'task:' .. behind(key, begins), 'v', 'g')
    if not row[1] or (row[2] and row[2] ~= '') then lonely = lonely + 1 end
  end
  is_left(begins .. '* of no task', lonely, #keys)
end
return {counters, left}
"#;

fn in_redis(url: &str) -> Result<Remains> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let how = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
        let client = redis::Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&how).await?;
        let script = redis::Script::new(SCRIPT);
        let (counters, left) = script.arg("{longhaul}:").invoke_async(&mut connection).await?;
        Ok(Remains { counters, left })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the store in Redis calls its keys: one that the script calls otherwise is empty, and nothing is ever left in it.
    #[test]
    fn the_script_knows_the_keys_by_their_names() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/longhaul-store/src/redis");
        let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        let source = ["keys.rs", "row.rs", "entries.rs", "events.rs"].map(read).concat();
        let single = ["open", "tasks", "leases", "waiting", "holders", "entries", "streams"];
        let counted = ["task-bytes-of", "entries-of", "event-bytes", "event-bytes-of"];
        for name in single.into_iter().chain(counted) {
            let asked = [format!("tag .. '{name}'"), format!("many('{name}')"), format!(", '{name}', ")];
            assert!(asked.iter().any(|asked| SCRIPT.contains(asked)), "the script does not look at {name}");
            assert!(source.contains(&format!("\"{name}\"")), "no key is called {name}");
        }
        let of_tasks = ["task:", "steps:", "parts:", "given:", "children:", "stand:"];
        let of_others = ["held:", "tasks:", "open:", "share:", "joins:", "stream:"];
        for begins in of_tasks.into_iter().chain(of_others) {
            assert!(SCRIPT.contains(&format!("'{begins}")), "the script does not look at {begins}");
            let [tagged, plain] = ["{}", "\""].map(|before| format!("{before}{begins}{{"));
            assert!(source.contains(&tagged) || source.contains(&plain), "no key begins with {begins}");
        }
        let words = SCRIPT.split('\'').skip(1).step_by(2).map(|word| word.trim_end_matches('*'));
        for word in words.filter(|word| word.ends_with(':')) {
            let known = of_tasks.contains(&word) || of_others.contains(&word);
            assert!(known, "{word} is not held against the store");
        }
    }

    #[test]
    fn an_empty_database_is_not_what_was_loaded() {
        let remains = |tasks: i64, among: i64| Remains {
            counters: vec![("open tasks".to_owned(), 0, 0), (TASKS.to_owned(), tasks, tasks)],
            left: vec![("leases".to_owned(), 0, 0), ("open tasks".to_owned(), 0, among)],
        };
        let empty = remains(0, 0);
        assert!(empty.broken().is_empty() && (empty.tasks(), empty.among()) == (0, 0));
        assert!(empty.blind(1).unwrap().starts_with("I12: 0 tasks"));
        assert!(remains(4, 4).blind(5).is_some());
        let whole = remains(5, 5);
        assert_eq!((whole.blind(5), whole.tasks(), whole.among()), (None, 5, 5));
    }
}
