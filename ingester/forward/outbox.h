/*
 * The outbox: for each target of forwarding, the queue of the profiles that this ingester still has
 * to send there. The head is the queue. A profile is stored once, and an entry of some 60 bytes for
 * each target that wants it comes into the store in the same batch, with the same fsync. So an
 * acknowledged profile is in the queue, and a profile that failed is not.
 *
 * Entries have numbers, which ascend and are never given again. In memory a target has only
 * *spans*: runs of consecutive entries, up to OUTBOX_SPAN_ENTRIES_MAX of them. The sender takes a
 * span, reads its entries and profiles from the store, sends them, and reports what became of each.
 *
 *   a push is written      take()           report()
 *   ------------------> WAITING ---> TAKEN ----------> deleted, once the store has done it
 *      the newest one      ^           |
 *      still grows         `-----------'  entries that are to be sent again; a crash does the same
 *
 * Two lanes, so that after an outage current data comes first: *fresh* spans were received in the
 * last five minutes and are taken newest first; the *backlog* is taken oldest first.
 *
 * Always:
 *   - Profiles that users have deleted are dropped, also while the target is away
 *     (outbox_deleted.c).
 *   - An entry is deleted only after a report, a drop that is counted, or the end of its target. A
 *     crash at any moment makes the sender send some profiles again; the receiver finds them by id.
 *   - A head chunk is not evicted while an entry may name one of its profiles (ing_outbox_pins()).
 *   - Pending bytes of a target are at most queue_max_bytes, what is taken and one batch of pushes.
 *
 * Thread: any, unless a section says otherwise. One lock inside, held for look-ups and copies.
 */
#ifndef FG_INGESTER_FORWARD_OUTBOX_H
#define FG_INGESTER_FORWARD_OUTBOX_H

#include "common/base/arena.h"
#include "common/model/tenant_limits.h"
#include "common/runtime/metrics.h"
#include "ingester/catalog/catalog.h"
#include "ingester/committer.h"
#include "ingester/damage.h"
#include "ingester/forward/deleted.h"
#include "ingester/forward/entry.h"
#include "ingester/forward/spans.h"
#include "ingester/head_writer.h"

struct ing_outbox;

enum {
    OUTBOX_TARGETS_MAX = 16,     /* bits of a mask; each has connections of its own */
    OUTBOX_NAME_MAX_BYTES = 128, /* of a target's name */
    OUTBOX_DEAD_MAX = 10000,     /* entries refused for good that are kept, of a target; further
                                  * ones are only counted */
};

/* How long entries that were refused for good are kept for inspection. */
#define OUTBOX_DEAD_KEPT_NS (24 * FG_HOUR_NS)

/* When a push that a full queue refuses may come again. Room comes with the next request that the
 * target answers, and as long as it is away these are up to half a minute apart: sooner would be
 * refused again, and much later would leave the queue idle. */
enum { OUTBOX_FULL_RETRY_S = 15 };

enum ing_outbox_when_full {
    OUTBOX_DROP,   /* the oldest spans that are not taken go, and are counted */
    OUTBOX_REFUSE, /* pushes of tenants that the target wants get FG_E_LIMIT */
};

/* A target, as the settings have it. Its number below is its place among them. */
struct ing_outbox_target {
    const char *name; /* 1 to OUTBOX_NAME_MAX_BYTES bytes; the queue belongs to it */
    /* Returns true if profiles of the tenant are to be sent there. Decided when they are stored.
     * Any thread; must not block or call the outbox. */
    bool (*wants)(void *arg, struct fg_slice tenant);
    void *arg;
    uint64_t queue_max_bytes; /* of records; much more than OUTBOX_SPAN_MAX_BYTES, since spans are
                               * dropped as a whole */
    enum ing_outbox_when_full when_full;
    int64_t since_ns; /* profiles since then are resent when the target is new; 0: none */
};

/* Settings of forwarding, for struct ing_config. Copied. */
struct ing_forward {
    const struct ing_outbox_target *targets;
    unsigned n_targets; /* up to OUTBOX_TARGETS_MAX, of different names */
};

/* ---- the sender ---- */

/* A span that was taken. */
struct ing_outbox_span {
    unsigned target;
    uint64_t first, last; /* numbers of entries, inclusive; some in between may be gone */
    uint32_t count;       /* of entries */
    uint64_t bytes;       /* of the records of their profiles */
    int64_t oldest_wall_ns, newest_wall_ns; /* when they were received */
};

