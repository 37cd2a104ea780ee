/*
 * The spans of one target (outbox.h): which entries are pending, in runs of up to
 * OUTBOX_SPAN_ENTRIES_MAX, so that ten million entries take two megabytes of memory.
 *
 * Spans are in the order of their entries' numbers and have no entry in common. A span is OPEN
 * while entries are added to it, which is true of the last one only. It has entries of at most one
 * minute, so that all of it belongs to one lane.
 *
 *   OPEN --full, old, or taken--> WAITING --> TAKEN --> ENDING --> (removed)
 *                                   ^           |          |
 *                                   '-----------+----------'  all of it, or what is left of it
 *
 * A tenant may be held, since the target refuses it: spans of which only its profiles are left are
 * not taken before its hold ends. They are in nobody's way, and nobody reads them meanwhile. One of
 * which profiles of several held tenants are left is taken when the first of their holds should
 * end: none of them waits for another, whose hold may begin again and again.
 *
 * Pure: no clock, no store, no lock.
 */
#ifndef FG_INGESTER_FORWARD_SPANS_H
#define FG_INGESTER_FORWARD_SPANS_H

#include "common/base/time.h"

enum {
    OUTBOX_SPAN_ENTRIES_MAX = 256,  /* a few requests of the sender */
    OUTBOX_SPAN_MAX_BYTES = 262144, /* of records; a single larger one is a span by itself */
    OUTBOX_HOLDS_MAX = 64,          /* tenants of a target */
};

/* Instead of the number of a tenant + 1: of several. */
#define OUTBOX_SEVERAL UINT32_MAX

/* How long a profile is fresh after it was received. */
#define OUTBOX_FRESH_NS (5 * FG_MINUTE_NS)

enum ing_outbox_lane { OUTBOX_FRESH, OUTBOX_BACKLOG };

enum ing_span_state { SPAN_OPEN, SPAN_WAITING, SPAN_TAKEN, SPAN_ENDING, SPAN_REMOVED };

struct ing_span {
    uint64_t first, last; /* numbers of entries, inclusive; some in between may be gone */
    uint64_t bytes;       /* of the records of their profiles */
    int64_t oldest_wall_ns, newest_wall_ns; /* when they were received */
    uint32_t count;                         /* of entries */
    uint8_t state;                          /* enum ing_span_state */
    bool dropped;                           /* TAKEN, ENDING: nothing of it is to wait again */
    /* Number of a tenant + 1, or OUTBOX_SEVERAL, if all that is left is of tenants that were held;
     * else 0. */
    uint32_t of_tenant;
    uint32_t held_until_s; /* of several: of the monotonic clock */
};

struct ing_hold {
    uint32_t tenant;
    int64_t until_mono_ns;
};

/* A zeroed one is empty. */
struct ing_spans {
    struct ing_span *items; /* ascending; removed ones stay until they are in the way */
    uint32_t start, end, cap, n_removed;
    uint64_t count, bytes;             /* of all that are not removed */
    uint64_t taken_count, taken_bytes; /* of those that are TAKEN or ENDING */
    struct ing_hold holds[OUTBOX_HOLDS_MAX];
    uint32_t n_holds;
    int64_t now_mono_ns; /* of the last ing_spans_release() */
};

/* Frees the memory. */
void ing_spans_done(struct ing_spans *spans);

/* Adds an entry, whose number is greater than all before. */
void ing_spans_add(struct ing_spans *spans, uint64_t seq, uint64_t bytes, int64_t received_wall_ns);

/* Takes a span that waits and is not held: of fresh ones the last, of the backlog the first.
 * Returns NULL if there is none. The result is valid until the next call. */
const struct ing_span *ing_spans_take(struct ing_spans *spans, enum ing_outbox_lane lane,
                                      int64_t wall_ns);

/* Takes the first span that has a number from this one on, whichever lane it is of and whoever is
 * held. Returns NULL if there is none; *ret_busy: since somebody else has it. The result is valid
 * until the next call. */
const struct ing_span *ing_spans_take_from(struct ing_spans *spans, uint64_t from, bool *ret_busy);

/* Holds a tenant until then. Returns false if there are too many holds. */
bool ing_spans_hold(struct ing_spans *spans, uint32_t tenant, int64_t until_mono_ns) fg_must_check;

/* Ends the holds that are over. Returns when the next one will be; INT64_MAX: there is none. */
int64_t ing_spans_release(struct ing_spans *spans, int64_t mono_ns);

/* Returns true if the tenant is held. */
bool ing_spans_holds(const struct ing_spans *spans, uint32_t tenant);

/* Notes of what is left of a span that the next entry of it is of this tenant, which is held. Call
 * it before left->count has the entry. */
void ing_spans_note_held(const struct ing_spans *spans, uint32_t tenant, struct ing_span *left);

/* Returns the span that begins with this number and is TAKEN or ENDING. There is one. */
struct ing_span *ing_spans_find(struct ing_spans *spans, uint64_t first);

/* Moves a TAKEN span to ENDING. */
void ing_spans_end(struct ing_spans *spans, struct ing_span *span);

/* Makes what is left of a TAKEN or ENDING span wait again; left->count is not 0. It may become one
 * with the span before it. */
void ing_spans_put_back(struct ing_spans *spans, struct ing_span *span,
                        const struct ing_span *left);

/* Removes a span. */
void ing_spans_remove(struct ing_spans *spans, struct ing_span *span);

/* Removes the first span that waits, and copies it. Returns false if there is none. */
bool ing_spans_drop_first(struct ing_spans *spans, struct ing_span *ret_span) fg_must_check;

/* Marks all spans that are TAKEN or ENDING: nothing of them is to wait again. */
void ing_spans_drop_taken(struct ing_spans *spans);

/* Returns true if an entry of these numbers may be pending. */
bool ing_spans_meet(const struct ing_spans *spans, uint64_t first, uint64_t last);

/* Returns a number above those of all entries that were added; 0: none is pending. */
uint64_t ing_spans_until(const struct ing_spans *spans);

/* Returns when the oldest pending entry was received, of the first span; 0: there is none. */
int64_t ing_spans_oldest_wall_ns(const struct ing_spans *spans);

/* Returns the number of spans that are not removed. */
uint32_t ing_spans_count(const struct ing_spans *spans);

/* Asserts what always holds. Takes time for each span: for tests. */
void ing_spans_check(const struct ing_spans *spans);

#endif
