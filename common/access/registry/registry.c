#include "common/access/registry/registry.h"

#include "common/access/registry/bindings.h"
#include "common/access/registry/tenant_keys.h"
#include "common/base/hash.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/model/tenant_id.h"
#include "common/net/guard.h"
#include "common/net/pbjson.h"

enum {
    TOKENS_MAX = 65536,     /* every process reads all of them, every few seconds */
    TOKENS_RESERVED = 1024, /* for those who govern all tenants */
    LIMITS_MAX = 100,       /* of a tenant; there are about forty */
    LIMIT_VALUE_MAX_BYTES = 64 * 1024,
    MATCHERS_MAX_BYTES = 4096,          /* as a selector that people can still read */
    TENANT_LABEL_MAX_BYTES = 16 * 1024, /* hundreds of values */
    FRAME_MAX_BYTES = 8,                /* tag and length of a message in the registry */
};

/* Tokens that ended so long ago are forgotten when another one is created. */
#define FORGET_AFTER_MS (INT64_C(400) * 24 * 3600 * 1000)

/* ---- scopes ---- */

static const struct {
    const char *name;
    unsigned scope;
} scope_names[] = {
    {"push", FG_SCOPE_PUSH},       {"read", FG_SCOPE_READ},
    {"forward", FG_SCOPE_FORWARD}, {"debuginfo", FG_SCOPE_DEBUGINFO},
    {"rules", FG_SCOPE_RULES},     {"share", FG_SCOPE_SHARE},
    {"delete", FG_SCOPE_DELETE},   {"tenant-admin", FG_SCOPE_TENANT_ADMIN},
    {"admin", FG_SCOPE_ADMIN},     {"metrics", FG_SCOPE_METRICS},
};

static unsigned scope_of(struct fg_slice name)
{
    for (size_t i = 0; i < FG_COUNT(scope_names); i++)
        if (fg_slice_is(name, scope_names[i].name))
            return scope_names[i].scope;
    return fg_slice_is(name, "all") ? FG_SCOPES_ALL : 0;
}

enum fg_code fg_access_read_scopes(struct fg_slice text, unsigned *ret_scopes, struct fg_err *err)
{
    unsigned scopes = 0;

    do {
        size_t comma = FG_MIN(fg_slice_find(text, ','), text.len);
        struct fg_slice name = fg_trim(fg_slice_sub(text, 0, comma));
        unsigned scope = scope_of(name);

        if (scope == 0)
            return fg_fail(err, FG_E_INVALID,
                           "unknown scope \"%.*s\"; there are push, read, forward, debuginfo, "
                           "rules, share, delete, tenant-admin, admin, metrics, and all",
                           FG_S(fg_slice_sub(name, 0, FG_ACCESS_NAME_MAX_BYTES)));
        scopes |= scope;
        text = fg_slice_sub(text, comma + 1, SIZE_MAX);
    } while (text.len > 0);
    *ret_scopes = scopes;
    return FG_OK;
}

void fg_access_write_scopes(unsigned scopes, struct fg_buf *out)
{
    const char *between = "";

    for (size_t i = 0; i < FG_COUNT(scope_names); i++)
        if (scopes & scope_names[i].scope) {
            fg_buf_puts(out, between);
            fg_buf_puts(out, scope_names[i].name);
            between = ",";
        }
}

/* ---- what a message must have ---- */

static enum fg_code check_name(const char *name, struct fg_err *err)
{
    struct fg_slice text = fg_cstr(name);

    if (text.len == 0 || text.len > FG_ACCESS_NAME_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "a name has 1 to %d bytes", FG_ACCESS_NAME_MAX_BYTES);
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] < ' ' || text.ptr[i] == 0x7f)
            return fg_fail(err, FG_E_INVALID, "a name has no control characters");
    return fg_utf8_valid(text) ? FG_OK : fg_fail(err, FG_E_INVALID, "a name is UTF-8");
}

static enum fg_code check_tenants(const Access__Token *token, struct fg_err *err)
{
    if (token->n_tenants == 0)
        return fg_fail(err, FG_E_INVALID, "a token needs a tenant, or \"*\" for all");
    if (token->n_tenants > FG_ACCESS_TENANTS_MAX)
        return fg_fail(err, FG_E_INVALID, "a token has at most %d tenants", FG_ACCESS_TENANTS_MAX);
    for (size_t i = 0; i < token->n_tenants; i++)
        if (strcmp(token->tenants[i], "*") != 0 &&
            fg_tenant_check(fg_cstr(token->tenants[i]), err) != FG_OK)
            return err->code;
    return FG_OK;
}

static bool is_for_all(const Access__Token *token)
{
    for (size_t i = 0; i < token->n_tenants; i++)
        if (strcmp(token->tenants[i], "*") == 0)
            return true;
    return false;
}

static enum fg_code check_secrets(const Access__Token *token, struct fg_err *err)
{
    bool good = token->n_secrets > 0 && token->n_secrets <= FG_ACCESS_SECRETS_MAX;

