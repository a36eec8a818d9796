// A connection that breaks: a relay in front of the server, which cuts a connection at a word of the server's.

import net from "node:net";

/** Relays to the endpoint `url`. Once a connection has carried `word` to the client, it is cut, the first time. */
export async function cutAt(url, word) {
  const upstream = new URL(url);
  const requests = [];
  const open = new Set();
  let cuts = 0;
  const relay = net.createServer((client) => {
    const server = net.connect(Number(upstream.port), upstream.hostname);
    const ends = [client, server];
    for (const end of ends) {
      open.add(end);
      end.on("error", () => {});
      end.on("close", () => {
        open.delete(end);
        for (const other of ends) other.destroy();
      });
    }
    let said = "";
    client.on("data", (bytes) => {
      requests.push(bytes.toString("latin1"));
      server.write(bytes);
    });
    server.on("data", (bytes) => {
      said += bytes.toString("latin1");
      client.write(bytes, () => {
        if (cuts > 0 || !said.includes(word)) return;
        cuts += 1;
        client.destroy();
      });
    });
  });
  await new Promise((resolve) => relay.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${relay.address().port}${upstream.pathname}`,
    cuts: () => cuts,
    /** How many requests ask for the rest of a stream. */
    resumptions: () => requests.filter((text) => /^last-event-id:/im.test(text)).length,
    close: () => {
      for (const end of open) end.destroy();
      return new Promise((resolve) => relay.close(resolve));
    },
  };
}
