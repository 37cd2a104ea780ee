/*
 * The parsers look at a section by itself; what is compared between sections is looked at here:
 * times, totals, numbers of samples, digests, uses of stacks, and that nothing is there without a
 * use.
 */
#include "common/storage/block/verify.h"

#include "common/base/crc32c.h"
#include "common/base/search.h"
#include "common/storage/block/reader_impl.h"

/* A part on its way. */
struct checking {
    struct fg_slice file;
    struct fg_arena *arena; /* of the part */
    const struct fg_block_part *part;
    enum fg_block_verify_depth depth;
    struct fg_block_index index;
    struct fg_block_tree tree;
    struct fg_block_rows rows; /* of all pages of IDX, one after another */
    struct fg_id *ids;         /* of all profiles */
    uint32_t *uses;            /* by rank */
    uint64_t *seen;            /* by series */
    struct fg_block_samples *samples;
    struct fg_block_verified *verified;
};

static struct fg_slice range_of(const struct checking *checking, struct fg_block_range range)
{
    return fg_slice_sub(checking->file, (size_t)range.offset, (size_t)range.len);
}

static struct fg_slice page_of(const struct checking *checking, uint32_t kind, uint32_t page)
{
    const struct fg_block_page *row = &checking->index.pages[kind].pages[page];

    return fg_slice_sub(checking->file, (size_t)row->offset, row->bytes);
}

/* ---- checksums ---- */

static enum fg_code check_header(struct fg_slice file, const struct fg_block_directory *directory,
                                 struct fg_err *err)
{
    struct fg_cur cur = fg_cur(fg_slice_sub(file, 0, FG_BLOCK_HEADER_BYTES));
    bool magic = fg_slice_is(fg_cur_take(&cur, 4), FG_BLOCK_MAGIC);
    uint32_t version = fg_cur_le32(&cur), said = fg_cur_le32(&cur), crc = fg_cur_le32(&cur);

    if (cur.bad || !magic)
        return fg_fail(err, FG_E_CORRUPT, "header: no block");
    if (crc != fg_crc32c(fg_slice_sub(file, 0, FG_BLOCK_HEADER_BYTES - 4)))
        return fg_fail(err, FG_E_CORRUPT, "header: checksum");
    if (version != ((uint32_t)FG_BLOCK_HEADER_BYTES << 16 | directory->version) ||
        said != directory->level)
        return fg_fail(err, FG_E_CORRUPT, "header: version or level");
    return FG_OK;
}

/* Checks every page, also of sections of unknown kinds. */
static enum fg_code check_pages(const struct checking *checking, struct fg_err *err)
{
    const struct fg_seal_part seal = fg_block_seal_of_part(checking->part);

    for (uint32_t kind = 0; kind < FG_BLOCK_KINDS_MAX; kind++) {
        const struct fg_block_pages *pages = &checking->index.pages[kind];

        /* A merge can make these sections again from others. Groups have no pages. */
        if (checking->depth == FG_BLOCK_VERIFY_PROFILES &&
            (fg_block_kind_is_rollup(kind) || (kind > FG_BLOCK_STR && kind <= FG_BLOCK_NMS)))
            continue;
        for (uint32_t i = 0; i < pages->count; i++) {
            checking->verified->n_pages++;
            if (fg_block_check(&seal, page_of(checking, kind, i),
                               fg_block_stored_of(&pages->pages[i], kind, i), err) != FG_OK)
                return fg_block_page_wrap(err, kind, i);
        }
    }
    return FG_OK;
}

/* ---- profiles ---- */

static bool rows_alloc(struct checking *checking)
{
    uint32_t count = checking->part->n_profiles;
    struct fg_block_rows *rows = &checking->rows;

    rows->times_ns = fg_arena_new(checking->arena, int64_t, count);
    rows->n_samples = fg_arena_new(checking->arena, uint32_t, count);
    rows->shards = fg_arena_new(checking->arena, uint16_t, count);
    rows->windows = fg_arena_new(checking->arena, uint32_t, count);
    rows->totals = fg_arena_new(checking->arena, uint64_t *, count);
    checking->ids = fg_arena_new(checking->arena, struct fg_id, count);
    return rows->times_ns != NULL && rows->n_samples != NULL && rows->shards != NULL &&
           rows->windows != NULL && rows->totals != NULL && checking->ids != NULL;
}

static enum fg_code read_rows(struct checking *checking, struct fg_err *err)
{
    struct fg_block_rows *all = &checking->rows;

