"""FastMCP on uvicorn, set up for speed: JSON answers, no sessions, nothing logged.

`fastmcp_server.py (stdio | http)`; over HTTP it prints its URL as the first line.
"""

from __future__ import annotations

import logging
import sys

from fastmcp import FastMCP
from listen import serve

server = FastMCP("bench", version="1.0.0")


@server.tool(output_schema=None)
async def echo(message: str) -> str:
    """Say the message back"""
    return message


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    if sys.argv[1] == "stdio":
        server.run(transport="stdio", show_banner=False)
    else:
        serve(server.http_app(json_response=True, stateless_http=True))
