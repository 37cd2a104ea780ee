/*
 * A call is a frame on its way, on a thread of the world's. So a request may arrive after its
 * caller gave up, or was killed, and an answer after its server was.
 *
 *   send --frame--> [way there] --> handler --> reply --frame--> [way back] --> done()
 *   caller's machine                server's machine                     caller's machine
 *                       \______________\_______________________\__ deadline: answered without it
 */
#include "common/net/rpc/call.h"
#include "common/net/rpc/request.h"
#include "tests/lib/threads.h"
#include "tests/sim/shells/faults.h"

#include <stdio.h>

enum { URL_MAX_BYTES = 64 };

static const int64_t CONNECT_NS = 250 * FG_MS_NS; /* as rpc.h has it: a call without a connection */
static const int64_t LATE_MAX_NS = 30 * FG_SECOND_NS;

enum fate { DONE, REFUSED, LOST, ANSWER_LOST, LATE };

struct listener {
    char url[URL_MAX_BYTES];
    unsigned machine;
    struct fg_rpc_server *server;
    unsigned under_way; /* requests that have arrived and are not answered */
    bool closing;
    struct listener *next;
};

struct line {
    struct fg_peer peer;
    unsigned machine; /* of the caller */
    unsigned calls_max, under_way;
    char url[URL_MAX_BYTES];
};

struct trip {
    struct fg_rpc_request req;
    struct line *line;    /* while there is a call */
    struct fg_call *call; /* NULL: it was answered, or the caller was killed */
    unsigned machine;     /* of the caller */
    char url[URL_MAX_BYTES];
    enum fate fate;
    int64_t give_up_mono_ns;
    struct thread *thread;
    struct listener *listener; /* it is worked on there; NULL: not yet, or not any more */
    uint8_t *reply;
    size_t reply_bytes;
    struct trip *next;
    size_t request_bytes;
    uint8_t request[];
};

/* What comes of a call, for a thread of the caller's machine. */
struct answer {
    struct fg_call *call;
    enum fg_code code;
    const char *why;
    uint8_t *reply;
    size_t reply_bytes;
};

static struct {
    const struct faults *faults;
    struct listener *listeners;
    struct trip *trips;
    uint64_t made[FG_RPC_METHODS], failed;
    struct sim_calls_watch watch;
} net;

static bool strikes(unsigned permille)
{
    return threads_draw(1000) < permille;
}

static struct listener *find_listener(const char *url)
{
    struct listener *listener = net.listeners;

    while (listener != NULL && strcmp(listener->url, url) != 0)
        listener = listener->next;
    return listener;
}

static bool is_cut(unsigned machine)
{
    return (net.faults->call_cut & 1u << machine) != 0;
}

static enum fate draw_fate(const struct line *line)
{
    const struct faults *faults = net.faults;
    const struct listener *listener = find_listener(line->url);

    if (is_cut(line->machine) || (listener != NULL && is_cut(listener->machine)))
        return LOST;
    if (strikes(faults->call_refuse))
        return REFUSED;
    if (strikes(faults->call_lose))
        return LOST;
    if (strikes(faults->call_lose_answer))
        return ANSWER_LOST;
    return strikes(faults->call_late) ? LATE : DONE;
}

/* ---- answers ---- */

static void deliver(void *arg)
{
    struct answer *answer = arg;
    struct fg_call *call = answer->call;

    if (answer->code == FG_OK) {
        call->transport = answer->reply;
        fg_call_read_reply(call, fg_bytes(answer->reply, answer->reply_bytes));
        fg_call_finish(call);
    } else {
        fg_call_fail(call, answer->code, answer->why);
    }
    free(answer);
}

/* Ends the call with the reply, or with a failure. Once. */
static void answer(struct trip *trip, enum fg_code failed, const char *why)
{
    struct answer *answer = fg_new(struct answer);

    *answer = (struct answer){.call = fg_take(trip->call), .code = failed, .why = why};
    if (failed == FG_OK) {
        answer->reply = fg_take(trip->reply);
        answer->reply_bytes = trip->reply_bytes;
    }
    net.failed += failed != FG_OK;
    trip->line->under_way--;
    threads_spawn(trip->machine, "reply", deliver, answer);
}

