// A server that is its own authorization server before `oidc-provider`, which knows none of its clients:
// `node proxied.mjs PROGRAM`.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { account } from "./account.mjs";
import { Browser, agreeing, firstForm } from "./browser.mjs";
import { freePlace, startGuarded } from "./guarded.mjs";
import { CALLBACK, startIssuer } from "./oidc.mjs";
import { report } from "./tap.mjs";

const [program] = process.argv.slice(2);
if (program === undefined) {
  console.error("usage: node proxied.mjs PROGRAM");
  process.exit(2);
}

const place = await freePlace();
const { address, resource: RESOURCE } = place;
const secret = randomUUID();
const upstream = await startIssuer({
  format: "jwt",
  clients: [{ client_id: "front", client_secret: secret, redirect_uris: [`http://${address}/authorize/callback`] }],
});
const server = await startGuarded(
  program,
  place,
  `
[auth.proxy]
upstream = "${upstream.issuer}"
client_id = "front"
secret = { from = "env:FRONT" }
registration = true
`,
  { FRONT: secret },
);

const ECHO = { name: "echo", arguments: { message: "hi" } };
const ann = account({ login: "ann" });
let connected;

const passed = await report("node proxied over http", [
  ["a client nobody knows registers, is approved, signs in upstream and calls", signsIn],
  ["it steps up for a tool that asks for more", stepsUp],
  ["what it was granted survives a restart", survives],
  ["a token that is used up is refreshed, once", refreshes],
  ["a token of upstream's does not come in", foreignToken],
  ["somebody who did not approve the client is not signed in to it", confusedDeputy],
  ["a grant that is revoked is over", revokes],
]);
await server.close();
upstream.close();
process.exit(passed ? 0 : 1);

async function signsIn() {
  connected = await ann.connect(RESOURCE);
  assert.equal((await connected.client.callTool(ECHO)).content[0].text, "hi");
  assert.match(ann.saved.tokens.access_token, /^longhaul_access_/);
}

async function stepsUp() {
  const deployed = await ann.stepUp(connected, RESOURCE, { name: "deploy", arguments: {} });
  assert.equal(deployed.content[0].text, "deployed");
  assert.deepEqual(ann.saved.asked, ["mcp", "deploy mcp"]);
}

async function survives() {
  await connected.client.close();
  await server.restart();
  connected = await ann.reconnect(RESOURCE);
  assert.equal((await connected.client.callTool(ECHO)).content[0].text, "hi");
}

async function refreshes() {
  const used = ann.saved.tokens.refresh_token;
  const first = await token({ grant_type: "refresh_token", refresh_token: used });
  assert.equal(first.status, 200);
  ann.saved.tokens = first.body;
  await connected.client.close();
  connected = await ann.reconnect(RESOURCE);
  assert.equal((await connected.client.callTool(ECHO)).content[0].text, "hi");
}

async function foreignToken() {
  const response = await fetch(RESOURCE, {
    method: "POST",
    headers: { authorization: `Bearer ${await upstream.token(RESOURCE, "mcp")}` },
  });
  assert.equal(response.status, 401);
  assert.match(response.headers.get("www-authenticate"), /error="invalid_token"/);
}

async function confusedDeputy() {
  const url = new URL(`http://${address}/authorize`);
  url.search = new URLSearchParams({
    response_type: "code",
    client_id: ann.saved.client.client_id,
    redirect_uri: CALLBACK,
    code_challenge: "A".repeat(43),
    code_challenge_method: "S256",
    resource: RESOURCE,
  });
  // The attacker approves, and sends the victim on to sign in.
  const attacker = new Browser();
  const page = await attacker.request(url);
  const form = firstForm(await page.text(), url);
  const approved = await attacker.request(form.action, { method: "POST", form: { ...form.fields, decision: "approve" } });
  const victim = new Browser();
  const back = await victim.visit(approved.headers.get("location"), `http://${address}/authorize/callback`, agreeing("victim"));
  assert.ok(back.searchParams.has("code"));
  const refused = await victim.request(back);
  assert.equal(refused.status, 403);
  assert.equal(refused.headers.get("location"), null);
}

async function revokes() {
  const response = await fetch(`http://${address}/revoke`, {
    method: "POST",
    body: new URLSearchParams({ client_id: ann.saved.client.client_id, token: ann.saved.tokens.refresh_token }),
  });
  assert.equal(response.status, 200);
  const refused = await token({ grant_type: "refresh_token", refresh_token: ann.saved.tokens.refresh_token });
  assert.equal(refused.status, 400);
  assert.equal(refused.body.error, "invalid_grant");
  const turnedAway = await fetch(RESOURCE, {
    method: "POST",
    headers: { authorization: `Bearer ${ann.saved.tokens.access_token}` },
  });
  assert.equal(turnedAway.status, 401);
  await connected.client.close();
}

async function token(form) {
  const body = new URLSearchParams({ client_id: ann.saved.client.client_id, ...form });
  const response = await fetch(`http://${address}/token`, { method: "POST", body });
  return { status: response.status, body: await response.json() };
}
