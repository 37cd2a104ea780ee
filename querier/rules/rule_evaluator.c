#include "querier/rules/rule_evaluator.h"

#include "common/cluster/membership/peer_directory.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"
#include "proto/inner.pb-c.h"
#include "querier/blocks/blocks.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/fanout.h"
#include "querier/query_flow.h"
#include "querier/rules/rule_minute.h"
#include "querier/rules/rule_schedule_core.h"
#include "querier/rules/scraped_tenants.h"
#include "querier/share/share.h"

#include <pthread.h>

/* Between two rounds: well below the 10 s for which a peer without an answer counts as gone
 * (fg_peer_is_bad()), so that it stays so as long as it gives none. */
static const int64_t ROUND_NS = 4 * FG_SECOND_NS;
/* To ask another querier whether it is there, which it answers without a worker. */
static const int64_t GREET_NS = FG_SECOND_NS;
/* How soon a call to another querier is canceled whose scraper has disconnected. */
static const int64_t LOOK_EVERY_NS = 200 * FG_MS_NS;
static const int64_t OBJECT_NS = 5 * FG_SECOND_NS; /* to read or write rules/scraped */
enum { OBJECT_MEMORY_MAX_BYTES = 16 * 1024 * 1024 };

/* clang-format off */
#define EVALUATOR_METRICS(M)                                                                                   \
    M(COUNTER, MINUTES_COMPLETE, "flamegrid_querier_rule_scheduled_total{result=\"complete\"}", "Minutes of a tenant whose recording rules were due without a scrape, by result") \
    M(COUNTER, MINUTES_FAILED, "flamegrid_querier_rule_scheduled_total{result=\"failed\"}", "Minutes of a tenant whose recording rules were due without a scrape, by result") \
    M(COUNTER, MINUTES_SKIPPED, "flamegrid_querier_rule_scheduled_total{result=\"skipped\"}", "Minutes of a tenant whose recording rules were due without a scrape, by result") \
    M(COUNTER, SCRAPES_OWN, "flamegrid_querier_rule_scrapes_total{by=\"own\"}", "Scrapes of recording rules, by the querier that evaluated them") \
    M(COUNTER, SCRAPES_OWNER, "flamegrid_querier_rule_scrapes_total{by=\"owner\"}", "Scrapes of recording rules, by the querier that evaluated them") \
    M(COUNTER, SCRAPES_FALLBACK, "flamegrid_querier_rule_scrapes_total{by=\"fallback\"}", "Scrapes of recording rules, by the querier that evaluated them") \
    M(GAUGE, TENANTS, "flamegrid_querier_rule_tenants", "Tenants whose recording rules this querier evaluates each minute")
/* clang-format on */
FG_METRICS_ENUM(evaluator_metric, EVALUATOR_METRICS)
FG_METRICS_TABLE(evaluator_metrics, EVALUATOR_METRICS)

struct qry_rule_evaluator {
    struct querier *querier;
    struct qry_share *share; /* NULL: this querier is alone */
    struct fg_metrics *metrics;
    struct fg_ticker *ticker;
    unsigned running_max;
    /* Of the thread. */
    int64_t round_mono_ns;   /* when the last round began; 0: none */
    int64_t read_minute_ns;  /* the newest minute when rules/scraped was read; 0: not read */
    struct fg_peer_set *set; /* during a tick */
    /* The lock is held for look-ups, and never while anything waits. */
    pthread_mutex_t lock;
    struct qry_rule_schedule schedule;
    unsigned running;
    bool stopping;
    /* The others were asked whether they are there. Before, the owner may be this querier without
     * knowing it, and a call to it would wait for the worker that makes the call. */
    bool greeted;
};

/* The evaluation of a minute of a tenant: this querier's own, or for another one. */
struct evaluation_run {
    struct qry_query query;
    struct qry_rule_evaluator *evaluator;
    struct fg_rpc_request *req; /* of the other one; NULL: there is none */
    int64_t minute_ns;
    bool unavailable;
    char tenant[FG_TENANT_MAX_BYTES + 1];
};

static bool is_own(const struct qry_rule_evaluator *evaluator, const struct fg_peer_set *set,
                   struct fg_slice tenant, struct fg_peer_set_member **ret_owner)
{
    *ret_owner = set == NULL ? NULL
                             : fg_peer_set_owner(set, fg_hash128(tenant),
                                                 fg_mono_ns(evaluator->querier->clock));
    return *ret_owner == NULL || atomic_load(&(*ret_owner)->self);
}

