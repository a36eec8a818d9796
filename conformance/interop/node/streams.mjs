// The set `streams`: a stream of HTTP that breaks while a call runs. In a session the client comes back for the rest;
// in the modern era, where closing a stream cancels its call, it is told.

import assert from "node:assert/strict";

import { success, textOf } from "./answer.mjs";
import { cutAt } from "./cut.mjs";
import { withPeer } from "./peer.mjs";

const STEPS = { seconds: 1.5, steps: 6 };

/** The checks of this set for the client of an era. */
export function streamsChecks(era, target) {
  const modern = [["is told when its stream breaks, and goes on", () => throughCut(era, target, isTold)]];
  const legacy = [
    ["comes back to a stream that broke, and misses nothing", () => throughCut(era, target, comesBack)],
    ["comes back to a stream that the server closed", () => throughCut(era, target, isLetGo, "never said")],
  ];
  return era === "modern" ? modern : legacy;
}

async function throughCut(era, target, use, word = "step 2 of 6") {
  assert.ok(target.url, "this set is about HTTP");
  const relay = await cutAt(target.url, word);
  try {
    await withPeer(era, { url: relay.url }, (peer) => use(peer, relay));
  } finally {
    await relay.close();
  }
}

async function comesBack(peer, relay) {
  const seen = [];
  const result = await peer.call("slow", STEPS, { onprogress: ({ message }) => seen.push(message) });
  assert.match(textOf(success(result)), /step 6 of 6/);
  assert.equal(relay.cuts(), 1, "nothing was cut");
  assert.ok(relay.resumptions() >= 1, "it did not come back");
  assert.deepEqual(seen, [1, 2, 3, 4, 5, 6].map((step) => `step ${step} of 6`));
}

async function isLetGo(peer, relay) {
  const seen = [];
  const result = await peer.call("leave", {}, { onprogress: ({ progress }) => seen.push(progress) });
  assert.equal(textOf(success(result)), "for who came back");
  assert.ok(relay.resumptions() >= 1, "it did not come back");
  assert.deepEqual(seen, [1, 2, 3]);
}

async function isTold(peer, relay) {
  await assert.rejects(peer.call("slow", STEPS, { onprogress: () => {}, timeout: 10_000 }));
  assert.equal(relay.cuts(), 1, "nothing was cut");
  assert.equal(textOf(success(await peer.call("echo", { message: "still here" }))), "still here");
}