    for (size_t i = 0; i < token->n_secrets && good; i++)
        good = token->secrets[i]->sha256.len == FG_TOKEN_HASH_BYTES;
    return good ? FG_OK : fg_fail(err, FG_E_INVALID, "a token has one or two SHA-256 of a secret");
}

static bool is_id(const char *id)
{
    size_t len = strlen(id);

    for (size_t i = 0; i < len; i++)
        if (!((id[i] >= '0' && id[i] <= '9') || (id[i] >= 'A' && id[i] <= 'Z') ||
              (id[i] >= 'a' && id[i] <= 'z')))
            return false;
    return len == FG_TOKEN_ID_CHARS;
}

static bool has_tenant(const Access__Token *token, const char *tenant)
{
    for (size_t i = 0; i < token->n_tenants; i++)
        if (strcmp(token->tenants[i], tenant) == 0)
            return true;
    return false;
}

static enum fg_code check_tenant_label(const Access__Token *token, struct fg_err *err)
{
    const Access__TenantLabel *label = token->tenant_label;

    if (label == NULL)
        return FG_OK;
    if (!(token->scopes & FG_SCOPE_PUSH) || label->name[0] == '\0')
        return fg_fail(err, FG_E_INVALID,
                       "tenant_label is for tokens with the scope push, and names a label");
    /* Agents set the label: its values choose among the tenants of the token, and name no
     * others. */
    for (size_t i = 0; i < label->n_tenants; i++)
        if (!has_tenant(token, label->tenants[i]->tenant))
            return fg_fail(err, FG_E_INVALID, "tenant_label: \"%.150s\" is no tenant of the token",
                           label->tenants[i]->tenant);
    if (label->otherwise[0] != '\0' && !has_tenant(token, label->otherwise))
        return fg_fail(err, FG_E_INVALID, "tenant_label: \"%.150s\" is no tenant of the token",
                       label->otherwise);
    /* With "*" a label could name any tenant. */
    return is_for_all(token)
               ? fg_fail(err, FG_E_INVALID, "tenant_label: the token lists its tenants")
               : FG_OK;
}

static enum fg_code check_token(const Access__Token *token, struct fg_err *err)
{
    if (!is_id(token->id))
        return fg_fail(err, FG_E_INVALID, "the id of a token has %d letters and digits",
                       FG_TOKEN_ID_CHARS);
    if (token->scopes == 0 || (token->scopes & ~(unsigned)FG_SCOPES_ALL))
        return fg_fail(err, FG_E_INVALID, "a token needs a scope, and only known ones");
    if ((token->scopes & (FG_SCOPE_ADMIN | FG_SCOPE_METRICS)) && !is_for_all(token))
        return fg_fail(err, FG_E_INVALID,
                       "the scopes admin and metrics are not about tenants: such a token has the "
                       "tenants \"*\"");
    if (token->matchers[0] != '\0' && (token->scopes & ~(unsigned)(FG_SCOPE_PUSH | FG_SCOPE_READ)))
        return fg_fail(
            err, FG_E_INVALID,
            "a token with matchers has no scopes but push and read: the others are about "
            "all profiles of a tenant");
    if (strlen(token->matchers) > MATCHERS_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "matchers have at most %d bytes", MATCHERS_MAX_BYTES);
    if (token->expires_ms < 0 || token->not_before_ms < 0 ||
        (token->expires_ms > 0 && token->expires_ms <= token->not_before_ms))
        return fg_fail(err, FG_E_INVALID, "a token expires after it begins");
    if (check_name(token->name, err) != FG_OK || check_tenants(token, err) != FG_OK ||
        check_secrets(token, err) != FG_OK)
        return err->code;
    return check_tenant_label(token, err);
}

/* ---- in memory ---- */

static uint64_t hash_of(const char *id)
{
    return fg_hash64_table(fg_cstr(id));
}

static enum fg_code index_tenants(struct fg_access_registry *registry, struct fg_err *err)
{
    const Access__Registry *message = registry->message;

    if (message->n_tenants > FG_ACCESS_ALL_TENANTS_MAX ||
        !fg_map_reserve_in(&registry->tenants, registry->arena, (uint32_t)message->n_tenants))
        return fg_fail(err, FG_E_LIMIT, "too many tenants");
    for (size_t i = 0; i < message->n_tenants; i++) {
        const char *id = message->tenants[i]->id;

        if (fg_tenant_check(fg_cstr(id), err) != FG_OK)
            return err->code;
        if (fg_access_find_tenant(registry, fg_cstr(id)) != NULL)
            return fg_fail(err, FG_E_INVALID, "tenant %s is there twice", id);
        if (!fg_map_add_in(&registry->tenants, registry->arena, hash_of(id), (uint32_t)i))
            return fg_fail(err, FG_E_LIMIT, "too many tenants");
    }
    return FG_OK;
}

