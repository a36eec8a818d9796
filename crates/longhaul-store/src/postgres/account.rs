//! What a transaction adds to the figures beside the rows: those of owners, and those of all.

use tokio_postgres::Row;

use super::{
    fault::{Fault, damaged},
    sql,
    tx::{Ahead, Tx, int},
    value::Value,
};
use crate::{
    Owner, Record, Share,
    networked::transaction::Transaction as _,
    room::Room,
    row::{encode_owner, encode_share, signed},
};

/// What is added to the account of an owner, whose name is the key; the server has none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Added {
    pub(super) open: i64,
    pub(super) retained: i64,
    pub(super) last: i64,
    pub(super) event_bytes: i64,
    pub(super) entries: i64,
    pub(super) task_bytes: i64,
}

impl Added {
    fn takes(&self) -> bool {
        [self.retained, self.event_bytes, self.entries].iter().any(|number| *number < 0)
    }
}

impl Tx {
    /// Refuses a task there is no room for. The owner's account is held from then on, and the number of its next task is
    /// given.
    pub(super) async fn admit(&mut self, new: &Record) -> Result<u64, Fault> {
        let owner = &new.owner;
        let (account, totals, counted) = match &self.ahead {
            Ahead::Account(account, totals, _, of_share) => {
                (account.clone(), totals.clone(), Some(*of_share))
            }
            _ => {
                let doing = "reading an owner's account";
                let account =
                    self.query(doing, sql::HOLD_ACCOUNT, &[Value::words(encode_owner(owner))]).await?.pop();
                let totals = self.query(doing, sql::TOTALS, &[]).await?.pop();
                (account, totals.ok_or_else(|| damaged("the totals"))?, None)
            }
        };
        // What was counted while nobody held the account may be more by now.
        let counted = counted.filter(|_| account.is_some());
        let account = match account {
            Some(account) => account,
            // The first of its owner.
            None => {
                let name = Value::words(encode_owner(owner));
                let made = self.query("making an owner's account", sql::MAKE_ACCOUNT, &[name]).await?;
                made.into_iter().next().ok_or(Fault::Again)?
            }
        };
        let of_share = match counted {
            Some(counted) => counted,
            None => self.of_share(new.share).await?,
        };
        let mine = *self.added(owner);
        let counted = |row: &Row, at, mine: i64| -> Result<u64, Fault> {
            Ok(u64::try_from(int(row, at)? + mine).unwrap_or(0))
        };
        let (open, retained) = (counted(&totals, 0, mine.open)?, counted(&totals, 1, mine.retained)?);
        let (own_open, own_retained) =
            (counted(&account, 0, mine.open)?, counted(&account, 1, mine.retained)?);
        let own_bytes = counted(&account, 3, mine.task_bytes)?;
        let mut room = Room { open, retained, own_open, own_retained, own_bytes, of_share };
        if let Err(refusal) = self.settings().limits.admit(new, room) {
            if !self.node().may_count_anew(&refusal, owner) {
                return Err(refusal.into());
            }
            room.own_bytes = self.count_anew(owner, mine.task_bytes).await?;
            self.settings().limits.admit(new, room)?;
        }
        Ok(counted(&account, 2, mine.last)? + 1)
    }

    /// Counts anew what an owner whose account is held is charged for its tasks, of which `mine` is still to be added: a release
    /// that knows nothing of that charges nobody, and removes tasks that others have charged.
    async fn count_anew(&mut self, owner: &Owner, mine: i64) -> Result<u64, Fault> {
        let counted =
            self.execute(sql::COUNT_ANEW, &[Value::words(encode_owner(owner)), Value::int(mine)]).await?;
        let counted = int(counted.first().ok_or_else(|| damaged("an owner's account"))?, 0)?;
        Ok(u64::try_from(counted.saturating_add(mine)).unwrap_or(0))
    }