    if (!rows_alloc(checking))
        return fg_block_no_room(err, "profiles");
    for (uint32_t i = 0; i < checking->index.pages[FG_BLOCK_IDX].count; i++) {
        struct fg_block_rows rows;
        struct fg_id *ids;
        size_t from;

        if (fg_block_rows_parse(&checking->index, i, page_of(checking, FG_BLOCK_IDX, i),
                                checking->arena, &rows, err) != FG_OK ||
            fg_block_ids_parse(&checking->index, i, page_of(checking, FG_BLOCK_PID, i),
                               checking->arena, &ids, err) != FG_OK)
            return err->code;
        from = rows.first;
        memcpy(all->times_ns + from, rows.times_ns, rows.count * sizeof *rows.times_ns);
        memcpy(all->n_samples + from, rows.n_samples, rows.count * sizeof *rows.n_samples);
        memcpy(all->shards + from, rows.shards, rows.count * sizeof *rows.shards);
        memcpy(all->windows + from, rows.windows, rows.count * sizeof *rows.windows);
        memcpy(all->totals + from, rows.totals, rows.count * sizeof(uint64_t *));
        memcpy(checking->ids + from, ids, rows.count * sizeof *ids);
    }
    return FG_OK;
}

/* True if these are the least and the greatest time of profiles [first, first + count). */
static bool times_are(const struct checking *checking, uint32_t first, uint32_t count,
                      int64_t t_min_ns, int64_t t_max_ns)
{
    const int64_t *times_ns = checking->rows.times_ns + first;
    int64_t least_ns = times_ns[0], greatest_ns = times_ns[0];

    for (uint32_t i = 1; i < count; i++) {
        least_ns = FG_MIN(least_ns, times_ns[i]);
        greatest_ns = FG_MAX(greatest_ns, times_ns[i]);
    }
    return least_ns == t_min_ns && greatest_ns == t_max_ns;
}

static enum fg_code check_times(const struct checking *checking, struct fg_err *err)
{
    static const uint32_t kinds[] = {FG_BLOCK_SMP, FG_BLOCK_IDX}; /* PID, EXM: compared with them */
    const struct fg_block_part *part = checking->part;

    for (size_t k = 0; k < FG_COUNT(kinds); k++)
        for (uint32_t i = 0; i < checking->index.pages[kinds[k]].count; i++) {
            const struct fg_block_page *page = &checking->index.pages[kinds[k]].pages[i];

            if (!times_are(checking, page->first, page->items, page->t_min_ns, page->t_max_ns))
                return fg_fail(err, FG_E_CORRUPT, "%s page %u: times", fg_block_kind_name(kinds[k]),
                               i);
        }
    if (!times_are(checking, 0, part->n_profiles, part->t_min_ns, part->t_max_ns))
        return fg_fail(err, FG_E_CORRUPT, "directory: times");
    return FG_OK;
}

static enum fg_code check_series(const struct checking *checking, struct fg_err *err)
{
    for (uint32_t s = 0; s < checking->index.n_series; s++) {
        const struct fg_block_series_row *row = &checking->index.series[s];
        /* The parsers have checked that chunks ascend by time, and profiles in a chunk, so that the
         * first and the last are enough. */
        const struct fg_block_chunk *first = &checking->index.chunks[row->chunks[0]];
        const struct fg_block_chunk *last = &checking->index.chunks[row->chunks[row->n_chunks - 1]];

        if (checking->rows.times_ns[first->first] != row->t_min_ns ||
            checking->rows.times_ns[last->first + last->count - 1] != row->t_max_ns)
            return fg_fail(err, FG_E_CORRUPT, "SER: times of series %u", s);
        if (checking->seen[s] != row->seen)
            return fg_fail(err, FG_E_CORRUPT, "SER: types of series %u", s);
    }
    for (uint32_t r = 0; r < checking->index.n_chunks; r++) {
        const struct fg_block_chunk *chunk = &checking->index.chunks[r];

        for (uint32_t at = chunk->first + 1; at < chunk->first + chunk->count; at++)
            if (checking->rows.times_ns[at - 1] > checking->rows.times_ns[at] ||
                (checking->rows.times_ns[at - 1] == checking->rows.times_ns[at] &&
                 fg_id_cmp(checking->ids[at - 1], checking->ids[at]) >= 0))
                return fg_fail(err, FG_E_CORRUPT, "PID: profile %u is out of order", at);
    }
    return FG_OK;
}

/* ---- groups ---- */

static struct fg_block_group *find_group(struct fg_block_group *groups, uint32_t count,
                                         uint16_t shard, uint32_t window)
{
    uint64_t wanted = (uint64_t)shard << 32 | window;
    uint32_t at =
        fg_lower_bound(i, 0, count, ((uint64_t)groups[i].shard << 32 | groups[i].window) < wanted);

    if (at == count || groups[at].shard != shard || groups[at].window != window)
        return NULL;
    return &groups[at];
}

