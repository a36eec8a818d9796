//! A server with a task under way, which no attack may harm.

use std::fs;

use serde_json::json;

use super::eventually;
use super::modern::{begin, call, ended, task, text};
use super::place::Place;
use super::server::Server;

/// A place, its server, and a task that waits at a gate.
#[derive(Debug)]
pub(crate) struct Scene {
    // Before the place, so that it is gone when the place looks for what is left.
    pub(crate) server: Server,
    task: String,
    pub(crate) place: Place,
}

/// The key of the gate that the scene's task waits at.
const GATE: &str = "scene";

impl Scene {
    pub(crate) fn new(more: &str) -> Self {
        let place = Place::new(more);
        let server = Server::start(&place);
        let task = begin(server.address(), "gate", json!({"key": GATE}));
        eventually("the gate's command", || (place.begun(GATE) == 1).then_some(()));
        Self { server, task, place }
    }

    /// The server answers a good call and the task is still there.
    #[track_caller]
    pub(crate) fn is_unharmed(&self) {
        let answer = call(self.server.address(), "echo", json!({"text": "still there"}));
        assert_eq!(text(&answer["result"]), "still there");
        assert_eq!(task(self.server.address(), &self.task)["status"], "working");
    }

    /// All that, and the task ends as if nothing had happened.
    #[track_caller]
    pub(crate) fn ends_well(mut self) {
        self.is_unharmed();
        fs::write(self.place.path(GATE), "").unwrap();
        let ended = ended(self.server.address(), &self.task);
        assert_eq!((ended["status"].as_str(), text(&ended["result"])), (Some("completed"), "open"));
        assert_eq!(self.place.begun(GATE), 1);
        let said = self.server.said();
        assert!(!said.contains("panicked"), "{said}");
        self.server.kill();
    }
}
