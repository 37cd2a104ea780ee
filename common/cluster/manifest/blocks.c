#include "common/cluster/manifest/blocks.h"

#include <stdlib.h>

struct fg_blocks fg_blocks_none(struct fg_slice tenant)
{
    return (struct fg_blocks){.tenant = tenant};
}

/* ---- finding ---- */

static int compare_u64(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

static int compare_ids(const void *left, const void *right)
{
    const struct fg_id *a = left, *b = right;

    return fg_id_cmp(*a, *b);
}

/* These begin with an id, by which they are sorted: so one comparison does for both, and a plain id
 * finds them. */
_Static_assert(offsetof(struct fg_blocks_entry, id) == 0, "compare_ids");
_Static_assert(offsetof(struct fg_blocks_gone, id) == 0, "compare_ids");

static void *find(struct fg_id id, const void *list, uint32_t count, size_t size)
{
    return count == 0 ? NULL : bsearch(&id, list, count, size, compare_ids);
}

bool fg_blocks_covers(const struct fg_blocks *blocks, uint64_t generation)
{
    return generation <= blocks->covered_floor ||
           (blocks->n_covered > 0 && bsearch(&generation, blocks->covered, blocks->n_covered,
                                             sizeof *blocks->covered, compare_u64) != NULL);
}

enum fg_code fg_blocks_check(const struct fg_blocks *blocks, const struct fg_l0 *l0,
                             struct fg_err *err)
{
    uint32_t number = fg_l0_tenant(l0, blocks->tenant);
    uint64_t retired = number == FG_L0_NO_TENANT ? 0 : l0->tenants[number].retired;

    if (retired == 0 || fg_blocks_covers(blocks, retired))
        return FG_OK;
    return fg_fail(err, FG_E_CORRUPT,
                   "the manifest of tenant %.*s is %s: it does not list blocks for the segments up "
                   "to generation %llu (see flamegrid bucket verify and bucket rebuild)",
                   FG_S(blocks->tenant), blocks->revision == 0 ? "missing" : "from a backup",
                   (unsigned long long)retired);
}

const struct fg_blocks_entry *fg_blocks_find(const struct fg_blocks *blocks, struct fg_id id)
{
    return find(id, blocks->blocks, blocks->n_blocks, sizeof *blocks->blocks);
}

bool fg_blocks_knows(const struct fg_blocks *blocks, struct fg_id id)
{
    return fg_blocks_find(blocks, id) != NULL ||
           find(id, blocks->gone, blocks->n_gone, sizeof *blocks->gone) != NULL;
}

/* ---- changes ---- */

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the manifest of the tenant is too large to change");
}

/* True if the change was made already, by an earlier attempt whose answer was lost. */
static bool is_done(const struct fg_blocks *blocks, const struct fg_blocks_change *change)
{
    for (uint32_t i = 0; i < change->n_add; i++)
        if (!fg_blocks_knows(blocks, change->add[i].id))
            return false;
    for (uint32_t i = 0; i < change->n_cover; i++)
        if (!fg_blocks_covers(blocks, change->cover[i]))
            return false;
    for (uint32_t i = 0; i < change->n_replace; i++)
        if (fg_blocks_find(blocks, change->replace[i]) != NULL)
            return false;
    return true;
}

static enum fg_code check_cover(const struct fg_blocks *blocks, const struct fg_l0 *l0,
                                uint64_t generation, struct fg_err *err)
{
    const struct fg_l0_segment *segment = fg_l0_segment(l0, generation);
    uint32_t tenant = fg_l0_tenant(l0, blocks->tenant);

    /* A segment that blocks cover twice would have its profiles twice in answers. */
    if (fg_blocks_covers(blocks, generation))
        return fg_fail(err, FG_E_ABORTED, "blocks already cover segment %llu",
                       (unsigned long long)generation);
    if (segment == NULL || tenant == FG_L0_NO_TENANT || fg_l0_part(segment, tenant) == NULL)
        return fg_fail(err, FG_E_ABORTED, "segment %llu no longer holds data of the tenant",
                       (unsigned long long)generation);
    return FG_OK;
}

static bool is_replaced(const struct fg_blocks_change *change, struct fg_id id)
{
    for (uint32_t i = 0; i < change->n_replace; i++)
        if (fg_id_eq(change->replace[i], id))
            return true;
    return false;
}

/* True if the entry leaves together with its sources. */
static bool is_bound(const struct fg_blocks_entry *entry)
{
    return entry->derived && !entry->rollup_only;
}

