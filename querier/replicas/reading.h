/*
 * What all replicas together hold of one tenant's profiles, for one thing that a query wants to
 * know (common/cluster/README.md#read): of each shard the data of one ingester, sums of the others
 * that own it, and what these have besides.
 *
 *    ASKING -----------------------------> FETCHING ---------------> DONE
 *      |  ^      enough have answered:        |  what was missing
 *      |  |      sums are compared            |  came
 *      |  +-- again: some groups differ, ids  |
 *      |  |   of them are needed              |
 *      |  +-- again, without who failed ------+
 *      +-----------------------------------------------------------> DONE
 *        nothing is missing; or the query takes what there is
 *
 * Asking. A member that fails, or is too slow, is as if it was not there: others that own the same
 * are asked in its place (stand-ins), as far as it takes. One that was only slow counts when it
 * answers after all. Where it is not enough in the end the query fails, or takes what there is
 * and says so.
 *
 * Each attempt asks everything anew, since data, sums and ids have to be of one moment.
 *
 * With one ingester that is always the same one there is one call, without shards or sums.
 *
 * Thread: the query's.
 */
#ifndef FG_QUERIER_REPLICAS_READING_H
#define FG_QUERIER_REPLICAS_READING_H

#include "querier/replicas/calls.h"
#include "querier/replicas/compare.h"
#include "querier/replicas/heads.h"
#include "querier/replicas/ids.h"
#include "querier/replicas/roles.h"

enum qry_reading_state { READING_ASKING, READING_FETCHING, READING_DONE };

struct qry_reading_leg;
struct qry_reading_failure;

struct qry_reading {
    /* Set before qry_reading_start(); borrowed. */
    struct qry_query *query;
    struct qry_calls *calls;
    struct fg_arena *arena;
    enum fg_rpc_method method;
    const struct qry_replicas_head *head;
    size_t tenant;        /* of the query */
    uint16_t first, last; /* shards */
    uint32_t round_robin; /* prefers other members */
    bool last_try;        /* a fresher snapshot will not be had */

    enum qry_reading_state state;
    struct qry_heads_tenant about;
    struct fg_ring_reads reads;
    struct qry_reading_leg *legs; /* of this attempt */
    unsigned attempts;
    int64_t begun_mono_ns; /* of the machine's clock, as all times of calls */
    struct qry_ids_wanted ids;
    uint64_t down[FG_RING_READS_WORDS], slow[FG_RING_READS_WORDS]; /* not to be asked */
    bool needs_slow; /* but it does not do without them */
    bool patient;    /* what is fetched is waited for, however long it takes */
    bool too_old;    /* somebody said that ring or snapshot are */
    bool lenient;    /* members leave out what they cannot read, and say so */
    struct qry_reading_failure *failures;
};

enum fg_code qry_reading_start(struct qry_reading *reading, struct fg_err *err) fg_must_check;

/*
 * Goes on as far as it can without waiting. *ret_moved: something has happened. Failures: what
 * members said of the query itself; FG_E_UNAVAILABLE: not enough of them answered;
 * FG_E_PRECONDITION: ring or snapshot are too old; FG_E_CORRUPT; FG_E_LIMIT.
 */
enum fg_code qry_reading_step(struct qry_reading *reading, bool *ret_moved,
                              struct fg_err *err) fg_must_check;

/* When something is due though nobody answers; INT64_MAX: nothing. */
int64_t qry_reading_wake_mono_ns(const struct qry_reading *reading);

/* Takes one reply; its slices are gone afterwards. */
typedef enum fg_code (*qry_replicas_reply)(struct qry_query *query, const struct fg_call *call,
                                           void *arg, struct fg_err *err);

/* DONE: hands over what the answer is made of. */
enum fg_code qry_reading_deliver(struct qry_reading *reading, qry_replicas_reply take, void *arg,
                                 struct fg_err *err) fg_must_check;

#endif
