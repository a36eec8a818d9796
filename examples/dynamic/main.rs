//! A phrase book: each phrase it learns is a tool from then on. See README.md.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul::server::{Catalogue, ChangeError, Resource, ToolError};
use longhaul::{Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// What the whole book can be read as.
const BOOK: &str = "phrases://all";

#[derive(Deserialize, JsonSchema)]
struct Phrase {
    /// In a word.
    name: String,
    /// What to say.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// Of the phrase.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Clone)]
struct Book {
    phrases: Arc<Mutex<BTreeMap<String, String>>>,
    catalogue: Catalogue,
}

impl Book {
    fn learn(&self, Phrase { name, text }: Phrase) -> Result<(), ChangeError> {
        let says = text.clone();
        let tool = Tool::inline(tool_of(&name), format!("Say {text:?}"), move |_, Nothing {}| says.clone());
        self.catalogue.put(tool)?;
        self.change(|phrases| phrases.insert(name, text));
        self.catalogue.resource_updated(BOOK)
    }

    fn forget(&self, name: &str) -> Result<bool, ChangeError> {
        self.change(|phrases| phrases.remove(name));
        self.catalogue.resource_updated(BOOK)?;
        self.catalogue.remove::<Tool>(&tool_of(name))
    }

    fn text(&self) -> String {
        self.change(|phrases| phrases.iter().map(|(name, text)| format!("{name}: {text}\n")).collect())
    }

    fn change<R>(&self, change: impl FnOnce(&mut BTreeMap<String, String>) -> R) -> R {
        change(&mut self.phrases.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn tool_of(name: &str) -> String {
    format!("say_{name}")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (server, catalogue) = Server::new("phrase-book", "1.0.0").dynamic();
    let book = Book { phrases: Arc::default(), catalogue };
    let learn = Tool::inline("learn", "Learn a phrase: it is a tool from then on", {
        let book = book.clone();
        move |_, phrase| book.learn(phrase).map(|()| "learnt").map_err(ToolError::from)
    });
    let forget = Tool::inline("forget", "Forget a phrase", {
        let book = book.clone();
        move |_, Name { name }| match book.forget(&name)? {
            true => Ok("forgotten"),
            false => Err(ToolError::new(format!("there is no phrase {name:?}"))),
        }
    });
    let all = Resource::new(BOOK, "phrases", move |_| {
        let text = book.text();
        async move { text }
    });
    Ok(server.tool(learn).tool(forget).resource(all.mime_type("text/plain")).serve_stdio().await?)
}