/* ---- runs ---- */

static void run_destroy(struct evaluation_run *run)
{
    qry_fanout_end(&run->query); /* before the arena, which has what it frees */
    qry_flow_bill(&run->query);
    fg_buf_done(&run->query.missing);
    fg_buf_done(&run->query.body);
    fg_arena_destroy(run->query.arena);
    free(run);
}

/* Ends a run of this querier's own. */
static void end_own(struct evaluation_run *run, enum fg_code code, const struct fg_err *err)
{
    struct qry_rule_evaluator *evaluator = run->evaluator;
    bool complete = code == FG_OK && !run->query.incomplete;
    /* A limit does not pass within the minute, and trying again costs what it is to save. */
    bool again = run->unavailable || (code != FG_OK && code != FG_E_LIMIT);

    fg_metric_add(evaluator->metrics, complete ? MINUTES_COMPLETE : MINUTES_FAILED, 1);
    /* At a stop the minute is not lost: the next owner of the tenant evaluates it, or a scrape. */
    if (!complete && code != FG_E_CANCELED)
        fg_log_warn(
            "recording rules have no values of a minute", fg_ls("tenant", run->tenant),
            fg_li("minute_s", run->minute_ns / FG_SECOND_NS), fg_lbool("again", again),
            fg_lb("why", code == FG_OK ? fg_buf_slice(&run->query.missing) : fg_cstr(err->msg)));
    (void)pthread_mutex_lock(&evaluator->lock);
    qry_rule_schedule_ended(&evaluator->schedule, fg_cstr(run->tenant), again,
                            fg_wall_ns(evaluator->querier->clock));
    evaluator->running--;
    if (!evaluator->stopping)
        fg_ticker_wake(evaluator->ticker);
    (void)pthread_mutex_unlock(&evaluator->lock);
}

/* Sends a reply, and takes over the body. */
static void send_reply(const struct qry_rule_evaluator *evaluator, struct fg_rpc_request *req,
                       bool unavailable, struct fg_slice missing, struct fg_buf *body)
{
    Fg__Inner__RulesReply reply = FG__INNER__RULES_REPLY__INIT;
    uint8_t head[MISSING_MAX_BYTES + 64];

    reply.start_id = qry_share_start_id(evaluator->share);
    reply.unavailable = unavailable;
    reply.missing = (ProtobufCBinaryData){missing.len, (uint8_t *)(uintptr_t)missing.ptr};
    fg_assert(fg__inner__rules_reply__get_packed_size(&reply) <= sizeof head);
    fg_rpc_reply_take(req, fg_bytes(head, fg__inner__rules_reply__pack(&reply, head)), body);
}

/* Worker. */
static enum fg_code run_job(struct fg_job *job, struct fg_err *err)
{
    struct qry_query *query = fg_container(job, struct qry_query, job);
    struct evaluation_run *run = fg_container(query, struct evaluation_run, query);
    int64_t begun_ns = fg_thread_cpu_ns();
    enum fg_code code = qry_query_check(query, err);

    if (code == FG_OK)
        code = qry_rules_evaluate(query, run->minute_ns, run->req != NULL, &run->unavailable, err);
    qry_blocks_settle(query);
    query->cpu_ns += fg_thread_cpu_ns() - begun_ns;
    return code;
}

/* Worker: the job has no home. */
static void run_done(struct fg_job *job)
{
    struct qry_query *query = fg_container(job, struct qry_query, job);
    struct evaluation_run *run = fg_container(query, struct evaluation_run, query);

    if (run->req == NULL)
        end_own(run, job->code, &job->err);
    else if (job->code == FG_OK)
        send_reply(run->evaluator, run->req, run->unavailable, fg_buf_slice(&run->query.missing),
                   &run->query.body);
    else
        fg_rpc_reply_error(run->req, &job->err);
    run_destroy(run);
}

/* Puts a run into the lane. FG_E_LIMIT: the tenant has reached a limit. FG_E_UNAVAILABLE: the lane
 * is full, which passes. Then the caller ends and destroys it. */
static enum fg_code submit_run(struct evaluation_run *run, struct fg_err *err)
{
    if (qry_flow_limit(&run->query, err) != FG_OK)
        return err->code;
    if (qry_flow_submit(&run->query) != FG_SUBMIT_QUEUED)
        return fg_fail(err, FG_E_UNAVAILABLE, "too many queries are waiting");
    return FG_OK;
}

