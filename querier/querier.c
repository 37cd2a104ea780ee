#include "querier/querier.h"

#include "common/runtime/log.h"
#include "querier/blocks/blocks.h"
#include "querier/http.h"
#include "querier/query_quota.h"
#include "querier/replicas/replicas.h"
#include "querier/rules/rule_evaluator.h"
#include "querier/rules/rule_minute.h"
#include "querier/together.h"
#include "querier/ui.h"
#include "querier/usage_counts.h"

enum {
    ANSWER_MAX_BYTES_DEFAULT = 256 * 1024 * 1024,
    ADHOC_FILE_COPIES = 3, /* of an ad hoc profile: its text, bytes, and what the client sent */
};

/* A folder that is wrong, or no thread, must not keep anybody from asking. */
static void count_usage(struct querier *querier, const struct qry_config *config)
{
    const struct qry_usage_counts_config usage = {.bucket = config->bucket,
                                                  .clock = config->clock,
                                                  .registry = config->registry,
                                                  .spool = config->usage_spool,
                                                  .interval_ns = config->usage_interval_ns};
    struct fg_err err;

    if (qry_usage_counts_create(&usage, &querier->usage, &err) != FG_OK)
        fg_log_error("queries are not counted for bills until the next start",
                     fg_ls("err", err.msg));
}

struct querier *qry_create(const struct qry_config *config)
{
    struct querier *querier = fg_new(struct querier);
    struct fg_err err;

    querier->ring = config->ring;
    querier->peers = config->peers;
    querier->ingester = config->ingester;
    querier->hedge_after_ns = config->hedge_after_ns;
    qry_calls_pending_init(&querier->pending);
    querier->work = config->work;
    querier->tenants = config->tenants;
    querier->clock = config->clock;
    querier->audit = config->audit;
    /* Counters of all routes exist from the start, so that rates have a first value. */
    querier->metrics = qry_http_register(config->registry);
    querier->replicas_metrics = qry_replicas_register(config->registry);
    /* Defaults for callers without settings: tests, and `bucket export`. */
    querier->timeout_ns = config->timeout_ns > 0 ? config->timeout_ns : 60 * FG_SECOND_NS;
    querier->answer_max_bytes =
        config->answer_max_bytes > 0 ? config->answer_max_bytes : ANSWER_MAX_BYTES_DEFAULT;
    querier->refine_max_bytes = config->refine_max_bytes;
    querier->adhoc_upload_max_bytes = config->adhoc_upload_max_bytes;
    querier->adhoc_decode_max_bytes = config->adhoc_decode_max_bytes;
    querier->uploads = config->uploads;
    /* Never less than one request needs: it would be told to try again forever. */
    fg_budget_init(&querier->adhoc_memory,
                   FG_MAX(config->adhoc_memory_max_bytes,
                          2 * config->adhoc_decode_max_bytes +
                              ADHOC_FILE_COPIES * config->adhoc_upload_max_bytes));
    querier->instance_labels =
        config->instance_labels != NULL ? config->instance_labels : QRY_INSTANCE_LABELS_DEFAULT;
    querier->embed_origins = config->embed_origins != NULL ? config->embed_origins : "";
    /* Without a bucket ingesters are all there is, as in tests of replicas. */
    if (config->bucket != NULL)
        querier->blocks = qry_blocks_create(&(struct qry_blocks_config){
            .bucket = config->bucket,
            .clock = config->clock,
            .registry = config->registry,
            .conditions = config->conditions,
            .cache_max_bytes = config->cache_max_bytes,
            .fetch_max_bytes = config->fetch_max_bytes,
            .memory_max_bytes = querier->answer_max_bytes,
            .manifest_age_ns = config->manifest_age_ns,
            .disk = config->disk,
            .shared = config->tenants != NULL && fg_tenants_are_several(config->tenants),
        });
    querier->together = qry_together_create(qry_http_submit);
    querier->rules = qry_rules_create(config->registry);
    querier->rules_delay_ns = config->rules_delay_ns;
    if (config->bucket != NULL && config->usage_interval_ns > 0)
        count_usage(querier, config);
    if (config->tenants != NULL) {
        querier->quotas = fg_quotas_create("query_bytes_per_hour");
        /* Queries do not depend on the thread that divides the limit. */
        if (qry_quota_create(querier, config->registry, &querier->quota, &err) != FG_OK)
            fg_log_error(
                "limits.query_bytes_per_hour holds for this querier alone until the next start",
                fg_ls("err", err.msg));
    }
    return querier;
}

enum fg_code qry_start(struct querier *querier, struct qry_share *share,
                       struct fg_rpc_server *server, struct fg_registry *registry,
                       struct fg_err *err)
{
    return qry_rule_evaluator_create(
        &(struct qry_rule_evaluator_config){
            .querier = querier, .share = share, .server = server, .registry = registry},
        &querier->rule_evaluator, err);
}

void qry_stop(struct querier *querier)
{
    if (querier == NULL)
        return;
    atomic_store(&querier->stopping, true);
    qry_rule_evaluator_stop(querier->rule_evaluator);
}

void qry_destroy(struct querier *querier)
{
    if (querier == NULL)
        return;
    /* Abandoned calls outlive their queries: wait for them before the caller destroys the peers. */
    qry_calls_pending_done(&querier->pending);
    qry_quota_destroy(querier->quota); /* which asks ingesters */
    fg_quotas_destroy(querier->quotas);
    qry_usage_counts_destroy(querier->usage);
    qry_rule_evaluator_destroy(querier->rule_evaluator);
    qry_rules_destroy(querier->rules);
    qry_together_destroy(querier->together);
    qry_blocks_destroy(querier->blocks);
    free(querier->bindings);
    free(querier);
}

void qry_refresh(struct querier *querier)
{
    if (querier->blocks != NULL)
        qry_blocks_refresh(querier->blocks);
}

void qry_routes(struct querier *querier, struct fg_http_server *server)
{
    qry_http_routes(querier, server);
    qry_ui_routes(server, querier->embed_origins);
}
