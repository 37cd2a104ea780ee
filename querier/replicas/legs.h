/*
 * The calls of one attempt of a reading (reading.h): who is asked for what, and what became of it.
 * For reading.c.
 */
#ifndef FG_QUERIER_REPLICAS_LEGS_H
#define FG_QUERIER_REPLICAS_LEGS_H

#include "querier/replicas/reading.h"

enum qry_leg_state {
    LEG_UNDER_WAY,
    LEG_LATE, /* under way, and others are asked in its place */
    LEG_ANSWERED,
    LEG_FAILED,
};

struct qry_reading_leg {
    struct qry_reading_leg *next;
    struct qry_sent_call *call; /* NULL: it could not be sent */
    enum qry_leg_state state;
    struct fg_err err; /* FAILED */
    uint32_t member;   /* FG_RING_NO_MEMBER: the one ingester there is */
    struct qry_shard_map data, sums;
    uint64_t n_ids; /* of the profiles it is to fetch; 0: it is not for that */
    int64_t sent_mono_ns;
    struct qry_reading_leg *instead_of; /* whose data this one gives; NULL: it was asked at first */
    bool replaced;                      /* stand-ins were looked for */
    bool uncovered;                     /* and not found for all of its data */
};

/* Nobody is asked for data: all give what they have, and it unites, or the greatest counts. */
bool qry_legs_unite(enum fg_rpc_method method);

/* Asks all it takes, but those that failed in earlier attempts, and those that are slow if it can
 * be done without them. FG_E_LIMIT. */
enum fg_code qry_legs_ask(struct qry_reading *reading, struct fg_err *err) fg_must_check;

/* Asks others in the place of those that failed or are late by now. FG_E_LIMIT. */
enum fg_code qry_legs_stand_in(struct qry_reading *reading, struct fg_err *err) fg_must_check;

/* Asks those who have them for profiles by their ids; answers[i] is of legs[i]. FG_E_LIMIT. */
enum fg_code qry_legs_fetch(struct qry_reading *reading, struct qry_reading_leg *const *legs,
                            const struct qry_compare_result *result,
                            struct fg_err *err) fg_must_check;

/* Have enough answered, and is all data there? */
bool qry_legs_are_enough(const struct qry_reading *reading);

/* Is its data part of the answer? That of a late one is when it came, and then that of its
 * stand-ins is not. */
bool qry_legs_counts(const struct qry_reading_leg *leg);

#endif
