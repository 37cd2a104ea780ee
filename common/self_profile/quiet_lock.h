/*
 * Locks of the profiler. Its own waits must not be sampled, which would lock again: hooks.c stands
 * in for pthread_mutex_lock(), and these do not call it.
 */
#ifndef FG_COMMON_SELF_PROFILE_QUIET_LOCK_H
#define FG_COMMON_SELF_PROFILE_QUIET_LOCK_H

#include "common/base/def.h"

#include <pthread.h>

/* Of waits without an end: the year 2286. It says no more than that this is not the usual call. */
#define FG_QUIET_FOREVER ((struct timespec){.tv_sec = 9999999999})

static inline void fg_quiet_lock(pthread_mutex_t *mutex)
{
    if (pthread_mutex_trylock(mutex) != 0)
        fg_assert(pthread_mutex_timedlock(mutex, &FG_QUIET_FOREVER) == 0);
}

static inline void fg_quiet_unlock(pthread_mutex_t *mutex)
{
    fg_assert(pthread_mutex_unlock(mutex) == 0);
}

#endif
