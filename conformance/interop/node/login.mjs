// `longhaul login` before authorization servers that nobody here wrote, and a person with a real browser:
// `node login.mjs PROGRAM CHROMIUM`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

import { startBound } from "./bound.mjs";
import { startChromium } from "./chromium.mjs";
import { freePlace, startGuarded } from "./guarded.mjs";
import { startIssuer } from "./oidc.mjs";
import { freeAddress, startServer } from "./server.mjs";
import { report } from "./tap.mjs";

const [program, browser] = process.argv.slice(2);
if (browser === undefined) {
  console.error("usage: node login.mjs PROGRAM CHROMIUM");
  process.exit(2);
}

/** A token is renewed 30 s before its end: these are renewed every few seconds. */
const SHORT = 33;

const desk = { id: "desk", secret: randomUUID() };
const registered = { redirect_uris: ["http://127.0.0.1/callback"], application_type: "native" };
const grants = ["authorization_code", "refresh_token"];
const issuer = await startIssuer({
  format: "jwt",
  ttl: SHORT,
  clients: [{ ...registered, client_id: desk.id, client_secret: desk.secret, grant_types: grants }],
  features: { registration: { enabled: true }, revocation: { enabled: true } },
});
const binding = await startIssuer({
  format: "jwt",
  features: {
    registration: { enabled: true },
    dPoP: { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => true },
  },
});

/** Once a page: what a person does at it. */
const ACT = `(() => {
  if (document.readyState !== "complete") return "loading";
  if (location.pathname === "/callback") return document.body.innerText.includes("go back to your program") ? "back" : "lost";
  if (window.wasSent) return "leaving";
  const form = document.querySelector("form");
  if (form === null) return "no form";
  for (const name of ["login", "password"]) {
    if (form.elements[name]) form.elements[name].value = "ann";
  }
  window.wasSent = true;
  form.querySelector("button[type=submit]").click();
  return "sent";
})()`;

/** What the authorization server has granted, by grant, and what it took back. */
const granted = [];
let last;
let takenBack = 0;
issuer.provider.on("grant.success", (ctx) => {
  granted.push(ctx.oidc.params.grant_type);
  last = ctx.oidc.entities.Grant?.jti ?? last;
});
issuer.provider.on("grant.revoked", () => (takenBack += 1));
const renewed = () => granted.filter((grant) => grant === "refresh_token").length;

const place = await freePlace();
const URL = place.resource;
const server = await startGuarded(program, place, `[auth.issuers.people]\nurl = "${issuer.issuer}"`);
const bound = await startBound(program, binding.issuer);
const chromium = await startChromium(browser);
const state = await mkdtemp(join(tmpdir(), "longhaul-login-"));
const env = { ...process.env, XDG_STATE_HOME: state, DESK: desk.secret };

const passed = await report("login with a browser", [
  ["a person signs in and agrees, and the program calls", signsIn],
  ["a token is renewed while a task runs, and nobody is asked", renews],
  ["programs that run at once share one token and lose none", shares],
  ["a server behind another is called with what its operator signed in for, and renewed", isServedOn],
  ["who lacks a scope is told so, agrees to more, and the call succeeds", stepsUp],
  ["who was signed out by the authorization server is told how to sign in", isSignedOut],
  ["a client that was registered beforehand proves itself, then and later", isKnown],
  ["signing out takes the tokens back", signsOut],
  ["a token is bound to a key, with nonces, where the server wants that", isBound],
]);
await chromium.close();
await server.close();
await bound.close();
issuer.close();
binding.close();
await rm(state, { recursive: true });
process.exit(passed ? 0 : 1);

async function signsIn() {
  await signIn(URL);
  assert.equal(await call(URL, "echo", "message=hi"), "hi");
  assert.deepEqual(granted.slice(0, 1), ["authorization_code"]);
}

async function renews() {
  const before = renewed();
  assert.equal(await call(URL, "slow"), "slept");
  assert.ok(renewed() > before, "none was renewed");
  assert.equal(granted.filter((grant) => grant === "authorization_code").length, 1);
}

async function shares() {
  const before = renewed();
  await sleep((SHORT - 29) * 1000);
  const said = await Promise.all([1, 2, 3, 4].map((each) => call(URL, "echo", `message=${each}`)));
  assert.deepEqual(said, ["1", "2", "3", "4"]);
  assert.ok(renewed() > before, "none was renewed");
  // Whoever shows a token that gets others a second time loses everything.
  assert.equal(takenBack, 0);
}

