//! Things of one kind that a server offers: looked up by key, listed page by page, replaced while it serves.
//!
//! A reader takes the whole stock as it is at that moment. A change makes a new stock beside it and swaps the two, so
//! that nobody waits for one and nobody sees half of one. Each list is serialized when it is first asked for after a
//! change, and from then on copied.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{ErrorObject, Params, Text};

use super::audience::Audience;

/// A thing that is offered.
pub(super) trait Item: Send + Sync + 'static {
    /// What it is found by.
    fn key(&self) -> &str;

    /// Appends it as a list shows it.
    fn write(&self, dialect: &Dialect, audience: Audience, out: &mut Vec<u8>);
}

/// Where the things of one kind stand.
pub(super) struct Shelf<T> {
    stock: RwLock<Arc<Stock<T>>>,
    /// Held while the next stock is made.
    changing: Mutex<()>,
}

/// The things of one kind, at one moment.
pub(super) struct Stock<T> {
    /// In the order of their places.
    items: Vec<Shelved<T>>,
    by_key: HashMap<String, usize>,
    next_place: u64,
    /// Of each dialect that is spoken, by its place.
    lists: Vec<[OnceLock<List>; Audience::ALL.len()]>,
}

/// Room for the list of each dialect.
fn no_lists() -> Vec<[OnceLock<List>; Audience::ALL.len()]> {
    Dialect::spoken().map(|_| Default::default()).collect()
}

struct Shelved<T> {
    /// Given once and never again, so that a cursor means the same after any change.
    place: u64,
    enabled: bool,
    item: Arc<T>,
}

/// A thing of that key is there already.
#[derive(Debug)]
pub(super) struct Taken(pub(super) String);

impl<T: Item> Shelf<T> {
    pub(super) fn new(items: Vec<T>) -> Result<Self, Taken> {
        let mut stock = Stock::empty();
        for item in items {
            stock.add(item)?;
        }
        Ok(Self { stock: RwLock::new(Arc::new(stock)), changing: Mutex::new(()) })
    }

    /// What stands there now.
    pub(super) fn stock(&self) -> Arc<Stock<T>> {
        Arc::clone(&self.stock.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The thing of that key, if it is enabled.
    pub(super) fn find(&self, key: &str) -> Option<Arc<T>> {
        self.stock.read().unwrap_or_else(PoisonError::into_inner).find(key)
    }

    /// Changes what stands there; nothing changes when `change` fails.
    pub(super) fn change<R, E>(&self, change: impl FnOnce(&mut Stock<T>) -> Result<R, E>) -> Result<R, E> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.stock().copy();
        let changed = change(&mut next)?;
        *self.stock.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        Ok(changed)
    }
}

impl<T: Item> Stock<T> {
    fn empty() -> Self {
        Self { items: Vec::new(), by_key: HashMap::new(), next_place: 0, lists: no_lists() }
    }

    fn copy(&self) -> Self {
        let copy = |it: &Shelved<T>| Shelved { item: Arc::clone(&it.item), ..*it };
        Self {
            items: self.items.iter().map(copy).collect(),
            by_key: self.by_key.clone(),
            next_place: self.next_place,
            lists: no_lists(),
        }
    }

    /// Puts a thing behind all others.
    pub(super) fn add(&mut self, item: T) -> Result<(), Taken> {
        if self.has(item.key()) {
            return Err(Taken(item.key().to_owned()));
        }
        self.by_key.insert(item.key().to_owned(), self.items.len());
        self.items.push(Shelved { place: self.next_place, enabled: true, item: Arc::new(item) });
        self.next_place += 1;
        Ok(())
    }

    /// Puts a thing in the place of the one with its key, or else behind all others.
    pub(super) fn put(&mut self, item: T) {
        match self.by_key.get(item.key()) {
            Some(index) => self.items[*index].item = Arc::new(item),
            None => {
                let _added = self.add(item);
            }
        }
    }

    /// Shows a thing or hides it; `false` when it was so already or is not there.
    pub(super) fn enable(&mut self, key: &str, enabled: bool) -> bool {
        let Some(index) = self.by_key.get(key) else { return false };
        std::mem::replace(&mut self.items[*index].enabled, enabled) != enabled
    }

    /// Takes a thing away; `false` when it is not there.
    pub(super) fn remove(&mut self, key: &str) -> bool {
        let Some(index) = self.by_key.remove(key) else { return false };
        self.items.remove(index);
        for later in self.by_key.values_mut().filter(|later| **later > index) {
            *later -= 1;
        }
        true
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn find(&self, key: &str) -> Option<Arc<T>> {
        let it = &self.items[*self.by_key.get(key)?];
        it.enabled.then(|| Arc::clone(&it.item))
    }

    /// Everything that is enabled, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.iter().filter(|it| it.enabled).map(|it| &it.item)
    }

    /// The list as `dialect` writes it for such a caller; `last` gives the JSON of what comes after the things
    /// themselves.
    pub(super) fn list(
        &self,
        dialect: &Dialect,
        audience: Audience,
        last: impl FnOnce() -> Vec<Vec<u8>>,
    ) -> &List {
        self.lists[dialect.place()][audience as usize].get_or_init(|| {
            let mut list = ListMaker::default();
            for it in self.items.iter().filter(|it| it.enabled) {
                list.add(it.place, |out| it.item.write(dialect, audience, out));
            }
            for (place, json) in (BEHIND_ALL..).zip(last()) {
                list.add(place, |out| out.extend_from_slice(&json));
            }
            list.finish()
        })
    }
}

/// The place of what comes after the things themselves.
const BEHIND_ALL: u64 = 1 << 62;

impl<T> fmt::Debug for Shelf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").finish_non_exhaustive()
    }
}

