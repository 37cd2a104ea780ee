#include "compactor/plan_core.h"

/* A plan on its way. */
struct compaction_planning {
    const struct cmp_plan_config *config;
    const struct cmp_plan_input *input;
    struct fg_arena *arena;
    struct cmp_plan plan;
    uint32_t cap_jobs;
    bool *taken;           /* [n_blocks]: by a job */
    int64_t *late_from_ns; /* [n_ready]: times of segments that are to be merged first */
    int64_t *late_to_ns;
};

/* Blocks that are planned together. */
struct plan_set {
    const struct fg_blocks_entry **items;
    uint32_t count;
};

/* ---- spans ---- */

static int64_t floor_to(int64_t time_ns, int64_t unit_ns)
{
    int64_t rest = time_ns % unit_ns;

    if (rest < 0)
        rest += unit_ns;
    return time_ns < INT64_MIN + rest ? INT64_MIN : time_ns - rest;
}

/* The first and the last unit of time are cut short. */
static struct cmp_plan_span span_at(enum cmp_plan_level level, int64_t unit_ns, int64_t time_ns)
{
    int64_t start_ns = floor_to(time_ns, unit_ns), rest_ns = time_ns % unit_ns;

    if (rest_ns < 0)
        rest_ns += unit_ns;
    return (struct cmp_plan_span){level, start_ns, fg_time_add(time_ns, unit_ns - rest_ns)};
}

struct cmp_plan_span cmp_plan_month_of(int64_t time_ns)
{
    return span_at(PLAN_MONTH, 28 * PLAN_DAY_NS, time_ns);
}

static bool is_over(int64_t end_ns, int64_t delay_ns, int64_t wall_ns)
{
    return wall_ns >= fg_time_add(end_ns, delay_ns);
}

struct cmp_plan_span cmp_plan_span_of(const struct cmp_plan_config *config, int64_t wall_ns,
                                      int64_t time_ns)
{
    struct cmp_plan_span day = span_at(PLAN_DAY, PLAN_DAY_NS, time_ns);

    return is_over(day.end_ns, config->day_delay_ns, wall_ns)
               ? day
               : span_at(PLAN_HOUR, FG_HOUR_NS, time_ns);
}

bool cmp_plan_span_has_block(const struct fg_blocks *blocks, const struct cmp_plan_span *span)
{
    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        if (!blocks->blocks[i].derived && blocks->blocks[i].level == (uint8_t)span->level &&
            blocks->blocks[i].start_ns == span->start_ns)
            return true;
    return false;
}

/* ---- shards ---- */

bool cmp_plan_halve(struct cmp_plan_range range, struct cmp_plan_range halves[2])
{
    unsigned differ = range.first ^ range.last, bits;
    uint32_t mid;

    if (differ == 0)
        return false;
    bits = 31 - (unsigned)__builtin_clz(differ);
    mid = (uint32_t)range.last >> bits << bits;
    halves[0] = (struct cmp_plan_range){range.first, (uint16_t)(mid - 1)};
    halves[1] = (struct cmp_plan_range){(uint16_t)mid, range.last};
    return true;
}

uint32_t cmp_plan_divide(const struct cmp_plan_config *config, enum cmp_plan_level level,
                         uint64_t bytes, struct cmp_plan_range shards,
                         struct cmp_plan_range ranges[PLAN_SHARES_MAX])
{
    uint64_t most = level == PLAN_HOUR ? config->job_max_bytes / 24 : config->job_max_bytes;
    uint32_t n = 1;

    ranges[0] = shards;
    while (bytes / n > most && n * 2 <= PLAN_SHARES_MAX) {
        bool divided = false;

        for (uint32_t i = n; i-- > 0;) { /* from the end: each leaves room for its halves */
            struct cmp_plan_range halves[2] = {ranges[i], ranges[i]};

            divided = cmp_plan_halve(ranges[i], halves) || divided;
            ranges[(size_t)i * 2] = halves[0];
            ranges[(size_t)i * 2 + 1] = halves[1];
        }
        n *= 2;
        if (!divided)
            break;
    }
    /* A single shard is its own half: keeps it once. */
    for (uint32_t i = 1, kept = 1, all = n; i < all; i++) {
        if (ranges[i].first == ranges[kept - 1].first)
            n--;
        else
            ranges[kept++] = ranges[i];
    }
    fg_assert(n >= 1 && n <= PLAN_SHARES_MAX);
    return n;
}

/* ---- jobs ---- */

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "too many blocks to plan for at once");
}