static enum fg_code index_tokens(struct fg_access_registry *registry, struct fg_err *err)
{
    const Access__Registry *message = registry->message;
    struct fg_selector *matchers;

    if (message->n_tokens > TOKENS_MAX ||
        !fg_map_reserve_in(&registry->tokens, registry->arena, (uint32_t)message->n_tokens))
        return fg_fail(err, FG_E_LIMIT, "too many tokens");
    matchers = fg_arena_new(registry->arena, struct fg_selector, message->n_tokens + 1);
    if (matchers == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for tokens");
    registry->matchers = matchers;
    for (size_t i = 0; i < message->n_tokens; i++) {
        const Access__Token *token = message->tokens[i];

        if (check_token(token, err) != FG_OK)
            return fg_wrap(err, "token %s", token->id);
        if (fg_access_find_token(registry, fg_cstr(token->id), NULL) != NULL)
            return fg_fail(err, FG_E_INVALID, "token %s is there twice", token->id);
        if (token->matchers[0] != '\0' &&
            fg_selector_parse(fg_cstr(token->matchers), registry->arena, &matchers[i], err) !=
                FG_OK)
            return fg_wrap(err, "token %s: matchers", token->id);
        if (!fg_map_add_in(&registry->tokens, registry->arena, hash_of(token->id), (uint32_t)i))
            return fg_fail(err, FG_E_LIMIT, "too many tokens");
    }
    return FG_OK;
}

enum fg_code fg_access_registry_create(const Access__Registry *message, struct fg_arena *arena,
                                       struct fg_access_registry **ret_registry, struct fg_err *err)
{
    struct fg_access_registry *registry = fg_new(struct fg_access_registry);

    registry->message = message;
    registry->arena = arena;
    atomic_init(&registry->refs, 1);
    registry->bindings = fg_bindings_create(message, arena);
    if (registry->bindings == NULL)
        (void)fg_fail(err, FG_E_LIMIT, "too many bindings");
    if (registry->bindings == NULL || index_tenants(registry, err) != FG_OK ||
        index_tokens(registry, err) != FG_OK || fg_tenant_keys_check(message, err) != FG_OK) {
        if (err->code == FG_E_INVALID)
            err->code = FG_E_CORRUPT; /* it was checked before it was stored */
        fg_access_registry_unref(registry);
        return fg_wrap(err, "%s", FG_ACCESS_REGISTRY_NAME);
    }
    *ret_registry = registry;
    return FG_OK;
}

struct fg_access_registry *fg_access_registry_ref(struct fg_access_registry *registry)
{
    (void)atomic_fetch_add_explicit(&registry->refs, 1, memory_order_relaxed);
    return registry;
}

void fg_access_registry_unref(struct fg_access_registry *registry)
{
    if (registry == NULL || atomic_fetch_sub(&registry->refs, 1) != 1)
        return;
    for (size_t i = 0; registry->matchers != NULL && i < registry->message->n_tokens; i++) {
        struct fg_selector matchers = registry->matchers[i];

        fg_selector_done(&matchers);
    }
    fg_arena_destroy(registry->arena);
    free(registry);
}

const Access__Tenant *fg_access_find_tenant(const struct fg_access_registry *registry,
                                            struct fg_slice id)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&registry->tenants, fg_hash64_table(id), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&registry->tenants, &walk))
        if (fg_slice_is(id, registry->message->tenants[i]->id))
            return registry->message->tenants[i];
    return NULL;
}

const Access__Token *fg_access_find_token(const struct fg_access_registry *registry,
                                          struct fg_slice id, uint32_t *ret_at)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&registry->tokens, fg_hash64_table(id), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&registry->tokens, &walk)) {
        if (!fg_slice_is(id, registry->message->tokens[i]->id))
            continue;
        if (ret_at != NULL)
            *ret_at = i;
        return registry->message->tokens[i];
    }
    return NULL;
}

static bool has_ended(int64_t end_ms, int64_t now_ms)
{
    return end_ms != 0 && end_ms <= now_ms;
}

bool fg_access_token_has_ended(const Access__Token *token, int64_t now_ms)
{
    return token->revoked_ms != 0 || has_ended(token->expires_ms, now_ms);
}

bool fg_access_token_is_valid(const Access__Token *token, const uint8_t hash[FG_TOKEN_HASH_BYTES],
                              int64_t now_ms)
{
    bool known = false;

    /* All are compared, so the time says nothing about which one it is. */
    for (size_t i = 0; i < token->n_secrets; i++) {
        bool equal = fg_token_hash_eq(token->secrets[i]->sha256.data, hash);

        known |= equal && !has_ended(token->secrets[i]->expires_ms, now_ms);
    }
    return known && token->not_before_ms <= now_ms && !fg_access_token_has_ended(token, now_ms);
}

bool fg_access_has_admin(const Access__Registry *registry, int64_t now_ms)
{
    for (size_t i = 0; i < registry->n_tokens; i++)
        if ((registry->tokens[i]->scopes & FG_SCOPE_ADMIN) &&
            !fg_access_token_has_ended(registry->tokens[i], now_ms))
            return true;
    return false;
}

