//! What the protocol talks about, without a word of how a revision writes it.

mod annotations;
mod call;
mod capability;
mod completion;
mod content;
mod elicitation;
mod icon;
mod implementation;
mod input;
mod logging;
mod members;
mod meta;
mod offer;
mod progress;
mod prompt;
mod resource;
mod root;
mod sampling;
mod schema;
mod subscription;
mod task;
mod tool;
mod trace_parent;

pub use annotations::{Annotations, Role};
pub use call::{CallToolParams, CallToolResult};
pub use capability::{
    ClientCapabilities, ClientExtensions, ClientTasks, Elicitation, MAX_EXTENSION_BYTES, MAX_EXTENSIONS,
    Sampling, TASKS_EXTENSION,
};
pub use completion::{CompleteParams, Completion, CompletionArgument, CompletionReference};
pub use content::{Content, EmbeddedResource, Media, OtherContent, ResourceContents, ResourceLink, Text};
pub use elicitation::{
    ElicitAction, ElicitForm, ElicitParams, ElicitResult, ElicitUrl, Field, FieldKind, FieldOption,
    FieldValue, Form, InvalidAnswer, TextFormat,
};
pub use icon::{Icon, IconTheme};
pub use implementation::Implementation;
pub use input::{InputKind, InputRequest, Retry};
pub use logging::LoggingLevel;
pub use meta::{CONVERSATION, DURABLE_TASKS, IDEMPOTENCY_KEY, Meta, RequestMeta};
pub use offer::ServerCapabilities;
pub use progress::Progress;
pub use prompt::{GetPromptParams, GetPromptResult, Prompt, PromptArgument, PromptMessage};
pub use resource::{CacheScope, ReadResourceResult, Resource, ResourceTemplate};
pub use root::{ListRootsResult, Root};
pub use sampling::{
    CreateMessageParams, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingContent,
    SamplingMessage, ToolChoice, ToolResult, ToolUse,
};
pub use schema::either_schema;
pub(crate) use schema::{object_schema, spelled_out};
pub use subscription::{SUBSCRIPTION_ID, SubscriptionFilter};
pub use task::{Task, TaskStatus};
pub use tool::{InvalidToolName, TaskSupport, Tool, ToolAnnotations};
pub use trace_parent::{InvalidTraceParent, TraceParent};
