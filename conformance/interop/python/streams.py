"""The set `streams`: a stream of HTTP that breaks while a call runs. In a session the client comes back for the rest;
in the modern era, where closing a stream cancels its call, it is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcp import Client

from cut import Relay, cut_at
from peer import Progress, Target, connected, failure, success, text_of
from tap import Check

STEPS = {"seconds": 1.5, "steps": 6}

Use = Callable[[Client, Relay], Awaitable[None]]


def checks(era: str, target: Target) -> list[Check]:
    """The checks of this set for the client of an era."""

    def through_cut(use: Use, word: bytes = b"step 2 of 6") -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            assert target.url, "this set is about HTTP"
            async with cut_at(target.url, word) as relay, connected(era, Target(url=relay.url)) as client:
                await use(client, relay)

        return check

    if era == "modern":
        return [("is told when its stream breaks, and goes on", through_cut(_is_told))]
    return [
        ("comes back to a stream that broke, and misses nothing", through_cut(_comes_back)),
        ("comes back to a stream that the server closed", through_cut(_is_let_go, b"never said")),
    ]


async def _comes_back(client: Client, relay: Relay) -> None:
    progress = Progress()
    result = await client.call_tool("slow", STEPS, progress_callback=progress)
    assert "step 6 of 6" in text_of(success(result)), result
    assert relay.cuts == 1, "nothing was cut"
    assert relay.resumptions() >= 1, "it did not come back"
    assert [value for value, _, _ in progress.seen] == [1, 2, 3, 4, 5, 6], progress.seen


async def _is_let_go(client: Client, relay: Relay) -> None:
    progress = Progress()
    result = await client.call_tool("leave", {}, progress_callback=progress)
    assert text_of(success(result)) == "for who came back", result
    assert relay.resumptions() >= 1, "it did not come back"
    assert [value for value, _, _ in progress.seen] == [1, 2, 3], progress.seen


async def _is_told(client: Client, relay: Relay) -> None:
    await failure(client.call_tool("slow", STEPS, read_timeout_seconds=10, progress_callback=Progress()))
    assert relay.cuts == 1, "nothing was cut"
    assert text_of(success(await client.call_tool("echo", {"message": "still here"}))) == "still here"
