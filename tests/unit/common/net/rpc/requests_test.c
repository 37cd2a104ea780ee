/* Large requests, many connections: what callers can make a server hold. */
#include "common/base/time.h"
#include "common/net/rpc/call.h"
#include "common/net/rpc/chunked_requests.h"
#include "common/net/rpc/context.h"
#include "common/net/rpc/kinds.h"
#include "common/net/rpc/request.h"
#include "tests/lib/rpc_run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    MIB = 1024 * 1024,
    CALLERS = 24,
    SLOTS = 64,
    LARGE = 40 * MIB,
    REQUESTS_MAX = 128 * MIB, /* half of it for requests in parts: one of the callers fits */
    GROWTH_MAX = 400 * MIB,   /* less than half of what is sent; ASan keeps what was freed */
};

/* Of a caller that does not read, twice that passes before its connection is closed. Callers that
 * do read are not closed for it, on a busy machine either. */
static const int64_t PING_NS = 5 * FG_SECOND_NS;

struct fixture {
    char cluster[1];
    struct fg_rpc_settings settings;
    struct fg_registry *registry;
    struct fg_rpc *rpc;
    struct fg_rpc_server *server;
    struct fg_peer *peer;
    char url[RPC_RUN_URL_BYTES];
    struct fg_err err;
};

static uint8_t *pattern; /* [LARGE] */

static int make_pattern(void **state)
{
    (void)state;
    pattern = fg_malloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        pattern[i] = (uint8_t)(i * 31 >> 7);
    return 0;
}

static int free_pattern(void **state)
{
    (void)state;
    free(pattern);
    return 0;
}

/* Replies with a megabyte. */
static void reply_much(struct fg_rpc_request *req, void *arg)
{
    (void)arg;
    fg_rpc_reply(req, FG_LIT(""), fg_bytes(pattern, FG_RPC_PART_BYTES));
}

/* Requests that are in work until they are let go. */
static struct {
    pthread_mutex_t lock;
    struct fg_rpc_request *requests[SLOTS];
    unsigned n;
} in_work = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void work_long(struct fg_rpc_request *req, void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&in_work.lock);
    in_work.requests[in_work.n++] = req;
    (void)pthread_mutex_unlock(&in_work.lock);
}

static void finish_work(void)
{
    (void)pthread_mutex_lock(&in_work.lock);
    for (unsigned i = 0; i < in_work.n; i++)
        fg_rpc_reply(in_work.requests[i], FG_LIT(""), FG_LIT(""));
    in_work.n = 0;
    (void)pthread_mutex_unlock(&in_work.lock);
}

static void open_server(struct fixture *f)
{
    assert_int_equal(fg_rpc_create(&f->settings, f->registry, &f->rpc, &f->err), FG_OK);
    f->server = fg_rpc_server_create(f->rpc, SLOTS);
    fg_rpc_server_handle(f->server, FG_RPC_PUSH, rpc_run_echo, NULL);
    fg_rpc_server_handle(f->server, FG_RPC_SELECT, reply_much, NULL);
    fg_rpc_server_handle(f->server, FG_RPC_STATS, work_long, NULL);
}

static int set_up(void **state, const char *scheme)
{
    struct fixture *f = fg_new(struct fixture);

    f->settings = (struct fg_rpc_settings){
        .cluster = f->cluster, .threads = 2, .answers_max_bytes = 512 * MIB};
    f->settings.requests_max_bytes = REQUESTS_MAX;
    f->settings.connections_max = 64;
    f->settings.connections_per_address_max = 64;
    f->settings.ping_after_ns = f->settings.ping_timeout_ns = PING_NS;
    f->registry = fg_registry_create();
    open_server(f);
    if (scheme == NULL) {
        f->peer = fg_peer_direct(f->server);
    } else {
        rpc_run_url(scheme, f->url);
        if (fg_rpc_server_start(f->server, f->url, &f->err) != FG_OK)
            fail_msg("%s", f->err.msg);
        assert_int_equal(fg_peer_dial(f->rpc, f->url, 8, &f->peer, &f->err), FG_OK);
    }
    *state = f;
    return 0;
}

static int set_up_direct(void **state)
{
    return set_up(state, NULL);
}

static int set_up_tcp(void **state)
{
    return set_up(state, "tcp");
}

static int set_up_inproc(void **state)
{
    return set_up(state, "inproc");
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_peer_destroy(f->peer);
    fg_rpc_server_destroy(f->server);
    fg_rpc_destroy(f->rpc);
    fg_registry_destroy(f->registry);
    free(f);
    return 0;
}

