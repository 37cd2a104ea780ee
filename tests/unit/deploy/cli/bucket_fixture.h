/* Provides a bucket in memory with segments of an ingester, for tests of `flamegrid bucket`. One
 * thread; failures fail the test. */
#ifndef FG_TESTS_UNIT_DEPLOY_CLI_BUCKET_FIXTURE_H
#define FG_TESTS_UNIT_DEPLOY_CLI_BUCKET_FIXTURE_H

#include "common/storage/bucket/bucket.h"
#include "common/storage/store/store.h"

#include <stdio.h>

struct fixture {
    struct fg_store *store; /* of the ingester */
    struct fg_bucket *bucket;
    FILE *out; /* of the command; its text is in said */
    char *said;
    size_t said_len;
    int64_t pushed; /* profiles so far, one for each second */
};

/* Makes the bucket with one segment of 4 profiles of tenant "tenant" and service "shop"; a set-up
 * function of cmocka. */
int fixture_set_up(void **state);
int fixture_tear_down(void **state);

/* Fails the test with the error's text if the code is not FG_OK. */
void fixture_must(enum fg_code code, const struct fg_err *err);

/* Commits another segment, of n profiles, from an ingester with that store. */
void fixture_commit(struct fixture *f, struct fg_store *store, int n);

/* Writes or overwrites an object. */
void fixture_put(struct fixture *f, const char *name, struct fg_slice content);

/* Deletes an object. */
void fixture_delete(struct fixture *f, const char *name);

#endif
