//! Several clients of one server, of whom one speaks at a time.

use std::time::Duration;

use longhaul_test::transcript::{Leg, Said};
use serde_json::Value;

/// Who a client is where it is said of nobody.
pub(crate) const FIRST: &str = "host";

/// A leg that another client of the same server can have one beside.
pub(crate) trait Beside: Leg + Sized {
    /// That client's.
    async fn beside(&self, who: &str) -> Result<Self, String>;
}

/// The legs of all clients that have spoken.
pub(crate) struct Clients<L> {
    legs: Vec<(String, L)>,
    speaks: usize,
}

impl<L> Clients<L> {
    /// The first of these, or the only one.
    pub(crate) fn of(clients: &[String], leg: L) -> Self {
        let first = clients.first().map_or(FIRST, String::as_str).to_owned();
        Self { legs: vec![(first, leg)], speaks: 0 }
    }

    fn leg(&mut self) -> &mut L {
        &mut self.legs[self.speaks].1
    }
}

impl<L: Beside> Leg for Clients<L> {
    async fn say(&mut self, said: Said<'_>) -> Result<(), String> {
        self.leg().say(said).await
    }

    async fn hear(&mut self, expected: &Value, aside: &[String]) -> Result<Value, String> {
        self.leg().hear(expected, aside).await
    }

    fn left(&mut self) -> Vec<Value> {
        self.legs.iter_mut().flat_map(|(_, leg)| leg.left()).collect()
    }

    fn status(&mut self) -> Result<u16, String> {
        self.leg().status()
    }

    async fn turn(&mut self, who: &str) -> Result<(), String> {
        self.speaks = match self.legs.iter().position(|(known, _)| known == who) {
            Some(known) => known,
            None => {
                let leg = self.leg().beside(who).await?;
                self.legs.push((who.to_owned(), leg));
                self.legs.len() - 1
            }
        };
        Ok(())
    }

    async fn wait(&mut self, time: Duration) {
        self.leg().wait(time).await;
    }

    fn names(&self) -> Vec<(&'static str, String)> {
        self.legs[self.speaks].1.names()
    }
}
