// The set `asks`: what a tool asks of its client while it runs.

import assert from "node:assert/strict";

import { failure, success, textOf } from "./answer.mjs";
import { withPeer } from "./peer.mjs";

const ABLE = { sampling: { tools: {} }, elicitation: { form: {}, url: {} }, roots: {} };

/** The checks of this set for the client of an era. */
export function asksChecks(era, target) {
  const on = (use, capabilities = ABLE) => () => withPeer(era, target, use, { capabilities });
  return [
    ["has its model asked", on(asksModel)],
    ["has its model asked, which uses a tool first", on(usesTool)],
    ["has its user fill in a form", on(fillsIn)],
    ["has its user decline a form, or go away", on(declines)],
    ["sends its user to a page", on(visits)],
    ["says where to work", on(saysRoots)],
    ["is asked three things at once", on(asksAll)],
    ["cannot be asked what it has not declared", on(cannotAsk, {})],
  ];
}

const answerModel = ({ params }) => {
  assert.equal(params.systemPrompt, "Answer in a word.");
  const [{ role, content }] = params.messages;
  assert.equal(role, "user");
  const [{ text }] = [content].flat();
  return { role: "assistant", model: "a model", stopReason: "endTurn", content: { type: "text", text: `re: ${text}` } };
};

const answerUser = ({ params }) => {
  const { properties, required } = params.requestedSchema;
  assert.deepEqual(properties.size.enum, ["small", "large"]);
  assert.deepEqual([properties.cups.type, properties.cups.default], ["integer", 1]);
  assert.deepEqual(properties.extras.items.anyOf.map(({ const: value }) => value), ["biscuit", "sugar"]);
  assert.deepEqual([...required].sort(), ["name", "size"]);
  return { action: "accept", content: { name: "Ada", cups: 2, size: "large", to_go: true, extras: ["sugar"] } };
};

const answerRoots = () => ({ roots: [{ uri: "file:///work", name: "work" }, { uri: "file:///tmp" }] });

async function asksModel(peer) {
  peer.answer("sampling/createMessage", answerModel);
  assert.equal(textOf(success(await peer.call("ask_model", { message: "Tea?" }))), "re: Tea?");
}

async function usesTool(peer) {
  peer.answer("sampling/createMessage", ({ params }) => {
    assert.deepEqual(params.tools.map(({ name }) => name), ["weather"]);
    const last = [params.messages.at(-1).content].flat()[0];
    const content =
      last.type === "tool_result"
        ? { type: "text", text: `It is ${last.content[0].text}` }
        : { type: "tool_use", id: "use-1", name: "weather", input: { city: "Oslo" } };
    return { role: "assistant", model: "a model", stopReason: last.type === "text" ? "toolUse" : "endTurn", content };
  });
  const result = success(await peer.call("ask_weather", { message: "How is Oslo?" }));
  assert.equal(textOf(result), 'It is {"city":"Oslo"}: 3.5');
}

async function fillsIn(peer) {
  peer.answer("elicitation/create", (request) => {
    assert.equal(request.params.message, "What would you like?");
    return answerUser(request);
  });
  const result = success(await peer.call("ask_user", { message: "What would you like?" }));
  assert.equal(textOf(result), "2 large for Ada to go with sugar");
}

async function declines(peer) {
  for (const [action, said] of [["decline", "declined"], ["cancel", "went away"]]) {
    peer.answer("elicitation/create", () => ({ action }));
    assert.equal(textOf(success(await peer.call("ask_user", { message: "Please?" }))), said);
  }
}

async function visits(peer) {
  peer.answer("elicitation/create", ({ params }) => {
    assert.deepEqual([params.mode, params.url], ["url", "https://example.com/sign-in"]);
    return { action: "accept" };
  });
  assert.equal(textOf(success(await peer.call("send_user", { message: "Sign in" }))), "went there");
  const done = peer.wire.notifications("notifications/elicitation/complete").map(({ params }) => params.elicitationId);
  assert.deepEqual(done, peer.isModern ? [] : ["sign-in"]);
}

async function saysRoots(peer) {
  peer.answer("roots/list", answerRoots);
  assert.equal(textOf(success(await peer.call("ask_roots", {}))), "file:///work file:///tmp");
}

async function asksAll(peer) {
  peer.answer("sampling/createMessage", answerModel);
  peer.answer("elicitation/create", answerUser);
  peer.answer("roots/list", answerRoots);
  const text = textOf(success(await peer.call("ask_all", {})));
  assert.equal(text, "re: Who are you?; 2 large for Ada to go with sugar; file:///work file:///tmp");
}

async function cannotAsk(peer) {
  for (const name of ["ask_model", "ask_user", "send_user"]) {
    assert.equal((await failure(peer.call(name, { message: "Hello?" }))).code, -32021, name);
  }
  assert.equal((await failure(peer.call("ask_roots", {}))).code, -32021);
}