static struct evaluation_run *run_create(struct qry_rule_evaluator *evaluator,
                                         struct fg_slice tenant, int64_t minute_ns,
                                         int64_t deadline_mono_ns)
{
    struct querier *querier = evaluator->querier;
    struct evaluation_run *run = fg_new(struct evaluation_run);
    struct qry_query *query = &run->query;

    fg_assert(tenant.len <= FG_TENANT_MAX_BYTES);
    memcpy(run->tenant, tenant.ptr, tenant.len);
    run->evaluator = evaluator;
    run->minute_ns = minute_ns;
    query->querier = querier;
    query->tenants.ids[0] = fg_cstr(run->tenant);
    query->tenants.n = 1;
    query->scraped = true;
    query->start_mono_ns = fg_mono_ns(querier->clock);
    query->deadline_mono_ns = deadline_mono_ns;
    query->arena = fg_arena_create(querier->answer_max_bytes);
    query->job.run = run_job;
    query->job.done = run_done;
    fg_buf_init(&query->body, querier->answer_max_bytes);
    fg_buf_init(&query->missing, MISSING_MAX_BYTES);
    return run;
}

/* ---- each minute ---- */

static bool owns(void *arg, struct fg_slice tenant)
{
    const struct qry_rule_evaluator *evaluator = arg;
    struct fg_peer_set_member *owner;

    return is_own(evaluator, evaluator->set, tenant, &owner);
}

static int64_t newest_minute(const struct qry_rule_evaluator *evaluator)
{
    return qry_rule_minute(fg_wall_ns(evaluator->querier->clock) -
                           evaluator->querier->rules_delay_ns);
}

/* Takes the next turn, if there is one and not too many are under way. */
static bool take_turn(struct qry_rule_evaluator *evaluator, struct qry_rule_turn *ret_turn)
{
    bool found;

    (void)pthread_mutex_lock(&evaluator->lock);
    found =
        evaluator->running < evaluator->running_max &&
        qry_rule_schedule_next(&evaluator->schedule, newest_minute(evaluator),
                               fg_wall_ns(evaluator->querier->clock), owns, evaluator, ret_turn);
    evaluator->running += found;
    (void)pthread_mutex_unlock(&evaluator->lock);
    return found;
}

static void evaluate_due(struct qry_rule_evaluator *evaluator)
{
    const struct querier *querier = evaluator->querier;
    struct qry_rule_turn turn;

    while (take_turn(evaluator, &turn)) {
        /* At the end of a minute the next one is due. */
        int64_t allowed_ns = FG_MIN(querier->timeout_ns, FG_MINUTE_NS);
        struct evaluation_run *run =
            run_create(evaluator, fg_cstr(turn.tenant), turn.minute_ns,
                       fg_time_add(fg_mono_ns(querier->clock), allowed_ns));
        struct fg_err err;

        fg_metric_add(evaluator->metrics, MINUTES_SKIPPED, turn.skipped);
        if (submit_run(run, &err) != FG_OK) {
            end_own(run, err.code, &err);
            run_destroy(run);
        }
    }
}

/* ---- rules/scraped ---- */

/* Copies the tenants whose scrapes are to be recorded. */
static size_t copy_to_record(struct qry_rule_evaluator *evaluator,
                             struct qry_rule_tenant **ret_tenants)
{
    const struct qry_rule_schedule *schedule = &evaluator->schedule;
    size_t n = 0;

    (void)pthread_mutex_lock(&evaluator->lock);
    *ret_tenants = fg_calloc(FG_MAX(schedule->n, (size_t)1), sizeof **ret_tenants);
    for (size_t i = 0; i < schedule->n; i++)
        if (qry_rule_tenant_to_record(&schedule->items[i]))
            (*ret_tenants)[n++] = schedule->items[i];
    (void)pthread_mutex_unlock(&evaluator->lock);
    return n;
}

static void take_record(struct qry_rule_evaluator *evaluator,
                        const Fg__Inner__ScrapedTenants *record)
{
    int64_t now_ns = fg_wall_ns(evaluator->querier->clock);
    size_t n_own = 0;

    (void)pthread_mutex_lock(&evaluator->lock);
    for (size_t i = 0; i < record->n_tenants; i++) {
        const Fg__Inner__ScrapedTenant *tenant = record->tenants[i];

        if (qry_scraped_tenant_is_current(tenant, now_ns))
            (void)qry_rule_schedule_recorded(&evaluator->schedule,
                                             fg_bytes(tenant->tenant.data, tenant->tenant.len),
                                             tenant->scraped_ms * FG_MS_NS);
    }
    qry_rule_schedule_expire(&evaluator->schedule, now_ns);
    for (size_t i = 0; i < evaluator->schedule.n; i++)
        n_own += owns(evaluator, fg_cstr(evaluator->schedule.items[i].name));
    (void)pthread_mutex_unlock(&evaluator->lock);
    fg_metric_set(evaluator->metrics, TENANTS, (int64_t)n_own);
}

