// The Node clients against a server: `node rig.mjs CLIENT SET (--url URL | -- COMMAND…)`.

import { asksChecks } from "./asks.mjs";
import { echoChecks } from "./echo.mjs";
import { heldChecks } from "./held.mjs";
import { inspectorChecks } from "./inspector.mjs";
import { offerChecks } from "./offer.mjs";
import { outputChecks } from "./output.mjs";
import { streamsChecks } from "./streams.mjs";
import { report } from "./tap.mjs";
import { sessionChecks } from "./tasks_session.mjs";
import { streamChecks } from "./tasks_stream.mjs";

/** Which client has which set of checks. */
const SETS = {
  modern: {
    ...offered("modern"),
    echo: (target) => echoChecks("modern", target),
    held: (target) => heldChecks("modern", target),
    output: (target) => outputChecks("modern", target),
  },
  "v2-legacy": {
    ...offered("v2-legacy"),
    echo: (target) => echoChecks("v2-legacy", target),
  },
  legacy: {
    ...offered("legacy"),
    sse: (target) => [echoChecks, offerChecks, asksChecks].flatMap((checks) => checks("sse", target)),
    echo: (target) => echoChecks("legacy", target),
    held: (target) => heldChecks("legacy", target),
    output: (target) => outputChecks("legacy", target),
    tasks: streamChecks,
  },
  "inspector-modern": { offer: (target) => inspectorChecks("modern", target) },
  "inspector-legacy": {
    offer: (target) => inspectorChecks("legacy", target),
    sse: (target) => inspectorChecks("sse", target),
  },
  "ext-tasks-d2": { tasks: (target) => sessionChecks("d2", target) },
  "ext-tasks-d3": { tasks: (target) => sessionChecks("d3", target) },
};

/** The sets about what a server offers and asks. */
function offered(era) {
  return {
    offer: (target) => offerChecks(era, target),
    asks: (target) => asksChecks(era, target),
    streams: (target) => streamsChecks(era, target),
  };
}

const [client, set, ...rest] = process.argv.slice(2);
const target = pointedAt(rest);
const checks = SETS[client]?.[set];
if (checks === undefined || target === undefined) {
  const known = Object.entries(SETS).map(([name, sets]) => `  ${name}: ${Object.keys(sets).join(", ")}`);
  console.error(`usage: node rig.mjs CLIENT SET (--url URL | -- COMMAND…)\n\nclients and their sets:\n${known.join("\n")}`);
  process.exit(2);
}
const over = target.url === undefined ? "stdio" : "http";
const passed = await report(`node ${client} ${set} over ${over}`, checks(target));
// A client that left a socket or a process behind must not keep the rig alive.
process.exit(passed ? 0 : 1);

function pointedAt([option, ...words]) {
  if (option === "--url" && words.length === 1) return { url: words[0] };
  if (option === "--" && words.length > 0) return { command: words };
  return undefined;
}
