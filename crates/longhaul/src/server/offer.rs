//! What a server offers, by kind.

use std::sync::Arc;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::model::{self, TaskSupport};
use longhaul_tasks::runner::Worker;
use longhaul_tasks::store::Rerun;

use super::BuildError;
use super::audience::Audience;
use super::companion::Companion;
use super::hand_over::or_hand_over;
use super::policy::TaskMode;
use super::prompt::Prompt;
use super::resource::{Resource, Resources};
use super::resumed::FunctionEntry;
use super::schema;
use super::shelf::{Item, Shelf, Taken};
use super::state::States;
use super::template::ResourceTemplate;
use super::tool::{Kind, Tool};

/// Everything a server offers.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) tools: Arc<Shelf<Tool>>,
    pub(super) prompts: Shelf<Prompt>,
    pub(super) resources: Shelf<Resource>,
    pub(super) templates: Shelf<ResourceTemplate>,
    pub(super) families: Vec<Arc<dyn Resources>>,
    /// What the handlers share.
    pub(super) states: Arc<States>,
    /// Whether calls can become tasks.
    pub(super) has_tasks: bool,
}

/// The same, being put together.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) tools: Vec<Tool>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) resources: Vec<Resource>,
    pub(super) templates: Vec<ResourceTemplate>,
    pub(super) families: Vec<Arc<dyn Resources>>,
    pub(super) states: States,
    /// Calls of tools that come while it serves may become tasks.
    pub(super) tasks_to_come: bool,
}

impl Parts {
    /// Whether a call can be a task that gives parts of its result; `dynamic`: tools may come.
    pub(super) fn can_give_parts(&self, dynamic: bool) -> bool {
        let is_able = |tool: &Tool| tool.makes_tasks() && (dynamic || matches!(tool.kind, Kind::Function(_)));
        (dynamic && self.tasks_to_come) || self.tools.iter().any(is_able)
    }

    /// `tells_of_tasks`: it does so though none of its tools may make any.
    pub(super) fn finish(self, tells_of_tasks: bool) -> Result<Offer, BuildError> {
        let has_tasks = tells_of_tasks || self.tasks_to_come || self.tools.iter().any(Tool::makes_tasks);
        for tool in &self.tools {
            tool.check(has_tasks, &self.states)?;
        }
        self.prompts.iter().try_for_each(|prompt| prompt.check(&self.states))?;
        self.resources.iter().try_for_each(|resource| resource.check(&self.states))?;
        self.templates.iter().try_for_each(|template| template.check(&self.states))?;
        Ok(Offer {
            tools: Shelf::new(self.tools)
                .map(Arc::new)
                .map_err(|Taken(name)| BuildError::DuplicateTool { name })?,
            prompts: shelf("prompts", self.prompts)?,
            resources: shelf("resources", self.resources)?,
            templates: shelf("resource templates", self.templates)?,
            families: self.families,
            states: Arc::new(self.states),
            has_tasks,
        })
    }
}

fn shelf<T: Item>(kind: &'static str, items: Vec<T>) -> Result<Shelf<T>, BuildError> {
    Shelf::new(items).map_err(|Taken(name)| BuildError::Duplicate { kind, name })
}

impl Offer {
    /// Every tool, as the engine works on it; and the server's own `methods`, of whose tasks, opened by hand, it can say
    /// when they are lost.
    pub(super) fn workers(&self, methods: Arc<[String]>) -> Vec<Worker> {
        let methods = methods.iter().filter(|_| self.has_tasks).map(|name| Worker::new(name.as_str()));
        // Of one name the tool is the one that is meant.
        methods.chain(self.tools.stock().iter().map(|tool| tool.worker(self))).collect()
    }

    /// Whether anything can be completed.
    pub(super) fn completes(&self) -> bool {
        self.prompts.stock().iter().any(|prompt| !prompt.completers.is_empty())
            || self.templates.stock().iter().any(|template| !template.completers.is_empty())
    }

    /// Whether there are any resources to ask for.
    pub(super) fn has_resources(&self) -> bool {
        !(self.families.is_empty() && self.resources.stock().is_empty() && self.templates.stock().is_empty())
    }

    /// The family that `uri` belongs to.
    pub(super) fn family_of(&self, uri: &str) -> Option<Arc<dyn Resources>> {
        self.families.iter().find(|family| family.has(uri)).cloned()
    }

    /// Whether `uri` could be read.
    pub(super) fn has_resource(&self, uri: &str) -> bool {
        self.offered_as(uri).is_some() || self.family_of(uri).is_some()
    }

