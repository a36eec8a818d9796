// The pages of the program in a browser: `node page.mjs PROGRAM CHROMIUM [FOLDER]`. Pictures of them go to the folder.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

import { foreign, free, proxy } from "./between.mjs";
import { CONFIG } from "./configuration.mjs";
import { fits, inspected, looks, ZOOMED } from "./looking.mjs";
import { launched, started } from "./started.mjs";

const [program, browserProgram, pictures] = process.argv.slice(2);
if (browserProgram === undefined) {
  console.error("usage: node page.mjs PROGRAM CHROMIUM [FOLDER]");
  process.exit(2);
}

const folder = await mkdtemp(join(tmpdir(), "longhaul-page-"));
await writeFile(join(folder, "longhaul.toml"), CONFIG);
const address = await free();
const root = `http://${address}`;
let server = await serve();
const browser = await launched(browserProgram, ["--host-resolver-rules=MAP rebound.test 127.0.0.1"]);

/** How long a check may take: the longest take a quarter of it. */
const LONGEST = 180_000;

const problems = [];
/** The task that has written in colour, one that was gone on with by another server, one with steps, one that was answered and one that was
 * run again. */
let coloured, wentOn, stepped, answeredIn, ranAgain;
/** All pages that there are, by their names. */
let views;
const context = await signedIn({ viewport: { width: 1280, height: 900 } });
const state = await context.storageState();

const checks = [
  ["without a key nothing is shown, and a key is good once", keys],
  ["a page of somebody else's changes nothing and learns nothing", strangers],
  ["a tool is called by its form, with the keyboard alone", keyboard],
  ["what a tool says is text, whatever it says", hostile],
  ["no line is lost between page and stream, nor over a SIGKILL of the server", lines],
  ["no line is lost where connections are cut, nor while a proxy answers for a server that is away", cutOff],
  ["a page of another node shows the same, and what it does is done", otherNode],
  ["however many windows are seen, each follows, and another is let in", manyWindows],
  ["who scrolls back is left alone", scrolledBack],
  ["what is too much for a page goes by, and its end stays", floods],
  ["colours are shown, and words are found in what was written", colours],
  ["rows change in place, keep the focus, and new ones wait for their reader", rows],
  ["what has changed is said once, and times are dates that go on by themselves", said],
  ["nothing moves for who wants that, and colours that are forced leave every state to be told", still],
  ["a command says which processes it has, and its task is found by its conversation", facts],
  ["an id is copied, and a call as a command that makes it again", copies],
  ["a token signs in who has it, and a wrong one is told so", signing],
  ["a question is answered in the page, with the keyboard alone, and what does not fit is said and kept", answers],
  ["what was typed and marked stays when another question is answered elsewhere", typed],
  ["a step is shown while it runs, and where it was recorded after a SIGKILL of the server", steps],
  ["a task is cancelled, run again and answered without scripts", withoutScripts],
  ["all that was filtered for is cancelled at once", cancelAll],
  ["every page is accessible, light and dark, wide and narrow", accessible],
  ["at twice its size nothing of a page is beside the window", zoomed],
  ["nothing was refused by the policy, and no script failed", quiet],
];
console.log(`1..${checks.length}`);
let failures = 0;
for (const [index, [name, check]] of checks.entries()) {
  const label = `${index + 1} - page: ${name}`;
  try {
    await within(LONGEST, check());
    console.log(`ok ${label}`);
  } catch (error) {
    failures += 1;
    console.log(`not ok ${label}`);
    for (const line of String(error.stack ?? error).split("\n")) console.log(`#   ${line}`);
  }
}
await browser.close();
server.kill("SIGKILL");
await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
process.exit(failures === 0 ? 0 : 1);

