// Calls that outlive ours, which stands before servers of others and is killed: `node killed.mjs (begin | end) URL FILE`.
// `begin` starts them with every kind of client and writes to FILE how to come back, `end` comes back.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";

import { success, textOf } from "./answer.mjs";
import { waitFor } from "./held.mjs";
import { withPeer } from "./peer.mjs";
import { report } from "./tap.mjs";
import { withSession } from "./tasks_session.mjs";

/**
 * What is called, with what, and what it comes to, or the words in which it `fails` where nothing can come of it: `killed.rs`
 * configures the servers by these names; `ID` stands for that of a task there. A call is in the middle once its task `says` so, or `asks`, which is answered by whoever
 * comes back; `by` names those who call, if not all do.
 */
const CALLS = JSON.parse(await readFile("conformance/interop/killed.json", "utf8"));

/** How long whoever comes back waits for one request, in milliseconds. */
const PATIENCE = 120_000;

const ABLE = { elicitation: { form: {} } };
const ADA = { action: "accept", content: { name: "Ada" } };

/** Every kind of client: how it begins its calls, and how it comes back to those that it has begun. */
const CLIENTS = {
  d2: withTasks("d2"),
  d3: withTasks("d3"),
  // It comes for the result of a task, as which a session is asked by one that it did not begin.
  legacy: streaming("legacy"),
  "v2-legacy": withoutTasks("v2-legacy"),
  modern: withoutTasks("modern"),
};

const [verb, url, file] = process.argv.slice(2);
const target = { url };
if (verb === "begin") {
  const all = (await Promise.all(Object.entries(CLIENTS).map(begun))).flat();
  await inTheMiddle(all);
  await writeFile(file, JSON.stringify(all));
  process.exit(0);
} else if (verb === "end") {
  const all = JSON.parse(await readFile(file, "utf8"));
  const ended = new Map();
  const over = Promise.all(Object.entries(CLIENTS).map(([client, { end }]) => end(all.filter((call) => call.client === client), ended)));
  const checks = all.map((call) => [`${call.client}: ${call.tool}`, () => over.then(() => judged(call, ended.get(call)))]);
  process.exit((await report("killed", checks)) ? 0 : 1);
} else {
  console.error("usage: node killed.mjs (begin | end) URL FILE");
  process.exit(2);
}

async function begun([client, { begin }]) {
  const calls = CALLS.filter(({ by }) => by === undefined || by.includes(client));
  return (await begin(calls)).map((call) => ({ client, ...call }));
}

/** Waits until every call of which that can be seen is in the middle. */
function inTheMiddle(all) {
  return withSession("d3", target, async ({ session }) => {
    for (const { client, tool, taskId } of all) {
      const { asks, says } = CALLS.find((call) => call.tool === tool);
      const isThere = ({ status, statusMessage }) => (asks ? status === "input_required" : (statusMessage ?? "").includes(says ?? ""));
      let task = await session.task(taskId).snapshot();
      while (!isThere(task)) {
        assert.ok(["working", "input_required"].includes(task.status), `${client}: ${tool} is over: ${task.statusMessage}`);
        await pause(50);
        task = await session.task(taskId).snapshot();
      }
      console.log(`# ${client}: ${tool}: ${task.status}, ${task.statusMessage}`);
    }
  });
}

function withTasks(client) {
  const begin = (calls) =>
    withSession(
      client,
      target,
      ({ session, preference }) =>
        Promise.all(calls.map(async ({ tool, with: args }) => {
          const execution = await session.callTool(tool, args, { task: { preference } });
          assert.equal(execution.kind, "task", `${client}: ${tool} did not become a task`);
          let reference;
          await execution.handoff((made) => void (reference = JSON.parse(JSON.stringify(made))));
          return { tool, taskId: execution.handle.taskId, reference };
        })),
      // It says that it can be asked, and does not answer yet.
      { capabilities: ABLE, onInputRequest: never },
    );
  const outcome = (session) => async ({ reference }) => {
    const { outcome } = await (await session.resumeTask(reference)).settle();
    if (outcome.error !== undefined) return { failed: true, text: outcome.error.message };
    return { failed: outcome.result.isError === true, text: textOf(outcome.result) };
  };
  const answers = { capabilities: ABLE, onInputRequest: () => ADA };
  const end = (calls, ended) => withSession(client, target, ({ session }) => each(calls, ended, outcome(session)), answers);
  return { begin, end };
}

function streaming(client) {
  const begin = (calls) =>
    peering(client, never, async (peer) => {
      // It learns from the list which tools may run as tasks.
      await peer.tools();
      return Promise.all(calls.map(async ({ tool, with: args }) => {
        for await (const { type, task } of peer.client.experimental.tasks.callToolStream({ name: tool, arguments: args })) {
          assert.equal(type, "taskCreated", `${client}: ${tool} did not become a task`);
          return { tool, taskId: task.taskId };
        }
      }));
    });
  const outcome = (peer) => async ({ taskId }) => {
    try {
      const result = await peer.client.experimental.tasks.getTaskResult(taskId, CallToolResultSchema, { timeout: PATIENCE });
      return { failed: result.isError === true, text: textOf(result) };
    } catch (error) {
      if (typeof error.code !== "number") throw error;
      return { failed: true, text: error.message.replace(/^MCP error -\d+: /, "") };
    }
  };
  const end = (calls, ended) => peering(client, () => ADA, (peer) => each(calls, ended, outcome(peer)));
  return { begin, end };
}

function withoutTasks(client) {
  const begin = (calls) =>
    peering(client, never, (peer) =>
      Promise.all(calls.map(async ({ tool, with: args }) => {
        const { taskId } = success(await peer.call(tool, args)).structuredContent ?? {};
        assert.ok(taskId, `${client}: ${tool} was not handed over`);
        return { tool, taskId };
      })),
    );
  const outcome = (peer) => async ({ taskId }) => {
    const result = await waitFor(peer, taskId);
    return { failed: result.isError === true, text: textOf(result) };
  };
  const end = (calls, ended) => peering(client, () => ADA, (peer) => each(calls, ended, outcome(peer)));
  return { begin, end };
}

/** A client whose user answers so. */
function peering(client, answer, use) {
  const answering = (peer) => {
    peer.answer("elicitation/create", answer);
    return use(peer);
  };
  return withPeer(client, target, answering, { capabilities: ABLE });
}

function never() {
  return new Promise(() => {});
}

async function each(calls, ended, outcome) {
  const settled = await Promise.allSettled(calls.map(outcome));
  for (const [index, call] of calls.entries()) ended.set(call, settled[index]);
}

function judged({ tool }, { value, reason }) {
  if (reason !== undefined) throw reason;
  const { comes_to: wanted, fails } = CALLS.find((call) => call.tool === tool);
  if (fails !== undefined) assert.deepEqual({ ...value, text: value.text.replace(/[0-9a-f]{32}/, "ID") }, { failed: true, text: fails });
  else assert.ok(!value.failed && value.text.includes(wanted), value.text);
}
