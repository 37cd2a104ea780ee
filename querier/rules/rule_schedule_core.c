#include "querier/rules/rule_schedule_core.h"

#include "common/base/search.h"

void qry_rule_schedule_done(struct qry_rule_schedule *schedule)
{
    free(schedule->items);
    *schedule = (struct qry_rule_schedule){0};
}

static size_t place_of(const struct qry_rule_schedule *schedule, struct fg_slice tenant)
{
    return fg_lower_bound(i, (size_t)0, schedule->n,
                          fg_slice_cmp(fg_cstr(schedule->items[i].name), tenant) < 0);
}

static bool is_at(const struct qry_rule_schedule *schedule, size_t at, struct fg_slice tenant)
{
    return at < schedule->n && fg_slice_is(tenant, schedule->items[at].name);
}

/* Finds a tenant, or adds it. NULL: there are too many. */
static struct qry_rule_tenant *have_tenant(struct qry_rule_schedule *schedule,
                                           struct fg_slice tenant)
{
    size_t at = place_of(schedule, tenant);

    fg_assert(tenant.len <= FG_TENANT_MAX_BYTES);
    if (is_at(schedule, at, tenant))
        return &schedule->items[at];
    if (schedule->n == RULE_TENANTS_MAX)
        return NULL;
    if (schedule->n == schedule->capacity) {
        schedule->capacity = FG_MAX(2 * schedule->capacity, (size_t)16);
        schedule->items = fg_realloc(schedule->items, schedule->capacity * sizeof *schedule->items);
    }
    memmove(&schedule->items[at + 1], &schedule->items[at],
            (schedule->n - at) * sizeof *schedule->items);
    schedule->n++;
    schedule->items[at] = (struct qry_rule_tenant){0};
    memcpy(schedule->items[at].name, tenant.ptr, tenant.len);
    return &schedule->items[at];
}

bool qry_rule_schedule_scraped(struct qry_rule_schedule *schedule, struct fg_slice tenant,
                               int64_t now_ns)
{
    struct qry_rule_tenant *found = have_tenant(schedule, tenant);

    if (found != NULL)
        found->scraped_ns = FG_MAX(found->scraped_ns, now_ns);
    return found != NULL;
}

bool qry_rule_schedule_recorded(struct qry_rule_schedule *schedule, struct fg_slice tenant,
                                int64_t scraped_ns)
{
    struct qry_rule_tenant *found = have_tenant(schedule, tenant);

    if (found != NULL)
        found->recorded_ns = FG_MAX(found->recorded_ns, scraped_ns);
    return found != NULL;
}

void qry_rule_schedule_expire(struct qry_rule_schedule *schedule, int64_t now_ns)
{
    size_t kept = 0;

    for (size_t i = 0; i < schedule->n; i++) {
        const struct qry_rule_tenant *tenant = &schedule->items[i];

        if (tenant->running ||
            now_ns - FG_MAX(tenant->scraped_ns, tenant->recorded_ns) < RULE_SCRAPED_NS)
            schedule->items[kept++] = *tenant;
    }
    schedule->n = kept;
}

static bool is_due(const struct qry_rule_tenant *tenant, int64_t newest_ns, int64_t now_ns)
{
    if (tenant->running)
        return false;
    return tenant->minute_ns < newest_ns || (tenant->retry_ns > 0 && tenant->retry_ns <= now_ns);
}

bool qry_rule_schedule_next(struct qry_rule_schedule *schedule, int64_t newest_ns, int64_t now_ns,
                            bool (*owns)(void *arg, struct fg_slice tenant), void *arg,
                            struct qry_rule_turn *ret_turn)
{
    struct qry_rule_tenant *first = NULL;

    for (size_t i = 0; i < schedule->n; i++) {
        struct qry_rule_tenant *tenant = &schedule->items[i];

        if (!is_due(tenant, newest_ns, now_ns))
            continue;
        if (!owns(arg, fg_cstr(tenant->name)))
            tenant->minute_ns = 0;
        else if (first == NULL || tenant->minute_ns < first->minute_ns)
            first = tenant;
    }
    if (first == NULL)
        return false;
    *ret_turn = (struct qry_rule_turn){.minute_ns = newest_ns};
    memcpy(ret_turn->tenant, first->name, sizeof first->name);
    /* A clock that was set back leaves the last minute after the newest one. */
    if (first->minute_ns > 0 && first->minute_ns < newest_ns)
        ret_turn->skipped = (uint64_t)((newest_ns - first->minute_ns) / FG_MINUTE_NS - 1);
    first->minute_ns = newest_ns;
    first->retry_ns = 0;
    first->running = true;
    return true;
}

void qry_rule_schedule_ended(struct qry_rule_schedule *schedule, struct fg_slice tenant, bool again,
                             int64_t now_ns)
{
    size_t at = place_of(schedule, tenant);

    fg_assert(is_at(schedule, at, tenant) && schedule->items[at].running);
    schedule->items[at].running = false;
    schedule->items[at].retry_ns = again ? fg_time_add(now_ns, RULE_RETRY_NS) : 0;
}
