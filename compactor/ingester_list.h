/*
 * Lists the ingesters whose answers the completion of deletions needs (completion_core.h): the
 * members of the ring, read from the bucket when asked for, or the one ingester of this process.
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
    bool young;                 /* it was read after the last cmp_ingester_list_age() */
    struct fg_bucket_etag etag; /* of the ring that was read */
    struct fg_arena *arena;     /* of known */
    struct cmp_ingesters known;
};

/* Initialises the list in place. own: borrowed; NULL: the ingesters are in the ring. */
void cmp_ingester_list_init(struct cmp_ingester_list *list, const struct cmp_local_store *own);
/* Frees what it holds. */
void cmp_ingester_list_done(struct cmp_ingester_list *list);

/* Makes the next get read the ring again. */
void cmp_ingester_list_age(struct cmp_ingester_list *list);

/* Returns the list, reading the ring if necessary. *ret_known lives until the next call. Errors of
 * the bucket; FG_E_CORRUPT, FG_E_UNIMPLEMENTED: the ring cannot be decoded. */
enum fg_code cmp_ingester_list_get(struct cmp_ingester_list *list, struct cmp_env *env,
                                   const struct cmp_ingesters **ret_known,
                                   struct fg_err *err) fg_must_check;

#endif
