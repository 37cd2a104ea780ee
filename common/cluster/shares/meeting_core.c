#include "common/cluster/shares/meeting_core.h"

#include "common/base/envelope.h"
#include "common/base/hash.h"
#include "common/base/map.h"

#include <math.h>

enum {
    GONE = 0, /* the process that stands for those that are gone */
    /* Of a tenant: of its limit and of the one that this replaced, the current period and, by
     * clocks that are ahead, the next. */
    PERIODS_MAX = 4,
};

static const int64_t SWEEP_NS = FG_MINUTE_NS;
static const double DEMAND_MAX = 1e15; /* bytes per second: sums stay exact */

static const struct fg_envelope envelope = {
    .what = "counts of tenants", .magic = "FGLC", .version = 1, .max_bytes = FG_MEETING_MAX_BYTES};

struct demand {
    uint64_t process;
    double bytes_per_s;
    int64_t at_mono_ns;
};

struct count {
    uint64_t process;
    uint64_t bytes;
};

/* Counts never move from one period to another: a process whose clock is ahead, or that has read a
 * new limit before the others, begins a period next to theirs. */
struct period {
    struct fg_quota_span span;
    int64_t at_mono_ns; /* when it was heard of last */
    struct count *counts;
    uint32_t n_counts;
};

struct tenant {
    char *name;
    struct demand *demands;
    struct period *periods;
    uint32_t n_demands, n_periods;
};

struct process {
    uint64_t id;
    int64_t at_mono_ns; /* when it was heard last */
};

struct fg_meeting {
    struct tenant *tenants;
    uint32_t n_tenants, cap_tenants;
    struct fg_map map;
    struct process processes[FG_MEETING_PROCESSES_MAX];
    uint32_t n_processes;
    int64_t swept_mono_ns;
    uint64_t changes;
};

struct fg_meeting *fg_meeting_create(void)
{
    return fg_new(struct fg_meeting);
}

static void tenant_done(struct tenant *tenant)
{
    free(tenant->name);
    free(tenant->demands);
    for (uint32_t i = 0; i < tenant->n_periods; i++)
        free(tenant->periods[i].counts);
    free(tenant->periods);
}

void fg_meeting_destroy(struct fg_meeting *meeting)
{
    if (meeting == NULL)
        return;
    for (uint32_t i = 0; i < meeting->n_tenants; i++)
        tenant_done(&meeting->tenants[i]);
    free(meeting->tenants);
    fg_map_done(&meeting->map);
    free(meeting);
}

/* ---- processes ---- */

static bool is_silent(int64_t at_mono_ns, int64_t now_mono_ns)
{
    return now_mono_ns - at_mono_ns >= FG_MEETING_SILENT_NS;
}

static void forget_silent(struct fg_meeting *meeting, int64_t now_mono_ns)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < meeting->n_processes; i++)
        if (!is_silent(meeting->processes[i].at_mono_ns, now_mono_ns))
            meeting->processes[kept++] = meeting->processes[i];
    meeting->n_processes = kept;
}

static bool takes_part(const struct fg_meeting *meeting, uint64_t process)
{
    for (uint32_t i = 0; i < meeting->n_processes; i++)
        if (meeting->processes[i].id == process)
            return true;
    return false;
}

void fg_meeting_join(struct fg_meeting *meeting, uint64_t process, int64_t now_mono_ns)
{
    uint32_t i = 0;

    if (process == GONE)
        return;
    forget_silent(meeting, now_mono_ns);
    while (i < meeting->n_processes && meeting->processes[i].id != process)
        i++;
    if (i == FG_MEETING_PROCESSES_MAX)
        return;
    meeting->processes[i] = (struct process){process, now_mono_ns};
    meeting->n_processes = FG_MAX(meeting->n_processes, i + 1);
}

uint32_t fg_meeting_processes(struct fg_meeting *meeting, int64_t now_mono_ns)
{
    forget_silent(meeting, now_mono_ns);
    return meeting->n_processes;
}

/* ---- tenants ---- */

static void forget_demands(struct tenant *tenant, int64_t now_mono_ns)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < tenant->n_demands; i++)
        if (!is_silent(tenant->demands[i].at_mono_ns, now_mono_ns))
            tenant->demands[kept++] = tenant->demands[i];
    tenant->n_demands = kept;
}

static void forget_periods(struct tenant *tenant, int64_t now_wall_s)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < tenant->n_periods; i++)
        if (tenant->periods[i].span.end_s > now_wall_s)
            tenant->periods[kept++] = tenant->periods[i];
        else
            free(tenant->periods[i].counts);
    tenant->n_periods = kept;
}

