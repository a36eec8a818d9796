//! The name of a store, by which the directories of runs say whose they are.

use longhaul::store::{EntryKey, Registry, StoreError, Swap, Value};

/// The name of the store that has this registry: random, made by whoever asks first, and kept with it for ever. A copy of the
/// store has the same.
///
/// # Errors
///
/// When the store cannot be read or written, or the system gives no random numbers.
pub async fn store_name(registry: &dyn Registry) -> Result<String, StoreError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| StoreError::Backend {
        doing: "drawing the name of the store",
        source: std::sync::Arc::new(error),
    })?;
    let ours = bits.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let key = EntryKey::of_server("runs", "store");
    let swap = registry.compare_and_set(key, None, Some(Value::for_ever(ours.as_bytes()))).await?;
    let (Swap::Done(entry) | Swap::Found(entry)) = swap;
    Ok(entry.map_or(ours, |entry| String::from_utf8_lossy(&entry.value).into_owned()))
}

#[cfg(test)]
mod tests {
    use longhaul::store::Memory;

    use super::*;

    #[tokio::test]
    async fn a_store_keeps_its_name_and_no_other_has_it() {
        let (one, other) = (Memory::new(), Memory::new());
        let name = store_name(&one).await.unwrap();
        assert_eq!(store_name(&one.another_node()).await.unwrap(), name);
        assert_ne!(store_name(&other).await.unwrap(), name);
    }
}