/* Checks that the sources of a parent rollup are there and stay. */
static enum fg_code check_derived(const struct fg_blocks *blocks,
                                  const struct fg_blocks_change *change,
                                  const struct fg_blocks_entry *entry, struct fg_err *err)
{
    fg_assert(entry->n_from_blocks > 0 && entry->n_from_blocks <= FG_BLOCKS_FROM_MAX);
    for (uint32_t i = 0; i < entry->n_from_blocks; i++) {
        const struct fg_blocks_entry *from = fg_blocks_find(blocks, entry->from_blocks[i]);

        if (from == NULL || from->derived || is_replaced(change, from->id))
            return fg_fail(err, FG_E_ABORTED, "a source block of a rollup does not exist");
    }
    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        if (is_bound(&blocks->blocks[i]) && blocks->blocks[i].level == entry->level &&
            blocks->blocks[i].start_ns == entry->start_ns)
            return fg_fail(err, FG_E_ABORTED, "a rollup of this time span already exists");
    return FG_OK;
}

/* Checks that a rollup-only entry has exactly the profiles of all that it replaces: these are
 * gone after the swap. */
static enum fg_code check_alone(const struct fg_blocks *blocks,
                                const struct fg_blocks_change *change,
                                const struct fg_blocks_entry *entry, struct fg_err *err)
{
    struct fg_id digest = {0, 0};
    uint64_t profiles = 0;

    fg_assert(entry->derived && change->n_cover == 0 && change->n_add == 1);
    for (uint32_t i = 0; i < change->n_replace; i++) {
        const struct fg_blocks_entry *from = fg_blocks_find(blocks, change->replace[i]);

        if (from->rollup_only)
            return FG_OK;
        profiles += from->profiles;
        digest = fg_id_add(digest, from->digest);
    }
    if (profiles != entry->profiles || !fg_id_eq(digest, entry->digest))
        return fg_fail(
            err, FG_E_INTERNAL,
            "a rollup of %llu profiles would replace a rollup of %llu or of different profiles",
            (unsigned long long)entry->profiles, (unsigned long long)profiles);
    return FG_OK;
}

static enum fg_code check_add(const struct fg_blocks *blocks, const struct fg_blocks_change *change,
                              const struct fg_blocks_entry *entry, struct fg_err *err)
{
    if (entry->rollup_only)
        return check_alone(blocks, change, entry, err);
    return entry->derived ? check_derived(blocks, change, entry, err) : FG_OK;
}

/* Covers and replacements first: a failure there means that another compactor was faster
 * (FG_E_ABORTED), the usual case. */
