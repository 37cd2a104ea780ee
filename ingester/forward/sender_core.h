/*
 * The step core of sending to one target: when the next request may begin, and of which lane it
 * takes its profiles. No I/O, clock or thread.
 *
 *   - Requests at a time adapt: one more after as many good answers as are allowed, half after one
 *     that was refused or did not come (additive increase, multiplicative decrease). An answer to
 *     a request of the backlog that takes far longer than others takes a quarter away: the target
 *     has others to serve.
 *   - A target that cannot be reached is asked after a pause with full jitter, whose bound doubles
 *     from 0.2 to 30 s; it is never given up. Retry-After is obeyed, up to ten minutes.
 *   - A target that does not know us is asked again every minute: a new token file heals it.
 *   - If requests cannot be made here, or answers not be taken, that is tried again every five
 *     seconds; the target is not to blame.
 *   - Both lanes get their share of the connections while profiles wait in both.
 */
#ifndef FG_INGESTER_FORWARD_SENDER_CORE_H
#define FG_INGESTER_FORWARD_SENDER_CORE_H

#include "common/base/time.h"
#include "ingester/forward/spans.h"

struct ing_sender_core_config {
    unsigned connections;    /* at most */
    double fresh_share;      /* of them, for the fresh lane */
    uint64_t rate_max_bytes; /* per second; 0: unlimited */
};

/* Only sender_core.c changes it. */
struct ing_sender_core {
    struct ing_sender_core_config config;
    uint64_t random;
    double allowed; /* requests at a time */
    unsigned running, running_fresh;
    unsigned failures;          /* in a row */
    int64_t failed_mono_ns;     /* when the last of them was known */
    int64_t not_before_mono_ns; /* a pause, or the rate */
    bool denied;                /* the target does not know us */
    int64_t fastest_ns;         /* the shortest answer of late; 0: none */
    int64_t fastest_mono_ns;    /* when it came */
};

enum ing_sender_result {
    SENDER_UNASKED, /* no answer was needed: it says nothing about the target */
    SENDER_UNREAD,  /* no request could be made, or its answer not be taken, for a reason of our
                     * own: likewise, but not again at once */
    SENDER_TAKEN,   /* answered: each profile is stored, known or refused */
    SENDER_BUSY,    /* the target has too much to do, now */
    SENDER_AWAY,    /* no answer, or none that makes sense */
    SENDER_DENIED,  /* 401; 403 unless it is about one of several tenants */
};

/* Begins without requests. seed: for jitter. */
void ing_sender_core_init(struct ing_sender_core *core, const struct ing_sender_core_config *config,
                          uint64_t seed);

/* Returns true if another request may begin. Else *ret_mono_ns is when to ask again; INT64_MAX:
 * when a request ends. */
bool ing_sender_core_may_begin(const struct ing_sender_core *core, int64_t now_mono_ns,
                               int64_t *ret_mono_ns) fg_must_check;

/* Returns the lane to look into first; the other one is next. */
enum ing_outbox_lane ing_sender_core_lane(const struct ing_sender_core *core);

/* Notes the begin of a request. */
void ing_sender_core_begin(struct ing_sender_core *core, enum ing_outbox_lane lane);

/* Notes bytes that were sent. */
void ing_sender_core_sent(struct ing_sender_core *core, uint64_t bytes, int64_t now_mono_ns);

/* How a request went. */
struct ing_sender_core_outcome {
    enum ing_sender_result result;
    int64_t began_mono_ns;
    int64_t took_ns;        /* its last answer; 0: there was none */
    int64_t retry_after_ns; /* as the target said; 0: it did not */
};

/* Notes the end of a request. */
void ing_sender_core_end(struct ing_sender_core *core, enum ing_outbox_lane lane,
                         const struct ing_sender_core_outcome *outcome, int64_t now_mono_ns);

#endif
