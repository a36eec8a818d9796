// Calls that outlive ours, which stands before servers of others and is killed: `node killed.mjs (begin | end) URL FILE`.
// `begin` starts them with every kind of client and writes to FILE how to come back, `end` comes back.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

import { success, textOf } from "./answer.mjs";
import { waitFor } from "./held.mjs";
import { withPeer } from "./peer.mjs";
import { report } from "./tap.mjs";
import { withSession } from "./tasks_session.mjs";

/** What its server says once it has begun. */
const BEGUN = "half of it";

/** What is called, with what, and what must come of it if anything can: `killed.rs` configures the servers by these names. */
const CALLS = JSON.parse(await readFile("conformance/interop/killed.json", "utf8"));

/** Clients with tasks, and hosts without. */
const DIALECTS = ["d2", "d3"];
const HOSTS = ["v2-legacy", "modern"];

const [verb, url, file] = process.argv.slice(2);
const target = { url };
if (verb === "begin") {
  const begun = await Promise.all([...DIALECTS.map(startWithTasks), ...HOSTS.map(startWithout)]);
  const all = begun.flat();
  await withSession("d3", target, async ({ session }) => {
    for (const { tool, taskId } of all.filter(({ tool }) => tool === "its_work")) {
      let said;
      while (!(said = (await session.task(taskId).snapshot()).statusMessage)?.includes(BEGUN)) await pause(50);
      console.log(`# ${tool}: ${said}`);
    }
  });
  await writeFile(file, JSON.stringify(all));
  process.exit(0);
} else if (verb === "end") {
  const begun = JSON.parse(await readFile(file, "utf8"));
  const of = (client) => begun.filter((call) => call.client === client);
  const ended = new Map();
  const all = [
    ...DIALECTS.map((client) => withSession(client, target, ({ session }) => each(of(client), ended, comeBack(session)))),
    ...HOSTS.map((client) => withPeer(client, target, (peer) => each(of(client), ended, waited(peer)))),
  ];
  const over = Promise.all(all);
  const checks = begun.map((call) => [`${call.client}: ${call.tool}`, () => over.then(() => judged(call, ended.get(call)))]);
  process.exit((await report("killed", checks)) ? 0 : 1);
} else {
  console.error("usage: node killed.mjs (begin | end) URL FILE");
  process.exit(2);
}

function startWithTasks(client) {
  return withSession(client, target, ({ session, preference }) =>
    Promise.all(CALLS.map(async ({ tool, with: args }) => {
      const execution = await session.callTool(tool, args, { task: { preference } });
      assert.equal(execution.kind, "task", `${client}: ${tool} did not become a task`);
      let reference;
      await execution.handoff((made) => void (reference = JSON.parse(JSON.stringify(made))));
      return { client, tool, taskId: execution.handle.taskId, reference };
    })),
  );
}

function startWithout(client) {
  return withPeer(client, target, (peer) =>
    Promise.all(CALLS.map(async ({ tool, with: args }) => {
      const { taskId } = success(await peer.call(tool, args)).structuredContent ?? {};
      assert.ok(taskId, `${client}: ${tool} was not handed over`);
      return { client, tool, taskId };
    })),
  );
}

async function each(calls, ended, outcome) {
  const settled = await Promise.allSettled(calls.map(outcome));
  for (const [index, call] of calls.entries()) ended.set(call, settled[index]);
}

/** The text of what a task came to, and whether it failed. */
function comeBack(session) {
  return async ({ reference }) => {
    const { outcome } = await (await session.resumeTask(reference)).settle();
    if (outcome.error !== undefined) return { failed: true, text: outcome.error.message };
    return { failed: outcome.result.isError === true, text: textOf(outcome.result) };
  };
}

function waited(peer) {
  return async ({ taskId }) => {
    const result = await waitFor(peer, taskId);
    return { failed: result.isError === true, text: textOf(result) };
  };
}

function judged({ tool }, { value, reason }) {
  if (reason !== undefined) throw reason;
  const wanted = CALLS.find((call) => call.tool === tool).comes_to;
  if (wanted === undefined) assert.ok(value.failed && /gone|lost|no such task|not called twice/.test(value.text), value.text);
  else assert.ok(!value.failed && value.text.includes(wanted), value.text);
}
