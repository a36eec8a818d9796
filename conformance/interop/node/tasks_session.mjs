// The set `tasks` of the ext-tasks package: one requester over both generations of tasks.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";

import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

import { assertRises, success, textOf } from "./answer.mjs";
import { connectModern, MODERN } from "./target.mjs";
import { coordinate, watch } from "./wire.mjs";

/** The checks of this set for tasks of 2025-11-25 (`d2`) or of the extension (`d3`). */
export function sessionChecks(dialect, target) {
  const on = (use) => () => withSession(dialect, target, use);
  const both = [
    ["lists the tools", on(listsTools)],
    ["runs a long call as a task to its result", on(runsToResult)],
    ["gets a quick call answered in place", on(answersInPlace)],
    ["cancels a task", on(cancels)],
    ["goes on with a task from its reference", on(resumes)],
    ["is told of a bad argument", on(badArgument)],
    ["is told of a task that does not exist", on(unknownTask)],
  ];
  const d2 = [
    ["is told of a failure by the task's status", on(failsByStatus)],
    ["sees progress on the token of the call", on(seesProgress)],
  ];
  const d3 = [
    ["gets a tool's failure as a result", on(failsByResult)],
    ["is sent no progress for a task", on(noProgress)],
  ];
  return [...both, ...(dialect === "d2" ? d2 : d3)];
}

const TASKS = "io.modelcontextprotocol/tasks";

/**
 * Runs `use` with tasks of a dialect, and closes the connection whatever happens. What else the client is able to do is
 * `capabilities`, and `onInputRequest` answers what it is asked.
 */
export async function withSession(dialect, target, use, { capabilities = {}, onInputRequest } = {}) {
  const able = dialect === "d2" ? capabilities : { ...capabilities, extensions: { [TASKS]: {} } };
  const { client, transport } = await connectModern(target, {
    capabilities: able,
    ...(dialect === "d2" && { mode: "legacy" }),
  });
  const wire = watch(transport);
  const besides = {
    rawDispatch: coordinate(transport),
    v2RequestFraming: {
      protocolVersion: MODERN,
      clientInfo: { name: "longhaul-interop", version: "1.0.0" },
      clientCapabilities: able,
    },
  };
  try {
    const options = { endpointId: "server-under-test", onInputRequest, ...(dialect === "d3" ? besides : {}) };
    const session = createTaskSessionFromClient(client, options);
    assert.ok(session.capabilities.execution, "the server declares no tasks");
    return await use({ client, session, wire, preference: dialect === "d2" ? "require" : "allow" });
  } finally {
    await client.close();
  }
}

/** Starts a call that must become a task. */
async function start({ session, preference }, args) {
  const execution = await session.callTool("slow", args, { task: { preference } });
  assert.equal(execution.kind, "task", "the call did not become a task");
  return execution;
}

async function listsTools({ client }) {
  const tools = new Map((await client.listTools()).tools.map((tool) => [tool.name, tool]));
  for (const name of ["echo", "slow", "fail"]) {
    assert.ok(tools.get(name)?.description, `${name} is not listed with a description: ${[...tools.keys()]}`);
  }
}

async function runsToResult(peer) {
  const execution = await start(peer, { seconds: 6, steps: 12 });
  const seen = [];
  const { outcome } = await execution.settle({ onEvent: (event) => void (event.type === "task" && seen.push(event.task)) });
  assert.equal(outcome.status, "completed", String(outcome.error));
  assert.match(textOf(success(outcome.result)), /step 12 of 12/);
  const said = new Set(seen.map((task) => task.statusMessage).filter(Boolean));
  assert.ok(said.size >= 2, `statusMessage did not follow the work: ${JSON.stringify(seen.map((task) => task.raw))}`);
}

async function answersInPlace({ session }) {
  const execution = await session.callTool("echo", { message: "quick" });
  assert.equal(execution.kind, "immediate");
  const { outcome } = await execution.settle();
  assert.equal(textOf(success(outcome.result)), "quick");
}

async function cancels(peer) {
  const execution = await start(peer, { seconds: 60, steps: 120 });
  await execution.cancel();
  const outcome = await execution.result();
  assert.equal(outcome.status, "cancelled", String(outcome.error));
  const { status } = await peer.session.task(execution.handle.taskId).snapshot();
  assert.equal(status, "cancelled");
}

async function resumes(peer) {
  const execution = await start(peer, { seconds: 6, steps: 12 });
  let reference;
  await execution.handoff((made) => {
    reference = JSON.parse(JSON.stringify(made));
  });
  // Only with its outcome does the first execution give the task up.
  await execution.result();
  const resumed = await peer.session.resumeTask(reference);
  const { outcome } = await resumed.settle();
  assert.equal(outcome.status, "completed", String(outcome.error));
  assert.match(textOf(success(outcome.result)), /step 12 of 12/);
}

/** The text of whatever refused the call: the answer to it, or the task that it became. */
async function refusal(call) {
  try {
    const execution = await call;
    const { outcome } = await execution.settle();
    if (outcome.status === "failed") return outcome.error.message;
    assert.equal(outcome.result?.isError, true, `the call succeeded: ${JSON.stringify(outcome)}`);
    return textOf(outcome.result);
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    return error.message;
  }
}

async function badArgument({ session, preference }) {
  const text = await refusal(session.callTool("slow", { seconds: "long", steps: 4 }, { task: { preference } }));
  assert.match(text, /seconds/);
}

async function unknownTask({ session }) {
  await assert.rejects(session.task("no-such-task").snapshot(), (error) => error.code === -32602);
}

async function failsByStatus({ session }) {
  const execution = await session.callTool("fail", {}, { task: { preference: "require" } });
  assert.equal(execution.kind, "task");
  const { outcome } = await execution.settle();
  assert.equal(outcome.status, "failed");
  assert.match(outcome.error.message, /failed on purpose/);
}

async function failsByResult({ session }) {
  const execution = await session.callTool("fail", {});
  const { outcome } = await execution.settle();
  assert.equal(outcome.status, "completed", String(outcome.error));
  assert.equal(outcome.result.isError, true);
  assert.match(textOf(outcome.result), /failed on purpose/);
}

/**
 * A task's progress goes on with the token of the call that made it. Followed until enough has been seen, however late
 * a busy machine tells it; the rest is of no interest.
 */
async function seesProgress(peer) {
  const task = { preference: "require" };
  const execution = await peer.session.callTool("slow", { seconds: 60, steps: 120 }, { task, metadata: { progressToken: 7 } });
  assert.equal(execution.kind, "task");
  const told = () => peer.wire.notifications("notifications/progress").map(({ params }) => params);
  let over = false;
  const result = execution.result().finally(() => {
    over = true;
  });
  while (told().length < 4 && !over) await pause(50);
  await execution.cancel();
  await result;
  assert.ok(told().every(({ progressToken }) => progressToken === 7), JSON.stringify(told()));
  assertRises(told(), 4);
}

async function noProgress(peer) {
  const execution = await peer.session.callTool("slow", { seconds: 5, steps: 10 }, { metadata: { progressToken: 7 } });
  assert.equal(execution.kind, "task");
  const since = performance.now();
  await execution.result();
  assert.deepEqual(peer.wire.notifications("notifications/progress", since), []);
}