enum fg_code fg_access_check_generation(uint64_t generation, uint64_t known, struct fg_err *err)
{
    if (generation >= known)
        return FG_OK;
    if (generation == 0)
        return fg_fail(err, FG_E_CORRUPT, "%s is gone from the bucket", FG_ACCESS_REGISTRY_NAME);
    return fg_fail(err, FG_E_CORRUPT,
                   "%s in the bucket has the generation %llu, which is older than the known one, "
                   "%llu",
                   FG_ACCESS_REGISTRY_NAME, (unsigned long long)generation,
                   (unsigned long long)known);
}

bool fg_access_is_deleted(const Access__Tenant *tenant)
{
    return tenant != NULL && (tenant->state == ACCESS__TENANT__STATE__DELETING ||
                              tenant->state == ACCESS__TENANT__STATE__DELETED);
}

/* ---- changes ---- */

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the registry of access is too large");
}

/* Appends to one of the arrays of pointers of a message. */
static bool append(struct fg_arena *arena, void *array, size_t *n, void *item)
{
    void **old, **grown = fg_arena_alloc(arena, (*n + 1) * sizeof *grown);

    if (grown == NULL || item == NULL)
        return false;
    memcpy(&old, array, sizeof old);
    if (*n > 0)
        memcpy(grown, old, *n * sizeof *grown);
    grown[(*n)++] = item;
    memcpy(array, &grown, sizeof grown);
    return true;
}

/* Copies a message by way of its bytes. NULL: the arena is full. */
static void *copy(struct fg_arena *arena, const ProtobufCMessage *message)
{
    struct fg_buf bytes;
    ProtobufCMessage *copied = NULL;
    struct fg_err err;
    struct fg_slice kept;

    /* protobuf-c has no function that copies a message. */
    fg_buf_init(&bytes, FG_ACCESS_REGISTRY_MAX_BYTES);
    fg_pb_write(message, &bytes);
    kept = fg_arena_copy(arena, fg_buf_slice(&bytes));
    if (bytes.full || (kept.ptr == NULL && kept.len > 0) ||
        fg_pb_read(kept, message->descriptor, arena, &copied, &err) != FG_OK)
        copied = NULL;
    fg_buf_done(&bytes);
    return copied;
}

/* ---- room ---- */

static size_t packed_bytes(const ProtobufCMessage *message)
{
    return protobuf_c_message_get_packed_size(message);
}

/* A token that has ended, and its place in the message. */
struct ended {
    int64_t end_ms;
    size_t at;
};

static int by_end(const void *a, const void *b)
{
    const struct ended *left = a, *right = b;

    return (left->end_ms > right->end_ms) - (left->end_ms < right->end_ms);
}

/* Forgets ended tokens, those that ended first, until these are n and have so many bytes, or there
 * are no more. Only lists show them, and the audit has who made and revoked them. tenant NULL: any.
 */
static void forget_ended(const struct fg_access_change *change, const char *tenant, size_t n,
                         size_t bytes)
{
    Access__Registry *registry = change->registry;
    struct ended *ended = fg_arena_new(change->arena, struct ended, registry->n_tokens + 1);
    size_t n_ended = 0, kept = 0, n_gone = 0, bytes_gone = 0;

    for (size_t i = 0; ended != NULL && i < registry->n_tokens; i++) {
        const Access__Token *token = registry->tokens[i];
        int64_t end_ms = token->revoked_ms != 0 ? token->revoked_ms : token->expires_ms;

        if (fg_access_token_has_ended(token, change->now_ms) &&
            (tenant == NULL || has_tenant(token, tenant)))
            ended[n_ended++] = (struct ended){end_ms, i};
    }
    if (n_ended == 0)
        return;
    qsort(ended, n_ended, sizeof *ended, by_end);
    for (; n_gone < n_ended && (n_gone < n || bytes_gone < bytes); n_gone++) {
        Access__Token **token = &registry->tokens[ended[n_gone].at];

        bytes_gone += packed_bytes(&(*token)->base);
        *token = NULL;
    }
    for (size_t i = 0; i < registry->n_tokens; i++)
        if (registry->tokens[i] != NULL)
            registry->tokens[kept++] = registry->tokens[i];
    registry->n_tokens = kept;
}

enum fg_code fg_access_make_room(const struct fg_access_change *change, size_t bytes,
                                 struct fg_err *err)
{
    const size_t max =
        FG_ACCESS_REGISTRY_MAX_BYTES - (change->bounded ? 2 : 1) * (size_t)FG_ACCESS_RESERVED_BYTES;
    size_t size = packed_bytes(&change->registry->base) + bytes + FRAME_MAX_BYTES;

    if (size > max) {
        forget_ended(change, NULL, 0, size - max);
        size = packed_bytes(&change->registry->base) + bytes + FRAME_MAX_BYTES;
    }
    return size <= max ? FG_OK
                       : fg_fail(err, FG_E_LIMIT,
                                 "the registry of access is full: tokens that are revoked or "
                                 "bindings that are deleted make room");
}

