/*
 * Bindings say what the people and workloads of an issuer may do, by the claims of their tokens:
 *
 *     {issuer, claim, value} -> {tenants, role}
 *
 *     https://login.example  groups                    dev   team-*   editor
 *     https://kubernetes…    /kubernetes.io/namespace  *     {value}  sender
 *
 * claim is a path (claims.h). value "*" stands for every value. tenants is a name of a tenant, or a
 * pattern with '*' at its end; {value} in it is replaced by the value of the claim, unless that is
 * no name of a tenant or has a '*': names may have one, and a claim must not widen a pattern. The
 * claim email counts only if email_verified is true, because at some issuers users choose their
 * address.
 *
 *     role           scopes
 *     sender         push, debuginfo: workloads
 *     viewer         read
 *     editor         read, rules, share
 *     admin          read, rules, share, delete, tenant-admin
 *     cluster-admin  those of admin, and admin; only for all tenants ("*")
 *
 * Pure. A token or session is reduced to the claims that bindings ask for, so that a session has
 * room for them in a cookie: first fg_bindings_claims(), then fg_bindings_roles(), again after each
 * change of the bindings.
 */
#ifndef FG_COMMON_ACCESS_REGISTRY_BINDINGS_H
#define FG_COMMON_ACCESS_REGISTRY_BINDINGS_H

#include "common/access/registry/registry.pb-c.h"
#include "common/access/registry/role.h"
#include "common/base/arena.h"
#include "common/base/err.h"

enum {
    FG_BINDINGS_MAX = 4096,
    FG_ACCESS_ROLES_MAX = 64,   /* of one caller: pairs of a pattern and scopes */
    FG_ACCESS_CLAIMS_MAX = 256, /* of one caller, that bindings ask for */
};

struct fg_binding {
    struct fg_slice issuer, claim, value, tenants;
    unsigned scopes; /* of the role */
};

/* Bindings from one or two places: the registry's, and those of settings. Borrowed. */
struct fg_bindings {
    const struct fg_binding *list;
    size_t n;
    uint64_t generation;            /* another one whenever the list is another one */
    const struct fg_bindings *more; /* NULL: none */
};

/* A value of a claim. */
struct fg_claim {
    struct fg_slice path, value;
};

/* Returns the bindings of a registry, with a generation that no other list of this process has.
 * Texts are the message's. A role of a later version gives nothing. Returns NULL at the limit of
 * the arena. Any thread. */
const struct fg_bindings *fg_bindings_create(const Access__Registry *registry,
                                             struct fg_arena *arena) fg_must_check;

/* Returns the scopes of a role, 0 for an unknown name. */
unsigned fg_role_scopes(struct fg_slice role);

/* Checks what somebody wants to bind. FG_E_INVALID names the fault. */
enum fg_code fg_binding_check(const struct fg_binding *binding, struct fg_err *err) fg_must_check;

/* Returns the claims in the JSON that bindings of the issuer ask for, each once. FG_E_LIMIT: more
 * than FG_ACCESS_CLAIMS_MAX, or the arena is full. */
enum fg_code fg_bindings_claims(const struct fg_bindings *bindings, struct fg_slice issuer,
                                struct fg_slice json, struct fg_arena *arena,
                                struct fg_claim **ret_claims, uint32_t *ret_n,
                                struct fg_err *err) fg_must_check;

/* Returns the roles that the bindings give for the claims, one for each pattern. FG_E_LIMIT: more
 * than FG_ACCESS_ROLES_MAX, or the arena is full. */
enum fg_code fg_bindings_roles(const struct fg_bindings *bindings, struct fg_slice issuer,
                               const struct fg_claim *claims, uint32_t n_claims,
                               struct fg_arena *arena, struct fg_access_role **ret_roles,
                               uint32_t *ret_n, struct fg_err *err) fg_must_check;

#endif
