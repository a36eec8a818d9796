// The page: it connects to the server that its address names, and signs the guest book.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

/** Connects to a server; `mode` is what the negotiation of the revision is told. */
export async function connect(url, mode = "auto") {
  const client = new Client({ name: "guest-book-page", version: "1.0.0" }, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

const url = new URLSearchParams(location.search).get("server") ?? "http://127.0.0.1:8420/mcp";
const output = document.querySelector("output");
const say = (text) => void (output.textContent = text);

try {
  const client = await connect(url);
  const { tools } = await client.listTools();
  say(`Connected (${client.getNegotiatedProtocolVersion()}): ${tools.map(({ name }) => name).join(", ")}`);
  document.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = new FormData(event.target).get("name");
    const { content } = await client.callTool({ name: "sign", arguments: { name } });
    say(content[0].text);
  });
} catch (error) {
  say(`Cannot connect: ${error.message}`);
}