/* Forgets tenants of which nothing counts any more. */
static void sweep(struct fg_meeting *meeting, int64_t now_mono_ns, int64_t now_wall_s)
{
    uint32_t kept = 0;

    /* It visits all tenants, which is too much for each call. */
    if (now_mono_ns - meeting->swept_mono_ns < SWEEP_NS)
        return;
    meeting->swept_mono_ns = now_mono_ns;
    fg_map_clear(&meeting->map);
    for (uint32_t i = 0; i < meeting->n_tenants; i++) {
        struct tenant tenant = meeting->tenants[i];

        forget_demands(&tenant, now_mono_ns);
        forget_periods(&tenant, now_wall_s);
        if (tenant.n_demands == 0 && tenant.n_periods == 0) {
            tenant_done(&tenant);
            continue;
        }
        fg_map_add(&meeting->map, fg_hash64_table(fg_cstr(tenant.name)), kept);
        meeting->tenants[kept++] = tenant;
    }
    meeting->n_tenants = kept;
}

static struct tenant *find(const struct fg_meeting *meeting, struct fg_slice name)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&meeting->map, fg_hash64_table(name), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&meeting->map, &walk))
        if (fg_slice_is(name, meeting->tenants[i].name))
            return &meeting->tenants[i];
    return NULL;
}

/* NULL: there is no room. */
static struct tenant *add_tenant(struct fg_meeting *meeting, struct fg_slice name)
{
    struct tenant *tenant;

    if (meeting->n_tenants == FG_MEETING_TENANTS_MAX)
        return NULL;
    if (meeting->n_tenants == meeting->cap_tenants) {
        meeting->cap_tenants = FG_MAX(16, meeting->cap_tenants * 2);
        meeting->tenants =
            fg_realloc(meeting->tenants, meeting->cap_tenants * sizeof *meeting->tenants);
    }
    fg_map_add(&meeting->map, fg_hash64_table(name), meeting->n_tenants);
    tenant = &meeting->tenants[meeting->n_tenants++];
    *tenant = (struct tenant){.name = fg_malloc(name.len + 1)};
    memcpy(tenant->name, name.ptr, name.len);
    tenant->name[name.len] = '\0';
    return tenant;
}

static void hear_demand(struct tenant *tenant, uint64_t process, double bytes_per_s,
                        int64_t now_mono_ns)
{
    uint32_t i = 0;

    forget_demands(tenant, now_mono_ns);
    while (i < tenant->n_demands && tenant->demands[i].process != process)
        i++;
    if (i == FG_MEETING_PROCESSES_MAX)
        return;
    if (i == tenant->n_demands)
        tenant->demands =
            fg_realloc(tenant->demands, ++tenant->n_demands * sizeof *tenant->demands);
    tenant->demands[i] = (struct demand){process, bytes_per_s, now_mono_ns};
}

/* ---- counts ---- */

static struct period *find_period(const struct tenant *tenant, const struct fg_quota_span *span)
{
    for (uint32_t i = 0; i < tenant->n_periods; i++)
        if (tenant->periods[i].span.start_s == span->start_s &&
            tenant->periods[i].span.end_s == span->end_s)
            return &tenant->periods[i];
    return NULL;
}

/* Returns the period that was heard of last. NULL: there is none. */
static struct period *latest_period(const struct tenant *tenant)
{
    struct period *latest = NULL;

    for (uint32_t i = 0; i < tenant->n_periods; i++)
        if (latest == NULL || tenant->periods[i].at_mono_ns >= latest->at_mono_ns)
            latest = &tenant->periods[i];
    return latest;
}

/* Begins a period, in place of the one that nobody has spoken of for longest if there are many. */
static struct period *add_period(struct tenant *tenant, const struct fg_quota_span *span)
{
    struct period *period;

    if (tenant->n_periods < PERIODS_MAX) {
        tenant->periods =
            fg_realloc(tenant->periods, ++tenant->n_periods * sizeof *tenant->periods);
        period = &tenant->periods[tenant->n_periods - 1];
    } else {
        period = &tenant->periods[0];
        for (uint32_t i = 1; i < tenant->n_periods; i++)
            if (tenant->periods[i].at_mono_ns < period->at_mono_ns)
                period = &tenant->periods[i];
        free(period->counts);
    }
    *period = (struct period){.span = *span};
    return period;
}

static struct count *count_of(struct period *period, uint64_t process)
{
    for (uint32_t i = 0; i < period->n_counts; i++)
        if (period->counts[i].process == process)
            return &period->counts[i];
    return NULL;
}