    /// How many open tasks there are of a share, with those that this transaction has made.
    async fn of_share(&self, share: Option<Share>) -> Result<u64, Fault> {
        let Some(share) = encode_share(share) else { return Ok(0) };
        let found = self.query("counting a stranger's tasks", sql::OF_SHARE, &[Value::int(share)]).await?;
        Ok(int(found.first().ok_or_else(|| damaged("a count"))?, 0)?.unsigned_abs())
    }

    /// Charges an owner for events that take `taken` in the place of some that took `freed`, if there is room.
    pub(super) async fn charge_events(&mut self, owner: &Owner, freed: u64, taken: u64) -> Result<(), Fault> {
        if taken > freed {
            let (own, all) = self.taken(owner, 0, 2).await?;
            let after = |bytes: u64| bytes.saturating_sub(freed) + taken;
            self.settings().limits.admit_events(after(own), after(all))?;
        }
        self.added(owner).event_bytes += signed(taken) - signed(freed);
        Ok(())
    }

    /// Charges a holder for one more entry, if there is room.
    pub(super) async fn charge_entry(&mut self, owner: Option<&Owner>) -> Result<(), Fault> {
        let (own, all) = self.taken(owner.unwrap_or(&Owner::Anonymous), 1, 3).await?;
        self.settings().limits.admit_entry(owner, own, all)?;
        self.count_entry(owner, 1);
        Ok(())
    }

    /// Gives back what an entry was charged.
    pub(super) fn credit_entry(&mut self, owner: Option<&Owner>) {
        self.count_entry(owner, -1);
    }

    fn count_entry(&mut self, owner: Option<&Owner>, by: i64) {
        let name = owner.map(|owner| encode_owner(owner).to_owned());
        self.added.entry(name).or_default().entries += by;
    }

    /// What there is of an owner and in all: numbers of these columns.
    async fn taken(&self, owner: &Owner, own: usize, all: usize) -> Result<(u64, u64), Fault> {
        let doing = "reading an owner's account";
        let account = self.query(doing, sql::ACCOUNT, &[Value::words(encode_owner(owner))]).await?;
        let totals = self.query(doing, sql::TOTALS, &[]).await?;
        let number = |row: Option<&Row>, at| -> Result<u64, Fault> {
            row.map_or(Ok(0), |row| Ok(u64::try_from(int(row, at)?).unwrap_or(0)))
        };
        Ok((number(account.first(), own)?, number(totals.first(), all)?))
    }

    pub(super) fn added(&mut self, owner: &Owner) -> &mut Added {
        self.added.entry(Some(encode_owner(owner).to_owned())).or_default()
    }

    /// Commits, with the figures last, for others wait for them until then.
    pub(super) async fn commit(&mut self) -> Result<(), Fault> {
        let number = |number| Value::Int(Some(number));
        let (mut last, mut all) = (Vec::new(), Added::default());
        for (owner, added) in &self.added {
            all.open += added.open;
            all.retained += added.retained;
            all.event_bytes += added.event_bytes;
            all.entries += added.entries;
            let Some(owner) = owner else { continue };
            let Added { open, retained, last: newest, event_bytes, entries, task_bytes } = *added;
            let numbers = [open, retained, newest, event_bytes, entries, task_bytes];
            if numbers != [0; 6] {
                let values = [Value::words(owner)].into_iter().chain(numbers.map(number));
                last.push((sql::ADD_TO_ACCOUNT, values.collect()));
            }
            if added.takes() {
                last.push((sql::REMOVE_EMPTY_ACCOUNT, vec![Value::words(owner)]));
            }
        }
        let numbers = [all.open, all.retained, all.event_bytes, all.entries];
        if numbers != [0; 4] {
            let values = [Value::int(self.site.next_shard())].into_iter().chain(numbers.map(number));
            last.push((sql::ADD_TO_TOTALS, values.collect()));
        }
        self.session.commit_with(&last, self.site.node.durability()).await
    }
}
