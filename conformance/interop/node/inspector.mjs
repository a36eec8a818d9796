// The set `offer` of the Inspector's command line: a process a request.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { join } from "node:path";

const CLI = fileURLToPath(import.meta.resolve("@modelcontextprotocol/inspector/clients/launcher/build/index.js"));

/** How the Inspector ends when a tool is not there. */
const NOT_FOUND = 5;

/** The checks of this set for an era, or for the transport of 2024-11-05 (`sse`). */
export function inspectorChecks(era, target) {
  const on = (use) => () => use((method, ...options) => inspect(era, target, method, options));
  const both = [
    ["lists the tools", on(listsTools)],
    ["gets content of every kind", on(getsContent)],
    ["gets structure", on(getsStructure)],
    ["lists resources and reads text and bytes", on(readsResources)],
    ["lists templates and reads by one", on(readsByTemplate)],
    ["lists and gets prompts", on(getsPrompts)],
    ["is told of what is not there", on(isToldOfNothing)],
    ["is told that it cannot be asked", on(cannotAsk)],
  ];
  return era !== "modern" ? [...both, ["sets a level of logging", on(setsLevel)]] : both;
}

/** Runs the Inspector for one request; what it printed, and how it ended. */
async function inspect(era, target, method, options) {
  // It keeps a catalogue of servers in the user's folder, which is not ours to write to.
  const home = await mkdtemp(join(tmpdir(), "longhaul-inspector-"));
  const http = ["--transport", "http", "--server-url", target.url];
  const sse = ["--transport", "sse", "--server-url", new URL("/sse", target.url ?? "http://localhost").href];
  const server = target.url === undefined ? ["--", ...target.command] : era === "sse" ? sse : http;
  const words = ["--cli", "--protocol-era", era === "modern" ? "modern" : "legacy", "--format", "json", "--quiet", "--method", method, ...options];
  const env = { ...process.env, HOME: home, MCP_CATALOG_PATH: join(home, "catalog.json") };
  try {
    return await new Promise((resolve) => {
      const child = execFile(process.execPath, [CLI, ...words, ...server], { env }, (error, stdout, stderr) => {
        resolve({ status: child.exitCode, stdout, stderr });
      });
      child.stdin.end();
    });
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

/** The result of a request that must succeed. */
function result({ status, stdout, stderr }) {
  assert.equal(status, 0, `${stdout}${stderr}`);
  return JSON.parse(stdout).result;
}

async function listsTools(ask) {
  const { tools } = result(await ask("tools/list"));
  const show = tools.find(({ name }) => name === "show");
  assert.deepEqual([show.title, show.annotations.readOnlyHint], ["Show and tell", true]);
}

async function getsContent(ask) {
  const { content } = result(await ask("tools/call", "--tool-name", "show", "--tool-args-json", '{"kind":"all"}'));
  const kinds = content.map(({ type }) => type);
  assert.deepEqual(kinds, ["text", "image", "audio", "resource_link", "resource", "resource"]);
}

async function getsStructure(ask) {
  const weather = result(await ask("tools/call", "--tool-name", "weather", "--tool-arg", "city=Oslo"));
  assert.deepEqual(weather.structuredContent, { city: "Oslo", temperature: 3.5 });
}

async function readsResources(ask) {
  const { resources } = result(await ask("resources/list"));
  assert.deepEqual(resources.map(({ name }) => name), ["note", "dot", "counter"]);
  assert.equal(result(await ask("resources/read", "--uri", "everything://note")).contents[0].text, "Buy milk.");
  const [dot] = result(await ask("resources/read", "--uri", "everything://dot")).contents;
  assert.deepEqual([...Buffer.from(dot.blob, "base64")], [0x89, 0x50, 0x4e, 0x47]);
}

async function readsByTemplate(ask) {
  const { resourceTemplates } = result(await ask("resources/templates/list"));
  // A server may have others of its own.
  const ours = resourceTemplates.filter(({ uriTemplate }) => uriTemplate.startsWith("everything:"));
  assert.deepEqual(ours.map(({ name }) => name), ["bird"]);
  const [wren] = result(await ask("resources/read", "--uri", "everything://birds/wren")).contents;
  assert.equal(wren.text, "The wren is a bird.");
}

async function getsPrompts(ask) {
  const { prompts } = result(await ask("prompts/list"));
  assert.deepEqual(prompts.map(({ name }) => name), ["greet", "describe"]);
  const got = result(await ask("prompts/get", "--prompt-name", "greet", "--prompt-args", "language=french", "name=Alice"));
  assert.equal(got.messages[0].content.text, "Greet Alice in french.");
}

async function isToldOfNothing(ask) {
  const tool = await ask("tools/call", "--tool-name", "nothing");
  assert.equal(tool.status, NOT_FOUND, `${tool.stdout}${tool.stderr}`);
  const resource = await ask("resources/read", "--uri", "everything://nothing");
  assert.notEqual(resource.status, 0, resource.stdout);
  assert.match(`${resource.stdout}${resource.stderr}`, /not found/);
}

async function cannotAsk(ask) {
  const { status, stdout, stderr } = await ask("tools/call", "--tool-name", "ask_model", "--tool-arg", "message=hi");
  assert.notEqual(status, 0, stdout);
  assert.match(`${stdout}${stderr}`, /sampling/);
}

async function setsLevel(ask) {
  result(await ask("logging/setLevel", "--log-level", "warning"));
}
