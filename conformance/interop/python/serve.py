"""A server on the Python SDK, for our client: `serve.py (--stdio | --http HOST:PORT)`."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    ListRoots,
    Resolve,
    Sample,
)
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.types import (
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

PAGE = "https://pages.example/asked"
TOUCHED = "rig://touched"

server = MCPServer("rig", version="1", instructions="Call anything.", log_level="CRITICAL")
seen: set[str] = set()


class Name(BaseModel):
    name: str


class Sum(BaseModel):
    sum: int


@server.tool()
async def echo(message: str) -> str:
    """Says what it is told."""
    return message


@server.tool()
async def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(sum=a + b)


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Counts, and tells how far it is."""
    for step in range(1, steps + 1):
        await asyncio.sleep(0.02)
        await ctx.report_progress(step, steps, f"step {step} of {steps}")
    return f"counted to {steps}"


@server.tool()
async def fail() -> str:
    """Fails."""
    raise ToolError("failed on purpose")


def _question(prompt: str) -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text=prompt))], max_tokens=9)


@server.tool()
async def sample(prompt: str, drawn: Annotated[CreateMessageResult, Resolve(_question)]) -> str:
    """Has a model asked."""
    assert drawn.content.type == "text"
    return f"{drawn.model}: {drawn.content.text}"


def _form() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool()
async def ask(answer: Annotated[ElicitationResult[Name], Resolve(_form)]) -> str:
    """Has a form filled in."""
    return f"hello {answer.data.name}" if isinstance(answer, AcceptedElicitation) else answer.action


@server.tool()
async def visit(ctx: Context) -> str | InputRequiredResult:
    """Has a page visited."""
    if ctx.protocol_version and ctx.protocol_version < "2026":
        answer = await ctx.elicit_url("Look here", PAGE, "page-1")
        await ctx.session.send_elicit_complete("page-1", related_request_id=ctx.request_id)
        return f"visited: {answer.action}"
    answer = (ctx.input_responses or {}).get("page")
    if answer is None:
        params = ElicitRequestURLParams(message="Look here", url=PAGE)
        return InputRequiredResult(input_requests={"page": ElicitRequest(params=params)})
    assert isinstance(answer, ElicitResult)
    return f"visited: {answer.action}"


@server.tool()
async def must_visit(key: str) -> str:
    """Refuses until a page was visited."""
    if key not in seen:
        seen.add(key)
        params = ElicitRequestURLParams(message="Look here first", url=f"{PAGE}/{key}", elicitation_id=key)
        raise UrlElicitationRequiredError([params])
    return "let in"


@server.tool()
async def roots(given: Annotated[ListRootsResult, Resolve(lambda: ListRoots())]) -> str:
    """Says where it may work."""
    return " ".join(str(root.uri) for root in given.roots)


@server.tool()
async def touch(ctx: Context) -> str:
    """Changes a resource and the list of tools."""
    await ctx.notify_resource_updated(TOUCHED)
    await ctx.notify_tools_changed()
    if ctx.protocol_version and ctx.protocol_version < "2026":
        await ctx.session.send_resource_updated(TOUCHED)
        await ctx.session.send_tool_list_changed()
    return "touched"


@server.resource(TOUCHED, mime_type="text/plain")
def touched() -> str:
    """What `touch` changes."""
    return "untouched"


@server.prompt()
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Greet {name}."


if __name__ == "__main__":
    if sys.argv[1:2] == ["--http"]:
        host, _, port = sys.argv[2].rpartition(":")
        server.run("streamable-http", host=host, port=int(port))
    else:
        server.run()
