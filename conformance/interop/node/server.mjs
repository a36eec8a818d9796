// A `longhaul serve` of its own configuration, for as long as its checks take.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** An address that nothing listens on now. */
export async function freeAddress() {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return `127.0.0.1:${port}`;
}

/** Starts `program serve` on `address` and waits until it listens. Its store outlives a `restart`. */
export async function startServer(program, address, config, env = {}) {
  const folder = await mkdtemp(join(tmpdir(), "longhaul-protected-"));
  const file = join(folder, "longhaul.toml");
  await writeFile(file, config);
  const start = async () => {
    const args = ["serve", file, "--http", address, "--store", `sqlite:${join(folder, "tasks.db")}`];
    const child = spawn(program, args, { stdio: ["ignore", "ignore", "inherit"], env: { ...process.env, ...env } });
    for (let waited = 0; ; waited += 20) {
      if (child.exitCode !== null) throw new Error(`longhaul ended (${child.exitCode}) before it listened`);
      if (waited > 30_000) throw new Error("longhaul did not listen within 30 s");
      const listening = await fetch(`http://${address}/`).then(() => true, () => false);
      if (listening) return child;
      await sleep(20);
    }
  };
  const stop = async (child) => {
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  };
  let child = await start();
  return {
    url: `http://${address}/mcp`,
    restart: async () => {
      await stop(child);
      child = await start();
    },
    close: async () => {
      await stop(child);
      await rm(folder, { recursive: true });
    },
  };
}