static struct cmp_plan_job *job_add(struct compaction_planning *planning, enum cmp_plan_kind kind,
                                    const char *why)
{
    struct cmp_plan *plan = &planning->plan;

    if (!fg_arena_grow(planning->arena, &plan->jobs, plan->n_jobs, 1, &planning->cap_jobs,
                       sizeof *plan->jobs))
        return NULL;
    plan->jobs[plan->n_jobs] = (struct cmp_plan_job){.kind = kind, .why = why};
    return &plan->jobs[plan->n_jobs++];
}

static int by_id(const void *a, const void *b)
{
    return fg_id_cmp(*(const struct fg_id *)a, *(const struct fg_id *)b);
}

/* The sources of a job. */
static bool job_name(struct compaction_planning *planning, struct cmp_plan_job *job,
                     const struct plan_set *set)
{
    job->blocks = fg_arena_new(planning->arena, struct fg_id, set->count);
    if (job->blocks == NULL)
        return false;
    job->n_blocks = set->count;
    for (uint32_t i = 0; i < set->count; i++) {
        job->blocks[i] = set->items[i]->id;
        job->bytes += set->items[i]->bytes;
    }
    if (set->count > 1)
        qsort(job->blocks, set->count, sizeof *job->blocks, by_id);
    return true;
}

/* Gives the blocks to a job that replaces them: no other job may have them. */
static bool job_take(struct compaction_planning *planning, struct cmp_plan_job *job,
                     const struct plan_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        bool *taken = &planning->taken[set->items[i] - planning->input->blocks->blocks];

        fg_assert(!*taken);
        *taken = true;
    }
    return job_name(planning, job, set);
}

static enum fg_code merge(struct compaction_planning *planning, const struct plan_set *set,
                          const struct cmp_plan_span *span, const char *why, struct fg_err *err)
{
    struct cmp_plan_job *job = job_add(planning, PLAN_MERGE, why);

    if (job == NULL || !job_take(planning, job, set))
        return no_memory(err);
    job->level = span->level;
    job->start_ns = span->start_ns;
    job->end_ns = span->end_ns;
    job->ranges[0] = (struct cmp_plan_range){0, UINT16_MAX};
    job->n_ranges = 1;
    return FG_OK;
}

/* ---- retention ---- */

static enum cmp_plan_trouble trouble_of(const struct compaction_planning *planning,
                                        const struct fg_blocks_entry *block)
{
    const struct cmp_plan_input *input = planning->input;

    return input->troubles == NULL ? PLAN_SOUND : input->troubles[block - input->blocks->blocks];
}

/* One job for all blocks of this fate. */
static enum fg_code plan_drop(struct compaction_planning *planning, enum cmp_retention_fate fate,
                              const char *why, struct fg_err *err)
{
    const struct fg_blocks *blocks = planning->input->blocks;
    struct plan_set set = {
        fg_arena_new(planning->arena, const struct fg_blocks_entry *, blocks->n_blocks), 0};
    struct cmp_plan_job *job;

    if (set.items == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < blocks->n_blocks && set.count < FG_BLOCKS_FROM_MAX; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks[i];

        if (cmp_retention_of(&planning->config->retention, block,
                             trouble_of(planning, block) == PLAN_BROKEN,
                             planning->input->wall_ns) == fate)
            set.items[set.count++] = block;
    }
    if (set.count == 0)
        return FG_OK;
    job = job_add(planning, PLAN_DROP, why);
    if (job == NULL || !job_take(planning, job, &set))
        return no_memory(err);
    job->lost = fate == RETENTION_LOST;
    return FG_OK;
}

/* ---- segments ---- */

uint64_t cmp_plan_segment_bytes(const struct fg_l0_segment *segment, const struct fg_l0_part *part)
{
    if (part->profiles >= segment->profiles)
        return segment->bytes;
    return (uint64_t)((double)segment->bytes * (double)part->profiles / (double)segment->profiles);
}

/* The segment came after its hour was merged, in the following hour: it waits for that hour's
 * merge, where a little data finds a place (job.c). Only within an open day: elsewhere it would be
 * merged with nothing. */
static bool can_wait(const struct compaction_planning *planning,
                     const struct fg_l0_segment *segment, const struct cmp_plan_span *last)
{
    const struct cmp_plan_config *config = planning->config;
    struct cmp_plan_span came = span_at(PLAN_HOUR, FG_HOUR_NS, segment->entered_wall_ns);

    return came.start_ns == last->end_ns && came.start_ns % PLAN_DAY_NS != 0 &&
           is_over(last->end_ns, config->hour_delay_ns, segment->entered_wall_ns) &&
           !is_over(came.end_ns, config->hour_delay_ns, planning->input->wall_ns);
}

