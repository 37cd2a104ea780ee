#include "common/storage/rollup/reader.h"
#include "deploy/cli/bucket_verify.h"
#include "tests/unit/compactor/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- profiles ---- */

static void read_object(struct world *world, const char *name, uint32_t tenant,
                        struct made_found *found)
{
    struct fg_buf object;

    world_get(world, name, &object);
    made_read(fg_buf_slice(&object), world->memory->keys, made_tenant(tenant), found);
    fg_buf_done(&object);
}

static void read_block(struct world *world, const struct fg_blocks_entry *block, uint32_t tenant,
                       struct made_found *found)
{
    struct fg_id digest = {0, 0};
    size_t before = found->n;
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    world_must(fg_name_block(name, fg_cstr(made_tenant(tenant)), block->id, &err), &err);
    read_object(world, name, tenant, found);
    for (size_t i = before; i < found->n; i++)
        digest = fg_id_add(digest, found->ids[i]);
    assert_int_equal(found->n - before, block->profiles);
    assert_true(fg_id_eq(digest, block->digest));
}

/* What a block has of a service. */
static uint64_t profiles_in(struct world *world, const struct fg_blocks *blocks, struct fg_id id,
                            struct fg_slice service)
{
    const struct fg_blocks_entry *block = fg_blocks_find(blocks, id);
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_block_directory directory;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf object;
    uint64_t profiles;
    struct fg_err err;
    uint32_t part;

    assert_non_null(block);
    world_must(fg_name_block(name, blocks->tenant, id, &err), &err);
    world_get(world, name, &object);
    world_must(fg_block_directory_parse(
                   fg_slice_sub(fg_buf_slice(&object), block->directory_offset, SIZE_MAX),
                   object.len, world->memory->keys, arena, &directory, &err),
               &err);
    part = fg_block_part_find(&directory, blocks->tenant, service);
    assert_true(part < directory.n_parts && fg_slice_eq(directory.parts[part].service, service));
    profiles = directory.parts[part].n_profiles;
    fg_buf_done(&object);
    fg_arena_destroy(arena);
    return profiles;
}

/* Its parts sum up what the blocks it is made of have of a service. */
static void look_at_nodes(struct world *world, const struct fg_blocks *blocks,
                          const struct fg_blocks_entry *entry)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_block_directory directory;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf object;
    struct fg_err err;

    world_must(fg_name_block(name, blocks->tenant, entry->id, &err), &err);
    world_get(world, name, &object);
    world_must(fg_block_directory_parse(
                   fg_slice_sub(fg_buf_slice(&object), entry->directory_offset, SIZE_MAX),
                   object.len, world->memory->keys, arena, &directory, &err),
               &err);
    assert_int_equal(entry->profiles, directory.n_profiles);
    assert_int_equal(entry->rollup_offset, directory.rollup_offset);
    for (uint32_t p = 0; p < directory.n_parts; p++) {
        const struct fg_block_part *part = &directory.parts[p];
        struct fg_block_range nod = fg_rollup_ranges(part).nod;
        uint64_t profiles = 0;
        struct fg_rollups nodes;

        world_must(fg_rollups_parse(part, fg_slice_sub(fg_buf_slice(&object), nod.offset, nod.len),
                                    arena, &nodes, &err),
                   &err);
        for (uint32_t i = 0; i < nodes.n_derived_from; i++)
            profiles += profiles_in(world, blocks, nodes.derived_from[i], part->service);
        assert_int_equal(profiles, part->n_profiles);
        world->n_nodes_parts++;
    }
    fg_buf_done(&object);
    fg_arena_destroy(arena);
}

static void find_all(struct world *world, uint32_t tenant, struct made_found *found)
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *l0 = NULL, *blocks = NULL;
    uint32_t number;
    struct fg_err err;

    world_must(cmp_env_read_manifest(&env, FG_LIT(""), &l0, &err), &err);
    world_must(cmp_env_read_manifest(&env, fg_cstr(made_tenant(tenant)), &blocks, &err), &err);
    number = fg_l0_tenant(&l0->l0, fg_cstr(made_tenant(tenant)));
    for (uint32_t i = 0; i < l0->l0.n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->l0.segments[i];
        char name[FG_NAME_MAX_BYTES];

        if (fg_l0_part(segment, number) == NULL ||
            fg_blocks_covers(&blocks->blocks, segment->generation))
            continue;
        fg_name_segment(name, &segment->id);
        read_object(world, name, tenant, found);
        fg_usage_add(&world->usage, &fg_l0_part(segment, number)->usage);
    }
    for (uint32_t i = 0; i < blocks->blocks.n_blocks; i++) {
        if (!blocks->blocks.blocks[i].derived)
            fg_usage_add(&world->usage, &blocks->blocks.blocks[i].usage);
        if (blocks->blocks.blocks[i].rollup_only)
            fg_usage_add(&world->alone_usage, &blocks->blocks.blocks[i].usage);
        if (blocks->blocks.blocks[i].rollup_only)
            world->n_alone += blocks->blocks.blocks[i].profiles;
        else if (blocks->blocks.blocks[i].derived)
            look_at_nodes(world, &blocks->blocks, &blocks->blocks.blocks[i]);
        else
            read_block(world, &blocks->blocks.blocks[i], tenant, found);
    }
    fg_manifest_unref(l0);
    fg_manifest_unref(blocks);
}

