//! `GET /metrics`: what this server has come across, as Prometheus and OpenMetrics read it. At an address of its own, for
//! nobody signs in there.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use anyhow::Context as _;
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::http::AllowList;
use longhaul::proto::method::Method;
use longhaul::server::{Caller, Dispatcher, PollFigures};
use longhaul::service::{Figures as RequestFigures, Metrics as Requests, Outcome as Ended};
use longhaul::store::Counts;
use longhaul::tasks::environment::BoxFuture;
use longhaul::tasks::runner::Figures;
use longhaul::transport::http::server as http;
use longhaul_gateway::config::{Config, Listen, Metrics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::failure::Outcome;
use crate::listener::{Listener, refused};

/// Where they are.
pub(crate) const PATH: &str = "/metrics";

/// How long the store is waited for: Prometheus gives up after ten seconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a text of OpenMetrics calls itself.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The numbers of one server, read whenever somebody asks.
#[derive(Debug)]
pub(crate) struct Numbers {
    dispatcher: Dispatcher,
    requests: Requests,
}

/// Where the numbers of a server are told.
#[derive(Debug)]
pub(crate) enum Told {
    At(Listen),
    /// Another server has the place that the configuration names.
    Nowhere(Listen),
}

/// Where numbers are to be told.
pub(crate) enum Place {
    Free(Listener),
    Taken(Listen),
}

impl Place {
    /// Takes the one that is configured, if one is. Several servers may have one configuration, a window of an editor each: of
    /// those one tells its numbers, and the others serve all the same. Who names the place `by_hand` means this server.
    pub(crate) async fn take(config: &Config, by_hand: bool) -> Outcome<Option<Self>> {
        let Some(Metrics { listen, .. }) = &config.metrics else { return Ok(None) };
        match Listener::open(listen).await {
            Ok(listener) => Ok(Some(Self::Free(listener))),
            Err(error) if error.kind() == ErrorKind::AddrInUse && !by_hand => {
                Ok(Some(Self::Taken(listen.clone())))
            }
            Err(error) => Err(refused(listen, "--metrics", &error)),
        }
    }

    /// Tells the numbers of a server to whoever asks there, beside `/healthz` and `/readyz`, for as long as the process lives.
    pub(crate) fn tell(
        self,
        dispatcher: &Dispatcher,
        requests: Requests,
        config: &Config,
    ) -> anyhow::Result<Told> {
        let listener = match self {
            Self::Free(listener) => listener,
            Self::Taken(place) => return Ok(Told::Nowhere(place)),
        };
        let place = listener.place().context("the listener of the numbers has no address")?;
        let dispatcher = dispatcher.clone();
        let mut options =
            http::Options::default().pages(Numbers { dispatcher: dispatcher.clone(), requests });
        let names = config.http.allowed_hosts.iter().flatten();
        options.allow = names.fold(AllowList::loopback().with_addresses(), AllowList::with_host);
        options.endpoint = false;
        tokio::spawn(async move {
            if let Err(error) = listener.serve(dispatcher, options, std::future::pending()).await {
                tracing::error!(%error, "nobody is told of /metrics any more");
            }
        });
        Ok(Told::At(place))
    }
}

impl http::Pages for Numbers {
    fn has(&self, method: &::http::Method, path: &str) -> bool {
        path == PATH && (method == ::http::Method::GET || method == ::http::Method::HEAD)
    }

    fn answer(
        &self,
        _: Option<Caller>,
        _: ::http::Request<bytes::Bytes>,
    ) -> BoxFuture<'_, ::http::Response<http::PageBody>> {
        Box::pin(async {
            let text = self.read().await.to_string();
            let mut response = ::http::Response::new(http::PageBody::Whole(text.into()));
            let kind = ::http::HeaderValue::from_static(OPEN_METRICS);
            response.headers_mut().insert(::http::header::CONTENT_TYPE, kind);
            response
        })
    }
}

