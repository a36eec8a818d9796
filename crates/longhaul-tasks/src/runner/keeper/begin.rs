//! What is known and noted before work begins.

use longhaul_store::Batch;

use super::{Keeper, Standing, StepError};
use crate::runner::pause::Pauses;

impl Keeper {
    /// Waits until it is known whether there is a row: one that could not be written may be there all the same. `false` where
    /// that will never be known: whoever can reach the store may have begun what it says.
    pub(in crate::runner) async fn know_row(&self) -> bool {
        let Some(seat) = self.0.seat.get() else { return true };
        let mut pauses = Pauses::of_store();
        loop {
            let news = self.0.news.notified();
            let is_refused = {
                let state = self.lock();
                match &state.standing {
                    Standing::Writing => false,
                    Standing::Refused(refusal) if refusal.lasting => return !state.unsure,
                    Standing::Refused(_) if state.unsure => true,
                    _ => return true,
                }
            };
            if !is_refused {
                news.await;
            } else if self.become_durable(false).await.is_err() {
                pauses.wait(&seat.inner).await;
            }
        }
    }

    /// Notes the how-many-eth attempt in a row this is. When it returns a crash does not lose that; for who has lost the task it
    /// never does.
    ///
    /// # Errors
    ///
    /// [`StepError::Refused`] if the store never will take it.
    pub(in crate::runner) async fn note_attempt(&self, attempt: u32) -> Result<(), StepError> {
        let mut pauses = Pauses::of_store();
        loop {
            let news = self.0.news.notified();
            let (Some(epoch), Some(seat)) = (self.epoch(), self.0.seat.get()) else { return Ok(()) };
            match seat.inner.store.write(&seat.id, epoch, Batch::new().with_attempt(attempt)).await {
                Ok(_) => return Ok(()),
                Err(error) => self.not_written(seat, error, news, &mut pauses).await?,
            }
        }
    }
}