static enum fg_code push(struct fixture *f, size_t len)
{
    struct fg_call call = rpc_run_call(FG_RPC_PUSH, 20 * FG_SECOND_NS);
    enum fg_code code;

    call.payload = fg_bytes(pattern, len);
    code = fg_peer_call(f->peer, &call);
    if (code == FG_OK)
        assert_true(fg_slice_eq(call.reply_payload, call.payload));
    f->err = call.err;
    fg_call_done(f->peer, &call);
    return code;
}

/* A metric of the registry, by the end of the line before it and its name. */
static unsigned long long metric(struct fixture *f, const char *name)
{
    struct fg_buf out;
    size_t at;
    unsigned long long value;

    fg_buf_init(&out, MIB);
    fg_registry_write(f->registry, &out);
    fg_buf_putc(&out, '\0');
    at = fg_slice_search(fg_buf_slice(&out), name);
    assert_true(at < out.len);
    value = strtoull((const char *)out.ptr + at + strlen(name), NULL, 10);
    fg_buf_done(&out);
    return value;
}

/* --- requests in parts --- */

static void large_requests_arrive_whole(void **state)
{
    const size_t frame = FG_RPC_FRAME_BYTES + strlen("head");
    const size_t sizes[] = {FG_RPC_WHOLE_MAX_BYTES - frame, FG_RPC_WHOLE_MAX_BYTES - frame + 1,
                            3 * MIB - frame, 3 * MIB, 20 * MIB + 1};
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(sizes); i++)
        assert_int_equal(push(f, sizes[i]), FG_OK);
    assert_int_equal(fg_rpc_server_request_bytes(f->server), 0);
}

static void a_kind_has_a_largest_request(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = rpc_run_call(FG_RPC_PING, FG_SECOND_NS);

    call.payload = fg_bytes(pattern, 64 * 1024);
    assert_int_equal(fg_peer_call(f->peer, &call), FG_E_TOO_LARGE);
    assert_string_equal(call.err.msg, "ping of 65540 bytes, at most 65536");
    fg_call_done(f->peer, &call);
    assert_int_equal(push(f, 1), FG_OK);
}

static void a_request_that_never_fits_is_too_large(void **state)
{
    struct fixture *f = *state;
    uint8_t *bytes = fg_calloc(1, REQUESTS_MAX / 2);
    struct fg_call call = rpc_run_call(FG_RPC_PUSH, 20 * FG_SECOND_NS);

    call.payload = fg_bytes(bytes, REQUESTS_MAX / 2);
    assert_int_equal(fg_peer_call(f->peer, &call), FG_E_INVALID);
    assert_non_null(strstr(call.err.msg, "rpc.requests_max_bytes"));
    fg_call_done(f->peer, &call);
    free(bytes);
    assert_int_equal(metric(f, "\nflamegrid_rpc_refused_total{reason=\"too_large\"} "), 1);
}

/* --- the table of parts --- */

static enum fg_code add(struct fg_chunked_requests *parts, struct fg_request_part part,
                        int64_t now_ns, struct fg_whole_request **ret_whole)
{
    struct fg_err err;

    return fg_chunked_requests_add(parts, &part, now_ns, ret_whole, &err);
}

static void parts_are_dropped_at_their_deadline_and_with_their_connection(void **state)
{
    const int64_t second = FG_SECOND_NS;
    struct fg_request_part part = {.owner = 1,
                                   .key = 1,
                                   .total = 10,
                                   .bytes = FG_LIT("12345"),
                                   .deadline_mono_ns = 90 * second};
    struct fg_request_part rest = part, other = part;
    struct fg_whole_request *whole;
    struct fg_budget budget;
    struct fg_chunked_requests *parts;

    (void)state;
    fg_budget_init(&budget, 15);
    parts = fg_chunked_requests_create(&budget);
    rest.offset = 5;
    rest.bytes = FG_LIT("67890");
    other.owner = 2;

    assert_int_equal(add(parts, rest, 0, &whole), FG_E_UNAVAILABLE); /* it has no beginning */
    assert_int_equal(add(parts, part, 0, &whole), FG_OK);
    assert_null(whole);
    assert_int_equal(fg_budget_used(&budget), 10);
    assert_int_equal(add(parts, other, 0, &whole), FG_E_UNAVAILABLE); /* busy */
    assert_int_equal(add(parts, part, 0, &whole), FG_OK);             /* repeated */
    assert_null(whole);
    rest.offset = 6;
    rest.bytes.len = 4;
    assert_int_equal(add(parts, rest, 0, &whole), FG_E_INVALID); /* a gap */
    rest.offset = UINT64_MAX;
    assert_int_equal(add(parts, rest, 0, &whole), FG_E_INVALID);
    rest.offset = 5;
    rest.bytes.len = 5;
    assert_int_equal(add(parts, rest, 0, &whole), FG_OK);
    assert_true(fg_slice_is(fg_whole_request_bytes(whole), "1234567890"));
    assert_int_equal(fg_budget_used(&budget), 10); /* until it is answered */
    fg_whole_request_free(whole);
    assert_int_equal(fg_budget_used(&budget), 0);

    assert_int_equal(add(parts, part, 0, &whole), FG_OK);
    fg_chunked_requests_drop_owner(parts, 2);
    assert_int_equal(fg_budget_used(&budget), 10);
    fg_chunked_requests_drop_owner(parts, 1);
    assert_int_equal(fg_budget_used(&budget), 0);

    assert_int_equal(add(parts, part, 0, &whole), FG_OK);
    fg_chunked_requests_sweep(parts, 29 * second);
    assert_int_equal(fg_budget_used(&budget), 10);
    fg_chunked_requests_sweep(parts, 30 * second); /* nobody sends the rest */
    assert_int_equal(fg_budget_used(&budget), 0);

    part.deadline_mono_ns = second;
    assert_int_equal(add(parts, part, 0, &whole), FG_OK);
    fg_chunked_requests_sweep(parts, second);
    assert_int_equal(fg_budget_used(&budget), 0);

    part.total = 16;
    assert_int_equal(add(parts, part, 0, &whole), FG_E_TOO_LARGE);
    fg_chunked_requests_destroy(parts);
}

