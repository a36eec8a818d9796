//! Revision 2025-11-25: tasks that the caller asks for (D2), sampling with tools, icons.

pub(super) mod task;

use super::{Dialect, Era, Revision, legacy};
use crate::method::{Method, Notice};

pub(super) static DIALECT: Dialect = Dialect {
    revision: Revision::V2025_11_25,
    date: "2025-11-25",
    era: Era::Legacy,
    requests: &[&legacy::REQUESTS, &TASKS],
    notices: &[&legacy::NOTICES, &[TASK_STATUS]],
    server_requests: &[&legacy::SERVER_REQUESTS, &[("elicitation/create", Method::Elicit)], &TASKS],
    server_notices: &[
        &legacy::SERVER_NOTICES,
        &[TASK_STATUS, ("notifications/elicitation/complete", Notice::ElicitationComplete)],
    ],
};

/// What either side hears of a task that the other hosts.
const TASK_STATUS: (&str, Notice) = ("notifications/tasks/status", Notice::TaskStatus);

/// What either side may ask about those tasks.
const TASKS: [(&str, Method); 4] = [
    ("tasks/get", Method::GetTask),
    ("tasks/result", Method::TaskResult),
    ("tasks/list", Method::ListTasks),
    ("tasks/cancel", Method::CancelTask),
];
