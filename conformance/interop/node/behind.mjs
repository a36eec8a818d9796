// Clients at a server, and then at the same one behind ours: what they see must be the same.
//   node behind.mjs SERVER BEFORE BEHIND
// BEFORE and BEHIND are targets as JSON, `{"url": …}` or `{"command": […]}`; behind.json says which clients do what.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

import { withPeer } from "./peer.mjs";
import { report, within } from "./tap.mjs";
import { withSession } from "./tasks_session.mjs";

const [server, before, behind] = process.argv.slice(2);
if (behind === undefined) {
  console.error("usage: node behind.mjs SERVER BEFORE BEHIND");
  process.exit(2);
}
const { node: pairs, steps, roots = true } = JSON.parse(await readFile("conformance/interop/behind.json", "utf8"))[server];

/** How long one step may take, in milliseconds. */
const LIMIT = 30_000;

/** Whoever is served on asks where to work only during calls: one that does so at its start would work elsewhere here. */
const ABLE = { sampling: {}, elicitation: { form: {}, url: {} }, ...(roots && { roots: {} }) };

/** What asks for each kind of input. */
const METHODS = { elicitation: "elicitation/create", sampling: "sampling/createMessage", roots: "roots/list" };

/** The clients that know tasks, and in which dialect. */
const DIALECTS = { "ext-tasks-d2": "d2", "ext-tasks-d3": "d3" };

/** The one that comes for the result of a task while that asks, which is when servers of 2025-11-25 put what it asks. */
const STREAM = "legacy-tasks";

const knowsTasks = (client) => client in DIALECTS || client === STREAM;

/** What a client with tasks sees without ours of one that asks. */
const hears = ({ asks }, like) => !asks || like !== "ext-tasks-d2";

/** Which steps of a pair are compared: a client with tasks is there for those that take long, the others for the rest. */
const shared = ([client, like]) =>
  [...steps.keys()].filter(
    (index) => (knowsTasks(client) || knowsTasks(like)) === (steps[index].task !== undefined) && hears(steps[index], like),
  );

const visits = new Map();
const checks = pairs.flatMap((pair) =>
  shared(pair).map((index) => [`${pair[0]} at ${server}: ${named(steps[index])}`, () => compared(pair, index)]),
);
const passed = await report(`${server} behind ours`, checks);
process.exit(passed ? 0 : 1);

/** The client must see behind ours what the other one sees without. */
async function compared([client, like], index) {
  const theirs = (await visit(like, 1, before)).get(index);
  assert.equal(theirs.lost, undefined, `without ours: ${theirs.lost}`);
  const ours = (await visit(client, 0, behind)).get(index);
  if (ours.progress === undefined || theirs.progress === undefined) return assert.deepEqual(ours, theirs);
  // A client drops progress that it reads together with the answer, at either: one has been told all that the other was.
  const [more, fewer] = [ours.progress, theirs.progress].sort((one, other) => other.length - one.length);
  const words = more.map((each) => JSON.stringify(each));
  const at = fewer.map((each) => words.indexOf(JSON.stringify(each)));
  const isPart = at.every((place, index) => place >= 0 && (index === 0 || place > at[index - 1]));
  assert.ok(isPart && (fewer.length > 0 || more.length === 0), JSON.stringify({ behind: ours.progress, without: theirs.progress }));
  assert.deepEqual({ ...ours, progress: [] }, { ...theirs, progress: [] });
}

/** What a client sees at a target, by step, over one connection. `side` is its place in the pairs. */
function visit(client, side, target) {
  const key = `${client} ${side}`;
  if (!visits.has(key)) {
    const wanted = new Set(pairs.filter((pair) => pair[side] === client).flatMap(shared));
    visits.set(key, walk(client, JSON.parse(target), [...wanted].sort((one, other) => one - other)));
  }
  return visits.get(key);
}

