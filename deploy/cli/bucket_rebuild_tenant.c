/*
 * Rebuilds a tenant's manifest from the blocks in the bucket.
 *
 * The newest version that can be read (the present object, or a kept one) says which blocks were
 * live and which had been replaced. For blocks that it does not know, the ids of their profiles
 * decide, the newest block first: a block that shares no profile with a newer one is live; a block
 * whose profiles are all in newer ones was replaced by these. A block whose profiles are all in
 * live segments is of a compaction that was not finished, and is not listed.
 *
 * A case that no rule explains needs --accept-loss: some profiles of a block are in newer blocks,
 * and the others are nowhere. They were deleted on purpose, or are all that is left.
 */
#include "common/base/str.h"
#include "common/storage/bucket/kept.h"
#include "compactor/plan_core.h"
#include "deploy/cli/bucket_ids.h"
#include "deploy/cli/bucket_rebuild.h"

enum { ARENA_BYTES = 512 * 1024 * 1024 };

/* A block in the bucket. */
struct tenant_candidate {
    struct fg_id id;
    uint64_t bytes;
    const struct fg_blocks_entry *known; /* in the version that is used; NULL: it is newer */
    struct fg_blocks_entry entry;        /* as it enters the manifest */
    struct cli_id_list ids;
    bool derived, live;
};

struct tenant_rebuild {
    const struct cli_survey *survey;
    const struct cli_rebuild_options *options;
    const struct cli_survey_tenant *tenant;
    FILE *out;
    struct fg_arena *arena; /* of the new manifest */
    char used[FG_KEPT_NAME_MAX_BYTES];
    struct cli_survey_object version;    /* kept; its content is NULL unless it is used */
    const struct fg_blocks *known;       /* NULL: no version can be read */
    struct tenant_candidate *candidates; /* the newest first */
    size_t n;
    struct cli_id_set in_blocks;   /* of live ones */
    struct cli_id_set in_segments; /* of live segments that no version says are covered */
    struct fg_blocks blocks;
    uint64_t n_lost, n_ambiguous, profiles;
};

/* ---- versions ---- */

/* The version with the most swaps. */
static enum fg_code choose_version(struct tenant_rebuild *rebuild, struct fg_err *err)
{
    const struct cli_survey_object *present = &rebuild->tenant->manifest;
    char object[FG_NAME_MAX_BYTES];

    if (fg_name_blocks(object, fg_cstr(rebuild->tenant->name), err) != FG_OK)
        return err->code;
    if (present->content != NULL) {
        rebuild->known = &present->content->blocks;
        (void)snprintf(rebuild->used, sizeof rebuild->used, "%s as it is", object);
    }
    for (int i = 0; i < FG_KEPT_PLACES; i++) {
        struct cli_survey_object kept = {.code = FG_OK};
        char name[FG_KEPT_NAME_MAX_BYTES];
        struct fg_err unread;

        fg_kept_name(name, object, i == 0 ? "0" : "1");
        kept.code = cli_survey_get(rebuild->survey->bucket, name, &kept.bytes, err);
        if (kept.code != FG_OK && kept.code != FG_E_NOT_FOUND)
            return err->code;
        if (kept.code == FG_OK &&
            fg_manifest_blocks(fg_buf_slice(&kept.bytes), FG_LIT("kept"),
                               fg_cstr(rebuild->tenant->name), &kept.content, &unread) == FG_OK &&
            (rebuild->known == NULL || kept.content->blocks.revision > rebuild->known->revision)) {
            cli_survey_object_done(&rebuild->version);
            rebuild->version = kept;
            rebuild->known = &kept.content->blocks;
            memcpy(rebuild->used, name, sizeof name);
        } else {
            cli_survey_object_done(&kept);
        }
    }
    return FG_OK;
}

/* ---- blocks ---- */

/* Blocks that the compactor has replaced are in the bucket until garbage collection deletes them.
 */
static bool was_replaced(const struct tenant_rebuild *rebuild, struct fg_id id)
{
    for (uint32_t i = 0; rebuild->known != NULL && i < rebuild->known->n_gone; i++)
        if (fg_id_eq(rebuild->known->gone[i].id, id))
            return true;
    return false;
}

