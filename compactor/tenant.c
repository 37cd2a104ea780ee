#include "compactor/tenant.h"

#include "common/runtime/log.h"
#include "compactor/billing.h"
#include "compactor/completion.h"
#include "compactor/deletion.h"
#include "compactor/erasure.h"
#include "compactor/metrics.h"

enum {
    ROUNDS_MAX = 8,                  /* of planning for one tenant before the next tenant's turn */
    ARENA_BYTES = 256 * 1024 * 1024, /* of one round: plan, deletions, parsed manifests */
    BACKOFF_SHIFT_MAX = 6,
    BROKEN_MINUTES = 24 * 60, /* how long a block is tried before it is given up */
    ASIDE_MINUTES = 60,       /* a damaged object is tried again then: it may have been restored */
    /* Requests of a look in search of what deletions name, give or take a block: half a minute at
     * 30 ms each. Other tenants wait as long. */
    SEARCH_READS_MAX = 1000,
    VERDICTS_MIN = 1024, /* so few are kept in any case */
};

static const int64_t BACKOFF_NS = 10 * FG_SECOND_NS; /* doubled up to ten minutes */
/* Halving job_max_bytes after jobs that were too large ends here. A job has at least one source
 * in any case, so smaller values change nothing more. */
static const uint64_t JOB_MIN_BYTES = UINT64_C(1024) * 1024;

/* A look at a tenant. */
struct tenant_looking {
    struct cmp_tenant *tenant;
    struct cmp_env *env;
    const struct cmp_tenant_rules *rules;
    const struct fg_l0 *l0;
    const struct fg_blocks *blocks;
    struct cmp_plan_config config;
    struct fg_arena *arena; /* of one round */
    struct fg_deletions deletions;
    bool *deleted; /* [n_blocks]; NULL: there are no deletions */
    bool *waiting; /* [n_tombstones]: a block has, or may have, what it names */
    enum cmp_deletion_verdict *verdicts; /* [n_tombstones]: of one block */
    uint32_t search_reads;               /* of this look, in search of what deletions name */
    bool unsearched;                     /* some blocks wait for the next look */
    struct fg_err unread; /* FG_OK, or why a block could not be checked for deletions */
    bool too_large;       /* a job was too large and can be made smaller */
    bool asked;   /* ingesters were asked: the manifests have changed since they were read */
    bool settled; /* all jobs that were due are done */
};

struct cmp_tenant *cmp_tenant_create(struct fg_slice name, uint64_t job_max_bytes)
{
    struct cmp_tenant *tenant = fg_new(struct cmp_tenant);
    uint8_t *copy = fg_malloc(name.len + 1);

    memcpy(copy, name.ptr, name.len);
    copy[name.len] = 0;
    tenant->name = fg_bytes(copy, name.len);
    tenant->job_max_bytes = job_max_bytes;
    fg_map_init(&tenant->verdicts);
    fg_map_init(&tenant->troubles);
    fg_map_init(&tenant->aside);
    cmp_tenant_disown(tenant);
    return tenant;
}

/* Forgets all that only the owner needs. The other compactor's work makes marks and counts of
 * ours stale, and if the tenant comes back, the first look has to be at once. */
void cmp_tenant_disown(struct cmp_tenant *tenant)
{
    tenant->look_mono_ns = tenant->retry_mono_ns = INT64_MIN;
    tenant->failures = 0;
    tenant->err = (struct fg_err){.code = FG_OK};
    tenant->bills = (struct cmp_tenant_bills){.retry_mono_ns = INT64_MIN};
    cmp_erasure_forget(&tenant->erasure);
    tenant->counts = (struct cmp_tenant_counts){.oldest_entered_wall_ns = INT64_MAX,
                                                .oldest_asked_wall_ns = INT64_MAX};
    tenant->waits_for[0] = '\0';
    fg_map_clear(&tenant->verdicts);
    fg_map_clear(&tenant->troubles);
    fg_map_clear(&tenant->aside);
}