/// A list as JSON: the items one after another, with commas between.
pub(super) struct List {
    text: String,
    /// The place of each item, and where its text ends.
    ends: Vec<(u64, usize)>,
}

#[derive(Default)]
struct ListMaker {
    text: Vec<u8>,
    ends: Vec<(u64, usize)>,
}

impl ListMaker {
    fn add(&mut self, place: u64, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.ends.is_empty() {
            self.text.push(b',');
        }
        write(&mut self.text);
        self.ends.push((place, self.text.len()));
    }

    fn finish(self) -> List {
        List { text: String::from_utf8(self.text).expect("JSON is UTF-8"), ends: self.ends }
    }
}

/// Where a page begins: behind this place, or at the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor(Option<u64>);

impl Cursor {
    /// The cursor a request for a list carries.
    ///
    /// # Errors
    ///
    /// `-32602` when it is none that a list of this `kind` could have issued.
    pub(super) fn read(params: &Params<'_>, kind: char) -> Result<Self, ErrorObject> {
        let Some(Text(text)) = params.read::<Text<'_>>("cursor")? else { return Ok(Self(None)) };
        let place = text.strip_prefix(kind).filter(|hex| hex.len() <= 16 && !hex.starts_with('+'));
        place
            .and_then(|hex| u64::from_str_radix(hex, 16).ok())
            .map(|place| Self(Some(place)))
            .ok_or_else(|| ErrorObject::invalid_params("invalid params: `cursor` was not issued here"))
    }
}

impl List {
    /// At most `size` items behind the cursor, and where the next page begins if there is one.
    pub(super) fn page(&self, Cursor(after): Cursor, size: usize, kind: char) -> (&str, Option<String>) {
        let first = after.map_or(0, |after| self.ends.partition_point(|(place, _)| *place <= after));
        let last = self.ends.len().min(first.saturating_add(size.max(1)));
        if first == last {
            return ("", None);
        }
        // The comma before the first is not part of it.
        let start = if first == 0 { 0 } else { self.ends[first - 1].1 + 1 };
        let (place, end) = self.ends[last - 1];
        let next = (last < self.ends.len()).then(|| format!("{kind}{place:x}"));
        (&self.text[start..end], next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Item for String {
        fn key(&self) -> &str {
            self
        }

        fn write(&self, _: &Dialect, _: Audience, out: &mut Vec<u8>) {
            out.extend_from_slice(format!("\"{self}\"").as_bytes());
        }
    }

    fn pages(shelf: &Shelf<String>, size: usize, mut between: impl FnMut(&Shelf<String>)) -> Vec<String> {
        let (mut cursor, mut pages) = (Cursor(None), Vec::new());
        loop {
            let stock = shelf.stock();
            let list = stock.list(Dialect::newest_modern(), Audience::Waits, Vec::new);
            let (page, next) = list.page(cursor, size, 's');
            pages.push(page.to_owned());
            let Some(next) = next else { return pages };
            cursor = Cursor(Some(u64::from_str_radix(next.strip_prefix('s').unwrap(), 16).unwrap()));
            between(shelf);
        }
    }

    fn shelf(items: &str) -> Shelf<String> {
        Shelf::new(items.chars().map(String::from).collect()).unwrap()
    }

    fn change(shelf: &Shelf<String>, change: impl FnOnce(&mut Stock<String>)) {
        let _: Result<(), ()> = shelf.change(|stock| {
            change(stock);
            Ok(())
        });
    }

    #[test]
    fn pages_are_cut_from_one_list_in_order() {
        assert_eq!(pages(&shelf("abcde"), 2, |_| ()), [r#""a","b""#, r#""c","d""#, r#""e""#]);
        assert_eq!(pages(&shelf("ab"), 2, |_| ()), [r#""a","b""#]);
        assert_eq!(pages(&shelf(""), 2, |_| ()), [""]);
    }

    #[test]
    fn a_cursor_holds_its_place_whatever_comes_and_goes() {
        let taken = pages(&shelf("abcde"), 2, |shelf| {
            change(shelf, |stock| {
                stock.remove("b");
                stock.remove("a");
                stock.put("z".to_owned());
            });
        });
        assert_eq!(taken, [r#""a","b""#, r#""c","d""#, r#""e","z""#]);
        let put = shelf("abc");
        change(&put, |stock| {
            stock.enable("b", false);
            assert!(!stock.enable("b", false) && !stock.enable("x", true));
        });
        assert!(put.find("b").is_none() && put.find("c").is_some());
        assert_eq!(pages(&put, 9, |_| ()), [r#""a","c""#]);
        change(&put, |stock| assert!(stock.enable("b", true)));
        assert_eq!(pages(&put, 9, |_| ()), [r#""a","b","c""#], "in its old place");
        assert!(put.change(|stock| stock.add("c".to_owned())).is_err());
    }
}
