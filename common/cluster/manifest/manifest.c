#include "common/cluster/manifest/manifest.h"

#include <stdlib.h>

static struct fg_manifest *manifest_create(struct fg_slice etag)
{
    struct fg_manifest *manifest = fg_new(struct fg_manifest);

    /* Immutable once it is made, so readers on all threads share it by reference alone. */
    atomic_init(&manifest->refs, 1);
    manifest->arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES);
    manifest->etag = fg_arena_copy(manifest->arena, etag);
    return manifest;
}

enum fg_code fg_manifest_l0(struct fg_slice bytes, struct fg_slice etag,
                            struct fg_manifest **ret_manifest, struct fg_err *err)
{
    struct fg_manifest *manifest = manifest_create(etag);

    manifest->l0 = fg_l0_none();
    /* Neither bytes nor etag: there is no object, and the manifest is the empty one. No bytes but
     * an etag is an emptied object, which decoding refuses. */
    if ((bytes.len > 0 || etag.len > 0) &&
        fg_l0_decode(bytes, manifest->arena, &manifest->l0, err) != FG_OK) {
        fg_manifest_unref(manifest);
        return err->code;
    }
    *ret_manifest = manifest;
    return FG_OK;
}

enum fg_code fg_manifest_blocks(struct fg_slice bytes, struct fg_slice etag, struct fg_slice tenant,
                                struct fg_manifest **ret_manifest, struct fg_err *err)
{
    struct fg_manifest *manifest = manifest_create(etag);

    manifest->blocks = fg_blocks_none(fg_arena_copy(manifest->arena, tenant));
    if ((bytes.len > 0 || etag.len > 0) &&
        fg_blocks_decode(bytes, tenant, manifest->arena, &manifest->blocks, err) != FG_OK) {
        fg_manifest_unref(manifest);
        return err->code;
    }
    *ret_manifest = manifest;
    return FG_OK;
}

struct fg_manifest *fg_manifest_ref(struct fg_manifest *manifest)
{
    if (manifest != NULL)
        (void)atomic_fetch_add(&manifest->refs, 1);
    return manifest;
}

void fg_manifest_unref(struct fg_manifest *manifest)
{
    /* Sequentially consistent, so the last one sees all accesses of the others before it frees. */
    if (manifest == NULL || atomic_fetch_sub(&manifest->refs, 1) != 1)
        return;
    fg_arena_destroy(manifest->arena);
    free(manifest);
}
