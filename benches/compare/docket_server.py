"""FastMCP with Docket, whose tasks are in the Redis that `FASTMCP_DOCKET_URL` names; it prints its URL as the first line."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

from fastmcp import FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from listen import serve

server: Any = FastMCP("bench", version="1.0.0")
server.add_extension(TasksExtension())


@server.tool(output_schema=None, task=TaskConfig(mode="required", poll_interval=timedelta(seconds=1)))
async def work(seconds: float) -> str:
    """Work for a while"""
    await asyncio.sleep(seconds)
    return f"worked {seconds}"


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    serve(server.http_app(json_response=True, stateless_http=True))
