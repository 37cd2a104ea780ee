#include "tests/lib/rpc_run.h"

#include "common/base/time.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void rpc_run_url(const char *scheme, char url[RPC_RUN_URL_BYTES])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fg_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    (void)close(fd);
    (void)snprintf(url, RPC_RUN_URL_BYTES, "%s://127.0.0.1:%u", scheme,
                   (unsigned)ntohs(at.sin_port));
}

struct fg_call rpc_run_call(enum fg_rpc_method method, int64_t for_ns)
{
    return (struct fg_call){
        .method = method,
        .head = FG_LIT("head"),
        .payload = FG_LIT("payload"),
        .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + for_ns,
    };
}

void rpc_run_echo(struct fg_rpc_request *req, void *arg)
{
    unsigned *served = arg;

    if (served != NULL)
        ++*served;
    fg_rpc_reply(req, fg_rpc_head(req), fg_rpc_payload(req));
}

void rpc_run_connect_silently(const char *url, int fds[RPC_RUN_SILENT])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    at.sin_port = htons((uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
    for (unsigned i = 0; i < RPC_RUN_SILENT; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        fg_assert(fds[i] >= 0 && connect(fds[i], (struct sockaddr *)&at, sizeof at) == 0);
    }
}

unsigned rpc_run_open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    fg_assert(dir != NULL);
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

unsigned rpc_run_await_files(unsigned most)
{
    const struct timespec pause = {.tv_nsec = 10 * FG_MS_NS};
    unsigned n = rpc_run_open_files();

    for (unsigned i = 0; i < 700 && n > most; i++) {
        (void)nanosleep(&pause, NULL);
        n = rpc_run_open_files();
    }
    return n;
}

void rpc_run_connected(struct fg_peer *peer)
{
    struct fg_err err;

    fg_assert(fg_peer_wait(peer, 10 * FG_SECOND_NS, &err) == FG_OK);
}
