//! The kinds of things that are offered, as a catalogue changes them.

use super::BuildError;
use super::changes::Listed;
use super::dispatch::Shared;
use super::offer::Offer;
use super::prompt::Prompt;
use super::resource::Resource;
use super::shelf::{Item, Shelf};
use super::template::ResourceTemplate;
use super::tool::Tool;

/// One of the kinds of things that are offered.
#[diagnostic::on_unimplemented(
    message = "a catalogue holds no `{Self}`",
    label = "use a `Tool`, a `Prompt`, a `Resource` or a `ResourceTemplate` of `longhaul::server`"
)]
pub(super) trait Kind: Item + Sized {
    /// The list it stands in.
    const LISTED: Listed;

    /// Where it stands.
    fn shelf(offer: &Offer) -> &Shelf<Self>;

    /// Whether it can be offered beside the rest.
    fn check(&self, offer: &Offer) -> Result<(), BuildError>;

    /// What must be ready before anybody sees it.
    fn prepare(&self, _: &Shared) {}

    /// That its name is taken.
    fn taken(name: String) -> BuildError;
}

impl Kind for Tool {
    const LISTED: Listed = Listed::Tools;

    fn shelf(offer: &Offer) -> &Shelf<Self> {
        &offer.tools
    }

    fn check(&self, offer: &Offer) -> Result<(), BuildError> {
        if self.makes_tasks() && !offer.has_tasks {
            return Err(BuildError::NoTasks { name: self.definition.name.clone() });
        }
        self.check(offer.has_tasks, &offer.states)
    }

    fn prepare(&self, shared: &Shared) {
        shared.engine.employ(self.worker(&shared.offer));
    }

    fn taken(name: String) -> BuildError {
        BuildError::DuplicateTool { name }
    }
}

impl Kind for Prompt {
    const LISTED: Listed = Listed::Prompts;

    fn shelf(offer: &Offer) -> &Shelf<Self> {
        &offer.prompts
    }

    fn check(&self, offer: &Offer) -> Result<(), BuildError> {
        self.check(&offer.states)
    }

    fn taken(name: String) -> BuildError {
        BuildError::Duplicate { kind: "prompts", name }
    }
}

impl Kind for Resource {
    const LISTED: Listed = Listed::Resources;

    fn shelf(offer: &Offer) -> &Shelf<Self> {
        &offer.resources
    }

    fn check(&self, offer: &Offer) -> Result<(), BuildError> {
        self.check(&offer.states)
    }

    fn taken(name: String) -> BuildError {
        BuildError::Duplicate { kind: "resources", name }
    }
}

impl Kind for ResourceTemplate {
    const LISTED: Listed = Listed::Resources;

    fn shelf(offer: &Offer) -> &Shelf<Self> {
        &offer.templates
    }

    fn check(&self, offer: &Offer) -> Result<(), BuildError> {
        self.check(&offer.states)
    }

    fn taken(name: String) -> BuildError {
        BuildError::Duplicate { kind: "resource templates", name }
    }
}