/* The tokens and bindings of a tenant. */
struct share {
    size_t tokens, bindings, bytes;
};

static struct share share_of(const Access__Registry *registry, const char *tenant)
{
    struct share share = {0, 0, 0};

    for (size_t i = 0; i < registry->n_tokens; i++)
        if (has_tenant(registry->tokens[i], tenant)) {
            share.tokens++;
            share.bytes += packed_bytes(&registry->tokens[i]->base) + FRAME_MAX_BYTES;
        }
    for (size_t i = 0; i < registry->n_bindings; i++)
        if (strcmp(registry->bindings[i]->tenants, tenant) == 0) {
            share.bindings++;
            share.bytes += packed_bytes(&registry->bindings[i]->base) + FRAME_MAX_BYTES;
        }
    return share;
}

static size_t excess(size_t used, size_t more, size_t max)
{
    return used + more > max ? used + more - max : 0;
}

enum fg_code fg_access_check_share(const struct fg_access_change *change, const char *tenant,
                                   size_t tokens, size_t bindings, size_t bytes, struct fg_err *err)
{
    struct share share;

    if (!change->bounded)
        return FG_OK;
    for (unsigned i = 0; i < 2; i++) {
        share = share_of(change->registry, tenant);

        const size_t more_tokens = excess(share.tokens, tokens, FG_ACCESS_TENANT_TOKENS_MAX);
        const size_t more_bytes =
            excess(share.bytes, bytes + FRAME_MAX_BYTES, FG_ACCESS_TENANT_MAX_BYTES);

        if (more_tokens + more_bytes == 0 &&
            share.bindings + bindings <= FG_ACCESS_TENANT_BINDINGS_MAX)
            return FG_OK;
        forget_ended(change, tenant, more_tokens, more_bytes);
    }
    return fg_fail(err, FG_E_LIMIT,
                   "tenant \"%.150s\" has %zu tokens and %zu bindings of %zu bytes; at most %d, %d "
                   "and %d are possible for its admins: revoke or delete some",
                   tenant, share.tokens, share.bindings, share.bytes, FG_ACCESS_TENANT_TOKENS_MAX,
                   FG_ACCESS_TENANT_BINDINGS_MAX, FG_ACCESS_TENANT_MAX_BYTES);
}

void fg_access_fit(const struct fg_access_change *change)
{
    size_t size = packed_bytes(&change->registry->base);

    if (size > FG_ACCESS_REGISTRY_MAX_BYTES)
        forget_ended(change, NULL, 0, size - FG_ACCESS_REGISTRY_MAX_BYTES);
}

Access__Tenant *fg_access_changed_tenant(const struct fg_access_change *change, struct fg_slice id)
{
    for (size_t i = 0; i < change->registry->n_tenants; i++)
        if (fg_slice_is(id, change->registry->tenants[i]->id))
            return change->registry->tenants[i];
    return NULL;
}

static Access__Token *token_of(const struct fg_access_change *change, struct fg_slice id)
{
    for (size_t i = 0; i < change->registry->n_tokens; i++)
        if (fg_slice_is(id, change->registry->tokens[i]->id))
            return change->registry->tokens[i];
    return NULL;
}

enum fg_code fg_access_find_changed_tenant(const struct fg_access_change *change,
                                           struct fg_slice id, Access__Tenant **ret_tenant,
                                           struct fg_err *err)
{
    *ret_tenant = fg_access_changed_tenant(change, id);
    return *ret_tenant != NULL ? FG_OK
                               : fg_fail(err, FG_E_NOT_FOUND, "there is no tenant \"%.*s\"",
                                         FG_S(fg_slice_sub(id, 0, FG_ACCESS_NAME_MAX_BYTES)));
}

static enum fg_code find_token(const struct fg_access_change *change, struct fg_slice id,
                               Access__Token **ret_token, struct fg_err *err)
{
    *ret_token = token_of(change, id);
    return *ret_token != NULL ? FG_OK
                              : fg_fail(err, FG_E_NOT_FOUND, "there is no token \"%.*s\"",
                                        FG_S(fg_slice_sub(id, 0, FG_ACCESS_NAME_MAX_BYTES)));
}

static const int64_t KEPT_MS = FG_ACCESS_DELETED_KEPT_DAYS * INT64_C(86400000);

/* Tokens of one tenant were revoked with it. */
static bool is_named_by_tokens(const struct fg_access_change *change, const char *id)
{
    const Access__Registry *registry = change->registry;

    for (size_t i = 0; i < registry->n_tokens; i++)
        if (registry->tokens[i]->n_tenants > 1 &&
            !fg_access_token_has_ended(registry->tokens[i], change->now_ms) &&
            has_tenant(registry->tokens[i], id))
            return true;
    return false;
}

