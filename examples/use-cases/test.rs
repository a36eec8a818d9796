//! What the use cases promise, whose servers are killed in the middle: the outcome is right, and nothing was done twice.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "agent-to-agent/test.rs"]
mod agent_to_agent;
#[path = "approval-chain/test.rs"]
mod approval_chain;
#[path = "code-migration/test.rs"]
mod code_migration;
#[path = "deep-research/test.rs"]
mod deep_research;
#[path = "molecule-screen/test.rs"]
mod molecule_screen;
mod served;
