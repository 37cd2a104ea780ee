/*
 * The registry of access: which tenants there are, which tokens, which roles people get. It is one
 * object in the bucket, access/registry (common/storage/bucket/message_object.h), and every process
 * reads it again every few seconds. A registry in memory is immutable and reference counted, since
 * a request may use it while the next one is loaded.
 *
 * Thread: any, after fg_access_registry_create().
 */
#ifndef FG_COMMON_ACCESS_REGISTRY_REGISTRY_H
#define FG_COMMON_ACCESS_REGISTRY_REGISTRY_H

#include "common/access/registry/registry.pb-c.h"
#include "common/access/registry/token.h"
#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/base/map.h"
#include "common/model/selector.h"

#include <stdatomic.h>

#define FG_ACCESS_REGISTRY_NAME "access/registry"

enum {
    FG_ACCESS_REGISTRY_MAX_BYTES = 16 * 1024 * 1024, /* about 64,000 tokens */
    FG_ACCESS_ARENA_MAX_BYTES = 16 * FG_ACCESS_REGISTRY_MAX_BYTES,
    FG_ACCESS_SECRETS_MAX = 2,         /* of a token: one, and the one that replaces it */
    FG_ACCESS_TENANTS_MAX = 32,        /* of a token */
    FG_ACCESS_ALL_TENANTS_MAX = 65536, /* of the registry */
    FG_ACCESS_DELETED_KEPT_DAYS = 400, /* an entry of a deleted tenant, after the end */
    FG_ACCESS_NAME_MAX_BYTES = 200,
    /* Of those who govern some tenants only, for each of these: a sixteenth of the registry. */
    FG_ACCESS_TENANT_TOKENS_MAX = 4096,
    FG_ACCESS_TENANT_BINDINGS_MAX = 256,
    FG_ACCESS_TENANT_MAX_BYTES = 1024 * 1024, /* of tokens and bindings */
    /* Additions leave so much: the end of tokens and tenants, and keys, find room always. Those who
     * govern some tenants only leave it twice. */
    FG_ACCESS_RESERVED_BYTES = 1024 * 1024,
};

struct fg_bindings;  /* common/access/registry/bindings.h */
struct fg_token_use; /* common/access/registry/token_uses.h */

struct fg_access_registry {
    const Access__Registry *message;
    struct fg_map tenants, tokens; /* by id: their positions in the message */
    const struct fg_bindings *bindings;
    const struct fg_selector *matchers; /* of each token; without matchers: an empty selector */
    struct fg_token_use **uses;         /* of each token; NULL: they are not recorded */
    struct fg_arena *arena;
    _Atomic unsigned refs;
};

/*
 * Checks a message and makes a registry of it, with one reference. Takes over the arena, which has
 * the message, also if it fails. FG_E_CORRUPT says what in it is wrong. FG_E_LIMIT: the arena is
 * full.
 */
enum fg_code fg_access_registry_create(const Access__Registry *message, struct fg_arena *arena,
                                       struct fg_access_registry **ret_registry,
                                       struct fg_err *err) fg_must_check;

/* Adds a reference. */
struct fg_access_registry *fg_access_registry_ref(struct fg_access_registry *registry);
/* Removes a reference. Accepts NULL. */
void fg_access_registry_unref(struct fg_access_registry *registry);

/* Return what has that id, or NULL. *ret_at: the position of the token; NULL: not wanted. */
const Access__Tenant *fg_access_find_tenant(const struct fg_access_registry *registry,
                                            struct fg_slice id);
const Access__Token *fg_access_find_token(const struct fg_access_registry *registry,
                                          struct fg_slice id, uint32_t *ret_at);

/*
 * Checks that a registry in the bucket, of that generation, is not older than one that was read
 * before; 0: there is no object. Each change adds one, so an older one was put in its place, from a
 * backup for example, and lacks tokens and keys. FG_E_CORRUPT says so.
 */
enum fg_code fg_access_check_generation(uint64_t generation, uint64_t known,
                                        struct fg_err *err) fg_must_check;

/* Returns whether the data of the tenant has to go, or has gone (tenant_deletion.h). tenant NULL:
 * it is not in the registry. */
bool fg_access_is_deleted(const Access__Tenant *tenant);

/* Returns whether the token may be used now with this secret. */
bool fg_access_token_is_valid(const Access__Token *token, const uint8_t hash[FG_TOKEN_HASH_BYTES],
                              int64_t now_ms);

/* Returns whether the token is expired or revoked. */
bool fg_access_token_has_ended(const Access__Token *token, int64_t now_ms);

/* Returns whether any token has the scope admin and may be used now or later. */
bool fg_access_has_admin(const Access__Registry *registry, int64_t now_ms);

