/*
 * What the files of outbox.h share; nobody else includes it.
 *
 *     outbox.c         pushes, taking and reporting, operators
 *     outbox_deleted.c drops what users have deleted
 *     outbox_load.c    the start
 *     outbox_read.c    entries and profiles from the store
 *     outbox_write.c   what reports change in the store: the thread, the committer's visits
 */
#ifndef FG_INGESTER_FORWARD_OUTBOX_IMPL_H
#define FG_INGESTER_FORWARD_OUTBOX_IMPL_H

#include "common/runtime/ticker.h"
#include "ingester/forward/outbox.h"
#include "ingester/forward/pins.h"

#include <pthread.h>
#include <stdatomic.h>

struct outbox_target {
    /* Fixed. */
    char *name;
    struct ing_outbox_target config;
    uint16_t number; /* in the store */

    /* The committer's. */
    uint64_t next_seq;
    uint64_t reserved;       /* what META says for certain: numbers below it may be given */
    uint64_t batch_reserved; /* ... once the batch is written that is being made */

    _Atomic(const char *) full; /* the setting because of which it is; NULL: not. Set under the
                                 * lock */
                                /* set under the lock */
    _Atomic uint64_t refused_pushes;

    /* Under the lock. */
    struct ing_spans spans;
    uint64_t reserve; /* what META will say with the next write */
    bool paused;
    struct ing_resend resend;                 /* with the place that was noted last */
    struct ing_resend_tenants resend_tenants; /* of RESEND_READS */
    uint64_t meta_changes, meta_written; /* of the three above; the store lacks those between */
    bool told;                           /* on_ready was called since the last vain take */
    bool to_tell;                        /* it is to be called */
    uint64_t done, dropped[OUTBOX_REASONS], dead;
    uint64_t told_full; /* of dropped[OUTBOX_BY_FULL], the log has these */
    int64_t told_full_mono_ns;
};

/* A span whose report is being written. */
struct outbox_end {
    unsigned target;
    uint64_t first;
    struct ing_span left; /* count 0: nothing of it waits again */
};

/* Changes that are written together. */
struct outbox_writes {
    uint64_t number; /* of the write; ascending */
    struct fg_store_batch batch;
    struct outbox_end *ends;
    uint32_t n_ends, cap_ends;
};

/* An entry of the batch that is being made. */
struct outbox_added {
    struct ing_head_group_key group;
    unsigned target;
    uint64_t seq, bytes;
};

struct outbox_deleted_tenant;

/* A look for deleted profiles; that thread's. */
struct outbox_look {
    bool under_way;
    uint64_t asked;                         /* it makes the outbox clean of this number */
    struct fg_arena *arena;                 /* of the two below */
    struct outbox_deleted_tenant **tenants; /* by number; NULL: nothing of it is deleted */
    uint32_t n_tenants;
    bool any;        /* one of them is not NULL */
    unsigned target; /* the place that it is at */
    uint64_t from;
    uint64_t until[OUTBOX_TARGETS_MAX];        /* greater numbers came after its begin */
    struct ing_pins found[OUTBOX_TARGETS_MAX]; /* groups that other entries name */
    uint64_t write; /* the last that has its reports; 0: there are none */
    uint64_t dropped;
    int64_t logged_mono_ns; /* that one has failed */
};

struct ing_outbox {
    struct ing_outbox_config config;
    struct outbox_target targets[OUTBOX_TARGETS_MAX];
    unsigned n_targets;
    const struct ing_spans *spans[OUTBOX_TARGETS_MAX]; /* those of the targets, for pins.h */
    struct ing_committer *committer;                   /* NULL: not started */
    struct ing_committer_visit visit;
    atomic_bool visiting; /* the committer has it */

    /* The committer's. */
    uint32_t next_number; /* of a new target */
    struct outbox_added *added;
    uint32_t n_added, cap_added;
    int64_t added_wall_ns;
    struct outbox_writes writing; /* not empty: its last write failed */
    bool told_failure;            /* of the write, in the log */

    /* A take found that the store takes no writes: the sender is to be told of the end. */
    atomic_bool turned_away;

    /* The ticker's. */
    int64_t swept_mono_ns;

    struct outbox_look look;
    atomic_bool look_ends; /* the outbox stops */