/* Takes every profile out of its group. If count and digest of all groups end at zero, they were
 * those of the profiles. */
static enum fg_code check_groups(const struct checking *checking, struct fg_err *err)
{
    const struct fg_block_part *part = checking->part;
    struct fg_block_group *groups;

    if (fg_block_groups_parse(part,
                              range_of(checking, fg_block_part_range(part, FG_BLOCK_WANT_GROUPS)),
                              checking->arena, &groups, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < part->n_profiles; i++) {
        struct fg_block_group *group =
            find_group(groups, part->n_groups, checking->rows.shards[i], checking->rows.windows[i]);

        if (group == NULL || group->count == 0)
            return fg_fail(err, FG_E_CORRUPT, "groups: no group has profile %u", i);
        group->count--;
        group->digest = fg_id_sub(group->digest, checking->ids[i]);
    }
    for (uint32_t i = 0; i < part->n_groups; i++)
        if (groups[i].count != 0 || !fg_id_is_zero(groups[i].digest))
            return fg_fail(err, FG_E_CORRUPT, "groups: count or digest of group %u", i);
    return FG_OK;
}

/* ---- samples ---- */

static enum fg_code check_profile(struct checking *checking, uint32_t profile, struct fg_err *err)
{
    uint32_t series = fg_block_series_of(&checking->index, profile);
    struct fg_block_sample_set set;

    if (fg_block_samples_read(checking->samples, profile, &set, err) != FG_OK)
        return err->code;
    if (set.count != checking->rows.n_samples[profile])
        return fg_fail(err, FG_E_CORRUPT, "SMP: profile %u has %u samples, IDX says %u", profile,
                       set.count, checking->rows.n_samples[profile]);
    for (uint32_t t = 0; t < set.n_types; t++) {
        const uint64_t *values = set.values + (size_t)t * set.count;
        uint64_t total = 0, any = 0;

        for (uint32_t i = 0; i < set.count; i++) {
            fg_value_sum(&total, values[i]);
            any |= values[i];
        }
        if (total != checking->rows.totals[profile][t])
            return fg_fail(err, FG_E_CORRUPT, "IDX: total %u of profile %u", t, profile);
        if (any != 0)
            checking->seen[series] |= UINT64_C(1) << t;
    }
    for (uint32_t i = 0; i < set.count; i++)
        checking->uses[set.ranks[i]]++;
    checking->verified->n_samples += set.count;
    return FG_OK;
}

/* Checks that the stack of each span is one of its profile's samples. Both are sorted by rank. */
static enum fg_code check_exemplars(struct checking *checking, uint32_t page, struct fg_err *err)
{
    struct fg_arena_mark mark = fg_arena_mark(checking->arena);
    struct fg_block_exemplars exemplars;
    struct fg_block_sample_set set;

    if (page >= checking->index.pages[FG_BLOCK_EXM].count)
        return FG_OK;
    if (fg_block_exemplars_parse(&checking->index, page, page_of(checking, FG_BLOCK_EXM, page),
                                 checking->arena, &exemplars, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0, at = 0; i < exemplars.count; i++) {
        const struct fg_block_exemplar *item = &exemplars.items[i];

        if (i == 0 || item->profile != item[-1].profile) {
            if (fg_block_samples_read(checking->samples, item->profile, &set, err) != FG_OK)
                return err->code;
            at = 0;
        }
        while (at < set.count && set.ranks[at] < item->rank)
            at++;
        if (at == set.count || set.ranks[at] != item->rank)
            return fg_fail(err, FG_E_CORRUPT, "EXM: profile %u has no stack %u", item->profile,
                           item->rank);
    }
    fg_arena_release(checking->arena, mark);
    return FG_OK;
}

static enum fg_code check_samples(struct checking *checking, struct fg_err *err)
{
    const struct fg_block_pages *pages = &checking->index.pages[FG_BLOCK_SMP];
    uint64_t before = checking->verified->n_samples;

    for (uint32_t i = 0; i < pages->count; i++) {
        uint32_t first = pages->pages[i].first;

        if (fg_block_samples_open(checking->samples, &checking->index, i,
                                  page_of(checking, FG_BLOCK_SMP, i), err) != FG_OK)
            return err->code;
        for (uint32_t k = 0; k < pages->pages[i].items; k++)
            if (check_profile(checking, first + k, err) != FG_OK)
                return err->code;
        if (check_exemplars(checking, i, err) != FG_OK)
            return err->code;
    }
    if (checking->verified->n_samples - before != checking->part->n_samples)
        return fg_fail(err, FG_E_CORRUPT, "directory: number of samples");
    return FG_OK;
}

/* ---- usage ---- */

/* Checks that the sizes add up to what the directory says. Without USE, all of them are unknown. */
static enum fg_code check_usage(const struct checking *checking, struct fg_err *err)
{
    const struct fg_block_pages *pages = &checking->index.pages[FG_BLOCK_USE];
    struct fg_usage usage = {0};

