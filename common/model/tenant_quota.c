#include "common/model/tenant_quota.h"

#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/time.h"
#include "common/runtime/config.h"

#include <pthread.h>
#include <time.h>

enum { HOUR_S = 3600, DAY_S = 24 * HOUR_S, WEEK_S = 7 * DAY_S };

static const int64_t MONDAY_S = 4 * (int64_t)DAY_S; /* 1970 began on a Thursday */

/* ---- the setting ---- */

struct quota_settings {
    unsigned period;
    double limit_mb;
};

static const struct fg_conf_field quota_fields[] = {
    {"period_type", FG_CONF_ENUM, FG_CONF_AT(struct quota_settings, period), .def = "hour",
     .choices = FG_QUOTA_PERIODS, .doc = "Period."},
    {"period_limit_mb", FG_CONF_FLOAT, FG_CONF_AT(struct quota_settings, limit_mb), .def = "0",
     .min = "0", .max = "1000000000000", .doc = "MiB in a period."},
};

enum fg_code fg_quota_parse(struct fg_slice yaml, const char *name,
                            struct fg_quota_limit *ret_limit, struct fg_err *err)
{
    struct quota_settings settings = {.period = FG_QUOTA_HOUR};
    struct fg_conf_section section = {"", quota_fields, FG_COUNT(quota_fields), &settings};
    struct fg_conf conf = {.sections = &section, .n_sections = 1};

    if (yaml.len > 0 && fg_conf_parse_yaml(&conf, yaml, name, err) != FG_OK)
        return err->code;
    *ret_limit = (struct fg_quota_limit){(uint64_t)(settings.limit_mb * 1024 * 1024),
                                         (enum fg_quota_period)settings.period};
    return FG_OK;
}

/* ---- periods ---- */

static int64_t first_of_month(int year, int month)
{
    struct tm date = {.tm_year = year, .tm_mon = month, .tm_mday = 1};

    return timegm(&date);
}

struct fg_quota_span fg_quota_span(enum fg_quota_period period, int64_t wall_s)
{
    static const int64_t lengths[] = {
        [FG_QUOTA_HOUR] = HOUR_S, [FG_QUOTA_DAY] = DAY_S, [FG_QUOTA_WEEK] = WEEK_S};
    int64_t shift_s = period == FG_QUOTA_WEEK ? WEEK_S - MONDAY_S : 0, start_s;

    wall_s = FG_MAX(wall_s, INT64_C(0));
    if (period == FG_QUOTA_MONTH) {
        time_t time = wall_s;
        struct tm date;

        (void)gmtime_r(&time, &date);
        return (struct fg_quota_span){first_of_month(date.tm_year, date.tm_mon),
                                      first_of_month(date.tm_year, date.tm_mon + 1)};
    }
    start_s = wall_s - (wall_s + shift_s) % lengths[period];
    return (struct fg_quota_span){start_s, start_s + lengths[period]};
}

/* ---- counts ---- */

struct period_count {
    char *tenant;
    struct fg_quota_span span;
    uint64_t limit; /* as it was last */
    uint64_t own;   /* counted by this process */
    uint64_t other; /* by all others, as it was told */
    bool asked;     /* was checked since the others were asked about it */
};

struct fg_quotas {
    const char *setting;
    pthread_mutex_t lock; /* of all fields; held for one tenant, or for a report */
    struct period_count *counts;
    uint32_t n, cap;
    uint32_t next; /* where the next report begins */
    int64_t swept_wall_s;
    struct fg_map map;
};

struct fg_quotas *fg_quotas_create(const char *setting)
{
    struct fg_quotas *quotas = fg_new(struct fg_quotas);

    quotas->setting = setting;
    (void)pthread_mutex_init(&quotas->lock, NULL);
    return quotas;
}

void fg_quotas_destroy(struct fg_quotas *quotas)
{
    if (quotas == NULL)
        return;
    for (uint32_t i = 0; i < quotas->n; i++)
        free(quotas->counts[i].tenant);
    free(quotas->counts);
    fg_map_done(&quotas->map);
    (void)pthread_mutex_destroy(&quotas->lock);
    free(quotas);
}

const char *fg_quotas_setting(const struct fg_quotas *quotas)
{
    return quotas->setting;
}

static struct period_count *find(struct fg_quotas *quotas, struct fg_slice tenant, uint64_t hash)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&quotas->map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&quotas->map, &walk))
        if (fg_slice_is(tenant, quotas->counts[i].tenant))
            return &quotas->counts[i];
    return NULL;
}

/* Forgets counts of periods that have ended: no more than once a second, since names of tenants may
 * be a client's invention. */
static void sweep(struct fg_quotas *quotas, int64_t wall_s)
{
    uint32_t kept = 0;

    if (wall_s == quotas->swept_wall_s)
        return;
    quotas->swept_wall_s = wall_s;
    fg_map_clear(&quotas->map);
    for (uint32_t i = 0; i < quotas->n; i++) {
        const struct period_count count = quotas->counts[i];

        if (count.span.end_s <= wall_s) {
            free(count.tenant);
            continue;
        }
        fg_map_add(&quotas->map, fg_hash64_table(fg_cstr(count.tenant)), kept);
        quotas->counts[kept++] = count;
    }
    quotas->n = kept;
}

static struct period_count *add_count(struct fg_quotas *quotas, struct fg_slice tenant,
                                      uint64_t hash)
{
    struct period_count *count;

    if (quotas->n == quotas->cap) {
        quotas->cap = FG_MAX(16, quotas->cap * 2);
        quotas->counts = fg_realloc(quotas->counts, quotas->cap * sizeof *quotas->counts);
    }
    fg_map_add(&quotas->map, hash, quotas->n);
    count = &quotas->counts[quotas->n++];
    *count = (struct period_count){.tenant = fg_malloc(tenant.len + 1)};
    memcpy(count->tenant, tenant.ptr, tenant.len);
    count->tenant[tenant.len] = '\0';
    return count;
}

