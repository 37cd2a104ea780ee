#include "common/net/rpc/wire.h"

#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/runtime/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* nng buffers a whole message from any peer before our code sees it, so requests are small, and
 * large ones come in parts. The size includes request ids of nng and of devices on the way. */
enum {
    REQUEST_MAX_BYTES = FG_RPC_WHOLE_MAX_BYTES + 64,
    REPLY_MAX_BYTES = FG_RPC_MESSAGE_MAX_BYTES + 64, /* heads of answers come whole */
};

static const int64_t LOG_EVERY_NS = 10 * FG_SECOND_NS, UNREACHED_PAUSE_MAX_NS = FG_HOUR_NS;

/* Callers whose machine vanished are collected by TCP, after hours (README.md); a caller itself
 * notices sooner (keepalive.h). inproc does not know the option. */
static int unless_unsupported(int rv)
{
    return rv == NNG_ENOTSUP ? 0 : rv;
}

int fg_wire_tune_dialer(nng_dialer dialer)
{
    int rv = nng_dialer_set_size(dialer, NNG_OPT_RECVMAXSZ, REPLY_MAX_BYTES);

    if (rv == 0)
        rv = nng_dialer_set_bool(dialer, NNG_OPT_TCP_KEEPALIVE, true);
    return unless_unsupported(rv);
}

int fg_wire_tune_listener(nng_listener listener)
{
    int rv = nng_listener_set_size(listener, NNG_OPT_RECVMAXSZ, REQUEST_MAX_BYTES);

    if (rv == 0)
        rv = nng_listener_set_bool(listener, NNG_OPT_TCP_KEEPALIVE, true);
    return unless_unsupported(rv);
}

nng_msg *fg_wire_msg(const struct fg_rpc_frame *frame)
{
    size_t size = fg_rpc_frame_size(frame);
    nng_msg *msg = NULL;

    if (size == 0)
        return NULL;
    fg_assert(nng_msg_alloc(&msg, size) == 0); /* as fg_malloc() */
    fg_rpc_frame_encode(frame, nng_msg_body(msg));
    return msg;
}

struct fg_slice fg_wire_bytes(nng_msg *msg)
{
    return fg_bytes(nng_msg_body(msg), nng_msg_len(msg));
}

struct fg_connection_address fg_wire_address(nng_pipe pipe)
{
    struct fg_connection_address address = {.bytes = {0}};
    nng_sockaddr from;

    if (nng_pipe_get_addr(pipe, NNG_OPT_REMADDR, &from) != 0)
        return address;
    if (from.s_family == NNG_AF_INET6) {
        memcpy(address.bytes, from.s_in6.sa_addr, sizeof address.bytes);
    } else if (from.s_family == NNG_AF_INET) {
        memset(address.bytes + 10, 0xff, 2); /* RFC 4291 2.5.5.2 */
        memcpy(address.bytes + 12, &from.s_in.sa_addr, 4);
    }
    return address;
}

enum fg_code fg_wire_code(int rv)
{
    switch (rv) {
    case 0:
        return FG_OK;
    case NNG_ETIMEDOUT:
        return FG_E_DEADLINE;
    case NNG_EMSGSIZE:
        return FG_E_TOO_LARGE;
    case NNG_EADDRINVAL:
    case NNG_EINVAL:
    case NNG_ENOTSUP:
        return FG_E_INVALID;
    default: /* reset, refused, closed: the other side is not there, trying again may help */
        return FG_E_UNAVAILABLE;
    }
}

enum fg_code fg_wire_check(int rv, struct fg_err *err)
{
    return rv == 0 ? FG_OK : fg_fail(err, fg_wire_code(rv), "%s", nng_strerror(rv));
}

bool fg_wire_may_say(_Atomic int64_t *quiet_until_mono_ns)
{
    int64_t now_ns = fg_mono_ns(fg_clock_real()), until_ns = atomic_load(quiet_until_mono_ns);

    return now_ns >= until_ns &&
           atomic_compare_exchange_strong(quiet_until_mono_ns, &until_ns, now_ns + LOG_EVERY_NS);
}

