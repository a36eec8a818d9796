// What stands between a page and its server: a proxy that fails, and pages of somebody else's.

import { once } from "node:events";
import { createServer as createPages } from "node:http";
import { connect, createServer } from "node:net";

/** A proxy before `address` whose connections can be cut, and which answers by itself while the server is away to it. */
export async function proxy(address) {
  const open = new Set();
  const between = {
    isAway: false,
    /** How many requests it has refused. */
    refused: 0,
    cut() {
      for (const socket of open) socket.destroy();
    },
  };
  const [host, port] = address.split(":");
  const listener = createServer((from) => {
    open.add(from);
    from.on("error", () => {});
    from.on("close", () => open.delete(from));
    if (between.isAway) {
      from.once("data", () => {
        between.refused += 1;
        from.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
      });
      return;
    }
    const to = connect(Number(port), host);
    to.on("error", () => {});
    to.on("close", () => from.destroy());
    from.on("close", () => to.destroy());
    from.pipe(to).pipe(from);
  });
  between.address = await listening(listener);
  between.close = () => {
    listener.close();
    between.cut();
  };
  return between;
}

/** A page that submits a form to `action` when its button is pressed. */
export async function foreign(action) {
  const page = `<!doctype html><title>Win!</title><form method="post" action="${action}"><button>Go</button></form>`;
  const pages = createPages((_, response) => response.setHeader("content-type", "text/html").end(page));
  const address = await listening(pages);
  return { port: address.split(":")[1], close: () => pages.close().closeAllConnections() };
}

/** An address of this machine that nobody listens at. */
export async function free() {
  const listener = createServer();
  const address = await listening(listener);
  listener.close();
  await once(listener, "close");
  return address;
}

async function listening(listener) {
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  return `127.0.0.1:${listener.address().port}`;
}