/*
 * Forgets tenants that were deleted long ago, since there may be FG_ACCESS_ALL_TENANTS_MAX entries
 * in all. An entry keeps out what arrives late: queues of senders (hours), objects that no manifest
 * lists (compactor.orphan_after, a year at most), counts of queries for bills (40 days). All that
 * is over after FG_ACCESS_DELETED_KEPT_DAYS. A member of the ring that was away has delayed the end
 * itself. An entry that a token of several tenants names stays until the token ends: a later tenant
 * of the name is not the one that it was made for. Its shredded keys stay in the registry, and with
 * them what is encrypted stays unreadable.
 */
static void forget_deleted(const struct fg_access_change *change)
{
    Access__Registry *registry = change->registry;
    size_t kept = 0;

    for (size_t i = 0; i < registry->n_tenants; i++) {
        const Access__Tenant *tenant = registry->tenants[i];

        if (tenant->state != ACCESS__TENANT__STATE__DELETED || tenant->deletion == NULL ||
            change->now_ms - tenant->deletion->ended_ms < KEPT_MS ||
            is_named_by_tokens(change, tenant->id))
            registry->tenants[kept++] = registry->tenants[i];
    }
    registry->n_tenants = kept;
}

/* The place for a new tenant of that name in the message: the end, or that of one that was deleted.
 */
static enum fg_code find_place(const struct fg_access_change *change, struct fg_slice id,
                               size_t *ret_place, struct fg_err *err)
{
    const Access__Registry *registry = change->registry;
    const Access__TenantKey *key = fg_tenant_key_newest(registry, id);
    size_t at = 0;

    while (at < registry->n_tenants && !fg_slice_is(id, registry->tenants[at]->id))
        at++;
    *ret_place = at;
    if (at == FG_ACCESS_ALL_TENANTS_MAX)
        return fg_fail(err, FG_E_LIMIT,
                       "there are %d tenants, with those that were deleted in the last %d days: no "
                       "more are possible",
                       FG_ACCESS_ALL_TENANTS_MAX, FG_ACCESS_DELETED_KEPT_DAYS);
    if (at < registry->n_tenants && registry->tenants[at]->state != ACCESS__TENANT__STATE__DELETED)
        return fg_fail(
            err, FG_E_EXISTS, "tenant \"%s\" is there, and %s", registry->tenants[at]->id,
            registry->tenants[at]->state == ACCESS__TENANT__STATE__SUSPENDED ? "suspended"
                                                                             : "being deleted");
    /* Ingesters would drop what comes: they take it for what the shredded key encrypted. */
    if (key != NULL && key->shredded_ms != 0)
        return fg_fail(err, FG_E_PRECONDITION,
                       "tenant \"%.*s\" was deleted together with its key: make it a new key first "
                       "(flamegrid encryption rotate), or choose another name",
                       FG_S(id));
    return FG_OK;
}

uint32_t fg_access_remove_bindings(const struct fg_access_change *change, const char *tenant)
{
    Access__Registry *registry = change->registry;
    size_t kept = 0, before = registry->n_bindings;

    for (size_t i = 0; i < before; i++)
        if (strcmp(registry->bindings[i]->tenants, tenant) != 0)
            registry->bindings[kept++] = registry->bindings[i];
    registry->n_bindings = kept;
    return (uint32_t)(before - kept);
}

enum fg_code fg_access_create_tenant(const struct fg_access_change *change, struct fg_slice id,
                                     struct fg_err *err)
{
    Access__Tenant tenant, *made, *there = fg_access_changed_tenant(change, id);
    size_t place;

    if (fg_tenant_check(id, err) != FG_OK)
        return err->code;
    if (fg_slice_is(id, "*"))
        return fg_fail(err, FG_E_INVALID, "\"*\" means all tenants, so none has that name");
    if (there != NULL && there->state == ACCESS__TENANT__STATE__ACTIVE)
        return FG_OK;
    /* First, since it makes room and moves pointers. `there` stays valid: tenants themselves do not
     * move. */
    forget_deleted(change);
    if (find_place(change, id, &place, err) != FG_OK)
        return err->code;
    access__tenant__init(&tenant);
    tenant.id = fg_arena_text(change->arena, id);
    tenant.created_by = fg_arena_text(change->arena, fg_cstr(change->by));
    tenant.created_ms = tenant.changed_ms = change->now_ms;
    /* Whoever governed the earlier tenant, by a token of several, could leave tokens and bindings
     * after its deletion: none of them is for this one. */
    if (there != NULL && there->deletion != NULL) {
        tenant.replaced_ms = change->now_ms;
        (void)fg_access_remove_bindings(change, there->id);
    }
    made =
        tenant.id == NULL || tenant.created_by == NULL ? NULL : copy(change->arena, &tenant.base);
    if (made != NULL && fg_access_make_room(change, packed_bytes(&made->base), err) != FG_OK)
        return err->code;
    if (made != NULL && place < change->registry->n_tenants) {
        change->registry->tenants[place] = made;
        return FG_OK;
    }
    return append(change->arena, &change->registry->tenants, &change->registry->n_tenants, made)
               ? FG_OK
               : no_memory(err);
}

