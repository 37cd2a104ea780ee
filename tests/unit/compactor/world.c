#include "tests/unit/compactor/world.h"

#include "compactor/deletion.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/l0_make.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECT_MAX_BYTES = 64 * 1024 * 1024 };

static const struct cmp_local_store own_store = {{5, 5}, true}; /* the writer of all segments */

void world_must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

/* ---- a bucket that dies ---- */

static void mortal_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct world_mortal *mortal = fg_container(bucket, struct world_mortal, bucket);

    mortal->seen++;
    if (request->verb == FG_BUCKET_CLEAN_UP) {
        assert_int_equal(request->older_than_ns, 24 * FG_HOUR_NS);
        mortal->tidied++;
    }
    if (mortal->left > 0) {
        mortal->left--;
        fg_bucket_send(mortal->inner, request);
        return;
    }
    request->code = fg_fail(&request->err, FG_E_UNAVAILABLE, "the bucket is dead");
    request->done(request);
}

static void mortal_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    (void)bucket;
    (void)request; /* all is done within send */
}

static void mortal_close(struct fg_bucket *bucket)
{
    (void)bucket;
}

static const struct fg_bucket_ops mortal_ops = {mortal_send, mortal_cancel, mortal_close};

/* ---- the world ---- */

static void no_pause(void *arg, int64_t ns)
{
    struct world *world = arg;

    fg_clock_manual_advance(&world->clock, ns);
}

static void start(struct world *world)
{
    struct fg_err err;

    world_must(cmp_compaction_create(&world->config, NULL, &world->compaction, &err), &err);
}

void world_restart(struct world *world)
{
    cmp_compaction_destroy(world->compaction);
    start(world);
}

void world_open(struct world *world, uint64_t seed)
{
    struct fg_conf_section section = {"compactor", cmp_fields, cmp_n_fields, &world->settings};
    struct fg_err err;

    *world = (struct world){.seed = seed};
    world->memory = fg_bucket_memory();
    l0_make(world->memory);
    world->faulty =
        fg_bucket_faulty_create(world->memory, &(struct fg_bucket_faults){.seed = seed});
    world->mortal = (struct world_mortal){.bucket = {.ops = &mortal_ops},
                                          .inner = fg_bucket_faulty_bucket(world->faulty),
                                          .left = UINT64_MAX};
    fg_clock_manual_init(&world->clock, WORLD_NOW);
    world->registry = fg_registry_create();
    world->tenants = tenants_make(&world->limits, NULL, true, world->registry);
    world_must(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL,
                            NULL, 0, &err),
               &err);
    world->settings.rollup_min_bytes = 1; /* ours are small */
    cmp_share(&world->settings, 0);
    (void)snprintf(world->scratch, sizeof world->scratch, "/tmp/compactor_test_XXXXXX");
    assert_non_null(mkdtemp(world->scratch));
    world->config = (struct cmp_config){.settings = &world->settings,
                                        .bucket = &world->mortal.bucket,
                                        .scratch = world->scratch,
                                        .store = &own_store,
                                        .tenants = world->tenants,
                                        .registry = world->registry,
                                        .clock = &world->clock.clock,
                                        .pause = no_pause,
                                        .pause_arg = world};
    start(world);
}

void world_encrypt(struct world *world, const struct fg_keys *keys)
{
    world->memory->keys = world->mortal.bucket.keys = keys;
}

static size_t files_in(const char *path)
{
    DIR *folder = opendir(path);
    size_t n = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    (void)closedir(folder);
    return n - 2; /* . and .. */
}

void world_close(struct world *world)
{
    cmp_compaction_destroy(world->compaction);
    assert_int_equal(files_in(world->scratch), 0);
    assert_int_equal(rmdir(world->scratch), 0);
    tenants_free(world->tenants, &world->limits);
    fg_registry_destroy(world->registry);
    fg_bucket_close(fg_bucket_faulty_bucket(world->faulty));
    fg_bucket_close(world->memory);
}

void world_pass_time(struct world *world, int64_t by_ns)
{
    fg_clock_manual_advance(&world->clock, by_ns);
}

/* ---- the bucket, past all faults ---- */

void world_put(struct world *world, const char *name, struct fg_slice content)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT, .name = name, .content = content};

    world_must(fg_bucket_call(world->memory, &request), &request.err);
    fg_bucket_clear(&request);
}

void world_get(struct world *world, const char *name, struct fg_buf *out)
{
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = OBJECT_MAX_BYTES};

    world_must(fg_bucket_call(world->memory, &request), &request.err);
    *out = request.body;
    fg_buf_init(&request.body, 0);
    fg_bucket_clear(&request);
}

struct cmp_env world_env(struct world *world)
{
    return (struct cmp_env){.bucket = world->memory, .clock = &world->clock.clock};
}

/* ---- segments ---- */

static uint32_t parts_of(const struct made_profile *profiles, size_t n,
                         struct fg_l0_new_part parts[MADE_TENANTS])
{
    uint32_t n_parts = 0;

    for (uint32_t t = 0; t < MADE_TENANTS; t++) {
        struct fg_l0_new_part part = {fg_cstr(made_tenant(t)), INT64_MAX, INT64_MIN, 0, {0}};

        for (size_t i = 0; i < n; i++) {
            if (profiles[i].tenant != t)
                continue;
            part.profiles++;
            fg_usage_count(&part.usage, made_size(&profiles[i]), profiles[i].n_samples);
            part.t_min_ns = FG_MIN(part.t_min_ns, profiles[i].time_ns);
            part.t_max_ns = FG_MAX(part.t_max_ns, profiles[i].time_ns);
        }
        if (part.profiles > 0)
            parts[n_parts++] = part;
    }
    return n_parts;
}