impl Numbers {
    async fn read(&self) -> Snapshot {
        let engine = self.dispatcher.engine();
        Snapshot {
            tasks: told(engine.counts()).await,
            size: told(engine.store().size()).await.flatten(),
            waiting: engine.waiting(),
            engine: engine.figures(),
            polls: self.dispatcher.poll_figures(),
            running: self.requests.running(),
            requests: self.requests.figures(),
        }
    }
}

/// A store that cannot be read, or not while whoever asks still waits, has no tasks to count: `longhaul_store_up` says so.
async fn told<T, E>(told: impl Future<Output = Result<T, E>>) -> Option<T> {
    tokio::time::timeout(PATIENCE, told).await.ok()?.ok()
}

/// All of them at one moment.
#[derive(Clone, Debug)]
struct Snapshot {
    tasks: Option<Counts>,
    /// The bytes of the store.
    size: Option<u64>,
    waiting: usize,
    engine: Figures,
    polls: PollFigures,
    running: usize,
    requests: Vec<RequestFigures>,
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut registry = Registry::with_prefix("longhaul");
        registry.register_collector(Box::new(self.clone()));
        text::encode(f, &registry)
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut encoder;
        info(out)?;
        gauge(out, "store_up", "Whether the store could be read just now", u64::from(self.tasks.is_some()))?;
        if let Some(Counts { open, retained, .. }) = self.tasks {
            gauge(out, "tasks_open", "Tasks in the store that have not ended", open)?;
            gauge(out, "tasks_retained", "Tasks that take room in the store", retained)?;
        }
        if let Some(size) = self.size {
            gauge(
                out,
                "store_size_bytes",
                "What the store takes up; on Redis the memory of its server",
                size,
            )?;
        }
        gauge(
            out,
            "calls_waiting",
            "Callers of this server who wait for what they have called",
            self.waiting as u64,
        )?;
        gauge(out, "requests_running", "Requests that are being answered", self.running as u64)?;
        let Figures { queue_age, takeovers, fenced_writes, replays, orphans, .. } = self.engine;
        let help = "How long the task has waited that waits longest for a place or a node";
        seconds(out, "task_queue_age", help, queue_age)?;
        counter(
            out,
            "task_takeovers",
            "Tasks taken up after another server had died or stood still",
            takeovers,
        )?;
        counter(
            out,
            "task_fenced_writes",
            "Writes refused because the task was somebody else's",
            fenced_writes,
        )?;
        counter(out, "task_replays", "Times that work was entered again", replays)?;
        counter(out, "task_orphans", "Tasks for which nobody came back", orphans)?;
        let cancelled = self.engine.orphans_cancelled;
        counter(
            out,
            "task_orphans_cancelled",
            "Tasks that were cancelled because nobody came back",
            cancelled,
        )?;
        counter(out, "sweeps", "Sweeps of the store that were done", self.engine.sweeps)?;
        let stuck = self.engine.witness_violations;
        counter(
            out,
            "task_witness_violations",
            "Open tasks that nothing would have moved on: a mistake of longhaul",
            stuck,
        )?;
        self.polls(out)?;
        self.requests(out)
    }
}

impl Snapshot {
    fn polls(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let PollFigures { admitted, refused, in_vain, refused_look_ups, .. } = self.polls;
        let mut family =
            out.encode_descriptor("task_polls", "Requests about tasks", None, MetricType::Counter)?;
        for (outcome, count) in
            [("admitted", admitted), ("too_many", refused), ("too_many_in_vain", refused_look_ups)]
        {
            ConstCounter::new(count).encode(family.encode_family(&[("outcome", outcome)])?)?;
        }
        counter(
            out,
            "task_polls_in_vain",
            "Tasks that were asked after and are not there for who asked",
            in_vain,
        )
    }

