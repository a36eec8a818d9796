"""The Python client at a server, and then at the same one behind ours: what it sees must be the same.

    python behind.py SERVER BEFORE BEHIND

`BEFORE` and `BEHIND` are targets as JSON, `{"url": …}` or `{"command": […]}`; `behind.json` says which clients do what.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CreateMessageResult,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    Root,
    TextContent,
)
from pydantic import FileUrl

from peer import Target, connected
from tap import Check, report

LIMIT = 30
"""How long one step may take, in seconds."""

Seen = dict[int, Any]


class Told:
    """What the client was asked and told during one step, and its answers."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.progress: list[Any] = []
        self.changes: list[str] = []

    def forget(self) -> None:
        self.asked, self.progress, self.changes = [], [], []

    async def hear(self, message: Any) -> None:
        self.changes.append(getattr(message, "method", ""))

    def _ask(self, method: str, params: Any) -> None:
        question = {"mode": "form", **shown(params)}
        self.asked.append([method, {name: value for name, value in question.items() if name not in ("elicitationId", "_meta")}])

    async def model(self, _context: Any, params: Any) -> CreateMessageResult:
        self._ask("sampling/createMessage", params)
        [*_, last] = params.messages
        content = TextContent(type="text", text=f"re: {last.content_as_list[0].text}")
        return CreateMessageResult(role="assistant", model="a model", stop_reason="endTurn", content=content)

    async def user(self, _context: Any, params: Any) -> ElicitResult:
        self._ask("elicitation/create", params)
        if isinstance(params, ElicitRequestURLParams):
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content=filled_in(params.requested_schema))

    async def roots(self, _context: Any) -> ListRootsResult:
        # Servers ask for these on their own, too.
        return ListRootsResult(roots=[Root(uri=FileUrl("file:///work"), name="work")])

    async def tell(self, progress: float, total: float | None, message: str | None) -> None:
        # What comes together with the answer is not always told.
        if progress != total:
            self.progress.append([progress, total, message])


def filled_in(schema: Any) -> dict[str, Any]:
    """What a user sends who puts the first thing that fits into every field that must be filled in."""

    def fits(field: Any) -> Any:
        names = field.get("enum") or [choice["const"] for choice in field.get("oneOf", [])]
        usual = names[0] if names else {"boolean": True, "integer": 7, "number": 7}.get(field.get("type"), "Ada")
        return field.get("default", usual)

    return {name: fits(schema["properties"][name]) for name in schema.get("required", [])}


def checks(server: str, before: Target, behind: Target, said: Any) -> list[Check]:
    """What each client sees behind ours must be what the other one sees without."""
    pairs, steps = said["python"], said["steps"]
    # Tasks are for other clients.
    wanted = [index for index, step in enumerate(steps) if "task" not in step]
    visits: dict[tuple[str, Target], Seen] = {}

    async def seen(client: str, target: Target) -> Seen:
        if (client, target) not in visits:
            visits[client, target] = await walk(client, target, {index: steps[index] for index in wanted}, said.get("roots", True))
        return visits[client, target]

    def compared(client: str, like: str, index: int) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            theirs = (await seen(like, before))[index]
            ours = (await seen(client, behind))[index]
            assert "lost" not in theirs, theirs
            said = f"\nbehind:  {ours}\nwithout: {theirs}"
            # A client drops progress that it reads together with the answer, at either: one has been told all that the other was.
            fewer, more = sorted([ours.get("progress", []), theirs.get("progress", [])], key=len)
            rest = iter(more)
            assert all(each in rest for each in fewer), said
            assert fewer or not more, said
            assert {**ours, "progress": []} == {**theirs, "progress": []}, said

        return check

    return [
        (f"{client} at {server}: {named(steps[index])}", compared(client, like, index))
        for client, like in pairs
        for index in wanted
    ]


def named(step: Any) -> str:
    """What a step is called."""
    kind, what = next(iter(step.items()))
    return f"{kind} {what}" if isinstance(what, str) else kind


async def walk(era: str, target: Target, steps: dict[int, Any], has_roots: bool) -> Seen:
    """What a client sees, by step, over one connection."""
    told, found = Told(), Seen()
    answers: dict[str, Any] = {
        "sampling_callback": told.model,
        "elicitation_callback": told.user,
        "message_handler": told.hear,
    }
    # Whoever is served on asks where to work only during calls: one that does so at its start would work elsewhere here.
    if has_roots:
        answers["list_roots_callback"] = told.roots
    async with connected(era, target, **answers) as client:
        await have_come(client, {step["call"] for step in steps.values() if "call" in step and not step.get("fails")})
        for index, step in steps.items():
            told.forget()
            came: dict[str, Any] = {}
            try:
                with anyio.fail_after(LIMIT):
                    came["result"] = await taken(step, client, told, era)
            except MCPError as error:
                # Each era has its own code for what is not there.
                came["error"] = re.sub(r"^(MCP error -\d+: )+", "", error.error.message)
            except Exception as error:
                came["lost"] = repr(error)
            if step.get("fails") and "lost" not in came:
                found[index] = {"failed": came.get("result", {}).get("isError", "error" in came)}
            else:
                found[index] = plain({**came, "asked": told.asked, "progress": told.progress})
    return found


async def have_come(client: Client, awaited: set[str]) -> None:
    """Waits until these tools are there: some servers put them up once they know what a client is able to do."""
    with anyio.fail_after(LIMIT):
        while not awaited <= {tool.name for tool in (await client.list_tools()).tools}:
            await anyio.sleep(0.05)


