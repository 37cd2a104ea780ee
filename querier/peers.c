#include "querier/peers.h"

#include <pthread.h>

struct leg {
    struct fg_call call;
    struct asked *asked;
};

struct asked {
    pthread_mutex_t lock;
    pthread_cond_t all_done;
    size_t under_way;
    struct leg *legs;
    size_t n;
};

static enum fg_code too_many(struct fg_err *err, size_t n)
{
    return fg_fail(err, FG_E_LIMIT, "the query needs more memory than one may have: %zu peers", n);
}

/* A leg for each tenant and peer: all peers of the first tenant, all of the second ... */
static struct fg_peer *peer_of(const struct question *question, size_t leg)
{
    return question->querier->ingesters[leg % question->querier->n_ingesters];
}

static void leg_done(struct fg_call *call)
{
    struct asked *asked = fg_container(call, struct leg, call)->asked;

    (void)pthread_mutex_lock(&asked->lock);
    if (--asked->under_way == 0)
        (void)pthread_cond_signal(&asked->all_done);
    (void)pthread_mutex_unlock(&asked->lock);
}

/* The head in bytes, in the arena. */
static struct fg_slice pack(struct fg_arena *arena, const ProtobufCMessage *head)
{
    uint8_t *bytes = fg_arena_alloc(arena, protobuf_c_message_get_packed_size(head));

    return bytes == NULL ? fg_bytes(NULL, 0)
                         : fg_bytes(bytes, protobuf_c_message_pack(head, bytes));
}

static enum fg_code make_legs(struct question *question, enum fg_rpc_method method,
                              const ProtobufCMessage *head, char **tenant, struct asked *asked,
                              struct fg_err *err)
{
    size_t n_peers = question->querier->n_ingesters;
    struct fg_slice bytes = {NULL, 0};

    for (size_t i = 0; i < asked->n; i++) {
        if (i % n_peers == 0) {
            *tenant = fg_arena_text(question->arena, question->tenants.ids[i / n_peers]);
            if (*tenant != NULL)
                bytes = pack(question->arena, head);
            if (*tenant == NULL || bytes.ptr == NULL)
                return too_many(err, asked->n);
        }
        asked->legs[i] = (struct leg){.asked = asked,
                                      .call = {.method = method,
                                               .head = bytes,
                                               .deadline_mono_ns = question->deadline_mono_ns,
                                               .done = leg_done}};
    }
    return FG_OK;
}

enum fg_code peers_ask(struct question *question, enum fg_rpc_method method,
                       const ProtobufCMessage *head, char **tenant, struct asked **ret_asked,
                       struct fg_err *err)
{
    size_t n = question->querier->n_ingesters * question->tenants.n;
    struct asked *asked = fg_arena_new(question->arena, struct asked, 1);

    if (question_check(question, err) != FG_OK)
        return err->code;
    if (asked == NULL || (asked->legs = fg_arena_new(question->arena, struct leg, n)) == NULL)
        return too_many(err, n);
    asked->n = asked->under_way = n;
    if (make_legs(question, method, head, tenant, asked, err) != FG_OK)
        return err->code;
    (void)pthread_mutex_init(&asked->lock, NULL);
    (void)pthread_cond_init(&asked->all_done, NULL);
    for (size_t i = 0; i < n; i++)
        fg_peer_send(peer_of(question, i), &asked->legs[i].call);
    *ret_asked = asked;
    return FG_OK;
}

static void wait_all(struct asked *asked)
{
    (void)pthread_mutex_lock(&asked->lock);
    while (asked->under_way > 0)
        (void)pthread_cond_wait(&asked->all_done, &asked->lock);
    (void)pthread_mutex_unlock(&asked->lock);
    (void)pthread_cond_destroy(&asked->all_done);
    (void)pthread_mutex_destroy(&asked->lock);
}

enum fg_code peers_take(struct question *question, struct asked *asked, peers_reply take, void *arg,
                        struct fg_err *err)
{
    enum fg_code code = FG_OK;

    wait_all(asked);
    for (size_t i = 0; i < asked->n; i++) {
        struct fg_call *call = &asked->legs[i].call;

        if (code == FG_OK && call->code != FG_OK) {
            *err = call->err;
            code = call->code;
        }
        if (code == FG_OK)
            code = question_check(question, err);
        if (code == FG_OK)
            code = take(question, call, arg, err);
        fg_call_done(peer_of(question, i), call);
    }
    return code;
}

void peers_drop(struct question *question, struct asked *asked)
{
    wait_all(asked);
    for (size_t i = 0; i < asked->n; i++)
        fg_call_done(peer_of(question, i), &asked->legs[i].call);
}
