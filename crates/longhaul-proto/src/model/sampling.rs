//! Sampling: a server asks its client's model.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::annotations::Role;
use super::content::{Block, Content, Media, Text};
use super::meta::Meta;
use super::tool::Tool;

/// What a server asks of its client's model (2025-11-25, Client, Sampling).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct CreateMessageParams {
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// The most tokens to sample.
    pub max_tokens: u64,
    /// What the model is told before the conversation. The client may leave it out or change it.
    pub system_prompt: Option<String>,
    /// How freely to sample.
    pub temperature: Option<f64>,
    /// Texts that end the sampling.
    pub stop_sequences: Vec<String>,
    /// Which model the server would like.
    pub model_preferences: Option<ModelPreferences>,
    /// What to add from other servers. Deprecated, and only for clients that declare it.
    pub include_context: Option<IncludeContext>,
    /// Tools the model may ask for. Only for clients that declare `sampling.tools`.
    pub tools: Vec<Tool>,
    /// Whether it must ask for one.
    pub tool_choice: Option<ToolChoice>,
    /// For the model's provider, in its own format.
    pub metadata: Option<Box<RawValue>>,
}

impl CreateMessageParams {
    /// Asks for at most `max_tokens` after these messages.
    pub fn new(messages: Vec<SamplingMessage>, max_tokens: u64) -> Self {
        Self { messages, max_tokens, ..Self::default() }
    }

    /// The same, telling the model this before the conversation.
    #[must_use]
    pub fn with_system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }

    /// The same, with tools that the model may ask for.
    #[must_use]
    pub fn with_tools(mut self, tools: Vec<Tool>, choice: ToolChoice) -> Self {
        (self.tools, self.tool_choice) = (tools, Some(choice));
        self
    }

    /// Whether the client must have declared that it samples with tools.
    pub fn needs_tools(&self) -> bool {
        !self.tools.is_empty() || self.tool_choice.is_some()
    }
}

/// One message of a sampled conversation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct SamplingMessage {
    /// Who says it.
    pub role: Role,
    /// What is said. One block is written alone, several as a list.
    #[serde(serialize_with = "one_or_many", deserialize_with = "read_one_or_many")]
    pub content: Vec<SamplingContent>,
    /// What else there is to say.
    #[serde(rename = "_meta", default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

impl SamplingMessage {
    /// Something the user says.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![SamplingContent::text(text)])
    }

    /// Something the model says.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![SamplingContent::text(text)])
    }

    /// A message of these blocks.
    pub fn new(role: Role, content: Vec<SamplingContent>) -> Self {
        Self { role, content, meta: Meta::new() }
    }
}

/// One block of a sampled message.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SamplingContent {
    /// Text.
    Text(Text),
    /// A picture.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// The model asks for a tool.
    ToolUse(ToolUse),
    /// What the tool answered.
    ToolResult(ToolResult),
}

impl<'de> Deserialize<'de> for SamplingContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let block = Block::read(deserializer)?;
        match block.kind.as_str() {
            "text" => Text::read(block.members()?).map(Self::Text),
            "image" => Media::read(block.members()?).map(Self::Image),
            "audio" => Media::read(block.members()?).map(Self::Audio),
            "tool_use" => block.into().map(Self::ToolUse),
            "tool_result" => block.into().map(Self::ToolResult),
            unknown => Err(D::Error::custom(format_args!("unknown type of content {unknown:?}"))),
        }
    }
}

impl SamplingContent {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), ..Text::default() })
    }

    /// The text, if this is a block of text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(Text { text, .. }) => Some(text),
            _ => None,
        }
    }
}

/// The model asks for a tool.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct ToolUse {
    /// Names this use, for its result.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// Its arguments, an object.
    pub input: Box<RawValue>,
    /// What else there is to say.
    #[serde(rename = "_meta", default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

/// What a tool that the model asked for has answered.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResult {
    /// Which use it answers.
    pub tool_use_id: String,
    /// For the model.
    #[serde(default)]
    pub content: Vec<Content>,
    /// For programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Box<RawValue>>,
    /// The tool failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// What else there is to say.
    #[serde(rename = "_meta", default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

