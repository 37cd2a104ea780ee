/* A ring in a bucket, for tests. */
#ifndef FG_TESTS_LIB_RING_BUCKET_H
#define FG_TESTS_LIB_RING_BUCKET_H

#include "common/cluster/ring/watch.h"

/* Makes the change, as an operator or a member would. */
void ring_bucket_change(struct fg_bucket *bucket, const struct fg_ring_change *change);

/* Joins, in a zone of its own. */
void ring_bucket_join(struct fg_bucket *bucket, const char *name, const char *address,
                      struct fg_id store, unsigned replicas);

/* One that follows, started. */
struct fg_ring_watch *ring_bucket_watch(struct fg_bucket *bucket, struct fg_registry *registry);

#endif
