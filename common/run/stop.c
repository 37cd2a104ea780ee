#include "common/run/stop.h"

#include "common/base/def.h"

#include <signal.h>
#include <unistd.h>

static sigset_t stop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

void fg_stop_init(void)
{
    sigset_t set = stop_signals();

    fg_assert(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

static void exit_at_once(int signal)
{
    _exit(128 + signal); /* what a shell reports of a process that the signal killed */
}

int fg_stop_wait(void)
{
    struct sigaction at_once = {.sa_handler = exit_at_once};
    sigset_t set = stop_signals();
    int signal;

    fg_assert(sigwait(&set, &signal) == 0);
    fg_assert(sigaction(SIGTERM, &at_once, NULL) == 0);
    fg_assert(sigaction(SIGINT, &at_once, NULL) == 0);
    fg_assert(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    return signal;
}

void fg_ignore_sigpipe(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    fg_assert(sigaction(SIGPIPE, &ignore, NULL) == 0);
}
