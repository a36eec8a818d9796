"""Calls that outlive ours, which stands before servers of others and is killed, by hosts without tasks.

    python killed.py (begin | end) URL FILE

`begin` starts what `killed.json` lists and writes to FILE how to come back, `end` comes back.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from mcp import Client

from held import wait_for
from peer import Target, connected, success, text_of
from tap import Check, report

ERAS = ("legacy", "modern")

CALLS: list[dict[str, Any]] = [
    call for call in json.loads(Path("conformance/interop/killed.json").read_text()) if "by" not in call
]
"""What every client can come back to: what it calls, with what, and what it comes to, or the words in which it fails."""


async def begin(target: Target, file: Path) -> None:
    """Make every call with every client, until it is handed over; a file beside says when they begin."""
    begun: list[dict[str, str]] = []

    async def make(client: Client, era: str, call: dict[str, Any]) -> None:
        handed: Any = success(await client.call_tool(call["tool"], call["with"])).structured_content or {}
        assert isinstance(handed.get("taskId"), str), f"{era}: {call['tool']} was not handed over"
        begun.append({"era": era, "tool": call["tool"], "taskId": handed["taskId"]})

    async with AsyncExitStack() as open_clients:
        clients = [(era, await open_clients.enter_async_context(connected(era, target))) for era in ERAS]
        file.with_suffix(".ready").touch()
        async with anyio.create_task_group() as group:
            for era, client in clients:
                for call in CALLS:
                    group.start_soon(make, client, era, call)
    file.write_text(json.dumps(begun))


def ends(target: Target, begun: list[dict[str, str]]) -> list[Check]:
    """A check for each call, that it came to what it must."""

    def end(call: dict[str, str]) -> Check:
        [wanted] = [each for each in CALLS if each["tool"] == call["tool"]]

        async def check() -> None:
            async with connected(call["era"], target) as client:
                result = await wait_for(client, call["taskId"])
            text = text_of(result)
            if "fails" in wanted:
                assert result.is_error and re.sub("[0-9a-f]{32}", "ID", text) == wanted["fails"], text
            else:
                assert not result.is_error and wanted["comes_to"] in text, text

        return f"{call['era']}: {call['tool']}", check

    return [end(call) for call in begun]


def main() -> int:
    """Begin, or end; 0 when all is as it must be, 1 when something is not, 2 when the arguments are wrong."""
    if len(sys.argv) != 4 or sys.argv[1] not in ("begin", "end"):
        print("usage: python killed.py (begin | end) URL FILE", file=sys.stderr)
        return 2
    target, file = Target(url=sys.argv[2]), Path(sys.argv[3])
    if sys.argv[1] == "begin":
        anyio.run(begin, target, file)
        return 0
    found = ends(target, json.loads(file.read_text()))
    return 0 if anyio.run(report, "python killed", found) else 1


if __name__ == "__main__":
    sys.exit(main())
