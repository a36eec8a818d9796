//! The methods of MCP, in the neutral vocabulary. Which of them a revision has is its dialect's table.

/// A request. Most are a client's; [`Ping`](Self::Ping) is either side's.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Method {
    /// Open a session (legacy era).
    Initialize,
    /// Ask what the server is and can do (modern era).
    Discover,
    /// Ask whether the peer is alive (legacy era).
    Ping,
    /// Choose the least severe log message of the session (legacy era).
    SetLogLevel,
    /// List the tools.
    ListTools,
    /// Call a tool.
    CallTool,
    /// List the resources.
    ListResources,
    /// List the resource templates.
    ListResourceTemplates,
    /// Read a resource.
    ReadResource,
    /// Hear of changes of a resource (legacy era).
    Subscribe,
    /// Hear of them no longer (legacy era).
    Unsubscribe,
    /// List the prompts.
    ListPrompts,
    /// Get a prompt, filled in.
    GetPrompt,
    /// Complete what is being typed.
    Complete,
    /// Hear of changes on a stream of its own (modern era).
    Listen,
    /// Ask where a task stands.
    GetTask,
    /// Wait for a task's result (D2).
    TaskResult,
    /// Answer what a task asks (D3).
    UpdateTask,
    /// Cancel a task.
    CancelTask,
    /// List the tasks (D1, D2).
    ListTasks,
    /// Have a task forgotten (D1).
    DeleteTask,
    /// Ask the client's user (legacy era).
    Elicit,
    /// Ask the client's model (legacy era).
    Sample,
    /// Ask the client where the server may work (legacy era).
    ListRoots,
    /// A method of the server's own, which no revision knows.
    Own,
}

impl Method {
    /// The member of `params` that HTTP repeats in the `Mcp-Name` header, if the method has one
    /// (2026-07-28, Streamable HTTP, Standard Request Headers; the tasks extension, HTTP).
    pub fn named_by(self) -> Option<&'static str> {
        match self {
            Self::CallTool | Self::GetPrompt => Some("name"),
            Self::ReadResource => Some("uri"),
            Self::GetTask | Self::UpdateTask | Self::CancelTask | Self::DeleteTask => Some("taskId"),
            _ => None,
        }
    }
}

/// A notification, of either side.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// The session is open (legacy era).
    Initialized,
    /// A request is no longer wanted.
    Cancelled,
    /// How far a request has come.
    Progress,
    /// A message for the log.
    Log,
    /// The tools are others now.
    ToolsChanged,
    /// The resources are others now.
    ResourcesChanged,
    /// A resource has changed.
    ResourceUpdated,
    /// The prompts are others now.
    PromptsChanged,
    /// A task has changed.
    TaskStatus,
    /// There is a task that can be asked after (D1).
    TaskCreated,
    /// What a user was sent away for is done (2025-11-25).
    ElicitationComplete,
    /// What a subscription will bring (modern era).
    Listening,
    /// The client's roots have changed (legacy era).
    RootsChanged,
}
