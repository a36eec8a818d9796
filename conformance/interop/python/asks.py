"""The set `asks`: what a tool asks of its client while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsResult,
    Root,
    SamplingCapability,
    SamplingToolsCapability,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from pydantic import FileUrl

from peer import Target, failure, on, success, text_of
from tap import Check


ORDER: dict[str, Any] = {"name": "Ada", "cups": 2, "size": "large", "to_go": True}


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
        (
            "has its model asked, which uses a tool first",
            able(_uses_tool, sampling_callback=_model_with_tool, sampling_capabilities=_TOOLS),
        ),
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


_TOOLS = SamplingCapability(tools=SamplingToolsCapability())


async def _model_with_tool(_context: Any, params: CreateMessageRequestParams) -> CreateMessageResultWithTools:
    assert [tool.name for tool in params.tools or []] == ["weather"], params
    [last] = params.messages[-1].content_as_list
    if isinstance(last, ToolResultContent):
        [result] = last.content
        assert isinstance(result, TextContent), last
        said: Any = TextContent(type="text", text=f"It is {result.text}")
    else:
        said = ToolUseContent(type="tool_use", id="use-1", name="weather", input={"city": "Oslo"})
    return CreateMessageResultWithTools(role="assistant", model="a model", content=said)


async def _user(_context: Any, params: Any) -> ElicitResult:
    if isinstance(params, ElicitRequestURLParams):
        assert params.url == "https://example.com/sign-in", params
        return ElicitResult(action="accept")
    assert isinstance(params, ElicitRequestFormParams), params
    schema: Any = params.requested_schema
    assert schema["properties"]["size"]["enum"] == ["small", "large"], schema
    extras = [choice["const"] for choice in schema["properties"]["extras"]["items"]["anyOf"]]
    assert extras == ["biscuit", "sugar"], schema
    assert sorted(schema["required"]) == ["name", "size"], schema
    return ElicitResult(action="accept", content={**ORDER, "extras": ["sugar"]})


async def _declining(_context: Any, _params: Any) -> ElicitResult:
    return ElicitResult(action="decline")


async def _roots(_context: Any) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri=FileUrl("file:///work"), name="work"), Root(uri=FileUrl("file:///tmp"))])


async def _says(client: Client, name: str, args: dict[str, Any], said: str) -> None:
    text = text_of(success(await client.call_tool(name, args)))
    assert text == said, text


async def _asks_model(client: Client) -> None:
    await _says(client, "ask_model", {"message": "Tea?"}, "re: Tea?")


async def _uses_tool(client: Client) -> None:
    await _says(client, "ask_weather", {"message": "How is Oslo?"}, 'It is {"city":"Oslo"}: 3.5')


async def _fills_in(client: Client) -> None:
    await _says(client, "ask_user", {"message": "What would you like?"}, "2 large for Ada to go with sugar")


async def _declines(client: Client) -> None:
    await _says(client, "ask_user", {"message": "Please?"}, "declined")


async def _visits(client: Client) -> None:
    await _says(client, "send_user", {"message": "Sign in"}, "went there")


async def _says_roots(client: Client) -> None:
    await _says(client, "ask_roots", {}, "file:///work file:///tmp")


async def _asks_all(client: Client) -> None:
    await _says(client, "ask_all", {}, "re: Who are you?; 2 large for Ada to go with sugar; file:///work file:///tmp")


async def _cannot_ask(client: Client) -> None:
    for name in ("ask_model", "ask_user", "send_user"):
        code, _ = await failure(client.call_tool(name, {"message": "Hello?"}))
        assert code == -32021, (name, code)
    code, _ = await failure(client.call_tool("ask_roots", {}))
    assert code == -32021, code