    for (uint32_t i = 0; i < pages->count; i++) {
        struct fg_arena_mark mark = fg_arena_mark(checking->arena);
        struct fg_profile_size *sizes;

        if (fg_block_sizes_parse(&checking->index, i, page_of(checking, FG_BLOCK_USE, i),
                                 checking->arena, &sizes, err) != FG_OK)
            return err->code;
        for (uint32_t k = 0; k < pages->pages[i].items; k++)
            fg_usage_count(&usage, sizes[k], checking->rows.n_samples[pages->pages[i].first + k]);
        fg_arena_release(checking->arena, mark);
    }
    if (!fg_usage_eq(&usage, &checking->part->usage))
        return fg_fail(err, FG_E_CORRUPT,
                       "directory: usage of %llu profiles, %llu samples, %llu wire and %llu raw "
                       "bytes, USE says %llu, %llu, %llu and %llu",
                       (unsigned long long)checking->part->usage.profiles,
                       (unsigned long long)checking->part->usage.samples,
                       (unsigned long long)checking->part->usage.wire_bytes,
                       (unsigned long long)checking->part->usage.raw_bytes,
                       (unsigned long long)usage.profiles, (unsigned long long)usage.samples,
                       (unsigned long long)usage.wire_bytes, (unsigned long long)usage.raw_bytes);
    return FG_OK;
}

/* ---- stacks ---- */

/* Checks that ranks are in the order of their uses, then of their nodes. The most frequent
 * stacks get the smallest numbers, which take the fewest bytes. */
static enum fg_code check_ranks(const struct checking *checking, struct fg_err *err)
{
    const struct fg_block_tree *tree = &checking->tree;

    for (uint32_t i = 0; i < tree->n_stacks; i++) {
        if (checking->uses[i] == 0)
            return fg_fail(err, FG_E_CORRUPT, "MAP: stack %u is unused", i);
        if (i > 0 &&
            (checking->uses[i - 1] < checking->uses[i] ||
             (checking->uses[i - 1] == checking->uses[i] && tree->nodes[i - 1] >= tree->nodes[i])))
            return fg_fail(err, FG_E_CORRUPT, "MAP: stack %u is out of order", i);
    }
    return FG_OK;
}

/* Checks that every node is a stack or above one, and that no two ranks are one stack. */
static enum fg_code check_nodes(const struct checking *checking, struct fg_err *err)
{
    const struct fg_tree *tree = &checking->tree.tree;
    bool *ends = fg_arena_new(checking->arena, bool, (size_t)tree->n_nodes + 1);
    bool *used = fg_arena_new(checking->arena, bool, (size_t)tree->n_nodes + 1);

    if (ends == NULL || used == NULL)
        return fg_block_no_room(err, "nodes");
    for (uint32_t i = 0; i < checking->tree.n_stacks; i++) {
        uint32_t stack = checking->tree.nodes[i];

        if (ends[stack])
            return fg_fail(err, FG_E_CORRUPT, "MAP: stack %u is there twice", i);
        ends[stack] = used[stack] = true;
    }
    for (uint32_t i = tree->n_nodes; i-- > 0;) {
        if (!used[i + 1])
            return fg_fail(err, FG_E_CORRUPT, "TRI: node %u is unused", i);
        if (tree->parents[i] != FG_TREE_ROOT)
            used[tree->parents[i] + 1] = true;
    }
    return FG_OK;
}

/* ---- names ---- */

static bool names_are(const struct fg_function_tree *names, const struct fg_function_tree *made)
{
    if (names->n_nodes != made->n_nodes || names->n_names != made->n_names)
        return false;
    for (uint32_t i = 0; i < made->n_names; i++)
        if (!fg_slice_eq(names->names[i], made->names[i]))
            return false;
    for (uint32_t i = 0; i < made->n_nodes; i++)
        if (names->parents[i] != made->parents[i] || names->functions[i] != made->functions[i])
            return false;
    for (uint32_t i = 0; i < made->n_from; i++)
        if (names->nodes[i] != made->nodes[i])
            return false;
    return true;
}

/* Checks that the stored function tree is the one that the stacks give. */
static enum fg_code check_names(const struct checking *checking, struct fg_err *err)
{
    struct fg_block_range range = fg_block_part_range(checking->part, FG_BLOCK_WANT_FUNCTION_TREE);
    struct fg_function_tree names, made;
    bool same;

