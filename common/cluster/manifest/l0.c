#include "common/cluster/manifest/l0.h"

#include "common/base/search.h"

#include <stdlib.h>

struct fg_l0 fg_l0_none(void)
{
    return (struct fg_l0){.late_filter = fg_late_filter_none()};
}

/* ---- finding ---- */

uint32_t fg_l0_tenant(const struct fg_l0 *l0, struct fg_slice tenant)
{
    uint32_t at =
        fg_lower_bound(i, 0, l0->n_tenants, fg_slice_cmp(l0->tenants[i].name, tenant) < 0);

    return at < l0->n_tenants && fg_slice_eq(l0->tenants[at].name, tenant) ? at : FG_L0_NO_TENANT;
}

static uint32_t writer_place(const struct fg_l0 *l0, struct fg_id id)
{
    return fg_lower_bound(i, 0, l0->n_writers, fg_id_cmp(l0->writers[i].id, id) < 0);
}

const struct fg_l0_writer *fg_l0_writer(const struct fg_l0 *l0, struct fg_id id)
{
    uint32_t at = writer_place(l0, id);

    return at < l0->n_writers && fg_id_eq(l0->writers[at].id, id) ? &l0->writers[at] : NULL;
}

const struct fg_l0_segment *fg_l0_segment(const struct fg_l0 *l0, uint64_t generation)
{
    uint32_t at = fg_lower_bound(i, 0, l0->n_segments, l0->segments[i].generation < generation);

    return at < l0->n_segments && l0->segments[at].generation == generation ? &l0->segments[at]
                                                                            : NULL;
}

const struct fg_l0_part *fg_l0_part(const struct fg_l0_segment *segment, uint32_t tenant)
{
    uint32_t at = fg_lower_bound(i, 0, segment->n_parts, segment->parts[i].tenant < tenant);

    return at < segment->n_parts && segment->parts[at].tenant == tenant ? &segment->parts[at]
                                                                        : NULL;
}

/* A walk over all: only the sweep for orphans asks, a few times in a page. */
bool fg_l0_knows(const struct fg_l0 *l0, const struct fg_segment_id *id)
{
    for (uint32_t i = 0; i < l0->n_segments; i++)
        if (fg_segment_id_cmp(&l0->segments[i].id, id) == 0)
            return true;
    for (uint32_t i = 0; i < l0->n_gone; i++)
        if (fg_segment_id_cmp(&l0->gone[i].id, id) == 0)
            return true;
    return false;
}

/* ---- changes ---- */

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the L0 manifest is too large to change");
}

static int compare_names(const void *left, const void *right)
{
    const struct fg_l0_new_part *const *a = left, *const *b = right;

    return fg_slice_cmp((*a)->tenant, (*b)->tenant);
}

/* Sorts the new segment's parts by name; NULL: the arena is full. */
static const struct fg_l0_new_part **sort_parts(const struct fg_l0_new *segment,
                                                struct fg_arena *arena)
{
    const struct fg_l0_new_part **sorted = fg_arena_calloc(arena, segment->n_parts, sizeof(void *));

    if (sorted == NULL)
        return NULL;
    for (uint32_t i = 0; i < segment->n_parts; i++)
        sorted[i] = &segment->parts[i];
    qsort(sorted, segment->n_parts, sizeof(void *), compare_names);
    return sorted;
}

/* Checks it before any of it is stored: a fault would make the manifest unreadable. */
static enum fg_code check_new(const struct fg_l0_new *segment,
                              const struct fg_l0_new_part *const *parts, struct fg_err *err)
{
    uint64_t profiles = 0;

    for (uint32_t i = 0; i < segment->n_parts; i++) {
        const struct fg_l0_new_part *part = parts[i];

        if (fg_tenant_check(part->tenant, err) != FG_OK)
            return err->code;
        if (i > 0 && fg_slice_eq(parts[i - 1]->tenant, part->tenant))
            return fg_fail(err, FG_E_INVALID, "tenant %.*s twice in a segment", FG_S(part->tenant));
        if (part->t_min_ns < segment->t_min_ns || part->t_max_ns < part->t_min_ns ||
            part->t_max_ns > segment->t_max_ns)
            return fg_fail(err, FG_E_INVALID, "times of tenant %.*s are not those of its segment",
                           FG_S(part->tenant));
        profiles += part->profiles;
    }
    if (segment->n_parts == 0 || profiles != segment->profiles)
        return fg_fail(err, FG_E_INVALID, "segment of %llu profiles, %llu in its %u parts",
                       (unsigned long long)segment->profiles, (unsigned long long)profiles,
                       segment->n_parts);
    return FG_OK;
}

