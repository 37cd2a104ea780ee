/*
 * Decides what the caller of a request may do, from the request's headers and the registry. Pure:
 * no I/O, no clock, no allocation, about a microsecond, so that it runs on the loop for each
 * request. Which requests the JSON Web Tokens and sessions of people may make is decided from the
 * roles that bindings give them.
 *
 *   mode     who may call
 *   none     everybody, as any tenant
 *   header   callers from trusted networks or with a client certificate, as the tenant they name:
 *            a gateway in front of us has checked them. It says which tenant calls, and never who
 *            is an admin: clients have no such route, only the port for operators has
 *   token    callers with a token, or with an identity that an issuer vouches for
 *
 * Thread: any.
 */
#ifndef FG_COMMON_ACCESS_GUARD_DECIDE_H
#define FG_COMMON_ACCESS_GUARD_DECIDE_H

#include "common/access/registry/registry.h"
#include "common/access/registry/role.h"
#include "common/model/tenant_id.h"
#include "common/net/guard.h"

enum fg_access_mode {
    FG_ACCESS_UNSET, /* none on a loopback address; elsewhere the server does not start */
    FG_ACCESS_NONE,
    FG_ACCESS_HEADER,
    FG_ACCESS_TOKEN,
};

/* Whom an issuer or a session vouches for. A subject is unique at its issuer only (OpenID Connect
 * Core, 2). Borrowed. */
struct fg_access_identity {
    struct fg_slice issuer, subject;
    const struct fg_access_role *roles;
    size_t n_roles;
};

struct fg_access_facts {
    enum fg_access_mode mode; /* not UNSET */
    bool trusted;             /* the caller is in a trusted network or has shown a certificate */
    bool operators;           /* the request came to the port for operators */
    struct fg_slice authorization;             /* the header; ptr NULL: none */
    const struct fg_access_identity *identity; /* NULL: none */
    unsigned scopes;                           /* the route demands one of these */
    int64_t now_ms;
};

enum fg_grant_kind {
    FG_GRANT_ANYONE, /* of the modes none and header */
    FG_GRANT_TOKEN,
    FG_GRANT_IDENTITY,
};

/* What a caller may do. It refers to the registry and to the request. */
struct fg_grant {
    enum fg_grant_kind kind;
    unsigned demanded;                   /* scopes of the route */
    unsigned denied;                     /* ANYONE: all scopes but these */
    struct fg_access_registry *registry; /* NULL: not read yet. Borrowed */
    const Access__Token *token;          /* TOKEN */
    const struct fg_selector *matchers;  /* of the token; NULL: it has none */
    struct fg_token_use *use;            /* of the token; NULL: uses are not recorded */
    struct fg_access_identity identity;  /* IDENTITY */
    char user[FG_TENANT_MAX_BYTES + 1];  /* that Basic named; "": none */
    /* Returns whether a tenant that the registry lacks may have been made since it was read. NULL:
     * it has not. */
    bool (*may_be_new)(void *arg, struct fg_slice tenant);
    void *arg;
};

/*
 * Decides whether the route may be called at all. registry: NULL if it has not been
 * read yet; then every token is refused. FG_E_NO_TENANT: the caller did not prove who it is; the
 * sentence does not say which part was wrong. FG_E_DENIED: it lacks the scope, which is named.
 * *ret_id of a token that was refused, for the log; "": none was read.
 */
enum fg_code fg_access_decide(const struct fg_access_facts *facts,
                              struct fg_access_registry *registry, struct fg_grant *ret_grant,
                              char ret_id[FG_TOKEN_ID_CHARS + 1], struct fg_err *err) fg_must_check;

/* Where a request names tenants. Borrowed from it. */
struct fg_tenant_names {
    struct fg_slice header; /* X-Scope-OrgID, of gRPC metadata; ptr NULL: none */
    struct fg_slice param;  /* `tenant` of the query string; ptr NULL: none */
};

/*
 * Returns the tenants that the request is about. This is the only place that chooses them:
 *
 *   1. X-Scope-OrgID
 *   2. the parameter `tenant`, if the caller's access is checked. In the modes none and header it
 *      cannot choose: there a gateway sets the header, and clients write the rest of a request
 *   3. what the token's tenant_label has for series without the label
 *   4. the user name of Basic, if it is a tenant of the token
 *   5. the only tenant of the caller
 *
 * A tenant to which the caller has no access is refused, and so is a parameter that names others
 * than the request is about. Two names choose nothing:
 *
 *   - X-Scope-OrgID on a server without tenancy. Pyroscope ignores it there, too, and agents keep
 *     it in their settings.
 *   - A user name that is no tenant of the token. Agents cannot send a password without a user
 *     name, and settings from elsewhere have any, such as the number of an instance of Grafana
 *     Cloud. Refusing names of other tenants only would tell every caller which tenants exist.
 *
 * several: tenancy is enabled; false: the only tenant is FG_TENANT_ONLY. FG_E_NO_TENANT,
 * FG_E_INVALID: as of fg_tenant_ids_parse(). FG_E_DENIED names the tenant and why: the caller has
 * no access to it, it is suspended, it does not exist, or the parameter names another.
 * FG_E_UNAVAILABLE: it may have been made just now. Pushes whose labels say the tenant may name one
 * that is suspended: fg_grant_tenant_of() decides.
 */
enum fg_code fg_grant_tenants(const struct fg_grant *grant, bool several,
                              struct fg_tenant_names names, struct fg_tenant_ids *ret_ids,
                              struct fg_err *err) fg_must_check;

/* Does the same for requests that have one tenant. FG_E_INVALID: "multiple org IDs present". */
enum fg_code fg_grant_tenant(const struct fg_grant *grant, bool several,
                             struct fg_tenant_names names, struct fg_slice *ret_id,
                             struct fg_err *err) fg_must_check;

/* Returns whether labels say which tenant a profile goes to. */
static inline bool fg_grant_splits(const struct fg_grant *grant)
{
    return grant->kind == FG_GRANT_TOKEN && grant->token->tenant_label != NULL;
}

/* Returns what follows the scheme in Authorization; ptr NULL: it is another one. */
struct fg_slice fg_credentials_of(struct fg_slice header, const char *scheme);

/*
 * Returns the tenant that a profile of such labels goes to: `tenant`, which is that of the request,
 * or what the token's tenant_label makes of a label (registry.proto). FG_E_DENIED names the label
 * and its value if that is no tenant of the token, or the tenant if it is suspended.
 */
enum fg_code fg_grant_tenant_of(const struct fg_grant *grant, struct fg_slice tenant,
                                const struct fg_labels *labels, struct fg_slice *ret_tenant,
                                struct fg_err *err) fg_must_check;

/* Returns the scopes that the caller has for a tenant, whatever its state. */
unsigned fg_grant_scopes(const struct fg_grant *grant, struct fg_slice tenant);

/* Writes who the caller is, for logs and the audit: "token 4uJc0TqZ (name)", "anyone", or as
 * fg_person_describe(). Cut to the size. */
void fg_grant_describe(const struct fg_grant *grant, char *out, size_t size);

/* Writes "subject (issuer)". If that is longer than the size then the subject is cut: whoever
 * chooses the subject does not choose the issuer. */
void fg_person_describe(struct fg_slice issuer, struct fg_slice subject, char *out, size_t size);

#endif