void cmp_tenant_destroy(struct cmp_tenant *tenant)
{
    if (tenant == NULL)
        return;
    fg_manifest_unref(tenant->blocks);
    cmp_erasure_forget(&tenant->erasure);
    fg_map_done(&tenant->verdicts);
    fg_map_done(&tenant->troubles);
    fg_map_done(&tenant->aside);
    free((void *)(uintptr_t)tenant->name.ptr);
    free(tenant);
}

/* ---- blocks that jobs fail with ---- */

/* Returns the mark of a block: PLAN_SUSPECT, or PLAN_BROKEN plus the minute at which it was found;
 * PLAN_SOUND: none. */
static uint32_t mark_of(const struct cmp_tenant *tenant, struct fg_id block)
{
    struct fg_map_walk walk;
    uint32_t worst = PLAN_SOUND;

    for (uint32_t found = fg_map_first(&tenant->troubles, fg_mix64(block.lo ^ block.hi), &walk);
         found != FG_MAP_NONE; found = fg_map_next(&tenant->troubles, &walk))
        worst = FG_MAX(worst, found);
    return worst;
}

/* The current minute of the monotonic clock, as in marks. */
static uint32_t minute_now(const struct tenant_looking *looking)
{
    return (uint32_t)(fg_mono_ns(looking->env->clock) / FG_MINUTE_NS);
}

/* Marks the blocks of a failed job of retention, which must not wait for them. Failed merges of
 * several blocks are tried again as they are. */
static void suspect(struct tenant_looking *looking, const struct cmp_plan_job *job)
{
    bool alone = job->n_blocks == 1 && job->n_segments == 0;
    uint32_t mark = alone ? PLAN_BROKEN + minute_now(looking) : PLAN_SUSPECT;

    /* Retention has to end some day. A block that makes its jobs fail would keep its whole week
     * alive. */
    if (job->kind != PLAN_ROLLUP_ONLY && !(job->kind == PLAN_MERGE && alone))
        return;
    for (uint32_t i = 0; i < job->n_blocks; i++) {
        struct fg_id block = job->blocks[i];
        uint32_t before = mark_of(looking->tenant, block);

        /* A mark only gets worse: the first failure alone sets the time from which a day is
         * counted. */
        if (before < PLAN_BROKEN && before < mark)
            fg_map_add(&looking->tenant->troubles, fg_mix64(block.lo ^ block.hi), mark);
    }
}

/* *ret_troubles NULL: there are none. */
static enum fg_code prepare_troubles(const struct tenant_looking *looking,
                                     const enum cmp_plan_trouble **ret_troubles, struct fg_err *err)
{
    const struct fg_blocks *blocks = looking->blocks;
    enum cmp_plan_trouble *troubles;

    *ret_troubles = NULL;
    if (looking->tenant->troubles.count == 0)
        return FG_OK;
    troubles = fg_arena_new(looking->arena, enum cmp_plan_trouble, blocks->n_blocks);
    if (troubles == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u blocks", blocks->n_blocks);
    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        uint32_t mark = mark_of(looking->tenant, blocks->blocks[i].id);

        /* A block counts as broken only after a day: the disk, the bucket or memory may have been
         * the cause for a while. */
        if (mark < PLAN_BROKEN)
            troubles[i] = (enum cmp_plan_trouble)mark;
        else
            troubles[i] = minute_now(looking) - (mark - PLAN_BROKEN) < BROKEN_MINUTES ? PLAN_SUSPECT
                                                                                      : PLAN_BROKEN;
    }
    *ret_troubles = troubles;
    return FG_OK;
}

/* ---- damaged sources ---- */

static uint64_t block_hash(struct fg_id id)
{
    return fg_mix64(id.lo ^ fg_mix64(id.hi));
}

static uint64_t segment_hash(uint64_t generation)
{
    return fg_mix64(~generation);
}

/* Returns true while the object is set aside: a job failed because of it, and the retry is not due
 * yet. */