/* --- many callers --- */

static size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all, resident;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
    (void)fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* From 127.0.0.HOST. */
static int connect_from(const struct fixture *f, uint8_t host)
{
    static const uint8_t greeting[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    at.sin_port = htons((uint16_t)strtoul(strrchr(f->url, ':') + 1, NULL, 10));
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static int connect_by_hand(const struct fixture *f)
{
    return connect_from(f, 1);
}

/* Says that a message of `says` bytes comes, and sends `len` of them, or what is taken. */
static void send_from_all(struct fixture *f, uint64_t says, size_t len)
{
    int fds[CALLERS];
    size_t sent[CALLERS] = {0};
    uint8_t header[8];
    int64_t end_ns = fg_mono_ns(fg_clock_real()) + 5 * FG_SECOND_NS;
    bool any = true;

    for (size_t i = 0; i < sizeof header; i++)
        header[i] = (uint8_t)(says >> (56 - 8 * i));
    for (unsigned i = 0; i < CALLERS; i++) {
        fds[i] = connect_by_hand(f);
        (void)send(fds[i], header, sizeof header, MSG_NOSIGNAL);
    }
    while (any && fg_mono_ns(fg_clock_real()) < end_ns) {
        any = false;
        for (unsigned i = 0; i < CALLERS; i++) {
            ssize_t n =
                send(fds[i], pattern + sent[i], FG_MIN(len - sent[i], (size_t)MIB), MSG_NOSIGNAL);

            if (n > 0)
                sent[i] += (size_t)n;
            any |= sent[i] < len && (n > 0 || errno == EAGAIN);
        }
    }
    assert_int_equal(push(f, MIB), FG_OK); /* others are served while all of them wait */
    for (unsigned i = 0; i < CALLERS; i++)
        (void)close(fds[i]);
}

static void large_messages_are_not_buffered(void **state)
{
    struct fixture *f = *state;
    size_t before;

    rpc_run_connected(f->peer);
    before = resident_bytes();
    send_from_all(f, LARGE, LARGE - 1);
    assert_true(resident_bytes() < before + GROWTH_MAX);
    before = resident_bytes();
    send_from_all(f, FG_RPC_WHOLE_MAX_BYTES, FG_RPC_WHOLE_MAX_BYTES - 1);
    assert_true(resident_bytes() < before + GROWTH_MAX);
}

/* --- callers that do not read --- */

/* Asks for megabytes on a connection, of which nobody reads any. */
static void ask_for_much(int fd, unsigned times)
{
    const struct fg_rpc_frame frame = {.kind = FG_RPC_SELECT, .left = 120 * 1000};
    const uint8_t size = 4 + FG_RPC_FRAME_BYTES; /* with nng's number of the request */
    uint8_t message[8 + 4 + FG_RPC_FRAME_BYTES] = {[7] = size, [8] = 0x80};

    fg_rpc_frame_encode(&frame, message + 12);
    for (unsigned i = 0; i < times; i++) {
        message[11] = (uint8_t)i;
        assert_int_equal(send(fd, message, sizeof message, MSG_NOSIGNAL), sizeof message);
    }
}

/* Waits until a metric is at least so much. */
static void await_metric(struct fixture *f, const char *name, unsigned long long least)
{
    int64_t until_ns = fg_mono_ns(fg_clock_real()) + 60 * FG_SECOND_NS;

    while (metric(f, name) < least)
        if (fg_mono_ns(fg_clock_real()) > until_ns)
            fail_msg("%s%llu, not %llu", name + 1, metric(f, name), least);
        else
            nng_msleep(10);
}

static const char share_metric[] = "\nflamegrid_rpc_refused_total{reason=\"share\"} ";
static const char unread_metric[] = "\nflamegrid_rpc_refused_total{reason=\"unread\"} ";

static void a_caller_that_does_not_read_leaves_slots_to_its_neighbours(void **state)
{
    struct fixture *f = *state;
    int fd = connect_by_hand(f);

    rpc_run_connected(f->peer);
    ask_for_much(fd, 4 * SLOTS); /* many more than the system buffers */
    await_metric(f, share_metric, SLOTS);
    for (unsigned i = 0; i < 2 * SLOTS; i++)
        assert_int_equal(push(f, 1), FG_OK);
    (void)close(fd);
}

static void an_address_that_does_not_read_leaves_slots_to_others(void **state)
{
    struct fixture *f = *state;
    int fds[CALLERS];

    rpc_run_connected(f->peer);
    for (unsigned i = 0; i < CALLERS; i++) {
        fds[i] = connect_from(f, 2);
        ask_for_much(fds[i], SLOTS);
    }
    await_metric(f, share_metric, CALLERS * SLOTS / 4);
    for (unsigned i = 0; i < 2 * SLOTS; i++)
        assert_int_equal(push(f, 1), FG_OK);
    for (unsigned i = 0; i < CALLERS; i++)
        (void)close(fds[i]);
}

static atomic_uint done, refused;

static void count_done(struct fg_call *call)
{
    if (call->code == FG_E_UNAVAILABLE)
        atomic_fetch_add(&refused, 1);
    atomic_fetch_add(&done, 1);
}

static void a_caller_beyond_its_share_is_refused_at_once(void **state)
{
    enum { SHARE = SLOTS * 2 / 3 + 1, CALLS = SHARE + 16 };
    struct fixture *f = *state;
    struct fg_call calls[CALLS];
    struct fg_peer *peer;

    assert_int_equal(fg_peer_dial(f->rpc, f->url, CALLS, &peer, &f->err), FG_OK);
    rpc_run_connected(f->peer);
    rpc_run_connected(peer);
    for (unsigned i = 0; i < CALLS; i++) {
        calls[i] = rpc_run_call(FG_RPC_STATS, 300 * FG_SECOND_NS);
        calls[i].done = count_done;
        fg_peer_send(peer, &calls[i]);
    }
    for (unsigned i = 0; i < 6000 && atomic_load(&done) < CALLS - SHARE; i++)
        nng_msleep(10);
    assert_int_equal(atomic_load(&refused), CALLS - SHARE);
    assert_int_equal(push(f, 1), FG_OK); /* another caller */
    finish_work();
    for (unsigned i = 0; i < 6000 && atomic_load(&done) < CALLS; i++)
        nng_msleep(10);
    assert_int_equal(atomic_load(&refused), CALLS - SHARE);
    for (unsigned i = 0; i < CALLS; i++)
        fg_call_done(peer, &calls[i]);
    fg_peer_destroy(peer);
}

static void a_connection_that_nobody_reads_is_closed(void **state)
{
    struct fixture *f = *state;
    int fd = connect_by_hand(f);

    rpc_run_connected(f->peer);
    ask_for_much(fd, SLOTS);
    await_metric(f, unread_metric, 1);
    for (unsigned i = 0; i < 500 && fg_rpc_server_connections(f->server) > 1; i++)
        nng_msleep(10);
    assert_int_equal(fg_rpc_server_connections(f->server), 1); /* of the caller that reads */
    assert_int_equal(push(f, 1), FG_OK);
    assert_int_equal(metric(f, unread_metric), 1);
    (void)close(fd);
}

/* One part on a connection of its own. */
static enum fg_code send_part(nng_socket socket, uint64_t offset, uint64_t total, size_t len)
{
    struct fg_rpc_frame frame = {.kind = FG_RPC_PART, .left = 60 * 1000}, reply;
    struct fg_rpc_frame first = {.kind = FG_RPC_PUSH};
    uint8_t *part = fg_malloc(len);
    struct fg_buf head;
    struct fg_err err;
    nng_msg *msg;

    memcpy(part, pattern, len);
    if (offset == 0)
        fg_rpc_frame_encode(&first, part);
    fg_buf_init(&head, 24);
    fg_buf_le64(&head, 7);
    fg_buf_le64(&head, offset);
    fg_buf_le64(&head, total);
    frame.head = fg_buf_slice(&head);
    frame.payload = fg_bytes(part, len);
    assert_int_equal(nng_msg_alloc(&msg, fg_rpc_frame_size(&frame)), 0);
    fg_rpc_frame_encode(&frame, nng_msg_body(msg));
    assert_int_equal(nng_sendmsg(socket, msg, 0), 0);
    assert_int_equal(nng_recvmsg(socket, &msg, 0), 0);
    assert_int_equal(
        fg_rpc_frame_decode(fg_bytes(nng_msg_body(msg), nng_msg_len(msg)), &reply, &err), FG_OK);
    nng_msg_free(msg);
    fg_buf_done(&head);
    free(part);
    return fg_code_from_grpc(reply.kind);
}

static void requests_that_never_end_stay_in_the_budget(void **state)
{
    struct fixture *f = *state;
    nng_socket sockets[CALLERS];
    unsigned begun = 0;
    size_t before;

    rpc_run_connected(f->peer);
    before = resident_bytes();
    for (unsigned i = 0; i < CALLERS; i++) {
        enum fg_code code = FG_OK;

        assert_int_equal(nng_req0_open(&sockets[i]), 0);
        assert_int_equal(nng_dial(sockets[i], f->url, NULL, 0), 0);
        for (uint64_t at = 0; at < LARGE - MIB && code == FG_OK; at += MIB)
            code = send_part(sockets[i], at, LARGE, MIB);
        assert_true(code == FG_OK || code == FG_E_UNAVAILABLE);
        begun += code == FG_OK;
    }
    assert_int_equal(begun, REQUESTS_MAX / 2 / LARGE);
    assert_int_equal(fg_rpc_server_request_bytes(f->server), begun * (size_t)LARGE);
    assert_int_equal(metric(f, "\nflamegrid_rpc_requests_held_bytes "), begun * (size_t)LARGE);
    assert_int_equal(metric(f, "\nflamegrid_rpc_connections "), CALLERS + 1);
    assert_int_equal(metric(f, "\nflamegrid_rpc_refused_total{reason=\"busy\"} "), CALLERS - begun);
    assert_true(resident_bytes() < before + GROWTH_MAX);
    assert_int_equal(push(f, MIB), FG_OK);
    assert_int_equal(push(f, 3 * MIB), FG_OK); /* in addition to the one that waits */
    for (unsigned i = 0; i < CALLERS; i++)
        nng_close(sockets[i]);
    for (unsigned i = 0; i < 500 && fg_rpc_server_request_bytes(f->server) > 0; i++)
        nng_msleep(10);
    assert_int_equal(fg_rpc_server_request_bytes(f->server), 0);
    assert_int_equal(push(f, 20 * MIB), FG_OK);
}

/* --- limits of connections --- */

/* Returns whether the server has closed a connection; reads what it sends, nng's greeting. */
static bool is_closed(int fd)
{
    uint8_t byte;
    ssize_t n;

    do
        n = recv(fd, &byte, 1, 0);
    while (n > 0);
    return n == 0 || errno != EAGAIN;
}

static void connections_have_a_limit(void **state)
{
    static const struct {
        unsigned max, per_address, admitted;
        const char *reason;
    } cases[] = {
        {4, 64, 3, "\nflamegrid_rpc_refused_total{reason=\"connections\"} "},
        {64, 5, 4, "\nflamegrid_rpc_refused_total{reason=\"address\"} "},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fixture f = {.registry = fg_registry_create()};
        int64_t until_ns = fg_mono_ns(fg_clock_real()) + 30 * FG_SECOND_NS;
        int fds[CALLERS];
        unsigned closed;

        f.settings =
            (struct fg_rpc_settings){.cluster = f.cluster, .threads = 2, .answers_max_bytes = MIB};
        f.settings.connections_max = cases[i].max;
        f.settings.connections_per_address_max = cases[i].per_address;
        open_server(&f);
        rpc_run_url("tcp", f.url);
        assert_int_equal(fg_rpc_server_start(f.server, f.url, &f.err), FG_OK);
        assert_int_equal(fg_peer_dial(f.rpc, f.url, 8, &f.peer, &f.err), FG_OK);
        rpc_run_connected(f.peer);
        for (unsigned k = 0; k < CALLERS; k++) {
            fds[k] = connect_by_hand(&f);
            nng_msleep(20);
        }
        do { /* a busy machine closes them later */
            nng_msleep(20);
            closed = 0;
            for (unsigned k = 0; k < CALLERS; k++)
                closed += is_closed(fds[k]);
        } while (closed < CALLERS - cases[i].admitted && fg_mono_ns(fg_clock_real()) < until_ns);
        for (unsigned k = 0; k < CALLERS; k++)
            (void)close(fds[k]);
        assert_int_equal(CALLERS - closed, cases[i].admitted);
        assert_int_equal(metric(&f, cases[i].reason), closed);
        assert_int_equal(push(&f, 1), FG_OK); /* the one that was there first */
        fg_peer_destroy(f.peer);
        fg_rpc_server_destroy(f.server);
        fg_rpc_destroy(f.rpc);
        fg_registry_destroy(f.registry);
    }
}

/* --- connections that say nothing --- */

/* nng waits 10 s for a greeting. Meanwhile such connections have a bound, and new callers get
 * through. */
static void silent_connections_have_a_bound(void **state)
{
    struct fixture *f = *state;
    struct fg_peer *peer;
    unsigned before, most;
    int fds[RPC_RUN_SILENT];

    rpc_run_connected(f->peer);
    before = rpc_run_open_files();
    rpc_run_connect_silently(f->url, fds);
    await_metric(f, "\nflamegrid_rpc_refused_total{reason=\"greeting\"} ",
                 RPC_RUN_SILENT - RPC_RUN_SILENT_MAX);
    most = before + RPC_RUN_SILENT + RPC_RUN_SILENT_MAX;
    assert_in_range(rpc_run_await_files(most), before + RPC_RUN_SILENT, most);
    assert_int_equal(fg_peer_dial(f->rpc, f->url, 1, &peer, &f->err), FG_OK);
    rpc_run_connected(peer);
    fg_peer_destroy(peer);
    for (unsigned i = 0; i < RPC_RUN_SILENT; i++)
        (void)close(fds[i]);
}

/* --- callers that are gone --- */

static _Atomic(struct fg_rpc_request *) kept;

static void keep(struct fg_rpc_request *req, void *arg)
{
    (void)arg;
    atomic_store(&kept, req);
}

static void work_learns_that_its_caller_is_gone(void **state)
{
    struct fixture f = {.registry = fg_registry_create()};
    struct fg_call call = rpc_run_call(FG_RPC_SELECT, 10 * FG_SECOND_NS);
    struct fg_rpc_request *req;
    nng_socket socket;
    nng_msg *msg;
    struct fg_rpc_frame frame = fg_call_frame(&call, 0);

    (void)state;
    f.settings =
        (struct fg_rpc_settings){.cluster = f.cluster, .threads = 2, .answers_max_bytes = MIB};
    open_server(&f);
    fg_rpc_server_handle(f.server, FG_RPC_SELECT, keep, NULL);
    rpc_run_url("tcp", f.url);
    assert_int_equal(fg_rpc_server_start(f.server, f.url, &f.err), FG_OK);
    assert_int_equal(nng_req0_open(&socket), 0);
    assert_int_equal(nng_dial(socket, f.url, NULL, 0), 0);
    assert_int_equal(nng_msg_alloc(&msg, fg_rpc_frame_size(&frame)), 0);
    fg_rpc_frame_encode(&frame, nng_msg_body(msg));
    assert_int_equal(nng_sendmsg(socket, msg, 0), 0);
    while ((req = atomic_load(&kept)) == NULL)
        nng_msleep(1);
    assert_false(fg_rpc_is_abandoned(req));
    nng_close(socket);
    for (unsigned i = 0; i < 500 && !fg_rpc_is_abandoned(req); i++)
        nng_msleep(10);
    assert_true(fg_rpc_is_abandoned(req));
    fg_rpc_reply(req, FG_LIT(""), FG_LIT(""));
    fg_rpc_server_destroy(f.server);
    fg_rpc_destroy(f.rpc);
    fg_registry_destroy(f.registry);
}

/* --- cancellation --- */

static uint64_t key_of(uint8_t first)
{
    return 0x0102030405060700u + first;
}

/* Sends a cancellation as if over the connection of that number. */
static enum fg_code cancel_from(struct fg_rpc_server *server, uint32_t owner, struct fg_slice head);

static void canceled_work_is_abandoned(void **state)
{
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 4);
    struct fg_rpc_request req = {.server = server, .owner = 7};
    struct fg_rpc_request other = {.server = server, .owner = 7};
    uint8_t head[FG_RPC_CANCEL_BYTES];
    struct fg_slice text = fg_bytes(head, sizeof head);

    (void)state;
    fg_rpc_let_cancel(&other, key_of(1));
    fg_rpc_let_cancel(&req, key_of(2));
    fg_rpc_put_cancel(key_of(2), head);
    assert_int_equal(cancel_from(server, 8, text), FG_OK); /* of another connection */
    assert_false(fg_rpc_is_abandoned(&req));
    assert_int_equal(cancel_from(server, 7, text), FG_OK);
    assert_true(fg_rpc_is_abandoned(&req));
    assert_false(fg_rpc_is_abandoned(&other));
    fg_rpc_request_done(&req);
    /* The next request in the same place is none that was canceled. */
    assert_false(fg_rpc_is_abandoned(&req));
    fg_rpc_let_cancel(&req, key_of(3));
    assert_false(fg_rpc_is_abandoned(&req));
    fg_rpc_request_done(&req);
    fg_rpc_request_done(&other);
    assert_int_equal(cancel_from(server, 7, fg_bytes(head, 7)), FG_E_INVALID);
    fg_rpc_server_destroy(server);
}

static void cancellation_may_come_before_its_request(void **state)
{
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 4);
    struct fg_rpc_request req = {.server = server, .owner = 7};
    uint8_t head[FG_RPC_CANCEL_BYTES];

    (void)state;
    for (uint8_t i = 1; i < 100; i++) {
        fg_rpc_put_cancel(key_of(i), head);
        assert_int_equal(cancel_from(server, 7, fg_bytes(head, sizeof head)), FG_OK);
    }
    fg_rpc_let_cancel(&req, key_of(50));
    assert_true(fg_rpc_is_abandoned(&req));
    fg_rpc_request_done(&req);
    fg_rpc_let_cancel(&req, key_of(50)); /* once */
    assert_false(fg_rpc_is_abandoned(&req));
    fg_rpc_request_done(&req);
    fg_rpc_let_cancel(&req, key_of(200));
    assert_false(fg_rpc_is_abandoned(&req));
    fg_rpc_request_done(&req);
    fg_rpc_server_destroy(server);
}