/** A browser that says nothing any more is told of, too. */
async function within(longest, check) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it has not ended within ${longest / 1000} s`)), longest);
  });
  await Promise.race([check, late]).finally(() => clearTimeout(timer));
}

async function keys() {
  const stranger = await browser.newContext();
  const page = await stranger.newPage();
  assert.equal((await page.goto(root)).status(), 401);
  assert.match(await page.textContent("main"), /longhaul page/);
  assert.equal((await page.goto(`${root}/?key=${server.key}`)).status(), 401, "it was spent");
  await stranger.close();
}

async function strangers() {
  const page = await context.newPage();
  const tasks = async () => {
    await page.goto(`${root}/?q=tool:wait`);
    return page.locator("tbody tr").count();
  };
  const before = await tasks();
  const theirs = await foreign(`${root}/tools/wait`);
  // The cookie goes along with what is of the same site, which is every port of this machine.
  for (const host of ["127.0.0.1", "localhost"]) {
    await page.goto(`http://${host}:${theirs.port}/`);
    const read = page.evaluate((api) => fetch(api, { credentials: "include" }).then(() => "read", () => "kept"), `${root}/admin/api/tasks`);
    assert.equal(await read, "kept", host);
    const answered = page.waitForResponse((response) => response.url().startsWith(root));
    await page.getByRole("button").click();
    assert.equal((await answered).status(), 403, host);
  }
  theirs.close();
  // A name of theirs that leads here.
  const [, port] = address.split(":");
  assert.equal((await page.goto(`http://rebound.test:${port}/?key=${server.key}`)).status(), 403);
  assert.equal(await tasks(), before);
  await page.close();
}

async function keyboard() {
  const page = await watched(context);
  await page.goto(root);
  await page.keyboard.press("Tab");
  assert.equal(await focused(page), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.goto(`${root}/tools`);
  const policies = { count: "at once; goes on", deploy: "at once; is lost", build: "at once; begins anew" };
  for (const [tool, policy] of Object.entries(policies)) {
    const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: tool, exact: true }) });
    assert.match(await row.textContent(), new RegExp(`${policy} if this server dies`), tool);
  }
  await page.getByRole("link", { name: "count" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/tools\/count/);
  await page.getByLabel("to").focus();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("3");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/tasks\//);
  await page.locator("#state .badge.completed").waitFor();
  assert.match(await page.textContent("#log-stdout"), /line 1\nline 2\nline 3/);
  await page.getByText("line 3").first().waitFor();
  await page.close();
}

