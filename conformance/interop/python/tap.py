"""Runs checks one after another and reports each as a line of the Test Anything Protocol."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Sequence

import anyio

LIMIT = 60
"""How long one check may take, in seconds."""

Check = tuple[str, Callable[[], Awaitable[None]]]


async def report(title: str, checks: Sequence[Check]) -> bool:
    """Run the checks; whether all passed.

    A check passes by returning and fails by raising; one that takes too long fails, and the next begins.
    """
    print(f"1..{len(checks)}")
    failures = 0
    for number, (name, check) in enumerate(checks, start=1):
        label = f"{number} - {title}: {name}"
        try:
            with anyio.fail_after(LIMIT):
                await check()
            print(f"ok {label}")
        except Exception as error:
            failures += 1
            print(f"not ok {label}")
            for line in "".join(traceback.format_exception(error)).rstrip().split("\n"):
                print(f"#   {line}")
    return failures == 0
