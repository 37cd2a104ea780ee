#include "querier/rules/rule_minute.h"

#include "common/storage/cache/cache.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/rules/expose.h"

/* Values of the last minutes. Ten thousand series are about 2 MiB. */
enum { CACHE_MAX_BYTES = 64 * 1024 * 1024 };

enum {
    WAITS_MAX = 3, /* for others that compute the same */
    /* After so many rules in a row that had to wait in vain for ingesters or the bucket the others
     * are not tried: a worker would wait for each. */
    AWAY_MAX = 3,
    /* An agent that could not send for a while has done so by then, and the values of the minute
     * are still in the cache. */
    LATE_AFTER_MINUTES = 10,
};

#define RULE_METRICS(M)                                                                            \
    M(COUNTER, RULES_EVALUATED, "flamegrid_querier_rule_evaluations_total{result=\"complete\"}",   \
      "Recording rules evaluated for a minute, by result")                                         \
    M(COUNTER, RULES_FAILED, "flamegrid_querier_rule_evaluations_total{result=\"failed\"}",        \
      "Recording rules evaluated for a minute, by result")                                         \
    M(COUNTER, RULES_CACHED, "flamegrid_querier_rule_evaluations_total{result=\"cached\"}",        \
      "Recording rules evaluated for a minute, by result")                                         \
    M(COUNTER, RULES_SERIES, "flamegrid_querier_rule_series_total",                                \
      "Series computed by recording rules")                                                        \
    M(COUNTER, RULES_DROPPED, "flamegrid_querier_rule_series_dropped_total",                       \
      "Series of recording rules that exceeded a budget and were added up or left out")            \
    M(COUNTER, RULES_LATE, "flamegrid_querier_rule_late_profiles_total",                           \
      "Profiles that arrived after their minute was evaluated, and within ten minutes of its "     \
      "end, "                                                                                      \
      "summed over rules")                                                                         \
    M(HISTOGRAM, RULES_SECONDS, "flamegrid_querier_rule_evaluation_duration_seconds",              \
      "Duration of evaluations of a recording rule")
FG_METRICS_ENUM(rule_metric, RULE_METRICS)
FG_METRICS_TABLE(rule_metrics, RULE_METRICS)

struct qry_rules {
    struct fg_cache *cache; /* values by tenant, rule and minute */
    struct fg_metrics *metrics;
};

struct qry_rules *qry_rules_create(struct fg_registry *registry)
{
    struct qry_rules *rules = fg_new(struct qry_rules);

    rules->cache = fg_cache_create(CACHE_MAX_BYTES, fg_clock_real());
    rules->metrics = fg_metrics_register(registry, rule_metrics, FG_COUNT(rule_metrics));
    return rules;
}

void qry_rules_destroy(struct qry_rules *rules)
{
    if (rules == NULL)
        return;
    fg_cache_destroy(rules->cache);
    free(rules);
}

enum fg_code qry_rules_of_tenant(const struct qry_query *query, struct qry_tenant_rules *ret,
                                 struct fg_err *err)
{
    const struct qry_blocks *blocks = query->querier->blocks;
    struct fg_limits *limits;

    if (query->tenants.n != 1)
        return fg_fail(err, FG_E_INVALID,
                       "recording rules are those of one tenant, not of several");
    limits = fg_tenants_limits(query->querier->tenants, query->tenants.ids[0]);
    *ret = (struct qry_tenant_rules){
        .store = {.bucket = blocks == NULL ? NULL : blocks->bucket,
                  .tenant = query->tenants.ids[0],
                  .arena = query->arena,
                  .rules_max = limits->values.max_recording_rules,
                  .deadline_mono_ns = query->deadline_mono_ns},
        .series_max = limits->values.max_recording_rule_series,
    };
    fg_limits_unref(limits);
    return FG_OK;
}

/* A rule on its way into the text. */
struct scraped_rule {
    struct qry_rule rule;
    struct fg_cache_entry *entry; /* has its values; NULL: there are none */
};

struct scrape {
    struct qry_query *query;
    struct qry_tenant_rules tenant;
    int64_t minute_ns;
    struct qry_exposed_rule *exposed; /* sorted by the names of metrics */
    struct scraped_rule *rules;       /* of the same indexes */
    size_t n;
    size_t bytes;     /* of values that are kept for the text */
    unsigned n_away;  /* rules in a row that failed because ingesters or the bucket are away */
    bool unavailable; /* some rule failed so */
};

/* Names values by all that they depend on: who asks cannot make two of the same name. */
static struct fg_cache_key key_of(const struct scrape *scrape,
                                  const Settings__V1__RecordingRule *message, int64_t minute_ns,
                                  size_t series_max)
{
    struct fg_cache_key key = {0};
    struct fg_buf bytes;
    size_t len = protobuf_c_message_get_packed_size(&message->base);

    fg_buf_init(&bytes, SIZE_MAX);
    fg_buf_lenbytes(&bytes, scrape->query->tenants.ids[0]);
    fg_buf_le64(&bytes, (uint64_t)minute_ns);
    fg_buf_le64(&bytes, series_max);
    (void)fg_buf_reserve(&bytes, len + 1);
    bytes.len += protobuf_c_message_pack(&message->base, bytes.ptr + bytes.len);
    key.object = fg_hash128_seed(fg_buf_slice(&bytes), fg_hash_seed());
    fg_buf_done(&bytes);
    return key;
}

