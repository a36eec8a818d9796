"""Where the Python servers listen."""

from __future__ import annotations

import socket

import uvicorn


def serve(app: object) -> None:
    """Serves an ASGI application on a free port and prints its URL. Who connects before it runs waits."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(app, log_level="critical", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])
