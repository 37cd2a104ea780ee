#include "common/cluster/shares/meeting_core.h"

#include "common/base/envelope.h"
#include "common/base/hash.h"
#include "common/base/map.h"

#include <math.h>

enum {
    AHEAD_MAX_S = 3600, /* of a process's clock */
    GONE = 0,           /* the process that stands for those that are gone */
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

struct tenant {
    char *name;
    struct demand *demands;
    struct count *counts;
    uint32_t n_demands, n_counts;
    struct fg_quota_span span; /* of the counts; end_s 0: there are none */
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
    free(tenant->counts);
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
        if (tenant.span.end_s <= now_wall_s) {
            tenant.n_counts = 0;
            tenant.span = (struct fg_quota_span){0, 0};
        }
        if (tenant.n_demands == 0 && tenant.n_counts == 0) {
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

static struct count *count_of(struct tenant *tenant, uint64_t process)
{
    for (uint32_t i = 0; i < tenant->n_counts; i++)
        if (tenant->counts[i].process == process)
            return &tenant->counts[i];
    return NULL;
}

/* Saturates: who says such numbers must not wrap a sum around to nothing. */
static uint64_t add_clamped(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Makes one count, the first, of those of processes that are gone. */
static void merge_gone(const struct fg_meeting *meeting, struct tenant *tenant)
{
    uint32_t kept = 1;

    for (uint32_t i = 1; i < tenant->n_counts; i++) {
        struct count count = tenant->counts[i];

        if (takes_part(meeting, count.process))
            tenant->counts[kept++] = count;
        else
            /* If it was only silent and comes back, it counts a second time: sums become too large,
             * never too small. */
            tenant->counts[0].bytes = add_clamped(tenant->counts[0].bytes, count.bytes);
    }
    tenant->n_counts = kept;
}

static void append_count(struct tenant *tenant, uint64_t process, uint64_t bytes)
{
    tenant->counts = fg_realloc(tenant->counts, (tenant->n_counts + 1) * sizeof *tenant->counts);
    tenant->counts[tenant->n_counts++] = (struct count){process, bytes};
}

static void hear_count(struct fg_meeting *meeting, struct tenant *tenant, uint64_t process,
                       const struct fg_quota_span *span, uint64_t bytes)
{
    struct count *count;

    if (span->start_s < tenant->span.start_s)
        return; /* of a period that is over here */
    /* A new period, or one of another length because the limit has changed: counts start from
     * zero. */
    if (span->start_s != tenant->span.start_s || span->end_s != tenant->span.end_s) {
        tenant->span = *span;
        tenant->n_counts = 0;
    }
    if (tenant->n_counts == 0)
        append_count(tenant, GONE, 0);
    count = count_of(tenant, process);
    if (count != NULL && count->bytes >= bytes)
        return; /* it is on its way since earlier */
    meeting->changes++;
    if (count != NULL) {
        count->bytes = bytes;
        return;
    }
    if (tenant->n_counts >= FG_MEETING_COUNTS_MAX)
        merge_gone(meeting, tenant);
    if (tenant->n_counts < FG_MEETING_PROCESSES_MAX)
        append_count(tenant, process, bytes);
}

/* After each change of a tenant: tables keep to their bounds, and counts belong to a period, with
 * that of the processes that are gone as the first. */
static void check(const struct fg_meeting *meeting, const struct tenant *tenant)
{
    fg_assert(meeting->n_tenants <= FG_MEETING_TENANTS_MAX &&
              meeting->n_processes <= FG_MEETING_PROCESSES_MAX);
    fg_assert(tenant->n_demands <= FG_MEETING_PROCESSES_MAX &&
              tenant->n_counts <= FG_MEETING_PROCESSES_MAX);
    fg_assert(tenant->n_counts == 0 ||
              (tenant->counts[0].process == GONE && tenant->span.start_s < tenant->span.end_s));
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
           span->start_s - AHEAD_MAX_S <= now_wall_s;
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
        hear_count(meeting, tenant, process, &use->span, use->bytes);
    check(meeting, tenant);
}

struct fg_meeting_use fg_meeting_sum(struct fg_meeting *meeting, struct fg_slice name,
                                     int64_t now_mono_ns)
{
    struct fg_meeting_use sum = {.tenant = name};
    struct tenant *tenant = find(meeting, name);

    if (tenant == NULL)
        return sum;
    forget_demands(tenant, now_mono_ns);
    sum.processes = tenant->n_demands;
    for (uint32_t i = 0; i < tenant->n_demands; i++)
        sum.demand += tenant->demands[i].bytes_per_s;
    sum.span = tenant->span;
    for (uint32_t i = 0; i < tenant->n_counts; i++)
        sum.bytes = add_clamped(sum.bytes, tenant->counts[i].bytes);
    return sum;
}

uint64_t fg_meeting_changes(const struct fg_meeting *meeting)
{
    return meeting->changes;
}

/* ---- the stored value ---- */

static void put_tenant(const struct tenant *tenant, struct fg_buf *out)
{
    fg_buf_lenbytes(out, fg_cstr(tenant->name));
    fg_buf_varint(out, (uint64_t)tenant->span.start_s);
    fg_buf_varint(out, (uint64_t)tenant->span.end_s);
    fg_buf_varint(out, tenant->n_counts);
    for (uint32_t i = 0; i < tenant->n_counts; i++) {
        fg_buf_le64(out, tenant->counts[i].process);
        fg_buf_varint(out, tenant->counts[i].bytes);
    }
}

static bool counts_still(const struct tenant *tenant, int64_t now_wall_s)
{
    return tenant->n_counts > 0 && tenant->span.end_s > now_wall_s;
}

enum fg_code fg_meeting_encode(const struct fg_meeting *meeting, int64_t now_wall_s,
                               struct fg_buf *out, struct fg_err *err)
{
    size_t start = out->len;
    uint32_t n = 0;
    struct fg_buf record;

    for (uint32_t i = 0; i < meeting->n_tenants; i++)
        n += counts_still(&meeting->tenants[i], now_wall_s);
    fg_buf_init(&record, FG_MEETING_MAX_BYTES);
    fg_envelope_begin(&envelope, out);
    fg_buf_varint(out, n);
    for (uint32_t i = 0; i < meeting->n_tenants; i++) {
        if (!counts_still(&meeting->tenants[i], now_wall_s))
            continue;
        fg_buf_clear(&record);
        put_tenant(&meeting->tenants[i], &record);
        fg_buf_lenbytes(out, fg_buf_slice(&record));
    }
    fg_buf_done(&record);
    return fg_envelope_end(&envelope, out, start, err);
}

static void take_tenant(struct fg_meeting *meeting, struct fg_cur *cur, int64_t now_wall_s)
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
        uint64_t process = fg_cur_le64(cur), bytes = fg_cur_varint(cur);

        if (!cur->bad)
            hear_count(meeting, tenant, process, &use.span, bytes);
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

        take_tenant(meeting, &record, now_wall_s);
        cur.bad |= record.bad;
    }
    return cur.bad ? fg_fail(err, FG_E_CORRUPT, "counts of tenants cut short in %zu bytes", in.len)
                   : FG_OK;
}
