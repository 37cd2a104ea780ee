/*
 * What a resend reads: profiles that are committed, from the bucket. The program provides it
 * (deploy/single), since ingesters read no blocks.
 *
 * Thread: any that may wait; commit() and visit() one at a time.
 */
#ifndef FG_INGESTER_FORWARD_PAST_H
#define FG_INGESTER_FORWARD_PAST_H

#include "common/base/arena.h"
#include "common/model/batch.h"

/* Receives a profile as a batch of its own, with all stacks defined and the id that it has here. It
 * is gone after the call. An error ends the visit and becomes its error. */
typedef enum fg_code (*ing_past_visit)(void *arg, const struct fg_batch *batch, struct fg_err *err);

/* A part of what is committed: profiles of a tenant from start to end, both inclusive. */
struct ing_past_range {
    struct fg_slice tenant;
    int64_t start_ms, end_ms;
    bool partial; /* leaves out what cannot be read; else that is FG_E_CORRUPT */
    int64_t deadline_mono_ns;
};

struct ing_past_counts {
    uint64_t profiles; /* that can be visited; an estimate */
    uint64_t lost;     /* of which only rollups are left */
};

struct ing_past {
    /* Commits what the head has, and makes the others below see that. FG_E_CORRUPT: except what
     * cannot be read. */
    enum fg_code (*commit)(void *arg, int64_t deadline_mono_ns, struct fg_err *err);
    /* Lists tenants, sorted by name, in the arena. */
    enum fg_code (*tenants)(void *arg, int64_t deadline_mono_ns, struct fg_arena *arena,
                            struct fg_slice **ret_names, size_t *ret_n, struct fg_err *err);
    /* Counts what the range has, from what is known of whole objects. */
    enum fg_code (*count)(void *arg, const struct ing_past_range *range,
                          struct ing_past_counts *ret_counts, struct fg_err *err);
    /* Visits profiles in any order; one may come twice. */
    enum fg_code (*visit)(void *arg, const struct ing_past_range *range, ing_past_visit visit,
                          void *visit_arg, struct fg_err *err);
    void *arg;
};

#endif