/* --- deadlines --- */

static struct {
    enum fg_code code;
    int64_t left_ns;
} last;

static void note_left(struct fg_rpc_request *req, void *arg)
{
    (void)arg;
    last.left_ns = fg_rpc_deadline_mono_ns(req) - fg_mono_ns(fg_clock_real());
    fg_rpc_reply(req, FG_LIT(""), FG_LIT(""));
}

static void note_code(struct fg_rpc_request *req, const struct fg_rpc_frame *frame)
{
    last.code = fg_code_from_grpc(frame->kind);
    fg_rpc_request_done(req);
}

static enum fg_code cancel_from(struct fg_rpc_server *server, uint32_t owner, struct fg_slice head)
{
    struct fg_rpc_frame frame = {.kind = FG_RPC_CANCEL, .left = 1000, .head = head};
    struct fg_rpc_request req = {.reply = note_code, .owner = owner};
    uint8_t bytes[FG_RPC_FRAME_BYTES + FG_RPC_CANCEL_BYTES];

    fg_rpc_frame_encode(&frame, bytes);
    fg_rpc_dispatch(server, &req, fg_bytes(bytes, fg_rpc_frame_size(&frame)));
    return last.code;
}

static void ask_with(struct fg_rpc_server *server, uint64_t left_ms)
{
    struct fg_rpc_frame frame = {.kind = FG_RPC_SELECT, .left = left_ms};
    struct fg_rpc_request req = {.reply = note_code};
    uint8_t bytes[FG_RPC_FRAME_BYTES];

    last.left_ns = 0;
    fg_rpc_frame_encode(&frame, bytes);
    fg_rpc_dispatch(server, &req, fg_bytes(bytes, sizeof bytes));
}

