/*
 * Limits how often each message is logged: FG_LOG_BURST lines at once, then one line per tenth of a
 * second, so that a client that causes errors cannot fill a disk with log lines. Debug lines, which
 * an operator has enabled, may be ten times as frequent.
 *
 * Thread: one at a time; log.c calls it under its lock. The caller passes monotonic time.
 */
#ifndef FG_COMMON_RUNTIME_LOG_LIMIT_H
#define FG_COMMON_RUNTIME_LOG_LIMIT_H

#include "common/base/def.h"
#include "common/runtime/log_level.h"

enum {
    FG_LOG_BURST = 100,
    FG_LOG_SPEAKERS = 512, /* messages are literals; the program has fewer */
};

struct fg_log_speaker {
    const char *msg; /* the literal's address is the key; NULL: free */
    enum fg_log_level level;
    int64_t paid_mono_ns; /* until when the lines so far use up the rate */
    int64_t owes_mono_ns; /* when the first of left_out was suppressed */
    uint64_t left_out;    /* suppressed lines that were not reported */
};

/* Starts zeroed. */
struct fg_log_limit {
    struct fg_log_speaker speakers[FG_LOG_SPEAKERS];
    unsigned n_owing; /* speakers with left_out > 0 */
};

/* Returns whether a line of this message may be written now. If not, counts it. */
bool fg_log_limit_admit(struct fg_log_limit *limit, const char *msg, enum fg_log_level level,
                        int64_t now_mono_ns);

/* Takes one message whose first suppressed line is at least a second old, and resets its count.
 * Returns false if there is none. */
bool fg_log_limit_take_owing(struct fg_log_limit *limit, int64_t now_mono_ns,
                             struct fg_log_speaker *ret_owing);

#endif
