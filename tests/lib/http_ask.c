#include "tests/lib/http_ask.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int dial(unsigned port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fg_assert(fd >= 0);
    fg_assert(connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0);
    return fd;
}

int http_ask_send(unsigned port, const char *request, struct fg_slice body)
{
    struct fg_buf out;
    int fd = dial(port);

    fg_buf_init(&out, (size_t)1 << 20);
    fg_buf_printf(&out, "%s\r\nHost: localhost\r\nConnection: close\r\n", request);
    if (body.ptr != NULL)
        fg_buf_printf(&out, "Content-Length: %zu\r\n", body.len);
    fg_buf_puts(&out, "\r\n");
    fg_buf_put(&out, body);
    fg_assert(send(fd, out.ptr, out.len, MSG_NOSIGNAL) == (ssize_t)out.len);
    fg_buf_done(&out);
    return fd;
}

unsigned http_ask_receive(int fd, struct fg_buf *answer)
{
    char part[4096];
    ssize_t n;

    fg_buf_clear(answer);
    while ((n = recv(fd, part, sizeof part, 0)) > 0)
        fg_buf_append(answer, part, (size_t)n);
    close(fd);
    fg_buf_putc(answer, '\0');
    fg_assert(answer->len > 12);
    return (unsigned)strtoul((const char *)answer->ptr + 9, NULL, 10);
}

unsigned http_ask_bytes(unsigned port, const char *request, struct fg_slice body,
                        struct fg_buf *answer)
{
    return http_ask_receive(http_ask_send(port, request, body), answer);
}

unsigned http_ask(unsigned port, const char *request, const char *body, struct fg_buf *answer)
{
    return http_ask_bytes(port, request, body == NULL ? fg_bytes(NULL, 0) : fg_cstr(body), answer);
}

const char *http_ask_body(const struct fg_buf *answer)
{
    const char *blank = strstr((const char *)answer->ptr, "\r\n\r\n");

    fg_assert(blank != NULL);
    return blank + 4;
}

bool http_ask_head_has(const struct fg_buf *answer, const char *text)
{
    const char *hit = strstr((const char *)answer->ptr, text);

    return hit != NULL && hit < http_ask_body(answer);
}
