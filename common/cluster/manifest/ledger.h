/*
 * The ledger: what a tenant has used and no document (common/cluster/usage) has yet. It is a part
 * of the tenant's manifest, so what it counts enters with the swap that it counts, exactly once.
 *
 *   open     sums of each day, which grow with each swap
 *   frozen   sums that do not change any more. The compactor adds them to the documents of their
 *            days and then takes them out of the ledger. Whoever does it, and however often it is
 *            interrupted, writes the same bytes, since nothing else decides what is in them.
 *
 * A profile counts for the day of its own time, when the swap that covers its segment is won.
 * Stored bytes are counted by each swap: what was live before it, for the time since the swap
 * before.
 *
 * Sums are frozen once a day: FREEZE_DELAY after its end, with all that came for earlier days since
 * then. Only if what came for earlier days fills half of the ledger, it is frozen sooner.
 *
 * Memory: the rows of the open days have at most FG_LEDGER_MAX_BYTES; what further services use
 * counts for the service "" of its day, and what days beyond FG_LEDGER_DAYS_MAX use for the day
 * before them that is there.
 *
 * Thread: any; values as in l0.h.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_LEDGER_H
#define FG_COMMON_CLUSTER_MANIFEST_LEDGER_H

#include "common/model/usage_day.h"

enum {
    FG_LEDGER_DAYS_MAX = 1024,
    FG_LEDGER_MAX_BYTES = 4 * 1024 * 1024, /* an eighth of a manifest */
};

/* From the end of a day to its document: queriers' counters and the last hour's segments are there
 * by then. */
#define FG_LEDGER_FREEZE_DELAY_NS (2 * FG_HOUR_NS)

struct fg_ledger {
    int64_t stored_wall_ns; /* stored bytes are counted until then; 0: nothing was counted yet */
    int32_t next_day;       /* no day from this one on was frozen */
    uint64_t version;       /* of the frozen sums, or of those that were frozen last; 0: none yet */
    struct fg_usage_day *open; /* ascending */
    uint32_t n_open, cap_open;
    struct fg_usage_day *frozen; /* ascending; none is empty */
    uint32_t n_frozen;
};

/* Makes a copy that can be changed. Returns false if the arena is full, as all below. */
bool fg_ledger_copy(struct fg_ledger *ret_copy, const struct fg_ledger *ledger,
                    struct fg_arena *arena) fg_must_check;

/* Finds the open day, or adds it. Returns one that is there if there are too many. NULL: the arena
 * is full. */
struct fg_usage_day *fg_ledger_open(struct fg_ledger *ledger, int32_t day, struct fg_arena *arena);

/* Adds what a change used, within the limits. */
bool fg_ledger_add(struct fg_ledger *ledger, const struct fg_usage_day *days, uint32_t n_days,
                   struct fg_arena *arena) fg_must_check;

/* Counts `bytes` as stored since the last time, until now. Time that goes backwards counts
 * nothing. */
bool fg_ledger_store(struct fg_ledger *ledger, uint64_t bytes, int64_t wall_ns,
                     struct fg_arena *arena) fg_must_check;

/* Returns whether a freeze is due. Not while there are frozen sums. */
bool fg_ledger_is_due(const struct fg_ledger *ledger, int64_t wall_ns);

/* Returns the last day that a freeze of now takes. */
int32_t fg_ledger_last_day(const struct fg_ledger *ledger, int64_t wall_ns);

/* Returns the version of a freeze of now: seconds since 1970, above all before it. */
uint64_t fg_ledger_next_version(const struct fg_ledger *ledger, int64_t wall_ns);

/* Freezes all open days up to `last`. */
bool fg_ledger_freeze(struct fg_ledger *ledger, int32_t last, uint64_t version,
                      struct fg_arena *arena) fg_must_check;

/*
 * Write and read the fields: zigzag stored time / ns, zigzag next day, varint version, list of open
 * days, list of frozen days (fg_usage_day_put()). Reading sets the cursor's error if a list is not
 * in order, or if the arena is full.
 */
void fg_ledger_put(struct fg_buf *out, const struct fg_ledger *ledger);
struct fg_ledger fg_ledger_get(struct fg_cur *cur, struct fg_arena *arena);

#endif