enum fg_code fg_access_set_tenant_state(const struct fg_access_change *change, struct fg_slice id,
                                        Access__Tenant__State state, struct fg_err *err)
{
    Access__Tenant *tenant;

    fg_assert(state == ACCESS__TENANT__STATE__ACTIVE || state == ACCESS__TENANT__STATE__SUSPENDED);
    if (fg_access_find_changed_tenant(change, id, &tenant, err) != FG_OK)
        return err->code;
    if (tenant->state == state)
        return FG_OK;
    if (fg_access_is_deleted(tenant))
        return fg_fail(err, FG_E_PRECONDITION, "tenant \"%s\" %s", tenant->id,
                       tenant->state == ACCESS__TENANT__STATE__DELETING ? "is being deleted"
                                                                        : "was deleted");
    tenant->state = state;
    tenant->changed_ms = change->now_ms;
    return FG_OK;
}

enum fg_code fg_access_set_limit(const struct fg_access_change *change, struct fg_slice id,
                                 const char *name, const char *value, struct fg_err *err)
{
    Access__Limit entry, *added;
    Access__Tenant *tenant;
    size_t at = 0;

    if (fg_access_find_changed_tenant(change, id, &tenant, err) != FG_OK)
        return err->code;
    if (strlen(value) > LIMIT_VALUE_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "limits.%s: longer than %d bytes", name,
                       LIMIT_VALUE_MAX_BYTES);
    while (at < tenant->n_limits && strcmp(tenant->limits[at]->name, name) != 0)
        at++;
    /* The value becomes a line of YAML (fg_access_limits_yaml()): a line feed in it would set
     * another limit. */
    for (const char *c = value; *c != '\0'; c++)
        if ((unsigned char)*c < ' ')
            return fg_fail(err, FG_E_INVALID, "limits.%s: control characters are not allowed",
                           name);
    tenant->changed_ms = change->now_ms;
    if (value[0] == '\0') {
        if (at < tenant->n_limits)
            tenant->limits[at] = tenant->limits[--tenant->n_limits];
        return FG_OK;
    }
    access__limit__init(&entry);
    entry.name = fg_arena_text(change->arena, fg_cstr(name));
    entry.value = fg_arena_text(change->arena, fg_cstr(value));
    added = entry.name == NULL || entry.value == NULL ? NULL : copy(change->arena, &entry.base);
    if (added != NULL && fg_access_make_room(change, packed_bytes(&added->base), err) != FG_OK)
        return err->code;
    if (added != NULL && at < tenant->n_limits) {
        tenant->limits[at] = added;
        return FG_OK;
    }
    if (tenant->n_limits >= LIMITS_MAX)
        return fg_fail(err, FG_E_LIMIT, "a tenant has at most %d limits", LIMITS_MAX);
    return append(change->arena, &tenant->limits, &tenant->n_limits, added) ? FG_OK
                                                                            : no_memory(err);
}

void fg_access_limits_yaml(const Access__Tenant *tenant, struct fg_buf *out)
{
    for (size_t i = 0; i < tenant->n_limits; i++)
        fg_buf_printf(out, "%s: %s\n", tenant->limits[i]->name, tenant->limits[i]->value);
}

/* Leaves out tokens that ended long ago, so that the registry does not grow for ever. */
static void forget_tokens(const struct fg_access_change *change)
{
    Access__Registry *registry = change->registry;
    int64_t before_ms = change->now_ms - FORGET_AFTER_MS;
    size_t kept = 0;

    for (size_t i = 0; i < registry->n_tokens; i++) {
        const Access__Token *token = registry->tokens[i];

        if (!has_ended(token->expires_ms, before_ms) && !has_ended(token->revoked_ms, before_ms))
            registry->tokens[kept++] = registry->tokens[i];
    }
    registry->n_tokens = kept;
}

static enum fg_code check_matchers(const char *matchers, struct fg_arena *arena, struct fg_err *err)
{
    struct fg_selector selector = {0};
    enum fg_code code =
        matchers[0] == '\0' ? FG_OK : fg_selector_parse(fg_cstr(matchers), arena, &selector, err);

    fg_selector_done(&selector);
    return code == FG_OK ? FG_OK : fg_wrap(err, "matchers");
}

/* Only of new ones: those that are stored were made when there was no bound. */
static enum fg_code check_label_size(const Access__TenantLabel *label, struct fg_err *err)
{
    if (label != NULL && (strlen(label->name) > FG_ACCESS_NAME_MAX_BYTES ||
                          packed_bytes(&label->base) > TENANT_LABEL_MAX_BYTES))
        return fg_fail(err, FG_E_INVALID,
                       "tenant_label has at most %d bytes, and the name of the label at most %d",
                       TENANT_LABEL_MAX_BYTES, FG_ACCESS_NAME_MAX_BYTES);
    return FG_OK;
}

