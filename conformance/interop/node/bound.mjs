// A server that takes only tokens which are bound to a key (DPoP, RFC 9449), with a nonce in every proof: what it lets in
// goes to a `longhaul serve` behind it.

import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";

import { calculateJwkThumbprint, createRemoteJWKSet, EmbeddedJWK, jwtVerify } from "jose";

import { TOOLS } from "./guarded.mjs";
import { freeAddress, startServer } from "./server.mjs";

/** Starts both. `proofs` are those that it has seen, each once. */
export async function startBound(program, issuer) {
  const behind = await startServer(program, await freeAddress(), TOOLS);
  const proofs = new Set();
  const nonce = randomUUID();
  const front = createServer();
  front.listen(0, "127.0.0.1");
  await once(front, "listening");
  const origin = `http://127.0.0.1:${front.address().port}`;
  const url = `${origin}/mcp`;
  const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`));
  const metadata = {
    resource: url,
    authorization_servers: [issuer],
    scopes_supported: ["mcp"],
    dpop_bound_access_tokens_required: true,
  };

  /** What is wrong with what a request shows; nothing if it may come in. */
  async function refusal({ method, headers }) {
    const token = /^DPoP (.+)$/.exec(headers.authorization ?? "")?.[1];
    if (token === undefined) return "";
    const { payload: claims } = await jwtVerify(token, keys, { issuer, audience: url });
    const { payload: proof, protectedHeader } = await jwtVerify(headers.dpop, EmbeddedJWK, { typ: "dpop+jwt" });
    if (proof.nonce !== nonce) return ', error="use_dpop_nonce"';
    const isRight =
      proof.htm === method &&
      proof.htu === url &&
      proof.ath === createHash("sha256").update(token).digest("base64url") &&
      claims.cnf.jkt === (await calculateJwkThumbprint(protectedHeader.jwk)) &&
      !proofs.has(proof.jti);
    proofs.add(proof.jti);
    return isRight ? undefined : ', error="invalid_dpop_proof"';
  }

  front.on("request", async (request, response) => {
    if (request.url.startsWith("/.well-known/oauth-protected-resource")) {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(metadata));
      return;
    }
    const body = await buffer(request);
    const why = await refusal(request).catch(() => ', error="invalid_token"');
    if (why !== undefined) {
      const challenge = `DPoP resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"${why}`;
      response.writeHead(401, { "www-authenticate": challenge, "dpop-nonce": nonce });
      response.end();
      return;
    }
    const { authorization, dpop, host, connection, ...headers } = request.headers;
    const answer = await fetch(behind.url, { method: request.method, headers, body: body.length === 0 ? undefined : body });
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "application/json" });
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  return {
    url,
    proofs,
    close: async () => {
      front.closeAllConnections();
      front.close();
      await behind.close();
    },
  };
}
