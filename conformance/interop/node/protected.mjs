// A protected server behind authorization servers that nobody here wrote: `node protected.mjs PROGRAM`.

import assert from "node:assert/strict";

import { account } from "./account.mjs";
import { freePlace, startGuarded } from "./guarded.mjs";
import { ASKER, startIssuer } from "./oidc.mjs";
import { report } from "./tap.mjs";

const [program] = process.argv.slice(2);
if (program === undefined) {
  console.error("usage: node protected.mjs PROGRAM");
  process.exit(2);
}

const place = await freePlace();
const { address, resource: RESOURCE, metadata: METADATA } = place;

const issuers = {
  jwt: await startIssuer({ format: "jwt" }),
  opaque: await startIssuer({ format: "opaque" }),
};
const foreign = { jwt: await startIssuer({ format: "jwt" }), opaque: await startIssuer({ format: "opaque" }) };

const server = await startGuarded(
  program,
  place,
  `
[auth.issuers.signs]
url = "${issuers.jwt.issuer}"

[auth.issuers.vouches]
url = "${issuers.opaque.issuer}"
introspection = { url = "${issuers.opaque.introspection}", client_id = "${ASKER.id}", secret = { from = "env:ASKER" } }
`,
  { ASKER: ASKER.secret },
);

const passed = await report("node protected over http", [
  ["who shows nothing is told where to sign in, and for what", nothing],
  ["the metadata names both issuers", metadata],
  ...Object.keys(issuers).flatMap((format) => [
    [`${format}: a valid token comes in`, () => valid(format)],
    [`${format}: a token for another server does not`, () => wrongAudience(format)],
    [`${format}: a token of another issuer does not`, () => wrongIssuer(format)],
    [`${format}: a changed token does not`, () => changed(format)],
    [`${format}: an expired token does not`, () => expired(format)],
    [`${format}: a missing scope of the server is named`, () => missingScope(format)],
    [`${format}: a missing scope of a tool is named, and more scope lets the call in`, () => stepUp(format)],
  ]),
  ["jwt: the TypeScript client signs in, and steps up when a tool asks for more", client],
]);
await server.close();
for (const each of [...Object.values(issuers), ...Object.values(foreign)]) each.close();
process.exit(passed ? 0 : 1);

async function nothing() {
  const { status, challenge } = await call(undefined, "echo", { message: "hi" });
  assert.equal(status, 401);
  assert.deepEqual(challenge, { resource_metadata: METADATA, scope: "mcp" });
}

async function metadata() {
  for (const url of [METADATA, `http://${address}/.well-known/oauth-protected-resource`]) {
    const document = await (await fetch(url)).json();
    assert.equal(document.resource, RESOURCE);
    assert.deepEqual(document.authorization_servers, [issuers.jwt.issuer, issuers.opaque.issuer]);
    assert.deepEqual(document.scopes_supported, ["mcp"]);
  }
}

async function valid(format) {
  const { status, text } = await call(await issuers[format].token(RESOURCE, "mcp"), "echo", { message: "hi" });
  assert.equal(status, 200);
  assert.equal(text, "hi");
}

async function wrongAudience(format) {
  for (const resource of [`${RESOURCE}/`, `http://${address}`, "https://other.example/mcp"]) {
    invalid(await call(await issuers[format].token(resource, "mcp"), "echo", { message: "hi" }));
  }
}

async function wrongIssuer(format) {
  invalid(await call(await foreign[format].token(RESOURCE, "mcp"), "echo", { message: "hi" }));
}

async function changed(format) {
  const token = await issuers[format].token(RESOURCE, "mcp");
  const at = token.length - 10;
  invalid(await call(`${token.slice(0, at)}${token[at] === "A" ? "B" : "A"}${token.slice(at + 1)}`, "echo", { message: "hi" }));
}

async function expired(format) {
  // Ten minutes ago it was good: no leeway reaches that far.
  const now = Date.now;
  Date.now = () => now() - 600_000;
  const token = await issuers[format].token(RESOURCE, "mcp").finally(() => {
    Date.now = now;
  });
  invalid(await call(token, "echo", { message: "hi" }));
}

async function missingScope(format) {
  const { status, challenge } = await call(await issuers[format].token(RESOURCE, "deploy"), "echo", { message: "hi" });
  assert.equal(status, 403);
  assert.equal(challenge.error, "insufficient_scope");
  assert.equal(challenge.scope, "mcp");
  assert.equal(challenge.resource_metadata, METADATA);
}

async function stepUp(format) {
  const refused = await call(await issuers[format].token(RESOURCE, "mcp"), "deploy", {});
  assert.equal(refused.status, 403);
  assert.equal(refused.challenge.error, "insufficient_scope");
  assert.equal(refused.challenge.resource_metadata, METADATA);
  assert.notEqual(refused.challenge.error_description ?? "", "");
  // All that the call needs is named at once: nobody has to come back twice.
  assert.equal(refused.challenge.scope, "deploy mcp");
  const { status, text } = await call(await issuers[format].token(RESOURCE, refused.challenge.scope), "deploy", {});
  assert.equal(status, 200);
  assert.equal(text, "deployed");
}

async function client() {
  const ann = account({ login: "ann", clientId: "app" });
  const connected = await ann.connect(RESOURCE);
  const echoed = await connected.client.callTool({ name: "echo", arguments: { message: "hi" } });
  assert.equal(echoed.content[0].text, "hi");
  const deployed = await ann.stepUp(connected, RESOURCE, { name: "deploy", arguments: {} });
  assert.equal(deployed.content[0].text, "deployed");
  assert.deepEqual(ann.saved.asked, ["mcp", "deploy mcp"]);
  await connected.client.close();
}

/** That a token did not count, said as RFC 6750 says it, with the way to a better one. */
function invalid({ status, challenge }) {
  assert.equal(status, 401);
  assert.equal(challenge.error, "invalid_token");
  assert.equal(challenge.resource_metadata, METADATA);
  assert.equal(challenge.scope, "mcp");
}

/** Calls a tool with this token: the status, the text, and what the challenge says. */
async function call(token, name, args) {
  const response = await fetch(RESOURCE, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": name,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: {
        name,
        arguments: args,
        _meta: {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": {},
        },
      },
    }),
  });
  const body = await response.text();
  const challenge = response.headers.get("www-authenticate");
  return {
    status: response.status,
    text: response.ok ? JSON.parse(body).result.content[0].text : body,
    challenge: challenge === null ? undefined : parameters(challenge),
  };
}

/** `Bearer a="b", c="d"`. */
function parameters(challenge) {
  assert.match(challenge, /^Bearer /);
  return Object.fromEntries([...challenge.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, name, value]) => [name, value]));
}