/* Checks that there is room for a token, which is complete. */
static enum fg_code check_room(const struct fg_access_change *change, const Access__Token *token,
                               struct fg_err *err)
{
    const size_t max = TOKENS_MAX - (change->bounded ? TOKENS_RESERVED : 0);
    const size_t bytes = packed_bytes(&token->base);

    for (size_t i = 0; i < token->n_tenants; i++)
        if (fg_access_check_share(change, token->tenants[i], 1, 0, bytes, err) != FG_OK)
            return err->code;
    if (change->registry->n_tokens >= max)
        forget_ended(change, NULL, change->registry->n_tokens - max + 1, 0);
    if (change->registry->n_tokens >= max)
        return fg_fail(err, FG_E_LIMIT, "there are %zu tokens, no more are possible", max);
    return fg_access_make_room(change, bytes, err);
}

/* Clocks of servers differ, and a token that one makes for a tenant that another one has just made
 * must not look older than it. */
static int64_t token_time(const struct fg_access_change *change, const Access__Token *token)
{
    int64_t time_ms = change->now_ms;

    for (size_t i = 0; i < token->n_tenants; i++) {
        const Access__Tenant *tenant = fg_access_changed_tenant(change, fg_cstr(token->tenants[i]));

        if (tenant != NULL)
            time_ms = FG_MAX(time_ms, tenant->replaced_ms + 1);
    }
    return time_ms;
}

enum fg_code fg_access_create_token(const struct fg_access_change *change,
                                    const Access__Token *token, struct fg_err *err)
{
    Access__Token *added, *there = token_of(change, fg_cstr(token->id));

    if (check_token(token, err) != FG_OK || check_label_size(token->tenant_label, err) != FG_OK ||
        check_matchers(token->matchers, change->arena, err) != FG_OK)
        return err->code;
    /* From an earlier try of ours, whose answer was lost, if the secret is the same. */
    if (there != NULL)
        return fg_access_token_is_valid(there, token->secrets[0]->sha256.data, change->now_ms)
                   ? FG_OK
                   : fg_fail(err, FG_E_EXISTS, "there is a token of that id");
    forget_tokens(change);
    added = copy(change->arena, &token->base);
    if (added == NULL)
        return no_memory(err);
    added->created_ms = token_time(change, added);
    added->created_by = fg_arena_text(change->arena, fg_cstr(change->by));
    if (added->created_by == NULL)
        return no_memory(err);
    if (check_room(change, added, err) != FG_OK)
        return err->code;
    if (!append(change->arena, &change->registry->tokens, &change->registry->n_tokens, added))
        return no_memory(err);
    return FG_OK;
}

enum fg_code fg_access_rotate_token(const struct fg_access_change *change, struct fg_slice id,
                                    const uint8_t hash[FG_TOKEN_HASH_BYTES], int64_t overlap_ms,
                                    struct fg_err *err)
{
    Access__Secret secret = ACCESS__SECRET__INIT, *added, *newest;
    Access__Token *token;

    if (find_token(change, id, &token, err) != FG_OK)
        return err->code;
    if (fg_access_token_has_ended(token, change->now_ms))
        return fg_fail(err, FG_E_PRECONDITION, "token %s has ended", token->id);
    if (overlap_ms < 0)
        return fg_fail(err, FG_E_INVALID, "the overlap is negative");
    /* Likewise: an earlier try has stored it. */
    for (size_t i = 0; i < token->n_secrets; i++)
        if (fg_token_hash_eq(token->secrets[i]->sha256.data, hash))
            return FG_OK;
    secret.sha256.len = FG_TOKEN_HASH_BYTES;
    secret.sha256.data = fg_arena_alloc(change->arena, FG_TOKEN_HASH_BYTES);
    if (secret.sha256.data == NULL)
        return no_memory(err);
    memcpy(secret.sha256.data, hash, FG_TOKEN_HASH_BYTES);
    added = copy(change->arena, &secret.base);
    newest = token->secrets[token->n_secrets - 1];
    /* Only the newest secret gets the overlap: one that it has replaced before ends now. */
    newest->expires_ms = fg_time_add(change->now_ms, overlap_ms);
    token->n_secrets = 0;
    if (!append(change->arena, &token->secrets, &token->n_secrets, newest) ||
        !append(change->arena, &token->secrets, &token->n_secrets, added))
        return no_memory(err);
    return FG_OK;
}

enum fg_code fg_access_revoke_token(const struct fg_access_change *change, struct fg_slice id,
                                    struct fg_err *err)
{
    Access__Token *token;

    if (find_token(change, id, &token, err) != FG_OK)
        return err->code;
    if (token->revoked_ms != 0)
        return FG_OK;
    token->revoked_ms = change->now_ms;
    token->revoked_by = fg_arena_text(change->arena, fg_cstr(change->by));
    return token->revoked_by != NULL ? FG_OK : no_memory(err);
}