async function walk(client, target, wanted) {
  const [seen, told] = [new Map(), {}];
  const use = async (peer) => {
    await within(LIMIT, haveCome(peer.client, wanted));
    for (const index of wanted) seen.set(index, await came(steps[index], { ...peer, told }));
  };
  const answers = answersOf(told);
  const answering = async (peer) => {
    for (const [method, answer] of Object.entries(answers)) peer.answer(method, ({ params }) => answer(params));
    // It learns from the list which tools may run as tasks.
    if (client === STREAM) await peer.tools();
    return use({ ...peer, streams: client === STREAM });
  };
  const dialect = DIALECTS[client];
  const onInputRequest = ({ kind, params }) => answers[METHODS[kind]](params);
  if (dialect !== undefined) await withSession(dialect, target, use, { capabilities: ABLE, onInputRequest });
  else await withPeer(client === STREAM ? "legacy" : client, target, answering, { capabilities: ABLE });
  return seen;
}

/** Waits until the tools are there that are called: some servers put them up once they know what a client is able to do. */
async function haveCome(client, wanted) {
  const called = wanted.map((index) => steps[index]).filter(({ fails }) => !fails);
  const awaited = called.map(({ call, task }) => call ?? task).filter(Boolean);
  for (;;) {
    const listed = (await client.listTools()).tools.map(({ name }) => name);
    if (awaited.every((name) => listed.includes(name))) return;
    await pause(50);
  }
}

function named(step) {
  const [kind, what] = Object.entries(step)[0];
  return typeof what === "string" ? `${kind} ${what}` : kind;
}

/** What a step comes to: a result, or an error, and what was asked and told meanwhile; of one that `fails`, that it does. */
async function came(step, peer) {
  Object.assign(peer.told, { asked: [], progress: [] });
  try {
    const result = await within(LIMIT, taken(step, peer));
    return step.fails ? { failed: result.isError === true } : plain({ result, ...peer.told });
  } catch (error) {
    if (typeof error.code !== "number") return { lost: error.stack };
    if (step.fails) return { failed: true };
    // Each era has its own code for what is not there.
    return plain({ error: error.message.replace(/^(MCP error -\d+: )+/, ""), ...peer.told });
  }
}

/** What the client answers, by what it is asked; it remembers what that was. */
function answersOf(told) {
  const noted = (method, how) => (params) => {
    const { _meta, elicitationId, mode, ...question } = params;
    told.asked.push({ method, mode: mode ?? "form", question });
    return how(params);
  };
  const sampled = ({ messages }) => {
    const [{ text }] = [messages.at(-1).content].flat();
    return { role: "assistant", model: "a model", stopReason: "endTurn", content: { type: "text", text: `re: ${text}` } };
  };
  const elicited = (form) =>
    form.mode === "url" ? { action: "accept" } : { action: "accept", content: filledIn(form.requestedSchema) };
  return {
    [METHODS.sampling]: noted(METHODS.sampling, sampled),
    [METHODS.elicitation]: noted(METHODS.elicitation, elicited),
    // Servers ask for these on their own, too.
    ...(roots && { [METHODS.roots]: () => ({ roots: [{ uri: "file:///work", name: "work" }] }) }),
  };
}

/** What a user sends who puts the first thing that fits into every field that must be filled in. */
function filledIn({ properties, required = [] }) {
  const fits = ({ type, enum: names, oneOf, default: usual }) =>
    usual ?? names?.[0] ?? oneOf?.[0].const ?? { boolean: true, integer: 7, number: 7 }[type] ?? "Ada";
  return Object.fromEntries(required.map((name) => [name, fits(properties[name])]));
}

async function taken(step, peer) {
  const { client, told } = peer;
  const args = step.with ?? {};
  switch (Object.keys(step)[0]) {
    case "tools":
      return ordered((await peer.tools()).filter(({ name }) => !name.startsWith("task_")).map(asThere), "name");
    case "resources":
      return ordered((await client.listResources()).resources, "uri");
    case "templates": {
      const { resourceTemplates } = await client.listResourceTemplates();
      // Where ours puts the output of tasks.
      return ordered(resourceTemplates.filter(({ uriTemplate }) => !uriTemplate.startsWith("longhaul:")), "uriTemplate");
    }
    case "prompts":
      return ordered((await client.listPrompts()).prompts, "name");
    case "call":
      return peer.call(step.call, args, {
        onprogress: ({ progress, total, message }) => {
          // The client tells of its own rounds as well, and not of what comes together with the answer.
          if (!message?.startsWith("Fulfilling") && progress !== total) told.progress.push({ progress, total, message });
        },
      });
    case "read":
      return peer.read(step.read);
    case "prompt":
      return client.getPrompt({ name: step.prompt, arguments: args });
    case "complete":
      return (await client.complete({ ref: step.complete, ...args })).completion;
    case "watch":
      return watched(peer, step);
    case "grow":
      return grown(peer, step);
    case "task":
      return worked(peer, step.task, args);
  }
  throw new Error(`no client knows how to ${JSON.stringify(step)}`);
}

