/*
 * Rebuilds the L0 manifest. It lists the profiles of the segments in the bucket that are in no
 * block.
 *
 * For a segment that a kept or older version of the manifest knows, that version decides: it has
 * the segment's generation, and so tells whether a tenant's manifest covers it. For other segments
 * the ids of their profiles decide: a segment with profiles in blocks is covered. An upload that
 * was never committed is treated like any other segment: its profiles are taken once, whichever
 * object they are found in, and the head that has them finds them there.
 *
 * Profiles that a deletion took must not come back: the ended deletions that a tenant's manifest
 * remembers are applied to every segment from before their end.
 */
#include "common/base/search.h"
#include "common/base/str.h"
#include "common/storage/block/verify.h"
#include "common/storage/bucket/kept.h"
#include "deploy/cli/bucket_ids.h"
#include "deploy/cli/bucket_rebuild.h"
#include "deploy/cli/bucket_rewrite.h"
#include "ingester/keys.h"

#include <errno.h>
#include <sys/random.h>

enum {
    ARENA_BYTES = 512 * 1024 * 1024,
    RUNS_MAX = 1 << 20, /* groups of the late-data filter that are in the future */
    /* At most so many segments can have been committed since the newest generation that a tenant
     * covers, since all of them would be live. The new generations begin above all of these. */
    MARGIN = FG_L0_SEGMENTS_MAX + 1,
};

static const size_t PARSED_MAX_BYTES = (size_t)4 << 30;    /* of one object */
static const size_t SEGMENT_MAX_BYTES = (size_t)4 << 30;   /* that is written */
static const int64_t UPLOAD_MAX_AGE_NS = FG_HOUR_NS;       /* older ones are not swapped in */
static const int64_t LONGEST_PROFILE_NS = 24 * FG_HOUR_NS; /* its window is that of its end */

/* A version of the manifest that can be read. */
struct version {
    char name[FG_KEPT_NAME_MAX_BYTES];
    struct cli_survey_object object;
};

/* A tenant with segments. */
struct l0_owner {
    struct l0_owner *next;
    char name[FG_TENANT_MAX_BYTES + 1];
    const struct fg_blocks *blocks; /* NULL: it has none */
    bool *read;                     /* [n_blocks]: its ids are in `in_blocks` */
    struct cli_id_set in_blocks, taken;
};

struct l0_rebuild {
    const struct cli_survey *survey;
    const struct cli_rebuild_options *options;
    FILE *out;
    struct version versions[FG_KEPT_PLACES + 1];
    size_t n_versions;
    struct l0_owner *owners;
    struct fg_arena *arena; /* of the new manifest */
    struct fg_l0 l0;
    bool upload; /* else it is only found out what there is to be written */
    struct fg_id writer;
    uint64_t cuts;
    uint32_t window_now;
    struct fg_late_filter_run *runs; /* groups that are not before the present */
    uint32_t n_runs, cap_runs;
    uint64_t n_lost, n_ambiguous; /* what has to be accepted */
    uint64_t profiles;
};

/* ---- what is known ---- */

/* Reads the kept copies of the manifest; one that is missing or damaged is skipped. */
static enum fg_code read_versions(struct l0_rebuild *rebuild, struct fg_err *err)
{
    for (int i = 0; i < FG_KEPT_PLACES; i++) {
        struct version *version = &rebuild->versions[rebuild->n_versions];
        struct cli_survey_object *object = &version->object;
        enum fg_code code;

        fg_kept_name(version->name, FG_NAME_L0, i == 0 ? "0" : "1");
        code = cli_survey_get(rebuild->survey->bucket, version->name, &object->bytes, err);
        if (code != FG_OK && code != FG_E_NOT_FOUND)
            return code;
        if (code == FG_OK && fg_manifest_l0(fg_buf_slice(&object->bytes), FG_LIT("kept"),
                                            &object->content, err) == FG_OK)
            rebuild->n_versions++;
        else
            cli_survey_object_done(object);
    }
    return FG_OK;
}

/* Returns a version by number: the present one first, if it can be read; NULL: there are no more.
 */
static const struct fg_l0 *version_of(const struct l0_rebuild *rebuild, size_t number)
{
    const struct fg_manifest *present = rebuild->survey->l0.content;

    if (present != NULL && number-- == 0)
        return &present->l0;
    return number < rebuild->n_versions ? &rebuild->versions[number].object.content->l0 : NULL;
}

/* UNKNOWN: no version lists the segment. GONE: it left the manifest after all its tenants had
 * covered it. */
enum known { UNKNOWN, LIVE, GONE };

/* Returns what the manifest versions say about the segment; sets *ret_entry if it is LIVE. */
static enum known find_known(const struct l0_rebuild *rebuild, const struct fg_segment_id *id,
                             const struct fg_l0 **ret_l0, const struct fg_l0_segment **ret_entry)
{
    const struct fg_l0 *l0;

    for (size_t v = 0; (l0 = version_of(rebuild, v)) != NULL; v++) {
        for (uint32_t i = 0; i < l0->n_gone; i++)
            if (fg_segment_id_cmp(&l0->gone[i].id, id) == 0)
                return GONE;
        for (uint32_t i = 0; i < l0->n_segments; i++)
            if (fg_segment_id_cmp(&l0->segments[i].id, id) == 0) {
                *ret_l0 = l0;
                *ret_entry = &l0->segments[i];
                return LIVE;
            }
    }
    return UNKNOWN;
}