struct fg_usage world_usage(const struct world *world)
{
    struct fg_usage usage = {0};

    for (size_t i = 0; i < world->n_profiles; i++)
        fg_usage_count(&usage, made_size(&world->profiles[i]), world->profiles[i].n_samples);
    return usage;
}

void world_check(struct world *world)
{
    struct fg_usage wanted = world_usage(world);

    world->usage = (struct fg_usage){0};
    for (uint32_t t = 0; t < MADE_TENANTS; t++) {
        struct made_found found = {0};

        find_all(world, t, &found);
        made_expect(&found, world->profiles, world->n_profiles, t);
        made_found_done(&found);
    }
    assert_true(fg_usage_eq(&world->usage, &wanted)); /* a bill is of what is there */
}

/* ---- the rest ---- */

static bool count_object(const struct fg_bucket_entry *entry, void *arg)
{
    *(size_t *)arg += !fg_slice_starts(fg_cstr(entry->name), "usage/");
    return true;
}

struct world_shape world_shape_of(struct world *world)
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *l0 = NULL;
    struct world_shape shape = {0};
    struct fg_err err;

    world_must(cmp_env_read_manifest(&env, FG_LIT(""), &l0, &err), &err);
    shape.segments = l0->l0.n_segments;
    shape.gone = l0->l0.n_gone;
    for (uint32_t t = 0; t < MADE_TENANTS; t++) {
        struct fg_manifest *blocks = NULL;

        world_must(cmp_env_read_manifest(&env, fg_cstr(made_tenant(t)), &blocks, &err), &err);
        for (uint32_t i = 0; i < blocks->blocks.n_blocks; i++) {
            shape.hours += blocks->blocks.blocks[i].level == PLAN_HOUR;
            shape.days += blocks->blocks.blocks[i].level == PLAN_DAY;
            shape.nodes += blocks->blocks.blocks[i].derived;
        }
        shape.gone += blocks->blocks.n_gone;
        fg_manifest_unref(blocks);
    }
    world_must(fg_bucket_each(world->memory, "", false, 0, count_object, &shape.objects, &err),
               &err);
    fg_manifest_unref(l0);
    return shape;
}

struct world_deletions world_count_deletions(struct world *world)
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *blocks = NULL;
    struct world_deletions counted = {0};
    struct fg_err err;

    world_must(cmp_env_read_manifest(&env, FG_LIT("acme"), &blocks, &err), &err);
    counted.pending = blocks->blocks.n_tombstones;
    counted.ended = blocks->blocks.n_ended;
    for (uint32_t i = 0; i < counted.pending; i++)
        counted.profiles += blocks->blocks.tombstones[i].profiles;
    for (uint32_t i = 0; i < counted.ended; i++) {
        assert_true(blocks->blocks.ended[i].ended_wall_ns > 0);
        counted.profiles += blocks->blocks.ended[i].profiles;
    }
    fg_manifest_unref(blocks);
    return counted;
}

void world_expect_status(struct world *world, const char *has)
{
    struct fg_buf status;

    fg_buf_init(&status, SIZE_MAX);
    cmp_compaction_status(world->compaction, &status);
    if (fg_slice_search(fg_buf_slice(&status), has) == SIZE_MAX)
        fail_msg("no %s in %.*s", has, FG_S(fg_buf_slice(&status)));
    fg_buf_done(&status);
}

void world_verify(struct world *world, const char *says)
{
    char *said;
    size_t len;
    FILE *out = open_memstream(&said, &len);
    struct fg_err err;

    assert_non_null(out);
    world_must(cli_bucket_verify(world->memory, out, &err), &err);
    (void)fclose(out);
    if (strstr(said, says) == NULL)
        fail_msg("%s", said);
    free(said);
}
