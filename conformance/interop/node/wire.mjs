// What crosses a connection, seen from between the client and its transport.

/**
 * Records the messages that arrive at the client on `transport`. Call it after connecting, when the client has put
 * its own handler in place.
 */
export function watch(transport) {
  const arrived = [];
  const handler = transport.onmessage;
  transport.onmessage = (message, extra) => {
    arrived.push({ at: performance.now(), message });
    handler(message, extra);
  };
  return {
    /** Notifications of this method that arrived after the moment `since` of `performance.now()`. */
    notifications(method, since = 0) {
      return arrived.filter(({ at, message }) => at > since && message.method === method).map(({ message }) => message);
    },
  };
}

/**
 * Sends requests beside the client on its own connection, and hands back results as they came over the wire. The
 * client's own decoders refuse the results that the tasks extension adds.
 */
export function coordinate(transport) {
  const waiting = new Map();
  let sent = 0;
  const handler = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const settle = waiting.get(message.id);
    if (settle === undefined || message.method !== undefined) return handler(message, extra);
    waiting.delete(message.id);
    settle(answer(message));
  };
  return async function dispatch(request, options = {}) {
    const id = `beside-${(sent += 1)}`;
    const arrived = new Promise((resolve) => waiting.set(id, resolve));
    const aborted = new Promise((_, reject) => {
      options.signal?.addEventListener("abort", () => reject(options.signal.reason), { once: true });
    });
    aborted.catch(() => {});
    try {
      const send = transport.send({ jsonrpc: "2.0", id, ...request }, {
        headers: options.context?.headers,
        requestSignal: options.signal,
      });
      // Over HTTP an error may come as the status of the request rather than as a message.
      const refused = send.then(() => new Promise(() => {}), (error) => errorInBody(error, id));
      return await Promise.race([arrived, aborted, refused]);
    } finally {
      waiting.delete(id);
    }
  };
}

function answer(message) {
  if (message.error !== undefined) return { kind: "error", error: message.error };
  return { kind: "result", result: message.result };
}

function errorInBody(error, id) {
  let body;
  try {
    body = JSON.parse(error.data?.text ?? error.text);
  } catch {
    throw error;
  }
  if (body?.id !== id || body.error === undefined) throw error;
  return answer(body);
}
