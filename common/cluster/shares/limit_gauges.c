#include "common/cluster/shares/limit_gauges.h"

#include <math.h>
#include <stdlib.h>

enum {
    GAUGES_MAX = 100, /* as many tenants as other metrics by tenant have */
    NAME_MAX_BYTES = 300,
};

static const double LEAST = 0.5; /* of a limit */

/* clang-format off */
#define NEAR_NAME "flamegrid_tenant_limit_used_ratio{tenant=\"%s\",limit=\"%s\"}"
#define NEAR_METRICS(M) \
    M(FRACTION, NEAR_USED, NEAR_NAME, "Share of a limit that a tenant has used, of the tenants that have used most and at least half, all processes together")
/* clang-format on */
FG_METRICS_TABLE(near_metrics, NEAR_METRICS) /* templates */

/* A tenant that is near a limit. */
struct limit_gauge {
    char tenant[FG_TENANT_MAX_BYTES + 1];
    const char *limit;
    double used;
};

/* The table of shown tenants. It is replaced when other tenants come near a limit. */
struct fg_limit_gauges {
    struct fg_registry *registry;
    struct fg_metrics *shown; /* NULL: none is near */
    struct limit_gauge near[GAUGES_MAX], next[GAUGES_MAX];
    uint32_t n_near, n_next;
    char *names[GAUGES_MAX]; /* of the gauges that are shown */
    struct fg_metric_def defs[GAUGES_MAX];
};

struct fg_limit_gauges *fg_limit_gauges_create(struct fg_registry *registry)
{
    struct fg_limit_gauges *gauges = fg_new(struct fg_limit_gauges);

    gauges->registry = registry;
    return gauges;
}

static void hide(struct fg_limit_gauges *gauges)
{
    if (gauges->shown != NULL)
        fg_metrics_unregister(gauges->registry, gauges->shown);
    gauges->shown = NULL;
    for (uint32_t i = 0; i < GAUGES_MAX; i++)
        free(fg_take(gauges->names[i]));
}

void fg_limit_gauges_destroy(struct fg_limit_gauges *gauges)
{
    if (gauges == NULL)
        return;
    hide(gauges);
    free(gauges);
}

/* Keeps the tenants that have used most, in the order of their share. */
void fg_limit_gauges_add(struct fg_limit_gauges *gauges, const char *tenant, const char *limit,
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

/* What fg_quotas_each() passes on. */
struct quota_walk {
    struct fg_limit_gauges *gauges;
    const char *limit;
};

static void add_quota(void *arg, const char *tenant, double used)
{
    const struct quota_walk *walk = arg;

    fg_limit_gauges_add(walk->gauges, tenant, walk->limit, used);
}

void fg_limit_gauges_add_quotas(struct fg_limit_gauges *gauges, struct fg_quotas *quotas,
                                int64_t now_wall_ns)
{
    struct quota_walk walk = {gauges, fg_quotas_setting(quotas)};

    fg_quotas_each(quotas, now_wall_ns, add_quota, &walk);
}

/* In the order of names, so that a tenant that passes another one changes no table. */
static int by_name(const void *a, const void *b)
{
    const struct limit_gauge *left = a, *right = b;
    int order = strcmp(left->tenant, right->tenant);

    return order != 0 ? order : strcmp(left->limit, right->limit);
}

static bool are_same(const struct fg_limit_gauges *gauges)
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
static void replace(struct fg_limit_gauges *gauges)
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

void fg_limit_gauges_show(struct fg_limit_gauges *gauges)
{
    qsort(gauges->next, gauges->n_next, sizeof *gauges->next, by_name);
    if (!are_same(gauges))
        replace(gauges);
    memcpy(gauges->near, gauges->next, sizeof gauges->near);
    gauges->n_near = gauges->n_next;
    for (uint32_t i = 0; i < gauges->n_near; i++)
        fg_metric_set_fraction(gauges->shown, i, (int64_t)lround(1e9 * gauges->near[i].used));
    gauges->n_next = 0;
}
