#include "common/runtime/notify.h"

#include "common/base/str.h"
#include "common/base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { SEND_TIMEOUT_S = 5 };

static const char *variable(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe): there is one thread */
}

static enum fg_code read_address(const char *name, struct fg_notify *notify, struct fg_err *err)
{
    size_t len = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || len < 2)
        return fg_fail(err, FG_E_INVALID, "NOTIFY_SOCKET %s: neither a path nor @NAME", name);
    if (len >= sizeof notify->address.sun_path)
        return fg_fail(err, FG_E_INVALID, "NOTIFY_SOCKET has %zu bytes, at most %zu are possible",
                       len, sizeof notify->address.sun_path - 1);
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, name, len);
    if (name[0] == '@')
        notify->address.sun_path[0] = '\0';
    /* An abstract name has no end mark: its length is that of the address. */
    notify->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return FG_OK;
}

static enum fg_code read_number(const char *name, uint64_t *ret_number, struct fg_err *err)
{
    if (!fg_parse_u64(fg_cstr(variable(name)), ret_number))
        return fg_fail(err, FG_E_INVALID, "%s %s: not a number", name, variable(name));
    return FG_OK;
}

static enum fg_code read_watchdog(int64_t *ret_ns, struct fg_err *err)
{
    uint64_t usec, pid;

    if (variable("WATCHDOG_USEC") == NULL)
        return FG_OK;
    if (variable("WATCHDOG_PID") != NULL) {
        if (read_number("WATCHDOG_PID", &pid, err) != FG_OK)
            return err->code;
        if (pid != (uint64_t)getpid())
            return FG_OK; /* it is for a process that started this one */
    }
    if (read_number("WATCHDOG_USEC", &usec, err) != FG_OK)
        return err->code;
    if (usec == 0 || usec > INT64_MAX / 1000)
        return fg_fail(err, FG_E_INVALID, "WATCHDOG_USEC %" PRIu64 ": out of range", usec);
    *ret_ns = (int64_t)usec * 1000;
    return FG_OK;
}

enum fg_code fg_notify_init(struct fg_notify *notify, struct fg_err *err)
{
    const char *name = variable("NOTIFY_SOCKET");
    struct fg_notify made = {0};

    *notify = made;
    if (name == NULL)
        return FG_OK;
    if (read_address(name, &made, err) != FG_OK || read_watchdog(&made.watchdog_ns, err) != FG_OK)
        return err->code;
    *notify = made;
    return FG_OK;
}

enum fg_code fg_notify_send(const struct fg_notify *notify, const char *lines, struct fg_err *err)
{
    const struct timeval timeout = {.tv_sec = SEND_TIMEOUT_S};
    enum fg_code code = FG_OK;
    int fd;

    if (notify->address_bytes == 0)
        return FG_OK;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fg_fail_errno(err, errno, "socket of the service manager");
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0 ||
        sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&notify->address,
               notify->address_bytes) < 0)
        code = fg_fail_errno(err, errno, "NOTIFY_SOCKET");
    (void)close(fd);
    return code;
}

void fg_notify_put_status(struct fg_slice text, struct fg_buf *out)
{
    text = fg_trim(text);
    fg_buf_puts(out, "STATUS=");
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '\n')
            fg_buf_puts(out, "; ");
        else
            fg_buf_putc(out, text.ptr[i]);
}