/* Merges the tenants with those of the new segment; numbers[i] becomes the new number of tenant
 * i. NULL: the arena is full. */
static struct fg_l0_tenant *join_tenants(const struct fg_l0 *l0,
                                         const struct fg_l0_new_part *const *parts,
                                         uint32_t n_parts, struct fg_arena *arena,
                                         uint32_t *numbers, uint32_t *ret_count)
{
    struct fg_l0_tenant *tenants =
        fg_arena_new(arena, struct fg_l0_tenant, (size_t)l0->n_tenants + n_parts);
    uint32_t i = 0, k = 0, n = 0;

    if (tenants == NULL)
        return NULL;
    while (i < l0->n_tenants || k < n_parts) {
        int order = i == l0->n_tenants ? 1
                    : k == n_parts     ? -1
                                       : fg_slice_cmp(l0->tenants[i].name, parts[k]->tenant);

        tenants[n] = order <= 0 ? l0->tenants[i] : (struct fg_l0_tenant){parts[k]->tenant, 0};
        if (order <= 0)
            numbers[i++] = n;
        if (order >= 0)
            k++;
        n++;
    }
    *ret_count = n;
    return tenants;
}

/* Copies the parts with the new numbers of tenants, into the arena. */
static bool renumber(struct fg_l0_segment *segment, const uint32_t *numbers, struct fg_arena *arena)
{
    struct fg_l0_part *parts =
        fg_arena_copy_list(arena, segment->parts, segment->n_parts, sizeof *segment->parts);

    if (parts == NULL)
        return false;
    for (uint32_t i = 0; i < segment->n_parts; i++)
        parts[i].tenant = numbers[parts[i].tenant];
    segment->parts = parts;
    return true;
}

/* Makes an entry of the new segment, whose tenants are in the manifest already. */
static bool make_entry(const struct fg_l0 *l0, const struct fg_l0_new *new,
                       const struct fg_l0_new_part *const *parts, int64_t wall_ns,
                       struct fg_arena *arena, struct fg_l0_segment *ret_entry)
{
    struct fg_l0_segment entry = {
        .generation = l0->generation,
        .id = new->id,
        .entered_wall_ns = wall_ns,
        .bytes = new->bytes,
        .directory_offset = new->directory_offset,
        .directory_bytes = new->directory_bytes,
        .profiles = new->profiles,
        .digest = new->digest,
        .t_min_ns = new->t_min_ns,
        .t_max_ns = new->t_max_ns,
        .parts = fg_arena_new(arena, struct fg_l0_part, new->n_parts),
        .n_parts = new->n_parts,
    };

    if (entry.parts == NULL)
        return false;
    for (uint32_t i = 0; i < new->n_parts; i++)
        entry.parts[i] =
            (struct fg_l0_part){fg_l0_tenant(l0, parts[i]->tenant), parts[i]->t_min_ns,
                                parts[i]->t_max_ns, parts[i]->profiles, parts[i]->usage};
    *ret_entry = entry;
    return true;
}

static bool add_segment(struct fg_l0 *l0, const struct fg_l0_new *new,
                        const struct fg_l0_new_part *const *parts, int64_t wall_ns,
                        struct fg_arena *arena)
{
    uint32_t *numbers = fg_arena_new(arena, uint32_t, l0->n_tenants);
    struct fg_l0_segment *segments =
        fg_arena_copy_list(arena, l0->segments, l0->n_segments, sizeof *l0->segments);
    uint32_t n_tenants = 0, n_before = l0->n_tenants;

