// An OpenID Connect provider (oidc-provider, certified) with its own pages for log-in and consent: any name and password
// will do. Who is called ada is in the groups dev and ops, all others are in none.
//
// The client agent, a workload of the tenant a, gets JSON Web Tokens for any audience: its grant is client_credentials, with
// resource=urn:AUDIENCE. So does the client node, a server that forwards. The signing key is made at the start and has the id KID.
//
//   node provider.mjs PORT CLIENT_SECRET PUBLIC_URL [KID]
import * as crypto from "node:crypto";
import Provider from "oidc-provider";

const [port, secret, publicUrl, kid = "first"] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const { privateKey } = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" });
const jwk = { ...privateKey.export({ format: "jwk" }), kid, use: "sig", alg: "ES256" };

const provider = new Provider(issuer, {
  clients: [{
    client_id: "flamegrid",
    client_secret: secret,
    redirect_uris: [`${publicUrl}/auth/callback`],
    post_logout_redirect_uris: [publicUrl],
    id_token_signed_response_alg: "ES256",
  }, { // for commands: the device flow
    client_id: "flamegrid-cli",
    token_endpoint_auth_method: "none",
    application_type: "native",
    grant_types: ["urn:ietf:params:oauth:grant-type:device_code"],
    redirect_uris: [],
    response_types: [],
    id_token_signed_response_alg: "ES256",
  }, {
    client_id: "agent",
    client_secret: secret,
    token_endpoint_auth_method: "client_secret_post",
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
    id_token_signed_response_alg: "ES256",
  }, { // a server that forwards; it comes with Basic authentication, as RFC 6749 has it
    client_id: "node",
    client_secret: secret,
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
    id_token_signed_response_alg: "ES256",
  }],
  jwks: { keys: [jwk] },
  cookies: { keys: ["a key for tests"] },
  claims: { openid: ["sub"], profile: ["name", "groups"] },
  conformIdTokenClaims: false, // claims are in the ID token, as most providers have it
  pkce: { required: () => true },
  extraTokenClaims: (ctx, token) => (["agent", "node"].includes(token.clientId) ? { tenant: "a" } : undefined),
  features: {
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, resource) => ({
        scope: "",
        audience: resource.slice("urn:".length),
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "ES256" } },
      }),
    },
    rpInitiatedLogout: { enabled: true },
  },
  findAccount: (ctx, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: `${id} the tester`, groups: id === "ada" ? ["dev", "ops"] : [] }),
  }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