    fn requests(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests that were answered, and how long that took";
        let mut family =
            out.encode_descriptor("request_duration", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for figures in &self.requests {
            let labels = [("method", method(figures.method)), ("outcome", outcome(figures.outcome))];
            family.encode_family(&labels)?.encode_histogram::<[(&str, &str); 0]>(
                figures.total.as_secs_f64(),
                figures.count,
                &buckets(figures),
                None,
            )?;
        }
        Ok(())
    }
}

/// The counts between one bound and the next, where ours include the quicker ones.
fn buckets(figures: &RequestFigures) -> Vec<(f64, u64)> {
    let mut before = 0;
    let bounds = Requests::BOUNDS_MS.map(|bound| Duration::from_millis(bound).as_secs_f64());
    let all = bounds.into_iter().zip(figures.within).chain([(f64::INFINITY, figures.count)]);
    all.map(|(bound, within)| (bound, within.saturating_sub(std::mem::replace(&mut before, within))))
        .collect()
}

/// As the newest revision that has it calls it.
fn method(method: Method) -> String {
    let mut spoken = Revision::ALL.into_iter().map(Dialect::of);
    spoken.find_map(|dialect| dialect.name_of(method)).map_or_else(|| format!("{method:?}"), str::to_owned)
}

fn outcome(outcome: Ended) -> String {
    match outcome {
        Ended::Result => "result".to_owned(),
        Ended::Error(code) => code.0.to_string(),
        Ended::Forbidden => "forbidden".to_owned(),
        Ended::Abandoned => "abandoned".to_owned(),
        other => format!("{other:?}"),
    }
}

fn info(out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut info = out.encode_descriptor("build", "What serves", None, MetricType::Info)?;
    info.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
}

fn gauge(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(out.encode_descriptor(name, help, None, gauge.metric_type())?)
}

fn seconds(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: Duration) -> fmt::Result {
    let gauge = ConstGauge::new(value.as_secs_f64());
    gauge.encode(out.encode_descriptor(name, help, Some(&Unit::Seconds), gauge.metric_type())?)
}

fn counter(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let counter = ConstCounter::new(value);
    counter.encode(out.encode_descriptor(name, help, None, counter.metric_type())?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use longhaul::Server;

    use super::*;

    async fn text() -> String {
        let dispatcher = Server::new("t", "1").dispatcher().unwrap();
        let mut told = Numbers { dispatcher, requests: Requests::new() }.read().await;
        // A store in memory does not say how large it is.
        told.size.get_or_insert(0);
        told.to_string()
    }

    #[tokio::test]
    async fn numbers_are_open_metrics() {
        let text = text().await;
        assert!(text.contains("# TYPE longhaul_tasks_open gauge\nlonghaul_tasks_open 0\n"), "{text}");
        assert!(text.contains("\nlonghaul_task_takeovers_total 0\n"), "{text}");
        assert!(text.contains("\nlonghaul_task_polls_total{outcome=\"admitted\"} 0\n"), "{text}");
        assert!(text.contains("# UNIT longhaul_request_duration_seconds seconds\n"), "{text}");
        assert!(text.contains("\nlonghaul_store_up 1\n") && text.ends_with("# EOF\n"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_is_down() {
        assert!(told(std::future::pending::<Result<Counts, ()>>()).await.is_none());
        let dispatcher = Server::new("t", "1").dispatcher().unwrap();
        assert!(told(dispatcher.engine().counts()).await.is_some());
    }

    /// What dashboards and alerts ask for is there.
    #[tokio::test]
    async fn what_is_watched_is_told() {
        let text = text().await;
        for watching in [
            include_str!("../../../packaging/prometheus/alerts.yml"),
            include_str!("../../../packaging/grafana/longhaul.json"),
        ] {
            let words = watching.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
            let asked: BTreeSet<&str> = words.filter(|word| word.starts_with("longhaul_")).collect();
            assert!(asked.len() > 5, "{asked:?}");
            for name in asked {
                let family = name.trim_end_matches("_bucket").trim_end_matches("_count");
                let family = family.trim_end_matches("_total").trim_end_matches("_sum");
                assert!(text.contains(&format!("# TYPE {family} ")), "{name} is not told:\n{text}");
            }
        }
    }
}
