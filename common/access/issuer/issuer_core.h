/*
 * Decides when the keys of an issuer are fetched, and how long they serve. Pure; times are
 * monotonic.
 *
 *            start                    10 min after a success; 5 s … 60 s after a failure;
 *     NONE --------> FETCHING <------ a token has an unknown kid, at most once a minute
 *                       |      \
 *               success v       \ failure: the keys before it serve on
 *                     KNOWN <----'
 *
 * Keys serve for 24 h after the last success. An issuer that is away longer can vouch for nobody.
 */
#ifndef FG_COMMON_ACCESS_ISSUER_ISSUER_CORE_H
#define FG_COMMON_ACCESS_ISSUER_ISSUER_CORE_H

#include "common/base/time.h"

struct fg_issuer_core {
    bool fetching, known;
    unsigned failures;         /* in a row */
    int64_t begun_mono_ns;     /* of the last fetch */
    int64_t succeeded_mono_ns; /* the begin of the last fetch that succeeded, if `known` */
    int64_t due_mono_ns;       /* of the next fetch, unless `fetching` */
};

/* Returns the state at the start: a fetch is due. */
struct fg_issuer_core fg_issuer_core(int64_t now_mono_ns);

/* Returns when a fetch is due; INT64_MAX while one is under way. */
int64_t fg_issuer_core_due(const struct fg_issuer_core *core);

/* Records that a fetch begins, and how it ended. */
void fg_issuer_core_begin(struct fg_issuer_core *core, int64_t now_mono_ns);
void fg_issuer_core_end(struct fg_issuer_core *core, bool succeeded, int64_t now_mono_ns);

/* Asks for a fetch because of an unknown kid. Returns true if one is under way or due now, so that
 * the answer may be another one soon; false if the last one was less than a minute ago. */
bool fg_issuer_core_want(struct fg_issuer_core *core, int64_t now_mono_ns);

/* Returns whether the keys that were fetched last still serve. */
bool fg_issuer_core_serves(const struct fg_issuer_core *core, int64_t now_mono_ns);

#endif
