// A server on `@modelcontextprotocol/sdk`, for our client: `serve_v1.mjs (--stdio | --http HOST:PORT | --sse HOST:PORT)`.
// With `--sse` it is a server of 2024-11-05, over HTTP+SSE at `/sse`.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

import { InMemoryTaskMessageQueue, InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
  CreateMessageResultSchema,
  ElicitResultSchema,
  InitializeRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
  UrlElicitationRequiredError,
} from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

const PAGE = "https://pages.example/asked";
const TOUCHED = "rig://touched";
const FORM = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };

const said = (text) => ({ content: [{ type: "text", text }] });

/** As of servers that keep tasks in a database: who comes back in another session finds what it has begun. */
class Tasks extends InMemoryTaskStore {
  lookup(taskId) {
    return super.lookup(taskId, undefined);
  }
}

const taskStore = new Tasks();
const taskMessageQueue = new InMemoryTaskMessageQueue();

function rig() {
  const capabilities = {
    logging: {},
    resources: { subscribe: true, listChanged: true },
    tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } },
  };
  const server = new McpServer({ name: "rig", version: "1" }, { capabilities, taskStore, taskMessageQueue });
  offered(server);
  asking(server);
  tasks(server);
  hosted(server);
  return server;
}

function offered(server) {
  server.registerTool("echo", { inputSchema: { message: z.string() } }, ({ message }) => said(message));
  const numbers = { inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } };
  server.registerTool("add", numbers, ({ a, b }) => ({ ...said(String(a + b)), structuredContent: { sum: a + b } }));
  server.registerTool("count", { inputSchema: { steps: z.number() } }, async ({ steps }, extra) => {
    const progressToken = extra._meta?.progressToken;
    for (let progress = 1; progress <= steps; progress++) {
      await sleep(20);
      if (progressToken === undefined) continue;
      const params = { progressToken, progress, total: steps };
      await extra.sendNotification({ method: "notifications/progress", params });
    }
    return said(`counted to ${steps}`);
  });
  server.registerTool("fail", {}, () => {
    throw new Error("failed on purpose");
  });
  server.registerResource("touched", TOUCHED, { mimeType: "text/plain" }, () => ({
    contents: [{ uri: TOUCHED, text: "untouched" }],
  }));
  server.registerPrompt("greet", { argsSchema: { name: z.string() } }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}.` } }],
  }));
  const subscribed = new Set();
  server.server.setRequestHandler(SubscribeRequestSchema, ({ params: { uri } }) => {
    subscribed.add(uri);
    return {};
  });
  server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params: { uri } }) => {
    subscribed.delete(uri);
    return {};
  });
  server.registerTool("touch", {}, async () => {
    if (subscribed.has(TOUCHED)) await server.server.sendResourceUpdated({ uri: TOUCHED });
    server.sendToolListChanged();
    return said("touched");
  });
  const leaf = server.registerTool("leaf", { description: "There at times" }, () => said("green"));
  leaf.disable();
  server.registerTool("grow", { inputSchema: { leaf: z.boolean() } }, ({ leaf: isThere }) => {
    if (isThere) leaf.enable();
    else leaf.disable();
    return said(isThere ? "it grew" : "it fell");
  });
}

function asking(server) {
  server.registerTool("sample", { inputSchema: { prompt: z.string() } }, async ({ prompt }, extra) => {
    const messages = [{ role: "user", content: { type: "text", text: prompt } }];
    const request = { method: "sampling/createMessage", params: { messages, maxTokens: 9 } };
    const { model, content } = await extra.sendRequest(request, CreateMessageResultSchema);
    return said(`${model}: ${content.text}`);
  });
  server.registerTool("ask", {}, async (extra) => {
    const params = { mode: "form", message: "Who are you?", requestedSchema: FORM };
    const answer = await extra.sendRequest({ method: "elicitation/create", params }, ElicitResultSchema);
    return said(answer.action === "accept" ? `hello ${answer.content.name}` : answer.action);
  });
  server.registerTool("visit", {}, async (extra) => {
    const elicitationId = randomUUID();
    const params = { mode: "url", message: "Look here", url: PAGE, elicitationId };
    const { action } = await extra.sendRequest({ method: "elicitation/create", params }, ElicitResultSchema);
    const method = "notifications/elicitation/complete";
    await extra.sendNotification({ method, params: { elicitationId } });
    return said(`visited: ${action}`);
  });
  const seen = new Set();
  server.registerTool("must_visit", { inputSchema: { key: z.string() } }, ({ key }) => {
    if (seen.has(key)) return said("let in");
    seen.add(key);
    const page = { mode: "url", message: "Look here first", url: `${PAGE}/${key}`, elicitationId: key };
    throw new UrlElicitationRequiredError([page]);
  });
  server.registerTool("roots", {}, async () => {
    const { roots } = await server.server.listRoots();
    return said(roots.map(({ uri }) => uri).join(" "));
  });
}

function tasks(server) {
  const made = (work) => ({
    createTask: async (args, extra) => {
      const task = await extra.taskStore.createTask({ ttl: 60_000, pollInterval: 50 });
      const run = async () => {
        const result = await work(task.taskId, args, extra);
        const current = await extra.taskStore.getTask(task.taskId);
        if (current.status !== "cancelled") await extra.taskStore.storeTaskResult(task.taskId, "completed", result);
      };
      run().catch((error) => console.error(error));
      return { task };
    },
    getTask: (_args, extra) => extra.taskStore.getTask(extra.taskId),
    getTaskResult: (_args, extra) => extra.taskStore.getTaskResult(extra.taskId),
  });
  const execution = { taskSupport: "required" };
  const outputSchema = { worked: z.number() };
  server.experimental.tasks.registerToolTask(
    "work",
    { inputSchema: { seconds: z.number() }, outputSchema, execution },
    made(async (taskId, { seconds }, extra) => {
      await extra.taskStore.updateTaskStatus(taskId, "working", "half of it");
      await sleep(1000 * seconds);
      return { ...said(`worked ${seconds} s`), structuredContent: { worked: seconds } };
    }),
  );
  server.experimental.tasks.registerToolTask(
    "work_and_ask",
    { inputSchema: {}, execution },
    made(async (taskId, _args, { taskStore, sendRequest }) => {
      await taskStore.updateTaskStatus(taskId, "input_required", "who?");
      const params = { mode: "form", message: "Who is working?", requestedSchema: FORM };
      const request = { method: "elicitation/create", params };
      const answer = await sendRequest(request, ElicitResultSchema, { relatedTask: { taskId } });
      await taskStore.updateTaskStatus(taskId, "working", "thanks");
      return said(`${answer.content.name} worked`);
    }),
  );
}

// Asks its client so that the client makes tasks of it.
function hosted(server) {
  const asked = server.server.experimental.tasks;
  const options = ({ requestId }) => ({ task: { ttl: 60_000 }, relatedRequestId: requestId });
  const came = async (stream) => {
    const statuses = [];
    for await (const message of stream) {
      if (message.type === "taskCreated" || message.type === "taskStatus") statuses.push(message.task.status);
      else if (message.type === "result") return { statuses, result: message.result };
      else throw message.error;
    }
    throw new Error("the client never answered");
  };
  server.registerTool("ask_as_task", {}, async (extra) => {
    const params = { mode: "form", message: "Who hosts?", requestedSchema: FORM };
    const { statuses, result } = await came(asked.elicitInputStream(params, options(extra)));
    return said(`${result.content.name}, ${statuses.at(0)} to ${statuses.at(-1)}`);
  });
  server.registerTool("sample_as_task", {}, async (extra) => {
    const messages = [{ role: "user", content: { type: "text", text: "who hosts" } }];
    const stream = asked.createMessageStream({ messages, maxTokens: 9 }, options(extra));
    const { statuses, result } = await came(stream);
    return said(`${result.content.text}, ${statuses.at(0)} to ${statuses.at(-1)}`);
  });
  server.registerTool("cancel_asked", {}, async (extra) => {
    const params = { mode: "form", message: "Never mind", requestedSchema: FORM };
    for await (const message of asked.elicitInputStream(params, options(extra))) {
      if (message.type !== "taskCreated") continue;
      const { taskId } = message.task;
      const about = { relatedRequestId: extra.requestId };
      const listed = await asked.listTasks(undefined, about);
      const { status } = await asked.cancelTask(taskId, about);
      const { status: after } = await asked.getTask(taskId, about);
      return said(`${listed.tasks.some((task) => task.taskId === taskId)} ${status} ${after}`);
    }
    throw new Error("no task was made");
  });
}

async function listen(address) {
  const [host, port] = address.split(":");
  const sessions = new Map();
  const begin = async () => {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await rig().connect(transport);
    return transport;
  };
  const web = createServer(async (request, response) => {
    const id = request.headers["mcp-session-id"];
    const transport = id === undefined ? await begin() : sessions.get(id);
    if (transport === undefined) response.writeHead(404).end();
    else await transport.handleRequest(request, response);
  });
  web.listen(Number(port), host);
}

/** As servers of 2024-11-05 do it: a stream of events, and a place beside it for messages. */
function listenOld(address) {
  const [host, port] = address.split(":");
  const sessions = new Map();
  const web = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://rig");
    if (request.method === "GET" && pathname === "/sse") {
      const transport = new SSEServerTransport("/messages", response);
      sessions.set(transport.sessionId, transport);
      response.on("close", () => sessions.delete(transport.sessionId));
      await aged(rig()).connect(transport);
      return;
    }
    const transport = request.method === "POST" && sessions.get(searchParams.get("sessionId"));
    if (transport) await transport.handlePostMessage(request, response);
    else response.writeHead(404).end();
  });
  web.listen(Number(port), host);
}

/** The server, which speaks 2024-11-05 whatever it is asked for. */
function aged(made) {
  const { server } = made;
  server.setRequestHandler(InitializeRequestSchema, async (request) => {
    const { capabilities, ...welcome } = await server._oninitialize(request);
    const { tasks, completions, ...known } = capabilities;
    return { ...welcome, capabilities: known, protocolVersion: "2024-11-05" };
  });
  return made;
}

const [way, address] = process.argv.slice(2);
if (way === "--http") await listen(address);
else if (way === "--sse") listenOld(address);
else await rig().connect(new StdioServerTransport());