/* Its end may come between the message and its handler. */
static void no_part_is_kept_for_a_connection_that_has_ended(void **state)
{
    enum { OWNER = 7 };
    const struct fg_connection_address address = {.bytes = {0}};
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 1);
    struct fg_connections *connections = fg_connections_create(1, 1, 1);
    struct fg_connection *connection;
    const struct fg_rpc_frame push = {.kind = FG_RPC_PUSH};
    struct fg_rpc_frame part = {.kind = FG_RPC_PART, .left = 60 * 1000};
    struct fg_rpc_request req = {.reply = note_code, .owner = OWNER};
    uint8_t *bytes = fg_calloc(1, MIB);
    struct fg_buf head, message;

    (void)state;
    fg_rpc_server_handle(server, FG_RPC_PUSH, rpc_run_echo, NULL);
    assert_int_equal(fg_connections_add(connections, OWNER, &address, FG_RPC_ANY_ROLE),
                     FG_CONNECTION_TAKEN);
    assert_int_equal(fg_connections_take_slot(connections, OWNER, &connection), FG_SLOT_TAKEN);
    req.connection = connection;
    fg_connections_remove(connections, OWNER);
    fg_buf_init(&head, 24);
    fg_buf_le64(&head, 1);
    fg_buf_le64(&head, 0);
    fg_buf_le64(&head, 2 * MIB);
    fg_rpc_frame_encode(&push, bytes);
    part.head = fg_buf_slice(&head);
    part.payload = fg_bytes(bytes, MIB);
    fg_buf_init(&message, 2 * MIB);
    assert_true(fg_buf_reserve(&message, fg_rpc_frame_size(&part)));
    fg_rpc_frame_encode(&part, message.ptr);
    fg_rpc_dispatch(server, &req, fg_bytes(message.ptr, fg_rpc_frame_size(&part)));
    assert_int_equal(last.code, FG_OK);
    assert_int_equal(fg_rpc_server_request_bytes(server), 0);
    fg_buf_done(&message);
    fg_buf_done(&head);
    free(bytes);
    fg_connections_reply_waits(connections, connection);
    fg_connections_give_slot(connections, connection, FG_SLOT_TAKEN);
    fg_connections_destroy(connections);
    fg_rpc_server_destroy(server);
}