    /// The URI or the template that `uri` is offered by, if it is.
    pub(super) fn offered_as(&self, uri: &str) -> Option<String> {
        if self.resources.find(uri).is_some() {
            return Some(uri.to_owned());
        }
        let templates = self.templates.stock();
        let its = templates.iter().find(|template| template.matches(uri));
        its.map(|template| template.definition.uri_template.clone())
    }

    /// What is listed behind the tools: the companions, to those who need them.
    pub(super) fn companions(&self, dialect: &Dialect, audience: Audience) -> Vec<Vec<u8>> {
        if !self.has_tasks || audience != Audience::Waits {
            return Vec::new();
        }
        let answers = self.tools.stock().iter().any(|tool| tool.answer_by_model);
        written(Companion::definitions(answers), |companion, out| dialect.write_tool(companion, out))
    }

    /// What is listed behind the templates: those of the families.
    pub(super) fn family_templates(&self, dialect: &Dialect) -> Vec<Vec<u8>> {
        let templates = self.families.iter().flat_map(|family| family.templates());
        written(templates, |template, out| dialect.write_resource_template(template, out))
    }
}

fn written<T>(items: impl IntoIterator<Item = T>, write: impl Fn(&T, &mut Vec<u8>)) -> Vec<Vec<u8>> {
    let write = |item: T| {
        let mut json = Vec::new();
        write(&item, &mut json);
        json
    };
    items.into_iter().map(write).collect()
}

impl Tool {
    pub(super) fn makes_tasks(&self) -> bool {
        self.definition.task_support != TaskSupport::Forbidden
    }

    /// Whether it can be offered by a server whose calls can become tasks, or cannot.
    pub(super) fn check(&self, has_tasks: bool, states: &States) -> Result<(), BuildError> {
        let name = &self.definition.name;
        model::Tool::check_name(name)?;
        self.check_adorned(states, || format!("tool {name:?}"))?;
        if !schema::is_of_objects(&self.definition.input_schema) {
            return Err(BuildError::InputSchema { name: name.clone() });
        }
        if has_tasks && Companion::named(name).is_some() {
            return Err(BuildError::ReservedTool { name: name.clone() });
        }
        if let Err(source) = &self.mirrored {
            return Err(BuildError::Annotation { name: name.clone(), source: source.clone() });
        }
        match self.versions() {
            Err(source) => return Err(BuildError::Version { name: name.clone(), source }),
            Ok((version, accepts)) if !accepts.admits(&version) => {
                return Err(BuildError::OwnVersion { name: name.clone(), version, accepts });
            }
            Ok(_) => {}
        }
        let plain = matches!(self.kind, Kind::Function(_))
            && self.policy.limit.is_none()
            && self.policy.rerun == Rerun::Never
            && !self.policy.join;
        if self.policy.mode == TaskMode::ByHand && !plain {
            return Err(BuildError::ByHand { name: name.clone() });
        }
        match (self.policy.rerun, &self.kind) {
            (Rerun::Never, _)
            | (Rerun::Reattach, Kind::Job(_))
            | (Rerun::Resumable | Rerun::Restart, Kind::Function(_)) => Ok(()),
            (rerun, _) => Err(BuildError::Rerun { name: name.clone(), rerun }),
        }
    }

    pub(super) fn worker(&self, offer: &Offer) -> Worker {
        // Those of a tool that is offered are understood.
        let (_, accepts) = self.versions().unwrap_or_default();
        let worker =
            Worker::new(self.definition.name.as_str()).with_limit(self.policy.limit).with_accepts(accepts);
        match &self.kind {
            Kind::Function(handler) => {
                let states = Some(&offer.states).filter(|all| !all.is_empty()).cloned();
                let (handler, tools) = (Arc::clone(handler), Arc::clone(&offer.tools));
                let answer_by_model = self.answer_by_model;
                worker.with_entry(Arc::new(FunctionEntry { handler, states, tools, answer_by_model }))
            }
            Kind::Job(job) => worker.with_job(Arc::clone(job) as _),
        }
    }
}

impl Item for Tool {
    fn key(&self) -> &str {
        &self.definition.name
    }

    /// What hands over may answer with the hand-over, and a server must keep to the output schema it lists.
    fn write(&self, dialect: &Dialect, audience: Audience, out: &mut Vec<u8>) {
        // Even who is held to the end is handed over when the process goes.
        let hands_over = matches!(self.policy.mode, TaskMode::After(_) | TaskMode::ByHand);
        match (audience, hands_over, &self.definition.output_schema) {
            (Audience::Waits, true, Some(own)) => {
                let mut definition = self.definition.clone();
                definition.output_schema = Some(or_hand_over(own));
                dialect.write_tool(&definition, out);
            }
            _ => dialect.write_tool(&self.definition, out),
        }
    }
}