/*
 * Changes. Each takes a message in an arena, checks what it is asked to do, and changes the
 * message; a change that was made already succeeds. `by`: who makes it. Errors: FG_E_INVALID says
 * what cannot be done, FG_E_NOT_FOUND, FG_E_EXISTS, FG_E_LIMIT: too many, or the arena is full.
 */
struct fg_access_change {
    Access__Registry *registry;
    struct fg_arena *arena;
    const char *by;
    int64_t now_ms;
    bool bounded; /* by somebody who governs some tenants only, and must not fill the registry */
};

/*
 * Checks that the registry has room for one more message of `bytes`, and forgets ended tokens if
 * that is needed, those that ended first. FG_E_LIMIT: it has none.
 */
enum fg_code fg_access_make_room(const struct fg_access_change *change, size_t bytes,
                                 struct fg_err *err) fg_must_check;

/*
 * Checks that a bounded change leaves tenant's tokens and bindings within FG_ACCESS_TENANT_...,
 * with so many more of `bytes`, and forgets ended tokens of the tenant if that is needed. Any other
 * change passes. FG_E_LIMIT names the tenant.
 */
enum fg_code fg_access_check_share(const struct fg_access_change *change, const char *tenant,
                                   size_t tokens, size_t bindings, size_t bytes,
                                   struct fg_err *err) fg_must_check;

/* Forgets ended tokens of a registry that would be too large to be stored. */
void fg_access_fit(const struct fg_access_change *change);

/* Returns the tenant of that id in the message that is changed; NULL: there is none. */
Access__Tenant *fg_access_changed_tenant(const struct fg_access_change *change, struct fg_slice id);

/* Removes the bindings to a tenant, and returns how many there were. Those to a pattern stay: it
 * may mean other tenants, too. */
uint32_t fg_access_remove_bindings(const struct fg_access_change *change, const char *tenant);

/* Finds the tenant of that id in the message that is changed. FG_E_NOT_FOUND names the id. */
enum fg_code fg_access_find_changed_tenant(const struct fg_access_change *change,
                                           struct fg_slice id, Access__Tenant **ret_tenant,
                                           struct fg_err *err) fg_must_check;

/* Creates an active tenant, also in the place of one that was deleted (tenant_deletion.h). Forgets
 * those that were deleted more than FG_ACCESS_DELETED_KEPT_DAYS ago.
 * FG_E_EXISTS unless it is active; FG_E_PRECONDITION: the key of the deleted one was shredded. */
enum fg_code fg_access_create_tenant(const struct fg_access_change *change, struct fg_slice id,
                                     struct fg_err *err) fg_must_check;

/* Makes a tenant active or suspended. One that is being deleted, or was, keeps its state:
 * FG_E_PRECONDITION. */
enum fg_code fg_access_set_tenant_state(const struct fg_access_change *change, struct fg_slice id,
                                        Access__Tenant__State state,
                                        struct fg_err *err) fg_must_check;

/* Sets a limit of a tenant by its name in the settings; value "": removes it. Creates no tenant. */
enum fg_code fg_access_set_limit(const struct fg_access_change *change, struct fg_slice id,
                                 const char *name, const char *value,
                                 struct fg_err *err) fg_must_check;

/* Writes the limits of a tenant as YAML, for fg_tenants_override(). */
void fg_access_limits_yaml(const Access__Tenant *tenant, struct fg_buf *out);

/* Adds a token. `token` has id, name, tenants, scopes, matchers, tenant_label, times and one
 * secret; the rest is filled in. Everything is copied. Ended tokens may be forgotten for it.
 * FG_E_LIMIT, too: as of fg_access_check_share(). */
enum fg_code fg_access_create_token(const struct fg_access_change *change,
                                    const Access__Token *token, struct fg_err *err) fg_must_check;

/* Adds a secret to a token. The one before it is valid for overlap_ms more, older ones end now. */
enum fg_code fg_access_rotate_token(const struct fg_access_change *change, struct fg_slice id,
                                    const uint8_t hash[FG_TOKEN_HASH_BYTES], int64_t overlap_ms,
                                    struct fg_err *err) fg_must_check;

/* Ends a token for good. */
enum fg_code fg_access_revoke_token(const struct fg_access_change *change, struct fg_slice id,
                                    struct fg_err *err) fg_must_check;

/* Returns scopes by their names, separated by commas ("push,read"; "all"). FG_E_INVALID names the
 * unknown one and lists the known ones. */
enum fg_code fg_access_read_scopes(struct fg_slice text, unsigned *ret_scopes,
                                   struct fg_err *err) fg_must_check;
/* Appends the names of scopes, separated by commas. */
void fg_access_write_scopes(unsigned scopes, struct fg_buf *out);

#endif
