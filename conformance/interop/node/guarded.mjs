// A protected `longhaul serve` with the tools that the checks of signing in call.

import { freeAddress, startServer } from "./server.mjs";

/** Where such a server will be: its address, what it is called and where its metadata is. */
export async function freePlace() {
  const address = await freeAddress();
  return {
    address,
    resource: `http://${address}/mcp`,
    metadata: `http://${address}/.well-known/oauth-protected-resource/mcp`,
  };
}

/** Starts it there; `auth` is what `[auth]` says besides its name and the scope that everything takes. */
export function startGuarded(program, { address, resource }, auth, env) {
  return startServer(program, address, `[auth]\nresource = "${resource}"\nscope = "mcp"\n${auth}\n${TOOLS}`, env);
}

/** One tool for who was let in, one for who may do more, and one that takes its time. */
export const TOOLS = `
[tools.echo]
description = "Answer with the message."
command = ["printf", "%s", "{message}"]
input.message = { type = "string", description = "What to answer with" }

[tools.deploy]
description = "Deploy."
command = ["printf", "deployed"]
scope = "deploy"

[tools.slow]
description = "Take some seconds."
command = ["sh", "-c", "sleep 5; printf slept"]
task = "after 100ms"
`;
