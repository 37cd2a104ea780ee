/*
 * Which stores of ingesters there are, for the end of deletions (ending.h): the members of the
 * ring, read from the bucket when somebody asks, or the one that this process has itself.
 *
 * Thread: one at a time, which may wait.
 */
#ifndef FG_COMPACTOR_STORES_H
#define FG_COMPACTOR_STORES_H

#include "compactor/config.h"
#include "compactor/ending.h"
#include "compactor/env.h"

struct cmp_stores {
    const struct cmp_store *own; /* NULL: those of the ring */
    struct cmp_ending_store own_store;
    bool young;                 /* it was read since cmp_stores_age() */
    struct fg_bucket_etag etag; /* of what it was read as */
    struct fg_arena *arena;     /* of known */
    struct cmp_ending_stores known;
};

/* In place. own: borrowed. */
void cmp_stores_init(struct cmp_stores *stores, const struct cmp_store *own);
void cmp_stores_done(struct cmp_stores *stores);

/* What was read before is too old from now on. */
void cmp_stores_age(struct cmp_stores *stores);

/* *ret_known lives until the next call. The bucket's errors; FG_E_CORRUPT, FG_E_UNIMPLEMENTED. */
enum fg_code cmp_stores_get(struct cmp_stores *stores, struct cmp_env *env,
                            const struct cmp_ending_stores **ret_known,
                            struct fg_err *err) fg_must_check;

#endif
