// One face for both clients, so that a check is written once.

import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

import { connectLegacy, connectModern, LEGACY, MODERN } from "./target.mjs";
import { watch } from "./wire.mjs";

/** How the client of an era is connected: `@modelcontextprotocol/client` speaks the legacy era as well. */
const CONNECT = {
  modern,
  legacy,
  sse: (target, options) => legacy(target, { ...options, sse: true }),
  "v2-legacy": (target, options) => modern(target, { ...options, mode: "legacy" }),
};

/** Connects the client of an era, runs `use`, and closes it whatever happens. */
export async function withPeer(era, target, use, options) {
  const peer = await CONNECT[era](target, options);
  try {
    return await use(peer);
  } finally {
    await peer.client.close();
  }
}

async function modern(target, options) {
  const { client, transport } = await connectModern(target, options);
  const isModern = client.getProtocolEra() === "modern";
  return {
    ...face(client),
    wire: watch(transport),
    isModern,
    // This client reads the legacy era's -32002 as -32602, too.
    missingResource: -32602,
    expected: isModern ? MODERN : LEGACY,
    revision: () => client.getNegotiatedProtocolVersion(),
    call: (name, args, options) => client.callTool({ name, arguments: args, ...meta(options) }, options),
    answer: (method, handler) => client.setRequestHandler(method, handler),
    hear: (method, handler) => client.setNotificationHandler(method, handler),
    listen: (filter) => (isModern ? client.listen(filter) : subscribe(client, filter)),
    // The era has no level of a connection: each request says its own.
    logFrom: async (level) => {
      if (isModern) return { "io.modelcontextprotocol/logLevel": level };
      await client.setLoggingLevel(level);
      return undefined;
    },
  };
}

async function legacy(target, options) {
  const { client, transport, revision } = await connectLegacy(target, options);
  return {
    ...face(client),
    wire: watch(transport),
    isModern: false,
    missingResource: -32002,
    expected: LEGACY,
    revision: () => revision,
    call: (name, args, options) => client.callTool({ name, arguments: args, ...meta(options) }, undefined, options),
    answer: (method, handler) => client.setRequestHandler(SCHEMAS[method], handler),
    hear: (method, handler) => client.setNotificationHandler(SCHEMAS[method], handler),
    listen: (filter) => subscribe(client, filter),
    logFrom: async (level) => void (await client.setLoggingLevel(level)),
  };
}

/** What both clients call alike. */
function face(client) {
  return {
    client,
    tools: async () => (await client.listTools()).tools,
    read: async (uri) => (await client.readResource({ uri })).contents,
  };
}

function meta({ meta } = {}) {
  return meta === undefined ? {} : { _meta: meta };
}

/** In a session lists are heard of without asking. */
async function subscribe(client, { resourceSubscriptions = [] }) {
  for (const uri of resourceSubscriptions) await client.subscribeResource({ uri });
  return { close: async () => {} };
}

/** The older client knows a method by its schema. */
const SCHEMAS = {
  "elicitation/create": ElicitRequestSchema,
  "notifications/message": LoggingMessageNotificationSchema,
  "notifications/prompts/list_changed": PromptListChangedNotificationSchema,
  "notifications/resources/list_changed": ResourceListChangedNotificationSchema,
  "notifications/resources/updated": ResourceUpdatedNotificationSchema,
  "notifications/tools/list_changed": ToolListChangedNotificationSchema,
  "roots/list": ListRootsRequestSchema,
  "sampling/createMessage": CreateMessageRequestSchema,
};
