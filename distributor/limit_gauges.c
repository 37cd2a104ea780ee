#include "distributor/limit_gauges.h"

#include <math.h>
#include <stdlib.h>

enum {
    GAUGES_MAX = 100, /* as many tenants as other metrics by tenant have */
    NAME_MAX_BYTES = 300,
};

static const double LEAST = 0.5; /* of a limit */

/* clang-format off */
#define GAUGES_METRICS(M) \
    M(GAUGE, GAUGES_PROCESSES, "flamegrid_distributor_distributors", "Distributors among which limits of tenants are divided, by what this one has heard")
/* clang-format on */
FG_METRICS_ENUM(gauges_metric, GAUGES_METRICS)
FG_METRICS_TABLE(gauges_metrics, GAUGES_METRICS)

/* clang-format off */
#define NEAR_NAME "flamegrid_tenant_limit_used_ratio{tenant=\"%s\",limit=\"%s\"}"
#define NEAR_METRICS(M) \
    M(FRACTION, NEAR_USED, NEAR_NAME, "Share of a limit that a tenant has used, of the tenants that have used most and at least half, all distributors together")
/* clang-format on */
FG_METRICS_TABLE(near_metrics, NEAR_METRICS) /* templates */

/* A tenant that is near a limit. */
struct limit_gauge {
    char tenant[FG_TENANT_MAX_BYTES + 1];
    const char *limit;
    double used;
};

/* The table of shown tenants. It is replaced when other tenants come near a limit. */
struct dist_limit_gauges {
    struct fg_registry *registry;
    struct fg_quotas *quotas;
    struct fg_clock *clock;
    struct fg_metrics *own, *shown; /* shown NULL: none is near */
    struct limit_gauge near[GAUGES_MAX], next[GAUGES_MAX];
    uint32_t n_near, n_next;
    char *names[GAUGES_MAX]; /* of the gauges that are shown */
    struct fg_metric_def defs[GAUGES_MAX];
};

struct dist_limit_gauges *dist_limit_gauges_create(struct fg_registry *registry,
                                                   struct fg_quotas *quotas, struct fg_clock *clock)
{
    struct dist_limit_gauges *gauges = fg_new(struct dist_limit_gauges);

    gauges->registry = registry;
    gauges->quotas = quotas;
    gauges->clock = clock;
    gauges->own = fg_metrics_register(registry, gauges_metrics, FG_COUNT(gauges_metrics));
    return gauges;
}

static void hide(struct dist_limit_gauges *gauges)
{
    if (gauges->shown != NULL)
        fg_metrics_unregister(gauges->registry, gauges->shown);
    gauges->shown = NULL;
    for (uint32_t i = 0; i < GAUGES_MAX; i++)
        free(fg_take(gauges->names[i]));
}

void dist_limit_gauges_destroy(struct dist_limit_gauges *gauges)
{
    if (gauges == NULL)
        return;
    hide(gauges);
    free(gauges);
}

/* Keeps the tenants that have used most, in the order of their share. */
static void add(struct dist_limit_gauges *gauges, const char *tenant, const char *limit,
                double used)
{
    uint32_t at = gauges->n_next;

    if (!(used >= LEAST))
        return;
    while (at > 0 && gauges->next[at - 1].used < used) {
        if (at < GAUGES_MAX)
            gauges->next[at] = gauges->next[at - 1];
        at--;
    }
    if (at == GAUGES_MAX)
        return;
    (void)snprintf(gauges->next[at].tenant, sizeof gauges->next[at].tenant, "%s", tenant);
    gauges->next[at].limit = limit;
    gauges->next[at].used = used;
    gauges->n_next = FG_MIN(gauges->n_next + 1, (uint32_t)GAUGES_MAX);
}

static void add_quota(void *arg, const char *tenant, double used)
{
    add(arg, tenant, "ingestion_limit", used);
}

/* In the order of names, so that a tenant that passes another one changes no table. */
static int by_name(const void *a, const void *b)
{
    const struct limit_gauge *left = a, *right = b;
    int order = strcmp(left->tenant, right->tenant);

    return order != 0 ? order : strcmp(left->limit, right->limit);
}

static bool are_same(const struct dist_limit_gauges *gauges)
{
    if (gauges->n_near != gauges->n_next)
        return false;
    for (uint32_t i = 0; i < gauges->n_near; i++)
        if (by_name(&gauges->near[i], &gauges->next[i]) != 0)
            return false;
    return true;
}

/* Names of tenants have no character that a label's value would have to escape
 * (common/model/tenant_id.h). */
static void show(struct dist_limit_gauges *gauges)
{
    hide(gauges);
    for (uint32_t i = 0; i < gauges->n_next; i++) {
        char *name = fg_malloc(NAME_MAX_BYTES);

        (void)snprintf(name, NAME_MAX_BYTES, NEAR_NAME, gauges->next[i].tenant,
                       gauges->next[i].limit);
        gauges->names[i] = name;
        gauges->defs[i] = near_metrics[0];
        gauges->defs[i].name = name;
    }
    if (gauges->n_next > 0)
        gauges->shown = fg_metrics_register(gauges->registry, gauges->defs, gauges->n_next);
}

void dist_limit_gauges_set(struct dist_limit_gauges *gauges, uint32_t processes,
                           const struct fg_rate_demand *demands, uint32_t n)
{
    fg_metric_set(gauges->own, GAUGES_PROCESSES, processes);
    gauges->n_next = 0;
    for (uint32_t i = 0; i < n; i++)
        add(gauges, demands[i].tenant, "ingestion_rate_mb", demands[i].used);
    fg_quotas_each(gauges->quotas, fg_wall_ns(gauges->clock), add_quota, gauges);
    qsort(gauges->next, gauges->n_next, sizeof *gauges->next, by_name);
    if (!are_same(gauges))
        show(gauges);
    memcpy(gauges->near, gauges->next, sizeof gauges->near);
    gauges->n_near = gauges->n_next;
    for (uint32_t i = 0; i < gauges->n_near; i++)
        fg_metric_set_fraction(gauges->shown, i, (int64_t)lround(1e9 * gauges->near[i].used));
}