static enum fg_code check_change(const struct fg_blocks *blocks, const struct fg_l0 *l0,
                                 const struct fg_blocks_change *change, struct fg_err *err)
{
    for (uint32_t i = 0; i < change->n_cover; i++)
        if (check_cover(blocks, l0, change->cover[i], err) != FG_OK)
            return err->code;
    for (uint32_t i = 0; i < change->n_replace; i++)
        if (fg_blocks_find(blocks, change->replace[i]) == NULL)
            return fg_fail(err, FG_E_ABORTED, "a block to replace no longer exists");
    for (uint32_t i = 0; i < change->n_add; i++)
        if (fg_blocks_knows(blocks, change->add[i].id))
            return fg_fail(err, FG_E_ABORTED, "a block to add already exists");
    for (uint32_t i = 0; i < change->n_add; i++)
        if (check_add(blocks, change, &change->add[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* Copies and sorts the sources of an entry. Returns false if the arena is full. */
static bool set_from(struct fg_blocks_entry *entry, const struct fg_blocks_change *change,
                     struct fg_arena *arena)
{
    /* A parent rollup says itself what it was made of; all others were made of what the change
     * replaces. */
    const struct fg_id *from = is_bound(entry) ? entry->from_blocks : change->replace;
    uint32_t n_segments = is_bound(entry) ? 0 : change->n_cover;
    uint32_t n_from = is_bound(entry) ? entry->n_from_blocks : change->n_replace;
    uint64_t *segments = fg_arena_new(arena, uint64_t, n_segments);
    struct fg_id *ids = fg_arena_new(arena, struct fg_id, n_from);

    if (segments == NULL || ids == NULL)
        return false;
    if (n_segments > 0)
        memcpy(segments, change->cover, n_segments * sizeof *segments);
    if (n_from > 0)
        memcpy(ids, from, n_from * sizeof *ids);
    qsort(segments, n_segments, sizeof *segments, compare_u64);
    qsort(ids, n_from, sizeof *ids, compare_ids);
    entry->from_segments = segments;
    entry->n_from_segments = n_segments;
    entry->from_blocks = ids;
    entry->n_from_blocks = n_from;
    return true;
}

/* True if the entry leaves: it is replaced itself, or one of its sources is. replaced:
 * ascending. */
static bool leaves(const struct fg_blocks_entry *entry, const struct fg_id *replaced,
                   uint32_t n_replaced)
{
    if (find(entry->id, replaced, n_replaced, sizeof *replaced) != NULL)
        return true;
    for (uint32_t i = 0; is_bound(entry) && i < entry->n_from_blocks; i++)
        if (find(entry->from_blocks[i], replaced, n_replaced, sizeof *replaced) != NULL)
            return true;
    return false;
}

/* Divides the entries into those that stay and those that leave, which go to gone[]. */
static bool part_with(struct fg_blocks *next, const struct fg_blocks_change *change,
                      int64_t wall_ns, struct fg_blocks_entry *stay, uint32_t *ret_stay,
                      struct fg_arena *arena)
{
    struct fg_id *replaced = fg_arena_new(arena, struct fg_id, change->n_replace);
    struct fg_blocks_gone *gone =
        fg_arena_new(arena, struct fg_blocks_gone, (size_t)next->n_gone + next->n_blocks);
    uint32_t n = 0, gone_before = next->n_gone;

    if (replaced == NULL || gone == NULL)
        return false;
    if (change->n_replace > 0)
        memcpy(replaced, change->replace, change->n_replace * sizeof *replaced);
    qsort(replaced, change->n_replace, sizeof *replaced, compare_ids);
    if (next->n_gone > 0)
        memcpy(gone, next->gone, next->n_gone * sizeof *gone);
    for (uint32_t i = 0; i < next->n_blocks; i++) {
        if (leaves(&next->blocks[i], replaced, change->n_replace))
            gone[next->n_gone++] = (struct fg_blocks_gone){next->blocks[i].id, wall_ns, {NULL, 0}};
        else
            stay[n++] = next->blocks[i];
    }
    fg_assert(next->n_gone - gone_before + n == next->n_blocks);
    qsort(gone, next->n_gone, sizeof *gone, compare_ids);
    next->gone = gone;
    *ret_stay = n;
    return true;
}

static bool change_blocks(struct fg_blocks *next, const struct fg_blocks_change *change,
                          int64_t wall_ns, struct fg_arena *arena)
{
    struct fg_blocks_entry *blocks =
        fg_arena_new(arena, struct fg_blocks_entry, (size_t)next->n_blocks + change->n_add);
    uint32_t n = 0;

    if (blocks == NULL || !part_with(next, change, wall_ns, blocks, &n, arena))
        return false;
    for (uint32_t i = 0; i < change->n_add; i++) {
        blocks[n] = change->add[i];
        /* Fields of a newer program belong to entries that it wrote, not to new ones. */
        blocks[n].later = fg_bytes(NULL, 0);
        if (!set_from(&blocks[n++], change, arena))
            return false;
    }
    qsort(blocks, n, sizeof *blocks, compare_ids);
    next->blocks = blocks;
    next->n_blocks = n;
    return true;
}

/* The floor rises up to the first live segment that has data of the tenant and is not covered. A
 * segment that enters later has a greater generation than this L0 manifest, and one that has
 * left was covered. So `covered` stays short. */
static uint64_t raise_floor(const struct fg_blocks *blocks, const struct fg_l0 *l0)
{
    uint32_t tenant = fg_l0_tenant(l0, blocks->tenant);

    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];

        if (tenant != FG_L0_NO_TENANT && fg_l0_part(segment, tenant) != NULL &&
            !fg_blocks_covers(blocks, segment->generation))
            return FG_MAX(blocks->covered_floor, segment->generation - 1);
    }
    return FG_MAX(blocks->covered_floor, l0->generation);
}

static bool change_covered(struct fg_blocks *next, const struct fg_l0 *l0,
                           const struct fg_blocks_change *change, struct fg_arena *arena)
{
    uint64_t *covered = fg_arena_new(arena, uint64_t, (size_t)next->n_covered + change->n_cover);
    uint32_t n = next->n_covered, kept = 0;
    uint64_t floor;

    if (covered == NULL)
        return false;
    if (n > 0)
        memcpy(covered, next->covered, n * sizeof *covered);
    for (uint32_t i = 0; i < change->n_cover; i++) {
        covered[n++] = change->cover[i];
        next->newest = FG_MAX(next->newest, change->cover[i]);
    }
    qsort(covered, n, sizeof *covered, compare_u64);
    next->covered = covered;
    next->n_covered = n;
    floor = next->covered_floor;
    next->covered_floor = raise_floor(next, l0);
    fg_assert(next->covered_floor >= floor); /* what was covered stays so */
    for (uint32_t i = 0; i < n; i++)
        if (covered[i] > next->covered_floor)
            covered[kept++] = covered[i];
    next->n_covered = kept;
    return true;
}

enum fg_code fg_blocks_apply(const struct fg_blocks *blocks, const struct fg_l0 *l0,
                             const struct fg_blocks_change *change, int64_t wall_ns,
                             struct fg_arena *arena, struct fg_blocks *ret_blocks,
                             bool *ret_changed, struct fg_err *err)
{
    struct fg_blocks next = *blocks;

    if (is_done(blocks, change)) {
        *ret_changed = false;
        *ret_blocks = next;
        return FG_OK;
    }
    if (change->n_cover > FG_BLOCKS_FROM_MAX || change->n_replace > FG_BLOCKS_FROM_MAX)
        return fg_fail(err, FG_E_LIMIT, "a change of %u segments and %u blocks", change->n_cover,
                       change->n_replace);
    if (check_change(blocks, l0, change, err) != FG_OK)
        return err->code;
    next.revision++;
    if (!change_blocks(&next, change, wall_ns, arena) ||
        !change_covered(&next, l0, change, arena) ||
        !fg_blocks_count_taken(&next, change->taken, change->n_taken, arena) ||
        !fg_blocks_count_used(&next, blocks, change, wall_ns, arena))
        return no_memory(err);
    /* After the change and not before: it may replace more than it adds. */
    if (next.n_blocks > FG_BLOCKS_MAX || next.n_gone > FG_BLOCKS_GONE_MAX ||
        next.n_covered > FG_BLOCKS_COVERED_MAX)
        return fg_fail(
            err, FG_E_LIMIT,
            "the manifest of the tenant would have %u blocks, %u objects to delete and %u segments",
            next.n_blocks, next.n_gone, next.n_covered);
    *ret_changed = true;
    *ret_blocks = next;
    return FG_OK;
}

enum fg_code fg_blocks_give_up(const struct fg_blocks *blocks, const struct fg_l0 *l0,
                               const struct fg_blocks_giving_up *giving_up, int64_t wall_ns,
                               struct fg_arena *arena, struct fg_blocks *ret_blocks,
                               bool *ret_changed, struct fg_err *err)
{
    const struct fg_blocks_change *change = &giving_up->change;
    const struct fg_blocks_lost *lost = giving_up->lost;
    uint32_t n_lost = giving_up->n_lost;
    struct fg_blocks next = *blocks;

    fg_assert(change->n_cover + change->n_replace == 1);
    for (uint32_t i = 0; n_lost > 0 && i < blocks->n_lost; i++)
        if (fg_slice_eq(blocks->lost[i].object, lost->object)) {
            *ret_changed = false;
            *ret_blocks = *blocks;
            return FG_OK;
        }
    /* Before the change: an object must not be given up without a record of it. */
    if (n_lost > FG_BLOCKS_LOST_MAX - blocks->n_lost)
        return fg_fail(err, FG_E_LIMIT, "%u records of abandoned objects, and %u more",
                       blocks->n_lost, n_lost);
    if (fg_blocks_apply(blocks, l0, change, wall_ns, arena, &next, ret_changed, err) != FG_OK)
        return err->code;
    if (!*ret_changed) /* its reference has left for another reason: nothing is lost */
        return fg_fail(err, FG_E_ABORTED, "nothing refers to the object any longer");
    next.lost = fg_arena_new(arena, struct fg_blocks_lost, (size_t)blocks->n_lost + n_lost);
    if (next.lost == NULL)
        return no_memory(err);
    if (blocks->n_lost > 0)
        memcpy(next.lost, blocks->lost, blocks->n_lost * sizeof *next.lost);
    if (n_lost > 0)
        memcpy(next.lost + blocks->n_lost, lost, n_lost * sizeof *next.lost);
    next.n_lost += n_lost;
    *ret_blocks = next;
    return FG_OK;
}

enum fg_code fg_blocks_deleted(const struct fg_blocks *blocks, const struct fg_id *ids,
                               uint32_t count, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                               bool *ret_changed, struct fg_err *err)
{
    struct fg_id *leaving = fg_arena_new(arena, struct fg_id, count);
    struct fg_blocks next = *blocks;

    next.gone = fg_arena_new(arena, struct fg_blocks_gone, blocks->n_gone);
    if (leaving == NULL || next.gone == NULL)
        return no_memory(err);
    if (count > 0)
        memcpy(leaving, ids, count * sizeof *leaving);
    qsort(leaving, count, sizeof *leaving, compare_ids);
    next.n_gone = 0;
    for (uint32_t i = 0; i < blocks->n_gone; i++)
        if (find(blocks->gone[i].id, leaving, count, sizeof *leaving) == NULL)
            next.gone[next.n_gone++] = blocks->gone[i];
    next.revision++;
    *ret_changed = next.n_gone != blocks->n_gone;
    *ret_blocks = *ret_changed ? next : *blocks;
    return FG_OK;
}
