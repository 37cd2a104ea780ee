/* Tests `flamegrid bucket repair`: damage to a block or segment loses the damaged service and
 * nothing else. The compactor makes the blocks, the test flips bits in them, and a plain list of
 * all profiles says which must remain. */
#include "common/base/str.h"
#include "common/runtime/log.h"
#include "common/storage/block/reader.h"
#include "deploy/cli/bucket_quarantine.h"
#include "deploy/cli/bucket_repair.h"
#include "deploy/cli/bucket_verify.h"
#include "tests/unit/compactor/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SERVICE = 1, ARENA_BYTES = 64 << 20 };

static void day_of(struct fg_limit_settings *limits)
{
    limits->retention_period_ns = 7 * PLAN_DAY_NS;
    limits->retention_period_rollups_ns = 100 * PLAN_DAY_NS;
}

/* ---- the manifests ---- */

static struct fg_manifest *manifest_of(struct world *world, uint32_t tenant)
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *manifest = NULL;
    struct fg_err err;

    world_must(cmp_env_read_manifest(&env, fg_cstr(made_tenant(tenant)), &manifest, &err), &err);
    return manifest;
}

static void name_of(const struct fg_blocks *blocks, uint32_t block, char name[FG_NAME_MAX_BYTES])
{
    struct fg_err err;

    world_must(fg_name_block(name, blocks->tenant, blocks->blocks[block].id, &err), &err);
}

/* Writes the name of acme's first block of a kind. */
static void find_block(struct world *world, bool derived, char name[FG_NAME_MAX_BYTES],
                       struct fg_blocks_entry *ret_entry)
{
    struct fg_manifest *manifest = manifest_of(world, 0);
    const struct fg_blocks *blocks = &manifest->blocks;
    uint32_t i = 0;

    while (i < blocks->n_blocks && blocks->blocks[i].derived != derived)
        i++;
    assert_true(i < blocks->n_blocks);
    name_of(blocks, i, name);
    *ret_entry = blocks->blocks[i];
    fg_manifest_unref(manifest);
}

static void find_segment(struct world *world, char name[FG_NAME_MAX_BYTES])
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *l0 = NULL;
    struct fg_err err;

    world_must(cmp_env_read_manifest(&env, FG_LIT(""), &l0, &err), &err);
    assert_int_equal(l0->l0.n_segments, 1);
    fg_name_segment(name, &l0->l0.segments[0].id);
    fg_manifest_unref(l0);
}

/* ---- damage ---- */

static struct fg_block_directory parse(struct fg_slice file, struct fg_arena *arena)
{
    struct fg_block_directory directory;
    uint64_t offset;
    struct fg_err err;

    world_must(fg_block_directory_offset(file, file.len, &offset, &err), &err);
    world_must(fg_block_directory_parse(fg_slice_sub(file, offset, SIZE_MAX), file.len, NULL, arena,
                                        &directory, &err),
               &err);
    return directory;
}

/* Flips a bit in the middle of a section of acme's part; service "": of its first one. */
static struct fg_block_part flip(struct world *world, const char *object, const char *service,
                                 enum fg_block_kind kind)
{
    static struct fg_arena *arena;
    struct fg_block_directory directory;
    const struct fg_block_section *section = NULL;
    struct fg_block_part part;
    struct fg_buf bytes;
    uint32_t number;

