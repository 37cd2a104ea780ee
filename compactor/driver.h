/*
 * The compactor's own thread: round after round over all tenants, then upkeep. Straight-line code
 * that waits for the bucket; everything is found anew from the manifests, so it may be stopped, or
 * killed, anywhere.
 *
 * Several compactors may run: two that work on one tenant do the same work, and the swap lets one
 * of them win.
 *
 * Thread: create, start, stop and destroy from the owner; the rest as said.
 */
#ifndef FG_COMPACTOR_DRIVER_H
#define FG_COMPACTOR_DRIVER_H

#include "compactor/compactor.h"
#include "compactor/tenant.h"

struct driver;

/* Creates the scratch folder. FG_E_UNAVAILABLE, FG_E_DENIED. */
enum fg_code driver_create(const struct compactor_config *config, struct driver **ret_driver,
                           struct fg_err *err) fg_must_check;
enum fg_code driver_start(struct driver *driver, struct fg_err *err) fg_must_check;
void driver_stop(struct driver *driver);    /* what was begun is broken off */
void driver_destroy(struct driver *driver); /* NULL is fine */

/* One round, on the caller's thread; what the thread does. For tests. */
enum fg_code driver_round(struct driver *driver, struct fg_err *err) fg_must_check;

/* Wakes the thread: there is something new to do. Any thread. */
void driver_wake(struct driver *driver);

/* How it stands, as JSON. Any thread. */
void driver_status(struct driver *driver, struct fg_buf *out);

/* The deletions that this process has worked on; returns how many. Any thread. */
uint32_t driver_deletions(struct driver *driver, struct fg_slice tenant,
                          struct tenant_deletion out[TENANT_DELETIONS_MAX]);

#endif