    pthread_mutex_t lock;     /* of all below, and of targets as they say; held for memory only */
    struct fg_ticker *ticker; /* NULL: not started, or stopped */
    struct fg_ticker *looker; /* likewise, of looks */
    uint64_t asked, clean;    /* ing_outbox_clean() */
    bool look_wanted;         /* ... whatever was asked */
    struct ing_pins pins;
    bool crowded; /* too many groups are pinned, and nothing can be dropped */
    struct outbox_writes filling;
    uint64_t written;     /* number of the last write that was done */
    uint64_t failures;    /* so many have failed */
    pthread_cond_t moved; /* one of both has changed */

    pthread_mutex_t ready_lock; /* held while on_ready runs; taken without the lock above */
    void (*on_ready)(void *arg, unsigned target);
    void *on_ready_arg;
};

/* ---- outbox_load.c ---- */

/* Fills the targets from the store and the settings. */
enum fg_code ing_outbox_load(struct ing_outbox *outbox, bool *ret_any,
                             struct fg_err *err) fg_must_check;

/* ---- outbox.c ---- */

/* Returns true if a resend is under way. Locked. */
bool ing_outbox_is_resending(const struct outbox_target *target);

/* Updates what follows from the sums of all targets: drops spans, or refuses pushes. Locked. */
void ing_outbox_bound(struct ing_outbox *outbox);

/* Calls on_ready for targets that are to be told, and logs what full queues have dropped. Not
 * locked. */
void ing_outbox_tell(struct ing_outbox *outbox);

/* Returns a span as it is handed out. */
struct ing_outbox_span ing_outbox_span_of(unsigned target, const struct ing_span *span);

/* Do as ing_outbox_put_back() and ing_outbox_report(). Locked. */
void ing_outbox_put_span_back(struct ing_outbox *outbox, const struct ing_outbox_span *span);
void ing_outbox_report_items(struct ing_outbox *outbox, const struct ing_outbox_span *span,
                             const struct ing_outbox_item *items, size_t count);

/* ---- outbox_deleted.c ---- */

/* Returns true if the tenant of this number is being deleted, or was. */
bool ing_outbox_is_deleted(const struct ing_outbox *outbox, uint32_t tenant);

/* Start and end the thread that looks for deleted profiles. */
enum fg_code ing_outbox_start_looks(struct ing_outbox *outbox, struct fg_err *err) fg_must_check;
void ing_outbox_stop_looks(struct ing_outbox *outbox);

/* ---- outbox_write.c: what is to be written; locked ---- */

/* Deletes the entries of these numbers. */
void ing_outbox_write_delete(struct ing_outbox *outbox, unsigned target, uint64_t first,
                             uint64_t last);

/* Keeps an entry as a dead one, unless there are too many. entry: its bytes. */
void ing_outbox_write_dead(struct ing_outbox *outbox, unsigned target, uint64_t seq,
                           struct fg_slice reason, struct fg_slice entry);

/* Ends a span once all that was added before is written. */
void ing_outbox_write_end(struct ing_outbox *outbox, unsigned target, uint64_t first,
                          const struct ing_span *left);

/* Has written what was added, and waits for it. The lock is released meanwhile. FG_E_UNAVAILABLE:
 * the write failed, and will be repeated. */
enum fg_code ing_outbox_write_wait(struct ing_outbox *outbox, struct fg_err *err) fg_must_check;

/* ---- outbox_write.c: into a batch ---- */

/* Adds a put of a dead entry. entry: its bytes, of which a bounded part is kept. */
void ing_outbox_put_dead_entry(uint16_t number, uint64_t seq, int64_t died_wall_ns,
                               struct fg_slice reason, struct fg_slice entry,
                               struct fg_store_batch *out);

/* Adds a put of the number that the next new target gets. */
void ing_outbox_put_next_number(uint32_t next, struct fg_store_batch *out);

/* Adds puts of a target's record, of its resend and of the next number. Locked. */
void ing_outbox_put_target(const struct ing_outbox *outbox, const struct outbox_target *target,
                           struct fg_store_batch *out);

/* ---- outbox_read.c ---- */

/* Makes an iterator over the entries of a target with these numbers. last is not UINT64_MAX. */
struct fg_store_iter *ing_outbox_iter(const struct ing_outbox *outbox, enum ing_head_family family,
                                      unsigned target, uint64_t first, uint64_t last);

/* Reads the entries of a span, without their profiles: OUTBOX_AGAIN, or OUTBOX_DAMAGED with the
 * bytes as its record. Errors as of ing_outbox_read(). */
enum fg_code ing_outbox_read_entries(struct ing_outbox *outbox, const struct ing_outbox_span *span,
                                     struct fg_arena *arena, struct ing_outbox_item **ret_items,
                                     size_t *ret_count, struct fg_err *err) fg_must_check;

#endif