    if (numbers == NULL || segments == NULL)
        return false;
    l0->tenants = join_tenants(l0, parts, new->n_parts, arena, numbers, &n_tenants);
    l0->n_tenants = n_tenants;
    if (l0->tenants == NULL)
        return false;
    /* Only a new tenant changes numbers, which is rare: without one all parts stay shared with
     * the old value. */
    for (uint32_t i = 0; n_tenants != n_before && i < l0->n_segments; i++)
        if (!renumber(&segments[i], numbers, arena))
            return false;
    l0->segments = segments;
    return make_entry(l0, new, parts, wall_ns, arena, &segments[l0->n_segments++]);
}

/* Returns the writer's entry to be changed. All entries are copied, and the writer is added if
 * it is not there. NULL: the arena is full. */
static struct fg_l0_writer *own_writer(struct fg_l0 *l0, struct fg_id id, uint64_t clean,
                                       struct fg_arena *arena)
{
    struct fg_l0_writer *writers =
        fg_arena_copy_list(arena, l0->writers, l0->n_writers, sizeof *l0->writers);
    uint32_t at = writer_place(l0, id);

    if (writers == NULL)
        return NULL;
    if (at == l0->n_writers || !fg_id_eq(writers[at].id, id)) {
        memmove(&writers[at + 1], &writers[at], (l0->n_writers - at) * sizeof *writers);
        writers[at] = (struct fg_l0_writer){.id = id};
        l0->n_writers++;
    }
    /* Never back, and never beyond what was asked: a store of a restored disk must not say that
     * it is clean of the future. */
    writers[at].clean = FG_MAX(writers[at].clean, FG_MIN(clean, l0->asked));
    l0->writers = writers;
    return &writers[at];
}

/* Windows before the result need not be known exactly. Neither a clock nor profiles that are
 * ahead move it by themselves; the caller takes care that it never goes back. */
static uint32_t exact_from(const struct fg_late_filter *groups, uint32_t window_now)
{
    uint32_t newest = groups->n_runs == 0 ? 0 : groups->runs[groups->n_runs - 1].window;

    newest = FG_MIN(newest, window_now);
    return newest > FG_LATE_FILTER_EXACT_WINDOWS ? newest - FG_LATE_FILTER_EXACT_WINDOWS : 0;
}

static enum fg_code check_limits(const struct fg_l0 *l0, struct fg_err *err)
{
    uint64_t parts = 0;

    for (uint32_t i = 0; i < l0->n_segments; i++)
        parts += l0->segments[i].n_parts;
    if (l0->n_segments > FG_L0_SEGMENTS_MAX || parts > FG_L0_PARTS_MAX ||
        l0->n_tenants > FG_L0_TENANTS_MAX || l0->n_writers > FG_L0_WRITERS_MAX)
        return fg_fail(
            err, FG_E_LIMIT,
            "the L0 manifest would have %u segments, %llu parts, %u tenants and %u writers",
            l0->n_segments, (unsigned long long)parts, l0->n_tenants, l0->n_writers);
    return FG_OK;
}

static int compare_gone(const void *left, const void *right)
{
    const struct fg_l0_gone *a = left, *b = right;

    return fg_segment_id_cmp(&a->id, &b->id);
}

/* Takes the segment off the list of objects to delete: one that a rebuild gave up may enter
 * after all, and a listed object must not be deleted. */
static bool leave_gone(struct fg_l0 *l0, const struct fg_segment_id *id, struct fg_arena *arena)
{
    const struct fg_l0_gone key = {.id = *id};
    const struct fg_l0_gone *found =
        l0->n_gone == 0 ? NULL
                        : bsearch(&key, l0->gone, l0->n_gone, sizeof *l0->gone, compare_gone);
    struct fg_l0_gone *gone;

    if (found == NULL)
        return true;
    gone = fg_arena_copy_list(arena, l0->gone, l0->n_gone, sizeof *l0->gone);
    if (gone == NULL)
        return false;
    memmove(&gone[found - l0->gone], &gone[found - l0->gone + 1],
            (size_t)(&l0->gone[l0->n_gone] - found - 1) * sizeof *gone);
    l0->gone = gone;
    l0->n_gone--;
    return true;
}

