#include "common/access/guard/settings.h"

#define CONF(field) FG_CONF_AT(struct fg_access_settings, field)

/* clang-format off */
const struct fg_conf_field fg_access_fields[] = {
    {"mode", FG_CONF_ENUM, CONF(mode), .def = "auto", .choices = "auto|none|header|token",
     .doc = "Who may use this server. none: everybody, as any tenant. header: only callers from `access.trusted_cidrs` or with a client certificate, which is for a gateway that has checked who they are; `X-Scope-OrgID` names the tenant. token: callers with a token (`flamegrid token create`). auto: none if `listen` is a loopback address; on any other address the server does not start until one of the others is chosen."},
    {"trusted_cidrs", FG_CONF_STRING, CONF(trusted_cidrs), .def = "", .max = "4000",
     .doc = "Networks of gateways whose headers the mode header believes, separated by commas, such as 10.0.0.0/8."},
    {"poll", FG_CONF_NS, CONF(poll_ns), .def = "10s", .min = "100ms", .max = "10m",
     .doc = "How often the registry of tenants and tokens is looked at in the bucket. A token that is revoked, or a tenant that is suspended, is refused after that time at the latest."},
    {"stale_max", FG_CONF_NS, CONF(stale_max_ns), .def = "24h", .min = "1m", .max = "30d",
     .doc = "How long the last known registry is used for queries while the bucket cannot be reached. Afterwards only pushes go on."},
    {"bootstrap_token_file", FG_CONF_STRING, CONF(bootstrap_token_file), .def = "", .max = "4000",
     .doc = "File with a token that has the scopes admin and tenant-admin for as long as the registry has no other token with the scope admin."},
    {"copy", FG_CONF_STRING, CONF(copy), .def = "", .max = "4000",
     .doc = "Folder for a copy of the registry, which is used after a restart while the bucket cannot be reached, or has no registry or an older one. Empty: there is none."},
    {"failures_per_minute", FG_CONF_UINT, CONF(failures_per_minute), .def = "20", .min = "1", .max = "1000000",
     .doc = "Requests with wrong credentials per minute and address (IPv6: per /64) that are answered with 401. Further ones are answered with 429. Requests with right credentials are never refused for that."},
    {"issuers", FG_CONF_YAML, CONF(issuers), .def = "", .max = "100000",
     .doc = "Identity providers whose JSON Web Tokens are taken: a list of maps with issuer, audience (that a token has to have), and optionally keys_url (instead of discovery), ca_file, token_file (sent with requests to the issuer, such as a service account's), tenant_claim (path of the claim that names the tenant that the bearer may push to)."},
    {"bindings", FG_CONF_YAML, CONF(bindings), .def = "", .max = "1000000",
     .doc = "What people and workloads of the issuers may do: a list of maps with issuer, claim (a name, or a JSON pointer such as /realm_access/roles), value (* for any), tenants (a name, `team-*`, * or `{value}`) and role (sender, viewer, editor, admin, cluster-admin)."},
    {"master_key_file", FG_CONF_STRING, CONF(master_key_file), .def = "", .max = "4000",
     .doc = "File with 32 random bytes, as 64 hexadecimal digits or in base64, that encrypts the keys of sessions in the bucket. All servers have the same. Others than owner and group may not read it. Empty: whoever can read the bucket can make sessions."},
};
/* clang-format on */
const size_t fg_access_n_fields = FG_COUNT(fg_access_fields);

#undef CONF
#define CONF(field) FG_CONF_AT(struct fg_access_login_settings, field)

/* clang-format off */
const struct fg_conf_field fg_access_login_fields[] = {
    {"issuer", FG_CONF_STRING, CONF(issuer), .def = "", .max = "2000",
     .doc = "The one of `access.issuers` at which people log in (OpenID Connect). Empty: there is no log-in."},
    {"client_id", FG_CONF_STRING, CONF(client_id), .def = "", .max = "1000",
     .doc = "Identifier of this server at the identity provider (OAuth `client_id`)."},
    {"client_secret_file", FG_CONF_STRING, CONF(client_secret_file), .def = "", .max = "4000",
     .doc = "File with the client secret."},
    {"scopes", FG_CONF_STRING, CONF(scopes), .def = "openid profile email", .max = "1000",
     .doc = "Scopes that a log-in requests from the identity provider, separated by blanks. Many providers put the claim `groups` into a token only if the scope `groups` was requested."},
    {"device_client_id", FG_CONF_STRING, CONF(device_client_id), .def = "", .max = "1000",
     .doc = "Identifier of `flamegrid login` at the identity provider: a client without a secret that may use the device flow (RFC 8628). Its tokens need the audience that `access.issuers` names for the issuer. Empty: commands have no log-in."},
    {"public_url", FG_CONF_STRING, CONF(public_url), .def = "", .max = "2000",
     .doc = "The address of this server in browsers, such as https://profiles.example.com. The identity provider has to know PUBLIC_URL/auth/callback, and PUBLIC_URL itself as an address to come back to after a log-out. Without https only a loopback address is possible."},
    {"provider_logout", FG_CONF_BOOL, CONF(provider_logout), .def = "true",
     .doc = "Whether log-out ends the session at the identity provider, too, if the provider has an `end_session_endpoint` (OpenID Connect RP-Initiated Logout). false: whoever logs out is logged in again without a password while the session at the provider lasts."},
};
/* clang-format on */
const size_t fg_access_login_n_fields = FG_COUNT(fg_access_login_fields);
