//! One client that calls `echo`, so many calls at a time: the same for ours and for those it is measured against.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// How long a whole run may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What may go wrong.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// `URL CALLS IN_FLIGHT`, as a client is started with.
pub(crate) struct Arguments {
    /// The server.
    pub(crate) url: String,
    calls: u32,
    in_flight: u32,
}

impl Arguments {
    /// Those of this process.
    pub(crate) fn read() -> Result<Self, Failure> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let [url, calls, in_flight] = &words[..] else { return Err("say URL CALLS IN_FLIGHT".into()) };
        Ok(Self { url: url.clone(), calls: calls.parse()?, in_flight: in_flight.parse()? })
    }

    /// Makes the calls, holds each answer against what was asked, and prints the figures. `echo` says back what it is called
    /// with.
    pub(crate) async fn run<F>(
        self,
        echo: impl Fn(String) -> F + Clone + Send + Sync + 'static,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Result<String, Failure>> + Send + 'static,
    {
        let Self { calls, in_flight, .. } = self;
        // The connections are there, and what is learnt of a tool once is learnt.
        call(&echo, 0).await?;
        let (next, cpu, began) = (Arc::new(AtomicU32::new(1)), crate::cpu::seconds()?, Instant::now());
        let mut callers = JoinSet::new();
        for _ in 0..in_flight {
            let (next, echo) = (Arc::clone(&next), echo.clone());
            callers.spawn(async move {
                let mut took = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > calls {
                        return Ok::<_, Failure>(took);
                    }
                    let began = Instant::now();
                    call(&echo, number).await?;
                    took.push(u32::try_from(began.elapsed().as_micros())?);
                }
            });
        }
        let mut took = Vec::new();
        let calling = async {
            while let Some(called) = callers.join_next().await {
                took.extend(called??);
            }
            Ok::<_, Failure>(())
        };
        tokio::time::timeout(PATIENCE, calling).await.map_err(|_| "the server is too slow")??;
        let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), crate::cpu::seconds()? - cpu);
        if took.len() != calls as usize {
            return Err(format!("{} of {calls} calls were answered", took.len()).into());
        }
        took.sort_unstable();
        let [p50_us, p99_us] = [50, 99].map(|part| took[took.len() * part / 100]);
        println!(
            r#"{{"calls":{calls},"seconds":{seconds},"cpu_seconds":{cpu_seconds},"p50_us":{p50_us},"p99_us":{p99_us}}}"#
        );
        Ok(())
    }
}

/// Makes the call of that number.
async fn call<F>(echo: &impl Fn(String) -> F, number: u32) -> Result<(), Failure>
where
    F: Future<Output = Result<String, Failure>>,
{
    let message = format!("the message of call {number:07}");
    let answer = echo(message.clone()).await?;
    if answer == message { Ok(()) } else { Err(format!("{message:?} was answered with {answer:?}").into()) }
}
