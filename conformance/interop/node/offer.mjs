// The set `offer`: everything a server can offer beside calls, listed and used.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";

import { failure, success, textOf } from "./answer.mjs";
import { withPeer } from "./peer.mjs";

const NOTE = "everything://note";
const COUNTER = "everything://counter";

/** How often a change is made until somebody hears of it, 200 ms apart: a session's stream may still be opening. */
const CHANGES = 50;

/** The checks of this set for the client of an era. */
export function offerChecks(era, target) {
  const on = (use) => () => withPeer(era, target, use);
  return [
    ["is told what the server can do", on(seesCapabilities)],
    ["lists a tool with its title, icon, hints and meta", on(listsAdorned)],
    ["gets content of every kind", on(getsContent)],
    ["gets structure that fits its schema", on(getsStructure)],
    ["lists and reads resources", on(readsResources)],
    ["lists templates and reads by one", on(readsByTemplate)],
    ["is told of a resource that is not there", on(missingResource)],
    ["lists and gets prompts", on(getsPrompts)],
    ["is told of a prompt that is not there, and of a missing argument", on(missingPrompt)],
    ["completes the arguments of a prompt, one by another", on(completesPrompt)],
    ["completes the variable of a template", on(completesTemplate)],
    ["is logged to from the level it chose", on(hearsLog)],
    ["hears that a list has changed", on(hearsLists)],
    ["hears that a resource has changed, and reads it anew", on(hearsResource)],
  ];
}

async function seesCapabilities({ client, isModern }) {
  const { tools, prompts, resources, completions } = client.getServerCapabilities();
  assert.deepEqual([tools?.listChanged, prompts?.listChanged], [true, true]);
  assert.deepEqual([resources?.listChanged, resources?.subscribe], [true, true]);
  assert.ok(completions, "no completions");
  assert.equal(client.getServerVersion()?.title, "Everything");
  assert.match(client.getInstructions() ?? "", /echo/);
  if (isModern) assert.ok(client.getDiscoverResult().supportedVersions.includes("2025-11-25"));
}

async function listsAdorned(peer) {
  const show = (await peer.tools()).find(({ name }) => name === "show");
  assert.equal(show.title, "Show and tell");
  assert.equal(show.icons[0].mimeType, "image/png");
  assert.deepEqual([show.annotations.readOnlyHint, show.annotations.openWorldHint], [true, false]);
  assert.equal(show._meta["dev.longhaul/kind"], "content");
}

async function getsContent(peer) {
  const { content } = success(await peer.call("show", { kind: "all" }));
  const [text, image, audio, link, embedded, blob, ...rest] = content;
  assert.deepEqual(rest, []);
  assert.equal(text.text, "Some text.");
  assert.deepEqual([image.type, image.mimeType], ["image", "image/png"]);
  assert.deepEqual(Buffer.from(image.data, "base64").subarray(1, 4).toString(), "PNG");
  assert.deepEqual([image.annotations.audience, image.annotations.priority], [["user"], 0.5]);
  assert.deepEqual([audio.type, audio.mimeType], ["audio", "audio/wav"]);
  assert.deepEqual([link.type, link.uri, link.name], ["resource_link", NOTE, "note"]);
  assert.deepEqual([embedded.type, embedded.resource.text], ["resource", "Buy milk."]);
  assert.deepEqual([blob.type, blob.resource.mimeType], ["resource", "image/png"]);
  assert.ok(blob.resource.blob.length > 0);
}

async function getsStructure(peer) {
  const weather = (await peer.tools()).find(({ name }) => name === "weather");
  assert.equal(weather.outputSchema.properties.temperature.type, "number");
  // Having listed the tool, the client itself holds the result against the schema.
  const result = success(await peer.call("weather", { city: "Oslo" }));
  assert.deepEqual(result.structuredContent, { city: "Oslo", temperature: 3.5 });
  assert.deepEqual(JSON.parse(textOf(result)), result.structuredContent);
}

async function readsResources({ client, read }) {
  const { resources } = await client.listResources();
  assert.deepEqual(resources.map(({ name }) => name), ["note", "dot", "counter"]);
  assert.equal(resources[0].title, "A note");
  const [note] = await read(NOTE);
  assert.deepEqual([note.uri, note.text], [NOTE, "Buy milk."]);
  const [dot] = await read("everything://dot");
  assert.deepEqual([...Buffer.from(dot.blob, "base64")], [0x89, 0x50, 0x4e, 0x47]);
}

