// A server on `@modelcontextprotocol/server`, in both eras, for our client: `serve_v2.mjs (--stdio | --http HOST:PORT)`.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from "@modelcontextprotocol/node";
import {
  acceptedContent,
  createMcpHandler,
  inputRequired,
  isInitializeRequest,
  isLegacyRequest,
  McpServer,
  UrlElicitationRequiredError,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const PAGE = "https://pages.example/asked";
const TOUCHED = "rig://touched";
const FORM = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };

const said = (text) => ({ content: [{ type: "text", text }] });

/** Tells those who listen over HTTP, where each request has a server of its own. */
let notify;
/** What such a server has at times, which the next one must know. */
let hasLeaf = false;
const seen = new Set();

function rig({ era }) {
  const capabilities = { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } };
  const server = new McpServer({ name: "rig", version: "1" }, { capabilities });
  offered(server, era);
  asking(server, era);
  return server;
}

function offered(server, era) {
  const message = z.object({ message: z.string() });
  server.registerTool("echo", { inputSchema: message }, ({ message }) => said(message));
  const numbers = {
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    outputSchema: z.object({ sum: z.number() }),
  };
  server.registerTool("add", numbers, ({ a, b }) => ({ ...said(String(a + b)), structuredContent: { sum: a + b } }));
  server.registerTool("count", { inputSchema: z.object({ steps: z.number() }) }, async ({ steps }, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= steps; progress++) {
      await sleep(20);
      if (progressToken === undefined) continue;
      const params = { progressToken, progress, total: steps };
      await ctx.mcpReq.notify({ method: "notifications/progress", params });
    }
    return said(`counted to ${steps}`);
  });
  server.registerTool("fail", {}, () => {
    throw new Error("failed on purpose");
  });
  server.registerResource("touched", TOUCHED, { mimeType: "text/plain" }, () => ({
    contents: [{ uri: TOUCHED, text: "untouched" }],
  }));
  server.registerPrompt("greet", { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}.` } }],
  }));
  if (era === "legacy") {
    server.server.setRequestHandler("resources/subscribe", () => ({}));
    server.server.setRequestHandler("resources/unsubscribe", () => ({}));
  }
  server.registerTool("touch", {}, async () => {
    if (notify !== undefined && era !== "legacy") {
      notify.resourceUpdated(TOUCHED);
      notify.toolsChanged();
    } else {
      await server.server.sendResourceUpdated({ uri: TOUCHED });
      await server.server.sendToolListChanged();
    }
    return said("touched");
  });
  const leaf = server.registerTool("leaf", { description: "There at times" }, () => said("green"));
  if (!hasLeaf) leaf.disable();
  server.registerTool("grow", { inputSchema: z.object({ leaf: z.boolean() }) }, ({ leaf: isThere }) => {
    if (notify !== undefined && era !== "legacy") {
      hasLeaf = isThere;
      notify.toolsChanged();
    } else if (isThere) leaf.enable();
    else leaf.disable();
    return said(isThere ? "it grew" : "it fell");
  });
}

function asking(server, era) {
  const isLegacy = era === "legacy";
  server.registerTool("sample", { inputSchema: z.object({ prompt: z.string() }) }, async ({ prompt }, ctx) => {
    const asked = { messages: [{ role: "user", content: { type: "text", text: prompt } }], maxTokens: 9 };
    const drawn = isLegacy ? await ctx.mcpReq.requestSampling(asked) : ctx.mcpReq.inputResponses?.drawn;
    if (drawn === undefined) return inputRequired({ inputRequests: { drawn: inputRequired.createMessage(asked) } });
    return said(`${drawn.model}: ${drawn.content.text}`);
  });
  server.registerTool("ask", {}, async (ctx) => {
    const asked = { message: "Who are you?", requestedSchema: FORM };
    const name = isLegacy
      ? (await ctx.mcpReq.elicitInput({ mode: "form", ...asked })).content?.name
      : acceptedContent(ctx.mcpReq.inputResponses, "form")?.name;
    if (name === undefined) return inputRequired({ inputRequests: { form: inputRequired.elicit(asked) } });
    return said(`hello ${name}`);
  });
  server.registerTool("visit", {}, async (ctx) => {
    const page = { message: "Look here", url: PAGE };
    if (!isLegacy) {
      const answer = ctx.mcpReq.inputResponses?.page;
      if (answer === undefined) return inputRequired({ inputRequests: { page: inputRequired.elicitUrl(page) } });
      return said(`visited: ${answer.action}`);
    }
    const elicitationId = randomUUID();
    const { action } = await ctx.mcpReq.elicitInput({ mode: "url", ...page, elicitationId });
    await server.server.createElicitationCompletionNotifier(elicitationId, { relatedRequestId: ctx.mcpReq.id })();
    return said(`visited: ${action}`);
  });
  server.registerTool("must_visit", { inputSchema: z.object({ key: z.string() }) }, ({ key }) => {
    if (seen.has(key)) return said("let in");
    seen.add(key);
    const page = { mode: "url", message: "Look here first", url: `${PAGE}/${key}`, elicitationId: key };
    throw new UrlElicitationRequiredError([page]);
  });
  server.registerTool("roots", {}, async (ctx) => {
    const given = isLegacy ? await server.server.listRoots() : ctx.mcpReq.inputResponses?.given;
    if (given === undefined) return inputRequired({ inputRequests: { given: inputRequired.listRoots() } });
    return said(given.roots.map(({ uri }) => uri).join(" "));
  });
}

async function listen(address) {
  const [host, port] = address.split(":");
  const handler = createMcpHandler(rig, { legacy: "reject" });
  notify = handler.notify;
  const modern = toNodeHandler(handler);
  const sessions = new Map();
  const begin = async () => {
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    await rig({ era: "legacy" }).connect(transport);
    return transport;
  };
  const web = createServer(async (request, response) => {
    const asked = await toWebRequest(request);
    const isLegacy = await isLegacyRequest(asked);
    const body = request.method === "POST" ? await asked.json().catch(() => undefined) : undefined;
    if (!isLegacy) return modern(request, response, body);
    const id = request.headers["mcp-session-id"];
    const transport = id === undefined && isInitializeRequest(body) ? await begin() : sessions.get(id);
    if (transport === undefined) response.writeHead(id === undefined ? 400 : 404).end();
    else await transport.handleRequest(request, response, body);
  });
  web.listen(Number(port), host);
}

const [way, address] = process.argv.slice(2);
if (way === "--http") await listen(address);
else serveStdio(rig);
