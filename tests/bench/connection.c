#include "tests/bench/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum fg_code connection_open(struct connection *connection, const struct sockaddr_in *address,
                             struct fg_err *err)
{
    const int on = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return fg_fail_errno(err, errno, "socket");
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        const int errnum = errno;

        (void)close(fd);
        return fg_fail_errno(err, errnum, "connect");
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    connection->fd = fd;
    connection->busy = false;
    return FG_OK;
}

void connection_close(struct connection *connection)
{
    if (connection->fd >= 0)
        (void)close(connection->fd);
    connection->fd = -1;
    connection->busy = false;
}

/* What is left of the pieces after `sent` bytes. Returns their number. */
static int pieces_left(const struct connection *connection, struct iovec left[3])
{
    const struct iovec all[3] = {
        {(void *)(uintptr_t)connection->head, connection->head_len},
        {connection->payload->gzip, connection->payload->len},
        {(void *)(uintptr_t)connection->time, connection->time_len},
    };
    size_t skip = connection->sent;
    int n = 0;

    for (size_t i = 0; i < FG_COUNT(all); i++) {
        if (skip >= all[i].iov_len) {
            skip -= all[i].iov_len;
            continue;
        }
        left[n++] = (struct iovec){(char *)all[i].iov_base + skip, all[i].iov_len - skip};
        skip = 0;
    }
    return n;
}

enum progress connection_send(struct connection *connection)
{
    struct iovec left[3];
    int n;

    while ((n = pieces_left(connection, left)) > 0) {
        const struct msghdr message = {.msg_iov = left, .msg_iovlen = (size_t)n};
        const ssize_t sent = sendmsg(connection->fd, &message, MSG_NOSIGNAL);

        if (sent < 0)
            return errno == EAGAIN || errno == EINTR ? UNDER_WAY : BROKEN;
        connection->sent += (size_t)sent;
    }
    return ANSWERED;
}

/* Is the answer complete? Its body is not looked at, only counted. */
static bool read_answer(const struct connection *connection, struct answer *ret_answer)
{
    static const char length[] = "\r\ncontent-length:";
    const char *text = connection->answer;
    const char *end = strstr(text, "\r\n\r\n");
    const char *at;
    size_t body = 0;

    if (end == NULL)
        return false;
    at = strcasestr(text, length);
    if (at != NULL && at < end)
        body = (size_t)strtoull(at + sizeof length - 1, NULL, 10);
    if (connection->answer_len < (size_t)(end - text) + 4 + body)
        return false;
    at = strchr(text, ' ');
    *ret_answer = (struct answer){.status = at == NULL ? 0 : (unsigned)strtoul(at, NULL, 10)};
    at = strcasestr(text, "\r\nretry-after:");
    ret_answer->retry_after = at != NULL && at < end;
    at = strcasestr(text, "\r\nconnection: close");
    ret_answer->close = at != NULL && at < end;
    return true;
}

enum progress connection_receive(struct connection *connection, struct answer *ret_answer)
{
    for (;;) {
        const size_t room = ANSWER_MAX_BYTES - connection->answer_len;
        ssize_t n;

        if (room == 0)
            return BROKEN;
        n = recv(connection->fd, connection->answer + connection->answer_len, room, 0);
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR) ? UNDER_WAY : BROKEN;
        connection->answer_len += (size_t)n;
        connection->answer[connection->answer_len] = '\0';
        if (read_answer(connection, ret_answer))
            return ANSWERED;
    }
}
