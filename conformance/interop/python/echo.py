"""The set `echo`: what every client does first, with tools that answer in place."""

from __future__ import annotations

import anyio
from mcp import Client

from peer import REVISIONS, Progress, Target, failure, on, success, text_of
from tap import Check


def checks(era: str, target: Target) -> list[Check]:
    """The checks of this set for the client of an era."""

    async def negotiates(client: Client) -> None:
        assert client.protocol_version == REVISIONS[era], client.protocol_version

    found: list[Check] = [
        ("negotiates its revision", on(era, target, negotiates)),
        ("lists the tools with their schemas", on(era, target, _lists_tools)),
        ("gets its message back", on(era, target, _gets_message)),
        ("gets the right answer to each of many calls at once", on(era, target, _many_at_once)),
        ("sees progress rise", on(era, target, _sees_progress)),
        ("cancels a call and goes on", on(era, target, _cancels)),
        ("is told when a tool fails", on(era, target, _tool_fails)),
        ("is told of an argument of the wrong type", on(era, target, _wrong_type)),
        ("is told of a missing argument", on(era, target, _missing)),
        ("is told of a tool that does not exist", on(era, target, _unknown_tool)),
    ]
    if era != "modern":
        found.append(("pings", on(era, target, _pings)))
    return found


async def _lists_tools(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    for name in ("echo", "slow", "fail"):
        assert name in tools and tools[name].description, f"{name} is not listed with a description: {list(tools)}"
    schema = tools["echo"].input_schema
    assert schema["properties"]["message"]["type"] == "string", schema
    assert schema["required"] == ["message"], schema


async def _gets_message(client: Client) -> None:
    for message in ("hello", "", 'quote " backslash \\ newline \n', "é 漢字 🚚", "x" * 60_000):
        assert text_of(success(await client.call_tool("echo", {"message": message}))) == message


async def _many_at_once(client: Client) -> None:
    answers: dict[str, str] = {}

    async def call(message: str) -> None:
        answers[message] = text_of(await client.call_tool("echo", {"message": message}))

    messages = [f"message {number}" for number in range(50)]
    async with anyio.create_task_group() as group:
        for message in messages:
            group.start_soon(call, message)
    assert answers == {message: message for message in messages}


async def _sees_progress(client: Client) -> None:
    progress = Progress()
    result = await client.call_tool("slow", {"seconds": 1, "steps": 4}, progress_callback=progress)
    assert "step 4 of 4" in text_of(success(result)), result
    progress.assert_rises(3)
    _, total, message = progress.seen[0]
    assert total == 4 and "step" in (message or ""), progress.seen


async def _cancels(client: Client) -> None:
    scope = anyio.CancelScope()
    seen = 0

    async def on_progress(_progress: float, _total: float | None, _message: str | None) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            scope.cancel()

    with scope:
        await client.call_tool("slow", {"seconds": 20, "steps": 80}, progress_callback=on_progress)
    # Whether the server stops is for a client that sees the wire; this one no longer listens.
    assert scope.cancelled_caught, "the call ended before it was cancelled"
    assert text_of(success(await client.call_tool("echo", {"message": "still here"}))) == "still here"


async def _tool_fails(client: Client) -> None:
    code, text = await failure(client.call_tool("fail", {}))
    assert code is None, "a tool's failure is a result, not a protocol error"
    assert "failed on purpose" in text, text


async def _wrong_type(client: Client) -> None:
    _, text = await failure(client.call_tool("echo", {"message": 5}))
    assert "message" in text, f"the error does not name the argument: {text}"


async def _missing(client: Client) -> None:
    _, text = await failure(client.call_tool("echo", {}))
    assert "message" in text, f"the error does not name the argument: {text}"


async def _unknown_tool(client: Client) -> None:
    _, text = await failure(client.call_tool("no_such_tool", {}))
    assert "no_such_tool" in text, f"the error does not name the tool: {text}"


async def _pings(client: Client) -> None:
    await client.session.send_ping()