/* Finds or adds the count of the current period. NULL: there are too many. */
static struct period_count *count_of(struct fg_quotas *quotas, struct fg_slice tenant,
                                     const struct fg_quota_limit *limit,
                                     const struct fg_quota_span *span, int64_t wall_s)
{
    uint64_t hash = fg_hash64_table(tenant);
    struct period_count *count = find(quotas, tenant, hash);

    if (count == NULL && quotas->n == quotas->cap)
        sweep(quotas, wall_s);
    if (count == NULL && quotas->n < FG_QUOTA_TENANTS_MAX)
        count = add_count(quotas, tenant, hash);
    if (count != NULL &&
        (count->span.start_s != span->start_s || count->span.end_s != span->end_s)) {
        count->span = *span;
        count->own = count->other = 0;
    }
    if (count != NULL)
        count->limit = limit->bytes;
    return count;
}

static enum fg_code refuse(const char *setting, struct fg_slice tenant,
                           const struct fg_quota_limit *limit, const struct fg_quota_span *span,
                           struct fg_err *err)
{
    static const char *const names[] = {"hour", "day", "week", "month"};
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double amount = (double)limit->bytes / 1024;
    time_t end = span->end_s;
    size_t unit = 0;
    char text[32];
    struct tm date;

    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &date));
    for (; amount >= 1024 && unit + 1 < FG_COUNT(units); unit++)
        amount /= 1024;
    return fg_fail(err, FG_E_LIMIT,
                   "limit of %.1f %s/%s reached, next reset at %s (tenant \"%.*s\", "
                   "limits.%s)",
                   amount, units[unit], names[limit->period], text, FG_S(tenant), setting);
}

enum fg_code fg_quotas_check(struct fg_quotas *quotas, struct fg_slice tenant,
                             const struct fg_quota_limit *limit, int64_t now_wall_ns,
                             struct fg_quota_use *ret_use, struct fg_err *err)
{
    int64_t wall_s = now_wall_ns / FG_SECOND_NS;
    struct fg_quota_use use = {.span = fg_quota_span(limit->period, wall_s)};
    struct period_count *count;

    (void)pthread_mutex_lock(&quotas->lock);
    count = count_of(quotas, tenant, limit, &use.span, wall_s);
    if (count != NULL) {
        count->asked = true;
        use.bytes = count->own + count->other;
    }
    (void)pthread_mutex_unlock(&quotas->lock);
    *ret_use = use;
    return use.bytes < limit->bytes ? FG_OK
                                    : refuse(quotas->setting, tenant, limit, &use.span, err);
}

void fg_quotas_add(struct fg_quotas *quotas, struct fg_slice tenant,
                   const struct fg_quota_limit *limit, uint64_t bytes, int64_t now_wall_ns)
{
    int64_t wall_s = now_wall_ns / FG_SECOND_NS;
    struct fg_quota_span span = fg_quota_span(limit->period, wall_s);
    struct period_count *count;

    (void)pthread_mutex_lock(&quotas->lock);
    count = count_of(quotas, tenant, limit, &span, wall_s);
    if (count != NULL) {
        count->own += bytes;
        count->asked = true;
    }
    (void)pthread_mutex_unlock(&quotas->lock);
}

void fg_quotas_each(struct fg_quotas *quotas, int64_t now_wall_ns,
                    void (*each)(void *arg, const char *tenant, double used), void *arg)
{
    (void)pthread_mutex_lock(&quotas->lock);
    for (uint32_t i = 0; i < quotas->n; i++) {
        const struct period_count *count = &quotas->counts[i];

        if (count->limit > 0 && count->span.end_s > now_wall_ns / FG_SECOND_NS)
            each(arg, count->tenant,
                 ((double)count->own + (double)count->other) / (double)count->limit);
    }
    (void)pthread_mutex_unlock(&quotas->lock);
}

/* ---- what processes tell each other ---- */

uint32_t fg_quotas_report(struct fg_quotas *quotas, struct fg_quota_count *counts, uint32_t max)
{
    uint32_t n = 0;

    (void)pthread_mutex_lock(&quotas->lock);
    for (uint32_t seen = 0; seen < quotas->n && n < max; seen++) {
        const struct period_count *count;

        quotas->next = quotas->next + 1 < quotas->n ? quotas->next + 1 : 0;
        count = &quotas->counts[quotas->next];
        if (!count->asked)
            continue;
        counts[n] = (struct fg_quota_count){.span = count->span, .own = count->own};
        (void)snprintf(counts[n].tenant, sizeof counts[n].tenant, "%s", count->tenant);
        n++;
    }
    (void)pthread_mutex_unlock(&quotas->lock);
    return n;
}

void fg_quotas_apply(struct fg_quotas *quotas, const struct fg_quota_count *counts, uint32_t n)
{
    (void)pthread_mutex_lock(&quotas->lock);
    for (uint32_t i = 0; i < n; i++) {
        struct fg_slice tenant = fg_cstr(counts[i].tenant);
        struct period_count *count = find(quotas, tenant, fg_hash64_table(tenant));

        if (count == NULL || count->span.start_s != counts[i].span.start_s)
            continue;
        /* What all have counted only grows: an older answer, or one of somebody who has forgotten,
         * takes nothing back. */
        if (counts[i].all > counts[i].own)
            count->other = FG_MAX(count->other, counts[i].all - counts[i].own);
        count->asked = count->own != counts[i].own;
    }
    (void)pthread_mutex_unlock(&quotas->lock);
}
