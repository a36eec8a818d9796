// The set `held`: a client without tasks makes a call that takes longer than it may be held.

import assert from "node:assert/strict";

import { assertRises, failure, success, textOf } from "./answer.mjs";
import { withPeer } from "./peer.mjs";

/** A call that outlasts the time for which the server holds it. */
export const LONG = { seconds: 8, steps: 16 };

/** How often a task is waited for before its check gives up. */
const WAITS = 20;

/** The checks of this set for the client of an era. */
export function heldChecks(era, target) {
  const on = (use) => () => withPeer(era, target, use);
  return [
    ["is offered the companions of a task", on(offersCompanions)],
    ["is held with progress, then handed the task", on(isHandedOver)],
    ["gets the result by task_wait", on(waits)],
    ["cancels by task_cancel", on(cancels)],
    ["is told of a task that does not exist", on(unknownTask)],
    ["is told of a bad argument at once", on(badArgument)],
  ];
}

/** Makes a call that is handed over; its task's id, and the result that said so. */
export async function handOver(peer, args, options) {
  const result = success(await peer.call("slow", args, options));
  const { taskId } = result.structuredContent ?? {};
  assert.equal(typeof taskId, "string", `not handed over: ${JSON.stringify(result)}`);
  return { taskId, result };
}

/** Calls a companion with the task's id under the name that its schema gives it. */
export async function companion(peer, name, taskId) {
  const tool = (await peer.tools()).find((tool) => tool.name === name);
  assert.ok(tool, `${name} is not listed`);
  const [argument] = tool.inputSchema.required ?? [];
  assert.ok(argument, `${name} requires no argument to name the task`);
  return peer.call(name, { [argument]: taskId });
}

/** Waits until the task is over; what `task_wait` then answers. */
export async function waitFor(peer, taskId) {
  for (let wait = 0; wait < WAITS; wait += 1) {
    const result = await companion(peer, "task_wait", taskId);
    const goesOn = !result.isError && result.structuredContent?.taskId === taskId && isOpen(result.structuredContent);
    if (!goesOn) return result;
  }
  throw new Error(`task ${taskId} was not over after ${WAITS} waits`);
}

function isOpen({ status }) {
  return status === "working" || status === "input_required";
}

async function offersCompanions(peer) {
  const names = (await peer.tools()).map((tool) => tool.name);
  for (const name of ["task_wait", "task_output", "task_cancel"]) assert.ok(names.includes(name), `${name}: ${names}`);
}

async function isHandedOver(peer) {
  const seen = [];
  const { taskId, result } = await handOver(peer, LONG, { onprogress: (progress) => seen.push(progress) });
  assert.ok(textOf(result).includes(taskId), `the text does not name the task: ${textOf(result)}`);
  assert.match(textOf(result), /task_wait/, "the text does not say how to go on");
  assert.ok(isOpen(result.structuredContent), `status ${result.structuredContent.status}`);
  assertRises(seen, 1);
}

async function waits(peer) {
  const { taskId } = await handOver(peer, LONG);
  assert.match(textOf(success(await waitFor(peer, taskId))), /step 16 of 16/);
}

async function cancels(peer) {
  const { taskId } = await handOver(peer, { seconds: 60, steps: 60 });
  success(await companion(peer, "task_cancel", taskId));
  assert.match(textOf(await waitFor(peer, taskId)), /cancel/i);
}

async function unknownTask(peer) {
  const { text } = await failure(companion(peer, "task_wait", "no-such-task"));
  assert.match(text, /no-such-task|not found|unknown|no task/i);
}

async function badArgument(peer) {
  const { text } = await failure(peer.call("slow", { seconds: "long", steps: 4 }));
  assert.match(text, /seconds/);
}
