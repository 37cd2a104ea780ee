/*
 * The canary's ledger: which profiles it has sent, which of them were acknowledged, and what any
 * question about them has to be answered with.
 *
 * Profiles are numbers. All that makes one up (its time, series, leaf and value) follows from its
 * number, so that a million of them are a million bits. A cell is what a flame graph tells apart:
 * a leaf of a service. Numbers go round the cells, so within a short range each cell has one
 * profile at most, and in a long one the value, drawn from 2^30, tells which.
 *
 *   issued --> pending --> settled       pending: no 2xx yet; it is sent again until there is one,
 *      (refused, no answer) ^  |         and may be in an answer or not.
 *                           `--'         settled: it has to be in every answer, once.
 *
 * Pure: no clock, no lock, no socket; one thread at a time. Memory is bounded by what
 * ledger_create() is given: settled numbers older than kept_max become sums, of which only
 * questions since the beginning can be asked.
 */
#ifndef FG_DEPLOY_CANARY_LEDGER_H
#define FG_DEPLOY_CANARY_LEDGER_H

#include "common/base/time.h"

enum { LEDGER_NONE = UINT32_MAX }; /* no number of a series */

struct ledger_shape {
    uint64_t seed;
    uint32_t services, pods, leaves; /* pods: series of a service */
    int64_t start_ms, interval_ms;   /* profile n is of start_ms + n * interval_ms */
};

/* time_ns lies half a millisecond after the grid, so no question's bound can meet it. */
struct ledger_profile {
    uint64_t number, value; /* value: 1..2^30 */
    uint32_t service, pod, leaf;
    int64_t time_ns;
};
struct ledger_profile ledger_profile(const struct ledger_shape *shape, uint64_t number);

static inline uint32_t ledger_cells(const struct ledger_shape *shape)
{
    return shape->services * shape->leaves;
}

static inline uint32_t ledger_cell(const struct ledger_shape *shape, uint32_t service,
                                   uint32_t leaf)
{
    return service * shape->leaves + leaf;
}

/* The next number of a cell after `number`, which is one. */
static inline uint64_t ledger_stride(const struct ledger_shape *shape)
{
    return ledger_cells(shape);
}

struct ledger;

/* kept_max: numbers remembered one by one, a multiple of 64. Destroy accepts NULL. */
struct ledger *ledger_create(const struct ledger_shape *shape, uint64_t kept_max,
                             uint32_t pending_max);
void ledger_destroy(struct ledger *ledger);
const struct ledger_shape *ledger_shape(const struct ledger *ledger);

/* ---- sending ---- */

/* The least number that was never issued. */
uint64_t ledger_next(const struct ledger *ledger);

/* number >= ledger_next(); those in between are never sent. It is being sent then. false: as many
 * are pending as there may be. */
bool ledger_issue(struct ledger *ledger, uint64_t number) fg_must_check;

/* It was acknowledged at that time. */
void ledger_settle(struct ledger *ledger, uint64_t number, int64_t mono_ns);

/* It was refused, or there was no answer: to be sent again, from that time on. */
void ledger_postpone(struct ledger *ledger, uint64_t number, int64_t retry_mono_ns);

/* One that is to be sent again by now; it is being sent then. *ret_attempts counts those before. */
bool ledger_retry(struct ledger *ledger, int64_t mono_ns, uint64_t *ret_number,
                  uint32_t *ret_attempts) fg_must_check;

uint32_t ledger_n_pending(const struct ledger *ledger);
uint64_t ledger_n_settled(const struct ledger *ledger);

/* ---- asking ---- */

/* [start_ms, end_ms) of a service, or of one of its series; LEDGER_NONE: of all. */
struct ledger_range {
    int64_t start_ms, end_ms;
    uint32_t service, pod;
};

struct ledger_maybe {
    uint64_t number;
    uint32_t cell;
};

/* What has to be there when the question is put, and what may be. */
struct ledger_expected {
    struct ledger_range range;
    uint64_t first, end;         /* numbers in the range, in the form of [first, end) */
    int64_t *cells;              /* [ledger_cells()] sums of settled profiles */
    struct ledger_maybe *maybes; /* those pending, by cell */
    uint32_t n_maybes;
    uint64_t n_settled; /* before the question */
};
void ledger_expected_done(struct ledger_expected *expected);

/*
 * Ranges that are asked about start at the beginning or at ledger_kept_ms() or later (asserted),
 * and end at ledger_kept_ms() or later and at ledger_end_ms() or before, so that nothing issued
 * after the question is in them.
 */
int64_t ledger_kept_ms(const struct ledger *ledger);
int64_t ledger_end_ms(const struct ledger *ledger);
void ledger_expect(const struct ledger *ledger, const struct ledger_range *range,
                   struct ledger_expected *ret_expected);

/* Settled by now, and still remembered by itself. */
bool ledger_is_settled(const struct ledger *ledger, uint64_t number);

/*
 * Hands over the times at which those of the range were acknowledged that nobody has seen yet, and
 * that were settled before asked_mono_ns: an answer that is right has shown them.
 */
void ledger_seen(struct ledger *ledger, const struct ledger_expected *expected,
                 int64_t asked_mono_ns, void (*each)(int64_t settled_mono_ns, void *arg),
                 void *arg);

#endif
