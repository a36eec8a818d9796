//! Parts of what a call comes to, which its work gives before its end: on disk at once, for whoever follows the task.

use longhaul_store::{Batch, Part};

use super::super::pause::Pauses;
use super::{Keeper, StepError};

impl Keeper {
    /// Gives a part of what the call comes to, once under its key: when this returns, a crash does not lose it. It makes a
    /// task of the call. `false`: the call becomes none, so that the part is kept nowhere.
    ///
    /// # Errors
    ///
    /// [`StepError::Refused`], [`StepError::NotDurable`].
    pub async fn give(&self, part: &Part) -> Result<bool, StepError> {
        let _under_way = self.body();
        self.become_durable(false).await?;
        self.withdraw().await?;
        let mut pauses = Pauses::of_store();
        loop {
            let news = self.0.news.notified();
            let (Some(epoch), Some(seat)) = (self.epoch(), self.0.seat.get()) else { return Ok(false) };
            match seat.inner.store.write(&seat.id, epoch, Batch::new().with_part(part.clone())).await {
                Ok(_) => {
                    self.change(|state| state.has_given = true);
                    return Ok(true);
                }
                Err(error) => self.not_written(seat, error, news, &mut pauses).await?,
            }
        }
    }

    /// Whether the task has parts.
    pub fn has_given(&self) -> bool {
        self.lock().has_given
    }
}