/* Reads the object once for each minute, and after it has recorded scrapes in it. Without the
 * bucket the tenants stay that are known, and their scrapes are recorded later. */
static void follow_record(struct qry_rule_evaluator *evaluator)
{
    const struct querier *querier = evaluator->querier;
    struct fg_arena *arena = fg_arena_create(OBJECT_MEMORY_MAX_BYTES);
    const struct qry_scraped_tenants object = {
        .bucket = querier->blocks->bucket,
        .arena = arena,
        .deadline_mono_ns = fg_time_add(fg_mono_ns(querier->clock), OBJECT_NS),
    };
    int64_t minute_ns = newest_minute(evaluator);
    struct qry_rule_tenant *tenants;
    size_t n = copy_to_record(evaluator, &tenants);
    Fg__Inner__ScrapedTenants *record;
    struct fg_err err = {.code = FG_OK};

    if (n > 0)
        (void)!qry_scraped_tenants_record(&object, tenants, n, fg_wall_ns(querier->clock), &err);
    if (err.code == FG_OK && (n > 0 || minute_ns != evaluator->read_minute_ns) &&
        qry_scraped_tenants_read(&object, &record, &err) == FG_OK) {
        take_record(evaluator, record);
        evaluator->read_minute_ns = minute_ns;
    }
    if (err.code != FG_OK)
        fg_log_warn("tenants with recording rules not read, trying again",
                    fg_ls("object", "rules/scraped"), fg_ls("err", err.msg));
    free(tenants);
    fg_arena_destroy(arena);
}

/* ---- other queriers ---- */

/* Takes the head of a reply. NULL: it is none. Frees it with fg__inner__rules_reply__free_unpacked.
 * A querier that finds its own run learns which address is its own. */
static Fg__Inner__RulesReply *take_head(const struct qry_rule_evaluator *evaluator,
                                        struct fg_peer_set_member *member,
                                        const struct fg_call *call)
{
    struct fg_slice head = call->reply_head;
    Fg__Inner__RulesReply *reply = fg__inner__rules_reply__unpack(NULL, head.len, head.ptr);

    if (reply != NULL && reply->start_id == qry_share_start_id(evaluator->share))
        atomic_store(&member->self, true);
    return reply;
}

/* Asks a querier whether it is there. One that does not answer is passed over until it does. */
static void greet(struct qry_rule_evaluator *evaluator, struct fg_peer_set_member *member)
{
    struct fg_call call = {
        .method = FG_RPC_RULES,
        .deadline_mono_ns = fg_time_add(fg_mono_ns(evaluator->querier->clock), GREET_NS),
    };

    if (fg_peer_call(member->peer, &call) == FG_OK)
        fg__inner__rules_reply__free_unpacked(take_head(evaluator, member, &call), NULL);
    else if (call.code == FG_E_UNAVAILABLE || call.code == FG_E_DEADLINE)
        fg_call_is_late(&call);
    fg_call_done(member->peer, &call);
}

static bool is_stopping(struct qry_rule_evaluator *evaluator)
{
    bool stopping;

    (void)pthread_mutex_lock(&evaluator->lock);
    stopping = evaluator->stopping;
    (void)pthread_mutex_unlock(&evaluator->lock);
    return stopping;
}

static void greet_all(struct qry_rule_evaluator *evaluator)
{
    struct fg_peer_set *set = evaluator->set;

    for (uint32_t i = 0; set != NULL && i < set->n; i++)
        if (!atomic_load(&set->members[i].self) && !is_stopping(evaluator))
            greet(evaluator, &set->members[i]);
    (void)pthread_mutex_lock(&evaluator->lock);
    evaluator->greeted = true;
    (void)pthread_mutex_unlock(&evaluator->lock);
}

