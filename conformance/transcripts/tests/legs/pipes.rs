//! A byte stream: pipes within the process, or the standard streams of another.

use std::process::Stdio;
use std::time::Duration;

use longhaul::driver::{self, Options};
use longhaul::server::{Dispatcher, Principal};
use longhaul::transport::memory;
use longhaul_test::transcript::{Leg, Said};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, Command};

use super::SILENCE;
use super::clients::{Beside, FIRST};

type Reader = Box<dyn AsyncRead + Send + Unpin>;

pub(crate) struct Pipes {
    lines: Lines<BufReader<Reader>>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// What serves the other end, within the process.
    dispatcher: Option<Dispatcher>,
    /// Ends with the leg.
    _child: Option<Child>,
}

impl Pipes {
    pub(crate) fn pair(dispatcher: Dispatcher) -> Self {
        Self::pair_of(FIRST, dispatcher)
    }

    fn pair_of(who: &str, dispatcher: Dispatcher) -> Self {
        let (ours, theirs) = memory::pair();
        let (reader, writer) = tokio::io::split(theirs);
        let (principal, never) = (Principal::new(who).unwrap(), std::future::pending());
        let served = dispatcher.clone();
        tokio::spawn(driver::serve(served, principal, reader, writer, Options::default(), never));
        let (reader, writer) = tokio::io::split(ours);
        Self { dispatcher: Some(dispatcher), ..Self::over(Box::new(reader), Box::new(writer), None) }
    }

    pub(crate) fn child(server: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transcript-server"));
        let mut child = command
            .arg(server)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (reader, writer) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        Self::over(Box::new(reader), Box::new(writer), Some(child))
    }

    fn over(reader: Reader, writer: Box<dyn AsyncWrite + Send + Unpin>, child: Option<Child>) -> Self {
        Self { lines: BufReader::new(reader).lines(), writer, dispatcher: None, _child: child }
    }
}

impl Beside for Pipes {
    async fn beside(&self, who: &str) -> Result<Self, String> {
        let dispatcher = self.dispatcher.clone().ok_or("a process serves one client")?;
        Ok(Self::pair_of(who, dispatcher))
    }
}

impl Leg for Pipes {
    async fn say(&mut self, said: Said<'_>) -> Result<(), String> {
        let line = format!("{}\n", said.text);
        self.writer.write_all(line.as_bytes()).await.map_err(|error| error.to_string())?;
        self.writer.flush().await.map_err(|error| error.to_string())
    }

    async fn hear(&mut self, _: &Value, _: &[String]) -> Result<Value, String> {
        let line = tokio::time::timeout(SILENCE, self.lines.next_line()).await;
        let line = line.map_err(|_| "nothing came".to_owned())?.map_err(|error| error.to_string())?;
        let line = line.ok_or("the connection ended")?;
        serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))
    }

    fn status(&mut self) -> Result<u16, String> {
        Err("there is no status without HTTP".to_owned())
    }

    async fn wait(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
