// The set `echo`: what every client does first, with tools that answer in place.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";

import { assertRises, failure, success, textOf } from "./answer.mjs";
import { withPeer } from "./peer.mjs";
import { MODERN } from "./target.mjs";

/** How long a cancelled call may still be heard of, in milliseconds: what was on its way. */
const ON_ITS_WAY = 400;

/** The checks of this set for the client of an era. */
export function echoChecks(era, target) {
  const on = (use, options) => () => withPeer(era, target, use, options);
  const both = [
    ["negotiates its revision", on(async (peer) => assert.equal(peer.revision(), peer.expected))],
    ["lists the tools with their schemas", on(listsTools)],
    ["gets its message back", on(getsMessage)],
    ["gets the right answer to each of many calls at once", on(manyAtOnce)],
    ["sees progress rise", on(seesProgress)],
    ["is sent no progress that it did not ask for", on(noProgress)],
    ["cancels a call and goes on", on(cancels)],
    ["is told when a tool fails", on(toolFails)],
    ["is told of an argument of the wrong type", on((peer) => refuses(peer, { message: 5 }))],
    ["is told of a missing argument", on((peer) => refuses(peer, {}))],
    ["is told of a tool that does not exist", on(unknownTool)],
  ];
  const modern = [["finds the modern era without being told", on(findsModern, { mode: "auto" })]];
  const legacy = [["pings", on((peer) => peer.client.ping())]];
  return [...both, ...(era === "modern" ? modern : legacy)];
}

async function listsTools(peer) {
  const tools = new Map((await peer.tools()).map((tool) => [tool.name, tool]));
  for (const name of ["echo", "slow", "fail"]) {
    assert.ok(tools.get(name)?.description, `${name} is not listed with a description: ${[...tools.keys()]}`);
    assert.equal(tools.get(name).inputSchema.type, "object");
  }
  const { properties, required } = tools.get("echo").inputSchema;
  assert.equal(properties.message.type, "string");
  assert.deepEqual(required, ["message"]);
}

async function getsMessage(peer) {
  for (const message of ["hello", "", 'quote " backslash \\ newline \n', "é 漢字 🚚", "x".repeat(60_000)]) {
    assert.equal(textOf(success(await peer.call("echo", { message }))), message);
  }
}

async function manyAtOnce(peer) {
  const messages = Array.from({ length: 50 }, (_, index) => `message ${index}`);
  const answers = await Promise.all(messages.map((message) => peer.call("echo", { message })));
  assert.deepEqual(answers.map(textOf), messages);
}

async function seesProgress(peer) {
  const seen = [];
  const result = await peer.call("slow", { seconds: 1, steps: 4 }, { onprogress: (progress) => seen.push(progress) });
  assert.match(textOf(success(result)), /step 4 of 4/);
  assertRises(seen, 3);
  assert.match(seen[0].message ?? "", /step/);
  assert.equal(seen[0].total, 4);
}

async function noProgress(peer) {
  success(await peer.call("slow", { seconds: 0.4, steps: 4 }));
  assert.deepEqual(peer.wire.notifications("notifications/progress"), []);
}

async function cancels(peer) {
  const abort = new AbortController();
  let seen = 0;
  const call = peer.call("slow", { seconds: 20, steps: 80 }, {
    signal: abort.signal,
    onprogress: () => {
      seen += 1;
      if (seen === 2) abort.abort(new Error("changed my mind"));
    },
  });
  await assert.rejects(call, (error) => !/nothing came/.test(error.message));
  const since = performance.now() + ON_ITS_WAY;
  await pause(ON_ITS_WAY + 1_000);
  assert.deepEqual(peer.wire.notifications("notifications/progress", since), [], "the cancelled call went on");
  assert.equal(textOf(success(await peer.call("echo", { message: "still here" }))), "still here");
}

async function toolFails(peer) {
  const { code, text } = await failure(peer.call("fail", {}));
  assert.equal(code, undefined, "a tool's failure is a result, not a protocol error");
  assert.match(text, /failed on purpose/);
}

async function refuses(peer, args) {
  const { text } = await failure(peer.call("echo", args));
  assert.match(text, /message/, "the error does not name the argument");
}

async function unknownTool(peer) {
  const { text } = await failure(peer.call("no_such_tool", {}));
  assert.match(text, /no_such_tool/, "the error does not name the tool");
}

async function findsModern(peer) {
  assert.equal(peer.client.getProtocolEra(), "modern");
  assert.equal(peer.revision(), MODERN);
}
