//! A small API of jobs, as clusters, renderers and laboratories have them: a job is started, asked after, cancelled.
//!
//! It can be told to behave as such APIs do on a bad day, and it counts what it was asked for.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A running API. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// What it knows, and how it behaves.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The jobs, in the order of their start.
    pub(crate) jobs: Vec<Job>,
    /// How many starts have come, those sent again included.
    pub(crate) starts: usize,
    /// How many requests to cancel have come.
    pub(crate) cancels: usize,
    /// How many requests have come in all.
    pub(crate) requests: usize,
    /// It answers with a page instead of a status.
    pub(crate) garbles: bool,
    /// It answers with a page instead of a result.
    pub(crate) garbles_results: bool,
    /// Where it sends whoever asks for a status.
    pub(crate) redirects: Option<SocketAddr>,
    /// It answers nothing but 503.
    pub(crate) is_down: bool,
    /// It refuses to cancel jobs (409), whether they run or have ended.
    pub(crate) keeps_jobs: bool,
    /// It starts jobs and holds back the answers, for as long as this is so.
    pub(crate) holds_starts: bool,
    /// How many answers to starts it loses: the job is started, and the connection ends.
    pub(crate) loses: usize,
    /// It starts jobs, and a proxy before it answers 502 in its place.
    pub(crate) hides_starts: bool,
    /// What it calls every job, where that is no text.
    pub(crate) names: Option<Value>,
    /// What it wants callers to show.
    pub(crate) token: Option<String>,
    /// Where it ends jobs by itself: a second each step.
    pub(crate) works: bool,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    /// What its starter calls it.
    pub(crate) key: Option<String>,
    /// What it was asked to do.
    pub(crate) order: Value,
    /// `running`, `succeeded`, `failed` or `cancelled`.
    pub(crate) state: String,
    /// How many frames are rendered.
    pub(crate) frame: u64,
    begun: Instant,
}

/// A request, as far as it matters here.
struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Api {
    /// Serves on `listener` for as long as the process lives.
    pub(crate) fn serve(listener: TcpListener) -> io::Result<Self> {
        let api = Self { address: listener.local_addr()?, state: Arc::default() };
        let served = api.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let api = served.clone();
                thread::spawn(move || api.answer(stream));
            }
        });
        Ok(api)
    }

    /// Where it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it knows, to be looked at and changed.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        let request = Request::read(&mut stream)?;
        let starts = request.method == "POST" && request.path == "/jobs";
        let (mut status, answer) = self.handle(&request);
        let (garbles, elsewhere) = {
            let state = self.state();
            let garbles = state.garbles || state.garbles_results && request.path.ends_with("/result");
            (garbles && request.method == "GET", state.redirects.filter(|_| request.method == "GET"))
        };
        if let Some(elsewhere) = elsewhere {
            let path = &request.path;
            return write!(
                stream,
                "HTTP/1.1 302 Said\r\nLocation: http://{elsewhere}{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
        if starts && status == 201 {
            while self.state().holds_starts {
                thread::sleep(Duration::from_millis(20));
            }
            let mut state = self.state();
            if state.loses > 0 {
                state.loses -= 1;
                return Ok(());
            }
            if state.hides_starts {
                status = 502;
            }
        }
        let body = match answer {
            _ if garbles => "<html>Welcome to the portal</html>".to_owned(),
            Value::Null => String::new(),
            answer => answer.to_string(),
        };
        write!(
            stream,
            "HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }

    fn handle(&self, request: &Request) -> (u16, Value) {
        let mut state = self.state();
        state.requests += 1;
        if state.is_down {
            return (503, json!({"error": "down for maintenance"}));
        }
        let shown = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if state.token.is_some() && state.token.as_deref() != shown {
            return (401, json!({"error": "who are you?"}));
        }
        let path: Vec<&str> = request.path.trim_matches('/').split('/').collect();
        match (request.method.as_str(), path.as_slice()) {
            ("POST", ["jobs"]) => state.start(request),
            ("GET", ["jobs", id]) => match state.job(id) {
                Some(job) => (200, job.told(id)),
                None => (404, json!({"error": "no such job"})),
            },
            ("GET", ["jobs", id, "result"]) => match state.job(id) {
                Some(job) if job.state == "succeeded" => {
                    (200, json!({"film": format!("{id}.mp4"), "frames": job.frame}))
                }
                _ => (404, json!({"error": "no such result"})),
            },
            ("DELETE", ["jobs", id]) => {
                state.cancels += 1;
                let keeps = state.keeps_jobs;
                match state.job(id) {
                    Some(_) if keeps => (409, json!({"error": "not now"})),
                    Some(job) => {
                        job.state = "cancelled".to_owned();
                        (204, Value::Null)
                    }
                    None => (404, json!({"error": "no such job"})),
                }
            }
            _ => (404, json!({"error": "there is nothing here"})),
        }
    }
}

impl State {
    /// A job of this id.
    pub(crate) fn job(&mut self, id: &str) -> Option<&mut Job> {
        let works = self.works;
        let number: usize = id.strip_prefix("job-")?.parse().ok()?;
        let job = self.jobs.get_mut(number.checked_sub(1)?)?;
        if works && job.state == "running" {
            job.frame = job.begun.elapsed().as_secs().min(job.frames());
            if job.frame == job.frames() {
                job.state = "succeeded".to_owned();
            }
        }
        Some(job)
    }

    /// A start under a key that is known starts nothing more.
    fn start(&mut self, request: &Request) -> (u16, Value) {
        self.starts += 1;
        let Ok(order) = serde_json::from_slice::<Value>(&request.body) else {
            return (400, json!({"error": "that is no JSON"}));
        };
        if order["scene"] == "missing" {
            return (422, json!({"error": "there is no such scene"}));
        }
        let key = request.header("idempotency-key").map(str::to_owned);
        let known = self.jobs.iter().position(|job| key.is_some() && job.key == key);
        let number = known.unwrap_or_else(|| {
            let (state, begun) = ("running".to_owned(), Instant::now());
            self.jobs.push(Job { key, order, state, frame: 0, begun });
            self.jobs.len() - 1
        });
        let name = self.names.clone().unwrap_or_else(|| json!(format!("job-{}", number + 1)));
        (201, json!({"id": name}))
    }
}

impl Job {
    fn frames(&self) -> u64 {
        self.order["frames"].as_u64().unwrap_or(10)
    }

    fn told(&self, id: &str) -> Value {
        let message = match self.state.as_str() {
            "running" => format!("frame {} of {}", self.frame, self.frames()),
            "failed" => "the scene has no light".to_owned(),
            state => state.to_owned(),
        };
        json!({"id": id, "state": self.state, "frame": self.frame, "frames": self.frames(), "message": message})
    }
}

impl Request {
    fn read(stream: &mut TcpStream) -> io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, path, headers, body: Vec::new() };
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        request.body = vec![0; length];
        reader.read_exact(&mut request.body)?;
        Ok(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
