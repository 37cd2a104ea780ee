#include "deploy/single/past.h"

#include "common/access/access.h"
#include "querier/export.h"

/* Symbols and pages of the parts of one slice of time. */
enum { CACHE_MAX_BYTES = 32 * 1024 * 1024 };

struct single_past {
    struct ing_past reader;
    struct ingester *ingester;
    struct fg_access *access;
    struct fg_registry *registry; /* of its own: it shows nothing */
    struct querier *querier;
};

static enum fg_code commit(void *arg, int64_t deadline_mono_ns, struct fg_err *err)
{
    struct single_past *past = arg;
    enum fg_code code = ing_flush(past->ingester, deadline_mono_ns, err);

    qry_refresh(past->querier);
    return code;
}

static enum fg_code tenants(void *arg, int64_t deadline_mono_ns, struct fg_arena *arena,
                            struct fg_slice **ret_names, size_t *ret_n, struct fg_err *err)
{
    struct single_past *past = arg;
    size_t kept = 0;

    if (qry_export_tenants(past->querier, deadline_mono_ns, arena, ret_names, ret_n, err) != FG_OK)
        return err->code;
    /* A tenant that is deleted has its data until the compactor comes to it. */
    for (size_t i = 0; i < *ret_n; i++)
        if (!fg_access_has_deleted(past->access, (*ret_names)[i]))
            (*ret_names)[kept++] = (*ret_names)[i];
    *ret_n = kept;
    return FG_OK;
}

static struct qry_export export_of(const struct ing_past_range *range)
{
    return (struct qry_export){
        .tenant = range->tenant,
        .selector = "{}",
        .start_ms = range->start_ms,
        .end_ms = range->end_ms,
        .deadline_mono_ns = range->deadline_mono_ns,
        .partial = range->partial,
    };
}

static enum fg_code count(void *arg, const struct ing_past_range *range,
                          struct ing_past_counts *ret_counts, struct fg_err *err)
{
    struct single_past *past = arg;
    const struct qry_export what = export_of(range);
    struct qry_export_counts counts;

    if (qry_export_count(past->querier, &what, &counts, err) != FG_OK)
        return err->code;
    *ret_counts = (struct ing_past_counts){counts.profiles, counts.lost};
    return FG_OK;
}

static enum fg_code visit(void *arg, const struct ing_past_range *range, ing_past_visit each,
                          void *each_arg, struct fg_err *err)
{
    struct single_past *past = arg;
    const struct qry_export what = export_of(range);

    if (fg_access_has_deleted(past->access, range->tenant)) /* while its turn lasted */
        return FG_OK;
    return qry_export_batches(past->querier, &what, each, each_arg, err);
}

struct single_past *single_past_create(struct ingester *ingester, struct fg_bucket *bucket,
                                       struct fg_access *access,
                                       const struct qry_settings *settings)
{
    struct single_past *past = fg_new(struct single_past);

    past->reader = (struct ing_past){commit, tenants, count, visit, past};
    past->ingester = ingester;
    past->access = access;
    past->registry = fg_registry_create();
    past->querier = qry_create(&(struct qry_config){
        .registry = past->registry,
        .clock = fg_clock_real(),
        .answer_max_bytes = settings->answer_max_bytes,
        .bucket = bucket,
        .cache_max_bytes = FG_MIN(settings->cache_max_bytes, (uint64_t)CACHE_MAX_BYTES),
        .fetch_max_bytes = settings->fetch_max_bytes,
        .manifest_age_ns = settings->manifest_age_ns,
    });
    return past;
}

const struct ing_past *single_past_reader(const struct single_past *past)
{
    return past == NULL ? NULL : &past->reader;
}

void single_past_destroy(struct single_past *past)
{
    if (past == NULL)
        return;
    qry_destroy(past->querier);
    fg_registry_destroy(past->registry);
    free(past);
}
