"""A server on FastMCP with tasks, for our client: `serve_fastmcp.py (--stdio | --http HOST:PORT)`.

Its tasks are kept where `FASTMCP_DOCKET_URL` says: in a Redis, or by default in its own memory.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import timedelta
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

PAGE = "https://pages.example/asked"
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
AS_TASK = TaskConfig(mode="required", poll_interval=timedelta(milliseconds=100))

server: Any = FastMCP("rig", version="1")
server.add_extension(TasksExtension())


class Sum(BaseModel):
    sum: int


class Worked(BaseModel):
    worked: float


@server.tool
async def echo(message: str) -> str:
    """Says what it is told."""
    return message


@server.tool
async def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(sum=a + b)


@server.tool
async def count(steps: int, ctx: Context) -> str:
    """Counts, and tells how far it is."""
    for step in range(1, steps + 1):
        await asyncio.sleep(0.02)
        await ctx.report_progress(step, steps)
    return f"counted to {steps}"


@server.tool
async def fail() -> str:
    """Fails."""
    raise ToolError("failed on purpose")


def answered(ctx: Context, question: Any) -> Any:
    """The answer to the one question, or the question."""
    answers = ctx.input_responses
    if answers is None:
        return InputRequiredResult(result_type="input_required", input_requests={"it": question})
    return answers["it"]


@server.tool
async def sample(prompt: str, ctx: Context) -> str | InputRequiredResult:
    """Has a model asked."""
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text=prompt))]
    params = CreateMessageRequestParams(messages=messages, max_tokens=9)
    drawn = answered(ctx, CreateMessageRequest(params=params))
    if not isinstance(drawn, CreateMessageResult):
        return drawn
    assert drawn.content.type == "text"
    return f"{drawn.model}: {drawn.content.text}"


@server.tool
async def ask(ctx: Context) -> str | InputRequiredResult:
    """Has a form filled in."""
    return named(ctx, "Who are you?", "hello {}")


def named(ctx: Context, question: str, reply: str) -> Any:
    """Asks who somebody is."""
    params = ElicitRequestFormParams(message=question, requested_schema=FORM)
    answer = answered(ctx, ElicitRequest(params=params))
    if not isinstance(answer, ElicitResult):
        return answer
    return reply.format((answer.content or {}).get("name"))


@server.tool
async def visit(ctx: Context) -> str | InputRequiredResult:
    """Has a page visited."""
    answer = answered(ctx, ElicitRequest(params=ElicitRequestURLParams(message="Look here", url=PAGE)))
    return f"visited: {answer.action}" if isinstance(answer, ElicitResult) else answer


@server.tool
async def roots(ctx: Context) -> str | InputRequiredResult:
    """Says where it may work."""
    given = answered(ctx, ListRootsRequest())
    return " ".join(str(root.uri) for root in given.roots) if isinstance(given, ListRootsResult) else given


@server.tool(task=AS_TASK)
async def work(seconds: float) -> Worked:
    """Works for a while."""
    await asyncio.sleep(seconds)
    return Worked(worked=seconds)


@server.tool(task=AS_TASK)
async def work_and_ask(ctx: Context) -> str | InputRequiredResult:
    """Asks before it works."""
    return named(ctx, "Who is working?", "{} worked")


@server.resource("rig://touched", mime_type="text/plain")
def touched() -> str:
    """Never changes here."""
    return "untouched"


@server.prompt
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Greet {name}."


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    if sys.argv[1:2] == ["--http"]:
        host, _, port = sys.argv[2].rpartition(":")
        server.run(transport="http", host=host, port=int(port), show_banner=False)
    else:
        server.run(transport="stdio", show_banner=False)