enum ing_outbox_outcome {
    OUTBOX_AGAIN,   /* it was not sent: it waits again */
    OUTBOX_HELD,    /* likewise, but its tenant is held: no sooner than that ends */
    OUTBOX_DONE,    /* the target has it */
    OUTBOX_REFUSED, /* the target will never take it: kept with the reason, and counted */
    /* What ing_outbox_read() finds itself: nothing is to be sent. */
    OUTBOX_GONE,    /* its profile is no longer in the head: see README.md */
    OUTBOX_EXPIRED, /* it is older than the tenant keeps profiles */
    OUTBOX_DELETED, /* its tenant is, or a deletion names it */
    OUTBOX_DAMAGED, /* it cannot be read; kept as a refused one */
};

struct ing_outbox_item {
    uint64_t seq;
    struct ing_outbox_entry entry; /* entry.key: where the profile is now */
    /* In the arena: the profile's record (ingester/record.h) if there is one to send; of a damaged
     * entry its bytes. */
    struct fg_slice record;
    /* For the report. ing_outbox_read() sets OUTBOX_AGAIN if there is a profile to send, so a
     * profile that the sender does not decide is sent again. */
    enum ing_outbox_outcome outcome;
    const char *reason; /* OUTBOX_REFUSED: a sentence, not NULL; cut at OUTBOX_REASON_MAX_BYTES */
};

/* Sets what is called when something waits to be taken: on_ready(arg, target) after a batch was
 * written, a pause ended, a resend began, or a report that put some entries back was written; not
 * after ing_outbox_put_back(). It comes once, and again only after ing_outbox_take() has returned
 * false for that target; so ask for both lanes. It may run on any thread, also in this call, must
 * not block and must not call the outbox. A fresh span that becomes backlog is not told. NULL:
 * nobody; after that no call is under way. */
void ing_outbox_on_ready(struct ing_outbox *outbox, void (*on_ready)(void *arg, unsigned target),
                         void *arg);

/* Takes a span of a lane. Returns false if none waits there, the target is paused, or the store
 * takes no writes: then no report could be written. Does not block. */
bool ing_outbox_take(struct ing_outbox *outbox, unsigned target, enum ing_outbox_lane lane,
                     struct ing_outbox_span *ret_span) fg_must_check;

/*
 * Reads the entries of a span that was taken, and their profiles, into an array in the arena. There
 * may be fewer than span->count. FG_E_LIMIT: the arena is full; the bytes of the span and 64 KiB
 * are enough. The tenant of an entry may have lost its name: ask ing_catalog_has_tenant().
 * FG_E_UNAVAILABLE, FG_E_CORRUPT: the store cannot be read; put the span back and try
 * again later. A thread that may wait for the disk.
 */
enum fg_code ing_outbox_read(struct ing_outbox *outbox, const struct ing_outbox_span *span,
                             struct fg_arena *arena, struct ing_outbox_item **ret_items,
                             size_t *ret_count, struct fg_err *err) fg_must_check;

/*
 * Ends the taking of a span: says what became of the items that ing_outbox_read() has returned, all
 * of them. Those with OUTBOX_AGAIN or OUTBOX_HELD wait again, as one span; the others are deleted
 * with the next write, within OUTBOX_TICK_NS. Copies what it needs and does not block. The span is
 * not used any more.
 */
void ing_outbox_report(struct ing_outbox *outbox, const struct ing_outbox_span *span,
                       const struct ing_outbox_item *items, size_t count);

/* Ends the taking of a span without a report: all of it waits again, now. Does not block. */
void ing_outbox_put_back(struct ing_outbox *outbox, const struct ing_outbox_span *span);

/*
 * Holds a tenant for so long, since the target refuses it while it takes others: meanwhile spans of
 * which only OUTBOX_HELD was reported are not taken. Nobody is called when the hold ends; a restart
 * ends it. Returns false if OUTBOX_HOLDS_MAX others are held. Does not block; neither do the next
 * two.
 */
bool ing_outbox_hold(struct ing_outbox *outbox, unsigned target, uint32_t tenant,
                     int64_t for_ns) fg_must_check;

/* Returns true if a tenant is held. */
bool ing_outbox_holds(struct ing_outbox *outbox, unsigned target, uint32_t tenant);

/* Returns in how long the next hold ends, of spans or of a resend; INT64_MAX: no tenant is held. */
int64_t ing_outbox_held_ns(struct ing_outbox *outbox, unsigned target);

/* Copies what is resent to a target, with the place of the next page. Returns true if a resend is
 * under way and may go on: the target is not paused, the store takes writes, and not all tenants
 * are held that have begun. Does not block; neither do the next two. */
bool ing_outbox_get_resending(struct ing_outbox *outbox, unsigned target,
                              struct ing_resend *ret_resend);

/* Notes how far a resend has come with a page, which is written with the next reports. before: as
 * ing_outbox_get_resending() gave it. Ignored if an operator has ended the resend meanwhile. now:
 * RESEND_DONE if no tenant follows; the resend goes on as long as others are not done. Returns true
 * if it is done. */
