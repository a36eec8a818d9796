// One face for both clients, so that a check is written once.

import { connectLegacy, connectModern, LEGACY, MODERN } from "./target.mjs";
import { watch } from "./wire.mjs";

/** Connects the client of an era, runs `use`, and closes it whatever happens. */
export async function withPeer(era, target, use, options) {
  const peer = await (era === "modern" ? modern : legacy)(target, options);
  try {
    return await use(peer);
  } finally {
    await peer.client.close();
  }
}

async function modern(target, options) {
  const { client, transport } = await connectModern(target, options);
  return {
    client,
    wire: watch(transport),
    expected: MODERN,
    revision: () => client.getNegotiatedProtocolVersion(),
    tools: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, options),
    read: async (uri) => (await client.readResource({ uri })).contents,
  };
}

async function legacy(target, options) {
  const { client, transport, revision } = await connectLegacy(target, options);
  return {
    client,
    wire: watch(transport),
    expected: LEGACY,
    revision: () => revision,
    tools: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    read: async (uri) => (await client.readResource({ uri })).contents,
  };
}
