/*
 * An outbox over any store, with a committer's thread, a clock that the test moves, and pushes that
 * are a record and its entries. The store outlives it, so that a test can restart.
 */
#ifndef FG_TESTS_UNIT_INGESTER_FORWARD_OUTBOX_RUN_H
#define FG_TESTS_UNIT_INGESTER_FORWARD_OUTBOX_RUN_H

#include "ingester/forward/outbox.h"
#include "tests/lib/store_doubles.h"

/* Sets the start of a run's clock: its monotonic time is an hour, so that times before it are no
 * negative ones. */
void outbox_clock_init(struct fg_clock_manual *clock);

/* The tenant keeps profiles so long. */
#define OUTBOX_RUN_KEPT_NS (30 * 24 * FG_HOUR_NS)

struct outbox_run {
    struct fg_store *store; /* borrowed */
    struct fg_clock_manual *clock;
    struct fg_registry *registry;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct ing_head_writer *writer;
    struct ing_committer *committer;
    struct ing_damage damage;
    struct ing_outbox *outbox;
};

/* Groups that may be pinned in the next runs: a test may set it and has to set it back. */
extern uint32_t outbox_run_groups_max;

/* Sets the deletions that the next runs see; NULL: none. As above. */
extern const struct ing_deleted *outbox_run_deleted;

/* A target that wants every tenant. */
struct ing_outbox_target outbox_target(const char *name);

/* Opens an outbox with these targets. */
void outbox_run_open(struct outbox_run *run, struct fg_store *store, struct fg_clock_manual *clock,
                     const struct ing_outbox_target *targets, unsigned n_targets);
void outbox_run_close(struct outbox_run *run);

/* The key of the n-th profile: 20 profiles are of one group. */
struct ing_head_profile_key outbox_key(const struct outbox_run *run, uint64_t n);

/* Stores profiles n, n + 1, ... in one write, with entries for these targets. bytes: of the record
 * of each. */
enum fg_code outbox_run_push(struct outbox_run *run, uint32_t targets, uint64_t n, unsigned count,
                             size_t bytes);

/* Runs on the committer's thread and waits for it. */
void outbox_run_visit(struct outbox_run *run, void (*visit)(void *arg), void *arg);

/* Waits until all reports are written, however often that fails. */
void outbox_run_settle(struct outbox_run *run);

/* Takes spans of a target in both lanes and reports every entry as this, until nothing waits.
 * seen[n] counts how often the n-th profile came. Returns how many entries came. */
uint64_t outbox_run_drain(struct outbox_run *run, unsigned target, enum ing_outbox_outcome outcome,
                          unsigned *seen);

/* Counts entries in the store: of a family, of all targets. */
uint64_t outbox_count(struct fg_store *store, enum ing_head_family family);

enum { OUTBOX_ARENA_BYTES = 8 << 20, OUTBOX_RECORD_BYTES = 100 };

/* An outbox of two targets over a store whose writes may fail. */
struct outbox_fixture {
    struct fg_store *inner;
    struct fg_store_faulty faulty;
    struct fg_clock_manual clock;
    struct ing_outbox_target targets[2];
    struct outbox_run run;
};
int outbox_set_up(void **state);
int outbox_tear_down(void **state);
void outbox_restart(struct outbox_fixture *f);

/* Stores profiles n, n + 1, ... with entries for these targets. */
void outbox_push(struct outbox_fixture *f, uint32_t targets, uint64_t n, unsigned count);

struct ing_outbox_numbers outbox_numbers(struct outbox_fixture *f, unsigned target);

/* Lets the at-th write from now on fail. late: it is done, but reported as failed. */
void outbox_fail_write(struct outbox_fixture *f, uint64_t at, bool late);

/* Takes the span that waits, of any lane. */
struct ing_outbox_span outbox_take(struct outbox_fixture *f, unsigned target);
bool outbox_nothing_waits(struct outbox_fixture *f, unsigned target);

/* Reads a span, into the arena. */
struct ing_outbox_item *outbox_read_span(struct outbox_fixture *f,
                                         const struct ing_outbox_span *span, struct fg_arena *arena,
                                         size_t *ret_count);

#endif
