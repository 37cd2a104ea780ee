/*
 * Which stores of ingesters there are, for the end of deletions (completion_core.h): the members of
 * the ring, read from the bucket when somebody asks, or the one that this process has itself.
 *
 * Thread: one at a time, which may wait.
 */
#ifndef FG_COMPACTOR_INGESTER_LIST_H
#define FG_COMPACTOR_INGESTER_LIST_H

#include "compactor/completion_core.h"
#include "compactor/config.h"
#include "compactor/env.h"

struct cmp_ingester_list {
    const struct cmp_local_store *own; /* NULL: those of the ring */
    struct cmp_ingester_store own_store;
    bool young;                 /* it was read since cmp_ingester_list_age() */
    struct fg_bucket_etag etag; /* of what it was read as */
    struct fg_arena *arena;     /* of known */
    struct cmp_ingesters known;
};

/* In place. own: borrowed. */
void cmp_ingester_list_init(struct cmp_ingester_list *list, const struct cmp_local_store *own);
void cmp_ingester_list_done(struct cmp_ingester_list *list);

/* What was read before is too old from now on. */
void cmp_ingester_list_age(struct cmp_ingester_list *list);

/* *ret_known lives until the next call. The bucket's errors; FG_E_CORRUPT, FG_E_UNIMPLEMENTED. */
enum fg_code cmp_ingester_list_get(struct cmp_ingester_list *list, struct cmp_env *env,
                                   const struct cmp_ingesters **ret_known,
                                   struct fg_err *err) fg_must_check;

#endif