async function readsByTemplate({ client, read }) {
  const { resourceTemplates } = await client.listResourceTemplates();
  // A server may have others of its own.
  const ours = resourceTemplates.map(({ uriTemplate }) => uriTemplate).filter((uri) => uri.startsWith("everything:"));
  assert.deepEqual(ours, ["everything://birds/{name}"]);
  const [wren] = await read("everything://birds/wren");
  assert.deepEqual([wren.text, wren.mimeType], ["The wren is a bird.", "text/plain"]);
}

async function missingResource({ read, missingResource }) {
  const { code } = await failure(read("everything://nothing"));
  assert.equal(code, missingResource);
  assert.match((await failure(read("everything://birds/cow"))).text, /cow/);
}

async function getsPrompts({ client }) {
  const { prompts } = await client.listPrompts();
  assert.deepEqual(prompts.map(({ name }) => name), ["greet", "describe"]);
  const required = prompts[0].arguments.map(({ name, required }) => [name, required ?? false]);
  assert.deepEqual(required, [["language", true], ["name", false]]);
  const greet = await client.getPrompt({ name: "greet", arguments: { language: "french", name: "Alice" } });
  assert.deepEqual(greet.messages.map(({ role, content }) => [role, content.text]), [["user", "Greet Alice in french."]]);
  const describe = await client.getPrompt({ name: "describe" });
  const kinds = describe.messages.map(({ role, content }) => `${role} ${content.type}`);
  assert.deepEqual(kinds, ["user image", "user resource", "assistant text"]);
}

async function missingPrompt({ client }) {
  assert.equal((await failure(client.getPrompt({ name: "nothing" }))).code, -32602);
  const { code, text } = await failure(client.getPrompt({ name: "greet", arguments: {} }));
  assert.equal(code, -32602);
  assert.match(text, /language/);
}

async function completesPrompt({ client }) {
  const ref = { type: "ref/prompt", name: "greet" };
  const complete = async (name, value, context) =>
    (await client.complete({ ref, argument: { name, value }, ...(context && { context }) })).completion.values;
  assert.deepEqual(await complete("language", ""), ["english", "french", "german"]);
  assert.deepEqual(await complete("language", "f"), ["french"]);
  assert.deepEqual(await complete("name", "Al"), ["Alan", "Albert", "Alice"]);
  assert.deepEqual(await complete("name", "Al", { arguments: { language: "english" } }), ["Alan"]);
}

async function completesTemplate({ client }) {
  const ref = { type: "ref/resource", uri: "everything://birds/{name}" };
  const { completion } = await client.complete({ ref, argument: { name: "name", value: "ro" } });
  assert.deepEqual(completion.values, ["robin", "rook"]);
}

async function hearsLog(peer) {
  const heard = [];
  peer.hear("notifications/message", ({ params }) => void heard.push(params));
  const meta = await peer.logFrom("warning");
  success(await peer.call("log", {}, { meta }));
  await settles(() => heard.length >= 2);
  assert.deepEqual(heard.map(({ level, data }) => [level, data]), [["warning", { disk: "almost full" }], ["error", "a failure"]]);
}

async function hearsLists(peer) {
  const lists = { tools: "toolsListChanged", prompts: "promptsListChanged", resources: "resourcesListChanged" };
  for (const [what, wanted] of Object.entries(lists)) {
    await hears(peer, what, `notifications/${what}/list_changed`, { [wanted]: true });
  }
}

async function hearsResource(peer) {
  const [before] = await peer.read(COUNTER);
  const wanted = { resourceSubscriptions: [COUNTER] };
  const { params } = await hears(peer, "counter", "notifications/resources/updated", wanted);
  assert.equal(params.uri, COUNTER);
  const [after] = await peer.read(COUNTER);
  assert.ok(Number(after.text) > Number(before.text), `${before.text}, then ${after.text}`);
}

/** Makes a change until the client hears of it; what it then heard. */
async function hears(peer, what, method, wanted) {
  let heard;
  peer.hear(method, (notification) => void (heard = notification));
  const subscription = await peer.listen(wanted);
  for (let change = 0; change < CHANGES && heard === undefined; change += 1) {
    success(await peer.call("change", { what }));
    await pause(200);
  }
  await subscription.close();
  assert.ok(heard, `nothing was heard of ${what}`);
  return heard;
}

/** Waits, for at most some seconds, until something is so. */
async function settles(isSo) {
  for (let look = 0; look < 100 && !isSo(); look += 1) await pause(50);
}
