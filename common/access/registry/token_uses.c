#include "common/access/registry/token_uses.h"

#include "common/base/hash.h"
#include "common/base/search.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Longer than a process may go on with an old registry (access.stale_max), which does not have the
 * newest tokens. */
#define FORGET_AFTER_MS (INT64_C(30) * 24 * 3600 * 1000)

struct place {
    struct fg_token_use *use; /* of its own: registries point to it while the array grows */
};

struct fg_token_uses {
    int64_t since_ms;
    pthread_mutex_t lock; /* over what follows, but not over the hours */
    struct fg_map map;    /* by id: positions in places */
    struct place *places;
    uint32_t n, cap;
};

struct fg_token_uses *fg_token_uses_create(int64_t now_ms)
{
    struct fg_token_uses *uses = fg_new(struct fg_token_uses);

    uses->since_ms = now_ms;
    fg_assert(pthread_mutex_init(&uses->lock, NULL) == 0);
    fg_map_init(&uses->map);
    return uses;
}

void fg_token_uses_destroy(struct fg_token_uses *uses)
{
    if (uses == NULL)
        return;
    for (uint32_t i = 0; i < uses->n; i++)
        free(uses->places[i].use);
    free(uses->places);
    fg_map_done(&uses->map);
    (void)pthread_mutex_destroy(&uses->lock);
    free(uses);
}

/* ---- places, under the lock ---- */

static struct fg_token_use *find(const struct fg_token_uses *uses, const char *id)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&uses->map, fg_hash64_table(fg_cstr(id)), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&uses->map, &walk))
        if (strcmp(uses->places[i].use->id, id) == 0)
            return uses->places[i].use;
    return NULL;
}

/* id: of a registry that was checked, so of FG_TOKEN_ID_CHARS. */
static struct fg_token_use *find_or_add(struct fg_token_uses *uses, const char *id)
{
    struct fg_token_use *use = find(uses, id);

    if (use != NULL)
        return use;
    use = fg_new(struct fg_token_use);
    memcpy(use->id, id, sizeof use->id);
    if (uses->n == uses->cap) {
        uses->cap = FG_MAX(2 * uses->cap, 64U);
        uses->places = fg_realloc(uses->places, uses->cap * sizeof *uses->places);
    }
    fg_map_add(&uses->map, fg_hash64_table(fg_cstr(id)), uses->n);
    uses->places[uses->n++].use = use;
    return use;
}

static uint32_t hour_of(const struct fg_token_use *use)
{
    return atomic_load_explicit(&use->hour, memory_order_relaxed);
}

/* ---- a process ---- */

enum fg_code fg_token_uses_bind(struct fg_token_uses *uses, struct fg_access_registry *registry,
                                struct fg_err *err)
{
    const Access__Registry *message = registry->message;

    registry->uses = fg_arena_new(registry->arena, struct fg_token_use *, message->n_tokens + 1);
    if (registry->uses == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for tokens");
    (void)pthread_mutex_lock(&uses->lock);
    for (size_t i = 0; i < message->n_tokens; i++)
        registry->uses[i] = find_or_add(uses, message->tokens[i]->id);
    (void)pthread_mutex_unlock(&uses->lock);
    return FG_OK;
}

bool fg_token_uses_are_new(struct fg_token_uses *uses)
{
    bool any = false;

    (void)pthread_mutex_lock(&uses->lock);
    for (uint32_t i = 0; i < uses->n && !any; i++)
        any = hour_of(uses->places[i].use) > uses->places[i].use->stored_hour;
    (void)pthread_mutex_unlock(&uses->lock);
    return any;
}

void fg_token_uses_stored(struct fg_token_uses *uses, const Access__TokenUses *message)
{
    (void)pthread_mutex_lock(&uses->lock);
    for (size_t i = 0; i < message->n_uses; i++) {
        struct fg_token_use *use = find(uses, message->uses[i]->token);

        if (use != NULL)
            use->stored_hour = message->uses[i]->hour;
    }
    (void)pthread_mutex_unlock(&uses->lock);
}

/* ---- the message ---- */

static int compare(const void *a, const void *b)
{
    const Access__TokenUse *left = a, *right = b;

    return strcmp(left->token, right->token);
}

/* Returns the uses of this process, ascending by token. NULL: the arena is full. */
static Access__TokenUse *own_uses(struct fg_token_uses *uses, struct fg_arena *arena, size_t *ret_n)
{
    Access__TokenUse *own;
    size_t n = 0;

    (void)pthread_mutex_lock(&uses->lock);
    own = fg_arena_new(arena, Access__TokenUse, uses->n + 1);
    for (uint32_t i = 0; own != NULL && i < uses->n; i++) {
        uint32_t hour = hour_of(uses->places[i].use);

        if (hour == 0)
            continue;
        access__token_use__init(&own[n]);
        own[n].token = uses->places[i].use->id; /* as long as the process */
        own[n].hour = hour;
        n++;
    }
    (void)pthread_mutex_unlock(&uses->lock);
    if (own != NULL)
        qsort(own, n, sizeof *own, compare);
    *ret_n = n;
    return own;
}

enum fg_code fg_token_uses_merge(struct fg_token_uses *uses,
                                 const struct fg_access_registry *registry, int64_t now_ms,
                                 struct fg_arena *arena, Access__TokenUses *message,
                                 bool *ret_changed, struct fg_err *err)
{
    size_t n_own = 0, n = 0, stored = 0, at = 0;
    Access__TokenUse *own = own_uses(uses, arena, &n_own);
    Access__TokenUse **all = fg_arena_new(arena, Access__TokenUse *, message->n_uses + n_own + 1);
    bool changed = message->since_ms == 0;

    if (own == NULL || all == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for the uses of tokens");
    while (stored < message->n_uses || at < n_own) {
        int order = stored == message->n_uses ? 1
                    : at == n_own             ? -1
                                              : compare(message->uses[stored], &own[at]);
        Access__TokenUse *use = order <= 0 ? message->uses[stored++] : &own[at];

        if (order >= 0 && (order > 0 || own[at].hour > use->hour)) {
            use->hour = own[at].hour;
            changed = true;
        }
        at += order >= 0;
        if (registry != NULL && now_ms - use->hour * FG_TOKEN_USE_PRECISION_MS > FORGET_AFTER_MS &&
            fg_access_find_token(registry, fg_cstr(use->token), NULL) == NULL)
            changed = true;
        else
            all[n++] = use;
    }
    message->uses = all;
    message->n_uses = n;
    if (message->since_ms == 0)
        message->since_ms = uses->since_ms;
    *ret_changed = changed;
    return FG_OK;
}

enum fg_code fg_token_uses_check(const Access__TokenUses *message, struct fg_err *err)
{
    for (size_t i = 0; i < message->n_uses; i++)
        if (strlen(message->uses[i]->token) != FG_TOKEN_ID_CHARS ||
            (i > 0 && compare(message->uses[i - 1], message->uses[i]) >= 0))
            return fg_fail(err, FG_E_CORRUPT, "the uses of tokens are out of order");
    return message->since_ms < 0 ? fg_fail(err, FG_E_CORRUPT, "the uses of tokens have no begin")
                                 : FG_OK;
}

int64_t fg_token_uses_last_ms(const Access__TokenUses *message, const char *id)
{
    size_t at = fg_lower_bound(i, 0, message->n_uses, strcmp(message->uses[i]->token, id) < 0);

    if (at == message->n_uses || strcmp(message->uses[at]->token, id) != 0)
        return 0;
    return message->uses[at]->hour * FG_TOKEN_USE_PRECISION_MS;
}