static void destroy_values(void *values)
{
    qry_rule_values_destroy(values);
}

/* Counts the profiles that came too late for the values of an earlier minute, if these are known
 * here. A number less never fails a rule. */
static void count_late(struct scrape *scrape, const struct qry_rule *rule, size_t series_max,
                       struct qry_rule_values *values)
{
    const struct qry_query *query = scrape->query;
    const struct qry_rules *rules = query->querier->rules;
    int64_t minute_ns = scrape->minute_ns - LATE_AFTER_MINUTES * FG_MINUTE_NS;
    struct fg_cache_key key = key_of(scrape, rule->message, minute_ns, series_max);
    enum fg_cache_state state;
    struct fg_err err;
    uint64_t now;
    bool mine;
    struct fg_cache_entry *entry = fg_cache_open(rules->cache, &key, query->flow.id, &state, &mine);

    if (mine)
        fg_cache_fail(entry); /* it was not evaluated, and is not now */
    if (!mine && state == FG_CACHE_READY &&
        qry_rule_count(scrape->query, rule, minute_ns, &now, &err) == FG_OK) {
        const struct qry_rule_values *then = fg_cache_value(entry);

        /* There may be fewer: deletions. */
        values->knows_late = true;
        values->late = now - FG_MIN(now, then->profiles);
        fg_metric_add(rules->metrics, RULES_LATE, values->late);
    }
    fg_cache_unref(entry);
}

/* Computes the values of an entry that is ours to fill. */
static enum fg_code fill_entry(struct scrape *scrape, const struct qry_rule *rule,
                               size_t series_max, struct fg_cache_entry *entry, struct fg_err *err)
{
    const struct qry_rules *rules = scrape->query->querier->rules;
    struct qry_rule_values *values;

    if (qry_rule_evaluate(scrape->query, rule, scrape->minute_ns, series_max, &values, err) !=
        FG_OK) {
        fg_cache_fail(entry);
        fg_metric_add(rules->metrics, RULES_FAILED, 1);
        return err->code;
    }
    fg_metric_add(rules->metrics, RULES_EVALUATED, 1);
    fg_metric_add(rules->metrics, RULES_SERIES, values->n);
    fg_metric_add(rules->metrics, RULES_DROPPED, values->n_rest);
    fg_metric_observe_ns(rules->metrics, RULES_SECONDS, values->took_ns);
    count_late(scrape, rule, series_max, values);
    fg_cache_fill(entry, values, sizeof *values + fg_arena_used_bytes(values->arena),
                  destroy_values);
    return FG_OK;
}

/* Takes the values out of the cache, or computes them. */
static enum fg_code take_values(struct scrape *scrape, const struct qry_rule *rule,
                                size_t series_max, struct fg_cache_entry **ret_entry,
                                struct fg_err *err)
{
    const struct qry_query *query = scrape->query;
    const struct qry_rules *rules = query->querier->rules;
    struct fg_cache_key key = key_of(scrape, rule->message, scrape->minute_ns, series_max);

    for (unsigned i = 0; i < WAITS_MAX; i++) {
        enum fg_cache_state state;
        bool mine;
        struct fg_cache_entry *entry =
            fg_cache_open(rules->cache, &key, query->flow.id, &state, &mine);

        if (mine && fill_entry(scrape, rule, series_max, entry, err) != FG_OK) {
            fg_cache_unref(entry);
            return err->code;
        }
        if (!mine && state == FG_CACHE_LOADING)
            state = fg_cache_wait(
                entry,
                FG_MAX(query->deadline_mono_ns - fg_mono_ns(query->querier->clock), INT64_C(0)));
        if (mine || state == FG_CACHE_READY) {
            fg_metric_add(rules->metrics, RULES_CACHED, !mine);
            *ret_entry = entry;
            return FG_OK;
        }
        fg_cache_unref(entry);
    }
    return fg_fail(err, FG_E_UNAVAILABLE, "others compute the same and do not succeed");
}

/* The same order on all queriers, since the budget of series is given out in it. */
static int by_metric(const void *left, const void *right)
{
    const Settings__V1__RecordingRule *a = *(Settings__V1__RecordingRule *const *)left,
                                      *b = *(Settings__V1__RecordingRule *const *)right;
    int order = strcmp(a->metric_name, b->metric_name);

    return order != 0 ? order : strcmp(a->id, b->id);
}

static enum fg_code read_rules(struct scrape *scrape, struct fg_err *err)
{
    Settings__V1__ListRecordingRulesResponse *all;
    struct fg_arena *arena = scrape->query->arena;