static int newest_first(const void *left, const void *right)
{
    const struct tenant_candidate *a = left, *b = right;

    return fg_id_cmp(b->id, a->id);
}

static enum fg_code open_block(const struct tenant_rebuild *rebuild,
                               const struct tenant_candidate *candidate,
                               char name[FG_NAME_MAX_BYTES], struct cli_ids_object *ret_object,
                               struct fg_err *err)
{
    struct fg_bucket_request tail = {.verb = FG_BUCKET_GET,
                                     .name = name,
                                     .content_max_bytes = FG_BLOCK_TRAILER_BYTES,
                                     .length = FG_BLOCK_TRAILER_BYTES,
                                     .deadline_mono_ns = cli_survey_deadline()};
    uint64_t offset = 0;
    enum fg_code code;

    if (fg_name_block(name, fg_cstr(rebuild->tenant->name), candidate->id, err) != FG_OK)
        return err->code;
    if (candidate->bytes < FG_BLOCK_HEADER_BYTES + FG_BLOCK_TRAILER_BYTES)
        return fg_fail(err, FG_E_CORRUPT, "%s: cut to %llu bytes", name,
                       (unsigned long long)candidate->bytes);
    tail.offset = candidate->bytes - FG_BLOCK_TRAILER_BYTES;
    code = fg_bucket_call(rebuild->survey->bucket, &tail);
    if (code != FG_OK)
        *err = tail.err;
    else
        code = fg_block_directory_offset(fg_buf_slice(&tail.body), candidate->bytes, &offset, err);
    fg_bucket_clear(&tail);
    *ret_object = (struct cli_ids_object){rebuild->survey->bucket, name, candidate->bytes, offset};
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", name);
}

/* Sets the span that the block was made for, by its level and its last profile. */
static void set_span(struct fg_blocks_entry *entry)
{
    int64_t unit_ns = entry->level == PLAN_HOUR      ? FG_HOUR_NS
                      : entry->level == PLAN_6_HOURS ? 6 * FG_HOUR_NS
                                                     : PLAN_DAY_NS;
    int64_t rest_ns = entry->t_max_ns % unit_ns;
    struct cmp_plan_span month = cmp_plan_month_of(entry->t_max_ns);

    if (entry->level < PLAN_HOUR || entry->level > PLAN_DAY) {
        entry->start_ns = month.start_ns;
        entry->end_ns = month.end_ns;
        return;
    }
    rest_ns += rest_ns < 0 ? unit_ns : 0;
    entry->start_ns = entry->t_max_ns - rest_ns;
    entry->end_ns = fg_time_add(entry->start_ns, unit_ns);
}

static enum fg_code read_shards(const struct cli_ids_object *object,
                                const struct fg_block_directory *directory,
                                struct fg_blocks_entry *entry, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);

    entry->shard_first = UINT16_MAX;
    for (uint32_t p = 0; p < directory->n_parts; p++) {
        struct fg_block_group *groups;

        if (cli_ids_groups(object, &directory->parts[p], arena, &groups, err) != FG_OK)
            return err->code;
        for (uint32_t g = 0; g < directory->parts[p].n_groups; g++) {
            entry->shard_first = FG_MIN(entry->shard_first, groups[g].shard);
            entry->shard_last = FG_MAX(entry->shard_last, groups[g].shard);
        }
    }
    return FG_OK;
}

