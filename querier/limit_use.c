#include "querier/limit_use.h"

#include "common/base/time.h"
#include "common/cluster/ring/watch.h"
#include "proto/inner.pb-c.h"
#include "querier/query.h"

enum {
    MEETING_SHARD = 0, /* as distributor/shares.c has it */
    REPLY_MAX_BYTES = 4096,
};

static const int64_t TIMEOUT_NS = 2 * FG_SECOND_NS; /* of all calls together */

struct use_question {
    struct fg_slice head;
    int64_t deadline_mono_ns;
    struct fg_admin_limit_use use;
};

/* The greatest numbers count: a place that began a moment ago knows too little. */
static void take_answer(struct fg_admin_limit_use *use, const Fg__Inner__TenantUse *said)
{
    use->known = true;
    use->bytes_per_s = FG_MAX(use->bytes_per_s, said->demand);
    use->series = FG_MAX(use->series, said->series);
    if (said->period_start_s > use->span.start_s ||
        (said->period_start_s == use->span.start_s && said->period_bytes > use->period_bytes)) {
        use->span = (struct fg_quota_span){said->period_start_s, said->period_end_s};
        use->period_bytes = said->period_bytes;
    }
}

static void ask(struct use_question *question, struct fg_peer *peer)
{
    struct fg_call call = {.method = FG_RPC_USE,
                           .head = question->head,
                           .deadline_mono_ns = question->deadline_mono_ns,
                           .reply_max_bytes = REPLY_MAX_BYTES};
    Fg__Inner__UseReply *reply = NULL;

    if (fg_peer_call(peer, &call) == FG_OK)
        reply = fg__inner__use_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
    if (reply != NULL && reply->n_uses == 1)
        take_answer(&question->use, reply->uses[0]);
    if (reply != NULL)
        fg__inner__use_reply__free_unpacked(reply, NULL);
    fg_call_done(peer, &call);
}

static void ask_member(const struct querier *querier, struct use_question *question,
                       const struct fg_ring_member *member)
{
    char address[FG_RING_ADDRESS_MAX_BYTES + 1];
    struct fg_peer *peer;
    struct fg_err err;

    (void)snprintf(address, sizeof address, "%.*s", FG_S(member->address));
    if (fg_peers_get(querier->peers, address, &peer, &err) != FG_OK)
        return;
    ask(question, peer);
    fg_peers_put(querier->peers, peer);
}

static void ask_places(struct querier *querier, struct use_question *question)
{
    const struct fg_ring_member *members[FG_RING_REPLICAS_MAX];
    fg_auto(fg_ring_view) *view = NULL;
    unsigned n;

    if (querier->ring == NULL) {
        if (querier->ingester != NULL)
            ask(question, querier->ingester);
        return;
    }
    view = fg_ring_watch_get(querier->ring);
    n = view == NULL ? 0 : fg_ring_view_owners(view, MEETING_SHARD, members);
    for (unsigned i = 0; i < n; i++)
        ask_member(querier, question, members[i]);
}

void qry_limit_use(void *arg, struct fg_slice tenant, struct fg_admin_limit_use *ret_use)
{
    struct use_question question = {.deadline_mono_ns = fg_mono_ns(fg_clock_real()) + TIMEOUT_NS};
    char name[FG_TENANT_MAX_BYTES + 1];
    Fg__Inner__UseHead head = FG__INNER__USE_HEAD__INIT;
    Fg__Inner__TenantUse use = FG__INNER__TENANT_USE__INIT, *list = &use;
    uint8_t bytes[2 * sizeof name];

    (void)snprintf(name, sizeof name, "%.*s", FG_S(tenant));
    use.tenant = name;
    head.n_uses = 1;
    head.uses = &list;
    fg_assert(fg__inner__use_head__get_packed_size(&head) <= sizeof bytes);
    question.head = fg_bytes(bytes, fg__inner__use_head__pack(&head, bytes));
    ask_places(arg, &question);
    *ret_use = question.use;
}