static bool is_aside(const struct tenant_looking *looking, uint64_t hash)
{
    const struct fg_map *aside = &looking->tenant->aside;
    uint32_t now = minute_now(looking);
    struct fg_map_walk walk;

    /* The map keeps old entries of an object that was set aside before, so any of them may
     * count. */
    for (uint32_t until = fg_map_first(aside, hash, &walk); until != FG_MAP_NONE;
         until = fg_map_next(aside, &walk))
        if (now < until)
            return true;
    return false;
}

/* Lists and counts what the planner leaves out; NULL: nothing. */
static enum fg_code prepare_aside(struct tenant_looking *looking, struct cmp_plan_input *input,
                                  struct fg_err *err)
{
    const struct fg_blocks *blocks = looking->blocks;
    const struct fg_l0 *l0 = looking->l0;
    bool *blocks_aside, *segments_aside;
    uint32_t n = 0;

    looking->tenant->counts.aside = 0;
    if (looking->tenant->aside.count == 0)
        return FG_OK;
    blocks_aside = fg_arena_new(looking->arena, bool, blocks->n_blocks);
    segments_aside = fg_arena_new(looking->arena, bool, l0->n_segments);
    if (blocks_aside == NULL || segments_aside == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u blocks", blocks->n_blocks);
    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        n += blocks_aside[i] = is_aside(looking, block_hash(blocks->blocks[i].id));
    for (uint32_t i = 0; i < l0->n_segments; i++)
        n += segments_aside[i] = is_aside(looking, segment_hash(l0->segments[i].generation));
    looking->tenant->counts.aside = n;
    if (n == 0)
        fg_map_clear(&looking->tenant->aside);
    input->blocks_aside = blocks_aside;
    input->segments_aside = segments_aside;
    return FG_OK;
}

/* True if the current manifest still needs the object. Another compactor may have replaced it. */
static bool is_needed(const struct tenant_looking *looking, const struct cmp_job_culprit *culprit)
{
    struct fg_manifest *now = fg_manifest_ref(looking->tenant->blocks);
    struct fg_err err;
    bool needed = false;

    if (cmp_env_read_manifest(looking->env, looking->tenant->name, &now, &err) == FG_OK)
        needed = culprit->generation != 0 ? !fg_blocks_covers(&now->blocks, culprit->generation)
                                          : fg_blocks_find(&now->blocks, culprit->block) != NULL;
    fg_manifest_unref(now);
    return needed;
}

/* After a failed job: if one of its sources is damaged, missing or of a newer version, sets it
 * aside for a while, so that other work goes on. Retention treats such blocks in its own way
 * (suspect()). */
static bool set_aside(struct tenant_looking *looking, const struct cmp_job *job)
{
    struct cmp_job_culprit culprit;
    uint64_t hash;

    if (job->plan->kind != PLAN_SEGMENTS && job->plan->kind != PLAN_MERGE &&
        job->plan->kind != PLAN_ROLLUP)
        return false;
    cmp_job_find_culprit(job, &culprit);
    /* If another compactor has replaced the source meanwhile, it is missing for a good reason. */
    if (!culprit.found || !is_needed(looking, &culprit))
        return false;
    hash = culprit.generation != 0 ? segment_hash(culprit.generation) : block_hash(culprit.block);
    fg_map_add(&looking->tenant->aside, hash, minute_now(looking) + ASIDE_MINUTES);
    fg_damage_met(looking->env->bucket->damage, culprit.name, culprit.why.code, culprit.why.msg);
    fg_log_error(culprit.why.code == FG_E_UNIMPLEMENTED
                     ? "compaction skips an object that it cannot read"
                     : "compaction skips a damaged or missing object",
                 fg_lb("tenant", looking->tenant->name), fg_ls("object", culprit.name),
                 fg_ls("err", culprit.why.msg));
    looking->tenant->err = culprit.why;
    (void)fg_wrap(&looking->tenant->err, "%s", culprit.name);
    return true;
}

/* ---- deletions ---- */

static uint64_t pair_hash(const struct tenant_looking *looking, uint32_t block, uint32_t number)
{
    struct fg_id id = looking->blocks->blocks[block].id,
                 deletion = looking->blocks->tombstones[number].id;

    return fg_mix64(fg_mix64(id.lo ^ deletion.hi) + fg_mix64(id.hi + deletion.lo));
}

/* Blocks never change, so a verdict holds for ever. A collision of 64-bit hashes would end a
 * deletion early; with 10^6 pairs its probability is 3e-8. Returns false if a deletion is open. */
static bool recall_verdicts(struct tenant_looking *looking, uint32_t block)
{
    const struct fg_blocks_entry *entry = &looking->blocks->blocks[block];
    bool all = true;

    for (uint32_t i = 0; i < looking->blocks->n_tombstones; i++) {
        enum cmp_deletion_verdict verdict = DELETION_NONE;
        struct fg_map_walk walk;

        if (fg_deletion_meets(&looking->deletions.items[i], entry->t_min_ns, entry->t_max_ns)) {
            uint32_t found =
                fg_map_first(&looking->tenant->verdicts, pair_hash(looking, block, i), &walk);

            verdict = found == FG_MAP_NONE ? DELETION_OPEN : (enum cmp_deletion_verdict)found;
        }
        looking->verdicts[i] = verdict;
        all = all && verdict != DELETION_OPEN;
    }
    return all;
}

/* Finds out the open verdicts of a block. */
static enum fg_code search_block(struct tenant_looking *looking, uint32_t block, struct fg_err *err)
{
    struct cmp_deletion_search search = {.env = looking->env,
                                         .tenant = looking->blocks->tenant,
                                         .block = &looking->blocks->blocks[block],
                                         .deletions = looking->deletions.items,
                                         .count = looking->blocks->n_tombstones,
                                         .verdicts = looking->verdicts};
    uint64_t open[FG_BITS_WORDS(FG_DELETIONS_MAX)] = {0};
    enum fg_code code;

