//! What an operation writes, all of it by one script.

use std::collections::HashMap;

/// Everything that one call of `commit.lua` is to check and to write.
#[derive(Debug)]
pub(super) struct Commit {
    keys: Vec<String>,
    places: HashMap<String, usize>,
    args: Vec<Vec<u8>>,
    /// Where the block under way says where it ends.
    block: Option<usize>,
    /// Whether it takes room that there may not be.
    grows: bool,
}

impl Commit {
    /// Nothing yet; `seq` is the key that numbers changes.
    pub(super) fn new(seq: String) -> Self {
        let mut made =
            Self { keys: Vec::new(), places: HashMap::new(), args: Vec::new(), block: None, grows: false };
        made.place(seq);
        made
    }

    pub(super) fn keys(&self) -> &[String] {
        &self.keys
    }

    pub(super) fn args(&self) -> &[Vec<u8>] {
        &self.args
    }

    pub(super) fn grows(&self) -> bool {
        self.grows
    }

    /// It is refused where the server has no memory left.
    pub(super) fn takes_room(&mut self) {
        self.grows = true;
    }

    /// What comes now is done as a whole or not at all.
    pub(super) fn begin(&mut self) {
        self.end();
        self.block = Some(self.args.len());
        self.args.push(Vec::new());
    }

    /// The block is whole.
    pub(super) fn end(&mut self) {
        if let Some(block) = self.block.take() {
            self.args[block] = (self.args.len() + 1).to_string().into_bytes();
        }
    }

    /// This field of a hash must be as it was, where nothing is an empty text.
    pub(super) fn same(&mut self, key: String, field: &str, was: &str) {
        self.word("same");
        self.key(key);
        self.word(field);
        self.word(was);
    }

    /// There must be no such key.
    pub(super) fn free(&mut self, key: String) {
        self.word("free");
        self.key(key);
    }

    /// Each of these sorted sets must have less than so many members.
    pub(super) fn room(&mut self, sets: [(String, u64); 4]) {
        self.word("room");
        for (set, most) in sets {
            self.key(set);
            self.word(&most.to_string());
        }
    }

    /// Fewer than so many of this sorted set must be in the other as well.
    pub(super) fn share(&mut self, set: String, open: String, most: u64) {
        self.word("share");
        self.key(set);
        self.key(open);
        self.word(&most.to_string());
    }

    /// With so many more bytes an owner must be charged for no more than that, as this hash has it.
    pub(super) fn bytes(&mut self, of: String, owner: &str, more: u64, most: u64) {
        self.word("bytes");
        self.key(of);
        self.word(owner);
        self.word(&more.to_string());
        self.word(&most.to_string());
    }

    /// A new row, among all tasks and all open ones, those of its owner, and the open ones of those.
    pub(super) fn new_row(&mut self, row: String, id: &str, sets: [String; 4]) {
        self.word("new");
        self.key(row);
        self.word(id);
        sets.into_iter().for_each(|set| self.key(set));
    }

    /// The change of a row has a number.
    pub(super) fn number(&mut self, row: String) {
        self.word("number");
        self.key(row);
    }

    /// Adds to a count of a hash, which goes when it is none.
    pub(super) fn count(&mut self, key: String, field: &str, by: &str) {
        self.word("count");
        self.key(key);
        self.word(field);
        self.word(by);
    }

    /// Tells whoever else listens than the node that is there as long as somebody listens to `own`.
    pub(super) fn tell(&mut self, channel: &str, own: &str, words: &str) {
        self.word("tell");
        self.word(channel);
        self.word(own);
        self.word(words);
    }

    /// A command on one key.
    pub(super) fn run<A: Into<Vec<u8>>>(
        &mut self,
        command: &str,
        key: String,
        args: impl IntoIterator<Item = A>,
    ) {
        self.word(command);
        let many = self.args.len();
        self.args.push(Vec::new());
        self.key(key);
        let first = self.args.len();
        self.args.extend(args.into_iter().map(Into::into));
        self.args[many] = (self.args.len() - first).to_string().into_bytes();
    }

    fn word(&mut self, word: &str) {
        self.args.push(word.as_bytes().to_vec());
    }

    fn key(&mut self, key: String) {
        let place = self.place(key);
        self.args.push(place.to_string().into_bytes());
    }

    fn place(&mut self, key: String) -> usize {
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        self.keys.push(key.clone());
        self.places.insert(key, self.keys.len());
        self.keys.len()
    }
}

/// What became of a block.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Block {
    /// It is done, and its numbered changes have these numbers.
    Done(Vec<u64>),
    /// Something is no longer as it was read.
    Changed,
    /// The id of something new is taken.
    Taken,
    /// There is no room: so many there are in the four sets and of the share, and so many bytes its owner is charged for; 0 where
    /// that was not looked at.
    Full([u64; 6]),
}

impl Block {
    /// Reads what the script has answered.
    pub(super) fn of(answer: &[i64]) -> Option<Self> {
        let numbers = |some: &[i64]| some.iter().map(|number| u64::try_from(*number).unwrap_or(0)).collect();
        match answer {
            [0, seqs @ ..] => Some(Self::Done(numbers(seqs))),
            [1] => Some(Self::Changed),
            [2] => Some(Self::Taken),
            [3, found @ ..] => {
                let found: Vec<u64> = numbers(found);
                found.try_into().ok().map(Self::Full)
            }
            _ => None,
        }
    }
}
