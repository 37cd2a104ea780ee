/*
 * Which profiles of a test the segments and blocks of a bucket hold. A profile has a number: its
 * only stack is "p12", with the value 1. Each object is read once, whole.
 *
 * Thread: any of tests/lib/threads.h; no other thread runs meanwhile.
 */
#ifndef FG_TESTS_SIM_SHELLS_OBJECTS_H
#define FG_TESTS_SIM_SHELLS_OBJECTS_H

#include "common/cluster/manifest/snapshot_core.h"
#include "common/storage/bucket/bucket.h"

enum { PROFILES_MAX = 2000 };

struct qry_objects;

/* All borrowed, for good. The bucket is what is really there. */
struct qry_objects *objects_create(struct fg_bucket *bucket, const char *tenant, const char *type);

/* What the manifests say at one moment. */
struct snapshot {
    struct fg_manifest *l0, *blocks;
};
struct snapshot objects_snapshot(const struct qry_objects *objects);

/* Adds to found[PROFILES_MAX] what is in the snapshot, which may be some minutes old; frees the
 * snapshot, and returns its generation. A fault: an object has a profile twice. */
uint64_t objects_read(struct qry_objects *objects, struct snapshot *snapshot, uint8_t *found);

/* The same of now. */
uint64_t objects_read_now(struct qry_objects *objects, uint8_t *found);

/* Returns how many objects have been read. */
uint32_t objects_count(const struct qry_objects *objects);

/* Adds what lines ("p12 1") say. A fault: there is another line. */
void objects_count_lines(struct fg_slice text, uint8_t *found);

#endif