static enum fg_code read_block(const struct tenant_rebuild *rebuild,
                               struct tenant_candidate *candidate, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_block_directory directory;
    char name[FG_NAME_MAX_BYTES];
    struct cli_ids_object object;

    if (open_block(rebuild, candidate, name, &object, err) != FG_OK ||
        cli_ids_directory(&object, arena, &directory, err) != FG_OK)
        return err->code;
    for (uint32_t p = 0; p < directory.n_parts; p++)
        if (!fg_slice_eq(directory.parts[p].tenant, fg_cstr(rebuild->tenant->name)))
            return fg_fail(err, FG_E_CORRUPT, "%s: it has parts of another tenant", name);
    candidate->derived = directory.n_parts > 0 && directory.derived;
    candidate->entry =
        (struct fg_blocks_entry){.id = candidate->id,
                                 .level = (uint8_t)directory.level,
                                 .derived = candidate->derived,
                                 .t_min_ns = directory.t_min_ns,
                                 .t_max_ns = directory.t_max_ns,
                                 .bytes = candidate->bytes,
                                 .directory_offset = object.directory_offset,
                                 .directory_bytes = candidate->bytes - object.directory_offset,
                                 .rollup_offset = directory.rollup_offset,
                                 .rollup_bytes = object.directory_offset - directory.rollup_offset,
                                 .profiles = directory.n_profiles,
                                 .digest = directory.digest,
                                 .usage = directory.usage};
    set_span(&candidate->entry);
    if (candidate->known != NULL)
        candidate->entry = *candidate->known;
    if (candidate->derived)
        return FG_OK;
    for (uint32_t p = 0; p < directory.n_parts; p++)
        if (cli_ids_part(&object, &directory.parts[p], &candidate->ids, err) != FG_OK)
            return err->code;
    return candidate->known != NULL ? FG_OK
                                    : read_shards(&object, &directory, &candidate->entry, err);
}

static enum fg_code read_blocks(struct tenant_rebuild *rebuild, struct fg_err *err)
{
    rebuild->candidates =
        fg_calloc(FG_MAX(rebuild->tenant->n_blocks, (size_t)1), sizeof *rebuild->candidates);
    for (size_t i = 0; i < rebuild->tenant->n_blocks; i++) {
        const struct cli_survey_entry *entry = &rebuild->tenant->blocks[i];
        struct tenant_candidate *candidate = &rebuild->candidates[rebuild->n];
        struct fg_err unread;

        if (was_replaced(rebuild, entry->name.block))
            continue;
        *candidate = (struct tenant_candidate){.id = entry->name.block, .bytes = entry->bytes};
        if (rebuild->known != NULL)
            candidate->known = fg_blocks_find(rebuild->known, candidate->id);
        rebuild->n++;
        fg_assert(rebuild->n <= rebuild->tenant->n_blocks);
        if (read_block(rebuild, candidate, &unread) == FG_OK)
            continue;
        if (!fg_damage_is(unread.code)) {
            *err = unread;
            return err->code;
        }
        rebuild->n_lost++;
        (void)fprintf(rebuild->out, "lost: %s\n", unread.msg);
        cli_id_list_done(&candidate->ids);
        rebuild->n--;
    }
    if (rebuild->n > 1)
        qsort(rebuild->candidates, rebuild->n, sizeof *rebuild->candidates, newest_first);
    return FG_OK;
}

static const struct tenant_candidate *find_candidate(const struct tenant_rebuild *rebuild,
                                                     struct fg_id id)
{
    for (size_t i = 0; i < rebuild->n; i++)
        if (fg_id_eq(rebuild->candidates[i].id, id))
            return &rebuild->candidates[i];
    return NULL;
}

/* ---- segments ---- */

