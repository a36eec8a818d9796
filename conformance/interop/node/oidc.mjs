// An authorization server that nobody here wrote: npm `oidc-provider`, in this process.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

import Provider from "oidc-provider";

/** What the client of every flow is called back at. Nothing listens there. */
export const CALLBACK = "http://127.0.0.1:7/callback";

/** Who may ask what a token is worth. */
export const ASKER = { id: "longhaul", secret: randomUUID() };

/**
 * Starts an authorization server whose access tokens for `resource` are "jwt" or "opaque", and are good for `ttl`
 * seconds. `clients` come beside an application of people (`app`) and one of nobody in particular (`machine`), `features`
 * beside those that all of its kind have here.
 */
export async function startIssuer({ format, ttl = 300, clients = [], features = {} }) {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const machine = { id: "machine", secret: randomUUID() };
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "app",
        application_type: "native",
        token_endpoint_auth_method: "none",
        grant_types: ["authorization_code", "refresh_token"],
        redirect_uris: [CALLBACK],
      },
      {
        client_id: machine.id,
        client_secret: machine.secret,
        grant_types: ["client_credentials"],
        response_types: [],
        redirect_uris: [],
      },
      { client_id: ASKER.id, client_secret: ASKER.secret, grant_types: [], response_types: [], redirect_uris: [] },
      ...clients,
    ],
    cookies: { keys: [randomUUID()] },
    ttl: { AccessToken: ttl, ClientCredentials: ttl },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: true },
      introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === ASKER.id },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource) => ({
          audience: resource,
          scope: "mcp deploy",
          accessTokenFormat: format,
          accessTokenTTL: ttl,
        }),
      },
      ...features,
    },
  });
  server.on("request", provider.callback());
  return {
    issuer,
    provider,
    introspection: `${issuer}/token/introspection`,
    /** A token of `machine`, for this resource, with this scope. */
    token: async (resource, scope) => {
      const response = await fetch(`${issuer}/token`, {
        method: "POST",
        headers: { authorization: `Basic ${btoa(`${machine.id}:${machine.secret}`)}` },
        body: new URLSearchParams({ grant_type: "client_credentials", resource, scope }),
      });
      const answer = await response.json();
      if (!response.ok) throw new Error(`no token: ${JSON.stringify(answer)}`);
      return answer.access_token;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