/* ---- tenants ---- */

static struct l0_owner *find_owner(struct l0_rebuild *rebuild, struct fg_slice name)
{
    const struct cli_survey_tenant *tenant;
    struct l0_owner *owner = rebuild->owners;

    while (owner != NULL && !fg_slice_eq(fg_cstr(owner->name), name))
        owner = owner->next;
    if (owner != NULL)
        return owner;
    owner = fg_new(struct l0_owner);
    (void)snprintf(owner->name, sizeof owner->name, "%.*s", FG_S(name));
    tenant = cli_survey_tenant(rebuild->survey, name);
    if (tenant != NULL && tenant->manifest.content != NULL) {
        owner->blocks = &tenant->manifest.content->blocks;
        owner->read = fg_calloc(FG_MAX(owner->blocks->n_blocks, 1u), sizeof *owner->read);
    }
    owner->next = rebuild->owners;
    rebuild->owners = owner;
    return owner;
}

static void forget_owners(struct l0_rebuild *rebuild)
{
    while (rebuild->owners != NULL) {
        struct l0_owner *owner = rebuild->owners;

        rebuild->owners = owner->next;
        cli_id_set_done(&owner->in_blocks);
        cli_id_set_done(&owner->taken);
        free(owner->read);
        free(owner);
    }
}

static enum fg_code open_block(const struct l0_rebuild *rebuild, const struct l0_owner *owner,
                               const struct fg_blocks_entry *block, char name[FG_NAME_MAX_BYTES],
                               struct cli_ids_object *ret_object, struct fg_err *err)
{
    if (fg_name_block(name, fg_cstr(owner->name), block->id, err) != FG_OK)
        return err->code;
    *ret_object = (struct cli_ids_object){rebuild->survey->bucket, name, block->bytes,
                                          block->directory_offset};
    return FG_OK;
}

static enum fg_code read_block(const struct l0_rebuild *rebuild, struct l0_owner *owner,
                               const struct fg_blocks_entry *block, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_block_directory directory;
    char name[FG_NAME_MAX_BYTES];
    struct cli_ids_object object;
    struct cli_id_list ids = {.n = 0};
    enum fg_code code = open_block(rebuild, owner, block, name, &object, err);

    if (code == FG_OK)
        code = cli_ids_directory(&object, arena, &directory, err);
    for (uint32_t p = 0; code == FG_OK && p < directory.n_parts; p++)
        code = cli_ids_part(&object, &directory.parts[p], &ids, err);
    for (size_t i = 0; code == FG_OK && i < ids.n; i++)
        (void)cli_id_set_add(&owner->in_blocks, ids.ids[i]);
    cli_id_list_done(&ids);
    return code;
}

/* Reads the ids of all blocks with profiles of that time into `in_blocks`. A block that cannot be
 * read leaves in doubt what it holds. */
static enum fg_code know_blocks(struct l0_rebuild *rebuild, struct l0_owner *owner,
                                const char *segment, int64_t t_min_ns, int64_t t_max_ns,
                                struct fg_err *err)
{
    for (uint32_t i = 0; owner->blocks != NULL && i < owner->blocks->n_blocks; i++) {
        const struct fg_blocks_entry *block = &owner->blocks->blocks[i];
        struct fg_err unread;

        if (owner->read[i] || block->t_min_ns > t_max_ns || block->t_max_ns < t_min_ns)
            continue;
        if (block->rollup_only) {
            rebuild->n_ambiguous++;
            (void)fprintf(rebuild->out,
                          "in doubt: %s has profiles of tenant %s of a time that is kept as "
                          "rollups only; they may be among these\n",
                          segment, owner->name);
            continue;
        }
        owner->read[i] = true;
        /* A derived block has no profiles of its own. */
        if (block->derived || read_block(rebuild, owner, block, &unread) == FG_OK)
            continue;
        if (!fg_damage_is(unread.code)) {
            *err = unread;
            return err->code;
        }
        rebuild->n_ambiguous++;
        (void)fprintf(rebuild->out,
                      "in doubt: %s; what it holds of %s would count twice. Put the block back, or "
                      "rebuild the tenant's manifest without it first\n",
                      unread.msg, segment);
    }
    return FG_OK;
}

/* Finds the ended deletions that have taken from segments as old as this one. */
static enum fg_code past_deletions(struct l0_rebuild *rebuild, const struct l0_owner *owner,
                                   const char *segment, int64_t modified_wall_ns,
                                   struct fg_arena *arena, struct fg_deletions *ret_deletions,
                                   struct fg_err *err)
{
    struct fg_blocks past = fg_blocks_none(fg_cstr(owner->name));
    const struct fg_blocks *blocks = owner->blocks;

