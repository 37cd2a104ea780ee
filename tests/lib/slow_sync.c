/*
 * Makes fdatasync() take as long as a test wants. A test preloads it into a program (LD_PRELOAD).
 * While the file SLOW_SYNC_GATE exists, each call waits before it does its work, and creates the
 * file SLOW_SYNC_GATE.waiting to show that it waits.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_for_gate(void)
{
    const char *gate =
        getenv("SLOW_SYNC_GATE"); /* NOLINT(concurrency-mt-unsafe): nobody sets any */
    char waiting[PATH_MAX];
    int fd;

    if (gate == NULL || access(gate, F_OK) != 0)
        return;
    (void)snprintf(waiting, sizeof waiting, "%s.waiting", gate);
    fd = open(waiting, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)close(fd);
    while (access(gate, F_OK) == 0)
        (void)usleep(5000);
}

int fdatasync(int fd)
{
    int (*real)(int fd);

    /* ISO C has no conversion between pointers to objects and to functions; POSIX has this one. */
    *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    wait_for_gate();
    return real == NULL ? -1 : real(fd);
}