enum fg_code fg_l0_commit(const struct fg_l0 *l0, const struct fg_l0_new *segment, int64_t wall_ns,
                          uint32_t window_now, struct fg_arena *arena, struct fg_l0 *ret_l0,
                          struct fg_err *err)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, segment->id.writer);
    const struct fg_l0_new_part **parts = sort_parts(segment, arena);
    struct fg_l0 next = *l0;

    if (parts == NULL)
        return no_memory(err);
    if (check_new(segment, parts, err) != FG_OK)
        return err->code;
    /* A repeated commit whose answer was lost ends here, and never lists a segment twice. */
    if (writer != NULL && segment->id.cut <= writer->cut)
        return fg_fail(err, FG_E_EXISTS, "cut %llu is already committed, at generation %llu",
                       (unsigned long long)segment->id.cut, (unsigned long long)writer->generation);
    next.revision++;
    /* Of all changes only a commit raises the generation: which segments are live is what
     * readers and heads have to agree about. */
    next.generation++;
    if (!leave_gone(&next, &segment->id, arena) ||
        !add_segment(&next, segment, parts, wall_ns, arena))
        return no_memory(err);

    struct fg_l0_writer *mine = own_writer(&next, segment->id.writer, segment->clean, arena);

    if (mine == NULL)
        return no_memory(err);
    mine->cut = segment->id.cut;
    mine->generation = next.generation;
    if (!fg_late_filter_join(&l0->late_filter, &segment->groups,
                             exact_from(&segment->groups, window_now), window_now, arena,
                             &next.late_filter))
        return no_memory(err);
    if (check_limits(&next, err) != FG_OK)
        return err->code;
    *ret_l0 = next;
    return FG_OK;
}

void fg_l0_ask(const struct fg_l0 *l0, uint64_t asked, struct fg_l0 *ret_l0, bool *ret_changed)
{
    struct fg_l0 next = *l0;

    *ret_changed = asked > l0->asked;
    if (*ret_changed) {
        next.asked = asked;
        next.revision++;
    }
    *ret_l0 = next;
}

enum fg_code fg_l0_clean(const struct fg_l0 *l0, struct fg_id writer, uint64_t clean,
                         struct fg_arena *arena, struct fg_l0 *ret_l0, bool *ret_changed,
                         struct fg_err *err)
{
    const struct fg_l0_writer *known = fg_l0_writer(l0, writer);
    uint64_t said = known == NULL ? 0 : known->clean;
    struct fg_l0 next = *l0;

    *ret_changed = FG_MIN(clean, l0->asked) > said;
    if (*ret_changed) {
        if (own_writer(&next, writer, clean, arena) == NULL)
            return no_memory(err);
        if (check_limits(&next, err) != FG_OK)
            return err->code;
        next.revision++;
    }
    *ret_l0 = next;
    return FG_OK;
}