static void tick(void *arg)
{
    struct qry_rule_evaluator *evaluator = arg;
    int64_t now_mono_ns = fg_mono_ns(evaluator->querier->clock);

    if (evaluator->share != NULL)
        evaluator->set = fg_peer_directory_get(qry_share_queriers(evaluator->share));
    /* Ends of evaluations wake the thread, too. */
    if (evaluator->round_mono_ns == 0 || now_mono_ns - evaluator->round_mono_ns >= ROUND_NS) {
        evaluator->round_mono_ns = now_mono_ns;
        greet_all(evaluator);
        if (!is_stopping(evaluator))
            follow_record(evaluator);
    }
    evaluate_due(evaluator);
    fg_peer_set_unref(evaluator->set);
    evaluator->set = NULL;
}

static enum fg_code check_head(const Fg__Inner__RulesHead *head, struct fg_err *err)
{
    if (head == NULL || head->minute_ns < 0 || head->minute_ns % FG_MINUTE_NS != 0)
        return fg_fail(err, FG_E_INVALID, "not a minute of a tenant's recording rules");
    if (head->tenant.len == 0) /* a greeting */
        return FG_OK;
    return fg_tenant_check(fg_bytes(head->tenant.data, head->tenant.len), err);
}

/* Evaluates for another querier. A minute that is not over by the clock here is refused: values of
 * half a minute would stay in the cache, and the other querier evaluates it itself. */
static enum fg_code serve_minute(struct qry_rule_evaluator *evaluator, struct fg_rpc_request *req,
                                 const Fg__Inner__RulesHead *head, struct fg_err *err)
{
    struct evaluation_run *run;

    if (head->minute_ns > newest_minute(evaluator))
        return fg_fail(err, FG_E_UNAVAILABLE, "the minute is not over by this querier's clock");
    run = run_create(evaluator, fg_bytes(head->tenant.data, head->tenant.len), head->minute_ns,
                     fg_rpc_deadline_mono_ns(req));
    run->req = run->query.caller = req;
    fg_rpc_let_cancel(req, head->cancel_key);
    if (submit_run(run, err) != FG_OK) {
        run_destroy(run);
        return err->code;
    }
    return FG_OK;
}

/* A thread of the transport. */
static void handle_rules(struct fg_rpc_request *req, void *arg)
{
    struct qry_rule_evaluator *evaluator = arg;
    struct fg_slice bytes = fg_rpc_head(req);
    Fg__Inner__RulesHead *head = fg__inner__rules_head__unpack(NULL, bytes.len, bytes.ptr);
    struct fg_buf nothing;
    struct fg_err err;
    enum fg_code code = check_head(head, &err);

    fg_buf_init(&nothing, 0);
    if (code == FG_OK && head->tenant.len == 0)
        send_reply(evaluator, req, false, (struct fg_slice){0}, &nothing);
    else if (code == FG_OK)
        code = serve_minute(evaluator, req, head, &err);
    if (code != FG_OK)
        fg_rpc_reply_error(req, &err);
    fg__inner__rules_head__free_unpacked(head, NULL);
}

/* ---- scrapes ---- */

void qry_rule_evaluator_scraped(struct qry_rule_evaluator *evaluator, struct fg_slice tenant)
{
    if (evaluator == NULL)
        return;
    (void)pthread_mutex_lock(&evaluator->lock);
    /* Beyond RULE_TENANTS_MAX tenants scrapes evaluate their rules, as they do at first. */
    (void)qry_rule_schedule_scraped(&evaluator->schedule, tenant,
                                    fg_wall_ns(evaluator->querier->clock));
    (void)pthread_mutex_unlock(&evaluator->lock);
}

/* Waits for the reply. Returns false if the query ends before it, as with its client. */
static bool wait_for_reply(struct qry_query *query, struct qry_sent_call *sent)
{
    struct fg_err err;

    while (!qry_calls_has_ended(sent)) {
        if (qry_query_check(query, &err) != FG_OK)
            return false;
        qry_calls_wait(sent->calls, 0, fg_mono_ns(fg_clock_real()) + LOOK_EVERY_NS);
    }
    return true;
}

