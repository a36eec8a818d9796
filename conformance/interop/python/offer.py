"""The set `offer`: everything a server can offer beside calls, listed and used."""

from __future__ import annotations

import base64
import json
import warnings
from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp import Client
from mcp_types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    ResourceLink,
    ResourceTemplateReference,
    TextContent,
)

from peer import REVISIONS, Target, connected, failure, on, success, text_of
from tap import Check

NOTE = "everything://note"
COUNTER = "everything://counter"

CHANGES = 50
"""How often a change is made until somebody hears of it, 200 ms apart: a session's stream may still be opening."""


def checks(era: str, target: Target) -> list[Check]:
    """The checks of this set for the client of an era."""

    async def missing(client: Client) -> None:
        code, _ = await failure(client.read_resource("everything://nothing"))
        assert code == (-32602 if era == "modern" else -32002), code
        _, text = await failure(client.read_resource("everything://birds/cow"))
        assert "cow" in text, text

    return [
        ("is told what the server can do", on(era, target, _sees_capabilities)),
        ("lists a tool with its title, icon, hints and meta", on(era, target, _lists_adorned)),
        ("gets content of every kind", on(era, target, _gets_content)),
        ("gets structure that fits its schema", on(era, target, _gets_structure)),
        ("lists and reads resources", on(era, target, _reads_resources)),
        ("lists templates and reads by one", on(era, target, _reads_by_template)),
        ("is told of a resource that is not there", on(era, target, missing)),
        ("lists and gets prompts", on(era, target, _gets_prompts)),
        ("is told of a prompt that is not there, and of a missing argument", on(era, target, _missing_prompt)),
        ("completes the arguments of a prompt, one by another", on(era, target, _completes_prompt)),
        ("completes the variable of a template", on(era, target, _completes_template)),
        ("is logged to from the level it chose", lambda: _hears_log(era, target)),
        ("hears that a list has changed", lambda: _hears_lists(era, target)),
        ("hears that a resource has changed, and reads it anew", lambda: _hears_resource(era, target)),
    ]


async def _sees_capabilities(client: Client) -> None:
    offers = client.server_capabilities
    assert offers.tools and offers.tools.list_changed, offers
    assert offers.prompts and offers.prompts.list_changed, offers
    assert offers.resources and offers.resources.list_changed and offers.resources.subscribe, offers
    assert offers.completions is not None, offers
    assert client.server_info and client.server_info.title == "Everything", client.server_info
    assert "echo" in (client.instructions or ""), client.instructions


async def _lists_adorned(client: Client) -> None:
    show = {tool.name: tool for tool in (await client.list_tools()).tools}["show"]
    assert show.title == "Show and tell", show
    assert show.icons and show.icons[0].mime_type == "image/png", show
    assert show.annotations and show.annotations.read_only_hint is True, show
    assert show.annotations.open_world_hint is False, show
    assert show.meta and show.meta["dev.longhaul/kind"] == "content", show


async def _gets_content(client: Client) -> None:
    content = success(await client.call_tool("show", {"kind": "all"})).content
    text, image, audio, link, embedded, blob = content
    assert isinstance(text, TextContent) and text.text == "Some text.", text
    assert isinstance(image, ImageContent) and base64.b64decode(image.data)[1:4] == b"PNG", image
    assert image.annotations and image.annotations.audience == ["user"] and image.annotations.priority == 0.5, image
    assert isinstance(audio, AudioContent) and audio.mime_type == "audio/wav", audio
    assert isinstance(link, ResourceLink) and str(link.uri) == NOTE, link
    assert isinstance(embedded, EmbeddedResource) and _one(embedded.resource).text == "Buy milk.", embedded
    assert isinstance(blob, EmbeddedResource) and _one(blob.resource).blob, blob


async def _gets_structure(client: Client) -> None:
    weather = {tool.name: tool for tool in (await client.list_tools()).tools}["weather"]
    assert weather.output_schema and weather.output_schema["properties"]["temperature"]["type"] == "number", weather
    # Having listed the tool, the client itself holds the result against the schema.
    result = success(await client.call_tool("weather", {"city": "Oslo"}))
    assert result.structured_content == {"city": "Oslo", "temperature": 3.5}, result
    assert json.loads(text_of(result)) == result.structured_content, result


async def _reads_resources(client: Client) -> None:
    resources = (await client.list_resources()).resources
    assert [resource.name for resource in resources] == ["note", "dot", "counter"], resources
    assert resources[0].title == "A note", resources
    assert await _read(client, NOTE) == "Buy milk."
    [dot] = (await client.read_resource("everything://dot")).contents
    assert base64.b64decode(_one(dot).blob) == b"\x89PNG", dot


