#include "common/cluster/ring/view.h"

#include <stdatomic.h>
#include <stdlib.h>

/* A revision never changes, so its table of 65,536 shards is built once and shared by all views
 * that have the revision. */
static struct fg_ring_table *known_table(const struct fg_ring_view *before, uint64_t revision)
{
    for (uint32_t i = 0; before != NULL && i < before->ring.n_revisions; i++)
        if (before->tables[i]->revision == revision)
            return before->tables[i];
    return NULL;
}

enum fg_code fg_ring_view_create(struct fg_slice bytes, struct fg_slice etag,
                                 const struct fg_ring_view *before, struct fg_ring_view **ret_view,
                                 struct fg_err *err)
{
    fg_auto(fg_ring_view) *view = fg_new(struct fg_ring_view);

    atomic_init(&view->refs, 1);
    view->arena = fg_arena_create(FG_RING_ARENA_BYTES);
    view->etag = fg_arena_copy(view->arena, etag);
    /* Without an etag there is no ring yet: the view is of an empty one. */
    if (etag.len > 0 && fg_ring_decode(bytes, view->arena, &view->ring, err) != FG_OK)
        return err->code;
    /* 65,536 shards for each new revision; views that only change members or shard factors cost
     * nothing here. */
    for (uint32_t i = 0; i < view->ring.n_revisions; i++) {
        const struct fg_ring_revision *revision = &view->ring.revisions[i];
        struct fg_ring_table *known = known_table(before, revision->number);

        view->tables[i] =
            known != NULL ? fg_ring_table_ref(known) : fg_ring_table_create(&view->ring, revision);
    }
    *ret_view = fg_take(view);
    return FG_OK;
}

struct fg_ring_view *fg_ring_view_ref(struct fg_ring_view *view)
{
    if (view != NULL)
        (void)atomic_fetch_add(&view->refs, 1);
    return view;
}

void fg_ring_view_unref(struct fg_ring_view *view)
{
    if (view == NULL || atomic_fetch_sub(&view->refs, 1) != 1)
        return;
    for (uint32_t i = 0; i < view->ring.n_revisions; i++)
        fg_ring_table_unref(view->tables[i]);
    fg_arena_destroy(view->arena);
    free(view);
}

/* Writes go by the newest revision alone; older ones are only read (ring-history). */
unsigned fg_ring_view_owners(const struct fg_ring_view *view, uint16_t shard,
                             const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX])
{
    uint32_t newest = view->ring.n_revisions - 1;

    if (view->ring.n_revisions == 0)
        return 0;
    fg_assert(view->tables[newest]->n_owners <= FG_RING_REPLICAS_MAX);
    for (unsigned i = 0; i < view->tables[newest]->n_owners; i++)
        owners[i] = &view->ring.members[fg_ring_view_owner(view, newest, shard, i)];
    return view->tables[newest]->n_owners;
}

unsigned fg_ring_view_writes(const struct fg_ring_view *view)
{
    return view->ring.n_revisions == 0
               ? 0
               : fg_ring_writes(view->ring.revisions[view->ring.n_revisions - 1].replicas);
}

void fg_ring_view_count(const struct fg_ring_view *view, uint32_t *counts)
{
    uint32_t newest = view->ring.n_revisions - 1;

    memset(counts, 0, view->ring.n_members * sizeof *counts);
    if (view->ring.n_revisions == 0)
        return;
    for (uint32_t shard = 0; shard < FG_RING_SHARDS; shard++)
        for (unsigned i = 0; i < view->tables[newest]->n_owners; i++)
            counts[fg_ring_view_owner(view, newest, (uint16_t)shard, i)]++;
}