/** Hears of a resource that changes. */
async function watched(peer, { watch, with: [change] }) {
  let heard;
  peer.hear("notifications/resources/updated", ({ params: { uri } }) => void (heard = uri));
  const subscription = await peer.listen({ resourceSubscriptions: [watch] });
  // A session's stream may still be opening.
  for (let times = 0; times < 50 && heard === undefined; times += 1) {
    await peer.call(change, {});
    for (let looks = 0; looks < 4 && heard === undefined; looks += 1) await pause(50);
  }
  await subscription.close();
  assert.ok(heard, `nothing was heard of ${watch}`);
  return { heard };
}

/** Hears of a tool that comes and goes, and calls it in between. */
async function grown(peer, { grow, tool }) {
  const told = { times: 0 };
  peer.hear("notifications/tools/list_changed", () => void (told.times += 1));
  const subscription = await peer.listen({ toolsListChanged: true });
  const turn = async (isThere) => {
    const before = told.times;
    await peer.call(grow, { [tool]: isThere });
    for (let looks = 0; looks < 60; looks += 1) {
      const isListed = (await peer.tools()).some(({ name }) => name === tool);
      if (isListed === isThere && told.times > before) return true;
      await pause(50);
    }
    return false;
  };
  let came = await turn(true);
  // A session's stream was still opening.
  for (let times = 0; times < 2 && !came; times += 1) {
    await turn(false);
    came = await turn(true);
  }
  assert.ok(came, `nothing was heard of ${tool}`);
  const called = await peer.call(tool, {});
  assert.ok(await turn(false), `nothing was heard of the end of ${tool}`);
  await subscription.close();
  return called;
}

/** A call of what takes long: as a task, where the client has any. */
async function worked({ session, preference, streams, client, call }, name, args) {
  if (streams) return streamed(client, name, args);
  if (session === undefined) return call(name, args);
  const execution = await session.callTool(name, args, { task: { preference } });
  const { outcome } = await execution.settle();
  if (outcome.error !== undefined) throw outcome.error;
  return outcome.result;
}

async function streamed(client, name, args) {
  let last;
  for await (const message of client.experimental.tasks.callToolStream({ name, arguments: args })) last = message;
  if (last.type === "error") throw last.error;
  return last.result;
}

/** Ours says by itself when a call becomes a task, and that it may be handed over. */
function asThere({ execution, outputSchema, ...tool }) {
  const own = outputSchema?.anyOf?.length === 2 ? outputSchema.anyOf[0] : outputSchema;
  return own === undefined ? tool : { ...tool, outputSchema: own };
}

function ordered(list, key) {
  return list.toSorted((one, other) => (one[key] < other[key] ? -1 : 1));
}

/** Without what says who has answered when and over which protocol. */
function plain(seen) {
  const own = ["io.modelcontextprotocol/related-task", "io.modelcontextprotocol/serverInfo"];
  const text = JSON.stringify(seen, (key, value) => {
    if (key === "_meta") {
      const rest = Object.entries(value).filter(([name]) => !own.includes(name) && !name.startsWith("dev.longhaul/"));
      return rest.length === 0 ? undefined : Object.fromEntries(rest);
    }
    const isUsual = ["required", "isError"].includes(key) && value === false;
    return isUsual || ["resultType", "ttlMs", "cacheScope"].includes(key) ? undefined : value;
  });
  return JSON.parse(text.replace(/\d{1,2}:\d\d:\d\d( [AP]M)?/g, "TIME"));
}