/* Addresses that could not be connected to, and when that may be logged again. */
struct unreached {
    uint64_t hash; /* 0: none */
    int64_t quiet_until_mono_ns, pause_ns;
};

/* Logs each address at once, after ten seconds, and then half as often each time, up to once an
 * hour: an address that has left, or is away for long, must not fill the log. Addresses that are
 * not tried any more give way to others. */
static bool may_say_unreached(const char *message)
{
    /* Of the table: any of nng's threads logs. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct unreached unreached[64];
    const char *address = strstr(message, " to ");
    uint64_t hash = fg_hash64_table(fg_cstr(address == NULL ? message : address)) | 1;
    int64_t now_ns = fg_mono_ns(fg_clock_real());
    struct unreached *at = &unreached[0];
    bool may;

    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < FG_COUNT(unreached) && at->hash != hash; i++)
        if (unreached[i].hash == hash || unreached[i].quiet_until_mono_ns < at->quiet_until_mono_ns)
            at = &unreached[i];
    if (at->hash != hash || now_ns - at->quiet_until_mono_ns > UNREACHED_PAUSE_MAX_NS)
        *at = (struct unreached){.hash = hash};
    may = now_ns >= at->quiet_until_mono_ns;
    if (may) {
        at->pause_ns =
            at->pause_ns == 0 ? LOG_EVERY_NS : FG_MIN(at->pause_ns * 2, UNREACHED_PAUSE_MAX_NS);
        at->quiet_until_mono_ns = now_ns + at->pause_ns;
    }
    (void)pthread_mutex_unlock(&lock);
    return may;
}

static _Atomic uint64_t greetings_refused;

uint64_t fg_wire_greetings_refused(void)
{
    return atomic_load(&greetings_refused);
}

/* nng reports only to its log why there is no connection; callers hear only that there is none.
 * Of a handshake that failed, the first line says why; those after it follow from it, as does
 * the next attempt a second later. The dialer's line has the address; the line about a refused
 * certificate has only that. */
static void on_log(nng_log_level level, nng_log_facility facility, const char *id,
                   const char *message)
{
    static _Atomic int64_t tls_quiet_until_mono_ns, greetings_quiet_until_mono_ns;
    struct fg_slice kind = fg_cstr(id == NULL ? "" : id);

    (void)level;
    (void)facility;
    if (fg_slice_starts(kind, "NNG-TLS") && fg_wire_may_say(&tls_quiet_until_mono_ns))
        fg_log_warn("TLS between services failed (logged at most every 10 s)",
                    fg_ls("err", message));
    if (fg_slice_is(kind, "NNG-GREETINGS-MAX")) { /* deploy/deps */
        atomic_fetch_add(&greetings_refused, 1);
        if (fg_wire_may_say(&greetings_quiet_until_mono_ns))
            fg_log_warn("connections to this service closed before they were complete, too many at "
                        "a time (logged at most every 10 s)",
                        fg_lu("since_start", atomic_load(&greetings_refused)));
    }
    /* Inside one process a peer dials before the server listens; fg_peer_wait() says if that lasts.
     */
    if (fg_slice_is(kind, "NNG-CONN-FAIL") && strstr(message, " to inproc://") == NULL &&
        may_say_unreached(message))
        fg_log_warn("cannot connect to another service (logged less often the longer it lasts)",
                    fg_ls("err", message));
}

void fg_rpc_init(unsigned threads)
{
    nng_log_set_logger(on_log);
    nng_log_set_level(NNG_LOG_WARN);
    /* By default they follow the machine's processors, blind to what a container was given. nng
     * wants two for tasks: one that waits for another must not be the last. */
    nng_init_set_parameter(NNG_INIT_NUM_TASK_THREADS, FG_MAX(threads, 2u));
    nng_init_set_parameter(NNG_INIT_MAX_TASK_THREADS, 0);
    nng_init_set_parameter(NNG_INIT_NUM_EXPIRE_THREADS, 1);
    nng_init_set_parameter(NNG_INIT_NUM_POLLER_THREADS, 1);
    nng_init_set_parameter(NNG_INIT_NUM_RESOLVER_THREADS, 1);
}
