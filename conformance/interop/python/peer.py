"""The client of an era, connected, and what it saw."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

REVISIONS = {"modern": "2026-07-28", "legacy": "2025-11-25", "sse": "2025-11-25"}
"""What each era negotiates with a server of today; `sse` is the legacy era by the transport of 2024-11-05."""

# `auto` asks the server which era it speaks, so the modern client finds out rather than being told.
_MODES = {"modern": "auto", "legacy": "legacy", "sse": "legacy"}


@dataclass(frozen=True)
class Target:
    """The server that the checks are pointed at: an endpoint, or a command that serves on stdin and stdout."""

    url: str | None = None
    command: tuple[str, ...] = ()


@asynccontextmanager
async def connected(era: str, target: Target, **options: Any) -> AsyncGenerator[Client]:
    """A client of this era, with what it can be asked as `options`."""
    server: Any
    if target.url and era == "sse":
        server = sse_client(urljoin(target.url, "/sse"))
    else:
        server = target.url or StdioServerParameters(command=target.command[0], args=list(target.command[1:]))
    async with Client(server, mode=_MODES[era], **options) as client:
        yield client


def on(
    era: str, target: Target, use: Callable[[Client], Awaitable[None]], **options: Any
) -> Callable[[], Awaitable[None]]:
    """A check that runs `use` on a connection of its own."""

    async def check() -> None:
        async with connected(era, target, **options) as client:
            await use(client)

    return check


def text_of(result: CallToolResult) -> str:
    """The text of a result, its blocks joined."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def success(result: CallToolResult) -> CallToolResult:
    """The result, which must not be an error."""
    assert not result.is_error, f"the tool failed: {text_of(result)}"
    return result


async def failure(call: Awaitable[Any]) -> tuple[int | None, str]:
    """What a call failed with: code and text of a protocol error, or the text of a result that says `isError`."""
    try:
        result = await call
    except MCPError as error:
        return error.error.code, error.error.message
    assert isinstance(result, CallToolResult) and result.is_error, f"the call succeeded: {result}"
    return None, text_of(result)


class Progress:
    """Collects the progress of a call."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float | None, str | None]] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.seen.append((progress, total, message))

    def assert_rises(self, least: int) -> None:
        """Progress must rise, never pass its total, and be sent often enough."""
        assert len(self.seen) >= least, f"{len(self.seen)} notifications where at least {least} were due"
        values = [value for value, _, _ in self.seen]
        assert all(early < late for early, late in zip(values, values[1:])), f"fell: {self.seen}"
        assert all(total is None or value <= total for value, total, _ in self.seen), f"passed its total: {self.seen}"
