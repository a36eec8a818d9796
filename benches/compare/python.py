"""The Python SDK on uvicorn, set up for speed: JSON answers, no sessions, nothing logged.

`python.py (stdio | http)`; over HTTP it prints its URL as the first line.
"""

from __future__ import annotations

import sys

from listen import serve
from mcp.server import MCPServer

server = MCPServer("bench", version="1.0.0", log_level="CRITICAL")


@server.tool(structured_output=False)
async def echo(message: str) -> str:
    """Say the message back"""
    return message


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        serve(server.streamable_http_app(json_response=True, stateless_http=True))
