// A client of `@modelcontextprotocol/client` that signs in: what its provider remembers, and the person at the browser.

import assert from "node:assert/strict";

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";

import { Browser, agreeing } from "./browser.mjs";
import { CALLBACK } from "./oidc.mjs";

/** A client that people call `login` sign in to, known as `clientId` or, without one, registering itself. */
export function account({ login, clientId }) {
  const saved = { asked: [], client: clientId === undefined ? undefined : { client_id: clientId } };
  let authorization;
  const authProvider = {
    redirectUrl: CALLBACK,
    clientMetadata: {
      client_name: "interop",
      redirect_uris: [CALLBACK],
      grant_types: ["authorization_code", "refresh_token"],
      token_endpoint_auth_method: "none",
    },
    clientInformation: () => saved.client,
    saveClientInformation: (client) => void (saved.client = client),
    tokens: () => saved.tokens,
    saveTokens: (tokens) => void (saved.tokens = tokens),
    codeVerifier: () => saved.verifier,
    saveCodeVerifier: (verifier) => void (saved.verifier = verifier),
    discoveryState: () => saved.discovery,
    saveDiscoveryState: (discovery) => void (saved.discovery = discovery),
    redirectToAuthorization: (url) => void (authorization = url),
  };
  const browser = new Browser();
  const connection = (url) => {
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
    const versionNegotiation = { mode: { pin: "2026-07-28" } };
    return { transport, client: new Client({ name: "interop", version: "1.0.0" }, { versionNegotiation }) };
  };
  const account = {
    saved,
    /** Does as the client was told: visits where it was sent, and hands it what came back. */
    async signIn(transport, url) {
      // Whether it wants to come back without its user is its own affair.
      const scopes = authorization.searchParams.get("scope").split(" ").filter((scope) => scope !== "offline_access");
      saved.asked.push(scopes.sort().join(" "));
      assert.equal(authorization.searchParams.get("resource"), url);
      const back = await browser.visit(authorization, CALLBACK, agreeing(login));
      await transport.finishAuth(back.searchParams);
    },
    /** Connects, with the tokens it has. */
    async reconnect(url) {
      const { client, transport } = connection(url);
      await client.connect(transport);
      return { client, transport };
    },
    /** Is turned away, signs in and connects. */
    async connect(url) {
      const { client, transport } = connection(url);
      await assert.rejects(client.connect(transport), UnauthorizedError);
      await account.signIn(transport, url);
      return account.reconnect(url);
    },
    /** Calls a tool that asks for more than there is, signs in for that, and calls again. */
    async stepUp({ client, transport }, url, call) {
      await assert.rejects(client.callTool(call), UnauthorizedError);
      await account.signIn(transport, url);
      return client.callTool(call);
    },
  };
  return account;
}
