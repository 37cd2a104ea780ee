/*
 * A whole ingester that forwards to one target, and parcels of it, whose requests are read and
 * answered by the test.
 */
#ifndef FG_TESTS_UNIT_INGESTER_FORWARD_PARCEL_RUN_H
#define FG_TESTS_UNIT_INGESTER_FORWARD_PARCEL_RUN_H

#include "ingester/forward/parcel.h"
#include "proto/forward_v1.pb-c.h"
#include "tests/lib/head_run.h"

enum { PARCEL_BATCHES_MAX = 16, PARCEL_IDS_MAX = 64, PARCEL_NAMES_MAX = 64 };

struct parcel_run {
    struct fg_store *store;
    struct fg_bucket *bucket;
    struct ing_forward_targets *targets;
    struct head head;
    struct ing_parcel_common common;
    struct ing_parcel_peer peer;
    struct ing_parcel *parcel; /* of the span that was taken */

    /* Ids of stacks that the target remembers from earlier requests. */
    struct fg_id names[PARCEL_NAMES_MAX];
    size_t n_names;

    /* The last request, as it was read. */
    struct fg_arena *arena;
    struct {
        uint32_t n, n_stacks, n_defined;
        struct fg_id ids[PARCEL_IDS_MAX];
        uint64_t sizes;
        uint64_t spans; /* sum of each span times the first value of its sample */
    } batches[PARCEL_BATCHES_MAX];
    size_t n_batches, n_profiles;
    size_t n_short;   /* batches with short ids of stacks */
    size_t n_unnamed; /* ... that the target does not know; nothing else of them was read */
    uint32_t version;

    uint32_t reads; /* what answers say that the target reads; 0: nothing */
    size_t n_via;   /* ids of stores */
};

/* target: the map of the target, in YAML. */
void parcel_run_open(struct parcel_run *run, const char *target);
void parcel_run_close(struct parcel_run *run);
/* With what the store has. */
void parcel_run_reopen(struct parcel_run *run);

/* Stores the n-th profile: of one tenant and service for all n. Returns its id. */
struct fg_id parcel_run_push(struct parcel_run *run, unsigned n);
/* ... of others; zone: a label, NULL: none. */
struct fg_id parcel_run_push_of(struct parcel_run *run, unsigned n, const char *tenant,
                                const char *service, const char *zone);
struct fg_id parcel_run_store(struct parcel_run *run, const struct head_profile *profile);
struct head_profile parcel_run_profile(unsigned n);

/* Takes the span that waits, and makes a parcel of it. */
void parcel_run_take(struct parcel_run *run);

/* Builds a round and reads it. Returns false if nothing is left to send. */
bool parcel_run_build(struct parcel_run *run);

/* Answers with status 200 and results, one for each batch. */
enum ing_sender_result parcel_run_answer(struct parcel_run *run, Forward__V1__Result *results,
                                         size_t n);
/* ... with any status and body. */
enum ing_sender_result parcel_run_status(struct parcel_run *run, unsigned status,
                                         struct fg_slice body, bool *ret_unknown);

/* ... 429 for a limit of the tenant. */
enum ing_sender_result parcel_run_limited(struct parcel_run *run, int64_t retry_after_ns);

/* A result that says of all profiles that they are stored. */
Forward__V1__Result parcel_run_stored(uint32_t n);

/* Ends the parcel; returns the numbers of the outbox when its report is written. */
struct ing_outbox_numbers parcel_run_end(struct parcel_run *run);

#endif
