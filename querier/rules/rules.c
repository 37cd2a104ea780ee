#include "querier/rules/rules.h"

#include "common/base/str.h"
#include "common/base/timespec.h"
#include "querier/reply.h"
#include "querier/rules/rule.h"
#include "querier/rules/rule_evaluator.h"
#include "querier/rules/rule_minute.h"
#include "querier/rules/rule_schedule_core.h"

/* ---- the service ---- */

/* Trims an id. FG_E_INVALID: it is empty. */
static enum fg_code read_id(const struct qry_query *query, const char *id, const char **ret_id,
                            struct fg_err *err)
{
    *ret_id = fg_arena_text(query->arena, fg_trim(fg_cstr(id)));
    if (*ret_id == NULL)
        return fg_fail(err, FG_E_LIMIT, "id is too long");
    return (*ret_id)[0] == '\0' ? fg_fail(err, FG_E_INVALID, "id is required") : FG_OK;
}

static enum fg_code get_rule(struct qry_query *query, const ProtobufCMessage *in,
                             struct fg_err *err)
{
    Settings__V1__GetRecordingRuleResponse out;
    struct qry_tenant_rules tenant;
    const char *id;

    settings__v1__get_recording_rule_response__init(&out);
    if (read_id(query, ((const Settings__V1__GetRecordingRuleRequest *)in)->id, &id, err) !=
            FG_OK ||
        qry_rules_of_tenant(query, &tenant, err) != FG_OK ||
        qry_rule_store_get(&tenant.store, id, &out.rule, err) != FG_OK)
        return err->code;
    return qry_reply_message(query, &out.base, err);
}

static enum fg_code list_rules(struct qry_query *query, const ProtobufCMessage *in,
                               struct fg_err *err)
{
    Settings__V1__ListRecordingRulesResponse *all;
    struct qry_tenant_rules tenant;

    (void)in;
    if (qry_rules_of_tenant(query, &tenant, err) != FG_OK ||
        qry_rule_store_list(&tenant.store, &all, err) != FG_OK)
        return err->code;
    return qry_reply_message(query, &all->base, err);
}

static enum fg_code upsert_rule(struct qry_query *query, const ProtobufCMessage *in,
                                struct fg_err *err)
{
    Settings__V1__UpsertRecordingRuleResponse out;
    Settings__V1__RecordingRule rule;
    const Settings__V1__UpsertRecordingRuleRequest *request =
        (const Settings__V1__UpsertRecordingRuleRequest *)in;
    struct qry_tenant_rules tenant;
    enum fg_code code;

    if (qry_rule_of_request(request, query->arena, &rule, err) != FG_OK ||
        qry_rules_of_tenant(query, &tenant, err) != FG_OK)
        return err->code;
    code = request->id[0] == '\0' ? qry_rule_store_create(&tenant.store, &rule, err)
                                  : qry_rule_store_put(&tenant.store, &rule, err);
    if (code != FG_OK)
        return code;
    settings__v1__upsert_recording_rule_response__init(&out);
    out.rule = &rule;
    return qry_reply_message(query, &out.base, err);
}

static enum fg_code delete_rule(struct qry_query *query, const ProtobufCMessage *in,
                                struct fg_err *err)
{
    Settings__V1__DeleteRecordingRuleResponse out;
    struct qry_tenant_rules tenant;
    const char *id;

    if (read_id(query, ((const Settings__V1__DeleteRecordingRuleRequest *)in)->id, &id, err) !=
        FG_OK)
        return err->code == FG_E_INVALID ? fg_wrap(err, "invalid request") : err->code;
    if (qry_rules_of_tenant(query, &tenant, err) != FG_OK ||
        qry_rule_store_delete(&tenant.store, id, err) != FG_OK)
        return err->code;
    settings__v1__delete_recording_rule_response__init(&out);
    return qry_reply_message(query, &out.base, err);
}

/* ---- metrics ---- */

/* Finds the minute: the last one that was over at `until`, by default rules_delay_ns ago. */
static enum fg_code read_minute(const struct qry_query *query, int64_t *ret_minute_ns,
                                struct fg_err *err)
{
    struct fg_slice until = query->params.until;
    int64_t now_ns = fg_wall_ns(query->querier->clock),
            newest_ns = now_ns - query->querier->rules_delay_ns, end_ns = newest_ns,
            oldest_ns = qry_query_oldest_ns(query);

    if (until.len > 0 && !fg_timespec_parse(until, now_ns, &end_ns))
        return fg_fail(err, FG_E_INVALID, "until: \"%.*s\" is no time", FG_S(until));
    if (query->lookback_ns > 0)
        oldest_ns = FG_MAX(oldest_ns, now_ns - query->lookback_ns);
    if (end_ns > newest_ns)
        return fg_fail(err, FG_E_INVALID,
                       "until: \"%.*s\" is later than %lld s ago (querier.rules_delay)",
                       FG_S(until), (long long)(query->querier->rules_delay_ns / FG_SECOND_NS));
    if (end_ns < FG_MINUTE_NS || end_ns - 2 * FG_MINUTE_NS < oldest_ns)
        return fg_fail(err, FG_E_INVALID, "until: \"%.*s\" is before all profiles that are kept",
                       FG_S(until));
    *ret_minute_ns = qry_rule_minute(end_ns);
    return FG_OK;
}

static enum fg_code metrics(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    struct qry_tenant_rules tenant;
    int64_t minute_ns = 0;
    bool unavailable;

    (void)in;
    if (qry_rules_of_tenant(query, &tenant, err) != FG_OK ||
        read_minute(query, &minute_ns, err) != FG_OK)
        return err->code;
    /* Who asks for another minute fills a gap, and does not come again. */
    if (query->params.until.len == 0)
        qry_rule_evaluator_scraped(query->querier->rule_evaluator, query->tenants.ids[0]);
    query->content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (qry_rule_evaluator_ask(query->querier->rule_evaluator, query, minute_ns))
        return FG_OK;
    return qry_rules_evaluate(query, minute_ns, true, &unavailable, err);
}

/* ---- routes ---- */

/* clang-format off */
const struct qry_endpoint qry_rule_endpoints[] = {
    {"/settings.v1.RecordingRulesService/GetRecordingRule", "GetRecordingRule", &settings__v1__get_recording_rule_request__descriptor, get_rule, 0, true},
    {"/settings.v1.RecordingRulesService/ListRecordingRules", "ListRecordingRules", &settings__v1__list_recording_rules_request__descriptor, list_rules, 0, true},
    {"/settings.v1.RecordingRulesService/UpsertRecordingRule", "UpsertRecordingRule", &settings__v1__upsert_recording_rule_request__descriptor, upsert_rule, FG_SCOPE_RULES, true},
    {"/settings.v1.RecordingRulesService/DeleteRecordingRule", "DeleteRecordingRule", &settings__v1__delete_recording_rule_request__descriptor, delete_rule, FG_SCOPE_RULES, true},
};
const size_t qry_n_rule_endpoints = FG_COUNT(qry_rule_endpoints);

const struct qry_endpoint qry_scraped_endpoints[] = {
    {"/api/metrics", "metrics", NULL, metrics, 0, true},
};
/* clang-format on */
const size_t qry_n_scraped_endpoints = FG_COUNT(qry_scraped_endpoints);
