#include "querier/limit_use.h"

#include "common/base/time.h"
#include "querier/meeting.h"

static const int64_t TIMEOUT_NS = FG_SECOND_NS; /* of the calls about pushes, and about queries */

/* The greatest numbers count: a place that began a moment ago knows too little. */
static void take_count(struct fg_admin_period_use *use, const Fg__Inner__TenantUse *said)
{
    if (said->period_start_s == use->span.start_s && said->period_end_s == use->span.end_s)
        use->bytes = FG_MAX(use->bytes, said->period_bytes);
}

static void hear_pushes(void *arg, const Fg__Inner__UseReply *reply)
{
    struct fg_admin_limit_use *use = arg;

    use->known = true;
    use->bytes_per_s = FG_MAX(use->bytes_per_s, reply->uses[0]->demand);
    use->series = FG_MAX(use->series, reply->uses[0]->series);
    take_count(&use->stored, reply->uses[0]);
}

static void hear_queries(void *arg, const Fg__Inner__UseReply *reply)
{
    struct fg_admin_limit_use *use = arg;

    take_count(&use->read, reply->uses[0]);
}

static void ask_about(struct querier *querier, enum fg_rpc_method method, const char *tenant,
                      const struct fg_quota_span *span,
                      void (*hear)(void *arg, const Fg__Inner__UseReply *reply),
                      struct fg_admin_limit_use *use)
{
    Fg__Inner__UseHead head = FG__INNER__USE_HEAD__INIT;
    Fg__Inner__TenantUse asked = FG__INNER__TENANT_USE__INIT, *list = &asked;
    struct fg_err err;

    asked.tenant = (char *)(uintptr_t)tenant;
    asked.period_start_s = span->start_s;
    asked.period_end_s = span->end_s;
    head.n_uses = 1;
    head.uses = &list;
    /* Nobody needs to answer: then the page has limits without what is used. */
    (void)qry_meeting_ask(querier, method, &head, TIMEOUT_NS, hear, use, &err);
}

void qry_limit_use(void *querier, struct fg_slice tenant, struct fg_admin_limit_use *use)
{
    char name[FG_TENANT_MAX_BYTES + 1];

    (void)snprintf(name, sizeof name, "%.*s", FG_S(tenant));
    ask_about(querier, FG_RPC_USE, name, &use->stored.span, hear_pushes, use);
    ask_about(querier, FG_RPC_QUERY_USE, name, &use->read.span, hear_queries, use);
}
