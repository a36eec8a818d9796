// What the example promises, in a browser: `node test.mjs MODULES PROGRAM CHROMIUM`, where MODULES is the `node_modules` of
// this folder's lock file, PROGRAM the example's server, and CHROMIUM the browser.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

import { startChromium } from "../../conformance/interop/node/chromium.mjs";
import { freeAddress } from "../../conformance/interop/node/server.mjs";
import { report } from "../../conformance/interop/node/tap.mjs";

const [modules, program, browser] = process.argv.slice(2);
if (browser === undefined) {
  console.error("usage: node test.mjs MODULES PROGRAM CHROMIUM");
  process.exit(2);
}

const page = readFileSync(join(import.meta.dirname, "page.html"));
const script = execFileSync(
  process.execPath,
  [join(modules, "esbuild/bin/esbuild"), "--bundle", "--format=esm", join(import.meta.dirname, "page.mjs")],
  { env: { ...process.env, NODE_PATH: modules }, maxBuffer: 1 << 26 },
);

// One web server for the pages of every origin: which one a page is of, its address says.
const web = createServer((request, response) => {
  const isScript = request.url.startsWith("/page.js");
  response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
  response.end(isScript ? script : page);
});
web.listen(0, "127.0.0.1");
await once(web, "listening");
const origin = (host) => `http://${host}:${web.address().port}`;

const LISTED = origin("listed.test");
const FOREIGN = origin("foreign.test");

const address = await freeAddress();
const url = `http://${address}/mcp`;
const server = spawn(program, [address, LISTED], { stdio: ["ignore", "inherit", "inherit"] });
process.once("exit", () => server.kill());
for (let look = 0; !(await fetch(url).then(() => true, () => false)); look += 1) {
  if (look > 500 || server.exitCode !== null) throw new Error(`${program} does not listen`);
  await pause(20);
}
const chromium = await startChromium(browser);

/** A check in a page of this origin. */
const at = (from, use) => async () => {
  const opened = await chromium.open(`${from}/?server=${encodeURIComponent(url)}`);
  try {
    await use(opened.run);
  } finally {
    await opened.close();
  }
};

const passed = await report("browser", [
  ["a page of a listed origin connects, lists and calls", at(LISTED, usesPage)],
  ["a page of a listed origin follows a stream in the modern era", at(LISTED, followsStream("auto", "2026-07-28"))],
  ["a page of a listed origin keeps a session in the legacy era", at(LISTED, followsStream("legacy", "2025-11-25"))],
  ["a page of another origin is refused", at(FOREIGN, isRefused)],
  ["a page of another origin changes nothing by what browsers send unasked", at(FOREIGN, changesNothing)],
]);

await chromium.close();
process.exit(passed ? 0 : 1);

/** Waits for what the page says. */
function says(run, pattern) {
  return run(`new Promise((resolve) => {
    const output = document.querySelector("output");
    const look = () => ${pattern}.test(output.textContent) ? resolve(output.textContent) : setTimeout(look, 20);
    look();
  })`);
}

async function usesPage(run) {
  assert.equal(await says(run, /onnect(ed \(|:)/), "Connected (2026-07-28): sign, count_down");
  await run(`document.querySelector("input").value = "Ada"; document.querySelector("button").click()`);
  assert.equal(await says(run, /Ada/), "Ada");
}

function followsStream(mode, revision) {
  return async (run) => {
    const seen = await run(`(async () => {
      const { connect } = await import("/page.js");
      const client = await connect(${JSON.stringify(url)}, ${JSON.stringify(mode)});
      const progress = [];
      const onprogress = ({ progress: value }) => progress.push(value);
      const result = await client.callTool({ name: "count_down", arguments: { from: 3 } }, { onprogress });
      const revision = client.getNegotiatedProtocolVersion();
      await client.close();
      return { revision, progress, text: result.content[0].text };
    })()`);
    assert.deepEqual(seen, { revision, progress: [1, 2, 3], text: "zero" });
  };
}

async function isRefused(run) {
  assert.match(await says(run, /onnect(ed \(|:)/), /^Cannot connect/);
  for (const mode of ["auto", "legacy"]) {
    const connecting = run(`import("/page.js").then(({ connect }) => connect(${JSON.stringify(url)}, "${mode}")).then(() => 1)`);
    await assert.rejects(connecting, /fetch/);
  }
}

async function changesNothing(run) {
  const before = await guests();
  const params = { name: "sign", arguments: { name: "Mallory" } };
  const body = JSON.stringify(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }));
  // What needs no preflight is sent whatever the server thinks of it; the page only cannot read the answer.
  await run(`fetch(${JSON.stringify(url)}, { method: "POST", mode: "no-cors", body: ${body} }).then(() => 1)`);
  await run(`fetch(${JSON.stringify(url)}, { mode: "no-cors" }).then(() => 1)`);
  assert.deepEqual(await guests(), [...before, "a check"]);
}

/** Who has signed the book; the asker signs it, too. */
async function guests() {
  const params = {
    name: "sign",
    arguments: { name: "a check" },
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
    },
  };
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "sign",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
  });
  const { result } = await response.json();
  return result.content[0].text.split(", ");
}
