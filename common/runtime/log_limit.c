#include "common/runtime/log_limit.h"

#include "common/base/hash.h"
#include "common/base/time.h"

/* Ten lines a second of one kind, a hundred for debugging. */
static const int64_t LINE_NS = 100 * FG_MS_NS;
static const int64_t DEBUG_LINE_NS = 10 * FG_MS_NS;
static const int64_t OWING_NS = FG_SECOND_NS; /* so often it is said what was left out */

/* NULL when the table is full: then there is no limit. */
static struct fg_log_speaker *speaker_of(struct fg_log_limit *limit, const char *msg)
{
    /* By the address of the message, which is a literal: one place in the source is one speaker. */
    uint64_t at = fg_mix64((uintptr_t)msg);

    for (size_t i = 0; i < FG_LOG_SPEAKERS; i++) {
        struct fg_log_speaker *speaker = &limit->speakers[(at + i) % FG_LOG_SPEAKERS];

        if (speaker->msg == NULL)
            speaker->msg = msg;
        if (speaker->msg == msg)
            return speaker;
    }
    return NULL;
}

/* Each line costs a span of time, and a burst is what may be owed. */
bool fg_log_limit_admit(struct fg_log_limit *limit, const char *msg, enum fg_log_level level,
                        int64_t now_mono_ns)
{
    struct fg_log_speaker *speaker = speaker_of(limit, msg);
    int64_t line_ns = level == FG_LOG_DEBUG ? DEBUG_LINE_NS : LINE_NS;

    if (speaker == NULL)
        return true;
    speaker->level = level;
    speaker->paid_mono_ns = FG_MAX(speaker->paid_mono_ns, now_mono_ns);
    if (speaker->paid_mono_ns - now_mono_ns <= (FG_LOG_BURST - 1) * line_ns) {
        speaker->paid_mono_ns += line_ns;
        return true;
    }
    if (speaker->left_out++ == 0) {
        speaker->owes_mono_ns = now_mono_ns;
        limit->n_owing++;
    }
    return false;
}

bool fg_log_limit_take_owing(struct fg_log_limit *limit, int64_t now_mono_ns,
                             struct fg_log_speaker *ret_owing)
{
    for (size_t i = 0; limit->n_owing > 0 && i < FG_LOG_SPEAKERS; i++) {
        struct fg_log_speaker *speaker = &limit->speakers[i];

        if (speaker->left_out == 0 || now_mono_ns - speaker->owes_mono_ns < OWING_NS)
            continue;
        *ret_owing = *speaker;
        speaker->left_out = 0;
        limit->n_owing--;
        return true;
    }
    return false;
}
