//! One of the servers compared over HTTP, and its figures.

use anyhow::{Context, Result};

use super::figures::Figures;
use super::load;
use super::programs::{Launch, Programs};
use super::server::Server;

/// What is asked of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// As the load calls it.
    pub(super) what: &'static str,
    /// How long the argument of a call is.
    pub(super) bytes: u32,
    /// Connections, kept alive, each waiting for its answer before it asks again.
    pub(super) connections: u32,
}

/// Calls of `echo` with a short argument.
pub(super) const CALLS: Asked = Asked { what: "call", bytes: 27, connections: 32 };

/// The heads of what a row has to show.
pub(super) const HEADS: [&str; 7] = ["", "CPU us", "a second", "p50 us", "p99 us", "p99.9 us", "MB after"];

/// A server, and its figures.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) cpu: Figures,
    pub(super) p99: Figures,
    /// The answer to the first request.
    pub(super) answer: Option<String>,
    server: Server,
    asked: Asked,
    times: u32,
    rate: Figures,
    p50: Figures,
    p999: Figures,
}

impl Row {
    /// Starts a server that is asked so often in each round, and warms it up.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or answers wrongly.
    pub(super) fn start(
        programs: &Programs,
        name: &'static str,
        server: &Launch,
        asked: Asked,
        times: u32,
    ) -> Result<Self> {
        let (server, none) = (Server::start(server)?, Figures::default);
        let mut row = Self {
            name,
            server,
            asked,
            times,
            rate: none(),
            cpu: none(),
            p50: none(),
            p99: none(),
            p999: none(),
            answer: None,
        };
        row.answer = row.load(programs, (times / 5).max(asked.connections))?.answer;
        Ok(row)
    }

    /// One round.
    ///
    /// # Errors
    ///
    /// When an answer is wrong.
    pub(super) fn measure(&mut self, programs: &Programs) -> Result<()> {
        let before = self.server.cpu()?;
        let found = self.load(programs, self.times)?;
        let cpu = self.server.cpu()? - before;
        let latency = |figure: Option<f64>| figure.context("the load measures latency");
        self.cpu.push(cpu / f64::from(self.times) * 1e6);
        self.rate.push(found.rate());
        self.p50.push(latency(found.p50_us)?);
        self.p99.push(latency(found.p99_us)?);
        self.p999.push(latency(found.p999_us)?);
        Ok(())
    }

    fn load(&self, programs: &Programs, times: u32) -> Result<load::Found> {
        let Asked { what, bytes, connections } = self.asked;
        let words = ["http", "--what", what, "--bytes", &bytes.to_string()];
        load::over_http(programs, &words, self.server.url(), times, connections).with_context(|| self.name)
    }

    /// What is found, under [`HEADS`].
    ///
    /// # Errors
    ///
    /// When the server has ended.
    pub(super) fn cells(&self) -> Result<[String; 7]> {
        let mb = format!("{:.1}", self.server.rss()?);
        let figures = [&self.cpu, &self.rate, &self.p50, &self.p99, &self.p999].map(ToString::to_string);
        let [cpu, rate, p50, p99, p999] = figures;
        Ok([self.name.to_owned(), cpu, rate, p50, p99, p999, mb])
    }
}
