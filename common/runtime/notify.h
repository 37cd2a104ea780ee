/*
 * Tells the service manager that started the program what it does, by the protocol of
 * sd_notify(3): datagrams of lines to the socket that the environment names.
 *
 *     NOTIFY_SOCKET   a path, or @NAME in the abstract namespace; not set: nobody listens
 *     WATCHDOG_USEC   how often WATCHDOG=1 has to come at least; only if WATCHDOG_PID is this
 * process or not set
 *
 * Thread: fg_notify_init() while there is one thread; fg_notify_send() from any, but not from a
 * loop, because it waits up to five seconds for room in the socket.
 */
#ifndef FG_COMMON_RUNTIME_NOTIFY_H
#define FG_COMMON_RUNTIME_NOTIFY_H

#include "common/base/buf.h"
#include "common/base/err.h"

#include <sys/socket.h>
#include <sys/un.h>

struct fg_notify {
    struct sockaddr_un address;
    socklen_t address_bytes; /* 0: nobody listens */
    int64_t watchdog_ns;     /* 0: nobody waits for WATCHDOG=1 */
};

/* Reads the environment. FG_E_INVALID: a variable has no meaning; nobody listens then. */
enum fg_code fg_notify_init(struct fg_notify *notify, struct fg_err *err) fg_must_check;

/* Sends lines, such as "READY=1\nSTATUS=ready". Does nothing if nobody listens. FG_E_UNAVAILABLE
 * and what errno says: the manager did not get them. */
enum fg_code fg_notify_send(const struct fg_notify *notify, const char *lines,
                            struct fg_err *err) fg_must_check;

/* Appends "STATUS=" and the text as one line: line breaks in it become "; ", except the last. */
void fg_notify_put_status(struct fg_slice text, struct fg_buf *out);

#endif
