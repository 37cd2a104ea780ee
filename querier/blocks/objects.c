#include "querier/blocks/objects.h"

#include "common/base/search.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/blocks/lost.h"

/* Rollups before the directory are read with it up to this size: before the directory is there,
 * nobody knows which of them the query needs. */
enum { OBJECT_HEAD_MAX_BYTES = 1024 * 1024 };

static bool overlaps(int64_t t_min_ns, int64_t t_max_ns, int64_t start_ns, int64_t end_ns)
{
    return t_min_ns <= end_ns && t_max_ns >= start_ns;
}

static enum fg_code add(const struct qry_query *query, struct qry_objects *objects,
                        struct fg_arena *arena, const char *name, const struct qry_object *object,
                        struct fg_err *err)
{
    struct qry_object *added;

    if (!fg_arena_grow(arena, &objects->items, objects->n, 1, &objects->cap,
                       sizeof *objects->items))
        return qry_query_too_large(err);
    added = &objects->items[objects->n];
    *added = *object;
    added->name = fg_arena_text(arena, fg_cstr(name));
    if (added->name == NULL)
        return qry_query_too_large(err);
    /* The name identifies the bytes for ever, since objects never change: caches use its hash as
     * key. */
    added->id = fg_hash128(fg_cstr(name));
    if (added->derived != NULL && qry_lost_object(query, added))
        return FG_OK; /* its children are read */
    if (object->block_id.hi == 0 && object->block_id.lo == 0)
        added->block_id = added->id; /* a segment: it has no parent */
    added->head = added->directory;
    if (added->rollups_bytes > 0 && added->rollups_bytes <= OBJECT_HEAD_MAX_BYTES &&
        !qry_lost_head(query, added)) {
        added->head.offset -= added->rollups_bytes;
        added->head.len += added->rollups_bytes;
    }
    objects->n++;
    return FG_OK;
}

/* Returns which of the query's tenants have something in the range, and how many profiles. */
static uint32_t tenants_of(const struct fg_snapshot *snapshot, const uint32_t *numbers,
                           const struct fg_l0_segment *segment, int64_t start_ns, int64_t end_ns,
                           uint64_t *ret_profiles)
{
    uint32_t tenants = 0;

    *ret_profiles = 0;
    for (uint32_t i = 0; i < snapshot->n_tenants; i++) {
        const struct fg_l0_part *part =
            numbers[i] == FG_L0_NO_TENANT ? NULL : fg_l0_part(segment, numbers[i]);

        if (part != NULL && overlaps(part->t_min_ns, part->t_max_ns, start_ns, end_ns) &&
            fg_snapshot_reads(snapshot, i, segment)) {
            tenants |= 1u << i;
            *ret_profiles += part->profiles;
        }
    }
    return tenants;
}

static enum fg_code add_segments(const struct qry_query *query, int64_t start_ns, int64_t end_ns,
                                 struct fg_arena *arena, struct qry_objects *objects,
                                 struct fg_err *err)
{
    const struct fg_snapshot *snapshot = &query->snapshot->core;
    const struct fg_l0 *l0 = &snapshot->l0->l0;
    uint32_t numbers[FG_SNAPSHOT_TENANTS_MAX];
    char name[FG_NAME_MAX_BYTES];

