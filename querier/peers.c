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

/* --- what heads are made of --- */

static Fg__Inner__MatchOp match_op(enum fg_match_op op)
{
    switch (op) {
    case FG_MATCH_NE:
        return FG__INNER__MATCH_OP__NE;
    case FG_MATCH_RE:
        return FG__INNER__MATCH_OP__RE;
    case FG_MATCH_NRE:
        return FG__INNER__MATCH_OP__NRE;
    case FG_MATCH_EQ:
        break;
    }
    return FG__INNER__MATCH_OP__EQ;
}

static Fg__Inner__Matcher *make_matcher(struct fg_arena *arena, const struct fg_matcher *from)
{
    Fg__Inner__Matcher *matcher = fg_arena_new(arena, Fg__Inner__Matcher, 1);

    if (matcher == NULL)
        return NULL;
    fg__inner__matcher__init(matcher);
    matcher->op = match_op(from->op);
    matcher->name = fg_arena_text(arena, from->name);
    matcher->value = fg_arena_text(arena, from->value);
    return matcher->name == NULL || matcher->value == NULL ? NULL : matcher;
}

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the query needs more memory than one may have");
}

enum fg_code peers_matchers(struct fg_arena *arena, const struct fg_selector *selector,
                            size_t *ret_n, Fg__Inner__Matcher ***ret_matchers, struct fg_err *err)
{
    Fg__Inner__Matcher **matchers = fg_arena_new(arena, Fg__Inner__Matcher *, selector->n_matchers);

    if (matchers == NULL)
        return too_large(err);
    for (size_t i = 0; i < selector->n_matchers; i++) {
        matchers[i] = make_matcher(arena, &selector->matchers[i]);
        if (matchers[i] == NULL)
            return too_large(err);
    }
    *ret_n = selector->n_matchers;
    *ret_matchers = matchers;
    return FG_OK;
}

static enum fg_code make_deletion(struct fg_arena *arena, const struct fg_deletion *from,
                                  Fg__Inner__Deletion **ret_deletion, struct fg_err *err)
{
    Fg__Inner__Deletion *deletion = fg_arena_new(arena, Fg__Inner__Deletion, 1);

    if (deletion == NULL)
        return too_large(err);
    fg__inner__deletion__init(deletion);
    deletion->start_ns = from->start_ns;
    deletion->end_ns = from->end_ns;
    *ret_deletion = deletion;
    return peers_matchers(arena, &from->selector, &deletion->n_matchers, &deletion->matchers, err);
}

static enum fg_code make_deletions(const struct question *question, size_t tenant,
                                   const struct peers_head *head, struct fg_err *err)
{
    const struct fg_deletions *from = &question->deletions[tenant];

    *head->n_deletions = 0;
    *head->deletions = fg_arena_new(question->arena, Fg__Inner__Deletion *, from->count);
    if (*head->deletions == NULL)
        return too_large(err);
    for (uint32_t i = 0; i < from->count; i++)
        if (fg_deletion_meets(&from->items[i], head->start_ns, head->end_ns) &&
            make_deletion(question->arena, &from->items[i],
                          &(*head->deletions)[(*head->n_deletions)++], err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* --- calls --- */

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

static enum fg_code make_head(const struct question *question, size_t tenant,
                              const struct peers_head *head, struct fg_slice *ret_bytes,
                              struct fg_err *err)
{
    *head->tenant = fg_arena_text(question->arena, question->tenants.ids[tenant]);
    if (*head->tenant == NULL)
        return too_large(err);
    if (make_deletions(question, tenant, head, err) != FG_OK)
        return err->code;
    *ret_bytes = pack(question->arena, head->message);
    return ret_bytes->ptr == NULL ? too_large(err) : FG_OK;
}

static enum fg_code make_legs(struct question *question, enum fg_rpc_method method,
                              const struct peers_head *head, struct asked *asked,
                              struct fg_err *err)
{
    size_t n_peers = question->querier->n_ingesters;
    struct fg_slice bytes = {NULL, 0};

    for (size_t i = 0; i < asked->n; i++) {
        if (i % n_peers == 0 && make_head(question, i / n_peers, head, &bytes, err) != FG_OK)
            return err->code;
        asked->legs[i] = (struct leg){.asked = asked,
                                      .call = {.method = method,
                                               .head = bytes,
                                               .deadline_mono_ns = question->deadline_mono_ns,
                                               .done = leg_done}};
    }
    return FG_OK;
}

enum fg_code peers_ask(struct question *question, enum fg_rpc_method method,
                       const struct peers_head *head, struct asked **ret_asked, struct fg_err *err)
{
    size_t n = question->querier->n_ingesters * question->tenants.n;
    struct asked *asked = fg_arena_new(question->arena, struct asked, 1);

    if (question_check(question, err) != FG_OK)
        return err->code;
    if (asked == NULL || (asked->legs = fg_arena_new(question->arena, struct leg, n)) == NULL)
        return too_many(err, n);
    asked->n = asked->under_way = n;
    if (make_legs(question, method, head, asked, err) != FG_OK)
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