/* ---- a trip ---- */

/* The caller gives up at its deadline; false: it has not come yet, or nobody waits. */
static bool gives_up(struct trip *trip)
{
    if (trip->call == NULL || threads_now_ns() < trip->give_up_mono_ns)
        return false;
    answer(trip, FG_E_DEADLINE, "no answer in time");
    return true;
}

static void travel(struct trip *trip, int64_t ns)
{
    int64_t end_ns = threads_now_ns() + ns;

    while (threads_now_ns() < end_ns) {
        int64_t until_ns = trip->call == NULL ? end_ns : FG_MIN(end_ns, trip->give_up_mono_ns);

        if (!gives_up(trip))
            threads_sleep(FG_MAX(until_ns - threads_now_ns(), 0));
    }
}

static int64_t draw_delay(void)
{
    int64_t most_ns = net.faults->call_max_ns == 0 ? 20 * FG_MS_NS : net.faults->call_max_ns;

    return 1 + (int64_t)threads_draw((uint64_t)most_ns);
}

/* On a thread of the server's machine. */
static void reply(struct fg_rpc_request *req, const struct fg_rpc_frame *frame)
{
    struct trip *trip = fg_container(req, struct trip, req);
    struct thread *thread = trip->thread;

    trip->reply_bytes = fg_rpc_frame_size(frame);
    trip->reply = fg_malloc(trip->reply_bytes);
    fg_rpc_frame_encode(frame, trip->reply);
    fg_rpc_request_done(req);
    trip->listener->under_way--;
    trip->listener = NULL;
    threads_wake(thread);
}

static void dispatch(void *arg)
{
    struct trip *trip = arg;
    struct fg_rpc_frame frame;
    struct fg_err err;

    fg_assert(fg_rpc_frame_decode(fg_bytes(trip->request, trip->request_bytes), &frame, &err) ==
              FG_OK);
    if (net.watch.on_arrive != NULL)
        net.watch.on_arrive(net.watch.arg, trip->url, frame.payload);
    fg_rpc_dispatch(trip->listener->server, &trip->req,
                    fg_bytes(trip->request, trip->request_bytes));
}

/* At the server, until it answers or is killed. */
static void visit(struct trip *trip)
{
    struct listener *listener = find_listener(trip->url);

    if (listener == NULL || listener->closing) {
        travel(trip, CONNECT_NS);
        return;
    }
    listener->under_way++;
    trip->listener = listener;
    trip->req.reply = reply;
    threads_spawn(listener->machine, "transport", dispatch, trip);
    while (trip->listener != NULL)
        if (!gives_up(trip))
            (void)threads_wait(trip->call == NULL ? FG_HOUR_NS
                                                  : trip->give_up_mono_ns - threads_now_ns());
}

static void forget(struct trip *trip)
{
    struct trip **at = &net.trips;

    while (*at != trip)
        at = &(*at)->next;
    *at = trip->next;
    free(trip->reply);
    free(trip);
}

static void make_trip(void *arg)
{
    struct trip *trip = arg;

    trip->thread = threads_self();
    travel(trip, draw_delay());
    if (trip->fate == LATE)
        travel(trip, (int64_t)threads_draw((uint64_t)LATE_MAX_NS));
    if (trip->fate != REFUSED && trip->fate != LOST)
        visit(trip);
    travel(trip, draw_delay());
    if (trip->call != NULL && trip->fate != LOST && trip->fate != ANSWER_LOST) {
        if (trip->reply != NULL)
            answer(trip, FG_OK, "");
        else
            answer(trip, FG_E_UNAVAILABLE,
                   trip->fate == REFUSED ? "refused" : "nobody is there, or not any more");
    }
    while (trip->call != NULL) /* nothing comes back */
        travel(trip, FG_HOUR_NS);
    forget(trip);
}

/* ---- a peer ---- */

