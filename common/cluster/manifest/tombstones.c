/* Deletions in a tenant's manifest: asked for, read, carried out; and that of a whole tenant. */
#include "common/cluster/manifest/blocks.h"

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the manifest of the tenant is too large to change");
}

static const struct fg_blocks_tombstone *find(const struct fg_blocks *blocks, struct fg_id id)
{
    for (uint32_t i = 0; i < blocks->n_tombstones; i++)
        if (fg_id_eq(blocks->tombstones[i].id, id))
            return &blocks->tombstones[i];
    return NULL;
}

const struct fg_blocks_tombstone *fg_blocks_tombstone(const struct fg_blocks *blocks,
                                                      struct fg_id id)
{
    for (uint32_t i = 0; i < blocks->n_ended; i++)
        if (fg_id_eq(blocks->ended[i].id, id))
            return &blocks->ended[i];
    return find(blocks, id);
}

/* ---- as deletions ---- */

static enum fg_code add_deletion(struct fg_deletions *deletions,
                                 const struct fg_blocks_tombstone *tombstone,
                                 struct fg_arena *arena, struct fg_err *err)
{
    struct fg_deletion deletion = {.start_ns = tombstone->start_ns};
    enum fg_code code;

    if (tombstone->end_ns <= tombstone->start_ns)
        return fg_fail(err, FG_E_INVALID, "the deletion has an empty time range");
    /* The end is exclusive, except for the end of time. */
    deletion.end_ns = tombstone->end_ns == INT64_MAX ? INT64_MAX : tombstone->end_ns - 1;
    code = fg_selector_parse(tombstone->selector, arena, &deletion.selector, err);
    if (code == FG_OK)
        code = fg_deletions_add(deletions, &deletion, arena, err);
    if (code != FG_OK)
        fg_selector_done(&deletion.selector);
    return code;
}

enum fg_code fg_blocks_deletions(const struct fg_blocks *blocks, struct fg_arena *arena,
                                 struct fg_deletions *ret_deletions, struct fg_err *err)
{
    struct fg_deletions deletions = {0};

    for (uint32_t i = 0; i < blocks->n_tombstones; i++) {
        const struct fg_blocks_tombstone *tombstone = &blocks->tombstones[i];

        if (add_deletion(&deletions, tombstone, arena, err) == FG_OK)
            continue;
        if (err->code == FG_E_INVALID)
            err->code = FG_E_CORRUPT; /* it was looked at before it was written */
        fg_deletions_done(&deletions);
        return fg_wrap(err, "tenant %.*s: deletion %.*s", FG_S(blocks->tenant),
                       FG_S(fg_slice_sub(tombstone->selector, 0, FG_ERR_MSG_MAX_BYTES / 4)));
    }
    *ret_deletions = deletions;
    return FG_OK;
}

/* ---- asked for ---- */

static enum fg_code check_room(const struct fg_blocks *blocks,
                               const struct fg_blocks_tombstone *tombstone, struct fg_err *err)
{
    size_t bytes = tombstone->selector.len;

    if (blocks->n_tombstones == FG_BLOCKS_TOMBSTONES_MAX)
        return fg_fail(err, FG_E_LIMIT,
                       "%u deletions are pending: they complete some hours after their request, "
                       "once all ingesters are up",
                       blocks->n_tombstones);
    for (uint32_t i = 0; i < blocks->n_tombstones; i++)
        bytes += blocks->tombstones[i].selector.len;
    if (tombstone->selector.len > FG_BLOCKS_SELECTOR_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "deletion by a selector of %zu bytes",
                       tombstone->selector.len);
    if (bytes > FG_DELETIONS_MAX_BYTES)
        return fg_fail(err, FG_E_LIMIT, "the selectors of pending deletions would need %zu bytes",
                       bytes);
    return FG_OK;
}

/* Parses all deletions together with the new one, as each reader of the manifest does: a
 * deletion that readers cannot hold would make every query fail. */
static enum fg_code check_all(const struct fg_blocks *blocks,
                              const struct fg_blocks_tombstone *tombstone, struct fg_arena *arena,
                              struct fg_err *err)
{
    struct fg_deletions deletions;
    enum fg_code code;

    if (fg_blocks_deletions(blocks, arena, &deletions, err) != FG_OK)
        return err->code;
    code = add_deletion(&deletions, tombstone, arena, err);
    fg_deletions_done(&deletions);
    return code;
}