bool ing_outbox_note_resend(struct ing_outbox *outbox, unsigned target,
                            const struct ing_resend *before, const struct ing_resend *now);

/* Holds a tenant of a resend for so long: pages of others come meanwhile. A restart ends it. */
void ing_outbox_hold_resend(struct ing_outbox *outbox, unsigned target, const char *tenant,
                            int64_t for_ns);

/* ---- operators ---- */

/* Returns the number of a target, or -1. */
int ing_outbox_find(const struct ing_outbox *outbox, struct fg_slice name);

/* Returns the number of targets, which are numbered from 0. */
unsigned ing_outbox_count(const struct ing_outbox *outbox);

/* Returns the name of a target. It lives as long as the outbox. */
const char *ing_outbox_name(const struct ing_outbox *outbox, unsigned target);

/* Pauses a target, or ends its pause: nothing of it is taken meanwhile. Durable when it returns
 * FG_OK. FG_E_UNAVAILABLE: it holds now, but not after a restart. A thread that may wait for the
 * disk. */
enum fg_code ing_outbox_pause(struct ing_outbox *outbox, unsigned target, bool paused,
                              struct fg_err *err) fg_must_check;

/* Drops all that is pending of a target, and counts it; what is taken goes when it is reported.
 * Ends a resend. *ret_profiles: how many. Durable when it returns FG_OK. FG_E_UNAVAILABLE: after a
 * restart they may be pending again. A thread that may wait for the disk. */
enum fg_code ing_outbox_drop(struct ing_outbox *outbox, unsigned target, uint64_t *ret_profiles,
                             struct fg_err *err) fg_must_check;

/*
 * Begins a resend of the profiles of a time; the sender performs it. One of before that is done is
 * forgotten. Durable when it returns FG_OK. FG_E_EXISTS: one is under way. FG_E_UNAVAILABLE: it has
 * begun, but a restart may forget it. A thread that may wait for the disk.
 */
enum fg_code ing_outbox_resend(struct ing_outbox *outbox, unsigned target, int64_t from_ns,
                               int64_t until_ns, struct fg_err *err) fg_must_check;

/* Ends a resend, if one is under way: what it has not sent yet will not be sent. Durable, errors
 * and thread as above. */
enum fg_code ing_outbox_end_resend(struct ing_outbox *outbox, unsigned target,
                                   struct fg_err *err) fg_must_check;

enum ing_outbox_reason {
    OUTBOX_BY_FULL,     /* queue_max_bytes or groups_max */
    OUTBOX_BY_REFUSED,  /* by the target, or damaged */
    OUTBOX_BY_EXPIRED,  /* older than the tenant keeps profiles */
    OUTBOX_BY_GONE,     /* its profile was no longer in the head */
    OUTBOX_BY_OPERATOR, /* ing_outbox_drop() */
    OUTBOX_BY_DELETED,  /* its tenant was, or a deletion names it */
    OUTBOX_REASONS,
};

/* Names of the reasons, for the label of a metric. */
extern const char *const ing_outbox_reasons[OUTBOX_REASONS];

struct ing_outbox_numbers {
    uint64_t pending_profiles, pending_bytes; /* with those that are taken */
    uint64_t taken_profiles;
    int64_t oldest_wall_ns; /* when the oldest pending one was received; 0: there is none */
    uint64_t done;          /* since the start */
    uint64_t dropped[OUTBOX_REASONS]; /* since the start */
    uint64_t refused_pushes;          /* since the start: when_full is OUTBOX_REFUSE */
    uint64_t dead;                    /* kept for inspection */
    uint64_t queue_max_bytes;
    uint32_t spans;        /* in memory */
    uint32_t held_tenants; /* those whose hold has ended since the last take included */
    bool paused;
    struct ing_resend resend;
    uint32_t resend_held_tenants; /* of the resend */
};

/* Returns the numbers of a target. */
struct ing_outbox_numbers ing_outbox_numbers(struct ing_outbox *outbox, unsigned target);

/* An entry that was refused for good. */
struct ing_outbox_dead {
    uint64_t seq;
    int64_t died_wall_ns;
    struct fg_slice reason; /* in the arena */
    bool readable;          /* else: the entry was damaged, and nothing below is set */
    struct ing_outbox_entry entry;
    /* In the arena. Empty: the head knows the tenant, or the series, no more. */
    struct fg_slice tenant;
    struct fg_labels labels;
};

/* Reads up to max dead entries of a target from a number on into an array in the arena, by
 * ascending numbers. FG_E_LIMIT: the arena is full. FG_E_UNAVAILABLE, FG_E_CORRUPT. A thread that
 * may wait for the disk. */
