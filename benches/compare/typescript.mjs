// The TypeScript SDK: JSON answers and no sessions are what it does by itself in the modern era.
// `typescript.mjs (stdio | http)`; over HTTP it prints its URL as the first line.

import { createServer } from "node:http";

import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const inputSchema = z.object({ message: z.string().describe("What to say back.") });

function bench() {
  const server = new McpServer({ name: "bench", version: "1.0.0" });
  server.registerTool("echo", { description: "Say the message back", inputSchema }, async ({ message }) => ({
    content: [{ type: "text", text: message }],
  }));
  return server;
}

if (process.argv[2] === "stdio") {
  serveStdio(bench);
} else {
  const web = createServer(toNodeHandler(createMcpHandler(bench)));
  web.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${web.address().port}/mcp`));
}