enum fg_code fg_blocks_bury(const struct fg_blocks *blocks,
                            const struct fg_blocks_tombstone *tombstone, struct fg_arena *arena,
                            struct fg_blocks *ret_blocks, bool *ret_changed, struct fg_err *err)
{
    struct fg_blocks next = *blocks;
    uint32_t at = 0;

    /* The request was carried out, and its answer was lost: the retry succeeds without a change. */
    if (fg_blocks_tombstone(blocks, tombstone->id) != NULL) {
        *ret_changed = false;
        *ret_blocks = next;
        return FG_OK;
    }
    if (check_room(blocks, tombstone, err) != FG_OK ||
        check_all(blocks, tombstone, arena, err) != FG_OK)
        return err->code;
    next.tombstones =
        fg_arena_new(arena, struct fg_blocks_tombstone, (size_t)blocks->n_tombstones + 1);
    if (next.tombstones == NULL)
        return no_memory(err);
    for (; at < blocks->n_tombstones && fg_id_cmp(blocks->tombstones[at].id, tombstone->id) < 0;)
        at++;
    if (at > 0)
        memcpy(next.tombstones, blocks->tombstones, at * sizeof *next.tombstones);
    next.tombstones[at] = *tombstone;
    if (at < blocks->n_tombstones)
        memcpy(next.tombstones + at + 1, blocks->tombstones + at,
               (blocks->n_tombstones - at) * sizeof *next.tombstones);
    next.n_tombstones++;
    next.revision++;
    *ret_changed = true;
    *ret_blocks = next;
    return FG_OK;
}

enum fg_code fg_blocks_bury_all(const struct fg_blocks *blocks,
                                const struct fg_blocks_tombstone *tombstone, struct fg_arena *arena,
                                struct fg_blocks *ret_blocks, bool *ret_changed, struct fg_err *err)
{
    struct fg_blocks next = *blocks;

    *ret_changed = fg_blocks_tombstone(blocks, tombstone->id) == NULL;
    if (*ret_changed) {
        next.tombstones = fg_arena_new(arena, struct fg_blocks_tombstone, 1);
        if (next.tombstones == NULL)
            return no_memory(err);
        next.tombstones[0] = *tombstone;
        next.n_tombstones = 1;
        next.revision++;
    }
    *ret_blocks = next;
    return FG_OK;
}

/* ---- carried out ---- */

bool fg_blocks_count_taken(struct fg_blocks *next, const struct fg_blocks_taken *taken, uint32_t n,
                           struct fg_arena *arena)
{
    struct fg_blocks_tombstone *tombstones;

    if (n == 0)
        return true;
    tombstones = fg_arena_new(arena, struct fg_blocks_tombstone, next->n_tombstones);
    if (tombstones == NULL)
        return false;
    for (uint32_t i = 0; i < next->n_tombstones; i++) {
        tombstones[i] = next->tombstones[i];
        for (uint32_t k = 0; k < n; k++)
            if (fg_id_eq(taken[k].tombstone, tombstones[i].id)) {
                tombstones[i].profiles += taken[k].profiles;
                tombstones[i].rewrites++;
            }
    }
    next->tombstones = tombstones;
    return true;
}

enum fg_code fg_blocks_wait(const struct fg_blocks *blocks, const struct fg_blocks_await *awaits,
                            uint32_t n, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                            bool *ret_changed, struct fg_err *err)
{
    struct fg_blocks next = *blocks;

    next.tombstones = fg_arena_new(arena, struct fg_blocks_tombstone, blocks->n_tombstones);
    if (next.tombstones == NULL)
        return no_memory(err);
    *ret_changed = false;
    for (uint32_t i = 0; i < blocks->n_tombstones; i++) {
        struct fg_blocks_tombstone *tombstone = &next.tombstones[i];

        *tombstone = blocks->tombstones[i];
        for (uint32_t k = 0; k < n; k++) {
            /* `before` differs if another compactor has moved this deletion on: its step counts. */
            if (!fg_id_eq(awaits[k].tombstone, tombstone->id) ||
                awaits[k].before != blocks->tombstones[i].awaits)
                continue;
            tombstone->awaits = awaits[k].awaits;
            tombstone->awaits_profiles = awaits[k].awaits_profiles;
            tombstone->quiet = awaits[k].quiet;
            *ret_changed = true;
        }
    }
    if (*ret_changed)
        next.revision++;
    *ret_blocks = *ret_changed ? next : *blocks;
    return FG_OK;
}