    if (qry_rule_store_list(&scrape->tenant.store, &all, err) != FG_OK)
        return err->code;
    scrape->exposed = fg_arena_new(arena, struct qry_exposed_rule, all->n_rules);
    scrape->rules = fg_arena_new(arena, struct scraped_rule, all->n_rules);
    if (scrape->exposed == NULL || scrape->rules == NULL)
        return qry_query_too_large(err);
    /* The lines of a metric have to be together. */
    if (all->n_rules > 0)
        qsort(all->rules, all->n_rules, sizeof(void *), by_metric);
    for (size_t i = 0; i < all->n_rules; i++)
        scrape->exposed[i].message = all->rules[i];
    scrape->n = all->n_rules;
    return FG_OK;
}

/* Values of all rules are kept until the text is written, so they have a bound together. */
static enum fg_code keep_values(struct scrape *scrape, const struct scraped_rule *rule,
                                struct fg_err *err)
{
    const struct qry_rule_values *values = fg_cache_value(rule->entry);
    size_t bytes = fg_arena_used_bytes(values->arena);

    if (bytes > scrape->query->querier->answer_max_bytes - scrape->bytes)
        return fg_fail(err, FG_E_LIMIT,
                       "the values of all rules exceed %llu bytes (querier.answer_max_bytes)",
                       (unsigned long long)scrape->query->querier->answer_max_bytes);
    scrape->bytes += bytes;
    return FG_OK;
}

static enum fg_code evaluate(struct scrape *scrape, size_t i, size_t series_max, struct fg_err *err)
{
    struct scraped_rule *rule = &scrape->rules[i];
    enum fg_code code;

    if (scrape->n_away == AWAY_MAX)
        return fg_fail(err, FG_E_UNAVAILABLE, "not evaluated: earlier rules of the tenant failed");
    if (qry_rule_read(scrape->exposed[i].message, scrape->query->arena, &rule->rule, err) != FG_OK)
        return err->code;
    code = take_values(scrape, &rule->rule, series_max, &rule->entry, err);
    qry_rule_done(&rule->rule); /* the text needs no regular expression, which may be large */
    return code == FG_OK ? keep_values(scrape, rule, err) : code;
}

/* Evaluates a rule. One that fails has no values, and the others do not suffer from it. */
static void scrape_rule(struct scrape *scrape, size_t i, size_t series_max)
{
    struct qry_exposed_rule *exposed = &scrape->exposed[i];
    const char *why;
    struct fg_err err;

    if (evaluate(scrape, i, series_max, &err) != FG_OK) {
        scrape->n_away += err.code == FG_E_UNAVAILABLE && scrape->n_away < AWAY_MAX;
        scrape->unavailable |= err.code == FG_E_UNAVAILABLE || err.code == FG_E_DEADLINE;
        /* Says why: in the text, and in the headers and the log as of any incomplete answer. */
        why = fg_arena_printf(scrape->query->arena, "rule %s: %s", exposed->message->id, err.msg);
        exposed->error = why == NULL ? "no memory" : why;
        qry_query_lacks(scrape->query, fg_cstr(exposed->error));
        return;
    }
    exposed->rule = &scrape->rules[i].rule;
    exposed->values = fg_cache_value(scrape->rules[i].entry);
    scrape->n_away = 0;
}

/*
 * Evaluates all rules within the tenant's budget of series. Each rule may have an equal part of it,
 * and what those before it left of theirs. So the budget also bounds the memory of a scrape.
 */
static enum fg_code scrape_rules(struct scrape *scrape, struct fg_err *err)
{
    size_t each = scrape->tenant.series_max / FG_MAX(scrape->n, (size_t)1), left = 0;

    for (size_t i = 0; i < scrape->n; i++) {
        if (qry_query_check(scrape->query, err) == FG_E_CANCELED)
            return err->code; /* what was computed stays in the cache */
        left += each;
        scrape_rule(scrape, i, left);
        if (scrape->exposed[i].values != NULL)
            left -= scrape->exposed[i].values->n;
    }
    return FG_OK;
}

static enum fg_code evaluate_all(struct scrape *scrape, bool text, struct fg_err *err)
{
    struct qry_query *query = scrape->query;

    if (qry_rules_of_tenant(query, &scrape->tenant, err) != FG_OK ||
        read_rules(scrape, err) != FG_OK || scrape_rules(scrape, err) != FG_OK)
        return err->code;
    if (!text)
        return FG_OK;
    qry_expose(scrape->exposed, scrape->n, scrape->minute_ns, &query->body);
    if (query->body.full)
        return fg_fail(err, FG_E_LIMIT, "the metrics exceed %llu bytes (querier.answer_max_bytes)",
                       (unsigned long long)query->querier->answer_max_bytes);
    return FG_OK;
}

enum fg_code qry_rules_evaluate(struct qry_query *query, int64_t minute_ns, bool text,
                                bool *ret_unavailable, struct fg_err *err)
{
    struct scrape scrape = {.query = query, .minute_ns = minute_ns};
    enum fg_code code = evaluate_all(&scrape, text, err);

    for (size_t i = 0; i < scrape.n; i++)
        fg_cache_unref(scrape.rules[i].entry);
    *ret_unavailable = scrape.unavailable;
    return code;
}