static void put_l0(struct world *world, const struct fg_l0 *l0)
{
    struct fg_buf out;
    struct fg_err err;

    fg_buf_init(&out, SIZE_MAX);
    world_must(fg_l0_encode(l0, &out, &err), &err);
    world_put(world, FG_NAME_L0, fg_buf_slice(&out));
    fg_buf_done(&out);
}

static void commit(struct world *world, const struct fg_l0_new *segment)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct cmp_env env = world_env(world);
    struct fg_manifest *l0 = NULL;
    struct fg_l0 next;
    struct fg_err err;

    world_must(cmp_env_read_manifest(&env, FG_LIT(""), &l0, &err), &err);
    world_must(
        fg_l0_commit(&l0->l0, segment, fg_wall_ns(&world->clock.clock), 1, arena, &next, &err),
        &err);
    put_l0(world, &next);
    fg_manifest_unref(l0);
    fg_arena_destroy(arena);
}

uint64_t world_be_clean(struct world *world)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct cmp_env env = world_env(world);
    struct fg_manifest *l0 = NULL;
    struct fg_l0 next;
    struct fg_err err;
    uint64_t asked;
    bool changed;

    world_must(cmp_env_read_manifest(&env, FG_LIT(""), &l0, &err), &err);
    asked = l0->l0.asked;
    world_must(fg_l0_clean(&l0->l0, own_store.id, asked, arena, &next, &changed, &err), &err);
    if (changed)
        put_l0(world, &next);
    fg_manifest_unref(l0);
    fg_arena_destroy(arena);
    return asked;
}

void world_arrive_last(struct world *world, size_t n)
{
    struct made_profile *first = &world->profiles[world->n_profiles - n];
    struct fg_l0_new_part parts[MADE_TENANTS];
    struct fg_block_summary summary;
    struct fg_l0_new segment;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf object;

    fg_buf_init(&object, SIZE_MAX);
    summary = made_write(first, n, 0, world->n_profiles, &object);
    segment = (struct fg_l0_new){.id = {{5, 5}, ++world->cuts, 1},
                                 .bytes = summary.file_bytes,
                                 .directory_offset = summary.directory_offset,
                                 .directory_bytes = summary.file_bytes - summary.directory_offset,
                                 .profiles = summary.n_profiles,
                                 .digest = summary.digest,
                                 .t_min_ns = summary.t_min_ns,
                                 .t_max_ns = summary.t_max_ns,
                                 .parts = parts,
                                 .n_parts = parts_of(first, n, parts),
                                 .groups = fg_late_filter_none()};
    fg_name_segment(name, &segment.id);
    world_put(world, name, fg_buf_slice(&object));
    commit(world, &segment);
    fg_buf_done(&object);
}

void world_draw_at(struct world *world, int64_t time_ns)
{
    world->profiles[world->n_profiles++] = made_draw(world->seed, world->drawn++, time_ns);
}

void world_arrive(struct world *world, size_t n, int64_t until_ns, int64_t span_ns)
{
    for (size_t i = 0; i < n; i++)
        world_draw_at(world, until_ns - (int64_t)(fg_mix64(world->seed + world->drawn * 77) %
                                                  (uint64_t)span_ns));
    world_arrive_last(world, n);
}

/* ---- rounds ---- */

void world_turn(struct world *world)
{
    struct fg_err err;

    world_must(cmp_compaction_pass(world->compaction, &err), &err);
    world_check(world);
}

void world_try_round(struct world *world)
{
    struct fg_err err;

    if (cmp_compaction_pass(world->compaction, &err) != FG_OK)
        assert_int_equal(err.code, FG_E_UNAVAILABLE);
}

/* What is ready ends when the ingester was asked twice, and has answered. */
void world_let_end(struct world *world)
{
    for (uint64_t asked = 1; asked <= 3; asked++) {
        world_try_round(world);
        assert_int_equal(world_be_clean(world), FG_MIN(asked, 2));
    }
}

/* ---- deletions ---- */

void world_keep(struct world *world, bool (*stays)(const struct made_profile *profile))
{
    size_t n = 0;

    for (size_t i = 0; i < world->n_profiles; i++)
        if (stays(&world->profiles[i]))
            world->profiles[n++] = world->profiles[i];
    world->n_profiles = n;
}

bool world_not_of_shop_that_hour(const struct made_profile *profile)
{
    return profile->tenant != 0 || profile->service != 2 ||
           profile->time_ns < WORLD_NOW - FG_HOUR_NS || profile->time_ns >= WORLD_NOW;
}

void world_bury(struct world *world, const char *selector, int64_t start_ns, int64_t end_ns)
{
    const struct cmp_edit_task task = {
        .kind = EDIT_BURY,
        .tombstone = {.id = cmp_plan_block_id(world->clock.wall_ns, ++world->cuts),
                      .selector = fg_cstr(selector),
                      .start_ns = start_ns,
                      .end_ns = end_ns,
                      .asked_wall_ns = world->clock.wall_ns}};
    struct cmp_env env = world_env(world);
    struct fg_err err;

    world_must(cmp_deletion_check(fg_cstr(selector), start_ns, end_ns, &err), &err);
    world_must(cmp_edit_carry_out(&env, FG_LIT("acme"), &task, &err), &err);
}