impl ToolResult {
    /// What the use called `tool_use_id` was answered with.
    pub fn new(tool_use_id: impl Into<String>, content: Vec<Content>) -> Self {
        Self {
            tool_use_id: tool_use_id.into(),
            content,
            structured_content: None,
            is_error: false,
            meta: Meta::new(),
        }
    }
}

/// What the client's model said.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// Who says it: the model.
    pub role: Role,
    /// What is said.
    #[serde(serialize_with = "one_or_many", deserialize_with = "read_one_or_many")]
    pub content: Vec<SamplingContent>,
    /// Which model said it.
    pub model: String,
    /// Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or another word of the provider's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// What else there is to say.
    #[serde(rename = "_meta", default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

impl CreateMessageResult {
    /// What `model` says: this text.
    pub fn new(model: impl Into<String>, text: impl Into<String>) -> Self {
        let content = vec![SamplingContent::text(text)];
        Self { role: Role::Assistant, content, model: model.into(), stop_reason: None, meta: Meta::new() }
    }

    /// The text of all its blocks of text, one after the other.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(SamplingContent::as_text).collect()
    }

    /// The tools the model asks for.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|block| match block {
            SamplingContent::ToolUse(tool_use) => Some(tool_use),
            _ => None,
        })
    }
}

/// Which model a server would like. The client decides.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Parts of names of models, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// How much a low price matters, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// How much a quick answer matters, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// How much a good answer matters, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

/// Part of a model's name.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ModelHint {
    /// The part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ModelPreferences {
    /// A model whose name has this in it; the earlier of several is the better.
    #[must_use]
    pub fn hint(mut self, name: impl Into<String>) -> Self {
        self.hints.push(ModelHint { name: Some(name.into()) });
        self
    }
}

/// What the client is asked to add to the conversation from its servers.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_enums, reason = "the specification's three")]
pub enum IncludeContext {
    /// Nothing.
    None,
    /// What it knows from the server that asks.
    ThisServer,
    /// What it knows from all.
    AllServers,
}

/// Whether the model must ask for a tool.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the specification's three")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// For at least one.
    Required,
    /// For none.
    None,
}

/// The older revisions know a single block only.
fn one_or_many<S: Serializer>(content: &[SamplingContent], serializer: S) -> Result<S::Ok, S::Error> {
    match content {
        [one] => one.serialize(serializer),
        many => many.serialize(serializer),
    }
}

fn read_one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SamplingContent>, D::Error> {
    // Read as text first: an untagged enum would lose which member is wrong, and cannot hold raw JSON.
    let text = Box::<RawValue>::deserialize(deserializer)?;
    let content = if text.get().starts_with('[') {
        serde_json::from_str(text.get())
    } else {
        serde_json::from_str(text.get()).map(|one| vec![one])
    };
    content.map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_stands_alone_and_several_in_a_list() {
        let one = SamplingMessage::user("hi");
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(text, r#"{"role":"user","content":{"type":"text","text":"hi"}}"#);
        let two = SamplingMessage::new(
            Role::Assistant,
            vec![SamplingContent::text("a"), SamplingContent::text("b")],
        );
        for message in [one, two] {
            let text = serde_json::to_string(&message).unwrap();
            let read: SamplingMessage = serde_json::from_str(&text).unwrap();
            assert_eq!(read.content.len(), message.content.len());
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }

    #[test]
    fn blocks_carry_what_is_attached_to_them() {
        let text =
            r#"{"type":"text","text":"a","annotations":{"audience":["user"]},"_meta":{"x":{"y":[1]}}}"#;
        let content: Content = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&content).unwrap(), text);
        assert!(serde_json::from_str::<SamplingContent>(r#"{"type":"smell"}"#).is_err());
    }

    #[test]
    fn a_model_may_ask_for_tools() {
        let text = r#"{"role":"assistant","model":"m","stopReason":"toolUse","content":[
            {"type":"text","text":"let me see"},{"type":"tool_use","id":"1","name":"look","input":{"at":[1]}}]}"#;
        let result: CreateMessageResult = serde_json::from_str(text).unwrap();
        assert_eq!(result.text(), "let me see");
        let uses: Vec<_> = result.tool_uses().map(|tool_use| tool_use.input.get()).collect();
        assert_eq!(uses, [r#"{"at":[1]}"#]);
    }
}
