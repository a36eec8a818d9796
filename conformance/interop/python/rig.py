"""The Python client against a server: `python rig.py ERA SET (--url URL | -- COMMAND…)`."""

from __future__ import annotations

import sys

import anyio

import asks
import echo
import held
import offer
import streams
from peer import REVISIONS, Target
from tap import report

SETS = {
    "asks": asks.checks,
    "echo": echo.checks,
    "held": held.checks,
    "offer": offer.checks,
    "sse": lambda _, target: [check for checks in (echo, offer, asks) for check in checks.checks("sse", target)],
    "streams": streams.checks,
}


def pointed_at(words: list[str]) -> Target | None:
    """The server that the last arguments name."""
    match words:
        case ["--url", url]:
            return Target(url=url)
        case ["--", _, *_]:
            return Target(command=tuple(words[1:]))
        case _:
            return None


def main() -> int:
    """Run one set of checks; 0 when all passed, 1 when one failed, 2 when the arguments are wrong."""
    era, name, *rest = [*sys.argv[1:], "", ""][: max(2, len(sys.argv) - 1)]
    target = pointed_at(rest)
    if era not in REVISIONS or name not in SETS or target is None:
        print(f"usage: python rig.py ERA SET (--url URL | -- COMMAND…)\n\neras: {', '.join(REVISIONS)}", file=sys.stderr)
        print(f"sets: {', '.join(SETS)}", file=sys.stderr)
        return 2
    over = "http" if target.url else "stdio"
    return 0 if anyio.run(report, f"python {era} {name} over {over}", SETS[name](era, target)) else 1


if __name__ == "__main__":
    sys.exit(main())