/* Reads the ids of the tenant's profiles in a live segment; none if it has no part there. */
static enum fg_code segment_ids(const struct tenant_rebuild *rebuild,
                                const struct fg_l0_segment *segment, struct cli_id_list *ids,
                                struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_slice tenant = fg_cstr(rebuild->tenant->name);
    struct fg_block_directory directory;
    char name[FG_NAME_MAX_BYTES];
    const struct cli_ids_object object = {rebuild->survey->bucket, name, segment->bytes,
                                          segment->directory_offset};
    uint32_t first;

    fg_name_segment(name, &segment->id);
    if (cli_ids_directory(&object, arena, &directory, err) != FG_OK)
        return err->code;
    first = fg_block_part_find(&directory, tenant, FG_LIT(""));
    for (uint32_t p = first;
         p < directory.n_parts && fg_slice_eq(directory.parts[p].tenant, tenant); p++)
        if (cli_ids_part(&object, &directory.parts[p], ids, err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* Returns true if the segment has profiles of the tenant that its known blocks may not cover. */
static bool may_be_uncovered(const struct tenant_rebuild *rebuild, const struct fg_l0 *l0,
                             const struct fg_l0_segment *segment)
{
    uint32_t number = fg_l0_tenant(l0, fg_cstr(rebuild->tenant->name));

    return number != FG_L0_NO_TENANT && fg_l0_part(segment, number) != NULL &&
           (rebuild->known == NULL || !fg_blocks_covers(rebuild->known, segment->generation));
}

static const struct fg_l0 *live_l0(const struct tenant_rebuild *rebuild)
{
    return rebuild->survey->l0.code == FG_OK ? &rebuild->survey->l0.content->l0 : NULL;
}

static enum fg_code read_segments(struct tenant_rebuild *rebuild, struct fg_err *err)
{
    const struct fg_l0 *l0 = live_l0(rebuild);

    for (uint32_t i = 0; l0 != NULL && i < l0->n_segments; i++) {
        struct cli_id_list ids = {.n = 0};
        struct fg_err unread;

        if (!may_be_uncovered(rebuild, l0, &l0->segments[i]))
            continue;
        if (segment_ids(rebuild, &l0->segments[i], &ids, &unread) != FG_OK &&
            !fg_damage_is(unread.code)) {
            cli_id_list_done(&ids);
            *err = unread;
            return err->code;
        }
        for (size_t k = 0; k < ids.n; k++)
            (void)cli_id_set_add(&rebuild->in_segments, ids.ids[k]);
        cli_id_list_done(&ids);
    }
    return FG_OK;
}

/* ---- which blocks are live ---- */

static uint64_t count_in(const struct cli_id_list *ids, const struct cli_id_set *set)
{
    uint64_t n = 0;

    for (size_t i = 0; i < ids->n; i++)
        n += cli_id_set_has(set, ids->ids[i]);
    return n;
}

/* Decides whether a block with profiles is live. Blocks come newest first: one whose profiles are
 * all in newer ones was replaced by a merge. */
static void decide(struct tenant_rebuild *rebuild, struct tenant_candidate *candidate)
{
    uint64_t newer = count_in(&candidate->ids, &rebuild->in_blocks);
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    if (fg_name_block(name, fg_cstr(rebuild->tenant->name), candidate->id, &err) != FG_OK)
        return;
    if (candidate->known == NULL && candidate->ids.n > 0 &&
        count_in(&candidate->ids, &rebuild->in_segments) == candidate->ids.n) {
        (void)fprintf(rebuild->out, "%s: not listed; live segments have all of its profiles\n",
                      name);
        return;
    }
    if (newer > 0 && newer == candidate->ids.n) {
        (void)fprintf(rebuild->out, "%s: not listed; newer blocks have all of its profiles\n",
                      name);
        return;
    }
    if (newer > 0) {
        rebuild->n_ambiguous++;
        (void)fprintf(rebuild->out,
                      "in doubt: %s: newer blocks have %llu of its %zu profiles; the others were "
                      "deleted on purpose, or are nowhere else\n",
                      name, (unsigned long long)newer, candidate->ids.n);
        return;
    }
    candidate->live = true;
    rebuild->profiles += candidate->ids.n;
    for (size_t i = 0; i < candidate->ids.n; i++)
        (void)cli_id_set_add(&rebuild->in_blocks, candidate->ids.ids[i]);
}

/* Keeps a derived object if a version of the manifest knows it and all its blocks are live. The
 * compactor builds the others again. */
static void decide_rollups(struct tenant_rebuild *rebuild, struct tenant_candidate *candidate)
{
    const struct fg_blocks_entry *known = candidate->known;
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    if (known != NULL) {
        candidate->live = true;
        for (uint32_t i = 0; !known->rollup_only && i < known->n_from_blocks; i++) {
            const struct tenant_candidate *from = find_candidate(rebuild, known->from_blocks[i]);

            candidate->live = candidate->live && from != NULL && from->live;
        }
        return;
    }
    if (fg_name_block(name, fg_cstr(rebuild->tenant->name), candidate->id, &err) != FG_OK)
        return;
    for (size_t i = 0; i < rebuild->n; i++) {
        const struct tenant_candidate *other = &rebuild->candidates[i];

        if (other->live && !other->derived && other->entry.t_min_ns <= candidate->entry.t_max_ns &&
            candidate->entry.t_min_ns <= other->entry.t_max_ns) {
            (void)fprintf(rebuild->out, "%s: not listed; rollups of profiles that are there\n",
                          name);
            return;
        }
    }
    /* Its profiles are gone: it is all that is left of them. */
    candidate->live = candidate->entry.rollup_only = true;
}

/* ---- the manifest ---- */

static bool has_older_of_span(const struct tenant_rebuild *rebuild,
                              const struct tenant_candidate *candidate)
{
    for (size_t i = 0; i < rebuild->n; i++) {
        const struct tenant_candidate *other = &rebuild->candidates[i];

        if (other->live && !other->derived && fg_id_cmp(other->id, candidate->id) < 0 &&
            other->entry.level == candidate->entry.level &&
            other->entry.start_ns == candidate->entry.start_ns &&
            other->entry.shard_first <= candidate->entry.shard_last &&
            candidate->entry.shard_first <= other->entry.shard_last)
            return true;
    }
    return false;
}

static int by_gone_id(const void *left, const void *right)
{
    return fg_id_cmp(((const struct fg_blocks_gone *)left)->id,
                     ((const struct fg_blocks_gone *)right)->id);
}

/* Lists the live blocks, and as gone those that were gone already. Other blocks are not listed and
 * stay in the bucket. */
static enum fg_code set_blocks(struct tenant_rebuild *rebuild, struct fg_err *err)
{
    struct fg_blocks *blocks = &rebuild->blocks;
    uint32_t n_gone = rebuild->known == NULL ? 0 : rebuild->known->n_gone;

    blocks->blocks = fg_arena_new(rebuild->arena, struct fg_blocks_entry, rebuild->n);
    blocks->gone = fg_arena_new(rebuild->arena, struct fg_blocks_gone, n_gone);
    if (blocks->blocks == NULL || blocks->gone == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %zu blocks", rebuild->n);
    for (size_t i = rebuild->n; i-- > 0;) { /* manifests list blocks by ascending id */
        struct tenant_candidate *candidate = &rebuild->candidates[i];

        if (!candidate->live)
            continue;
        if (candidate->known == NULL && !candidate->derived)
            candidate->entry.patch = has_older_of_span(rebuild, candidate);
        blocks->blocks[blocks->n_blocks++] = candidate->entry;
    }
    if (n_gone > 0)
        memcpy(blocks->gone, rebuild->known->gone, n_gone * sizeof *blocks->gone);
    blocks->n_gone = n_gone;
    if (n_gone > 1)
        qsort(blocks->gone, n_gone, sizeof *blocks->gone, by_gone_id);
    return FG_OK;
}

/* Finds out whether blocks have what the segment has of the tenant. If they have a part of it, the
 * rest was deleted, since a segment is covered as a whole. */
static enum fg_code is_covered(struct tenant_rebuild *rebuild, const struct fg_l0 *l0,
                               const struct fg_l0_segment *segment, bool *ret_covered,
                               struct fg_err *err)
{
    struct cli_id_list ids = {.n = 0};
    uint64_t n;

    *ret_covered = !may_be_uncovered(rebuild, l0, segment);
    if (*ret_covered)
        return FG_OK;
    if (segment_ids(rebuild, segment, &ids, err) != FG_OK) {
        cli_id_list_done(&ids);
        return fg_damage_is(err->code) ? FG_OK : err->code; /* it counts as uncovered */
    }
    n = count_in(&ids, &rebuild->in_blocks);
    if (n > 0 && n < ids.n) {
        rebuild->n_ambiguous++;
        (void)fprintf(rebuild->out,
                      "in doubt: segment of generation %llu: blocks have %llu of its %zu profiles; "
                      "the others were deleted on purpose, or are nowhere else\n",
                      (unsigned long long)segment->generation, (unsigned long long)n, ids.n);
    }
    *ret_covered = n > 0;
    cli_id_list_done(&ids);
    return FG_OK;
}

/* Marks all generations as covered, except live segments that are not. Generations in between whose
 * segments are gone are listed as well: readers with an older L0 manifest know them. */
static enum fg_code set_covered(struct tenant_rebuild *rebuild, struct fg_err *err)
{
    const struct fg_l0 *l0 = live_l0(rebuild);
    struct fg_blocks *blocks = &rebuild->blocks;
    uint64_t end = rebuild->survey->ring.generation, first = 0;
    uint32_t number =
        l0 == NULL ? FG_L0_NO_TENANT : fg_l0_tenant(l0, fg_cstr(rebuild->tenant->name));

    if (rebuild->known != NULL)
        end = FG_MAX(end, FG_MAX(rebuild->known->newest, rebuild->known->covered_floor));
    if (l0 == NULL) { /* a rebuilt L0 manifest will begin above these generations */
        blocks->covered_floor = blocks->newest = end;
        return FG_OK;
    }
    blocks->covered = fg_arena_new(rebuild->arena, uint64_t, FG_BLOCKS_COVERED_MAX);
    if (blocks->covered == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for what is covered");
    end = l0->generation;
    blocks->covered_floor = end;
    blocks->newest = FG_MAX(l0->floor, number == FG_L0_NO_TENANT ? 0 : l0->tenants[number].retired);
    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];
        bool covered;

        if (number == FG_L0_NO_TENANT || fg_l0_part(segment, number) == NULL)
            continue;
        if (is_covered(rebuild, l0, segment, &covered, err) != FG_OK)
            return err->code;
        if (covered)
            blocks->newest = FG_MAX(blocks->newest, segment->generation);
        if (!covered && first == 0) {
            first = segment->generation;
            blocks->covered_floor = first - 1;
        }
        for (uint64_t g = blocks->n_covered == 0 ? blocks->covered_floor + 1
                                                 : blocks->covered[blocks->n_covered - 1] + 1;
             first != 0 && covered && g <= segment->generation; g++) {
            const struct fg_l0_segment *other = fg_l0_segment(l0, g);

            if (g != segment->generation && other != NULL && fg_l0_part(other, number) != NULL)
                continue; /* found uncovered before */
            if (blocks->n_covered == FG_BLOCKS_COVERED_MAX)
                return fg_fail(err, FG_E_LIMIT, "more than %d covered segments",
                               FG_BLOCKS_COVERED_MAX);
            blocks->covered[blocks->n_covered++] = g;
        }
    }
    return FG_OK;
}

/* Marks the segments that left the L0 manifest as covered, even if an older one is not. */
static enum fg_code set_retired(struct tenant_rebuild *rebuild, struct fg_err *err)
{
    const struct fg_l0 *l0 = live_l0(rebuild);
    struct fg_blocks *blocks = &rebuild->blocks;
    uint32_t number =
        l0 == NULL ? FG_L0_NO_TENANT : fg_l0_tenant(l0, fg_cstr(rebuild->tenant->name));
    uint64_t from;

    if (number == FG_L0_NO_TENANT || fg_blocks_covers(blocks, l0->tenants[number].retired))
        return FG_OK;
    from = blocks->n_covered == 0 ? blocks->covered_floor + 1
                                  : blocks->covered[blocks->n_covered - 1] + 1;
    for (uint64_t g = from; g <= l0->tenants[number].retired; g++) {
        const struct fg_l0_segment *live = fg_l0_segment(l0, g);

        if (live != NULL && fg_l0_part(live, number) != NULL)
            continue;
        if (blocks->n_covered == FG_BLOCKS_COVERED_MAX)
            return fg_fail(err, FG_E_LIMIT, "more than %d covered segments", FG_BLOCKS_COVERED_MAX);
        blocks->covered[blocks->n_covered++] = g;
    }
    return FG_OK;
}

static enum fg_code make_manifest(struct tenant_rebuild *rebuild, struct fg_err *err)
{
    const struct fg_blocks *known = rebuild->known;

    rebuild->blocks = known == NULL ? fg_blocks_none(fg_cstr(rebuild->tenant->name)) : *known;
    rebuild->blocks.tenant = fg_cstr(rebuild->tenant->name);
    rebuild->blocks.revision = cli_rebuild_revision();
    rebuild->blocks.blocks = NULL;
    rebuild->blocks.covered = NULL;
    rebuild->blocks.n_blocks = rebuild->blocks.n_covered = 0;
    /* An older version may have sums that are in documents by now: what is not billed is better
     * than what is billed twice. The number is above those of all documents. */
    if (rebuild->version.content != NULL || known == NULL)
        rebuild->blocks.ledger =
            (struct fg_ledger){.version = (uint64_t)(fg_wall_ns(fg_clock_real()) / FG_SECOND_NS)};
    if (read_segments(rebuild, err) != FG_OK || read_blocks(rebuild, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < rebuild->n; i++)
        if (!rebuild->candidates[i].derived)
            decide(rebuild, &rebuild->candidates[i]);
    for (size_t i = 0; i < rebuild->n; i++)
        if (rebuild->candidates[i].derived)
            decide_rollups(rebuild, &rebuild->candidates[i]);
    for (uint32_t i = 0; known != NULL && i < known->n_blocks; i++) {
        char name[FG_NAME_MAX_BYTES];

        if (known->blocks[i].derived || find_candidate(rebuild, known->blocks[i].id) != NULL)
            continue;
        if (fg_name_block(name, fg_cstr(rebuild->tenant->name), known->blocks[i].id, err) != FG_OK)
            return err->code;
        /* A kept version may list blocks that were replaced since; the present one lists live ones.
         */
        if (rebuild->version.content == NULL) {
            rebuild->n_lost++;
            (void)fprintf(rebuild->out, "lost: %s: the object is missing\n", name);
        }
    }
    if (set_blocks(rebuild, err) != FG_OK || set_covered(rebuild, err) != FG_OK)
        return err->code;
    return set_retired(rebuild, err);
}

static void print_plan(const struct tenant_rebuild *rebuild)
{
    if (rebuild->known != NULL)
        (void)fprintf(rebuild->out, "used: %s, of revision %llu\n", rebuild->used,
                      (unsigned long long)rebuild->known->revision);
    else
        (void)fprintf(rebuild->out, "no version can be read: deletions that were pending are lost, "
                                    "ask for them again\n");
    if (rebuild->blocks.ledger.stored_wall_ns == 0)
        (void)fprintf(rebuild->out, "usage since the last documents (flamegrid usage) is lost\n");
    (void)fprintf(rebuild->out,
                  "tenant %s: %llu profiles in %u blocks, covered up to generation %llu\n",
                  rebuild->tenant->name, (unsigned long long)rebuild->profiles,
                  rebuild->blocks.n_blocks, (unsigned long long)rebuild->blocks.covered_floor);
}

static enum fg_code run(struct tenant_rebuild *rebuild, struct fg_slice tenant, struct fg_err *err)
{
    rebuild->tenant = cli_survey_tenant(rebuild->survey, tenant);
    if (rebuild->tenant == NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "there is nothing of tenant %.*s", FG_S(tenant));
    if (choose_version(rebuild, err) != FG_OK || make_manifest(rebuild, err) != FG_OK)
        return err->code;
    print_plan(rebuild);
    if (rebuild->n_lost + rebuild->n_ambiguous > 0 && !rebuild->options->accept_loss)
        return fg_fail(err, FG_E_PRECONDITION,
                       "%llu blocks are lost and %llu objects are in doubt; --accept-loss goes on "
                       "without these blocks",
                       (unsigned long long)rebuild->n_lost,
                       (unsigned long long)rebuild->n_ambiguous);
    if (!rebuild->options->apply) {
        (void)fprintf(rebuild->out, "nothing was written; --apply writes the manifest\n");
        return FG_OK;
    }
    return cli_rebuild_replace_blocks(rebuild->survey->bucket, &rebuild->tenant->manifest,
                                      &rebuild->blocks, rebuild->out, err);
}

enum fg_code cli_rebuild_tenant(struct fg_bucket *bucket, struct fg_slice tenant,
                                const struct cli_rebuild_options *options, FILE *out,
                                struct fg_err *err)
{
    struct cli_survey survey = {.bucket = NULL};
    struct tenant_rebuild rebuild = {.survey = &survey,
                                     .options = options,
                                     .out = out,
                                     .arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES)};
    enum fg_code code = cli_survey_read(bucket, &survey, err);

    if (code == FG_OK)
        code = run(&rebuild, tenant, err);
    for (size_t i = 0; i < rebuild.n; i++)
        cli_id_list_done(&rebuild.candidates[i].ids);
    free(rebuild.candidates);
    cli_id_set_done(&rebuild.in_blocks);
    cli_id_set_done(&rebuild.in_segments);
    cli_survey_object_done(&rebuild.version);
    fg_arena_destroy(rebuild.arena);
    cli_survey_done(&survey);
    return code;
}
