/* Changes of a manifest's ledger (ledger.h). */
#include "common/cluster/manifest/blocks.h"

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the ledger of the tenant is too large to change");
}

uint64_t fg_blocks_stored_bytes(const struct fg_blocks *blocks)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        bytes = fg_usage_sum(bytes, blocks->blocks[i].bytes);
    return bytes;
}

/* Takes the ledger of `before` to now: what was stored, and `writes` objects. */
static bool advance(struct fg_ledger *ret_ledger, const struct fg_blocks *before, uint64_t writes,
                    int64_t wall_ns, struct fg_arena *arena)
{
    struct fg_usage_day *today;

    if (!fg_ledger_copy(ret_ledger, &before->ledger, arena) ||
        !fg_ledger_store(ret_ledger, fg_blocks_stored_bytes(before), wall_ns, arena))
        return false;
    today = fg_ledger_open(ret_ledger, fg_usage_day_of(wall_ns), arena);
    if (today == NULL)
        return false;
    today->writes = fg_usage_sum(today->writes, writes);
    return true;
}

bool fg_blocks_count_used(struct fg_blocks *next, const struct fg_blocks *before,
                          const struct fg_blocks_change *change, int64_t wall_ns,
                          struct fg_arena *arena)
{
    return advance(&next->ledger, before, (uint64_t)change->n_add + 1, wall_ns, arena) &&
           fg_ledger_add(&next->ledger, change->used, change->n_used, arena);
}

enum fg_code fg_blocks_freeze(const struct fg_blocks *blocks, const struct fg_blocks_freeze *freeze,
                              int64_t wall_ns, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                              bool *ret_changed, struct fg_err *err)
{
    struct fg_blocks next = *blocks;

    *ret_changed = false;
    *ret_blocks = next;
    if (blocks->ledger.version == freeze->version)
        return FG_OK;
    if (blocks->ledger.version != freeze->before || blocks->ledger.n_frozen > 0)
        return fg_fail(err, FG_E_ABORTED, "another compactor has frozen the ledger");
    next.revision++;
    if (!advance(&next.ledger, blocks, 1, wall_ns, arena) ||
        !fg_ledger_add(&next.ledger, freeze->more, freeze->n_more, arena) ||
        !fg_ledger_freeze(&next.ledger, freeze->last, freeze->version, arena))
        return no_memory(err);
    *ret_changed = true;
    *ret_blocks = next;
    return FG_OK;
}

enum fg_code fg_blocks_drop_frozen(const struct fg_blocks *blocks, uint64_t version,
                                   int64_t wall_ns, struct fg_arena *arena,
                                   struct fg_blocks *ret_blocks, bool *ret_changed,
                                   struct fg_err *err)
{
    struct fg_blocks next = *blocks;

    *ret_changed = false;
    *ret_blocks = next;
    if (blocks->ledger.version != version || blocks->ledger.n_frozen == 0)
        return FG_OK;
    next.revision++;
    /* The documents count as written with the swap that says that they are there. */
    if (!advance(&next.ledger, blocks, (uint64_t)blocks->ledger.n_frozen + 1, wall_ns, arena))
        return no_memory(err);
    next.ledger.frozen = NULL;
    next.ledger.n_frozen = 0;
    *ret_changed = true;
    *ret_blocks = next;
    return FG_OK;
}