    for (uint32_t i = 0; i < search.count; i++)
        if (looking->verdicts[i] == DELETION_OPEN)
            fg_bits_set(open, i);
    code = cmp_deletion_search(&search, err);
    looking->search_reads += search.reads;
    if (code != FG_OK) /* the bucket is away: the look ends */
        return code;
    /* A block that is damaged only makes its deletions wait, and other work goes on. */
    if (looking->unread.code == FG_OK)
        looking->unread = search.unread;
    for (uint32_t i = 0; i < search.count; i++)
        if (fg_bits_has(open, i) && looking->verdicts[i] != DELETION_UNREAD)
            fg_map_add(&looking->tenant->verdicts, pair_hash(looking, block, i),
                       looking->verdicts[i]);
    return FG_OK;
}

/* Finds out what deletions name in a block, unless this look has read enough: then it waits for the
 * next one. */
static enum fg_code find_deleted(struct tenant_looking *looking, uint32_t block, struct fg_err *err)
{
    bool known = recall_verdicts(looking, block);

    if (!known && looking->search_reads >= SEARCH_READS_MAX) {
        if (!looking->unsearched)
            looking->tenant->search_from = looking->blocks->blocks[block].id;
        looking->unsearched = true;
    } else if (!known && search_block(looking, block, err) != FG_OK) {
        return err->code;
    }
    for (uint32_t i = 0; i < looking->blocks->n_tombstones; i++) {
        looking->deleted[block] = looking->deleted[block] || looking->verdicts[i] == DELETION_NAMES;
        looking->waiting[i] = looking->waiting[i] || looking->verdicts[i] != DELETION_NONE;
    }
    return FG_OK;
}

/* Returns where a search goes on. Blocks that cannot be read are read again each time, so a search
 * that always began with the first one might never come to the last. */
static uint32_t search_start(const struct tenant_looking *looking)
{
    const struct fg_blocks_entry *from =
        fg_blocks_find(looking->blocks, looking->tenant->search_from);

    return from == NULL ? 0 : (uint32_t)(from - looking->blocks->blocks);
}

static enum fg_code prepare_deletions(struct tenant_looking *looking, struct fg_err *err)
{
    const struct fg_blocks *blocks = looking->blocks;
    uint32_t start;