    if (range.len == 0)
        return FG_OK;
    if (fg_block_function_tree_parse(&checking->index, range_of(checking, range), checking->arena,
                                     &names, err) != FG_OK)
        return err->code;
    fg_block_tree_functions(&checking->tree, &made);
    same = names_are(&names, &made);
    fg_function_tree_done(&made);
    return same ? FG_OK : fg_fail(err, FG_E_CORRUPT, "names: not those of the stacks");
}

/* ---- all of it ---- */

static enum fg_code check_sections(struct checking *checking, struct fg_err *err)
{
    const struct fg_block_part *part = checking->part;
    bool all = checking->depth == FG_BLOCK_VERIFY_ALL;

    if (fg_block_part_parse(part,
                            range_of(checking, fg_block_part_range(part, FG_BLOCK_WANT_SERIES)),
                            checking->arena, &checking->index, err) != FG_OK ||
        check_pages(checking, err) != FG_OK)
        return err->code;
    if (part->n_series == 0) /* rollup/verify.h checks the rest */
        return FG_OK;
    if (fg_block_tree_parse(&checking->index,
                            range_of(checking, fg_block_part_range(part, FG_BLOCK_WANT_TREE)),
                            checking->arena, &checking->tree, err) != FG_OK)
        return err->code;
    checking->uses = fg_arena_new(checking->arena, uint32_t, part->n_stacks);
    checking->seen = fg_arena_new(checking->arena, uint64_t, part->n_series);
    if (checking->uses == NULL || checking->seen == NULL)
        return fg_block_no_room(err, "stacks");
    if (read_rows(checking, err) != FG_OK || check_times(checking, err) != FG_OK ||
        (all && check_groups(checking, err) != FG_OK))
        return err->code;

    struct fg_id digest = {0, 0};

    for (uint32_t i = 0; i < checking->part->n_profiles; i++)
        digest = fg_id_add(digest, checking->ids[i]);
    if (!fg_id_eq(digest, checking->part->digest))
        return fg_fail(err, FG_E_CORRUPT, "directory: digest");
    if (check_usage(checking, err) != FG_OK || check_samples(checking, err) != FG_OK ||
        check_series(checking, err) != FG_OK || check_ranks(checking, err) != FG_OK ||
        check_nodes(checking, err) != FG_OK)
        return err->code;
    return all ? check_names(checking, err) : FG_OK;
}

static enum fg_code check_part(struct fg_slice file, const struct fg_block_part *part,
                               enum fg_block_verify_depth depth, size_t max_bytes,
                               struct fg_block_verified *verified, struct fg_err *err)
{
    struct checking checking = {.file = file, .part = part, .depth = depth, .verified = verified};
    enum fg_code code;

    checking.arena = fg_arena_create(max_bytes);
    checking.samples = fg_block_samples_create(max_bytes);
    code = check_sections(&checking, err);
    fg_block_samples_destroy(checking.samples);
    fg_arena_destroy(checking.arena);
    if (code != FG_OK)
        return fg_wrap(err, "part %.*s/%.*s", FG_S(part->tenant), FG_S(part->service));
    verified->n_parts++;
    verified->n_series += part->n_series;
    verified->n_profiles += part->n_profiles;
    fg_usage_add(&verified->usage, &part->usage);
    return FG_OK;
}

enum fg_code fg_block_verify_part(struct fg_slice file, const struct fg_block_part *part,
                                  enum fg_block_verify_depth depth, size_t max_bytes,
                                  struct fg_err *err)
{
    struct fg_block_verified verified = {0};

    return check_part(file, part, depth, max_bytes, &verified, err);
}

enum fg_code fg_block_verify(struct fg_slice file, const struct fg_keys *keys, size_t max_bytes,
                             struct fg_block_verified *ret_verified, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(max_bytes);
    struct fg_block_verified verified = {0};
    struct fg_block_directory directory;
    uint64_t offset;

    if (fg_block_directory_offset(file, file.len, &offset, err) != FG_OK ||
        fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len, keys,
                                 arena, &directory, err) != FG_OK ||
        check_header(file, &directory, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < directory.n_parts; i++)
        if (check_part(file, &directory.parts[i], FG_BLOCK_VERIFY_ALL, max_bytes, &verified, err) !=
            FG_OK)
            return err->code;
    *ret_verified = verified;
    return FG_OK;
}