static bool is_ready(const struct compaction_planning *planning,
                     const struct fg_l0_segment *segment, const struct fg_l0_part *part)
{
    const struct cmp_plan_config *config = planning->config;
    int64_t wall_ns = planning->input->wall_ns;
    struct cmp_plan_span last = span_at(PLAN_HOUR, FG_HOUR_NS, part->t_max_ns);

    return (is_over(last.end_ns, config->hour_delay_ns, wall_ns) &&
            !can_wait(planning, segment, &last)) ||
           is_over(segment->entered_wall_ns, config->segment_wait_ns, wall_ns) ||
           planning->input->l0->n_segments > FG_L0_SEGMENTS_MAX / 2;
}

/* Adds the segment to the last job, or to a new one if it does not fit. */
static enum fg_code take_segment(struct compaction_planning *planning,
                                 const struct fg_l0_segment *segment, const struct fg_l0_part *part,
                                 struct cmp_plan_job **job, struct fg_err *err)
{
    const struct cmp_plan_config *config = planning->config;
    uint64_t bytes = cmp_plan_segment_bytes(segment, part);

    if (*job == NULL || config->segments_apart || (*job)->n_segments == config->sources_max ||
        (*job)->bytes + bytes > config->job_max_bytes) {
        *job = job_add(planning, PLAN_SEGMENTS, "segments");
        if (*job == NULL)
            return no_memory(err);
        (*job)->segments = fg_arena_new(planning->arena, uint64_t, config->sources_max);
        if ((*job)->segments == NULL)
            return no_memory(err);
    }
    fg_assert((*job)->n_segments < config->sources_max);
    (*job)->segments[(*job)->n_segments++] = segment->generation;
    (*job)->bytes += bytes;
    planning->late_from_ns[planning->plan.n_ready] = part->t_min_ns;
    planning->late_to_ns[planning->plan.n_ready++] = part->t_max_ns;
    return FG_OK;
}

static enum fg_code plan_segments(struct compaction_planning *planning, struct fg_err *err)
{
    const struct fg_l0 *l0 = planning->input->l0;
    uint32_t tenant = fg_l0_tenant(l0, planning->input->blocks->tenant);
    struct cmp_plan_job *job = NULL;

    for (uint32_t i = 0; i < l0->n_segments && tenant != FG_L0_NO_TENANT; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];
        const struct fg_l0_part *part = fg_l0_part(segment, tenant);

        if (part == NULL || fg_blocks_covers(planning->input->blocks, segment->generation))
            continue;
        if (!is_ready(planning, segment, part) ||
            (planning->input->segments_aside != NULL && planning->input->segments_aside[i]))
            planning->plan.n_waiting++;
        else if (take_segment(planning, segment, part, &job, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* ---- blocks of one span ---- */

static uint64_t bytes_of(const struct plan_set *set)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < set->count; i++)
        bytes += set->items[i]->bytes;
    return bytes;
}

static int by_size(const void *a, const void *b)
{
    const struct fg_blocks_entry *left = *(const struct fg_blocks_entry *const *)a;
    const struct fg_blocks_entry *right = *(const struct fg_blocks_entry *const *)b;

    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    return fg_id_cmp(left->id, right->id);
}

/* Takes the smallest blocks, as many as fit into a job. */
static struct plan_set smallest(const struct compaction_planning *planning,
                                const struct plan_set *set)
{
    struct plan_set some = {set->items, 0};
    uint64_t bytes = 0;

    qsort(set->items, set->count, sizeof(void *), by_size);
    while (some.count < set->count && some.count < planning->config->sources_max &&
           bytes + set->items[some.count]->bytes <= planning->config->job_max_bytes)
        bytes += set->items[some.count++]->bytes;
    return some;
}

/* True if it is time to fold the late data, which is all blocks except the largest. set: two or
 * more, sorted by size.
 */
static bool is_late_due(const struct compaction_planning *planning, const struct plan_set *set)
{
    const struct cmp_plan_config *config = planning->config;
    const struct fg_blocks_entry *base = set->items[set->count - 1];
    int64_t oldest_ns = INT64_MAX, newest_ns = INT64_MIN;
    uint64_t late = 0;

    for (uint32_t i = 0; i + 1 < set->count; i++) {
        int64_t made_ns = (int64_t)set->items[i]->id.hi; /* cmp_plan_block_id() */

        late += set->items[i]->profiles;
        oldest_ns = FG_MIN(oldest_ns, made_ns);
        newest_ns = FG_MAX(newest_ns, made_ns);
    }
    if (is_over(oldest_ns, config->fold_after_ns, planning->input->wall_ns))
        return true;
    return late > base->profiles / PLAN_LATE_SHARE &&
           is_over(newest_ns, config->fold_quiet_ns, planning->input->wall_ns);
}

static bool has_hours(const struct plan_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->items[i]->level < PLAN_DAY)
            return true;
    return false;
}

/* Plans to merge blocks of one span, as many as fit into a job. whole: hourly blocks among them in
 * any case. A block that is too large to be merged with others stays as it is. */
