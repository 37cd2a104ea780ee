/*
 * When each token was used last, to the hour: for those who clean up.
 *
 * A process has a place for each token, which lives as long as the process. A registry in memory
 * points to the places of its tokens (registry.h), so a request that was let in costs one load, and
 * one store in the first request of an hour. About every ten minutes, and when it ends, the process
 * adds what is new to the object access/token-uses (token_uses_object.h). The greater hour of two
 * counts, so processes may add to it in any order, and again.
 *
 * Thread: any; the table has a lock of its own, which requests do not take.
 */
#ifndef FG_COMMON_ACCESS_REGISTRY_TOKEN_USES_H
#define FG_COMMON_ACCESS_REGISTRY_TOKEN_USES_H

#include "common/access/registry/registry.h"
#include "common/access/registry/token_uses.pb-c.h"

#define FG_TOKEN_USE_PRECISION_MS (INT64_C(3600) * 1000)

struct fg_token_uses;

/* The place of a token. */
struct fg_token_use {
    _Atomic uint32_t hour; /* of the last use in this process, counted from 1970; 0: none */
    uint32_t stored_hour; /* that is in the bucket, because this process wrote it; under the lock */
    char id[FG_TOKEN_ID_CHARS + 1];
};

/* Creates a table without places. now_ms: since when uses are recorded. Never fails. */
struct fg_token_uses *fg_token_uses_create(int64_t now_ms);
/* Frees it, after the registries that point into it. Accepts NULL. */
void fg_token_uses_destroy(struct fg_token_uses *uses);

/* Makes a registry that nobody else has yet point to the places of its tokens. FG_E_LIMIT: its
 * arena is full. */
enum fg_code fg_token_uses_bind(struct fg_token_uses *uses, struct fg_access_registry *registry,
                                struct fg_err *err) fg_must_check;

/* Notes a use. use NULL: does nothing. Two threads that do so while one hour becomes the next may
 * leave the older hour, until the next use. */
static inline void fg_token_use_note(struct fg_token_use *use, int64_t now_ms)
{
    uint32_t hour = (uint32_t)(now_ms / FG_TOKEN_USE_PRECISION_MS);

    if (use != NULL && atomic_load_explicit(&use->hour, memory_order_relaxed) < hour)
        atomic_store_explicit(&use->hour, hour, memory_order_relaxed);
}

/* Returns whether this process has uses that it did not write yet. */
bool fg_token_uses_are_new(struct fg_token_uses *uses);

/*
 * Adds the uses of this process to a message in an arena, and removes those of tokens that the
 * registry no longer has and that were last used over a month ago. registry NULL: removes none.
 * *ret_changed: anything in the message did. FG_E_LIMIT: the arena is full.
 */
enum fg_code fg_token_uses_merge(struct fg_token_uses *uses,
                                 const struct fg_access_registry *registry, int64_t now_ms,
                                 struct fg_arena *arena, Access__TokenUses *message,
                                 bool *ret_changed, struct fg_err *err) fg_must_check;

/* Notes that the bucket has a message, as of fg_token_uses_merge(). */
void fg_token_uses_stored(struct fg_token_uses *uses, const Access__TokenUses *message);

/* Checks a message that was read: ids, each once, ascending. FG_E_CORRUPT. */
enum fg_code fg_token_uses_check(const Access__TokenUses *message,
                                 struct fg_err *err) fg_must_check;

/* Returns when the hour of a token's last use began; 0: there was none since message->since_ms. */
int64_t fg_token_uses_last_ms(const Access__TokenUses *message, const char *id);

#endif
