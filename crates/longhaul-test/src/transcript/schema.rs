//! What the authors of the revisions published of each, for every message to be held against.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};

/// The schemas of all revisions.
#[derive(Debug)]
pub struct Book {
    /// By the date of the revision.
    schemas: BTreeMap<String, Value>,
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

/// Tasks are an extension since 2026-07-28, with a schema of its own.
const TASKS: &str = "tasks-extension";

impl Book {
    /// Reads `conformance/schema`.
    ///
    /// # Errors
    ///
    /// Says what cannot be read.
    pub fn load() -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/schema");
        let mut schemas = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let mut schema = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
            // The older revisions ask nobody.
            let _ = allow_fractions(&mut schema);
            schemas.insert(name.to_owned(), schema);
        }
        Ok(Self { schemas, compiled: Mutex::default() })
    }

    /// Whether a message is what its revision says of such messages. `asked` is the method of the request that it
    /// answers.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn check(&self, revision: &str, message: &Value, asked: Option<&str>) -> Result<(), String> {
        // An array of messages is checked one by one.
        if let Some(messages) = message.as_array() {
            return messages.iter().try_for_each(|message| self.check(revision, message, asked));
        }
        let date = self.nearest(revision)?;
        self.check_envelope(date, message)?;
        if is_drafted(message, asked) {
            return Ok(());
        }
        if let Some(method) = message["method"].as_str() {
            let date = if method.contains("tasks") && !self.defines(date, method) { TASKS } else { date };
            return match self.definition(date, method) {
                Some(definition) => self.valid(date, &definition, message),
                None => Ok(()),
            };
        }
        let (Some(result), Some(method)) = (message.get("result"), asked) else { return Ok(()) };
        let (date, definition) = self.result(date, method, result);
        self.valid(date, &definition, result)
    }

    /// Whether `value` is what the schema of a revision calls `definition`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it, or that the schema has no such definition.
    pub fn check_as(&self, revision: &str, definition: &str, value: &Value) -> Result<(), String> {
        let date = self.nearest(revision)?;
        if self.definitions(date).get(definition).is_none() {
            return Err(format!("{date} has no {definition}"));
        }
        self.valid(date, definition, value)
    }

    /// The schema of a revision; of one without any, the newest before it.
    fn nearest(&self, revision: &str) -> Result<&str, String> {
        let mut dated = self.schemas.keys().map(String::as_str).filter(|name| *name != TASKS);
        dated.rfind(|date| *date <= revision).ok_or_else(|| format!("no schema for {revision}"))
    }

    fn check_envelope(&self, date: &str, message: &Value) -> Result<(), String> {
        let kinds = match (message.get("method").is_some(), message.get("id").is_some(), message.get("error"))
        {
            (true, true, _) => ["JSONRPCRequest"; 2],
            (true, false, _) => ["JSONRPCNotification"; 2],
            (false, _, None) => ["JSONRPCResponse", "JSONRPCResultResponse"],
            (false, _, Some(_)) => ["JSONRPCError", "JSONRPCErrorResponse"],
        };
        let kind = kinds.into_iter().rfind(|kind| self.definitions(date).get(kind).is_some());
        let kind = kind.ok_or_else(|| format!("{date} has no {}", kinds[0]))?;
        // Until 2025-11-25 the schemas demand an id of every error, even of one whose request had none to be read.
        let mut message = message.clone();
        if kind == "JSONRPCError" && message.get("id").is_none() {
            message["id"] = json!(0);
        }
        self.valid(date, kind, &message)
    }

    fn definitions(&self, date: &str) -> &Value {
        let schema = &self.schemas[date];
        schema.get("$defs").unwrap_or_else(|| &schema["definitions"])
    }

    /// What a request or a notification of that method is called there.
    fn definition(&self, date: &str, method: &str) -> Option<String> {
        let all = self.definitions(date).as_object()?;
        let names = |of: &Value| of["properties"]["method"]["const"] == method;
        let found = all.iter().find(|(_, of)| {
            // The schema of the extension puts together what a message is.
            names(of) || of["allOf"].as_array().is_some_and(|parts| parts.iter().any(names))
        });
        found.map(|(name, _)| name.clone())
    }

    fn defines(&self, date: &str, method: &str) -> bool {
        self.definition(date, method).is_some()
    }

    /// What a result of a request of that method is called, and where.
    fn result<'b>(&'b self, date: &'b str, method: &str, result: &Value) -> (&'b str, String) {
        if result["resultType"] == "input_required" {
            return (date, "InputRequiredResult".to_owned());
        }
        if result["resultType"] == "task" {
            return (TASKS, "CreateTaskResult".to_owned());
        }
        let may_be_task = ["tools/call", "sampling/createMessage", "elicitation/create"].contains(&method);
        if result.get("task").is_some() && may_be_task {
            return (date, "CreateTaskResult".to_owned());
        }
        for date in [date, TASKS] {
            let name = self.definition(date, method).unwrap_or_default();
            let name = name.trim_end_matches("Request").to_owned() + "Result";
            if name != "Result" && self.definitions(date).get(&name).is_some() {
                return (date, name);
            }
        }
        (date, "Result".to_owned())
    }

    fn valid(&self, date: &str, definition: &str, value: &Value) -> Result<(), String> {
        let validator = self.compiled(date, definition)?;
        let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(format!("no {definition} of {date}: {errors:?}: {value}"))
        }
    }

    fn compiled(&self, date: &str, definition: &str) -> Result<Arc<Validator>, String> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let key = format!("{date} {definition}");
        if let Some(known) = compiled.get(&key) {
            return Ok(Arc::clone(known));
        }
        let mut schema = self.schemas[date].clone();
        let root = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
        schema["$ref"] = json!(format!("#/{root}/{definition}"));
        let validator = jsonschema::validator_for(&schema).map_err(|error| format!("{key}: {error}"))?;
        let validator = Arc::new(validator);
        compiled.insert(key, Arc::clone(&validator));
        Ok(validator)
    }
}