static bool ask_member(const struct qry_rule_evaluator *evaluator, struct qry_query *query,
                       int64_t minute_ns, struct fg_peer_set_member *member)
{
    const struct fg_slice tenant = query->tenants.ids[0];
    int64_t now_mono_ns = fg_mono_ns(query->querier->clock);
    Fg__Inner__RulesHead head = FG__INNER__RULES_HEAD__INIT;
    Fg__Inner__RulesReply *reply = NULL;
    struct qry_calls *calls = qry_calls_create(&query->querier->pending);
    struct qry_sent_call *sent;
    uint8_t bytes[FG_TENANT_MAX_BYTES + 32];
    bool answered;

    head.tenant = (ProtobufCBinaryData){tenant.len, (uint8_t *)(uintptr_t)tenant.ptr};
    head.minute_ns = minute_ns;
    head.cancel_key = qry_calls_cancel_key();
    fg_assert(fg__inner__rules_head__get_packed_size(&head) <= sizeof bytes);
    sent = qry_calls_send(
        calls, member->peer,
        &(struct qry_calls_request){
            .method = FG_RPC_RULES,
            .head = fg_bytes(bytes, fg__inner__rules_head__pack(&head, bytes)),
            .cancel_key = head.cancel_key,
            /* The other half is for an evaluation here. */
            .deadline_mono_ns = now_mono_ns + (query->deadline_mono_ns - now_mono_ns) / 2,
            .reply_max_bytes = query->querier->answer_max_bytes});
    if (wait_for_reply(query, sent) && sent->call.code == FG_OK)
        reply = take_head(evaluator, member, &sent->call);
    answered = reply != NULL && !reply->unavailable;
    if (answered) {
        fg_buf_put(&query->body, sent->call.reply_payload);
        if (reply->missing.len > 0)
            qry_query_lacks(query, fg_bytes(reply->missing.data, reply->missing.len));
    }
    fg__inner__rules_reply__free_unpacked(reply, NULL);
    qry_calls_leave(calls);
    return answered;
}

bool qry_rule_evaluator_ask(struct qry_rule_evaluator *evaluator, struct qry_query *query,
                            int64_t minute_ns)
{
    struct fg_peer_set_member *owner;
    struct fg_peer_set *set = NULL;
    bool greeted, own, answered;

    if (evaluator == NULL)
        return false;
    (void)pthread_mutex_lock(&evaluator->lock);
    greeted = evaluator->greeted;
    (void)pthread_mutex_unlock(&evaluator->lock);
    if (evaluator->share != NULL && greeted)
        set = fg_peer_directory_get(qry_share_queriers(evaluator->share));
    own = is_own(evaluator, set, query->tenants.ids[0], &owner);
    answered = !own && ask_member(evaluator, query, minute_ns, owner);
    fg_peer_set_unref(set);
    fg_metric_add(evaluator->metrics,
                  own        ? SCRAPES_OWN
                  : answered ? SCRAPES_OWNER
                             : SCRAPES_FALLBACK,
                  1);
    return answered;
}

/* ---- life ---- */

enum fg_code qry_rule_evaluator_create(const struct qry_rule_evaluator_config *config,
                                       struct qry_rule_evaluator **ret_evaluator,
                                       struct fg_err *err)
{
    struct qry_rule_evaluator *evaluator = fg_new(struct qry_rule_evaluator);

    evaluator->querier = config->querier;
    evaluator->share = config->share;
    evaluator->metrics =
        fg_metrics_register(config->registry, evaluator_metrics, FG_COUNT(evaluator_metrics));
    /* The other workers are for scrapes and people. */
    evaluator->running_max = FG_MAX(fg_work_threads(config->querier->work, FG_LANE_QUERY) / 2, 1U);
    fg_assert(pthread_mutex_init(&evaluator->lock, NULL) == 0);
    if (fg_ticker_create(&(struct fg_ticker_config){"rules", ROUND_NS, tick, evaluator},
                         &evaluator->ticker, err) != FG_OK) {
        qry_rule_evaluator_destroy(evaluator);
        return err->code;
    }
    if (config->server != NULL)
        fg_rpc_server_handle(config->server, FG_RPC_RULES, handle_rules, evaluator);
    *ret_evaluator = evaluator;
    return FG_OK;
}

void qry_rule_evaluator_stop(struct qry_rule_evaluator *evaluator)
{
    if (evaluator == NULL)
        return;
    (void)pthread_mutex_lock(&evaluator->lock);
    evaluator->stopping = true;
    (void)pthread_mutex_unlock(&evaluator->lock);
    fg_ticker_destroy(evaluator->ticker);
    evaluator->ticker = NULL;
}

void qry_rule_evaluator_destroy(struct qry_rule_evaluator *evaluator)
{
    if (evaluator == NULL)
        return;
    qry_rule_evaluator_stop(evaluator);
    fg_assert(evaluator->running == 0);
    (void)pthread_mutex_destroy(&evaluator->lock);
    qry_rule_schedule_done(&evaluator->schedule);
    free(evaluator);
}
