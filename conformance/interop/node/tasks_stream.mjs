// The set `tasks` of the legacy client: 2025-11-25 tasks through `callToolStream`.

import assert from "node:assert/strict";

import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";

import { assertRises, failure, success, textOf } from "./answer.mjs";
import { withPeer } from "./peer.mjs";

/** A day in milliseconds: a host that counts a task's time from its creation must not lose it sooner. */
const DAY = 24 * 60 * 60 * 1000;

/** The checks of this set. */
export function streamChecks(target) {
  const on = (use) => () => withPeer("legacy", target, async (peer) => {
    // The client learns from the list which tools may run as tasks.
    await peer.tools();
    await use(peer);
  });
  return [
    ["sees what the server can do with tasks", on(seesCapabilities)],
    ["runs a long call as a task to its result", on(runsToResult)],
    ["sees progress on the token of the call", on(seesProgress)],
    ["is told of a failure by the task's status", on(seesFailure)],
    ["cancels a task", on(cancels)],
    ["is told of a bad argument", on(badArgument)],
    ["is told of a task that does not exist", on(unknownTask)],
    ["calls the same tool without a task", on(callsPlainly)],
  ];
}

/** Follows a call to its last message; `onMessage` sees each. */
async function follow(peer, name, args, options = {}, onMessage = () => {}) {
  const messages = [];
  const stream = peer.client.experimental.tasks.callToolStream({ name, arguments: args }, undefined, options);
  for await (const message of stream) {
    messages.push(message);
    await onMessage(message);
  }
  return messages;
}

async function seesCapabilities(peer) {
  const tasks = peer.client.getServerCapabilities().tasks;
  assert.deepEqual(tasks?.requests?.tools?.call, {});
  assert.deepEqual(tasks.cancel, {});
  const support = new Map((await peer.tools()).map((tool) => [tool.name, tool.execution?.taskSupport]));
  assert.equal(support.get("slow"), "optional");
  assert.equal(support.get("fail"), "optional");
  assert.ok([undefined, "forbidden"].includes(support.get("echo")), `echo: ${support.get("echo")}`);
}

async function runsToResult(peer) {
  const messages = await follow(peer, "slow", { seconds: 4, steps: 8 });
  const [created, ...rest] = messages;
  assert.equal(created.type, "taskCreated", JSON.stringify(created));
  assert.equal(created.task.status, "working");
  assert.ok(created.task.ttl === null || created.task.ttl >= DAY, `ttl ${created.task.ttl}`);
  const statuses = rest.filter((message) => message.type === "taskStatus").map(({ task }) => task);
  const said = new Set(statuses.map((task) => task.statusMessage).filter(Boolean));
  assert.ok(said.size >= 2, `statusMessage did not follow the work: ${JSON.stringify(statuses)}`);
  assert.equal(statuses.at(-1).status, "completed");
  const last = messages.at(-1);
  assert.equal(last.type, "result", String(last.error));
  assert.match(textOf(success(last.result)), /step 8 of 8/);
  assert.equal(last.result._meta?.["io.modelcontextprotocol/related-task"]?.taskId, created.task.taskId);
}

/** Followed until enough has been seen, however late a busy machine tells it; the rest is of no interest. */
async function seesProgress(peer) {
  const seen = [];
  let taskId;
  let over;
  const onprogress = (progress) => {
    if (seen.push(progress) === 4) over = peer.client.experimental.tasks.cancelTask(taskId);
  };
  await follow(peer, "slow", { seconds: 60, steps: 120 }, { onprogress }, (message) => {
    taskId ??= message.task?.taskId;
  });
  assertRises(seen, 4);
  assert.equal((await over).status, "cancelled");
}

async function seesFailure(peer) {
  const messages = await follow(peer, "fail", {});
  const last = messages.filter((message) => message.type === "taskStatus").at(-1);
  assert.equal(last?.task.status, "failed", JSON.stringify(messages));
  assert.match(last.task.statusMessage, /failed on purpose/);
  // This client throws the stored result of a failed task away; the server must still have it.
  const result = await peer.client.experimental.tasks.getTaskResult(last.task.taskId, CallToolResultSchema);
  assert.equal(result.isError, true);
  assert.match(textOf(result), /failed on purpose/);
}

async function cancels(peer) {
  let taskId;
  const messages = await follow(peer, "slow", { seconds: 60, steps: 120 }, {}, async (message) => {
    if (message.type === "taskCreated") taskId = message.task.taskId;
    if (message.type === "taskStatus" && message.task.status === "working") {
      const task = await peer.client.experimental.tasks.cancelTask(taskId);
      assert.equal(task.status, "cancelled");
    }
  });
  assert.match(messages.at(-1).error?.message ?? "", /cancelled/);
  const { code } = await failure(peer.client.experimental.tasks.cancelTask(taskId));
  assert.equal(code, -32602, "a task that is over cannot be cancelled");
}

async function badArgument(peer) {
  const messages = await follow(peer, "slow", { seconds: "long", steps: 4 });
  const said = messages.map((message) => message.error?.message ?? message.task?.statusMessage ?? "").join("\n");
  assert.notEqual(messages.at(-1).type, "result", JSON.stringify(messages));
  assert.match(said, /seconds/);
}

async function unknownTask(peer) {
  const { code } = await failure(peer.client.experimental.tasks.getTask("no-such-task"));
  assert.equal(code, -32602);
}

async function callsPlainly(peer) {
  const result = await peer.call("slow", { seconds: 1, steps: 4 });
  assert.match(textOf(success(result)), /step 4 of 4/);
}