static int compare_u64(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* True if the writer has a live segment. */
static bool is_live(const struct fg_l0 *l0, struct fg_id writer)
{
    for (uint32_t i = 0; i < l0->n_segments; i++)
        if (fg_id_eq(l0->segments[i].id.writer, writer))
            return true;
    return false;
}

static int compare_silence(const void *left, const void *right)
{
    const struct fg_l0_writer *a = left, *b = right;

    return (a->generation > b->generation) - (a->generation < b->generation);
}

static int compare_writers(const void *left, const void *right)
{
    const struct fg_l0_writer *a = left, *b = right;

    return fg_id_cmp(a->id, b->id);
}

/* Drops the longest silent writers, down to three quarters. Only writers whose last segment has
 * left: their own generation is not beyond the floor, so if one comes back, it sees that it was
 * away and compares its head by ids (settle-on-rejoin). */
static bool forget_writers(struct fg_l0 *l0, struct fg_arena *arena)
{
    struct fg_l0_writer *writers;
    uint32_t n = 0, excess;

    if (l0->n_writers < FG_L0_WRITERS_MAX)
        return true;
    excess = l0->n_writers - FG_L0_WRITERS_MAX / 4 * 3;
    writers = fg_arena_copy_list(arena, l0->writers, l0->n_writers, sizeof *l0->writers);
    if (writers == NULL)
        return false;
    qsort(writers, l0->n_writers, sizeof *writers, compare_silence);
    for (uint32_t i = 0; i < l0->n_writers; i++) {
        bool keep = excess == 0 || writers[i].generation > l0->floor || is_live(l0, writers[i].id);

        if (keep)
            writers[n++] = writers[i];
        else
            excess--;
    }
    qsort(writers, n, sizeof *writers, compare_writers);
    l0->writers = writers;
    l0->n_writers = n;
    return true;
}

enum fg_code fg_l0_retire(const struct fg_l0 *l0, const uint64_t *generations, uint32_t count,
                          int64_t wall_ns, struct fg_arena *arena, struct fg_l0 *ret_l0,
                          bool *ret_changed, struct fg_err *err)
{
    struct fg_l0 next = *l0;
    uint64_t *leaving = fg_arena_copy_list(arena, generations, count, sizeof *generations);

    next.segments = fg_arena_copy_list(arena, l0->segments, l0->n_segments, sizeof *l0->segments);
    next.gone = fg_arena_new(arena, struct fg_l0_gone, (size_t)l0->n_gone + l0->n_segments);
    next.tenants = fg_arena_copy_list(arena, l0->tenants, l0->n_tenants, sizeof *l0->tenants);
    if (leaving == NULL || next.segments == NULL || next.gone == NULL || next.tenants == NULL)
        return no_memory(err);
    qsort(leaving, count, sizeof *leaving, compare_u64);
    if (l0->n_gone > 0)
        memcpy(next.gone, l0->gone, l0->n_gone * sizeof *next.gone);
    next.n_segments = 0;
    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];

        /* If the list of objects to delete is full, the segment stays live: it must not leave
         * without being remembered. */
        if (next.n_gone == FG_L0_GONE_MAX ||
            bsearch(&segment->generation, leaving, count, sizeof *leaving, compare_u64) == NULL) {
            next.segments[next.n_segments++] = *segment;
            continue;
        }
        /* The floor tells a head that was away since before it that segments may have come and
         * gone unseen. */
        next.floor = FG_MAX(next.floor, segment->generation);
        /* Per tenant: a manifest of the tenant that does not cover this is lost or old
         * (fg_blocks_check()). */
        for (uint32_t p = 0; p < segment->n_parts; p++)
            next.tenants[segment->parts[p].tenant].retired = segment->generation; /* ascending */
        next.gone[next.n_gone++] = (struct fg_l0_gone){segment->id, wall_ns, {NULL, 0}};
    }
    qsort(next.gone, next.n_gone, sizeof *next.gone, compare_gone);
    if (!forget_writers(&next, arena))
        return no_memory(err);
    next.revision++;
    *ret_changed = next.n_segments != l0->n_segments;
    *ret_l0 = *ret_changed ? next : *l0;
    return FG_OK;
}

static int compare_ids(const void *left, const void *right)
{
    return fg_segment_id_cmp(left, right);
}

enum fg_code fg_l0_deleted(const struct fg_l0 *l0, const struct fg_segment_id *ids, uint32_t count,
                           struct fg_arena *arena, struct fg_l0 *ret_l0, bool *ret_changed,
                           struct fg_err *err)
{
    struct fg_segment_id *leaving = fg_arena_copy_list(arena, ids, count, sizeof *ids);
    struct fg_l0 next = *l0;

    next.gone = fg_arena_new(arena, struct fg_l0_gone, l0->n_gone);
    if (leaving == NULL || next.gone == NULL)
        return no_memory(err);
    qsort(leaving, count, sizeof *leaving, compare_ids);
    next.n_gone = 0;
    for (uint32_t i = 0; i < l0->n_gone; i++)
        if (bsearch(&l0->gone[i].id, leaving, count, sizeof *leaving, compare_ids) == NULL)
            next.gone[next.n_gone++] = l0->gone[i];
    next.revision++;
    *ret_changed = next.n_gone != l0->n_gone;
    *ret_l0 = *ret_changed ? next : *l0;
    return FG_OK;
}
