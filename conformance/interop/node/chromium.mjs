// Chromium without a window, told what to do over its DevTools protocol.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** Starts it. Hosts that end in `.test` are this machine. */
export async function startChromium(program) {
  const profile = await mkdtemp(join(tmpdir(), "longhaul-chromium-"));
  const child = spawn(
    program,
    [
      "--headless",
      // It visits pages of ours alone, and its sandbox does not start for root.
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--remote-debugging-port=0",
      `--user-data-dir=${profile}`,
      "--host-resolver-rules=MAP *.test 127.0.0.1",
      "about:blank",
    ],
    // A group of its own: what is started may be a script that starts the browser, which would outlive it.
    { stdio: ["ignore", "ignore", "pipe"], detached: true },
  );
  const kill = () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid, "SIGKILL");
  };
  process.once("exit", kill);
  const said = [];
  let address;
  for await (const line of createInterface({ input: child.stderr })) {
    said.push(line);
    address = /DevTools listening on ws:\/\/([^/]+)\//.exec(line)?.[1];
    if (address !== undefined) break;
  }
  if (address === undefined) throw new Error(`${program} did not start:\n${said.join("\n")}`);
  child.stderr.resume();
  return {
    open: (url) => openPage(address, url),
    close: async () => {
      const ended = once(child, "exit");
      kill();
      await ended;
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Opens a page; gives what runs an expression in it, and what closes it. */
async function openPage(address, url) {
  const target = await (await fetch(`http://${address}/json/new?about:blank`, { method: "PUT" })).json();
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  await once(socket, "open");
  const waiting = new Map();
  const loads = [];
  let sent = 0;
  socket.addEventListener("message", ({ data }) => {
    const { id, method, result, error } = JSON.parse(data);
    if (method === "Page.loadEventFired") loads.shift()?.();
    const settle = waiting.get(id);
    waiting.delete(id);
    if (error) settle?.reject(new Error(error.message));
    else settle?.resolve(result);
  });
  const tell = (method, params = {}) => {
    const id = (sent += 1);
    socket.send(JSON.stringify({ id, method, params }));
    return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
  };
  await tell("Page.enable");
  const loaded = new Promise((resolve) => loads.push(resolve));
  await tell("Page.navigate", { url });
  await loaded;
  return {
    /** The value of an expression, which may be a promise. */
    run: async (expression) => {
      const { result, exceptionDetails } = await tell("Runtime.evaluate", {
        expression,
        awaitPromise: true,
        returnByValue: true,
        userGesture: true,
      });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    },
    close: async () => {
      socket.close();
      await fetch(`http://${address}/json/close/${target.id}`);
    },
  };
}