static enum fg_code plan_fitting(struct compaction_planning *planning, struct plan_set *set,
                                 const struct cmp_plan_span *span, bool whole, struct fg_err *err)
{
    struct plan_set some = smallest(planning, set);

    if (whole && has_hours(set) && (some.count > 1 || set->count == 1))
        return merge(planning, &some, span, "day", err);
    if (some.count < 2)
        return FG_OK;
    if (span->level >= PLAN_DAY && is_late_due(planning, set))
        return merge(planning, &some, span, "late", err);
    if (set->count < PLAN_MANY)
        return FG_OK;
    /* Leaves out the largest while the others are less: it would be rewritten again and again. */
    if (some.count == set->count &&
        bytes_of(set) - set->items[set->count - 1]->bytes < set->items[set->count - 1]->bytes)
        some.count--;
    return merge(planning, &some, span, "many", err);
}

/* Divides a block that lies in both halves, so that each half fits into jobs of its own. */
static enum fg_code divide(struct compaction_planning *planning,
                           const struct fg_blocks_entry *block,
                           const struct cmp_plan_range halves[2], struct fg_err *err)
{
    const struct plan_set one = {(const struct fg_blocks_entry *[]){block}, 1};
    const struct cmp_plan_span span = {(enum cmp_plan_level)block->level, block->start_ns,
                                       block->end_ns};

    if (merge(planning, &one, &span, "division", err) != FG_OK)
        return err->code;
    planning->plan.jobs[planning->plan.n_jobs - 1].ranges[0] = halves[0];
    planning->plan.jobs[planning->plan.n_jobs - 1].ranges[1] = halves[1];
    planning->plan.jobs[planning->plan.n_jobs - 1].n_ranges = 2;
    return FG_OK;
}