    *ret_deletions = (struct fg_deletions){0};
    if (blocks == NULL || blocks->n_ended == 0)
        return FG_OK;
    past.tombstones = fg_arena_new(arena, struct fg_blocks_tombstone, blocks->n_ended);
    if (past.tombstones == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u deletions", blocks->n_ended);
    for (uint32_t i = 0; i < blocks->n_ended; i++) {
        const struct fg_blocks_tombstone *ended = &blocks->ended[i];

        /* The deletion ended before the upload, so it took nothing from this segment. */
        if (ended->ended_wall_ns < modified_wall_ns)
            continue;
        /* A selector that was cut ends before the character that did not fit, of up to 4 bytes. */
        if (ended->selector.len < FG_BLOCKS_ENDED_SELECTOR_MAX_BYTES - 4) {
            past.tombstones[past.n_tombstones++] = *ended;
            continue;
        }
        rebuild->n_ambiguous++; /* the selector may have been cut when the deletion ended */
        (void)fprintf(rebuild->out,
                      "in doubt: %s may have profiles of tenant %s that a deletion took whose "
                      "selector was not kept whole\n",
                      segment, owner->name);
    }
    return fg_blocks_deletions(&past, arena, ret_deletions, err);
}

/* ---- a segment of the new manifest ---- */

static enum fg_code add_run(struct l0_rebuild *rebuild, const struct fg_block_group *group,
                            struct fg_err *err)
{
    /* set_late_filter() counts all groups up to the present as committed. */
    if (group->window <= rebuild->window_now)
        return FG_OK;
    if (rebuild->n_runs == RUNS_MAX)
        return fg_fail(err, FG_E_LIMIT, "more than %d groups of the future", RUNS_MAX);
    if (rebuild->n_runs == rebuild->cap_runs) {
        rebuild->cap_runs = FG_MAX(rebuild->cap_runs * 2, 64u);
        rebuild->runs = fg_realloc(rebuild->runs, rebuild->cap_runs * sizeof *rebuild->runs);
    }
    rebuild->runs[rebuild->n_runs++] =
        (struct fg_late_filter_run){group->window, group->shard, group->shard};
    fg_assert(rebuild->n_runs <= rebuild->cap_runs);
    return FG_OK;
}

static enum fg_code note_groups(struct l0_rebuild *rebuild, struct fg_slice file,
                                const struct fg_block_part *part, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_block_range range = fg_block_part_range(part, FG_BLOCK_WANT_GROUPS);
    struct fg_block_group *groups;

    if (fg_block_groups_parse(part, fg_slice_sub(file, (size_t)range.offset, (size_t)range.len),
                              arena, &groups, err) != FG_OK)
        return err->code;
    for (uint32_t g = 0; g < part->n_groups; g++)
        if (add_run(rebuild, &groups[g], err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* Sums up the parts of a file for each tenant. Returns NULL at the arena's limit. */
static struct fg_l0_new_part *sum_parts(const struct l0_rebuild *rebuild,
                                        const struct fg_block_directory *directory,
                                        uint32_t *ret_count)
{
    struct fg_l0_new_part *parts =
        fg_arena_new(rebuild->arena, struct fg_l0_new_part, directory->n_parts);
    uint32_t n = 0;

    for (uint32_t p = 0; parts != NULL && p < directory->n_parts; p++) {
        const struct fg_block_part *part = &directory->parts[p];

        if (n == 0 || !fg_slice_eq(parts[n - 1].tenant, part->tenant)) {
            parts[n++] =
                (struct fg_l0_new_part){fg_arena_copy(rebuild->arena, part->tenant), part->t_min_ns,
                                        part->t_max_ns, part->n_profiles, part->usage};
            continue;
        }
        parts[n - 1].t_min_ns = FG_MIN(parts[n - 1].t_min_ns, part->t_min_ns);
        parts[n - 1].t_max_ns = FG_MAX(parts[n - 1].t_max_ns, part->t_max_ns);
        parts[n - 1].profiles += part->n_profiles;
        fg_usage_add(&parts[n - 1].usage, &part->usage);
    }
    fg_assert(n <= directory->n_parts);
    *ret_count = n;
    return parts;
}

static enum fg_code upload(const struct l0_rebuild *rebuild, const struct fg_segment_id *id,
                           struct fg_slice file, struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT,
                                    .name = name,
                                    .content = file,
                                    /* The writer id is random, so no other object has this name. */
                                    .condition = FG_BUCKET_IF_ABSENT,
                                    .deadline_mono_ns = cli_survey_deadline()};
    enum fg_code code;

    fg_name_segment(name, id);
    code = fg_bucket_call(rebuild->survey->bucket, &put);
    if (code != FG_OK)
        *err = put.err;
    fg_bucket_clear(&put);
    return code;
}

/* Makes the verified file the next segment. */
static enum fg_code enter(struct l0_rebuild *rebuild, struct fg_slice file,
                          const struct fg_block_directory *directory, struct fg_err *err)
{
    uint64_t offset = 0;
    struct fg_l0_new new = {.id = {rebuild->writer, ++rebuild->cuts, rebuild->cuts},
                            .bytes = file.len,
                            .profiles = directory->n_profiles,
                            .digest = directory->digest,
                            .t_min_ns = directory->t_min_ns,
                            .t_max_ns = directory->t_max_ns,
                            .groups = fg_late_filter_none()};

    new.parts = sum_parts(rebuild, directory, &new.n_parts);
    if (new.parts == NULL)
        return fg_fail(err, FG_E_LIMIT, "the L0 manifest would be too large");
    if (fg_block_directory_offset(file, file.len, &offset, err) != FG_OK)
        return err->code;
    new.directory_offset = offset;
    new.directory_bytes = file.len - offset;
    for (uint32_t p = 0; p < directory->n_parts; p++)
        if (note_groups(rebuild, file, &directory->parts[p], err) != FG_OK)
            return err->code;
    /* The first pass only plans: nothing is written before the losses in the plan were accepted. */
    if (rebuild->upload && upload(rebuild, &new.id, file, err) != FG_OK)
        return err->code;
    rebuild->profiles += directory->n_profiles;
    return fg_l0_commit(&rebuild->l0, &new, fg_wall_ns(fg_clock_real()), 0, rebuild->arena,
                        &rebuild->l0, err);
}

/* ---- one segment of the bucket ---- */

/* The segment under examination. */
struct l0_looking {
    const char *name;
    int64_t modified_wall_ns;
    enum known known;
    const struct fg_l0 *l0;            /* LIVE: the version that knows it */
    const struct fg_l0_segment *entry; /* LIVE */
    struct fg_slice file;
    struct fg_block_directory directory;
    struct fg_arena *arena;
};

/* A tenant's part of a segment. */
struct l0_share {
    struct l0_owner *owner;
    struct fg_deletions deletions;
    struct cli_id_list without; /* in blocks, or taken already */
    uint64_t n, n_in_blocks;    /* profiles */
    bool touched;               /* a deletion may name some */
};

static bool is_covered(const struct l0_looking *looking, const struct l0_owner *owner)
{
    return looking->known == GONE || (looking->known == LIVE && owner->blocks != NULL &&
                                      fg_blocks_covers(owner->blocks, looking->entry->generation));
}

/* Returns true if the segment is LIVE and the blocks of all its tenants cover it. */
static bool is_done_with(struct l0_rebuild *rebuild, const struct l0_looking *looking)
{
    for (uint32_t i = 0; looking->known == LIVE && i < looking->entry->n_parts; i++)
        if (!is_covered(
                looking,
                find_owner(rebuild, looking->l0->tenants[looking->entry->parts[i].tenant].name)))
            return false;
    return looking->known != UNKNOWN;
}

/* Parts [first, end) are the tenant's. */
static enum fg_code look_at_share(struct l0_rebuild *rebuild, struct l0_looking *looking,
                                  uint32_t first, uint32_t end, struct l0_share *share,
                                  struct fg_err *err)
{
    const struct cli_ids_object object = {rebuild->survey->bucket, looking->name, looking->file.len,
                                          0};
    const struct fg_block_part *parts = looking->directory.parts;
    struct cli_id_list ids = {.n = 0};
    enum fg_code code =
        past_deletions(rebuild, share->owner, looking->name, looking->modified_wall_ns,
                       looking->arena, &share->deletions, err);

    for (uint32_t p = first; code == FG_OK && p < end; p++) {
        code = know_blocks(rebuild, share->owner, looking->name, parts[p].t_min_ns,
                           parts[p].t_max_ns, err);
        if (code == FG_OK)
            code = cli_ids_part(&object, &parts[p], &ids, err);
        share->touched |= fg_deletions_touch(&share->deletions, parts[p].service, parts[p].t_min_ns,
                                             parts[p].t_max_ns);
    }
    share->n = ids.n;
    for (size_t i = 0; i < ids.n; i++)
        share->n_in_blocks += cli_id_set_has(&share->owner->in_blocks, ids.ids[i]);
    /* A part with profiles in blocks contributes nothing (see enter_share()), so it takes none:
     * another segment may have the same profiles. */
    for (size_t i = 0; code == FG_OK && i < ids.n; i++)
        if (cli_id_set_has(&share->owner->in_blocks, ids.ids[i]) ||
            (share->n_in_blocks == 0 && !cli_id_set_add(&share->owner->taken, ids.ids[i])))
            cli_id_list_add(&share->without, ids.ids[i]);
    cli_id_list_sort(&share->without);
    cli_id_list_done(&ids);
    return code;
}

/* Writes the uncovered profiles of a tenant's part as a segment of their own. */
static enum fg_code enter_share(struct l0_rebuild *rebuild, const struct l0_looking *looking,
                                const struct l0_share *share, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    const struct cmp_merge_source source = cli_rewrite_source(
        looking->name, looking->file, &looking->directory, fg_cstr(share->owner->name));
    struct cmp_merge merge = cli_rewrite_merge(fg_cstr(share->owner->name), &source, 1);
    struct fg_block_directory directory;
    uint64_t kept = 0, offset;
    struct fg_buf file;
    enum fg_code code;

    if (share->without.n == share->n)
        return FG_OK;
    merge.deletions = share->deletions;
    merge.without = (struct cmp_merge_without){share->without.ids, share->without.n};
    fg_buf_init(&file, SEGMENT_MAX_BYTES);
    code = cli_bucket_rewrite(&merge, &file, &kept, err);
    if (code == FG_OK && kept > 0 && share->n_in_blocks > 0) {
        /* A segment is covered as a whole: the others were deleted, by a deletion that is not
         * known any more, or this was never committed and they are in a head. */
        rebuild->n_ambiguous++;
        (void)fprintf(rebuild->out,
                      "in doubt: %s: blocks have %llu of %llu profiles of tenant %s; %llu others "
                      "were deleted, or are in a head, or are nowhere else; they are left out\n",
                      looking->name, (unsigned long long)share->n_in_blocks,
                      (unsigned long long)share->n, share->owner->name, (unsigned long long)kept);
        kept = 0;
    }
    if (code == FG_OK && kept > 0) {
        code = fg_block_directory_offset(fg_buf_slice(&file), file.len, &offset, err);
        if (code == FG_OK)
            code = fg_block_directory_parse(
                fg_slice_sub(fg_buf_slice(&file), (size_t)offset, SIZE_MAX), file.len,
                rebuild->survey->bucket->keys, arena, &directory, err);
        if (code == FG_OK)
            code = enter(rebuild, fg_buf_slice(&file), &directory, err);
    }
    fg_buf_done(&file);
    if (code == FG_OK && kept > 0)
        (void)fprintf(rebuild->out,
                      "%s: %llu of %llu profiles of tenant %s; the others are in blocks, in other "
                      "segments, or were deleted\n",
                      looking->name, (unsigned long long)kept, (unsigned long long)share->n,
                      share->owner->name);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", looking->name);
}

/* Enters a segment whole if all of it is still needed; otherwise the needed part of each tenant
 * becomes a segment of its own. */
static enum fg_code look_at_shares(struct l0_rebuild *rebuild, struct l0_looking *looking,
                                   struct fg_err *err)
{
    const struct fg_block_directory *directory = &looking->directory;
    struct l0_share *shares = fg_calloc(FG_MAX(directory->n_parts, 1u), sizeof *shares);
    uint32_t n = 0;
    bool whole = true;
    enum fg_code code = FG_OK;

    for (uint32_t first = 0, end; code == FG_OK && first < directory->n_parts; first = end) {
        struct l0_share *share = &shares[n];

        end = first + 1;
        while (end < directory->n_parts &&
               fg_slice_eq(directory->parts[end].tenant, directory->parts[first].tenant))
            end++;
        share->owner = find_owner(rebuild, directory->parts[first].tenant);
        if (is_covered(looking, share->owner)) {
            whole = false;
            continue;
        }
        n++;
        fg_assert(n <= directory->n_parts);
        code = look_at_share(rebuild, looking, first, end, share, err);
        whole = whole && share->without.n == 0 && !share->touched;
    }
    if (code == FG_OK && whole && n > 0) {
        code = enter(rebuild, looking->file, directory, err);
        if (code == FG_OK)
            (void)fprintf(rebuild->out, "%s: all of its %llu profiles\n", looking->name,
                          (unsigned long long)directory->n_profiles);
    }
    for (uint32_t i = 0; code == FG_OK && !whole && i < n; i++)
        code = enter_share(rebuild, looking, &shares[i], err);
    for (uint32_t i = 0; i < n; i++) {
        fg_deletions_done(&shares[i].deletions);
        cli_id_list_done(&shares[i].without);
    }
    free(shares);
    return code;
}

static enum fg_code parse(struct l0_looking *looking, const struct fg_keys *keys,
                          struct fg_err *err)
{
    struct fg_block_verified verified;
    uint64_t offset;

    if (fg_block_verify(looking->file, keys, PARSED_MAX_BYTES, &verified, err) != FG_OK ||
        fg_block_directory_offset(looking->file, looking->file.len, &offset, err) != FG_OK)
        return err->code;
    return fg_block_directory_parse(fg_slice_sub(looking->file, (size_t)offset, SIZE_MAX),
                                    looking->file.len, keys, looking->arena, &looking->directory,
                                    err);
}

static enum fg_code look_at_segment(struct l0_rebuild *rebuild, struct l0_looking *looking,
                                    struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_buf body;
    enum fg_code code;

    if (is_done_with(rebuild, looking))
        return FG_OK;
    looking->arena = arena;
    code = cli_survey_get(rebuild->survey->bucket, looking->name, &body, err);
    looking->file = fg_buf_slice(&body);
    if (code == FG_OK)
        code = parse(looking, rebuild->survey->bucket->keys, err);
    if (fg_damage_is(code)) {
        /* The plan lists what is lost; whether to go on without it is up to the user
         * (--accept-loss). */
        rebuild->n_lost++;
        (void)fprintf(rebuild->out, "lost: %s: %s\n", looking->name,
                      code == FG_E_NOT_FOUND ? "the object is missing" : err->msg);
        code = FG_OK;
    } else if (code == FG_OK) {
        code = look_at_shares(rebuild, looking, err);
    }
    fg_buf_done(&body);
    return code;
}

/* Looks at the segments of one kind. Known ones come first: they were committed, and their profiles
 * stay where they are. */
static enum fg_code look_at_segments(struct l0_rebuild *rebuild, enum known which,
                                     struct fg_err *err)
{
    for (size_t i = 0; i < rebuild->survey->n_segments; i++) {
        const struct cli_survey_entry *entry = &rebuild->survey->segments[i];
        struct l0_looking looking = {.modified_wall_ns = entry->modified_wall_ns};
        char name[FG_NAME_MAX_BYTES];

        looking.known = find_known(rebuild, &entry->name.segment, &looking.l0, &looking.entry);
        if (looking.known != which)
            continue;
        fg_name_segment(name, &entry->name.segment);
        looking.name = name;
        if (look_at_segment(rebuild, &looking, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* A binary search: the survey sorts segments by id. */
static bool is_listed(const struct cli_survey *survey, const struct fg_segment_id *id)
{
    size_t at = fg_lower_bound(i, 0, survey->n_segments,
                               fg_segment_id_cmp(&survey->segments[i].name.segment, id) < 0);

    return at < survey->n_segments &&
           fg_segment_id_cmp(&survey->segments[at].name.segment, id) == 0;
}

/* Finds segments that are live in some version, not covered, and not in the bucket. */
static enum fg_code find_missing(struct l0_rebuild *rebuild, struct fg_err *err)
{
    const struct fg_l0 *l0;

    for (size_t v = 0; (l0 = version_of(rebuild, v)) != NULL; v++)
        for (uint32_t i = 0; i < l0->n_segments; i++) {
            char name[FG_NAME_MAX_BYTES];
            struct l0_looking looking = {
                .name = name, .known = LIVE, .l0 = l0, .entry = &l0->segments[i]};

            fg_name_segment(name, &l0->segments[i].id);
            if (!is_listed(rebuild->survey, &l0->segments[i].id) &&
                look_at_segment(rebuild, &looking, err) != FG_OK)
                return err->code;
        }
    return FG_OK;
}

/* ---- the manifest ---- */

/* Notes the groups of blocks that are in the future, or may be by the duration of their profiles.
 */
static enum fg_code note_blocks(struct l0_rebuild *rebuild, struct fg_err *err)
{
    int64_t from_ns = fg_time_add(fg_wall_ns(fg_clock_real()), -LONGEST_PROFILE_NS);

    for (size_t t = 0; t < rebuild->survey->n_tenants; t++) {
        struct l0_owner *owner = find_owner(rebuild, fg_cstr(rebuild->survey->tenants[t].name));

        for (uint32_t i = 0; owner->blocks != NULL && i < owner->blocks->n_blocks; i++) {
            const struct fg_blocks_entry *block = &owner->blocks->blocks[i];
            fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
            struct fg_block_directory directory;
            struct fg_block_group *groups;
            char name[FG_NAME_MAX_BYTES];
            struct cli_ids_object object;

            if (block->derived || block->t_max_ns < from_ns)
                continue;
            if (open_block(rebuild, owner, block, name, &object, err) != FG_OK)
                return err->code;
            if (cli_ids_directory(&object, arena, &directory, err) != FG_OK) {
                if (!fg_damage_is(err->code))
                    return err->code;
                continue; /* it cannot be looked into for late profiles either */
            }
            for (uint32_t p = 0; p < directory.n_parts; p++) {
                if (cli_ids_groups(&object, &directory.parts[p], arena, &groups, err) != FG_OK)
                    return err->code;
                for (uint32_t g = 0; g < directory.parts[p].n_groups; g++)
                    if (add_run(rebuild, &groups[g], err) != FG_OK)
                        return err->code;
            }
        }
    }
    return FG_OK;
}

/* Sets the late-data filter. Every group up to the present counts as committed, so late profiles
 * are looked for in blocks. */
static enum fg_code set_late_filter(struct l0_rebuild *rebuild, struct fg_err *err)
{
    rebuild->l0.late_filter = fg_late_filter_none();
    if (rebuild->n_runs > 0 && !fg_late_filter_make(rebuild->runs, rebuild->n_runs, rebuild->arena,
                                                    &rebuild->l0.late_filter))
        return fg_fail(err, FG_E_LIMIT, "no room for %u groups", rebuild->n_runs);
    rebuild->l0.late_filter.below = rebuild->window_now + 1;
    return FG_OK;
}

/* Lists all old segments as gone; the compactor deletes them when no writer can swap them in any
 * more. */
static enum fg_code set_gone(struct l0_rebuild *rebuild, struct fg_err *err)
{
    const struct cli_survey *survey = rebuild->survey;
    int64_t since_ns = fg_time_add(fg_wall_ns(fg_clock_real()), UPLOAD_MAX_AGE_NS);
    size_t n = FG_MIN(survey->n_segments, (size_t)FG_L0_GONE_MAX);

    rebuild->l0.gone = fg_arena_new(rebuild->arena, struct fg_l0_gone, n);
    if (rebuild->l0.gone == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %zu segments", n);
    for (size_t i = 0; i < n; i++)
        rebuild->l0.gone[i] =
            (struct fg_l0_gone){survey->segments[i].name.segment, since_ns, {NULL, 0}};
    rebuild->l0.n_gone = (uint32_t)n;
    return FG_OK;
}

/* The greatest generation that something in the bucket knows of. */
static uint64_t known_generation(const struct l0_rebuild *rebuild)
{
    uint64_t newest = rebuild->survey->ring.generation;
    const struct fg_l0 *l0;

    for (size_t v = 0; (l0 = version_of(rebuild, v)) != NULL; v++)
        newest = FG_MAX(newest, l0->generation);
    for (size_t i = 0; i < rebuild->survey->n_tenants; i++) {
        const struct fg_manifest *manifest = rebuild->survey->tenants[i].manifest.content;

        if (manifest != NULL)
            newest =
                FG_MAX(newest, FG_MAX(manifest->blocks.newest, manifest->blocks.covered_floor));
    }
    return newest;
}

/* Begins the new manifest. Its generations begin above all that anything in the bucket knows of:
 * ingesters and queriers treat a smaller one as outdated. */
static enum fg_code begin_l0(struct l0_rebuild *rebuild, struct fg_err *err)
{
    const struct cli_survey *survey = rebuild->survey;
    uint64_t known = known_generation(rebuild), given = rebuild->options->generation;

    if (given != 0 && given < known)
        return fg_fail(err, FG_E_INVALID, "generation %llu is too small: the bucket knows of %llu",
                       (unsigned long long)given, (unsigned long long)known);
    if (known > UINT64_MAX / 4 || given > UINT64_MAX / 4)
        return fg_fail(err, FG_E_INVALID, "there is no generation beyond %llu",
                       (unsigned long long)FG_MAX(known, given));
    rebuild->l0 = fg_l0_none();
    rebuild->l0.revision = cli_rebuild_revision();
    rebuild->l0.floor = rebuild->l0.generation = FG_MAX(known + MARGIN, given);
    rebuild->l0.tenants = fg_arena_new(rebuild->arena, struct fg_l0_tenant, survey->n_tenants);
    if (rebuild->l0.tenants == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %zu tenants", survey->n_tenants);
    for (size_t i = 0; i < survey->n_tenants; i++) {
        const struct fg_manifest *manifest = survey->tenants[i].manifest.content;
        struct fg_l0_tenant *tenant = &rebuild->l0.tenants[rebuild->l0.n_tenants++];

        *tenant = (struct fg_l0_tenant){fg_cstr(survey->tenants[i].name),
                                        manifest == NULL ? 0 : manifest->blocks.newest};
        for (uint32_t t = 0; manifest != NULL && t < manifest->blocks.n_tombstones; t++)
            rebuild->l0.asked = FG_MAX(rebuild->l0.asked, manifest->blocks.tombstones[t].awaits);
    }
    return FG_OK;
}

/* Blocks of a tenant without a manifest may have the profiles of any segment, which would then
 * count twice. */
static enum fg_code check_tenants(const struct cli_survey *survey, struct fg_err *err)
{
    for (size_t i = 0; i < survey->n_tenants; i++) {
        const struct cli_survey_tenant *tenant = &survey->tenants[i];

        if (tenant->manifest.code != FG_OK &&
            (tenant->manifest.code != FG_E_NOT_FOUND || tenant->n_blocks > 0))
            return fg_fail(err, FG_E_PRECONDITION,
                           "the manifest of tenant %s is missing or damaged, so nobody knows what "
                           "its blocks hold: flamegrid bucket rebuild tenant %s comes first",
                           tenant->name, tenant->name);
    }
    return FG_OK;
}

/* Makes the new manifest. Runs twice if the plan is applied, so it first drops the results of the
 * previous run. */
static enum fg_code make_l0(struct l0_rebuild *rebuild, struct fg_err *err)
{
    rebuild->cuts = rebuild->n_lost = rebuild->n_ambiguous = rebuild->profiles = 0;
    rebuild->n_runs = 0;
    forget_owners(rebuild);
    fg_arena_reset(rebuild->arena);
    if (begin_l0(rebuild, err) != FG_OK || look_at_segments(rebuild, LIVE, err) != FG_OK ||
        look_at_segments(rebuild, UNKNOWN, err) != FG_OK || find_missing(rebuild, err) != FG_OK ||
        note_blocks(rebuild, err) != FG_OK || set_late_filter(rebuild, err) != FG_OK)
        return err->code;
    return set_gone(rebuild, err);
}

/* Deletes the segments that were uploaded, after a failure: nothing refers to them. */
static void discard(struct l0_rebuild *rebuild)
{
    for (uint64_t cut = 1; cut <= rebuild->cuts; cut++) {
        const struct fg_segment_id id = {rebuild->writer, cut, cut};
        char name[FG_NAME_MAX_BYTES];
        struct fg_bucket_request request = {
            .verb = FG_BUCKET_DELETE, .name = name, .deadline_mono_ns = cli_survey_deadline()};

        fg_name_segment(name, &id);
        (void)fg_bucket_call(rebuild->survey->bucket, &request);
        fg_bucket_clear(&request);
    }
}

static void print_plan(const struct l0_rebuild *rebuild)
{
    const struct fg_l0 *l0;

    for (size_t v = 0; (l0 = version_of(rebuild, v)) != NULL; v++)
        (void)fprintf(rebuild->out, "used: %s, of generation %llu\n",
                      rebuild->survey->l0.content != NULL && v == 0
                          ? FG_NAME_L0 " as it is"
                          : rebuild->versions[v - (rebuild->survey->l0.content != NULL)].name,
                      (unsigned long long)l0->generation);
    (void)fprintf(rebuild->out,
                  FG_NAME_L0 ": generation %llu, %llu profiles in %u segments, %u tenants\n",
                  (unsigned long long)rebuild->l0.generation, (unsigned long long)rebuild->profiles,
                  rebuild->l0.n_segments, rebuild->l0.n_tenants);
}

static enum fg_code write_l0(struct l0_rebuild *rebuild, struct fg_err *err)
{
    struct fg_buf bytes;
    enum fg_code code;

    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    code = fg_l0_encode(&rebuild->l0, &bytes, err);
    if (code == FG_OK)
        code = cli_rebuild_replace(rebuild->survey->bucket, FG_NAME_L0, &rebuild->survey->l0,
                                   fg_buf_slice(&bytes), rebuild->out, err);
    fg_buf_done(&bytes);
    return code;
}

static enum fg_code apply(struct l0_rebuild *rebuild, struct fg_err *err)
{
    FILE *out = rebuild->out;
    enum fg_code code;

    rebuild->upload = true;
    rebuild->out = fopen("/dev/null", "w"); /* the first pass has printed it all */
    if (rebuild->out == NULL) {
        rebuild->out = out;
        return fg_fail_errno(err, errno, "/dev/null");
    }
    /* The second run uploads the segments that the plan has. The manifest is written after all of
     * them: until then nothing refers to them. */
    code = make_l0(rebuild, err);
    (void)fclose(rebuild->out);
    rebuild->out = out;
    if (code == FG_OK)
        code = write_l0(rebuild, err);
    if (code != FG_OK && code != FG_E_UNAVAILABLE && code != FG_E_DEADLINE)
        discard(rebuild); /* not after the two others: the manifest may have been written */
    return code;
}

static enum fg_code run(struct l0_rebuild *rebuild, struct fg_err *err)
{
    if (check_tenants(rebuild->survey, err) != FG_OK || read_versions(rebuild, err) != FG_OK ||
        make_l0(rebuild, err) != FG_OK)
        return err->code;
    print_plan(rebuild);
    if (rebuild->n_lost + rebuild->n_ambiguous > 0 && !rebuild->options->accept_loss)
        return fg_fail(err, FG_E_PRECONDITION,
                       "%llu segments are lost and %llu are in doubt; --accept-loss goes on "
                       "without what is lost or in doubt",
                       (unsigned long long)rebuild->n_lost,
                       (unsigned long long)rebuild->n_ambiguous);
    if (!rebuild->options->apply) {
        (void)fprintf(rebuild->out, "nothing was written; --apply writes " FG_NAME_L0 "\n");
        return FG_OK;
    }
    return apply(rebuild, err);
}

enum fg_code cli_rebuild_l0(struct fg_bucket *bucket, const struct cli_rebuild_options *options,
                            FILE *out, struct fg_err *err)
{
    struct cli_survey survey = {.bucket = NULL};
    struct l0_rebuild rebuild = {
        .survey = &survey,
        .options = options,
        .out = out,
        .arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES),
        .window_now = (uint32_t)FG_MAX(fg_wall_ns(fg_clock_real()) / HEAD_WINDOW_NS, (int64_t)0)};
    enum fg_code code = cli_survey_read(bucket, &survey, err);

    if (code == FG_OK &&
        getrandom(&rebuild.writer, sizeof rebuild.writer, 0) != (ssize_t)sizeof rebuild.writer)
        code = fg_fail_errno(err, errno, "random numbers");
    if (code == FG_OK)
        code = run(&rebuild, err);
    forget_owners(&rebuild);
    for (size_t i = 0; i < rebuild.n_versions; i++)
        cli_survey_object_done(&rebuild.versions[i].object);
    free(rebuild.runs);
    fg_arena_destroy(rebuild.arena);
    cli_survey_done(&survey);
    return code;
}