async function isServedOn() {
  const front = await startServer(program, await freeAddress(), `[servers.guarded]\nurl = "${URL}"\n`, env);
  try {
    const before = renewed();
    assert.equal(await call(front.url, "echo", "message=hi"), "hi");
    await sleep((SHORT - 29) * 1000);
    assert.equal(await call(front.url, "echo", "message=still"), "still");
    assert.ok(renewed() > before, "none was renewed");
    // What it may not do it may not do for others.
    const refused = await longhaul("call", front.url, "deploy");
    assert.equal(refused.code, 1, refused.err);
    assert.match(refused.out, /longhaul login/);
  } finally {
    await front.close();
  }
}

async function stepsUp() {
  const refused = await longhaul("call", URL, "deploy");
  assert.equal(refused.code, 3, refused.err);
  const words = /`longhaul login (\S+) --scope '?([^'`]+)'?` signs in for it/.exec(refused.err);
  assert.ok(words !== null, refused.err);
  assert.equal(words[1], URL);
  await signIn(URL, "--scope", words[2]);
  assert.equal(await call(URL, "deploy"), "deployed");
  assert.equal(await call(URL, "echo", "message=hi"), "hi");
}

async function isSignedOut() {
  await issuer.provider.RefreshToken.revokeByGrantId(last);
  await sleep((SHORT - 29) * 1000);
  const refused = await longhaul("call", URL, "echo", "message=hi");
  assert.equal(refused.code, 3, refused.err);
  assert.match(refused.err, /longhaul login/);
  await signIn(URL);
  assert.equal(await call(URL, "echo", "message=hi"), "hi");
  assert.equal((await longhaul("logout", URL)).code, 0);
}

async function isKnown() {
  await signIn(URL, "--client-id", desk.id, "--client-secret", "env:DESK", "--issuer", issuer.issuer);
  await sleep((SHORT - 29) * 1000);
  const before = renewed();
  assert.equal(await call(URL, "echo", "message=hi"), "hi");
  assert.ok(renewed() > before, "it was not renewed");
  const kept = await readFile(join(state, "longhaul", "tokens.json"), "utf8");
  assert.ok(kept.includes("env:DESK") && !kept.includes(desk.secret));
}

async function signsOut() {
  const before = takenBack;
  assert.equal((await longhaul("logout", URL)).code, 0);
  assert.ok(takenBack > before, "nothing was taken back");
  assert.equal((await longhaul("call", URL, "echo", "message=hi")).code, 3);
  assert.equal((await longhaul("logout", URL)).code, 5);
}

async function isBound() {
  await signIn(bound.url);
  assert.equal(await call(bound.url, "echo", "message=hi"), "hi");
  assert.ok(bound.proofs.size > 1);
}

/** Signs in with `longhaul login`: the person goes where it says, says who they are, and agrees. */
async function signIn(url, ...words) {
  const child = spawn(program, ["login", "--no-browser", url, ...words], { env, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  const ended = once(child, "exit");
  const address = new Promise((resolve, reject) => {
    child.stderr.setEncoding("utf8").on("data", (more) => {
      said += more;
      const found = /Sign in at\s+(http\S+)\n/.exec(said);
      if (found !== null) resolve(found[1]);
    });
    child.once("exit", () => reject(new Error(`nobody was asked to sign in: ${said}`)));
  });
  const page = await chromium.open(await address);
  try {
    await agree(page);
    const [code] = await ended;
    assert.equal(code, 0, said);
  } finally {
    child.kill();
    await page.close();
  }
}

/** Fills in and sends each form, until there is none. */
async function agree(page) {
  for (let looks = 0; looks < 500; looks += 1) {
    // A page that is left answers nothing.
    const outcome = await page.run(ACT).catch(() => "leaving");
    if (outcome === "back") return;
    await sleep(20);
  }
  throw new Error(`nothing leads back: ${await page.run("document.body.innerText")}`);
}

/** What a call prints that succeeds. */
async function call(url, ...words) {
  const { code, out, err } = await longhaul("call", url, ...words);
  assert.equal(code, 0, err);
  return out.trim();
}

async function longhaul(...words) {
  const child = spawn(program, words, { env, stdio: ["ignore", "pipe", "pipe"] });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  return { code, out, err };
}
