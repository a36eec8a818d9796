// The server that the checks are pointed at.

import { Client as ModernClient, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport as LegacyStdio } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as LegacyHttp } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

export const MODERN = "2026-07-28";
export const LEGACY = "2025-11-25";

const INFO = { name: "longhaul-interop", version: "1.0.0" };

/** Connects `@modelcontextprotocol/client`. `mode` is what its version negotiation is told. */
export async function connectModern(target, { mode = { pin: MODERN }, capabilities = {} } = {}) {
  const client = new ModernClient(INFO, { capabilities, versionNegotiation: { mode } });
  const transport =
    target.url === undefined
      ? new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), stderr: "inherit" })
      : new StreamableHTTPClientTransport(new URL(target.url));
  await client.connect(transport);
  return { client, transport };
}

/** Connects `@modelcontextprotocol/sdk`; with `sse` by the transport of 2024-11-05, beside the endpoint. */
export async function connectLegacy(target, { capabilities = {}, sse = false } = {}) {
  const client = new LegacyClient(INFO, { capabilities });
  const transport =
    target.url === undefined
      ? new LegacyStdio({ command: target.command[0], args: target.command.slice(1), stderr: "inherit" })
      : sse
        ? new SSEClientTransport(new URL("/sse", target.url))
        : new LegacyHttp(new URL(target.url));
  // The client tells its transport what was negotiated, and nobody else.
  let revision;
  const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => {
    revision = version;
    setProtocolVersion?.(version);
  };
  await client.connect(transport);
  return { client, transport, revision };
}
