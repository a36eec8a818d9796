// The program, and a browser that looks at its pages.

import { execFileSync, spawn } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";

import { chromium } from "playwright-core";

/** Starts the program in a folder, and waits until it is ready. `key` opens its pages, once. */
export async function started(program, folder, address) {
  const child = spawn(program, ["serve", "--http", address], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  process.once("exit", () => child.kill("SIGKILL"));
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (more) => (said += more));
  for (let look = 0; !said.includes("\nready"); look += 1) {
    if (look > 1500 || child.exitCode !== null) throw new Error(`${program} does not serve:\n${said}`);
    await pause(20);
  }
  child.key = /\?key=(\S+)/.exec(said)?.[1];
  return child;
}

/** Starts a browser. */
export function launched(program, more = []) {
  // It visits pages of ours alone, and its sandbox does not start for root.
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", ...more];
  const executablePath = execFileSync("sh", ["-c", 'command -v -- "$0"', program], { encoding: "utf8" }).trim();
  return chromium.launch({ executablePath, args });
}
