// The set `output`: commands as tools, for a client without tasks. What they print can be read while they run.

import assert from "node:assert/strict";

import { success, textOf } from "./answer.mjs";
import { companion, handOver, LONG, waitFor } from "./held.mjs";
import { withPeer } from "./peer.mjs";

/** The checks of this set for the client of an era. */
export function outputChecks(era, target) {
  const on = (use) => () => withPeer(era, target, use);
  return [
    ["reads the output of a running command", on(readsOutput)],
    ["reads the linked resource of a running command", on(readsResource)],
    // Over HTTP nobody here has a name, and what has none never joins.
    target.url === undefined
      ? ["finds its running command when it calls again", on(joins)]
      : ["starts a command of its own when it calls again without a name", on(startsAnother)],
    ["is told how the command ended", on(ends)],
  ];
}

async function readsOutput(peer) {
  const { taskId } = await handOver(peer, { ...LONG, seconds: 9 });
  assert.match(textOf(success(await companion(peer, "task_output", taskId))), /step 1 of 16/);
  success(await companion(peer, "task_cancel", taskId));
}

async function readsResource(peer) {
  const { taskId, result } = await handOver(peer, { ...LONG, seconds: 10 });
  const links = result.content.filter((block) => block.type === "resource_link").map((block) => block.uri);
  const stdout = links.find((uri) => uri.startsWith("longhaul://tasks/") && uri.includes("/stdout"));
  assert.ok(stdout, `no link to stdout: ${JSON.stringify(result.content)}`);
  const contents = await peer.read(stdout);
  assert.match(contents.map((part) => part.text).join(""), /^step 1 of 16/);
  success(await companion(peer, "task_cancel", taskId));
}

async function joins(peer) {
  const args = { ...LONG, seconds: 11 };
  const first = await handOver(peer, args);
  const second = await handOver(peer, args);
  assert.equal(second.taskId, first.taskId, "a second command was started");
  success(await companion(peer, "task_cancel", first.taskId));
}

async function startsAnother(peer) {
  const args = { ...LONG, seconds: 11 };
  const first = await handOver(peer, args);
  const second = await handOver(peer, args);
  assert.notEqual(second.taskId, first.taskId, "it was shown a command of somebody else's");
  for (const { taskId } of [first, second]) success(await companion(peer, "task_cancel", taskId));
}

async function ends(peer) {
  const { taskId } = await handOver(peer, { ...LONG, seconds: 7 });
  const result = success(await waitFor(peer, taskId));
  assert.match(textOf(result), /step 16 of 16\n$/);
  assert.equal(result._meta?.["dev.longhaul/run"]?.exitCode, 0, JSON.stringify(result._meta));
}
