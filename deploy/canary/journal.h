/*
 * The canary's journal: which profiles it has sent, which of them were acknowledged, and what the
 * answer to any query about them must be.
 *
 * A profile is a number. Its time, series, leaf and value follow from the number, so a million
 * profiles take a million bits. A cell is a leaf of a service, the finest thing that a flame graph
 * tells apart. Numbers are dealt to the cells in turn, so in a short range each cell has at most
 * one profile; in a long range the value, drawn from 2^30, tells which profile it is.
 *
 *   issued --> pending --> settled       pending: there was no 2xx yet; the profile is sent again
 *               |   ^                    until there is one, and an answer may have it or not.
 *               '---'                    settled: every answer has to have it, once.
 *       refused, or no answer
 *
 * Where one server is sent to and another one asked, a profile stays pending for a while after its
 * 2xx: it is on its way.
 *
 * Pure: no clock, no lock, no socket. Thread: one at a time. Memory: bounded by the arguments of
 * canary_journal_create(). Settled numbers older than kept_max become sums, so only ranges since
 * the beginning can include them.
 */
#ifndef FG_DEPLOY_CANARY_JOURNAL_H
#define FG_DEPLOY_CANARY_JOURNAL_H

#include "common/base/time.h"

enum { JOURNAL_NONE = UINT32_MAX }; /* no number of a series */

struct canary_journal_shape {
    uint64_t seed;
    uint32_t services, pods, leaves; /* pods: series of a service */
    int64_t start_ms, interval_ms;   /* profile n is of start_ms + n * interval_ms */
};

/* time_ns is half a millisecond after the grid, so that no bound of a range meets it. */
struct canary_journal_profile {
    uint64_t number, value; /* value: 1..2^30 */
    uint32_t service, pod, leaf;
    int64_t time_ns;
};
struct canary_journal_profile canary_journal_profile(const struct canary_journal_shape *shape,
                                                     uint64_t number);

static inline uint32_t canary_journal_cells(const struct canary_journal_shape *shape)
{
    return shape->services * shape->leaves;
}

static inline uint32_t canary_journal_cell(const struct canary_journal_shape *shape,
                                           uint32_t service, uint32_t leaf)
{
    return service * shape->leaves + leaf;
}

/* The next number of a cell after `number`, which is one. */
static inline uint64_t canary_journal_stride(const struct canary_journal_shape *shape)
{
    return canary_journal_cells(shape);
}

struct canary_journal;

/* kept_max: numbers remembered one by one, a multiple of 64. Destroy accepts NULL. */
struct canary_journal *canary_journal_create(const struct canary_journal_shape *shape,
                                             uint64_t kept_max, uint32_t pending_max);
void canary_journal_destroy(struct canary_journal *journal);
const struct canary_journal_shape *canary_journal_shape(const struct canary_journal *journal);

/* ---- sending ---- */

/* Returns the smallest number that was never issued. */
uint64_t canary_journal_next(const struct canary_journal *journal);

/* Issues a number >= canary_journal_next(), which is being sent from now on; numbers in between are
 * skipped. Returns false if pending_max profiles are pending. */
bool canary_journal_issue(struct canary_journal *journal, uint64_t number) fg_must_check;

/* Notes that the profile was acknowledged at that time. */
void canary_journal_settle(struct canary_journal *journal, uint64_t number, int64_t mono_ns);

/* Notes that the profile was acknowledged, and counts as settled from that time on: when
 * canary_journal_ripen() is called. */
void canary_journal_settle_later(struct canary_journal *journal, uint64_t number,
                                 int64_t settled_mono_ns);

/* Settles all profiles whose time has come. */
void canary_journal_ripen(struct canary_journal *journal, int64_t mono_ns);

/* Notes that the profile was refused or not answered: it is sent again from that time on. */
void canary_journal_postpone(struct canary_journal *journal, uint64_t number,
                             int64_t retry_mono_ns);

/* Takes a profile that is due to be sent again; it is being sent from now on. Returns false if none
 * is due. *ret_attempts: earlier attempts. */
bool canary_journal_retry(struct canary_journal *journal, int64_t mono_ns, uint64_t *ret_number,
                          uint32_t *ret_attempts) fg_must_check;

/* Return how many profiles are pending, and how many of them were acknowledged. */
uint32_t canary_journal_n_pending(const struct canary_journal *journal);
uint32_t canary_journal_n_on_their_way(const struct canary_journal *journal);

uint64_t canary_journal_n_settled(const struct canary_journal *journal);

/* ---- asking ---- */

/* A range [start_ms, end_ms) of a service, or of one of its series; JOURNAL_NONE: of all. */
struct canary_journal_range {
    int64_t start_ms, end_ms;
    uint32_t service, pod;
};

struct canary_journal_maybe {
    uint64_t number;
    uint32_t cell;
};

/* The profiles that an answer must have at the time of the query, and those that it may have. */
struct canary_journal_expected {
    struct canary_journal_range range;
    uint64_t first, end;                 /* numbers in the range, in the form of [first, end) */
    int64_t *cells;                      /* [canary_journal_cells()] sums of settled profiles */
    struct canary_journal_maybe *maybes; /* those pending, by cell */
    uint32_t n_maybes;
    uint64_t n_settled; /* before the query */
};
void canary_journal_expected_done(struct canary_journal_expected *expected);

/*
 * Ranges start at the beginning or at canary_journal_kept_ms() or later (asserted), and end between
 * canary_journal_kept_ms() and canary_journal_end_ms(), so that no profile issued after the query
 * is in them.
 */
int64_t canary_journal_kept_ms(const struct canary_journal *journal);
int64_t canary_journal_end_ms(const struct canary_journal *journal);
void canary_journal_expect(const struct canary_journal *journal,
                           const struct canary_journal_range *range,
                           struct canary_journal_expected *ret_expected);

/* Returns true if the number is settled and still remembered individually. */
bool canary_journal_is_settled(const struct canary_journal *journal, uint64_t number);

/*
 * Calls each() with the time of acknowledgement of the profiles in the range that no answer had
 * shown before and that were settled before asked_mono_ns: a correct answer shows them now.
 */
void canary_journal_seen(struct canary_journal *journal,
                         const struct canary_journal_expected *expected, int64_t asked_mono_ns,
                         void (*each)(int64_t settled_mono_ns, void *arg), void *arg);

#endif
