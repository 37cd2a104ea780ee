/*
 * What users have deleted: whole tenants, as the registry of access says, and profiles that pending
 * deletions in the manifests of tenants name. An interface, so that tests of the outbox need
 * neither registry nor bucket.
 */
#ifndef FG_INGESTER_FORWARD_DELETED_H
#define FG_INGESTER_FORWARD_DELETED_H

#include "common/base/time.h"
#include "common/model/deletion.h"

struct fg_access;
struct fg_bucket;

struct ing_deleted {
    /* Returns true if the tenant is being deleted, or was. Any thread; does not block. */
    bool (*is_tenant)(void *arg, struct fg_slice tenant);
    /* Reads the pending deletions of a tenant, which borrow from the arena. Errors of reading a
     * manifest. A thread that may wait for the bucket. */
    enum fg_code (*read)(void *arg, struct fg_slice tenant, struct fg_arena *arena,
                         struct fg_deletions *ret_deletions, struct fg_err *err);
    void *arg;
};

/* All borrowed. */
struct ing_deleted_sources {
    struct fg_access *access; /* NULL: no tenant is deleted */
    struct fg_bucket *bucket; /* NULL: nothing else is */
    struct fg_clock *clock;
};

/* Returns the interface to these sources, which it borrows. */
struct ing_deleted ing_deleted_of(struct ing_deleted_sources *sources);

#endif