/* Adds a completed deletion; the oldest one leaves if there are FG_BLOCKS_ENDED_MAX. */
static bool add_ended(struct fg_blocks *next, const struct fg_blocks_tombstone *tombstone,
                      int64_t wall_ns, struct fg_arena *arena)
{
    struct fg_blocks_tombstone *ended =
        fg_arena_new(arena, struct fg_blocks_tombstone, (size_t)next->n_ended + 1);
    /* In order of completion, so the first is the oldest. */
    uint32_t skip = next->n_ended == FG_BLOCKS_ENDED_MAX ? 1 : 0;
    uint32_t n = next->n_ended - skip;

    if (ended == NULL)
        return false;
    if (n > 0)
        memcpy(ended, next->ended + skip, n * sizeof *ended);
    ended[n] = *tombstone;

    /* Shortens the selector between two UTF-8 characters. */
    struct fg_slice selector = tombstone->selector;
    size_t len = FG_MIN(selector.len, (size_t)FG_BLOCKS_ENDED_SELECTOR_MAX_BYTES);

    while (len > 0 && len < selector.len && (selector.ptr[len] & 0xc0) == 0x80)
        len--;
    ended[n].selector = fg_slice_sub(selector, 0, len);
    ended[n].ended_wall_ns = wall_ns;
    next->ended = ended;
    next->n_ended = n + 1;
    return true;
}

enum fg_code fg_blocks_unbury(const struct fg_blocks *blocks, struct fg_id tombstone,
                              int64_t wall_ns, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                              bool *ret_changed, struct fg_err *err)
{
    const struct fg_blocks_tombstone *found = find(blocks, tombstone);
    struct fg_blocks next = *blocks;

    if (found == NULL) {
        *ret_changed = false;
        *ret_blocks = next;
        return FG_OK;
    }
    next.tombstones = fg_arena_new(arena, struct fg_blocks_tombstone, blocks->n_tombstones);
    next.n_tombstones = 0;
    if (next.tombstones == NULL || !add_ended(&next, found, wall_ns, arena))
        return no_memory(err);
    for (uint32_t i = 0; i < blocks->n_tombstones; i++)
        if (&blocks->tombstones[i] != found)
            next.tombstones[next.n_tombstones++] = blocks->tombstones[i];
    next.revision++;
    *ret_changed = true;
    *ret_blocks = next;
    return FG_OK;
}

/* ---- the deletion of a whole tenant ---- */

bool fg_blocks_is_clear(const struct fg_blocks *blocks, struct fg_id kept)
{
    const struct fg_ledger *ledger = &blocks->ledger;

    for (uint32_t i = 0; i < blocks->n_ended; i++)
        if (!fg_id_eq(blocks->ended[i].id, kept))
            return false;
    return blocks->n_lost == 0 && ledger->stored_wall_ns == 0 && ledger->version == 0 &&
           ledger->n_open == 0 && ledger->n_frozen == 0;
}

enum fg_code fg_blocks_clear(const struct fg_blocks *blocks, struct fg_id kept,
                             struct fg_arena *arena, struct fg_blocks *ret_blocks,
                             bool *ret_changed, struct fg_err *err)
{
    struct fg_blocks next = *blocks;

    *ret_changed = !fg_blocks_is_clear(blocks, kept);
    *ret_blocks = next;
    if (!*ret_changed)
        return FG_OK;
    if (blocks->n_blocks + blocks->n_gone + blocks->n_tombstones > 0)
        return fg_fail(err, FG_E_ABORTED, "the tenant still has data");
    next.ended = fg_arena_new(arena, struct fg_blocks_tombstone, blocks->n_ended);
    if (next.ended == NULL)
        return no_memory(err);
    next.n_ended = 0;
    for (uint32_t i = 0; i < blocks->n_ended; i++)
        if (fg_id_eq(blocks->ended[i].id, kept))
            next.ended[next.n_ended++] = blocks->ended[i];
    next.n_lost = 0;
    next.ledger = (struct fg_ledger){0};
    next.revision++;
    *ret_blocks = next;
    return FG_OK;
}