/// What a form is filled in with may be any number: the revisions say so in words and in their TypeScript, of which these
/// schemas were generated with `integer` in its place.
fn allow_fractions(schema: &mut Value) -> Option<()> {
    let all = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
    let result = schema.get_mut(all)?.get_mut("ElicitResult")?;
    let values = result.pointer_mut("/properties/content/additionalProperties")?;
    let of = if values.get("anyOf").is_some() { values["anyOf"].as_array_mut()?.last_mut()? } else { values };
    let integer = of["type"].as_array_mut()?.iter_mut().find(|kind| *kind == "integer")?;
    *integer = json!("number");
    Some(())
}

/// Whether it is about a task as SEP-1686 drafted them, of which no schema was published.
fn is_drafted(message: &Value, asked: Option<&str>) -> bool {
    let about_tasks = |method: &str| method.contains("tasks/");
    let method = message["method"].as_str().or(asked);
    let bodies = [&message["params"], &message["result"]];
    method.is_some_and(about_tasks)
        && bodies.iter().any(|body| body["_meta"].get("modelcontextprotocol.io/related-task").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_held_against_its_own_revision() {
        let book = Book::load().unwrap();
        let list = |tools: Value| json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}});
        let check = |date: &str, message: Value| book.check(date, &message, Some("tools/list"));
        assert_eq!(check("2024-11-05", list(json!([]))), Ok(()));
        assert!(check("2024-11-05", list(json!({}))).is_err());
        assert!(check("2026-07-28", list(json!([]))).is_err(), "it must be typed and say how long it keeps");
        assert!(check("2099-01-01", list(json!([]))).is_err(), "the newest schema holds on");
        let error = json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "x"}});
        for date in ["2024-11-05", "2025-11-25"] {
            assert_eq!(book.check(date, &error, None), Ok(()));
        }
        assert!(book.check("2025-11-25", &json!({"jsonrpc": "1.0", "id": 1, "result": {}}), None).is_err());
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
        assert!(book.check("2025-11-25", &progress, None).is_err());
    }

    #[test]
    fn a_form_may_be_filled_in_with_any_number() {
        let book = Book::load().unwrap();
        for date in ["2025-06-18", "2025-11-25", "2026-07-28"] {
            let filled_in = |value: Value| json!({ "action": "accept", "content": { "score": value } });
            assert_eq!(book.check_as(date, "ElicitResult", &filled_in(json!(95.5))), Ok(()), "{date}");
            assert!(book.check_as(date, "ElicitResult", &filled_in(json!({}))).is_err(), "{date}");
        }
    }
}