enum fg_code ing_outbox_list_dead(struct ing_outbox *outbox, unsigned target, uint64_t from,
                                  size_t max, struct fg_arena *arena,
                                  struct ing_outbox_dead **ret_dead, size_t *ret_count,
                                  struct fg_err *err) fg_must_check;

/* ---- the ingester: life ---- */

struct ing_outbox_config {
    const struct ing_forward *forward; /* NULL: no targets */
    struct fg_store *store;            /* all below are borrowed */
    struct ing_head_writer *writer;
    struct ing_catalog *catalog;
    struct fg_tenants *tenants;
    const struct ing_deleted *deleted; /* NULL: nothing is */
    struct ing_damage *damage;         /* of the start */
    struct fg_clock *clock;
    /* Groups of the head that may be pinned, counted for each target: beyond that queues are full,
     * whatever their bytes. Else a target that is away would fill the head's table of chunks, and
     * agents would get 429. */
    uint32_t groups_max;
};

/*
 * Reads the queues of all targets. Deletes those of targets that the settings do not have any more,
 * moves entries that cannot be read to the dead ones, and logs how many. Without targets in the
 * settings and in the store *ret_outbox is NULL: forwarding costs nothing then, and the families of
 * the outbox are not touched. A store that takes no writes does not fail the start.
 * FG_E_UNAVAILABLE, FG_E_CORRUPT: the store cannot be read. FG_E_LIMIT: targets were added and
 * removed 65535 times.
 */
enum fg_code ing_outbox_create(const struct ing_outbox_config *config,
                               struct ing_outbox **ret_outbox, struct fg_err *err) fg_must_check;

/* How long a report may wait for others that share its write. */
#define OUTBOX_TICK_NS (FG_SECOND_NS / 5)

/* Starts the thread that has reports written. The committer outlives it (ing_outbox_stop()).
 * FG_E_LIMIT: no more threads. Accepts NULL. */
enum fg_code ing_outbox_start(struct ing_outbox *outbox, struct ing_committer *committer,
                              struct fg_err *err) fg_must_check;

/* Ends the thread and has the last reports written. The sender has stopped. Call it before the
 * committer ends. Accepts NULL. */
void ing_outbox_stop(struct ing_outbox *outbox);

/* Destroys the outbox; call it after the committer has ended. Accepts NULL. */
void ing_outbox_destroy(struct ing_outbox *outbox);

/* ---- the ingester: pushes; each accepts NULL, which wants and pins nothing ---- */

/* Returns FG_OK if a push of the tenant may be taken. FG_E_LIMIT: the queue of a target that wants
 * it is full, and its when_full is OUTBOX_REFUSE; the error names target and setting, and the
 * refusal is counted. */
enum fg_code ing_outbox_admits(struct ing_outbox *outbox, struct fg_slice tenant,
                               struct fg_err *err) fg_must_check;

/* Returns which targets want profiles of the tenant, as bits. */
uint32_t ing_outbox_wants(const struct ing_outbox *outbox, struct fg_slice tenant);

/* Adds an entry for each of these targets to a batch, and its delete to the undo batch. key: with
 * the number of the chunk; bytes: of the record. The committer's thread. */
void ing_outbox_add(struct ing_outbox *outbox, uint32_t targets,
                    const struct ing_head_profile_key *key, size_t bytes,
                    const struct ing_outbox_via *via, struct fg_store_batch *batch,
                    struct fg_store_batch *undo);

/* Returns how many entries were added since ing_outbox_end(). The committer's thread. */
uint32_t ing_outbox_added(const struct ing_outbox *outbox);

/* Ends a batch: if it was written, its entries wait from now on. The committer's thread, before the
 * next step of segments. */
void ing_outbox_end(struct ing_outbox *outbox, bool written);

/* Returns true if an entry may name a profile of the group, so that its chunks have to stay. */
bool ing_outbox_pins(struct ing_outbox *outbox, const struct ing_head_group_key *group);

/*
 * Returns the number (segments_core.h) of which the outbox is clean: it has nothing pending that a
 * deletion names which waits for that number or a lesser one. If that is less than what is asked
 * now, it begins to look for such profiles. Does not block. Not NULL.
 */
uint64_t ing_outbox_clean(struct ing_outbox *outbox, uint64_t asked);

/* Has profiles that are deleted by now dropped soon, whatever was asked. Does not block. Any
 * thread. */
void ing_outbox_drop_deleted(struct ing_outbox *outbox);

/* Writes reports that a failed write has left. Call it after each group of pushes. The committer's
 * thread. */
void ing_outbox_settle(struct ing_outbox *outbox);

#endif