async def _reads_by_template(client: Client) -> None:
    templates = (await client.list_resource_templates()).resource_templates
    # A server may have others of its own.
    ours = [template.uri_template for template in templates if template.uri_template.startswith("everything:")]
    assert ours == ["everything://birds/{name}"], templates
    assert await _read(client, "everything://birds/wren") == "The wren is a bird."


async def _gets_prompts(client: Client) -> None:
    prompts = (await client.list_prompts()).prompts
    assert [prompt.name for prompt in prompts] == ["greet", "describe"], prompts
    required = [(argument.name, bool(argument.required)) for argument in prompts[0].arguments or []]
    assert required == [("language", True), ("name", False)], required
    [greeting] = (await client.get_prompt("greet", {"language": "french", "name": "Alice"})).messages
    assert isinstance(greeting.content, TextContent), greeting
    assert (greeting.role, greeting.content.text) == ("user", "Greet Alice in french."), greeting
    messages = (await client.get_prompt("describe")).messages
    kinds = [(message.role, message.content.type) for message in messages]
    assert kinds == [("user", "image"), ("user", "resource"), ("assistant", "text")], kinds


async def _missing_prompt(client: Client) -> None:
    code, _ = await failure(client.get_prompt("nothing"))
    assert code == -32602, code
    code, text = await failure(client.get_prompt("greet", {}))
    assert code == -32602 and "language" in text, (code, text)


async def _completes_prompt(client: Client) -> None:
    async def complete(name: str, value: str, others: dict[str, str] | None = None) -> list[str]:
        reference = PromptReference(name="greet")
        return (await client.complete(reference, {"name": name, "value": value}, others)).completion.values

    assert await complete("language", "") == ["english", "french", "german"]
    assert await complete("language", "f") == ["french"]
    assert await complete("name", "Al") == ["Alan", "Albert", "Alice"]
    assert await complete("name", "Al", {"language": "english"}) == ["Alan"]


async def _completes_template(client: Client) -> None:
    reference = ResourceTemplateReference(uri="everything://birds/{name}")
    completion = (await client.complete(reference, {"name": "name", "value": "ro"})).completion
    assert completion.values == ["robin", "rook"], completion


async def _hears_log(era: str, target: Target) -> None:
    heard: list[tuple[str, Any]] = []

    async def log(params: Any) -> None:
        heard.append((params.level, params.data))

    # A session has a level; in the modern era each request says its own.
    level: dict[str, Any] = {"log_level": "warning"} if era == "modern" else {}
    async with connected(era, target, logging_callback=log, **level) as client:
        if era != "modern":
            with warnings.catch_warnings(action="ignore"):
                await client.set_logging_level("warning")
        success(await client.call_tool("log", {}))
        with anyio.move_on_after(5):
            while len(heard) < 2:
                await anyio.sleep(0.05)
    assert heard == [("warning", {"disk": "almost full"}), ("error", "a failure")], heard


async def _hears_lists(era: str, target: Target) -> None:
    for what in ("tools", "prompts", "resources"):
        await _hears(era, target, what, f"notifications/{what}/list_changed", {f"{what}_list_changed": True})


async def _hears_resource(era: str, target: Target) -> None:
    async with connected(era, target) as client:
        before = int(await _read(client, COUNTER))
    after = await _hears(era, target, "counter", "notifications/resources/updated", {"resource_subscriptions": [COUNTER]})
    assert after > before if target.url else after > 0, (before, after)


async def _hears(era: str, target: Target, what: str, method: str, wanted: dict[str, Any]) -> int:
    """Make a change until the client hears of it; what the counter then is."""
    assert era in REVISIONS
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(getattr(message, "method", str(message)))

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connected(era, target, message_handler=hear))
        if era == "modern":
            await stack.enter_async_context(client.listen(**wanted))
        for uri in wanted.get("resource_subscriptions", []) if era != "modern" else []:
            with warnings.catch_warnings(action="ignore"):
                await client.subscribe_resource(uri)
        for _ in range(CHANGES):
            if method in heard:
                break
            success(await client.call_tool("change", {"what": what}))
            await anyio.sleep(0.2)
        counter = int(await _read(client, COUNTER))
    assert method in heard, f"nothing was heard of {what}: {heard}"
    return counter


async def _read(client: Client, uri: str) -> str:
    [contents] = (await client.read_resource(uri)).contents
    return _one(contents).text


def _one(contents: Any) -> Any:
    """Text or bytes, whichever the check then finds."""
    return contents
