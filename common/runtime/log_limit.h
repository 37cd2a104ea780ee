/*
 * How often each message of the log may speak: FG_LOG_BURST lines at once, and then one every
 * tenth of a second, so that nobody who makes us complain can fill a disk with it. Debug lines,
 * which somebody has asked for, ten times as often.
 *
 * Thread: whoever holds the lock of the log. Times are monotonic and the caller's.
 */
#ifndef FG_COMMON_RUNTIME_LOG_LIMIT_H
#define FG_COMMON_RUNTIME_LOG_LIMIT_H

#include "common/base/def.h"
#include "common/runtime/log_level.h"

enum {
    FG_LOG_BURST = 100,
    FG_LOG_SPEAKERS = 512, /* messages are literals: this is more than the program has */
};

struct fg_log_speaker {
    const char *msg; /* the literal's address is the key; NULL: free */
    enum fg_log_level level;
    int64_t paid_mono_ns; /* when all its lines so far are paid for */
    int64_t owes_mono_ns; /* since when lines have been left out */
    uint64_t left_out;
};

/* All zero in the beginning. */
struct fg_log_limit {
    struct fg_log_speaker speakers[FG_LOG_SPEAKERS];
    unsigned n_owing; /* speakers with left_out > 0 */
};

/* May a line of this message be written now? If not, it is counted. */
bool fg_log_limit_admit(struct fg_log_limit *limit, const char *msg, enum fg_log_level level,
                        int64_t now_mono_ns);

/* Takes out what one message has left out since a second ago or earlier. false: none has. */
bool fg_log_limit_take_owing(struct fg_log_limit *limit, int64_t now_mono_ns,
                             struct fg_log_speaker *ret_owing);

#endif