    for (uint32_t i = 0; i < snapshot->n_tenants; i++)
        /* Looked up once: the manifest has many segments, and each names tenants by number. */
        numbers[i] = fg_l0_tenant(l0, snapshot->tenants[i]);
    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];
        uint64_t profiles;
        struct qry_object object = {
            .tenants = tenants_of(snapshot, numbers, segment, start_ns, end_ns, &profiles),
            .bytes = segment->bytes,
            .profiles = segment->profiles,
            .digest = segment->digest,
            .directory = {segment->directory_offset, segment->directory_bytes},
        };

        /* None of the query's tenants has anything of the range there. */
        if (object.tenants == 0)
            continue;
        /* Else most of its bytes are of other tenants, and are not worth fetching with the head. */
        object.mostly = profiles >= segment->profiles / 2;
        fg_name_segment(name, &segment->id);
        if (add(query, objects, arena, name, &object, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Returns true if the object is to be read. A derived block only if all of its time is wanted. */
static bool is_about(const struct fg_blocks_entry *block, int64_t start_ns, int64_t end_ns,
                     enum qry_objects_which which)
{
    if (block->rollup_only ? which == OBJECTS_PROFILES : which == OBJECTS_ROLLUP_ONLY)
        return false;
    /* Of a derived block no part of its time can be taken alone, so its children are read instead.
     */
    if (fg_blocks_sums_others(block))
        return which == OBJECTS_AND_ROLLUPS && block->t_min_ns >= start_ns &&
               block->t_max_ns <= end_ns;
    return overlaps(block->t_min_ns, block->t_max_ns, start_ns, end_ns);
}

static enum fg_code add_blocks(const struct qry_query *query, uint32_t tenant, int64_t start_ns,
                               int64_t end_ns, enum qry_objects_which which, struct fg_arena *arena,
                               struct qry_objects *objects, struct fg_err *err)
{
    const struct fg_snapshot *snapshot = &query->snapshot->core;
    const struct fg_blocks *blocks = &snapshot->blocks[tenant]->blocks;
    char name[FG_NAME_MAX_BYTES];

    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks[i];
        struct qry_object object = {
            .tenants = 1u << tenant,
            .mostly = true,
            .bytes = block->bytes,
            .profiles = block->profiles,
            .digest = block->digest,
            .directory = {block->directory_offset, block->directory_bytes},
            .rollups_bytes = block->rollup_bytes,
            .block_id = block->id,
            .derived = fg_blocks_sums_others(block) ? block : NULL,
            .rollup_only = block->rollup_only,
        };

        if (!is_about(block, start_ns, end_ns, which))
            continue;
        if (fg_name_block(name, snapshot->tenants[tenant], block->id, err) != FG_OK ||
            add(query, objects, arena, name, &object, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

struct qry_object *qry_objects_block(const struct qry_objects *objects, uint32_t tenant,
                                     struct fg_id id)
{
    uint32_t end = objects->blocks[tenant + 1];
    uint32_t at = fg_lower_bound(i, objects->blocks[tenant], end,
                                 fg_id_cmp(objects->items[i].block_id, id) < 0);

    return at < end && fg_id_eq(objects->items[at].block_id, id) ? &objects->items[at] : NULL;
}

/* Returns true if a derived block was made of all that another one was made of, and of more. */
static bool is_within(const struct fg_blocks_entry *derived, const struct fg_blocks_entry *parent)
{
    uint32_t at = 0;

    if (derived->n_from_blocks >= parent->n_from_blocks || derived->t_min_ns < parent->t_min_ns ||
        derived->t_max_ns > parent->t_max_ns)
        return false;
    for (uint32_t i = 0; i < derived->n_from_blocks; i++) { /* both ascend */
        while (at < parent->n_from_blocks &&
               fg_id_cmp(parent->from_blocks[at], derived->from_blocks[i]) < 0)
            at++;
        if (at == parent->n_from_blocks ||
            !fg_id_eq(parent->from_blocks[at], derived->from_blocks[i]))
            return false;
    }
    return true;
}

bool qry_objects_is_child(const struct qry_object *object, const struct qry_object *parent)
{
    const struct fg_blocks_entry *derived = parent->derived;
    uint32_t n = derived == NULL ? 0 : derived->n_from_blocks;
    uint32_t at;

    if (object->derived != NULL)
        return derived != NULL && is_within(object->derived, derived);
    at = fg_lower_bound(i, 0, n, fg_id_cmp(derived->from_blocks[i], object->block_id) < 0);
    return at < n && fg_id_eq(derived->from_blocks[at], object->block_id);
}

static void close_children(struct qry_objects *objects, uint32_t tenant)
{
    for (uint32_t i = objects->blocks[tenant]; i < objects->blocks[tenant + 1]; i++) {
        const struct fg_blocks_entry *derived = objects->items[i].derived;

        for (uint32_t k = 0; derived != NULL && k < derived->n_from_blocks; k++) {
            struct qry_object *object = qry_objects_block(objects, tenant, derived->from_blocks[k]);

            if (object != NULL)
                object->closed = true;
        }
        /* A week within 28 days is another way to read some of them, which takes more requests. */
        for (uint32_t k = objects->blocks[tenant];
             derived != NULL && k < objects->blocks[tenant + 1]; k++)
            if (objects->items[k].derived != NULL && is_within(objects->items[k].derived, derived))
                objects->items[k].closed = true;
    }
}

enum fg_code qry_objects_find(const struct qry_query *query, int64_t start_ns, int64_t end_ns,
                              enum qry_objects_which which, struct fg_arena *arena,
                              struct qry_objects *ret_objects, struct fg_err *err)
{
    const struct fg_snapshot *snapshot = &query->snapshot->core;
    struct qry_objects objects = {0};

    if (which != OBJECTS_ROLLUP_ONLY &&
        add_segments(query, start_ns, end_ns, arena, &objects, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < snapshot->n_tenants; i++) {
        objects.blocks[i] = objects.n;
        if (add_blocks(query, i, start_ns, end_ns, which, arena, &objects, err) != FG_OK)
            return err->code;
        objects.blocks[i + 1] = objects.n;
        close_children(&objects, i);
    }
    *ret_objects = objects;
    return FG_OK;
}