async function hostile() {
  const page = await watched(context);
  await call(page, "hostile");
  await page.locator("#state .badge.completed").waitFor();
  await page.locator("#log-stdout", { hasText: "<script>" }).waitFor();
  for (const place of [page.url(), root, `${root}/tools`, `${root}/tools/hostile`]) {
    await page.goto(place);
    assert.doesNotMatch(await page.title(), /owned/);
    const html = await page.content();
    assert.ok(!/<img src="?x/.test(html) && !html.includes("\u001b") && !html.includes("\u202e"), place);
  }
  await page.close();
}

async function lines() {
  const page = await watched(context);
  await call(page, "count", { to: "600" });
  const log = page.locator("#log-stdout");
  await log.filter({ hasText: "line 100\n" }).waitFor();
  await page.reload();
  await log.filter({ hasText: "line 200\n" }).waitFor();
  const killed = once(server, "exit");
  server.kill("SIGKILL");
  await killed;
  server = await serve();
  await page.locator("#state .badge.completed").waitFor({ timeout: 60_000 });
  await log.filter({ hasText: "line 600" }).waitFor({ timeout: 30_000 });
  await counted(log, 600);
  assert.match(await page.locator("#timeline").ariaSnapshot(), /table:[^]*rowheader "Attempt 1"[^]*rowheader "Attempt 2"/);
  const [first, second] = await parts(page);
  assert.match(first, /^Attempt 1.* cut off.*▬$/);
  assert.match(second, /^Attempt 2.*▬$/);
  wentOn = new URL(page.url()).pathname;
  await page.close();
}

async function cutOff() {
  const between = await proxy(address);
  const page = await watched(context);
  await enter(page, between.address);
  await call(page, "count", { to: "900" }, `http://${between.address}`);
  const log = page.locator("#log-stdout");
  await log.filter({ hasText: "line 60\n" }).waitFor();
  between.cut();
  await log.filter({ hasText: "line 200\n" }).waitFor({ timeout: 60_000 });
  between.isAway = true;
  between.cut();
  await page.locator("#connection").waitFor({ timeout: 60_000 });
  assert.ok(between.refused > 0, "it was there all the time");
  between.isAway = false;
  await page.locator("#state .badge.completed").waitFor({ timeout: 60_000 });
  await log.filter({ hasText: "line 900" }).waitFor({ timeout: 60_000 });
  await counted(log, 900);
  await page.close();
  between.close();
}

async function otherNode() {
  const elsewhere = await free();
  const second = await serve(elsewhere);
  const there = (page) => `http://${elsewhere}${new URL(page.url()).pathname}`;
  const [here, page] = [await watched(context), await watched(context)];
  await enter(page, elsewhere);
  await call(here, "count", { to: "300" });
  await page.goto(there(here));
  await page.locator("#state .badge.completed").waitFor({ timeout: 60_000 });
  await page.locator("#log-stdout", { hasText: "line 300" }).waitFor();
  await counted(page.locator("#log-stdout"), 300);
  await call(here, "wait");
  await page.goto(there(here));
  await cancel(page);
  await here.locator("#state .badge.cancelled").waitFor({ timeout: 60_000 });
  await page.goto(`http://${elsewhere}/nodes`);
  assert.ok((await page.locator("table tbody tr").count()) >= 2, await page.textContent("main"));
  await here.close();
  await page.close();
  const killed = once(second, "exit");
  second.kill("SIGKILL");
  await killed;
}

/** Each line is there that `count` has written, once and in order. */
async function counted(log, to) {
  const seen = (await log.textContent()).trim().split("\n");
  assert.deepEqual(seen, Array.from({ length: to }, (_, at) => `line ${at + 1}`));
}

/** What a task went through, where there is a bar. */
async function parts(page) {
  const rows = await page.locator("#timeline tbody tr").evaluateAll((all) =>
    all.map((row) => row.textContent + (row.querySelector("svg rect:not(.axis)") === null ? "" : "▬")),
  );
  return rows.filter((row) => row.endsWith("▬"));
}

async function manyWindows() {
  const first = await watched(context);
  await call(first, "wait");
  const id = new URL(first.url()).pathname.split("/").at(-1);
  const pages = [first];
  while (pages.length < 12) {
    const page = await watched(context);
    await page.goto(pages.length % 3 === 0 ? root : first.url());
    assert.equal(await page.evaluate(() => document.visibilityState), "visible");
    pages.push(page);
  }
  // One that has no stream misses no line.
  const counts = await watched(context);
  await call(counts, "count", { to: "300" });
  await counts.locator("#state .badge.completed").waitFor({ timeout: 60_000 });
  const log = counts.locator("#log-stdout");
  await log.filter({ hasText: "line 300" }).waitFor();
  await counted(log, 300);
  await cancel(first);
  for (const page of pages) {
    const badge = page.url() === first.url() ? "#state .badge.cancelled" : `[id="t-${id}"] .badge.cancelled`;
    await page.locator(badge).waitFor({ timeout: 60_000 });
  }
  for (const page of [...pages, counts]) await page.close();
}

async function scrolledBack() {
  const page = await watched(context);
  await call(page, "count", { to: "300" });
  const log = page.locator("#log-stdout");
  await log.filter({ hasText: "line 80\n" }).waitFor();
  await log.evaluate((element) => (element.scrollTop = 0));
  await page.waitForFunction(() => !document.querySelector("[data-follows=stdout]").checked);
  await log.filter({ hasText: "line 160\n" }).waitFor();
  assert.equal(await log.evaluate((element) => element.scrollTop), 0);
  await page.getByLabel("Follow").first().check();
  const atEnd = () => {
    const element = document.getElementById("log-stdout");
    return element.scrollTop + element.clientHeight >= element.scrollHeight - 24;
  };
  await page.waitForFunction(atEnd);
  // What has come piece by piece looks as what is there from the start.
  await page.locator("#state .badge.completed").waitFor({ timeout: 60_000 });
  await log.filter({ hasText: "line 300" }).waitFor();
  const [height, blocks] = await log.evaluate((element) => [element.scrollHeight, [...element.children].map((block) => block.textContent)]);
  assert.ok(blocks.length > 1 && blocks.every((block) => block.endsWith("\n")), "each line that is over is laid out once");
  await page.reload();
  assert.equal(await log.evaluate((element) => element.scrollHeight), height);
  await page.close();
}

async function floods() {
  const [many, long] = [await watched(context), await watched(context)];
  await call(many, "flood");
  await call(long, "long");
  // Each is followed before there is anything to read.
  await writeFile(join(folder, "flood"), "");
  const ends = (words) => document.getElementById("log-stdout")?.textContent.trimEnd().endsWith(words);
  await many.waitForFunction(ends, "400000", { timeout: 60_000 });
  await long.waitForFunction(ends, "behind it", { timeout: 60_000 });
  const shown = await many.locator("#log-stdout").textContent();
  const numbers = shown.trim().split("\n").slice(1).map(Number);
  assert.ok(numbers.every((number, at) => at === 0 || number === numbers[at - 1] + 1), "a line is missing");
  for (const page of [many, long]) {
    const length = await page.locator("#log-stdout").evaluate((log) => log.textContent.length);
    assert.ok(length > 60_000 && length < 2_500_000, `${length} characters are shown`);
    await page.locator("#state .badge.completed").waitFor();
    await page.close();
  }
}

async function colours() {
  const page = await watched(context);
  await call(page, "colours");
  await page.locator("#state .badge.completed").waitFor();
  const log = page.locator("#log-stdout");
  await log.filter({ hasText: "faint" }).waitFor();
  const inks = () => log.evaluate((element) => [...element.querySelectorAll("span")].map((span) => [span.className, span.textContent.trim()]));
  const written = [
    ["ink-green", "ok"],
    ["ink-red ink-bold", "FAILED"],
    ["ink-cyan", "ok"],
    ["ink-magenta", "r"],
    ["ink-blue", "e"],
    ["ink-yellow", "e"],
    ["ink-faint", "faint"],
  ];
  assert.deepEqual(await inks(), written, "as it came");
  await page.reload();
  assert.deepEqual(await inks(), written, "as it is made anew");
  assert.equal((await log.textContent()).trim(), "ok one\nFAILED two\nok three\nfaint");

  // Across its colours, and in whichever case.
  const field = page.getByLabel("Find", { exact: true }).first();
  const told = page.locator(".finder output").first();
  await field.fill("OK");
  assert.equal(await told.textContent(), "2 found");
  for (const [key, at] of [["Enter", "1 of 2"], ["Enter", "2 of 2"], ["Enter", "1 of 2"], ["Shift+Enter", "2 of 2"]]) {
    await field.press(key);
    assert.equal(await told.textContent(), at, key);
  }
  await field.fill("three");
  assert.equal(await told.textContent(), "1 found");
  await field.press("Enter");
  const marked = await page.evaluate(() => [...CSS.highlights.get("found-here")].map(String));
  assert.deepEqual(marked, ["three"]);
  await field.fill("nowhere");
  assert.equal(await told.textContent(), "not found");
  coloured = new URL(page.url()).pathname;
  await page.close();
}

async function cancelAll() {
  const page = await watched(context);
  for (let calls = 0; calls < 3; calls += 1) await call(page, "wait");
  await page.goto(`${root}/?q=tool:wait&status=working`);
  await page.locator("summary", { hasText: "Cancel the open ones" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Cancel the open ones" }).press("Enter");
  await page.getByText("3 tasks were cancelled.").waitFor();
  assert.equal(await page.locator("tbody tr").count(), 0);
  await page.close();
}

async function rows() {
  const other = await watched(context);
  await call(other, "wait");
  const id = new URL(other.url()).pathname.split("/").at(-1);
  const page = await watched(context);
  await page.goto(root);
  const row = page.locator(`[id="t-${id}"]`);
  await row.locator(".badge.working").waitFor();
  const working = await watched(context);
  await working.goto(`${root}/?status=working`);
  await working.locator(`[id="t-${id}"] .badge.working`).waitFor();
  const follower = await watched(context);
  await follower.goto(`${root}/tasks/${id}`);
  assert.match(await follower.title(), /^wait working · /);
  await row.getByRole("link").focus();
  await call(other, "count", { to: "1" });
  await page.locator("#new", { hasText: "1 new" }).waitFor();
  await other.goto(`${root}/tasks/${id}`);
  await cancel(other);
  await row.locator(".badge.cancelled").waitFor();
  assert.equal(await focused(page), "wait", "the focus is where it was");
  // It is in the list of those that work no more, and is told of all the same: as it is followed, and to who comes back.
  await working.locator(`[id="t-${id}"] .badge.cancelled`).waitFor();
  await follower.waitForFunction(() => document.title.startsWith("wait cancelled · "));
  await follower.locator("#facts dt", { hasText: "Ended" }).waitFor();
  await Promise.all([working, follower].map((each) => each.close()));
  await page.locator("#new").click();
  await page.locator("tbody tr", { hasText: "count" }).first().waitFor();
  await row.getByRole("link").focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(`${root}/tasks/${id}`);
  await other.close();
  await page.close();
}

async function said() {
  const [page, other] = [await watched(context), await watched(context)];
  await call(page, "wait");
  const news = page.locator("#news");
  assert.deepEqual(await news.evaluate((element) => [element.getAttribute("role"), element.textContent]), ["status", ""], "a page says nothing as it is opened");
  await other.goto(page.url());
  // What is written into it within a moment is one word to who listens.
  await news.evaluate((element) => {
    globalThis.heard = [];
    new MutationObserver(() => globalThis.heard.push(element.textContent)).observe(element, { childList: true });
  });
  await cancel(other);
  await page.waitForFunction(() => globalThis.heard.length > 0);
  await other.goto(root);
  await call(page, "count", { to: "1" });
  await other.locator("#news", { hasText: "1 new task" }).waitFor();
  assert.equal(await other.locator("#news").textContent(), "1 new task");
  assert.equal(await page.locator("[aria-live]:not([aria-live=off]), [role=status], [role=alert]").count(), 1, "one place speaks");

  // Each time is a date for machines, and says the whole of it; its words go on.
  await call(page, "wait");
  const times = await page.locator("main time").evaluateAll((all) => all.map((time) => [time.dateTime, time.title, time.dataset.at, time.textContent]));
  assert.ok(times.length > 1, `${times}`);
  for (const [date, title, at, words] of times) {
    assert.match(date, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    assert.ok(title === date && Math.abs(Date.parse(date) - Number(at)) <= 1000 && words !== "", `${date} ${title} ${at} ${words}`);
  }
  const ago = page.locator("#facts time[data-manner=ago]").first();
  const before = await ago.textContent();
  await page.waitForFunction((words) => document.querySelector("#facts time[data-manner=ago]").textContent !== words, before);
  assert.match(await ago.textContent(), /^\d+s ago$/);
  await cancel(page);
  for (const each of [page, other]) await each.close();
}

async function still() {
  const view = { storageState: state, viewport: { width: 1280, height: 900 } };
  const other = await watched(context);
  for (const [reducedMotion, moves] of [["reduce", false], ["no-preference", true]]) {
    const page = await watched(await browser.newContext({ ...view, reducedMotion }));
    await call(page, "wait");
    await page.evaluate(() => {
      globalThis.moved = false;
      document.addEventListener("animationstart", () => (globalThis.moved = true));
    });
    await other.goto(page.url());
    await cancel(other);
    await page.locator("#state .badge.cancelled").waitFor();
    await page.waitForTimeout(200);
    assert.equal(await page.evaluate(() => globalThis.moved), moves, reducedMotion);
    await page.context().close();
  }
  const page = await watched(await browser.newContext({ ...view, forcedColors: "active" }));
  for (const path of ["/", wentOn]) {
    await page.goto(root + path);
    assert.ok(await page.evaluate(() => matchMedia("(forced-colors: active)").matches));
    const badges = await page.locator(".badge").evaluateAll((all) => all.map((badge) => [getComputedStyle(badge).borderTopWidth, badge.textContent.trim()]));
    assert.ok(badges.length > 0 && badges.every(([border, words]) => border === "2px" && /[a-z]/.test(words)), `${path}: ${JSON.stringify(badges)}`);
  }
  const current = page.locator(".top nav a[aria-current]");
  assert.equal(await current.evaluate((link) => getComputedStyle(link).borderTopWidth), "2px");
  const bars = await page.locator("#timeline svg .work").evaluateAll((all) => all.map((bar) => getComputedStyle(bar).fill));
  assert.ok(bars.length > 0 && bars.every((fill) => fill === bars[0] && fill !== "none"), `${bars}`);
  if (pictures) await page.screenshot({ path: join(pictures, "task-forced-1280.png"), fullPage: true });
  await page.context().close();
  await other.close();
}

async function facts() {
  const page = await watched(context);
  await call(page, "wait");
  const fact = (name) => page.locator("#facts div", { has: page.locator("dt", { hasText: name }) }).locator("dd");
  await fact("Processes").filter({ hasText: "command" }).waitFor();
  const [, supervisor, command] = /supervisor (\d+).*command (\d+)/.exec(await fact("Processes").textContent());
  const line = await readFile(`/proc/${command}/cmdline`, "utf8");
  assert.deepEqual(line.split("\0"), ["sleep", "600", ""]);
  assert.match(await readFile(`/proc/${command}/stat`, "utf8"), new RegExp(`\\) . ${supervisor} ${command} ${supervisor} `), "its parent, its group and its session");
  assert.equal(await fact("Folder").textContent(), await realpath(folder));
  await cancel(page);
  await fact("Processes").waitFor({ state: "detached" });

  // As VS Code calls.
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "vscode", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
    "vscode.conversationId": "talk-1",
  };
  const params = { name: "count", arguments: { to: 1 }, _meta: meta };
  const headers = { accept: "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "count" };
  const called = await page.request.post(`${root}/mcp`, { headers, data: { jsonrpc: "2.0", id: 1, method: "tools/call", params } });
  assert.equal(called.status(), 200, await called.text());
  await page.goto(`${root}/?q=conversation:talk-1`);
  assert.equal(await page.locator("tbody tr").count(), 1);
  await page.locator("tbody tr").getByRole("link").click();
  await page.getByRole("link", { name: "all of its tasks" }).click();
  assert.equal(new URL(page.url()).search, "?q=conversation%3Atalk-1");
  await page.close();
}

async function copies() {
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: root });
  const page = await watched(context);
  const copied = async (name) => {
    const news = page.locator("#news");
    await news.evaluate((element) => (element.textContent = ""));
    await page.getByRole("button", { name, exact: true }).focus();
    await page.keyboard.press("Enter");
    await news.filter({ hasText: "Copied" }).waitFor();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  await call(page, "secret", { name: "it's $(mine)", token: "hunter2" });
  await page.locator("#state .badge.completed").waitFor();
  const id = new URL(page.url()).pathname.split("/").at(-1);
  assert.equal(await copied("Copy the id"), id);
  const line = await copied("Copy the command");
  assert.ok(!line.includes("hunter2") && !(await page.content()).includes("hunter2"), line);
  assert.match(await page.textContent("#actions"), /It lacks what is secret: token\./);
  // Whoever pastes it adds that.
  const env = { ...process.env, PATH: `${dirname(program)}:${process.env.PATH}`, XDG_STATE_HOME: join(folder, "state") };
  const made = execFileSync("sh", ["-c", `${line} token=abc`], { cwd: folder, env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  assert.equal(made.trim(), "it's $(mine) and 3 letters");
  await context.clearPermissions();
  await page.close();
}

/** What people see who have to sign in: pictures of it are taken as of all pages. */
async function signing() {
  const place = await mkdtemp(join(tmpdir(), "longhaul-page-"));
  const token = "anns-0123456789abcdef0123456789abcdef";
  await writeFile(join(place, "token"), token);
  const at = await free();
  const guarded = `[auth]\nresource = "http://${at}/mcp"\n[auth.tokens.ann]\nfrom = "file:token"\n`;
  await writeFile(join(place, "longhaul.toml"), `${guarded}[tools.wait]\ndescription = "Waits"\ncommand = ["sleep", "1"]\ntask = "always"\n`);
  const theirs = await started(program, place, at);
  for (const look of [...looks(), ZOOMED]) {
    const page = await watched(await browser.newContext(look));
    assert.equal((await page.goto(`http://${at}/`)).status(), 401);
    await inspected(page, "sign-in", look);
    await page.getByLabel("Token").fill("another");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "That token does not count here." }).waitFor();
    assert.equal(await page.getByLabel("Token").inputValue(), "");
    await inspected(page, "sign-in-refused", look);
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Tasks" }).waitFor();
    await call(page, "wait", {}, `http://${at}`);
    const facts = await page.textContent("#facts");
    assert.ok(facts.includes("Command") && !facts.includes("Folder") && !facts.includes("Processes"), facts);
    await inspected(page, "own-task", look);
    await page.context().close();
  }
  theirs.kill("SIGKILL");
  await rm(place, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}

async function typed() {
  const page = await watched(context);
  await call(page, "twice");
  const second = page.getByLabel("Second");
  await second.waitFor();
  await page.getByLabel("First").waitFor();
  await second.focus();
  await page.keyboard.type("half an ans");
  await page.keyboard.press("ArrowLeft");
  const id = await page.locator("#task-id").textContent();
  const other = await watched(context);
  await other.goto(page.url());
  await other.getByLabel("First").fill("one");
  await other.locator("form.answer", { hasText: "First" }).getByRole("button", { name: "Send the answer" }).click();
  await page.getByLabel("First").waitFor({ state: "detached" });
  await page.keyboard.type("w");
  assert.equal(await second.inputValue(), "half an anws", "the place to type at is where it was");
  // What is marked is left as it is until nothing is.
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector("#facts")));
  await other.goto(page.url());
  await cancel(other);
  await page.waitForFunction(() => document.title.startsWith("twice cancelled · "));
  assert.equal(await page.locator("#facts dt", { hasText: "Ended" }).count(), 0, `what is marked of ${id} was changed`);
  await page.evaluate(() => getSelection().removeAllRanges());
  await page.locator("#facts dt", { hasText: "Ended" }).waitFor();
  await other.close();
  await page.close();
}

async function answers() {
  const page = await watched(context);
  await call(page, "deploy");
  await page.getByRole("heading", { name: "It asks" }).waitFor();
  assert.equal(await page.locator(".question b").count(), 0, "what is asked is text");
  const shards = page.getByLabel("Shards");
  assert.equal(await shards.inputValue(), "8", "what it defaults to is filled in");

  // The browser does not even send what cannot fit.
  await shards.focus();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("65");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.matches(":invalid")), true);
  assert.equal(await page.getByRole("alert").count(), 0);

  // One that sends anything is told by the server, and nothing has to be typed again.
  await fillIn(page, { to: "p", go: "y", note: "a <i>note</i>" });
  await page.locator("form.answer").evaluate((form) => (form.noValidate = true));
  await page.getByLabel("Note").focus();
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "does not fit" }).waitFor();
  assert.equal(await shards.inputValue(), "65");
  assert.equal(await page.getByLabel("Note").inputValue(), "a <i>note</i>");
  assert.equal(await page.getByLabel("To", { exact: true }).inputValue(), "prod");
  const asked = new URL(page.url()).pathname.replace("/answer", "");

  await shards.focus();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("4");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${root}${asked}`);
  await page.locator("#state .badge.completed").waitFor();
  const came = await page.locator("#result").textContent();
  for (const part of ["accept", '"shards":4', '"to":"prod"', '"go":true', "a <i>note</i>"]) assert.ok(came.includes(part), came);
  const answered = page.locator("#timeline tr.step", { hasText: "answered by the operator" });
  assert.match(await answered.textContent(), /^Question .*(\d.* ago|just now)$/);
  answeredIn = new URL(page.url()).pathname;

  await call(page, "deploy");
  await page.getByRole("button", { name: "Decline" }).press("Enter");
  await page.locator("#result", { hasText: "decline: null" }).waitFor();
  await page.close();
}

async function steps() {
  const page = await watched(context);
  await call(page, "build");
  const step = page.locator("#timeline tr.step", { hasText: "call" });
  const running = step.filter({ hasText: "running" });
  await running.waitFor();
  const at = new URL(page.url()).pathname;
  const told = async () => (await page.request.get(`${root}/admin/api${at}/steps`)).json();
  const [call_] = (await told()).steps;
  assert.deepEqual([call_.name, call_.state, call_.attempt, call_.endedAt], ["call", "running", 1, undefined]);
  const killed = once(server, "exit");
  server.kill("SIGKILL");
  await killed;
  server = await serve();
  await page.locator("#timeline", { hasText: "Attempt 2" }).waitFor({ timeout: 60_000 });
  await step.filter({ hasText: "cut off" }).waitFor();
  await writeFile(join(folder, "build"), "");
  await page.locator("#state .badge.completed").waitFor({ timeout: 60_000 });
  await step.filter({ hasText: "recorded, begun in attempt 1" }).waitFor();
  const rows = await page.locator("#timeline tbody tr").evaluateAll((all) => all.map((row) => [row.className, row.textContent]));
  const second = rows.findIndex(([, text]) => text.startsWith("Attempt 2"));
  const recorded = rows.findIndex(([name, text]) => name === "step" && text.startsWith("callrecorded"));
  assert.ok(second > 0 && recorded > second, JSON.stringify(rows));
  assert.equal((await parts(page)).filter((row) => row.startsWith("call")).length, 1, "it has a bar");
  const { recorded: noted, steps: all } = await told();
  const done = all.find(({ name }) => name === "call");
  assert.deepEqual([done.state, done.attempt, done.begunInAttempt, noted], ["recorded", 2, 1, all.length]);
  assert.ok(done.beganAt === call_.beganAt && done.endedAt > done.beganAt, JSON.stringify(done));
  stepped = at;
  await page.close();
}

/** Fills in a form by what is typed into each of its fields, from the second on. */
async function fillIn(page, { to, go, note }) {
  for (const typed of [to, go, note]) {
    await page.keyboard.press("Tab");
    await page.keyboard.type(typed);
  }
}

async function withoutScripts() {
  const plain = await browser.newContext({ storageState: state, javaScriptEnabled: false });
  const page = await plain.newPage();
  await call(page, "wait");
  assert.equal(await page.locator("noscript").count(), 1);
  assert.equal(await page.locator("[data-copies]").first().isVisible(), false, "only scripts copy");
  await cancel(page);
  await page.locator("#state .badge.cancelled").waitFor();
  const first = page.url();
  await page.getByRole("button", { name: "Run again" }).click();
  await page.locator("#state .badge.working").waitFor();
  const second = page.url();
  await page.getByRole("link", { name: "an earlier task" }).click();
  assert.equal(page.url(), first);
  ranAgain = new URL(first).pathname;
  await page.getByText("It was run again as").getByRole("link").click();
  assert.equal(page.url(), second);
  await cancel(page);
  const output = await page.goto(`${page.url()}/output/stdout?from=0`);
  assert.equal(output.headers()["content-type"], "text/plain; charset=utf-8");
  await call(page, "deploy");
  await page.getByRole("heading", { name: "It asks" }).waitFor();
  await page.getByLabel("Shards").focus();
  await fillIn(page, { to: "p", go: "y", note: "plain" });
  await page.keyboard.press("Enter");
  await page.locator("#result", { hasText: "plain" }).waitFor();
  await page.locator("#timeline tr.step", { hasText: "answered by the operator" }).first().waitFor();
  await plain.close();
}

async function accessible() {
  const first = await watched(context);
  await call(first, "fail");
  await first.locator("#state .badge.failed").waitFor();
  const failed = new URL(first.url()).pathname;
  await call(first, "deploy");
  await first.getByRole("heading", { name: "It asks" }).waitFor();
  const asking = new URL(first.url()).pathname;
  await first.close();
  views = { tasks: "/", task: failed, colours: coloured, timeline: wentOn, steps: stepped, question: asking, answered: answeredIn, again: ranAgain, find: "/?q=deploy", tools: "/tools", tool: "/tools/count", secret: "/tools/secret", nodes: "/nodes", connect: "/connect", nothing: "/tasks/none" };
  for (const look of looks()) {
    const page = await watched(await browser.newContext({ storageState: state, ...look }));
    for (const [name, path] of Object.entries(views)) {
      await page.goto(root + path);
      await inspected(page, name, look);
    }
    await page.context().close();
  }
}

async function zoomed() {
  const page = await watched(await browser.newContext({ storageState: state, ...ZOOMED }));
  for (const [name, path] of Object.entries(views)) {
    await page.goto(root + path);
    await fits(page, name, ZOOMED);
  }
  await page.context().close();
}

async function quiet() {
  assert.deepEqual(problems, []);
}

/** A page whose complaints are kept. */
async function watched(of) {
  const page = await of.newPage();
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("dialog", (dialog) => {
    problems.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    // While the server is away the browser says so.
    if (message.type() === "error" && !/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to load resource/.test(message.text())) {
      problems.push(message.text());
    }
  });
  return page;
}

/** Calls a tool by its form, and waits for the page of its task. */
async function call(page, tool, fields = {}, at = root) {
  await page.goto(`${at}/tools/${tool}`);
  for (const [label, value] of Object.entries(fields)) await page.getByLabel(label).fill(value);
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await page.waitForURL(/\/tasks\//);
}

async function cancel(page) {
  await page.locator("summary", { hasText: "Cancel" }).click();
  await page.getByRole("button", { name: "Cancel the task" }).click();
  // A page that is closed on its way to another may never be.
  await page.locator("#state .badge.cancelled").waitFor();
}

function focused(page) {
  return page.evaluate(() => document.activeElement.textContent.trim());
}

async function signedIn(options) {
  const opened = await browser.newContext(options);
  const page = await opened.newPage();
  await page.goto(`${root}/?key=${server.key}`);
  assert.equal(new URL(page.url()).search, "");
  await page.close();
  return opened;
}

/** Signs in where the server has another address, by a link of `longhaul page`. */
async function enter(page, at) {
  const link = execFileSync(program, ["page", "--http", at], { cwd: folder, encoding: "utf8" });
  await page.goto(link.trim());
  await page.waitForURL(`http://${at}/`);
}

/** Starts the program. */
function serve(at = address) {
  return started(program, folder, at);
}
