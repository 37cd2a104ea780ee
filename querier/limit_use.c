#include "querier/limit_use.h"

#include "common/base/time.h"
#include "querier/meeting.h"

static const int64_t TIMEOUT_NS = FG_SECOND_NS; /* of the calls about pushes, and about queries */

/* The later period counts, and of one the greatest number. */
static void take_count(struct fg_admin_period_use *use, const Fg__Inner__TenantUse *said)
{
    if (said->period_start_s > use->span.start_s ||
        (said->period_start_s == use->span.start_s && said->period_bytes > use->bytes))
        *use = (struct fg_admin_period_use){.bytes = said->period_bytes,
                                            .span = {said->period_start_s, said->period_end_s}};
}

/* The greatest numbers count: a place that began a moment ago knows too little. */
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

void qry_limit_use(void *querier, struct fg_slice tenant, struct fg_admin_limit_use *ret_use)
{
    char name[FG_TENANT_MAX_BYTES + 1];
    Fg__Inner__UseHead head = FG__INNER__USE_HEAD__INIT;
    Fg__Inner__TenantUse use = FG__INNER__TENANT_USE__INIT, *list = &use;
    struct fg_err err;

    *ret_use = (struct fg_admin_limit_use){.known = false};
    (void)snprintf(name, sizeof name, "%.*s", FG_S(tenant));
    use.tenant = name;
    head.n_uses = 1;
    head.uses = &list;
    /* Nobody needs to answer: then the page has limits without what is used. */
    (void)qry_meeting_ask(querier, FG_RPC_USE, &head, TIMEOUT_NS, hear_pushes, ret_use, &err);
    (void)qry_meeting_ask(querier, FG_RPC_QUERY_USE, &head, TIMEOUT_NS, hear_queries, ret_use,
                          &err);
}