    fg_arena_destroy(arena); /* the answer of the last call */
    arena = fg_arena_create(ARENA_BYTES);
    world_get(world, object, &bytes);
    directory = parse(fg_buf_slice(&bytes), arena);
    number = fg_block_part_find(&directory, FG_LIT("acme"), fg_cstr(service));
    assert_true(number < directory.n_parts);
    part = directory.parts[number];
    assert_true(service[0] == '\0' || fg_slice_is(part.service, service));
    for (uint32_t i = 0; i < part.n_sections; i++)
        if (part.sections[i].kind == kind)
            section = &part.sections[i];
    fg_assert(section != NULL && section->range.len > 0);
    bytes.ptr[section->range.offset + section->range.len / 2] ^= 16;
    world_put(world, object, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
    return part;
}

static void flip_directory(struct world *world, const char *object)
{
    struct fg_buf bytes;

    world_get(world, object, &bytes);
    bytes.ptr[bytes.len - FG_BLOCK_TRAILER_BYTES - 10] ^= 16;
    world_put(world, object, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

/* ---- the command ---- */

static enum fg_code run(struct fg_bucket *bucket, const char *object, bool apply, const char *says,
                        struct fg_err *err)
{
    char *said;
    size_t len;
    FILE *out = open_memstream(&said, &len);
    enum fg_code code;

    assert_non_null(out);
    code = cli_bucket_repair(bucket, object, apply, out, err);
    (void)fclose(out);
    if (says != NULL && strstr(said, says) == NULL)
        fail_msg("%s (%s)", said, code == FG_OK ? "" : err->msg);
    free(said);
    return code;
}

static void expect_refused(struct world *world, const char *object, enum fg_code want,
                           const char *text)
{
    struct fg_err err = {.code = FG_OK};

    assert_int_equal(run(world->memory, object, true, NULL, &err), want);
    if (strstr(err.msg, text) == NULL)
        fail_msg("%s", err.msg);
}

/* Runs a dry run, which must write nothing, then the repair; afterwards no manifest refers to the
 * object. */
static void repair(struct world *world, const char *object, const char *says)
{
    size_t objects = world_shape_of(world).objects;
    struct fg_err err = {.code = FG_E_INTERNAL}; /* not set with FG_OK */

    world_must(run(world->memory, object, false, says, &err), &err);
    world_must(run(world->memory, object, false, "nothing was written", &err), &err);
    assert_int_equal(world_shape_of(world).objects, objects);
    world_must(run(world->memory, object, true, says, &err), &err);
    expect_refused(world, object, FG_E_PRECONDITION, "no manifest refers to");
}

/* Expects one record in acme's manifest, of the part. */
static void expect_lost(struct world *world, const char *object, const struct fg_block_part *part)
{
    struct fg_manifest *manifest = manifest_of(world, 0);
    const struct fg_blocks_lost *lost = manifest->blocks.lost;

    assert_int_equal(manifest->blocks.n_lost, 1);
    assert_true(fg_slice_is(lost->object, object));
    assert_true(fg_slice_eq(lost->service, part->service));
    assert_int_equal(lost->t_min_ns, part->t_min_ns);
    assert_int_equal(lost->t_max_ns, part->t_max_ns);
    assert_int_equal(lost->profiles, part->n_profiles);
    assert_true(lost->bytes > 0 && lost->why.len > 0);
    fg_manifest_unref(manifest);
}

static void expect_nothing_lost(struct world *world)
{
    for (uint32_t tenant = 0; tenant < MADE_TENANTS; tenant++) {
        struct fg_manifest *manifest = manifest_of(world, tenant);

        assert_int_equal(manifest->blocks.n_lost, 0);
        fg_manifest_unref(manifest);
    }
}

/* ---- what is expected ---- */

static int64_t lost_min_ns, lost_max_ns;

static bool is_left(const struct made_profile *profile)
{
    return profile->tenant != 0 || profile->service != SERVICE || profile->time_ns < lost_min_ns ||
           profile->time_ns > lost_max_ns;
}

static void keep_what_is_left(struct world *world, const struct fg_block_part *part)
{
    size_t before = world->n_profiles;

    lost_min_ns = part->t_min_ns;
    lost_max_ns = part->t_max_ns;
    world_keep(world, is_left);
    assert_int_equal(before - world->n_profiles, part->n_profiles);
}

/* Expects each remaining profile once, no fault from verify, and a compaction that continues. */
static void expect_all_is_well(struct world *world)
{
    world_check(world);
    world_verify(world, "ok: ");
    world_arrive(world, 30, world->clock.wall_ns, FG_HOUR_NS);
    world_pass_time(world, 2 * PLAN_DAY_NS);
    world_turn(world);
    world_verify(world, "ok: ");
}

static struct world *open_world(uint64_t seed)
{
    struct world *world = fg_new(struct world);

    world_open(world, seed);
    return world;
}

static void close_world(struct world *world)
{
    world_close(world);
    free(world);
}

/* Opens a world with half a day of profiles in hourly blocks, and a daily block once the day is
 * over. */
static struct world *open_compacted(uint64_t seed, int64_t pass_ns)
{
    struct world *world = open_world(seed);

    world_arrive(world, 200, WORLD_NOW, PLAN_DAY_NS / 2);
    world_pass_time(world, pass_ns);
    world_turn(world);
    return world;
}

/* Opens a world with a block for each of the last hours. */
static struct world *open_hours(uint64_t seed)
{
    struct world *world = open_world(seed);

    for (int hour = 0; hour < 13; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        world_arrive(world, 60, world->clock.wall_ns, FG_HOUR_NS);
        world_turn(world);
    }
    world_pass_time(world, 20 * FG_MINUTE_NS);
    world_turn(world);
    return world;
}

/* ---- tests ---- */

static void a_damaged_block_loses_one_service(void **state)
{
    static const enum fg_block_kind kinds[] = {FG_BLOCK_SMP, FG_BLOCK_PID, FG_BLOCK_IDX,
                                               FG_BLOCK_TRI, FG_BLOCK_SER, FG_BLOCK_PAG};

    (void)state;
    for (size_t k = 0; k < FG_COUNT(kinds); k++) {
        struct world *world = open_compacted(31 + k, 2 * PLAN_DAY_NS);
        char name[FG_NAME_MAX_BYTES];
        struct fg_blocks_entry block;
        struct fg_block_part part;

        find_block(world, false, name, &block);
        part = flip(world, name, made_service(SERVICE), kinds[k]);
        repair(world, name, "service search: lost, ");
        keep_what_is_left(world, &part);
        expect_lost(world, name, &part);
        expect_all_is_well(world);
        close_world(world);
    }
}

/* Quarantine removes the reference of each tenant, after which nothing refers to the segment. */
static void a_damaged_segment_loses_one_service(void **state)
{
    struct world *world = open_world(41);
    struct fg_block_part part;
    char name[FG_NAME_MAX_BYTES];
    struct fg_manifest *manifest = NULL;

    (void)state;
    world_arrive(world, 200, WORLD_NOW, PLAN_DAY_NS / 2);
    find_segment(world, name);
    part = flip(world, name, made_service(SERVICE), FG_BLOCK_IDX);
    repair(world, name, "tenant zoo, service search: intact, ");
    keep_what_is_left(world, &part);
    expect_lost(world, name, &part);
    manifest = manifest_of(world, 1);
    assert_int_equal(manifest->blocks.n_lost, 0);
    fg_manifest_unref(manifest);
    expect_all_is_well(world);
    close_world(world);
}

/* Repair leaves out profiles that a pending deletion names, and counts them as the compactor does.
 */
static void pending_deletions_are_carried_out(void **state)
{
    struct world *world = open_world(43);
    struct fg_block_part part;
    char name[FG_NAME_MAX_BYTES];
    size_t before;

    (void)state;
    world_arrive(world, 200, WORLD_NOW, PLAN_DAY_NS / 2);
    find_segment(world, name);
    world_bury(world, "{service_name=\"shop\"}", WORLD_NOW - FG_HOUR_NS, WORLD_NOW);
    part = flip(world, name, made_service(SERVICE), FG_BLOCK_IDX);
    repair(world, name, "service search: lost, ");
    keep_what_is_left(world, &part);
    before = world->n_profiles;
    world_keep(world, world_not_of_shop_that_hour);
    assert_in_range(before - world->n_profiles, 1, before);
    world_check(world);
    assert_int_equal(world_count_deletions(world).profiles, before - world->n_profiles);
    close_world(world);
}

static void repair_recomputes_derived_data(void **state)
{
    static const enum fg_block_kind kinds[] = {FG_BLOCK_GRP, FG_BLOCK_NOD};

    (void)state;
    for (size_t k = 0; k < FG_COUNT(kinds); k++) {
        struct world *world = open_compacted(51 + k, 2 * PLAN_DAY_NS);
        char name[FG_NAME_MAX_BYTES], new_name[FG_NAME_MAX_BYTES];
        struct fg_blocks_entry before, after;

        find_block(world, false, name, &before);
        (void)flip(world, name, made_service(SERVICE), kinds[k]);
        repair(world, name, "made again from them: ");
        expect_nothing_lost(world);
        find_block(world, false, new_name, &after);
        assert_int_equal(after.profiles, before.profiles);
        assert_true(fg_id_eq(after.digest, before.digest));
        assert_int_equal(after.bytes, before.bytes);
        expect_all_is_well(world);
        close_world(world);
    }
}

static void a_damaged_header_is_no_loss(void **state)
{
    struct world *world = open_compacted(55, 2 * PLAN_DAY_NS);
    struct fg_blocks_entry block;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf bytes;

    (void)state;
    find_block(world, false, name, &block);
    world_get(world, name, &bytes);
    bytes.ptr[5] ^= 1;
    world_put(world, name, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
    repair(world, name, "service search: intact, ");
    expect_nothing_lost(world);
    expect_all_is_well(world);
    close_world(world);
}

static void rollups_of_other_blocks_are_dropped(void **state)
{
    struct world *world = open_hours(57);
    struct fg_blocks_entry block;
    char name[FG_NAME_MAX_BYTES];

    (void)state;
    find_block(world, true, name, &block);
    assert_false(block.rollup_only);
    (void)flip(world, name, "", FG_BLOCK_NOD);
    repair(world, name, "rollups of other blocks");
    expect_nothing_lost(world);
    expect_all_is_well(world);
    close_world(world);
}

/* Rollup-only blocks have no profiles to recompute from: the damaged service is lost. */
static void damaged_rollup_only_blocks_lose_one_service(void **state)
{
    const int64_t week = 7 * PLAN_DAY_NS;
    struct world *world = open_world(61);
    struct fg_blocks_entry block, left;
    struct fg_block_part part;
    char name[FG_NAME_MAX_BYTES];

    (void)state;
    world_pass_time(world, WORLD_NOW + 2 * week - world->clock.wall_ns);
    world_pass_time(world, week - world->clock.wall_ns % week);
    world_pass_time(world, PLAN_DAY_NS);
    world_arrive(world, 100, world->clock.wall_ns - 1, PLAN_DAY_NS - 2);
    world_pass_time(world, 3 * PLAN_DAY_NS);
    world_turn(world);
    tenants_free(world->tenants, &world->limits);
    world->tenants = world->config.tenants =
        tenants_make(&world->limits, day_of, true, world->registry);
    world_restart(world);
    world_pass_time(world, 2 * week);
    world->n_profiles = 0;
    world_turn(world);
    find_block(world, true, name, &block);
    assert_true(block.rollup_only);
    part = flip(world, name, made_service(SERVICE), FG_BLOCK_CRN);
    repair(world, name, "service search: lost, ");
    expect_lost(world, name, &part);
    find_block(world, true, name, &left);
    assert_true(left.rollup_only && left.level == block.level && left.start_ns == block.start_ns);
    assert_int_equal(left.profiles, block.profiles - part.n_profiles);
    expect_all_is_well(world);
    close_world(world);
}

/* The hourly blocks of a day exist for a while after the merge and have all of its profiles. */
static void a_lost_directory_is_no_loss_while_the_sources_are_there(void **state)
{
    struct world *world = open_hours(71);
    struct fg_blocks_entry before, after;
    char name[FG_NAME_MAX_BYTES], source[FG_NAME_MAX_BYTES];
    struct fg_buf bytes;

    (void)state;
    world_pass_time(world, PLAN_DAY_NS);
    world_turn(world);
    find_block(world, false, name, &before);
    assert_int_equal(before.level, PLAN_DAY);
    flip_directory(world, name);
    repair(world, name, "objects it was made of, which are still there");
    expect_nothing_lost(world);
    find_block(world, false, source, &after);
    assert_true(fg_id_eq(after.digest, before.digest));
    assert_int_equal(after.level, PLAN_DAY);
    world_check(world);

    /* The source of this block is the damaged block. */
    flip_directory(world, source);
    expect_refused(world, source, FG_E_CORRUPT, "flamegrid bucket quarantine");
    world_get(world, name, &bytes);
    assert_true(bytes.len > 0);
    fg_buf_done(&bytes);
    close_world(world);
}

static void a_segment_without_a_directory_cannot_be_saved(void **state)
{
    struct world *world = open_world(73);
    char name[FG_NAME_MAX_BYTES];

    (void)state;
    world_arrive(world, 50, WORLD_NOW, FG_HOUR_NS);
    find_segment(world, name);
    flip_directory(world, name);
    expect_refused(world, name, FG_E_CORRUPT, "flamegrid bucket quarantine");
    close_world(world);
}

static bool is_of_one_service(const struct made_profile *profile)
{
    return profile->tenant == 0 && profile->service == SERVICE;
}

/* Quarantine removes the object, and its record names the service. */
static void an_object_with_one_damaged_part_cannot_be_saved(void **state)
{
    struct world *world = open_world(77);
    char name[FG_NAME_MAX_BYTES];
    struct fg_block_part part;
    struct fg_err err;
    FILE *out = fopen("/dev/null", "w");

    (void)state;
    for (int i = 0; i < 60; i++)
        world_draw_at(world, WORLD_NOW - i * FG_SECOND_NS);
    world_keep(world, is_of_one_service);
    world_arrive_last(world, world->n_profiles);
    find_segment(world, name);
    part = flip(world, name, made_service(SERVICE), FG_BLOCK_SMP);
    expect_refused(world, name, FG_E_CORRUPT, "flamegrid bucket quarantine");
    world_must(cli_bucket_quarantine(world->memory, name, true, out, &err), &err);
    (void)fclose(out);
    expect_lost(world, name, &part);
    close_world(world);
}

static void an_intact_object_is_refused(void **state)
{
    struct world *world = open_compacted(79, 2 * PLAN_DAY_NS);
    struct fg_blocks_entry block;
    char name[FG_NAME_MAX_BYTES];

    (void)state;
    find_block(world, false, name, &block);
    expect_refused(world, name, FG_E_PRECONDITION, "nothing is wrong with");
    expect_refused(world, "manifests/ring", FG_E_INVALID, "neither a segment nor a block");
    expect_refused(world, "tenants/acme/blocks/00000000000000010000000000000002", FG_E_PRECONDITION,
                   "no manifest refers to");
    world_put(world, "tenants/acme/manifest", FG_LIT("rubbish"));
    expect_refused(world, name, FG_E_PRECONDITION, "bucket rebuild tenant comes first");
    world_put(world, FG_NAME_L0, FG_LIT("rubbish"));
    expect_refused(world, name, FG_E_PRECONDITION, "bucket rebuild l0 comes first");
    close_world(world);
}

static bool has_orphans(struct world *world)
{
    char *said;
    size_t len;
    FILE *out = open_memstream(&said, &len);
    struct fg_err err;
    bool has;

    assert_non_null(out);
    world_must(cli_bucket_verify(world->memory, out, &err), &err);
    (void)fclose(out);
    has = strstr(said, "orphans: ") != NULL;
    free(said);
    return has;
}

/* A repair that ends at any request deletes nothing that is needed; garbage collection removes what
 * it leaves. */
static void a_repair_may_end_at_any_request(void **state)
{
    struct world *world = open_compacted(81, 2 * PLAN_DAY_NS);
    struct fg_blocks_entry block;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf whole;
    struct fg_err err;
    unsigned cut = 0;
    bool done = false;

    (void)state;
    find_block(world, false, name, &block);
    world_get(world, name, &whole);
    for (; !done; cut++) {
        (void)flip(world, name, made_service(SERVICE), FG_BLOCK_NOD);
        world->mortal.left = cut;
        done = run(&world->mortal.bucket, name, true, NULL, &err) == FG_OK;
        world->mortal.left = UINT64_MAX;
        world_put(world, name, fg_buf_slice(&whole));
        world_check(world);
    }
    assert_in_range(cut, 8, 100);
    assert_true(has_orphans(world)); /* blocks that no manifest refers to */
    fg_buf_done(&whole);
    for (int turn = 0; turn < 4; turn++) {
        world_pass_time(world, 2 * PLAN_DAY_NS);
        world_turn(world);
    }
    assert_false(has_orphans(world));
    close_world(world);
}

/* A bucket in which somebody else swaps the tenant's manifest first. */
struct race {
    struct fg_bucket bucket;
    struct world *world;
    bool lost;
};

static void race_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct race *race = fg_container(bucket, struct race, bucket);

    if (request->verb == FG_BUCKET_PUT && strcmp(request->name, "tenants/acme/manifest") == 0 &&
        !race->lost) {
        race->lost = true;
        world_bury(race->world, "{service_name=\"nobody\"}", 0, 1);
    }
    fg_bucket_send(race->world->memory, request);
}

static void race_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    fg_bucket_cancel(fg_container(bucket, struct race, bucket)->world->memory, request);
}

static void race_close(struct fg_bucket *bucket)
{
    (void)bucket;
}

static void a_manifest_that_changed_meanwhile_is_not_replaced(void **state)
{
    static const struct fg_bucket_ops ops = {race_send, race_cancel, race_close};
    struct world *world = open_compacted(83, 2 * PLAN_DAY_NS);
    struct race race = {.bucket = {.ops = &ops}, .world = world};
    struct fg_blocks_entry block, left;
    struct fg_block_part part;
    char name[FG_NAME_MAX_BYTES], same[FG_NAME_MAX_BYTES];
    struct fg_err err;

    (void)state;
    find_block(world, false, name, &block);
    part = flip(world, name, made_service(SERVICE), FG_BLOCK_SMP);
    assert_int_equal(run(&race.bucket, name, true, NULL, &err), FG_E_ABORTED);
    assert_true(race.lost);
    find_block(world, false, same, &left);
    assert_string_equal(same, name);
    expect_nothing_lost(world);
    world_must(run(&race.bucket, name, true, NULL, &err), &err);
    keep_what_is_left(world, &part);
    expect_lost(world, name, &part);
    world_check(world);
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_block_loses_one_service),
        cmocka_unit_test(a_damaged_segment_loses_one_service),
        cmocka_unit_test(pending_deletions_are_carried_out),
        cmocka_unit_test(repair_recomputes_derived_data),
        cmocka_unit_test(a_damaged_header_is_no_loss),
        cmocka_unit_test(rollups_of_other_blocks_are_dropped),
        cmocka_unit_test(damaged_rollup_only_blocks_lose_one_service),
        cmocka_unit_test(a_lost_directory_is_no_loss_while_the_sources_are_there),
        cmocka_unit_test(a_segment_without_a_directory_cannot_be_saved),
        cmocka_unit_test(an_object_with_one_damaged_part_cannot_be_saved),
        cmocka_unit_test(an_intact_object_is_refused),
        cmocka_unit_test(a_repair_may_end_at_any_request),
        cmocka_unit_test(a_manifest_that_changed_meanwhile_is_not_replaced),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
