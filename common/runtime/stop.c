#include "common/runtime/stop.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static sigset_t stop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

/* Before any thread is created, so that all of them inherit the mask and only sigwait() takes
 * these signals. */
void fg_stop_init(void)
{
    sigset_t set = stop_signals();

    fg_assert(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

static void exit_at_once(int signal)
{
    _exit(128 + signal); /* what a shell reports of a process that the signal killed */
}

/* An operator has lost patience with the orderly stop. */
void fg_stop_at_next(void)
{
    struct sigaction at_once = {.sa_handler = exit_at_once};
    sigset_t set = stop_signals();

    fg_assert(sigaction(SIGTERM, &at_once, NULL) == 0);
    fg_assert(sigaction(SIGINT, &at_once, NULL) == 0);
    fg_assert(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
}

int fg_stop_wait(void)
{
    sigset_t set = stop_signals();
    int signal;

    fg_assert(sigwait(&set, &signal) == 0);
    fg_stop_at_next();
    return signal;
}

int fg_stop_wait_for(int64_t timeout_ns)
{
    int64_t deadline_ns = fg_time_add(fg_mono_ns(fg_clock_real()), timeout_ns);
    sigset_t set = stop_signals();

    for (;;) {
        int64_t left_ns = FG_MAX(deadline_ns - fg_mono_ns(fg_clock_real()), 0);
        struct timespec left = {.tv_sec = (time_t)(left_ns / FG_SECOND_NS),
                                .tv_nsec = (long)(left_ns % FG_SECOND_NS)};
        int signal = sigtimedwait(&set, NULL, &left);

        if (signal > 0) {
            fg_stop_at_next();
            return signal;
        }
        if (errno == EAGAIN)
            return 0;
        fg_assert(errno == EINTR);
    }
}

void fg_ignore_sigpipe(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    fg_assert(sigaction(SIGPIPE, &ignore, NULL) == 0);
}
