// How a page fares that follows a command which writes all the time: `node following.mjs PROGRAM CHROMIUM LINES SECONDS`, so many lines a
// second. One line of JSON on stdout: by how much timers of the page were late, in milliseconds, and what it shows at the end.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { free } from "./between.mjs";
import { launched, started } from "./started.mjs";

const [program, browserProgram, lines, seconds] = process.argv.slice(2);
if (seconds === undefined) {
  console.error("usage: node following.mjs PROGRAM CHROMIUM LINES SECONDS");
  process.exit(2);
}

/** Fifty times a second, as a build writes: several lines, and a pause. */
const WRITES = `
i=0
while [ $i -lt $(($2 * 50)) ]; do
  i=$((i+1)); n=0
  while [ $n -lt $(($1 / 50)) ]; do n=$((n+1)); echo "   Compiling some-library-$i v1.0.$n (../some-library)"; done
  sleep 0.018
done`;
const CONFIG = `
[tools.writes]
description = "Writes all the time"
command = ["sh", "-c", ${JSON.stringify(WRITES)}, "writes", "${lines}", "${seconds}"]
task = "always"
`;
const folder = await mkdtemp(join(tmpdir(), "longhaul-following-"));
await writeFile(join(folder, "longhaul.toml"), CONFIG);
const address = await free();
const server = await started(program, folder, address);
const browser = await launched(browserProgram);
const page = await browser.newPage();
await page.goto(`http://${address}/?key=${server.key}`);
await page.goto(`http://${address}/tools/writes`);
await page.getByRole("button", { name: "Call", exact: true }).click();
await page.waitForURL(/\/tasks\//);
await page.locator("#log-stdout").filter({ hasText: "Compiling" }).waitFor();
await page.evaluate(() => {
  const EVERY = 10;
  window.late = [];
  let due = performance.now() + EVERY;
  const look = () => {
    const now = performance.now();
    window.late.push(now - due);
    due = now + EVERY;
    window.looks = setTimeout(look, EVERY);
  };
  window.looks = setTimeout(look, EVERY);
});
const [begun, patience] = [Date.now(), (Number(seconds) * 3 + 60) * 1000];
await page.locator("#state .badge.completed").waitFor({ timeout: patience });
const took = (Date.now() - begun) / 1000;
// A page that follows no more is quick, and of no use.
await page.locator("#log-stdout").filter({ hasText: `some-library-${Number(seconds) * 50} ` }).waitFor({ timeout: patience });
const found = await page.evaluate(() => {
  clearTimeout(window.looks);
  const late = window.late.sort((one, other) => one - other);
  const shown = document.getElementById("log-stdout").textContent;
  return { looks: late.length, p99: late[Math.floor(late.length * 0.99)], most: late.at(-1), lines: shown.split("\n").length };
});
console.log(JSON.stringify({ ...found, rate: (Number(lines) * Number(seconds)) / took }));
await browser.close();
server.kill("SIGKILL");
await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
process.exit(0);