static void line_send(struct fg_peer *base, struct fg_call *call)
{
    struct line *line = fg_container(base, struct line, peer);
    struct fg_rpc_frame frame = fg_call_frame(call, fg_rpc_cluster_key(""));
    size_t bytes = fg_rpc_frame_size(&frame);
    struct trip *trip;

    if (line->under_way == line->calls_max) {
        fg_call_refuse(call, FG_E_LIMIT, "too many calls are under way");
        return;
    }
    trip = fg_calloc(1, sizeof *trip + bytes);
    trip->line = line;
    trip->call = call;
    trip->machine = line->machine;
    (void)snprintf(trip->url, sizeof trip->url, "%s", line->url);
    trip->fate = draw_fate(line);
    trip->give_up_mono_ns = call->deadline_mono_ns;
    trip->request_bytes = bytes;
    fg_rpc_frame_encode(&frame, trip->request);
    trip->next = net.trips;
    net.trips = trip;
    net.made[call->method]++;
    if (net.watch.on_send != NULL)
        net.watch.on_send(net.watch.arg, line->machine, call);
    line->under_way++;
    threads_spawn(0, "call", make_trip, trip);
}

static void line_release(struct fg_call *call)
{
    free(call->transport);
    call->transport = NULL;
}

static void line_destroy(struct fg_peer *base)
{
    struct line *line = fg_container(base, struct line, peer);

    fg_assert(line->under_way == 0);
    free(line);
}

#define WRAP(name) __wrap_##name

enum fg_code WRAP(fg_peer_dial)(struct fg_rpc *rpc, const char *url, unsigned calls_max,
                                struct fg_peer **ret_peer, struct fg_err *err);

enum fg_code WRAP(fg_peer_dial)(struct fg_rpc *rpc, const char *url, unsigned calls_max,
                                struct fg_peer **ret_peer, struct fg_err *err)
{
    static const struct fg_peer_ops ops = {line_send, line_release, line_destroy};
    struct line *line = fg_new(struct line);

    fg_assert(rpc == NULL);
    (void)err;
    line->peer.ops = &ops;
    line->machine = threads_machine();
    line->calls_max = calls_max;
    (void)snprintf(line->url, sizeof line->url, "%s", url);
    *ret_peer = &line->peer;
    return FG_OK;
}

/* ---- life ---- */

void sim_calls_init(const struct faults *faults, const struct sim_calls_watch *watch)
{
    net.faults = faults;
    net.watch = *watch;
}

void sim_calls_listen(const char *url, struct fg_rpc_server *server)
{
    struct listener *listener = fg_new(struct listener);

    fg_assert(find_listener(url) == NULL);
    (void)snprintf(listener->url, sizeof listener->url, "%s", url);
    listener->machine = threads_machine();
    listener->server = server;
    listener->next = net.listeners;
    net.listeners = listener;
}

static void remove_listener(struct listener *listener)
{
    struct listener **at = &net.listeners;

    while (*at != listener)
        at = &(*at)->next;
    *at = listener->next;
    free(listener);
}

void sim_calls_stop(const char *url)
{
    struct listener *listener = find_listener(url);

    listener->closing = true;
    while (listener->under_way > 0)
        threads_sleep(10 * FG_MS_NS);
    remove_listener(listener);
}

void sim_calls_kill(unsigned machine)
{
    struct listener *listener = net.listeners;

    for (struct trip *trip = net.trips; trip != NULL; trip = trip->next) {
        if (trip->machine == machine)
            trip->call = NULL;
        if (trip->listener == NULL || trip->listener->machine != machine)
            continue;
        trip->listener = NULL;
        if (strikes(300)) /* nothing says that the machine has vanished */
            trip->fate = LOST;
        threads_wake(trip->thread);
    }
    while (listener != NULL && listener->machine != machine)
        listener = listener->next;
    if (listener != NULL)
        remove_listener(listener);
}

uint64_t sim_calls_made(enum fg_rpc_method method)
{
    return net.made[method];
}

uint64_t sim_calls_failed(void)
{
    return net.failed;
}