async def taken(step: Any, client: Client, told: Told, era: str) -> Any:
    """One step."""
    args: dict[str, Any] = step.get("with", {})
    match next(iter(step)):
        case "tools":
            tools = [shown(tool) for tool in (await client.list_tools()).tools]
            return ordered([as_there(tool) for tool in tools if not tool["name"].startswith("task_")], "name")
        case "resources":
            return ordered([shown(resource) for resource in (await client.list_resources()).resources], "uri")
        case "templates":
            templates = [shown(template) for template in (await client.list_resource_templates()).resource_templates]
            # Where ours puts the output of tasks.
            return ordered([each for each in templates if not each["uriTemplate"].startswith("longhaul:")], "uriTemplate")
        case "prompts":
            return ordered([shown(prompt) for prompt in (await client.list_prompts()).prompts], "name")
        case "call":
            return shown(await client.call_tool(step["call"], args, progress_callback=told.tell))
        case "read":
            return shown(await client.read_resource(step["read"]))
        case "prompt":
            return shown(await client.get_prompt(step["prompt"], args))
        case "complete":
            wanted = dict(step["complete"])
            kind = PromptReference if wanted.pop("type") == "ref/prompt" else ResourceTemplateReference
            others = args.get("context", {}).get("arguments")
            return shown((await client.complete(kind(**wanted), args["argument"], others)).completion)
        case "watch":
            async with listening(client, era, resource_subscriptions=[step["watch"]]):
                await watched(step, client, told)
        case "grow":
            async with listening(client, era, tools_list_changed=True):
                return await grown(step, client, told)
        case kind:
            raise ValueError(f"this client does not know how to {kind}")


@asynccontextmanager
async def listening(client: Client, era: str, **wanted: Any) -> AsyncGenerator[None]:
    """Has the server tell of changes; in a session it does so of lists without being asked."""
    async with AsyncExitStack() as stack:
        if era == "modern":
            await stack.enter_async_context(client.listen(**wanted))
        else:
            for uri in wanted.get("resource_subscriptions", []):
                with warnings.catch_warnings(action="ignore"):
                    await client.subscribe_resource(uri)
        yield


async def watched(step: Any, client: Client, told: Told) -> None:
    """Hears of a resource that changes."""
    [change] = step["with"]
    # A session's stream may still be opening.
    for _ in range(50):
        await client.call_tool(change, {})
        await anyio.sleep(0.2)
        if "notifications/resources/updated" in told.changes:
            return
    raise AssertionError(f"nothing was heard of {step['watch']}: {told.changes}")


async def grown(step: Any, client: Client, told: Told) -> Any:
    """Hears of a tool that comes and goes, and calls it in between."""
    tool = step["tool"]

    async def turn(is_there: bool) -> bool:
        told.changes.clear()
        await client.call_tool(step["grow"], {tool: is_there})
        with anyio.move_on_after(4):
            while True:
                is_listed = tool in [listed.name for listed in (await client.list_tools()).tools]
                if is_listed == is_there and "notifications/tools/list_changed" in told.changes:
                    return True
                await anyio.sleep(0.05)
        return False

    came = await turn(True)
    # A session's stream was still opening.
    for _ in range(2):
        if not came:
            await turn(False)
            came = await turn(True)
    assert came, f"nothing was heard of {tool}"
    called = shown(await client.call_tool(tool, {}))
    assert await turn(False), f"nothing was heard of the end of {tool}"
    return called


def shown(model: Any) -> Any:
    """What was said, by the names of the protocol."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def as_there(tool: dict[str, Any]) -> dict[str, Any]:
    """Ours says by itself when a call becomes a task, and that it may be handed over."""
    with suppress(KeyError):
        del tool["execution"]
    own = tool.get("outputSchema", {}).get("anyOf", [])
    return {**tool, "outputSchema": own[0]} if len(own) == 2 else tool


def ordered(items: list[Any], key: str) -> list[Any]:
    """The list by its keys."""
    return sorted(items, key=lambda item: item[key])


OWN = ("io.modelcontextprotocol/related-task", "io.modelcontextprotocol/serverInfo")


def plain(seen: Any) -> Any:
    """Without what says who has answered when and over which protocol."""
    if isinstance(seen, list):
        return [plain(item) for item in seen]
    if isinstance(seen, str):
        return re.sub(r"\d{1,2}:\d\d:\d\d( [AP]M)?", "TIME", seen)
    if not isinstance(seen, dict):
        return seen
    found = {name: plain(value) for name, value in seen.items() if name not in ("resultType", "ttlMs", "cacheScope")}
    for usual in ("required", "isError"):
        if found.get(usual) is False:
            del found[usual]
    if "_meta" in found:
        rest = found.pop("_meta")
        rest = {name: value for name, value in rest.items() if name not in OWN and not name.startswith("dev.longhaul/")}
        found.update({"_meta": rest} if rest else {})
    return found


def main() -> int:
    """Compare; 0 when all is the same, 1 when something is not, 2 when the arguments are wrong."""
    if len(sys.argv) != 4:
        print("usage: python behind.py SERVER BEFORE BEHIND", file=sys.stderr)
        return 2

    def target(text: str) -> Target:
        said = json.loads(text)
        return Target(url=said.get("url"), command=tuple(said.get("command", ())))

    server, before, behind = sys.argv[1], target(sys.argv[2]), target(sys.argv[3])
    said = json.loads(Path("conformance/interop/behind.json").read_text())[server]
    found = checks(server, before, behind, said)
    return 0 if anyio.run(report, f"python {server} behind ours", found) else 1


if __name__ == "__main__":
    sys.exit(main())
