"""The set `asks`: what a tool asks of its client while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)
from pydantic import FileUrl

from peer import Target, failure, on, success, text_of
from tap import Check


def checks(era: str, target: Target) -> list[Check]:
    """The checks of this set for the client of an era."""

    def able(use: Callable[[Client], Awaitable[None]], **answers: Any) -> Callable[[], Awaitable[None]]:
        return on(era, target, use, **answers)

    everything = {
        "sampling_callback": _model,
        "elicitation_callback": _user,
        "list_roots_callback": _roots,
    }
    return [
        ("has its model asked", able(_asks_model, sampling_callback=_model)),
        ("has its user fill in a form", able(_fills_in, elicitation_callback=_user)),
        ("has its user decline a form", able(_declines, elicitation_callback=_declining)),
        ("sends its user to a page", able(_visits, elicitation_callback=_user)),
        ("says where to work", able(_says_roots, list_roots_callback=_roots)),
        ("is asked three things at once", able(_asks_all, **everything)),
        ("cannot be asked what it has not declared", able(_cannot_ask)),
    ]


async def _model(_context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
    assert params.system_prompt == "Answer in a word.", params
    [message] = params.messages
    content: Any = message.content
    text = (content[0] if isinstance(content, list) else content).text
    return CreateMessageResult(role="assistant", model="a model", content=TextContent(type="text", text=f"re: {text}"))


async def _user(_context: Any, params: Any) -> ElicitResult:
    if isinstance(params, ElicitRequestURLParams):
        assert params.url == "https://example.com/sign-in", params
        return ElicitResult(action="accept")
    assert isinstance(params, ElicitRequestFormParams), params
    schema: Any = params.requested_schema
    assert schema["properties"]["size"]["enum"] == ["small", "large"], schema
    assert sorted(schema["required"]) == ["name", "size"], schema
    return ElicitResult(action="accept", content={"name": "Ada", "cups": 2, "size": "large", "to_go": True})


async def _declining(_context: Any, _params: Any) -> ElicitResult:
    return ElicitResult(action="decline")


async def _roots(_context: Any) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri=FileUrl("file:///work"), name="work"), Root(uri=FileUrl("file:///tmp"))])


async def _says(client: Client, name: str, args: dict[str, Any], said: str) -> None:
    text = text_of(success(await client.call_tool(name, args)))
    assert text == said, text


async def _asks_model(client: Client) -> None:
    await _says(client, "ask_model", {"message": "Tea?"}, "re: Tea?")


async def _fills_in(client: Client) -> None:
    await _says(client, "ask_user", {"message": "What would you like?"}, "2 large for Ada to go")


async def _declines(client: Client) -> None:
    await _says(client, "ask_user", {"message": "Please?"}, "declined")


async def _visits(client: Client) -> None:
    await _says(client, "send_user", {"message": "Sign in"}, "went there")


async def _says_roots(client: Client) -> None:
    await _says(client, "ask_roots", {}, "file:///work file:///tmp")


async def _asks_all(client: Client) -> None:
    await _says(client, "ask_all", {}, "re: Who are you?; 2 large for Ada to go; file:///work file:///tmp")


async def _cannot_ask(client: Client) -> None:
    for name in ("ask_model", "ask_user", "send_user"):
        code, _ = await failure(client.call_tool(name, {"message": "Hello?"}))
        assert code == -32021, (name, code)
    code, _ = await failure(client.call_tool("ask_roots", {}))
    assert code == -32021, code
