/*
 * The state machine of a replica read: what all replicas together hold of one tenant's profiles,
 * for one fan-out (common/cluster/README.md#read). Of each shard one ingester gives its data; the
 * others that own it give sums, which say what they have besides.
 *
 *    ASKING -----------------------------> FETCHING ---------------> DONE
 *      |  ^      enough have answered:        |  the missing profiles
 *      |  |      sums are compared            |  have come
 *      |  +-- again: some groups differ, ids  |
 *      |  |   of these are needed             |
 *      |  +-- again, without members ---------+
 *      |      that failed
 *      +-----------------------------------------------------------> DONE
 *        nothing is missing; or the query accepts what there is
 *
 * While asking, failover replicas are asked for the data of members that fail or are late, as many
 * as the quorum needs. A late member counts when it answers after all. If it is not enough in the
 * end, the read fails, or takes what there is and says so.
 *
 * Each attempt asks everything again, since data, sums and ids have to be of one moment.
 *
 * Without a ring there is one ingester, hence one request, without shards or sums.
 *
 * The shell (replica_read.h) feeds it: after each call it sends the requests that are PLANNED,
 * drops the calls of those that are DROPPED, and reports what became of the others.
 *
 * A pure value: no I/O, no clock, no thread; memory in the arena. Thread: one at a time.
 */
#ifndef FG_QUERIER_REPLICAS_REPLICA_READ_CORE_H
#define FG_QUERIER_REPLICAS_REPLICA_READ_CORE_H

#include "querier/replicas/ids.h"
#include "querier/replicas/metrics.h"
#include "querier/replicas/replica_requests_core.h"

enum qry_replica_read_state { REPLICA_READ_ASKING, REPLICA_READ_FETCHING, REPLICA_READ_DONE };

struct qry_replica_failure;

struct qry_replica_read_core {
    /* Set before the start, together with the owner's part of `requests`. */
    struct qry_replica_requests requests;
    int64_t hedge_after_ns;       /* a request without an answer for so long is late */
    int64_t begun_mono_ns;        /* of the same clock as all times below */
    int64_t give_up_late_mono_ns; /* from then on late members are not waited for; INT64_MAX: they
                                     are */
    bool partial;                 /* the query accepts what there is */
    bool may_be_partial;          /* its client may ask for that */
    bool last_try;                /* a fresher ring or snapshot will not be taken */

    /* Results, valid once it is DONE or at any time. */
    enum qry_replica_read_state state;
    struct fg_slice lacks;                  /* what the result lacks, and why; empty: nothing */
    uint64_t counts[replicas_metric_count]; /* events by metric; the shell takes and clears them */
    bool lenient;              /* members leave out what they cannot read, and say so */
    struct qry_ids_wanted ids; /* of which profiles requests ask for ids */

    /* The core's own. */
    struct qry_replica_request *past; /* of earlier attempts: the shell drops their calls and sets
                                         this to NULL */
    unsigned attempts;
    bool news;             /* something has become of a request since the last step */
    bool patient;          /* fetched profiles are waited for, however long it takes */
    bool too_old;          /* a member said that the ring or the snapshot is */
    struct fg_err refusal; /* what a member said of the query itself; code FG_OK: nothing */
    struct qry_replica_failure *failures;
};

/* Starts: plans the requests of the first attempt. wall_ns: the time of the query, for `ids`.
 * FG_E_LIMIT. */
enum fg_code qry_replica_read_core_start(struct qry_replica_read_core *core, int64_t wall_ns,
                                         struct fg_err *err) fg_must_check;

/* Report what became of a request that is SENT, LATE or, for failures, PLANNED. reply: the head of
 * the reply; it stays until the request is dropped. The next step acts on it. */
void qry_replica_read_core_answered(struct qry_replica_read_core *core,
                                    struct qry_replica_request *request, struct fg_slice reply);
void qry_replica_read_core_failed(struct qry_replica_read_core *core,
                                  struct qry_replica_request *request, const struct fg_err *why);

/*
 * Makes all progress that needs no waiting. *ret_moved: something has happened, so step again
 * after the requests were sent. Failures: what members said of the query itself; FG_E_UNAVAILABLE:
 * not enough of them answered; FG_E_LIMIT and FG_E_DEADLINE: likewise, because of that;
 * FG_E_PRECONDITION: the ring or the snapshot is too old; FG_E_CORRUPT: a reply is damaged.
 */
enum fg_code qry_replica_read_core_step(struct qry_replica_read_core *core, int64_t now_mono_ns,
                                        bool *ret_moved, struct fg_err *err) fg_must_check;

/* Returns when something is due although nobody answers; INT64_MAX: never. */
int64_t qry_replica_read_core_wake_mono_ns(const struct qry_replica_read_core *core);

/* DONE: returns true if the reply to a request is part of the result. */
bool qry_replica_read_core_is_part(const struct qry_replica_read_core *core,
                                   const struct qry_replica_request *request);

/* DONE, STATS with a ring: joins the replies as if one member had given them. FG_E_CORRUPT,
 * FG_E_LIMIT. */
enum fg_code qry_replica_read_core_stats(const struct qry_replica_read_core *core,
                                         Fg__Inner__StatsReply *ret_joined,
                                         struct fg_err *err) fg_must_check;

#endif
