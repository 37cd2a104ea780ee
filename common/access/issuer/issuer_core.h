/*
 * Decides when the keys of an issuer are fetched, how long they serve, and whether a token with an
 * unknown kid may be right. Pure; times are monotonic.
 *
 *            start                    10 min after a success; 5 s … 60 s after a failure;
 *     NONE --------> FETCHING <------ a token has an unknown kid
 *                       |      \
 *               success v       \ failure: the keys before it serve on
 *                     KNOWN <----'
 *
 * Keys serve for 24 h after the last success. An issuer that is away longer can vouch for nobody.
 *
 * A kid may be of a key that is newer than the last fetch, so its token is refused only after a
 * fetch that began later than the kid was first seen. Until then its bearer has to try again:
 * agents drop what gets a 4xx. From then on the token is refused at once, also while keys are
 * fetched again.
 *
 * Strangers can name any kid. So unknown kids cause one fetch in 10 s, all together, however many
 * there are. That is also how long strangers can keep out those whose issuer has a new key, since
 * both wait for the same fetch. Agents send every 10 to 15 s and repeat for some seconds what gets
 * 503, so a minute would lose profiles; for the issuer 10 s is one small request of each process. A
 * kid that was refused already causes one fetch a minute, since the issuer may have been late with
 * its key. The table of kids has a fixed size, and the oldest of its row makes room for a new one.
 * A kid that is pushed out of the table is taken for new once more, and its bearer tries again in
 * vain.
 */
#ifndef FG_COMMON_ACCESS_ISSUER_ISSUER_CORE_H
#define FG_COMMON_ACCESS_ISSUER_ISSUER_CORE_H

#include "common/base/time.h"

enum { FG_ISSUER_KID_ROWS = 128, FG_ISSUER_KIDS_OF_ROW = 8 };

struct fg_issuer_kid {
    uint64_t hash;
    int64_t seen_mono_ns; /* for the first time */
    bool taken;
};

struct fg_issuer_core {
    bool fetching, known;
    unsigned failures;         /* in a row */
    int64_t begun_mono_ns;     /* of the last fetch */
    int64_t succeeded_mono_ns; /* the begin of the last fetch that succeeded, if `known` */
    int64_t due_mono_ns;       /* of the next fetch, unless `fetching` */
    /* Unknown ones; the row follows from the hash. */
    struct fg_issuer_kid kids[FG_ISSUER_KID_ROWS][FG_ISSUER_KIDS_OF_ROW];
};

/* Returns the state at the start: a fetch is due. */
struct fg_issuer_core fg_issuer_core(int64_t now_mono_ns);

/* Returns when a fetch is due; INT64_MAX while one is under way. */
int64_t fg_issuer_core_due(const struct fg_issuer_core *core);

/* Records that a fetch begins, and how it ended. */
void fg_issuer_core_begin(struct fg_issuer_core *core, int64_t now_mono_ns);
void fg_issuer_core_end(struct fg_issuer_core *core, bool succeeded, int64_t now_mono_ns);

/* Asks for a fetch because of an unknown kid, given as a hash that strangers cannot predict.
 * Returns true if the kid may be known after the next fetch; false if a fetch that succeeded began
 * after the kid was first seen: the issuer does not have it. */
bool fg_issuer_core_want(struct fg_issuer_core *core, uint64_t kid, int64_t now_mono_ns);

/* Notes that the fetch that has just succeeded lacks the key of a kid that the one before had: it
 * is withdrawn, and nobody waits for another fetch because of it. */
void fg_issuer_core_withdraw(struct fg_issuer_core *core, uint64_t kid);

/* Returns whether the keys that were fetched last still serve. */
bool fg_issuer_core_serves(const struct fg_issuer_core *core, int64_t now_mono_ns);

#endif