    fg_assert(blocks != NULL);
    if (fg_blocks_deletions(blocks, looking->arena, &looking->deletions, err) != FG_OK)
        return err->code;
    looking->deleted = NULL;
    looking->unread.code = FG_OK;
    looking->unsearched = false;
    /* Blocks and deletions that have left leave verdicts behind. */
    if (blocks->n_tombstones == 0 ||
        looking->tenant->verdicts.count / 4 >
            VERDICTS_MIN + (uint64_t)blocks->n_blocks * blocks->n_tombstones)
        fg_map_clear(&looking->tenant->verdicts);
    if (blocks->n_tombstones == 0)
        return FG_OK;
    looking->deleted = fg_arena_new(looking->arena, bool, blocks->n_blocks);
    looking->waiting = fg_arena_new(looking->arena, bool, blocks->n_tombstones);
    looking->verdicts =
        fg_arena_new(looking->arena, enum cmp_deletion_verdict, blocks->n_tombstones);
    if (looking->deleted == NULL || looking->waiting == NULL || looking->verdicts == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u blocks", blocks->n_blocks);
    start = search_start(looking);
    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        uint32_t block = (start + i) % blocks->n_blocks;

        if (!fg_blocks_sums_others(&blocks->blocks[block]) &&
            find_deleted(looking, block, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* ---- counts ---- */

static void count_blocks(struct tenant_looking *looking)
{
    struct cmp_tenant_counts *counts = &looking->tenant->counts;
    const struct cmp_erasure_shared *shared = looking->tenant->erasure.shared;

    *counts = (struct cmp_tenant_counts){.oldest_entered_wall_ns = INT64_MAX,
                                         .oldest_asked_wall_ns = INT64_MAX,
                                         .deletions = looking->blocks->n_tombstones,
                                         .aside = counts->aside, /* which a plan finds out */
                                         .awaits = shared == NULL ? 0 : shared->awaits};
    for (uint32_t i = 0; i < looking->blocks->n_tombstones; i++) {
        uint64_t awaits = looking->blocks->tombstones[i].awaits;

        if (awaits != 0 && (counts->awaits == 0 || awaits < counts->awaits))
            counts->awaits = awaits;
        counts->oldest_asked_wall_ns =
            FG_MIN(counts->oldest_asked_wall_ns, looking->blocks->tombstones[i].asked_wall_ns);
    }
    for (uint32_t i = 0; i < looking->blocks->n_blocks; i++) {
        const struct fg_blocks_entry *block = &looking->blocks->blocks[i];

        counts->bytes += block->bytes;
        counts->others += block->derived || block->level > PLAN_DAY;
        if (block->derived) /* its profiles are in others, or gone */
            continue;
        counts->hours += block->level < PLAN_DAY;
        counts->days += block->level == PLAN_DAY;
        counts->profiles += block->profiles;
    }
}

static void count_segments(struct tenant_looking *looking)
{
    struct cmp_tenant_counts *counts = &looking->tenant->counts;
    uint32_t tenant = fg_l0_tenant(looking->l0, looking->blocks->tenant);

    for (uint32_t i = 0; i < looking->l0->n_segments && tenant != FG_L0_NO_TENANT; i++) {
        const struct fg_l0_segment *segment = &looking->l0->segments[i];

        if (fg_l0_part(segment, tenant) == NULL ||
            fg_blocks_covers(looking->blocks, segment->generation))
            continue;
        counts->uncovered++;
        counts->oldest_entered_wall_ns =
            FG_MIN(counts->oldest_entered_wall_ns, segment->entered_wall_ns);
    }
}

/* ---- jobs ---- */

static enum fg_code run_job(struct tenant_looking *looking, const struct cmp_plan_job *plan,
                            struct fg_err *err)
{
    struct cmp_job job = {.env = looking->env,
                          .config = &looking->config,
                          .l0 = looking->l0,
                          .blocks = looking->blocks,
                          .deletions = looking->deletions,
                          .plan = plan};
    int64_t begun_ns = fg_mono_ns(looking->env->clock);
    struct cmp_job_result result;

    looking->rules->on_job(looking->rules->arg, looking->tenant, plan);
    if (cmp_job_run(&job, &result, err) != FG_OK)
        return fg_damage_unusable(err->code) && set_aside(looking, &job) ? FG_OK : err->code;
    if (plan->lost)
        fg_log_error("expired blocks dropped without rollups: rollups cannot be built",
                     fg_lb("tenant", looking->blocks->tenant), fg_lu("blocks", plan->n_blocks),
                     fg_lu("profiles", result.profiles));
    fg_log_info("compacted", fg_lb("tenant", looking->blocks->tenant), fg_ls("why", plan->why),
                fg_lu("segments", plan->n_segments), fg_lu("blocks", plan->n_blocks),
                fg_lu("into", result.n_blocks), fg_lu("profiles", result.profiles),
                fg_lu("deleted", result.deleted), fg_lu("expired", result.expired),
                fg_lu("read_bytes", result.read_bytes),
                fg_lu("written_bytes", result.written_bytes),
                fg_lu("without_rollups", result.without_rollup),
                fg_lf("seconds",
                      (double)(fg_mono_ns(looking->env->clock) - begun_ns) / (double)FG_SECOND_NS));
    return FG_OK;
}

static enum fg_code run_jobs(struct tenant_looking *looking, const struct cmp_plan *plan,
                             struct fg_err *err)
{
    enum fg_code first = FG_OK;
    struct fg_err other;

    for (uint32_t i = 0; i < plan->n_jobs; i++) {
        enum fg_code code = run_job(looking, &plan->jobs[i], first == FG_OK ? err : &other);

        if (code == FG_OK)
            continue;
        if (first == FG_OK)
            first = code;
        if (code == FG_E_NO_SPACE) /* a smaller one may fit, and dropping makes room */
            continue;
        /* An object that a newer program can read must not be dropped as broken. */
        if (code == FG_E_UNIMPLEMENTED)
            continue;
        if (!cmp_env_own_fault(code))
            break;
        suspect(looking, &plan->jobs[i]);
        /* A job of one rollup-only block cannot be made smaller. */
        looking->too_large =
            looking->too_large || (code == FG_E_LIMIT && (plan->jobs[i].kind != PLAN_ROLLUP_ONLY ||
                                                          plan->jobs[i].n_blocks > 1));
    }
    return first;
}

/* Reads the tenant's manifest, and counts what status shows. */
static enum fg_code read_blocks(struct tenant_looking *looking, struct fg_err *err)
{
    looking->blocks = NULL;
    if (cmp_env_read_manifest(looking->env, looking->tenant->name, &looking->tenant->blocks, err) !=
            FG_OK ||
        fg_blocks_check(&looking->tenant->blocks->blocks, looking->l0, err) != FG_OK)
        return err->code;
    fg_assert(looking->tenant->blocks != NULL); /* a missing manifest is an empty one */
    looking->blocks = &looking->tenant->blocks->blocks;
    count_blocks(looking);
    count_segments(looking);
    return FG_OK;
}

static enum fg_code complete_deletions(struct tenant_looking *looking, struct fg_err *err)
{
    struct cmp_completion_work work = {.env = looking->env,
                                       .l0 = looking->l0,
                                       .blocks = looking->blocks,
                                       .waiting = looking->waiting,
                                       .ingesters = looking->rules->ingesters,
                                       .wait_ns = looking->rules->deletion_wait_ns,
                                       .arena = looking->arena};
    enum fg_code code = cmp_completion_advance(&work, err);

    looking->asked = looking->asked || work.asked;
    return code;
}

/* One round: makes a plan and carries it out. *ret_more: another round may find more. */
static enum fg_code one_round(struct tenant_looking *looking, bool *ret_more, struct fg_err *err)
{
    struct cmp_plan_input input = {.l0 = looking->l0};
    struct cmp_plan plan;

    *ret_more = false;
    if (cmp_env_check(looking->env, err) != FG_OK || read_blocks(looking, err) != FG_OK)
        return err->code;
    if (prepare_deletions(looking, err) != FG_OK ||
        prepare_troubles(looking, &input.troubles, err) != FG_OK ||
        prepare_aside(looking, &input, err) != FG_OK)
        return err->code;
    input.blocks = looking->blocks;
    input.deleted = looking->deleted;
    input.wall_ns = fg_wall_ns(looking->env->clock);
    if (cmp_plan_make(&looking->config, &input, looking->arena, &plan, err) != FG_OK)
        return err->code;
    *ret_more = plan.n_jobs > 0;
    /* Deletions ask ingesters, so only once in a look. */
    return plan.n_jobs > 0 ? run_jobs(looking, &plan, err) : complete_deletions(looking, err);
}

static enum fg_code rounds(struct tenant_looking *looking, struct fg_err *err)
{
    bool more = true;

    for (int i = 0; i < ROUNDS_MAX && more; i++) {
        enum fg_code code = one_round(looking, &more, err);

        fg_deletions_done(&looking->deletions);
        fg_arena_reset(looking->arena);
        if (code != FG_OK) {
            struct fg_err other;

            (void)read_blocks(looking, &other); /* some jobs may have succeeded */
            return code;
        }
    }
    looking->settled = !more;
    if (more)
        return read_blocks(looking, err);
    if (looking->asked && read_blocks(looking, err) != FG_OK)
        return err->code;
    /* The next pass goes on with the search, after the turns of the other tenants. */
    looking->tenant->look_mono_ns = fg_time_add(fg_mono_ns(looking->env->clock),
                                                looking->unsearched ? 0 : looking->rules->look_ns);
    if (looking->unread.code != FG_OK)
        *err = looking->unread;
    return looking->unread.code;
}

/* ---- erasure ---- */

/* Takes all steps that are possible now. */
static enum fg_code erase(struct tenant_looking *looking, struct fg_err *err)
{
    bool more = true;

    fg_map_clear(&looking->tenant->aside); /* nothing is read, so damage does not matter */
    for (int i = 0; i < ROUNDS_MAX && more; i++) {
        struct cmp_erasure erasure = {.env = looking->env,
                                      .l0 = looking->l0,
                                      .ingesters = looking->rules->ingesters,
                                      .audit = looking->rules->audit,
                                      .ended = looking->rules->erasure_ended,
                                      .memory = &looking->tenant->erasure,
                                      .arena = looking->arena};
        enum fg_code code = cmp_env_check(looking->env, err);

        if (code == FG_OK)
            code = read_blocks(looking, err);
        erasure.blocks = looking->blocks;
        if (code == FG_OK)
            code = cmp_erasure_advance(&erasure, &more, err);
        fg_arena_reset(looking->arena);
        if (code != FG_OK)
            return code;
    }
    return read_blocks(looking, err);
}

/* ---- failures ---- */

/* Returns when to try again after so many failures before this one. */
static int64_t retry_mono_ns(const struct tenant_looking *looking, unsigned failures)
{
    int64_t pause_ns = BACKOFF_NS << FG_MIN(failures, BACKOFF_SHIFT_MAX);

    return fg_time_add(fg_mono_ns(looking->env->clock),
                       pause_ns / 2 +
                           (int64_t)(cmp_env_random(looking->env) % (uint64_t)(pause_ns / 2)));
}

static void failed(struct tenant_looking *looking, const struct fg_err *err)
{
    struct cmp_tenant *tenant = looking->tenant;

    tenant->retry_mono_ns = retry_mono_ns(looking, tenant->failures);
    tenant->failures++;
    tenant->err = *err;
    if (looking->too_large)
        tenant->job_max_bytes = FG_MAX(tenant->job_max_bytes / 2, JOB_MIN_BYTES);
    if (err->code == FG_E_CORRUPT || err->code == FG_E_INTERNAL)
        fg_log_error("compaction of a tenant failed, nothing was replaced",
                     fg_lb("tenant", tenant->name), fg_lu("attempt", tenant->failures),
                     fg_ls("err", err->msg));
    else
        fg_log_warn("compaction of a tenant failed, will retry", fg_lb("tenant", tenant->name),
                    fg_lu("attempt", tenant->failures), fg_ls("err", err->msg));
}

/* Another compactor was faster, or deleted a replaced object: the next look sees it. */
static bool is_race(enum fg_code code)
{
    return code == FG_E_ABORTED || code == FG_E_NOT_FOUND;
}

static void note_outcome(struct tenant_looking *looking, enum fg_code code,
                         const struct fg_err *err)
{
    struct cmp_tenant *tenant = looking->tenant;

    if (code == FG_OK) {
        tenant->failures = 0;
        if (tenant->aside.count == 0) { /* else it is shown */
            fg_map_clear(&tenant->troubles);
            tenant->err = (struct fg_err){.code = FG_OK};
        }
    } else if (is_race(code) && tenant->failures == 0) {
        tenant->failures = 1; /* the second time in a row it is not a race */
    } else {
        failed(looking, err);
    }
}

/* ---- usage ---- */

/* Takes all steps that are due. */
static enum fg_code take_bill_steps(struct tenant_looking *looking, struct fg_err *err)
{
    bool more = true;

    for (int i = 0; i < ROUNDS_MAX && more; i++) {
        const struct cmp_billing billing = {.env = looking->env,
                                            .blocks = looking->blocks,
                                            .settled = looking->settled,
                                            .queries = looking->rules->queries,
                                            .arena = looking->arena};
        enum fg_code code = cmp_billing_advance(&billing, &more, err);

        fg_arena_reset(looking->arena);
        if (code != FG_OK || (more && read_blocks(looking, err) != FG_OK))
            return err->code;
    }
    return FG_OK;
}

/* Documents what the tenant used. A failure is not one of the compaction, whose next look does not
 * wait for it. FG_E_CANCELED, the only error. */
static enum fg_code document_usage(struct tenant_looking *looking, struct fg_err *err)
{
    struct cmp_tenant_bills *bills = &looking->tenant->bills;
    enum fg_code code;

    /* Without its manifest the compaction has failed as well, and says so. */
    if (looking->blocks == NULL || fg_mono_ns(looking->env->clock) < bills->retry_mono_ns)
        return FG_OK;
    code = take_bill_steps(looking, err);
    if (code == FG_E_CANCELED)
        return code;
    if (code == FG_OK) {
        *bills = (struct cmp_tenant_bills){.retry_mono_ns = INT64_MIN};
        return FG_OK;
    }
    if (!is_race(code) || bills->failures > 0) {
        fg_metric_add(looking->env->metrics, COMPACTOR_USAGE_FAILURES, 1);
        fg_log_warn("usage of a tenant is not documented, will retry",
                    fg_lb("tenant", looking->tenant->name), fg_lu("attempt", bills->failures + 1),
                    fg_ls("err", err->msg));
    }
    bills->retry_mono_ns = retry_mono_ns(looking, bills->failures);
    bills->failures++;
    bills->err = *err;
    return FG_OK;
}

enum fg_code cmp_tenant_look(struct cmp_tenant *tenant, struct cmp_env *env,
                             const struct cmp_tenant_rules *rules, const struct fg_l0 *l0,
                             struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct tenant_looking looking = {.tenant = tenant,
                                     .env = env,
                                     .rules = rules,
                                     .l0 = l0,
                                     .config = rules->plan,
                                     .arena = arena};
    enum fg_code code;

    /* A broken segment must not hold up the others. */
    looking.config.segments_apart =
        tenant->failures > 0 &&
        (tenant->err.code == FG_E_CORRUPT || tenant->err.code == FG_E_UNIMPLEMENTED);
    looking.config.job_max_bytes = FG_MIN(rules->plan.job_max_bytes, tenant->job_max_bytes);
    code = rules->erased ? erase(&looking, err) : rounds(&looking, err);
    if (code == FG_E_CANCELED)
        return code;
    note_outcome(&looking, code, err);
    return rules->erased ? FG_OK : document_usage(&looking, err);
}