static void deadlines_are_capped(void **state)
{
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 1);

    (void)state;
    fg_rpc_server_handle(server, FG_RPC_SELECT, note_left, NULL);
    ask_with(server, 1000);
    assert_int_equal(last.code, FG_OK);
    assert_in_range(last.left_ns, 1, FG_SECOND_NS);
    ask_with(server, 24 * 3600 * 1000);
    assert_int_equal(last.code, FG_OK);
    assert_in_range(last.left_ns, 1, 5 * FG_MINUTE_NS);
    ask_with(server, UINT64_MAX);
    assert_int_equal(last.code, FG_E_INVALID);
    ask_with(server, 0);
    assert_int_equal(last.code, FG_E_DEADLINE);
    fg_rpc_server_destroy(server);
}

/* --- work that the server cancels --- */

static void cancel(struct fg_rpc_request *req, void *arg)
{
    struct fg_err err;

    (void)arg;
    (void)fg_fail(&err, FG_E_CANCELED, "stopping");
    fg_rpc_reply_error(req, &err);
}

static void canceled_work_is_unavailable_to_its_caller(void **state)
{
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 1);

    (void)state;
    fg_rpc_server_handle(server, FG_RPC_SELECT, cancel, NULL);
    ask_with(server, 1000);
    assert_int_equal(last.code, FG_E_UNAVAILABLE);
    fg_rpc_server_destroy(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"large_requests_arrive_whole (direct)", large_requests_arrive_whole, set_up_direct,
         tear_down, NULL},
        {"large_requests_arrive_whole (inproc)", large_requests_arrive_whole, set_up_inproc,
         tear_down, NULL},
        {"large_requests_arrive_whole (tcp)", large_requests_arrive_whole, set_up_tcp, tear_down,
         NULL},
        cmocka_unit_test_setup_teardown(a_kind_has_a_largest_request, set_up_tcp, tear_down),
        cmocka_unit_test_setup_teardown(a_request_that_never_fits_is_too_large, set_up_tcp,
                                        tear_down),
        cmocka_unit_test(parts_are_dropped_at_their_deadline_and_with_their_connection),
        cmocka_unit_test_setup_teardown(large_messages_are_not_buffered, set_up_tcp, tear_down),
        cmocka_unit_test_setup_teardown(a_caller_that_does_not_read_leaves_slots_to_its_neighbours,
                                        set_up_tcp, tear_down),
        cmocka_unit_test_setup_teardown(an_address_that_does_not_read_leaves_slots_to_others,
                                        set_up_tcp, tear_down),
        cmocka_unit_test_setup_teardown(a_caller_beyond_its_share_is_refused_at_once, set_up_tcp,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_connection_that_nobody_reads_is_closed, set_up_tcp,
                                        tear_down),
        cmocka_unit_test_setup_teardown(requests_that_never_end_stay_in_the_budget, set_up_tcp,
                                        tear_down),
        cmocka_unit_test(connections_have_a_limit),
        cmocka_unit_test_setup_teardown(silent_connections_have_a_bound, set_up_tcp, tear_down),
        cmocka_unit_test(work_learns_that_its_caller_is_gone),
        cmocka_unit_test(canceled_work_is_abandoned),
        cmocka_unit_test(cancellation_may_come_before_its_request),
        cmocka_unit_test(no_part_is_kept_for_a_connection_that_has_ended),
        cmocka_unit_test(deadlines_are_capped),
        cmocka_unit_test(canceled_work_is_unavailable_to_its_caller),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, make_pattern, free_pattern);
}
