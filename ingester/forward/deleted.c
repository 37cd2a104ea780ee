#include "ingester/forward/deleted.h"

#include "common/access/access.h"
#include "common/cluster/manifest/object.h"

/* A stop of the program waits for it. */
static const int64_t READ_TIMEOUT_NS = 10 * FG_SECOND_NS;

static bool is_tenant(void *arg, struct fg_slice tenant)
{
    const struct ing_deleted_sources *sources = arg;

    return fg_access_has_deleted(sources->access, tenant);
}

/* The manifest is released, so their selectors are copied. */
static enum fg_code copy_deletions(const struct fg_blocks *from, struct fg_arena *arena,
                                   struct fg_deletions *ret_deletions, struct fg_err *err)
{
    struct fg_blocks blocks = {.tenant = from->tenant, .n_tombstones = from->n_tombstones};

    blocks.tombstones = fg_arena_new(arena, struct fg_blocks_tombstone, from->n_tombstones);
    if (blocks.tombstones == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u deletions", from->n_tombstones);
    for (uint32_t i = 0; i < from->n_tombstones; i++) {
        struct fg_blocks_tombstone *tombstone = &blocks.tombstones[i];

        *tombstone = from->tombstones[i];
        tombstone->selector = fg_arena_copy(arena, tombstone->selector);
        if (tombstone->selector.ptr == NULL)
            return fg_fail(err, FG_E_LIMIT, "no room for %u deletions", from->n_tombstones);
    }
    return fg_blocks_deletions(&blocks, arena, ret_deletions, err);
}

static enum fg_code read_deletions(void *arg, struct fg_slice tenant, struct fg_arena *arena,
                                   struct fg_deletions *ret_deletions, struct fg_err *err)
{
    const struct ing_deleted_sources *sources = arg;
    struct fg_manifest *manifest = NULL;
    enum fg_code code;

    *ret_deletions = (struct fg_deletions){0};
    if (sources->bucket == NULL)
        return FG_OK;
    code = fg_manifest_refresh(sources->bucket, NULL, tenant,
                               fg_time_add(fg_mono_ns(sources->clock), READ_TIMEOUT_NS), &manifest,
                               err);
    if (code == FG_OK)
        code = copy_deletions(&manifest->blocks, arena, ret_deletions, err);
    fg_manifest_unref(manifest);
    return code;
}

struct ing_deleted ing_deleted_of(struct ing_deleted_sources *sources)
{
    return (struct ing_deleted){is_tenant, read_deletions, sources};
}
