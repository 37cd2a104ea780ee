#include "deploy/cli/verify_parents.h"

struct cli_held {
    struct fg_id block;
    struct fg_buf service;
    uint64_t profiles;
    struct fg_id digest;
};

void cli_parents_done(struct cli_parents *parents)
{
    for (size_t i = 0; i < parents->n_held; i++)
        fg_buf_done(&parents->held[i].service);
    free(parents->held);
    free(parents->broken);
}

void cli_parents_hold(struct cli_parents *parents, struct fg_id block,
                      const struct fg_block_part *part)
{
    struct cli_held *held;

    if (parents->n_held == parents->cap_held) {
        parents->cap_held = FG_MAX(parents->cap_held * 2, 64);
        parents->held = fg_realloc(parents->held, parents->cap_held * sizeof *parents->held);
    }
    held = &parents->held[parents->n_held++];
    fg_assert(parents->n_held <= parents->cap_held);
    *held = (struct cli_held){.block = block, .profiles = part->n_profiles, .digest = part->digest};
    /* A copy: the directory is freed with its object. */
    fg_buf_init(&held->service, SIZE_MAX);
    fg_buf_put(&held->service, part->service);
}

void cli_parents_break(struct cli_parents *parents, struct fg_id block)
{
    parents->broken =
        fg_realloc(parents->broken, (parents->n_broken + 1) * sizeof *parents->broken);
    parents->broken[parents->n_broken++] = block;
}

/* Linear: only parent rollups ask, once for each block that they were made of. */
static const struct cli_held *find_held(const struct cli_parents *parents, struct fg_id block,
                                        struct fg_slice service)
{
    for (size_t i = 0; i < parents->n_held; i++)
        if (fg_id_eq(parents->held[i].block, block) &&
            fg_slice_eq(fg_buf_slice(&parents->held[i].service), service))
            return &parents->held[i];
    return NULL;
}

static bool is_made_of(const struct fg_blocks_entry *parent, struct fg_id id)
{
    for (uint32_t i = 0; i < parent->n_from_blocks; i++)
        if (fg_id_eq(parent->from_blocks[i], id))
            return true;
    return false;
}

static bool is_broken(const struct cli_parents *parents, struct fg_id block)
{
    for (size_t i = 0; i < parents->n_broken; i++)
        if (fg_id_eq(parents->broken[i], block))
            return true;
    return false;
}

enum fg_code cli_parents_check(const struct cli_parents *parents,
                               const struct fg_blocks_entry *parent,
                               const struct fg_block_part *part, struct fg_slice nod,
                               size_t memory_max_bytes, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(memory_max_bytes);
    struct fg_rollups rollups = {0};
    struct fg_id digest = {0, 0};
    uint64_t profiles = 0;

    if (fg_rollups_parse(part, nod, arena, &rollups, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < rollups.n_derived_from; i++) {
        const struct cli_held *held = find_held(parents, rollups.derived_from[i], part->service);

        if (is_broken(parents, rollups.derived_from[i])) /* its fault was reported */
            return FG_OK;
        if (held == NULL || !is_made_of(parent, rollups.derived_from[i]))
            return fg_fail(err, FG_E_CORRUPT, "part %.*s is made of a block that is not there",
                           FG_S(part->service));
        profiles += held->profiles;
        digest = fg_id_add(digest, held->digest);
    }
    if (profiles != part->n_profiles || !fg_id_eq(digest, part->digest))
        return fg_fail(
            err, FG_E_CORRUPT,
            "part %.*s sums up %u profiles, the blocks it is made of have %llu, or others",
            FG_S(part->service), part->n_profiles, (unsigned long long)profiles);
    return FG_OK;
}
