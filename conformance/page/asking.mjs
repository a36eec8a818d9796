// A server over standard streams: what the page is tried with. One tool asks before it does anything, one asks two things at once, and one is
// done once there is the file that the server is given.

import { existsSync } from "node:fs";
import { createInterface } from "node:readline";

const FORM = {
  type: "object",
  properties: {
    shards: { type: "integer", title: "Shards", description: "How many at once", minimum: 1, maximum: 64, default: 8 },
    to: { type: "string", title: "To", enum: ["stage", "prod"] },
    go: { type: "boolean", title: "Go ahead?" },
    note: { type: "string", title: "Note" },
  },
  required: ["shards", "to", "go"],
};
const TOOL = { name: "deploy", description: "Deploys, once somebody agrees", inputSchema: { type: "object" } };
const TWICE = { name: "twice", description: "Asks two things at once", inputSchema: { type: "object" } };
const of = (name) => ({ type: "object", properties: { [name]: { type: "string", title: name } }, required: [name] });
const LATER = {
  name: "build",
  description: "Builds, once it may",
  inputSchema: { type: "object" },
  execution: { taskSupport: "optional" },
};
const text = (words) => ({ content: [{ type: "text", text: words }] });

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
/** The calls that wait for an answer, by the ids of their questions. */
const waiting = new Map();
/** The calls that wait for two, and how many have come. */
const halves = new Map();

const ANSWERS = {
  initialize: () => ({
    protocolVersion: "2025-11-25",
    capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } },
    serverInfo: { name: "asking", version: "1.0.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: [TOOL, TWICE, LATER] }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params: said, result } = JSON.parse(line);
  if (method === "tools/call" && said.name === "build") {
    const look = setInterval(() => {
      if (!existsSync(process.argv[2])) return;
      clearInterval(look);
      say({ id, result: text("built") });
    }, 50);
  } else if (method === "tools/call" && said.name === "twice") {
    halves.set(id, 0);
    for (const name of ["First", "Second"]) {
      waiting.set(`${name}-${id}`, id);
      const params = { mode: "form", message: `${name}?`, requestedSchema: of(name) };
      say({ id: `${name}-${id}`, method: "elicitation/create", params });
    }
  } else if (halves.has(waiting.get(id))) {
    const call = waiting.get(id);
    waiting.delete(id);
    halves.set(call, halves.get(call) + 1);
    if (halves.get(call) === 2) say({ id: call, result: text("both") });
  } else if (method === "tools/call") {
    const question = `ask-${id}`;
    waiting.set(question, id);
    const params = { mode: "form", message: "Deploy 12 changes?\n<b>It cannot be undone.</b>", requestedSchema: FORM };
    say({ id: question, method: "elicitation/create", params });
  } else if (waiting.has(id)) {
    const { action, content } = result ?? { action: "refused" };
    say({ id: waiting.get(id), result: text(`${action}: ${JSON.stringify(content ?? null)}`) });
    waiting.delete(id);
  } else if (id !== undefined && method !== undefined) {
    const answer = ANSWERS[method];
    say(answer ? { id, result: answer() } : { id, error: { code: -32601, message: `no ${method} here` } });
  }
}
