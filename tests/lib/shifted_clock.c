/*
 * A machine whose clock is off: a shared object to preload into a program under test. Wall time is
 * SHIFTED_CLOCK_S seconds (may be negative) from what it is; monotonic time goes as ever.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift_s(void)
{
    const char *text =
        getenv("SHIFTED_CLOCK_S"); /* NOLINT(concurrency-mt-unsafe): nobody sets any */

    return text == NULL ? 0 : strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    static int (*real)(clockid_t, struct timespec *);
    int failed;

    /* ISO C has no conversion between pointers to objects and to functions; POSIX has this one. */
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    failed = real(clock, ret_now);
    if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        ret_now->tv_sec += shift_s();
    return failed;
}

int gettimeofday(struct timeval *restrict ret_now, void *restrict zone)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);

    (void)zone;
    *ret_now = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return failed;
}

time_t time(time_t *ret_now)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (ret_now != NULL)
        *ret_now = now.tv_sec;
    return now.tv_sec;
}
