"""The set `held`: a client without tasks makes a call that takes longer than it may be held."""

from __future__ import annotations

from typing import Any

from mcp import Client
from mcp_types import CallToolResult

from peer import Progress, Target, failure, on, success, text_of
from tap import Check

LONG = {"seconds": 8, "steps": 16}
"""A call that outlasts the time for which the server holds it."""

WAITS = 20
"""How often a task is waited for before its check gives up."""


def checks(era: str, target: Target) -> list[Check]:
    """The checks of this set for the client of an era."""
    return [
        ("is offered the companions of a task", on(era, target, _offers_companions)),
        ("is held with progress, then handed the task", on(era, target, _is_handed_over)),
        ("gets the result by task_wait", on(era, target, _waits)),
        ("cancels by task_cancel", on(era, target, _cancels)),
        ("is told of a task that does not exist", on(era, target, _unknown_task)),
        ("is told of a bad argument at once", on(era, target, _bad_argument)),
    ]


async def _hand_over(client: Client, args: dict[str, Any], progress: Progress | None = None) -> tuple[str, CallToolResult]:
    result = success(await client.call_tool("slow", args, progress_callback=progress))
    handed: Any = result.structured_content or {}
    assert isinstance(handed.get("taskId"), str), f"not handed over: {result}"
    return handed["taskId"], result


async def _companion(client: Client, name: str, task_id: str) -> CallToolResult:
    """Call a companion with the task's id under the name that its schema gives it."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert name in tools, f"{name} is not listed"
    [argument, *_] = tools[name].input_schema["required"]
    return await client.call_tool(name, {argument: task_id})


async def wait_for(client: Client, task_id: str) -> CallToolResult:
    """Wait until the task is over; what `task_wait` then answers."""
    for _ in range(WAITS):
        result = await _companion(client, "task_wait", task_id)
        said: Any = result.structured_content or {}
        if result.is_error or said.get("taskId") != task_id or not _is_open(said):
            return result
    raise AssertionError(f"task {task_id} was not over after {WAITS} waits")


def _is_open(said: dict[str, Any]) -> bool:
    return said.get("status") in ("working", "input_required")


async def _offers_companions(client: Client) -> None:
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert {"task_wait", "task_output", "task_cancel"} <= set(names), names


async def _is_handed_over(client: Client) -> None:
    progress = Progress()
    task_id, result = await _hand_over(client, LONG, progress)
    text = text_of(result)
    assert task_id in text, f"the text does not name the task: {text}"
    assert "task_wait" in text, f"the text does not say how to go on: {text}"
    said: Any = result.structured_content
    assert _is_open(said), said
    progress.assert_rises(1)


async def _waits(client: Client) -> None:
    task_id, _ = await _hand_over(client, LONG)
    assert "step 16 of 16" in text_of(success(await wait_for(client, task_id)))


async def _cancels(client: Client) -> None:
    task_id, _ = await _hand_over(client, {"seconds": 60, "steps": 60})
    success(await _companion(client, "task_cancel", task_id))
    assert "cancel" in text_of(await wait_for(client, task_id)).lower()


async def _unknown_task(client: Client) -> None:
    _, text = await failure(_companion(client, "task_wait", "no-such-task"))
    assert any(word in text for word in ("no-such-task", "not found", "unknown", "no task")), text


async def _bad_argument(client: Client) -> None:
    _, text = await failure(client.call_tool("slow", {"seconds": "long", "steps": 4}))
    assert "seconds" in text, text
