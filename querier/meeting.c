#include "querier/meeting.h"

#include "common/base/time.h"
#include "common/cluster/ring/watch.h"
#include "querier/query.h"

enum {
    MEETING_SHARD = 0,     /* as distributor/shares.c has it */
    REPLY_MAX_PAYLOAD = 1, /* an answer is a head, as large as the question and its numbers */
};

struct question {
    enum fg_rpc_method method;
    struct fg_slice head;
    size_t n_uses;
    int64_t deadline_mono_ns;
    void (*hear)(void *arg, const Fg__Inner__UseReply *reply);
    void *arg;
    bool heard;
    struct fg_err *err;
};

static void hear_call(struct question *question, const struct fg_call *call)
{
    Fg__Inner__UseReply *reply;

    if (call->code != FG_OK) {
        *question->err = call->err;
        return;
    }
    reply = fg__inner__use_reply__unpack(NULL, call->reply_head.len, call->reply_head.ptr);
    if (reply != NULL && reply->n_uses == question->n_uses) {
        question->heard = true;
        question->hear(question->arg, reply);
    }
    if (reply != NULL)
        fg__inner__use_reply__free_unpacked(reply, NULL);
}

static void call_places(struct question *question, struct fg_peer *const *peers, unsigned n)
{
    struct fg_call calls[FG_RING_REPLICAS_MAX];

    for (unsigned i = 0; i < n; i++)
        calls[i] = (struct fg_call){.method = question->method,
                                    .head = question->head,
                                    .deadline_mono_ns = question->deadline_mono_ns,
                                    .reply_max_bytes = REPLY_MAX_PAYLOAD};
    fg_peer_call_all(peers, calls, n);
    for (unsigned i = 0; i < n; i++) {
        hear_call(question, &calls[i]);
        fg_call_done(peers[i], &calls[i]);
    }
}

static void ask_places(struct querier *querier, struct question *question)
{
    const struct fg_ring_member *members[FG_RING_REPLICAS_MAX];
    struct fg_peer *peers[FG_RING_REPLICAS_MAX];
    fg_auto(fg_ring_view) *view = NULL;
    unsigned n, n_peers = 0;

    if (querier->ring == NULL) {
        if (querier->ingester != NULL)
            call_places(question, &querier->ingester, 1);
        return;
    }
    view = fg_ring_watch_get(querier->ring);
    n = view == NULL ? 0 : fg_ring_view_owners(view, MEETING_SHARD, members);
    for (unsigned i = 0; i < n; i++) {
        char address[FG_RING_ADDRESS_MAX_BYTES + 1];

        (void)snprintf(address, sizeof address, "%.*s", FG_S(members[i]->address));
        n_peers += fg_peers_get(querier->peers, address, &peers[n_peers], question->err) == FG_OK;
    }
    call_places(question, peers, n_peers);
    for (unsigned i = 0; i < n_peers; i++)
        fg_peers_put(querier->peers, peers[i]);
}

enum fg_code qry_meeting_ask(struct querier *querier, enum fg_rpc_method method,
                             const Fg__Inner__UseHead *head, int64_t timeout_ns,
                             void (*hear)(void *arg, const Fg__Inner__UseReply *reply), void *arg,
                             struct fg_err *err)
{
    struct question question = {.method = method,
                                .n_uses = head->n_uses,
                                .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + timeout_ns,
                                .hear = hear,
                                .arg = arg,
                                .err = err};
    /* One byte more, since a message of zeros has none. */
    uint8_t *bytes = fg_malloc(fg__inner__use_head__get_packed_size(head) + 1);

    (void)fg_fail(err, FG_E_UNAVAILABLE, "no ingester is known");
    question.head = fg_bytes(bytes, fg__inner__use_head__pack(head, bytes));
    ask_places(querier, &question);
    free(bytes);
    return question.heard ? FG_OK : FG_E_UNAVAILABLE;
}