/* Saturates: who says such numbers must not wrap a sum around to nothing. */
static uint64_t add_clamped(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Makes one count, the first, of those of processes that are gone. */
static void merge_gone(const struct fg_meeting *meeting, struct period *period)
{
    uint32_t kept = 1;

    for (uint32_t i = 1; i < period->n_counts; i++) {
        struct count count = period->counts[i];

        if (takes_part(meeting, count.process))
            period->counts[kept++] = count;
        else
            /* If it was only silent and comes back, it counts a second time: sums become too large,
             * never too small. */
            period->counts[0].bytes = add_clamped(period->counts[0].bytes, count.bytes);
    }
    period->n_counts = kept;
}

static void append_count(struct period *period, uint64_t process, uint64_t bytes)
{
    period->counts = fg_realloc(period->counts, (period->n_counts + 1) * sizeof *period->counts);
    period->counts[period->n_counts++] = (struct count){process, bytes};
}

static void hear_count(struct fg_meeting *meeting, struct tenant *tenant, uint64_t process,
                       const struct fg_meeting_use *use, int64_t now_mono_ns, int64_t now_wall_s)
{
    struct period *period;
    struct count *count;

    forget_periods(tenant, now_wall_s);
    period = find_period(tenant, &use->span);
    if (period == NULL)
        period = add_period(tenant, &use->span);
    period->at_mono_ns = now_mono_ns;
    if (period->n_counts == 0)
        append_count(period, GONE, 0);
    count = count_of(period, process);
    if (count != NULL && count->bytes >= use->bytes)
        return; /* it is on its way since earlier */
    meeting->changes++;
    if (count != NULL) {
        count->bytes = use->bytes;
        return;
    }
    if (period->n_counts >= FG_MEETING_COUNTS_MAX)
        merge_gone(meeting, period);
    if (period->n_counts < FG_MEETING_PROCESSES_MAX)
        append_count(period, process, use->bytes);
}

/* After each change of a tenant: tables keep to their bounds, and each period has counts, with that
 * of the processes that are gone as the first. */
static void check(const struct fg_meeting *meeting, const struct tenant *tenant)
{
    fg_assert(meeting->n_tenants <= FG_MEETING_TENANTS_MAX &&
              meeting->n_processes <= FG_MEETING_PROCESSES_MAX);
    fg_assert(tenant->n_demands <= FG_MEETING_PROCESSES_MAX && tenant->n_periods <= PERIODS_MAX);
    for (uint32_t i = 0; i < tenant->n_periods; i++) {
        const struct period *period = &tenant->periods[i];

        fg_assert(period->n_counts > 0 && period->n_counts <= FG_MEETING_PROCESSES_MAX &&
                  period->counts[0].process == GONE && period->span.start_s < period->span.end_s);
    }
}

/* ---- what is said, and what comes of it ---- */

static bool has_demand(const struct fg_meeting_use *use)
{
    return isfinite(use->demand) && use->demand > 0 && use->demand <= DEMAND_MAX;
}

static bool has_count(const struct fg_meeting_use *use, int64_t now_wall_s)
{
    const struct fg_quota_span *span = &use->span;

    return span->start_s >= 0 && span->start_s < span->end_s && span->end_s > now_wall_s &&
           span->start_s - FG_MEETING_AHEAD_MAX_S <= now_wall_s;
}

void fg_meeting_hear(struct fg_meeting *meeting, uint64_t process, const struct fg_meeting_use *use,
                     int64_t now_mono_ns, int64_t now_wall_s)
{
    bool demand = has_demand(use), count = has_count(use, now_wall_s);
    struct tenant *tenant;
    struct fg_err err;

    sweep(meeting, now_mono_ns, now_wall_s);
    /* Only what processes say that have joined, whose number is bounded. */
    if ((!demand && !count) || !takes_part(meeting, process) ||
        fg_tenant_check(use->tenant, &err) != FG_OK)
        return;
    tenant = find(meeting, use->tenant);
    if (tenant == NULL)
        tenant = add_tenant(meeting, use->tenant);
    if (tenant == NULL)
        return;
    if (demand)
        hear_demand(tenant, process, use->demand, now_mono_ns);
    if (count)
        hear_count(meeting, tenant, process, use, now_mono_ns, now_wall_s);
    check(meeting, tenant);
}

struct fg_meeting_use fg_meeting_sum(struct fg_meeting *meeting, struct fg_slice name,
                                     const struct fg_quota_span *span, int64_t now_mono_ns)
{
    struct fg_meeting_use sum = {.tenant = name};
    struct tenant *tenant = find(meeting, name);
    const struct period *period;

    if (tenant == NULL)
        return sum;
    forget_demands(tenant, now_mono_ns);
    sum.processes = tenant->n_demands;
    for (uint32_t i = 0; i < tenant->n_demands; i++)
        sum.demand += tenant->demands[i].bytes_per_s;
    period = span->end_s > 0 ? find_period(tenant, span) : latest_period(tenant);
    if (period == NULL)
        return sum;
    sum.span = period->span;
    for (uint32_t i = 0; i < period->n_counts; i++)
        sum.bytes = add_clamped(sum.bytes, period->counts[i].bytes);
    return sum;
}

uint64_t fg_meeting_changes(const struct fg_meeting *meeting)
{
    return meeting->changes;
}

/* ---- the stored value ---- */

static void put_period(const char *tenant, const struct period *period, struct fg_buf *out)
{
    fg_buf_lenbytes(out, fg_cstr(tenant));
    fg_buf_varint(out, (uint64_t)period->span.start_s);
    fg_buf_varint(out, (uint64_t)period->span.end_s);
    fg_buf_varint(out, period->n_counts);
    for (uint32_t i = 0; i < period->n_counts; i++) {
        fg_buf_le64(out, period->counts[i].process);
        fg_buf_varint(out, period->counts[i].bytes);
    }
}

static bool counts_still(const struct period *period, int64_t now_wall_s)
{
    return period->span.end_s > now_wall_s;
}

static uint32_t count_periods(const struct fg_meeting *meeting, int64_t now_wall_s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < meeting->n_tenants; i++)
        for (uint32_t j = 0; j < meeting->tenants[i].n_periods; j++)
            n += counts_still(&meeting->tenants[i].periods[j], now_wall_s);
    return n;
}