/* Plans to merge what should become one block; by halves of the shards if it is too large. */
static enum fg_code plan_shards(struct compaction_planning *planning, struct plan_set set,
                                const struct cmp_plan_span *span, bool whole, struct fg_err *err)
{
    struct cmp_plan_range hull = {UINT16_MAX, 0}, halves[2];
    struct plan_set parts[2] = {{NULL, 0}, {NULL, 0}};

    if (set.count == 0)
        return FG_OK;
    for (uint32_t i = 0; i < set.count; i++) {
        hull.first = FG_MIN(hull.first, set.items[i]->shard_first);
        hull.last = FG_MAX(hull.last, set.items[i]->shard_last);
    }
    if (bytes_of(&set) <= planning->config->job_max_bytes || !cmp_plan_halve(hull, halves))
        return plan_fitting(planning, &set, span, whole, err);
    for (uint32_t h = 0; h < 2; h++) {
        parts[h].items = fg_arena_new(planning->arena, const struct fg_blocks_entry *, set.count);
        if (parts[h].items == NULL)
            return no_memory(err);
    }
    for (uint32_t i = 0; i < set.count; i++) {
        const struct fg_blocks_entry *block = set.items[i];

        if (block->shard_last <= halves[0].last)
            parts[0].items[parts[0].count++] = block;
        else if (block->shard_first >= halves[1].first)
            parts[1].items[parts[1].count++] = block;
        else if (set.count > 1 && divide(planning, block, halves, err) != FG_OK)
            return err->code;
    }
    for (uint32_t h = 0; h < 2; h++)
        if (plan_shards(planning, parts[h], span, whole, err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- days and hours ---- */

/* Sorts by start, end and id, so that blocks of a day are next to each other. */
static int by_span(const void *a, const void *b)
{
    const struct fg_blocks_entry *left = *(const struct fg_blocks_entry *const *)a;
    const struct fg_blocks_entry *right = *(const struct fg_blocks_entry *const *)b;

    if (left->start_ns != right->start_ns)
        return left->start_ns < right->start_ns ? -1 : 1;
    if (left->end_ns != right->end_ns)
        return left->end_ns < right->end_ns ? -1 : 1;
    return fg_id_cmp(left->id, right->id);
}

static struct plan_set sub(const struct plan_set *set, uint32_t from, uint32_t to)
{
    return (struct plan_set){set->items + from, to - from};
}

/* True if the day waits for segments that are merged first, since it would have to be rewritten for
 * them. Not for ever: a stream of late data must not keep a day open. */
static bool waits_for_segments(const struct compaction_planning *planning,
                               const struct cmp_plan_span *day)
{
    int64_t patience_ns = planning->config->day_delay_ns + PLAN_DAY_NS;

    if (is_over(day->end_ns, patience_ns, planning->input->wall_ns))
        return false;
    for (uint32_t i = 0; i < planning->plan.n_ready; i++)
        if (planning->late_from_ns[i] < day->end_ns && planning->late_to_ns[i] >= day->start_ns)
            return true;
    return false;
}

static enum fg_code plan_hours(struct compaction_planning *planning, const struct plan_set *day,
                               struct fg_err *err)
{
    for (uint32_t i = 0, end; i < day->count; i = end) {
        struct cmp_plan_span hour = {(enum cmp_plan_level)day->items[i]->level,
                                     day->items[i]->start_ns, day->items[i]->end_ns};

        for (end = i; end < day->count && day->items[end]->start_ns == hour.start_ns &&
                      day->items[end]->end_ns == hour.end_ns;
             end++)
            ;
        if (plan_shards(planning, sub(day, i, end), &hour, false, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* True if six hours of an open day are over, and their blocks so small that reading one takes as
 * long as reading all of them. Late data stays apart until the day is over. */
static bool are_worth_joining(const struct compaction_planning *planning,
                              const struct plan_set *set, const struct cmp_plan_span *span)
{
    const struct cmp_plan_config *config = planning->config;

    for (uint32_t i = 0; i < set->count; i++)
        if (set->items[i]->level != PLAN_HOUR ||
            planning->taken[set->items[i] - planning->input->blocks->blocks])
            return false;
    return set->count >= PLAN_JOIN_MIN && set->count <= config->sources_max &&
           bytes_of(set) < FG_MIN(config->rollup_min_bytes, config->job_max_bytes) &&
           is_over(span->end_ns, config->hour_delay_ns, planning->input->wall_ns) &&
           !waits_for_segments(planning, span);
}

static enum fg_code plan_small_hours(struct compaction_planning *planning,
                                     const struct plan_set *day, struct fg_err *err)
{
    for (uint32_t i = 0, end; i < day->count; i = end) {
        struct cmp_plan_span span = span_at(PLAN_6_HOURS, 6 * FG_HOUR_NS, day->items[i]->start_ns);
        struct plan_set set;

        for (end = i; end < day->count && day->items[end]->start_ns < span.end_ns; end++)
            ;
        end = FG_MAX(end, i + 1); /* the last unit of all is cut short */
        set = sub(day, i, end);
        if (are_worth_joining(planning, &set, &span) &&
            merge(planning, &set, &span, "small hours", err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code plan_day(struct compaction_planning *planning, const struct plan_set *set,
                             struct fg_err *err)
{
    struct cmp_plan_span day = span_at(PLAN_DAY, PLAN_DAY_NS, set->items[0]->start_ns);

    if (!is_over(day.end_ns, planning->config->day_delay_ns, planning->input->wall_ns))
        return plan_hours(planning, set, err) == FG_OK ? plan_small_hours(planning, set, err)
                                                       : err->code;
    if (!has_hours(set))
        return plan_shards(planning, *set, &day, false, err);
    if (waits_for_segments(planning, &day))
        return FG_OK;
    return plan_shards(planning, *set, &day, true, err);
}

static enum fg_code plan_month(struct compaction_planning *planning, const struct plan_set *set,
                               struct fg_err *err)
{
    const struct cmp_plan_span month = {PLAN_MONTH, set->items[0]->start_ns, set->items[0]->end_ns};

    return plan_shards(planning, *set, &month, false, err);
}

/* Gathers blocks that no job has taken, of 28 days or of shorter spans, sorted. */
static bool gather(const struct compaction_planning *planning, bool months, struct plan_set *set)
{
    const struct fg_blocks *blocks = planning->input->blocks;

    *set = (struct plan_set){
        fg_arena_new(planning->arena, const struct fg_blocks_entry *, blocks->n_blocks), 0};
    if (set->items == NULL)
        return false;
    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        if (!planning->taken[i] && !blocks->blocks[i].derived &&
            (blocks->blocks[i].level == PLAN_MONTH) == months)
            set->items[set->count++] = &blocks->blocks[i];
    if (set->count > 1)
        qsort(set->items, set->count, sizeof(void *), by_span);
    return true;
}

static enum fg_code plan_spans(struct compaction_planning *planning, bool months,
                               struct fg_err *err)
{
    int64_t unit_ns = months ? 28 * PLAN_DAY_NS : PLAN_DAY_NS;
    struct plan_set all;

    if (!gather(planning, months, &all))
        return no_memory(err);
    for (uint32_t i = 0, end; i < all.count; i = end) {
        int64_t start_ns = floor_to(all.items[i]->start_ns, unit_ns);
        struct plan_set set;

        for (end = i; end < all.count && floor_to(all.items[end]->start_ns, unit_ns) == start_ns;
             end++)
            ;
        set = sub(&all, i, end);
        if ((months ? plan_month : plan_day)(planning, &set, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* ---- deletions ---- */

/* Plans to rewrite blocks that no other job rewrites. */
static enum fg_code plan_deletions(struct compaction_planning *planning, struct fg_err *err)
{
    const struct fg_blocks *blocks = planning->input->blocks;

    for (uint32_t i = 0; planning->input->deleted != NULL && i < blocks->n_blocks; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks[i];
        const struct plan_set one = {&block, 1};
        const struct cmp_plan_span span = {(enum cmp_plan_level)block->level, block->start_ns,
                                           block->end_ns};

        if (planning->taken[i] || !planning->input->deleted[i])
            continue;
        if (merge(planning, &one, &span, "deletion", err) != FG_OK)
            return err->code;
        if (block->rollup_only)
            planning->plan.jobs[planning->plan.n_jobs - 1].kind = PLAN_ROLLUP_DELETION;
    }
    return FG_OK;
}

/* ---- parent rollups ---- */

/* A level of parent rollups: its span, and the level of its blocks. */
struct rollup_level {
    enum cmp_plan_level level, of;
    int64_t unit_ns;
    const char *why;
};

/* Gathers blocks that could be sources of a parent rollup, sorted. */
static bool gather_level(const struct compaction_planning *planning, enum cmp_plan_level level,
                         struct plan_set *set)
{
    const struct fg_blocks *blocks = planning->input->blocks;

    *set = (struct plan_set){
        fg_arena_new(planning->arena, const struct fg_blocks_entry *, blocks->n_blocks), 0};
    if (set->items == NULL)
        return false;
    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        if (!blocks->blocks[i].derived && blocks->blocks[i].level == level)
            set->items[set->count++] = &blocks->blocks[i];
    if (set->count > 1)
        qsort(set->items, set->count, sizeof(void *), by_span);
    return true;
}

/* True if the span has a rollup already, or hourly blocks that will become daily ones. */
static bool is_in_the_way(const struct compaction_planning *planning,
                          const struct rollup_level *level, const struct cmp_plan_span *span)
{
    const struct fg_blocks *blocks = planning->input->blocks;

    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks[i];

        if (block->derived ? block->level == span->level && block->start_ns == span->start_ns
                           : block->level < level->of && block->start_ns >= span->start_ns &&
                                 block->start_ns < span->end_ns)
            return true;
    }
    return false;
}

/* Has nothing come for a while? Patches are summed like other blocks: until they are folded, which
 * takes the rollup away, it spares queries all blocks of the span. Late data of an hour becomes
 * another block or goes into that of the next hour, so hours need not be quiet. A block that was
 * made of blocks has nothing new: after a fold the rollup is back at once. */
static bool are_settled(const struct compaction_planning *planning,
                        const struct rollup_level *level, const struct plan_set *set)
{
    const struct fg_blocks *blocks = planning->input->blocks;
    int64_t quiet_ns = level->of == PLAN_DAY ? planning->config->fold_quiet_ns : 0;

    for (uint32_t i = 0; i < set->count; i++) {
        const struct fg_blocks_entry *block = set->items[i];
        int64_t wait_ns = block->n_from_segments == 0 ? 0 : quiet_ns;

        if (planning->taken[block - blocks->blocks] ||
            !is_over((int64_t)block->id.hi, wait_ns, /* cmp_plan_block_id() */
                     planning->input->wall_ns))
            return false;
    }
    return true;
}

/* True if the blocks are worth a parent rollup, and not more than one can have. */
static bool are_many(const struct compaction_planning *planning, const struct rollup_level *level,
                     const struct plan_set *set)
{
    const struct cmp_plan_config *config = planning->config;
    bool one_span = set->items[0]->start_ns == set->items[set->count - 1]->start_ns;
    uint64_t profiles = 0;

    for (uint32_t i = 0; i < set->count; i++)
        profiles += set->items[i]->profiles;
    if (level->level == level->of ? bytes_of(set) <= config->whole_max_bytes : one_span)
        return false;
    return set->count <= FG_BLOCKS_FROM_MAX && profiles <= UINT32_MAX &&
           bytes_of(set) >= config->rollup_min_bytes;
}

/* True if it is time. It is not if retention is about to take the span, or hourly blocks are about
 * to become a day. */
static bool is_time(const struct compaction_planning *planning, const struct rollup_level *level,
                    const struct cmp_plan_span *span)
{
    const struct cmp_plan_config *config = planning->config;
    int64_t wall_ns = planning->input->wall_ns;
    struct cmp_plan_span day = span_at(PLAN_DAY, PLAN_DAY_NS, span->start_ns);
    bool days = level->of == PLAN_DAY;

    return is_over(span->end_ns, days ? config->day_delay_ns : config->hour_delay_ns, wall_ns) &&
           (days || !is_over(day.end_ns, config->day_delay_ns, wall_ns)) &&
           span->start_ns >= cmp_retention_profiles_from_ns(&config->retention, wall_ns) &&
           !waits_for_segments(planning, span);
}

static enum fg_code plan_rollup_span(struct compaction_planning *planning,
                                     const struct rollup_level *level, const struct plan_set *set,
                                     struct fg_err *err)
{
    struct cmp_plan_span span = span_at(level->level, level->unit_ns, set->items[0]->start_ns);
    struct cmp_plan_job *job;

    if (!are_many(planning, level, set) || !is_time(planning, level, &span) ||
        !are_settled(planning, level, set) || is_in_the_way(planning, level, &span))
        return FG_OK;
    job = job_add(planning, PLAN_ROLLUP, level->why);
    if (job == NULL || !job_name(planning, job, set))
        return no_memory(err);
    job->level = span.level;
    job->start_ns = span.start_ns;
    job->end_ns = span.end_ns;
    return FG_OK;
}

static enum fg_code plan_rollups(struct compaction_planning *planning,
                                 const struct rollup_level *level, struct fg_err *err)
{
    struct plan_set all;

    if (!gather_level(planning, level->of, &all))
        return no_memory(err);
    for (uint32_t i = 0, end; i < all.count; i = end) {
        int64_t start_ns = floor_to(all.items[i]->start_ns, level->unit_ns);
        struct plan_set set;

        for (end = i;
             end < all.count && floor_to(all.items[end]->start_ns, level->unit_ns) == start_ns;
             end++)
            ;
        set = sub(&all, i, end);
        if (plan_rollup_span(planning, level, &set, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code plan_all_rollups(struct compaction_planning *planning, struct fg_err *err)
{
    static const struct rollup_level levels[] = {
        {PLAN_6_HOURS, PLAN_HOUR, 6 * FG_HOUR_NS, "rollups of 6 hours"},
        {PLAN_DAY, PLAN_DAY, PLAN_DAY_NS, "rollups of a day"},
        {PLAN_WEEK, PLAN_DAY, 7 * PLAN_DAY_NS, "rollups of a week"},
        {PLAN_MONTH, PLAN_DAY, 28 * PLAN_DAY_NS, "rollups of 28 days"},
    };

    for (size_t i = 0; i < FG_COUNT(levels); i++)
        if (plan_rollups(planning, &levels[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- rollup-only objects, which replace blocks ---- */

/* No late data has come for a while, or it comes all the time; and no deletion concerns the blocks.
 */
static bool are_quiet(const struct compaction_planning *planning, const struct plan_set *set)
{
    const struct cmp_plan_config *config = planning->config;
    const bool *deleted = planning->input->deleted;
    int64_t oldest_ns = INT64_MAX, newest_ns = INT64_MIN;

    for (uint32_t i = 0; i < set->count; i++) {
        int64_t made_ns = (int64_t)set->items[i]->id.hi; /* cmp_plan_block_id() */

        if (deleted != NULL && deleted[set->items[i] - planning->input->blocks->blocks])
            return false;
        oldest_ns = FG_MIN(oldest_ns, made_ns);
        newest_ns = FG_MAX(newest_ns, made_ns);
    }
    return is_over(newest_ns, config->fold_quiet_ns, planning->input->wall_ns) ||
           is_over(oldest_ns, config->fold_after_ns, planning->input->wall_ns);
}

/* Counts how many blocks, from the first, one rollup can sum up. Sets ascend by time, so days stay
 * together if possible. */
static uint32_t rollup_only_at_once(const struct compaction_planning *planning,
                                    const struct plan_set *set)
{
    uint64_t bytes = 0, profiles = 0;
    uint32_t n = 0;

    for (; n < set->count && n < FG_BLOCKS_FROM_MAX; n++) {
        bytes += set->items[n]->bytes;
        profiles += set->items[n]->profiles;
        if (n > 0 && (bytes / PLAN_ROLLUP_ONLY_JOBS > planning->config->job_max_bytes ||
                      profiles > UINT32_MAX)) /* the maximum of a part */
            break;
    }
    return n;
}

static enum fg_code replace_span(struct compaction_planning *planning, const struct plan_set *set,
                                 const struct cmp_plan_span *span, struct fg_err *err)
{
    if (!cmp_retention_replaces(&planning->config->retention, span->end_ns,
                                planning->input->wall_ns) ||
        !are_quiet(planning, set))
        return FG_OK;
    for (uint32_t i = 0, n; i < set->count; i += n) {
        struct plan_set some = sub(set, i, set->count);
        struct cmp_plan_job *job;

        n = some.count = rollup_only_at_once(planning, &some);
        if (merge(planning, &some, span, "retention", err) != FG_OK)
            return err->code;
        job = &planning->plan.jobs[planning->plan.n_jobs - 1];
        job->kind = PLAN_ROLLUP_ONLY;
        job->n_ranges = 0;
    }
    return FG_OK;
}

/* Plans suspect blocks one by one, so that a broken one holds up none of the others. */
static enum fg_code replace_apart(struct compaction_planning *planning, struct plan_set *set,
                                  const struct cmp_plan_span *span, struct fg_err *err)
{
    uint32_t sound = 0;

    for (uint32_t i = 0; i < set->count; i++) {
        struct plan_set one = sub(set, i, i + 1);

        if (trouble_of(planning, one.items[0]) == PLAN_SOUND)
            set->items[sound++] = one.items[0];
        else if (replace_span(planning, &one, span, err) != FG_OK)
            return err->code;
    }
    set->count = sound;
    return sound == 0 ? FG_OK : replace_span(planning, set, span, err);
}

static enum fg_code plan_rollup_only(struct compaction_planning *planning, bool months,
                                     struct fg_err *err)
{
    enum cmp_plan_level level = months ? PLAN_MONTH : PLAN_WEEK;
    int64_t unit_ns = (months ? 28 : 7) * PLAN_DAY_NS;
    struct plan_set all;

    if (!gather(planning, months, &all))
        return no_memory(err);
    for (uint32_t i = 0, end; i < all.count; i = end) {
        struct cmp_plan_span span = span_at(level, unit_ns, all.items[i]->start_ns);
        struct plan_set set;

        for (end = i; end < all.count && all.items[end]->start_ns < span.end_ns; end++)
            ;
        end = FG_MAX(end, i + 1); /* the last unit of all is cut short */
        set = sub(&all, i, end);
        if (replace_apart(planning, &set, &span, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Asserts what always holds of the jobs of a plan (plan_core.h) and each job shows by itself. */
static void plan_check(const struct compaction_planning *planning)
{
    const struct cmp_plan_config *config = planning->config;

    for (uint32_t i = 0; i < planning->plan.n_jobs; i++) {
        const struct cmp_plan_job *job = &planning->plan.jobs[i];

        fg_assert(job->kind == PLAN_SEGMENTS ? job->n_segments > 0 && job->n_blocks == 0
                                             : job->n_blocks > 0 && job->n_segments == 0);
        fg_assert(job->n_segments <= config->sources_max && job->n_blocks <= FG_BLOCKS_FROM_MAX);
        if (job->kind == PLAN_MERGE)
            fg_assert(job->n_blocks <= config->sources_max && job->n_ranges > 0 &&
                      (job->n_blocks == 1 || job->bytes <= config->job_max_bytes));
        if (job->kind == PLAN_SEGMENTS)
            fg_assert(job->n_segments == 1 || job->bytes <= config->job_max_bytes);
        for (uint32_t k = 1; k < job->n_blocks; k++)
            fg_assert(fg_id_cmp(job->blocks[k - 1], job->blocks[k]) < 0);
        for (uint32_t k = 1; k < job->n_segments; k++)
            fg_assert(job->segments[k - 1] < job->segments[k]);
    }
}

enum fg_code cmp_plan_make(const struct cmp_plan_config *config, const struct cmp_plan_input *input,
                           struct fg_arena *arena, struct cmp_plan *ret_plan, struct fg_err *err)
{
    struct compaction_planning planning = {
        .config = config,
        .input = input,
        .arena = arena,
        .taken = fg_arena_new(arena, bool, input->blocks->n_blocks),
        .late_from_ns = fg_arena_new(arena, int64_t, input->l0->n_segments),
        .late_to_ns = fg_arena_new(arena, int64_t, input->l0->n_segments),
    };

    fg_assert(config->sources_max >= 2);
    if (planning.taken == NULL || planning.late_from_ns == NULL || planning.late_to_ns == NULL)
        return no_memory(err);
    if (plan_drop(&planning, RETENTION_EXPIRED, "retention", err) != FG_OK ||
        plan_drop(&planning, RETENTION_LOST, "retention, unreadable", err) != FG_OK ||
        plan_segments(&planning, err) != FG_OK ||
        plan_rollup_only(&planning, false, err) != FG_OK ||
        plan_rollup_only(&planning, true, err) != FG_OK)
        return err->code;
    /* Blocks that are set aside are excluded from all later jobs. Retention, which may take them,
     * was planned before. */
    for (uint32_t i = 0; input->blocks_aside != NULL && i < input->blocks->n_blocks; i++)
        planning.taken[i] = planning.taken[i] || input->blocks_aside[i];
    if (plan_spans(&planning, false, err) != FG_OK || plan_spans(&planning, true, err) != FG_OK ||
        plan_deletions(&planning, err) != FG_OK || plan_all_rollups(&planning, err) != FG_OK)
        return err->code;
    plan_check(&planning);
    *ret_plan = planning.plan;
    return FG_OK;
}
