//! The statuses of tasks in each dialect: which may follow which (I1), and what goes with each.

use serde_json::Value;

use crate::mcp::Era;

/// What may follow each status, in the diagram of each dialect. Of that of 2025-11-25 (Tasks, Task Status Lifecycle) the tasks
/// extension has the statuses and the edges.
const NEXT: [(&str, &[&str]); 5] = [
    ("working", &["input_required", "completed", "failed", "cancelled"]),
    ("input_required", &["working", "completed", "failed", "cancelled"]),
    ("completed", &[]),
    ("failed", &[]),
    ("cancelled", &[]),
];

/// Whether a task may be shown so to whose call was the first to make it, or to one that may have found it as it is by then:
/// in 2025-11-25 it begins with `working`, the extension does not say.
pub(super) fn may_be_made(era: Era, status: &str, is_first: bool) -> bool {
    match era {
        Era::D2 if is_first => status == "working",
        _ => next(status).is_some(),
    }
}

/// Whether a task may be seen so that was seen as `before` the time before, or never: whatever came between was not seen.
pub(super) fn may_follow(before: &str, now: &str) -> bool {
    let Some(mut open) = next(before).map(<[_]>::to_vec) else {
        return before.is_empty() && next(now).is_some();
    };
    let mut reached = vec![before];
    while let Some(status) = open.pop() {
        if !reached.contains(&status) {
            reached.push(status);
            open.extend(next(status).into_iter().flatten());
        }
    }
    reached.contains(&now)
}

fn next(status: &str) -> Option<&'static [&'static str]> {
    NEXT.iter().find(|(of, _)| *of == status).map(|(_, next)| *next)
}

/// What does not go with the status that is told; in a session with what it came to, once it has ended.
pub(super) fn otherwise(era: Era, told: &Value, came: Option<&str>) -> Option<String> {
    let status = told["status"].as_str().unwrap_or_default();
    let has = |member: &str| !told[member].is_null();
    let asks = told["inputRequests"].as_object().is_some_and(|asked| !asked.is_empty());
    let agrees = match era {
        // There a failure of the tool is a result.
        Era::D3 => {
            has("result") == (status == "completed")
                && has("error") == (status == "failed")
                && asks == (status == "input_required")
        }
        Era::D2 => {
            let is_error = |came: &str| {
                came.starts_with("the error")
                    || serde_json::from_str::<Value>(came).is_ok_and(|came| came["isError"] == true)
            };
            let has_ended = matches!(status, "completed" | "failed" | "cancelled");
            let ended_so = came.is_none_or(|came| is_error(came) == (status != "completed"));
            !(has("result") || has("error") || has("inputRequests"))
                && came.is_some() == has_ended
                && ended_so
        }
    };
    (!agrees).then(|| format!("what is told does not go with {status:?} in {}", era.name()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_follows_an_end_and_no_status_is_made_up() {
        let may = may_follow;
        for open in ["", "working", "input_required"] {
            for now in ["working", "input_required", "completed", "failed", "cancelled"] {
                assert!(may(open, now), "{open} {now}");
            }
            assert!(!may(open, "submitted") && !may(open, ""), "{open}");
        }
        for end in ["completed", "failed", "cancelled"] {
            assert!(may(end, end) && !may(end, "working") && !may(end, "input_required"), "{end}");
        }
        assert!(!may("completed", "failed") && !may("cancelled", "completed"));
        assert!(may_be_made(Era::D2, "working", true) && !may_be_made(Era::D2, "completed", true));
        assert!(may_be_made(Era::D2, "completed", false) && !may_be_made(Era::D2, "submitted", false));
        assert!(may_be_made(Era::D3, "completed", true) && !may_be_made(Era::D3, "submitted", true));
    }

    #[test]
    fn a_failure_of_a_tool_is_one_in_a_session_alone() {
        let agrees = |era, told, came: Option<&str>| otherwise(era, &told, came).is_none();
        let failed = r#"{"isError":true}"#;
        assert!(agrees(Era::D3, json!({"status": "completed", "result": {"isError": true}}), None));
        assert!(!agrees(Era::D3, json!({"status": "failed", "result": {"isError": true}}), None));
        assert!(agrees(Era::D3, json!({"status": "failed", "error": {"code": 1}}), None));
        assert!(!agrees(Era::D3, json!({"status": "working", "result": {}}), None));
        assert!(!agrees(Era::D3, json!({"status": "input_required", "inputRequests": {}}), None));
        assert!(agrees(Era::D3, json!({"status": "input_required", "inputRequests": {"a": {}}}), None));
        assert!(agrees(Era::D2, json!({"status": "failed"}), Some(failed)));
        assert!(agrees(Era::D2, json!({"status": "cancelled"}), Some("the error {}")));
        assert!(!agrees(Era::D2, json!({"status": "completed"}), Some(failed)));
        assert!(!agrees(Era::D2, json!({"status": "failed"}), Some("{}")));
        assert!(!agrees(Era::D2, json!({"status": "working", "result": {}}), None));
    }
}
