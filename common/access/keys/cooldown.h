/*
 * A cooldown after something outside has not answered. During it nobody asks it again, and each
 * caller gets the error of the last try. So a segment that needs the keys of hundreds of tenants
 * waits for one timeout, and not for hundreds. An error about a single key begins no cooldown.
 *
 * Thread: none of its own; the caller locks.
 */
#ifndef FG_COMMON_ACCESS_KEYS_COOLDOWN_H
#define FG_COMMON_ACCESS_KEYS_COOLDOWN_H

#include "common/base/err.h"
#include "common/base/time.h"

#define FG_COOLDOWN_NS FG_SECOND_NS

/* Zeroed: it may be asked. */
struct fg_cooldown {
    int64_t until_mono_ns;
    struct fg_err why;
};

/* Returns FG_OK if it may be asked, else why it did not answer. */
static inline enum fg_code fg_cooldown_check(const struct fg_cooldown *cooldown, struct fg_err *err)
{
    if (fg_mono_ns(fg_clock_real()) >= cooldown->until_mono_ns)
        return FG_OK;
    *err = cooldown->why;
    return err->code;
}

/* Begins one because of an error, which is copied. */
static inline void fg_cooldown_begin(struct fg_cooldown *cooldown, const struct fg_err *why)
{
    *cooldown = (struct fg_cooldown){fg_mono_ns(fg_clock_real()) + FG_COOLDOWN_NS, *why};
}

#endif
