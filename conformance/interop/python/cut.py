"""A connection that breaks: a relay in front of the server, which cuts a connection at a word of the server's."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream


class Relay:
    """Where the relay listens, and what has come by."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cuts = 0
        self.requests: list[bytes] = []

    def resumptions(self) -> int:
        """How many requests ask for the rest of a stream."""
        return sum(b"last-event-id:" in request.lower() for request in self.requests)


@asynccontextmanager
async def cut_at(url: str, word: bytes) -> AsyncGenerator[Relay]:
    """Relay to the endpoint `url`. Once a connection has carried `word` to the client, it is cut, the first time."""
    upstream = urlsplit(url)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    relay = Relay(f"http://127.0.0.1:{port}{upstream.path}")

    async def upwards(client: SocketStream, server: SocketStream, scope: anyio.CancelScope) -> None:
        async for chunk in client:
            relay.requests.append(chunk)
            await server.send(chunk)
        scope.cancel()

    async def downwards(client: SocketStream, server: SocketStream, scope: anyio.CancelScope) -> None:
        said = b""
        async for chunk in server:
            said += chunk
            await client.send(chunk)
            if relay.cuts == 0 and word in said:
                relay.cuts += 1
                break
        scope.cancel()

    async def carry(client: SocketStream) -> None:
        async with client, await anyio.connect_tcp(upstream.hostname or "", upstream.port or 0) as server:
            try:
                async with anyio.create_task_group() as both:
                    both.start_soon(upwards, client, server, both.cancel_scope)
                    both.start_soon(downwards, client, server, both.cancel_scope)
            except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
                # One end went away, and so does the other.
                pass

    async with anyio.create_task_group() as group:
        group.start_soon(listener.serve, carry)
        yield relay
        group.cancel_scope.cancel()