enum fg_code fg_meeting_encode(const struct fg_meeting *meeting, int64_t now_wall_s,
                               struct fg_buf *out, struct fg_err *err)
{
    size_t start = out->len;
    struct fg_buf record;

    fg_buf_init(&record, FG_MEETING_MAX_BYTES);
    fg_envelope_begin(&envelope, out);
    fg_buf_varint(out, count_periods(meeting, now_wall_s));
    for (uint32_t i = 0; i < meeting->n_tenants; i++) {
        const struct tenant *tenant = &meeting->tenants[i];

        for (uint32_t j = 0; j < tenant->n_periods; j++) {
            if (!counts_still(&tenant->periods[j], now_wall_s))
                continue;
            fg_buf_clear(&record);
            put_period(tenant->name, &tenant->periods[j], &record);
            fg_buf_lenbytes(out, fg_buf_slice(&record));
        }
    }
    fg_buf_done(&record);
    return fg_envelope_end(&envelope, out, start, err);
}

static void take_period(struct fg_meeting *meeting, struct fg_cur *cur, int64_t now_wall_s)
{
    struct fg_meeting_use use = {.tenant = fg_cur_take(cur, fg_cur_varint(cur))};
    struct tenant *tenant;
    struct fg_err err;
    uint64_t n;

    use.span.start_s = (int64_t)fg_cur_varint(cur);
    use.span.end_s = (int64_t)fg_cur_varint(cur);
    n = fg_cur_varint(cur);
    if (cur->bad || fg_tenant_check(use.tenant, &err) != FG_OK || n > FG_MEETING_PROCESSES_MAX) {
        fg_cur_fail(cur);
        return;
    }
    /* A clock that was set back since is no damage. */
    if (!has_count(&use, now_wall_s))
        return;
    tenant = find(meeting, use.tenant);
    if (tenant == NULL)
        tenant = add_tenant(meeting, use.tenant);
    for (uint64_t i = 0; i < n && tenant != NULL && !cur->bad; i++) {
        uint64_t process = fg_cur_le64(cur);

        use.bytes = fg_cur_varint(cur);
        if (!cur->bad)
            hear_count(meeting, tenant, process, &use, 0, now_wall_s);
        check(meeting, tenant);
    }
}

enum fg_code fg_meeting_decode(struct fg_meeting *meeting, struct fg_slice in, int64_t now_wall_s,
                               struct fg_err *err)
{
    struct fg_cur cur;
    uint64_t n;

    if (fg_envelope_open(&envelope, in, &cur, err) != FG_OK)
        return err->code;
    n = fg_cur_varint(&cur);
    for (uint64_t i = 0; i < n && !cur.bad; i++) {
        struct fg_cur record = fg_cur(fg_cur_take(&cur, fg_cur_varint(&cur)));

        take_period(meeting, &record, now_wall_s);
        cur.bad |= record.bad;
    }
    return cur.bad ? fg_fail(err, FG_E_CORRUPT, "counts of tenants cut short in %zu bytes", in.len)
                   : FG_OK;
}
