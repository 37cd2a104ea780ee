/*
 * The whole compactor against a bucket in memory: segments arrive, the clock is moved, rounds are
 * made; and whatever fails, or whenever it is stopped and started anew, the manifests lead to each
 * profile exactly once.
 */
#include "common/block/nodes/reader.h"
#include "common/run/log.h"
#include "compactor/compaction.h"
#include "compactor/deletion.h"
#include "compactor/manifests.h"
#include "deploy/single/bucket_look.h"
#include "tests/lib/made.h"
#include "tests/lib/tenants.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMORY_FROM_BYTES = 512 * 1024, PROFILES_MAX = 4000, OBJECT_MAX_BYTES = 64 * 1024 * 1024 };

#define DAY PLAN_DAY_NS
/* In 2100: the bucket in memory goes by the clock on the wall, so all it has is old by ours. */
#define NOW (INT64_C(47500) * DAY)

/* Passes on so many requests, and then refuses everything: as if killed there. */
struct mortal {
    struct fg_bucket bucket;
    struct fg_bucket *inner;
    uint64_t left, seen;
    uint64_t tidied; /* how often it was asked to */
};

static const struct compactor_store own_store = {{5, 5}, true}; /* the writer of all segments */

struct fixture {
    struct fg_bucket *memory, *bucket; /* bucket: what the compactor sees */
    struct fg_bucket_faulty *faulty;
    struct mortal mortal;
    struct fg_clock_manual clock;
    struct fg_registry *registry;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct compactor_settings settings;
    struct compactor_config config;
    struct compaction *compaction;
    char scratch[64];
    struct made_profile profiles[PROFILES_MAX];
    size_t n_profiles;
    uint64_t seed, cuts, drawn;
    uint64_t n_nodes_parts; /* parts of nodes only that were looked at */
    uint64_t n_alone;       /* profiles that are left as merged nodes only, as often as looked at */
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

/* ---- a bucket that dies ---- */

static void mortal_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct mortal *mortal = fg_container(bucket, struct mortal, bucket);

    mortal->seen++;
    if (request->verb == FG_BUCKET_TIDY) {
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

/* ---- fixture ---- */

static void no_pause(void *arg, int64_t ns)
{
    struct fixture *f = arg;

    fg_clock_manual_advance(&f->clock, ns);
}

static void start(struct fixture *f)
{
    struct fg_err err;

    must(compaction_create(&f->config, NULL, &f->compaction, &err), &err);
}

static void restart(struct fixture *f)
{
    compaction_destroy(f->compaction);
    start(f);
}

static void open_fixture(struct fixture *f, uint64_t seed)
{
    struct fg_conf_section section = {"compactor", compactor_fields, compactor_n_fields,
                                      &f->settings};
    struct fg_err err;

    *f = (struct fixture){.seed = seed};
    f->memory = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->memory, &(struct fg_bucket_faults){.seed = seed});
    f->mortal = (struct mortal){.bucket = {.ops = &mortal_ops},
                                .inner = fg_bucket_faulty_bucket(f->faulty),
                                .left = UINT64_MAX};
    fg_clock_manual_init(&f->clock, NOW);
    f->registry = fg_registry_create();
    f->tenants = tenants_make(&f->limits, NULL, true, f->registry);
    must(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL, NULL, 0,
                      &err),
         &err);
    f->settings.nodes_min_bytes = 1; /* ours are small */
    compactor_share(&f->settings, 0);
    (void)snprintf(f->scratch, sizeof f->scratch, "/tmp/compactor_test_XXXXXX");
    assert_non_null(mkdtemp(f->scratch));
    f->config = (struct compactor_config){.settings = &f->settings,
                                          .bucket = &f->mortal.bucket,
                                          .scratch = f->scratch,
                                          .store = &own_store,
                                          .tenants = f->tenants,
                                          .registry = f->registry,
                                          .clock = &f->clock.clock,
                                          .pause = no_pause,
                                          .pause_arg = f};
    start(f);
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

static void close_fixture(struct fixture *f)
{
    compaction_destroy(f->compaction);
    assert_int_equal(files_in(f->scratch), 0);
    assert_int_equal(rmdir(f->scratch), 0);
    tenants_free(f->tenants, &f->limits);
    fg_registry_destroy(f->registry);
    fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_bucket_close(f->memory);
}

/* ---- segments ---- */

static void put(struct fixture *f, const char *name, struct fg_slice content)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT, .name = name, .content = content};

    must(fg_bucket_call(f->memory, &request), &request.err);
    fg_bucket_clear(&request);
}

static void get(struct fixture *f, const char *name, struct fg_buf *out)
{
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = OBJECT_MAX_BYTES};

    must(fg_bucket_call(f->memory, &request), &request.err);
    *out = request.body;
    fg_buf_init(&request.body, 0);
    fg_bucket_clear(&request);
}

/* The manifests as they are, past all faults. */
static struct env plain_env(struct fixture *f)
{
    return (struct env){.bucket = f->memory, .clock = &f->clock.clock};
}

static uint32_t parts_of(const struct made_profile *profiles, size_t n,
                         struct fg_l0_new_part parts[MADE_TENANTS])
{
    uint32_t n_parts = 0;

    for (uint32_t t = 0; t < MADE_TENANTS; t++) {
        struct fg_l0_new_part part = {fg_cstr(made_tenant(t)), INT64_MAX, INT64_MIN, 0};

        for (size_t i = 0; i < n; i++) {
            if (profiles[i].tenant != t)
                continue;
            part.profiles++;
            part.t_min_ns = FG_MIN(part.t_min_ns, profiles[i].time_ns);
            part.t_max_ns = FG_MAX(part.t_max_ns, profiles[i].time_ns);
        }
        if (part.profiles > 0)
            parts[n_parts++] = part;
    }
    return n_parts;
}

static void put_l0(struct fixture *f, const struct fg_l0 *l0)
{
    struct fg_buf out;
    struct fg_err err;

    fg_buf_init(&out, SIZE_MAX);
    must(fg_l0_encode(l0, &out, &err), &err);
    put(f, FG_NAME_L0, fg_buf_slice(&out));
    fg_buf_done(&out);
}

static void commit(struct fixture *f, const struct fg_l0_new *segment)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct env env = plain_env(f);
    struct fg_manifest *l0 = NULL;
    struct fg_l0 next;
    struct fg_err err;

    must(manifests_l0(&env, &l0, &err), &err);
    must(fg_l0_commit(&l0->l0, segment, fg_wall_ns(&f->clock.clock), 1, arena, &next, &err), &err);
    put_l0(f, &next);
    fg_manifest_unref(l0);
    fg_arena_destroy(arena);
}

/* The ingester says that it has nothing left of what it held when it was asked. *ret_asked: by
 * how many. */
static uint64_t be_clean(struct fixture *f)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct env env = plain_env(f);
    struct fg_manifest *l0 = NULL;
    struct fg_l0 next;
    struct fg_err err;
    uint64_t asked;
    bool changed;

    must(manifests_l0(&env, &l0, &err), &err);
    asked = l0->l0.asked;
    must(fg_l0_clean(&l0->l0, own_store.id, asked, arena, &next, &changed, &err), &err);
    if (changed)
        put_l0(f, &next);
    fg_manifest_unref(l0);
    fg_arena_destroy(arena);
    return asked;
}

/* The last n profiles become a segment. */
static void arrive_last(struct fixture *f, size_t n)
{
    struct made_profile *first = &f->profiles[f->n_profiles - n];
    struct fg_l0_new_part parts[MADE_TENANTS];
    struct fg_block_summary summary;
    struct fg_l0_new segment;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf object;

    fg_buf_init(&object, SIZE_MAX);
    summary = made_write(first, n, 0, f->n_profiles, &object);
    segment = (struct fg_l0_new){.id = {{5, 5}, ++f->cuts, 1},
                                 .bytes = summary.file_bytes,
                                 .directory_offset = summary.directory_offset,
                                 .directory_bytes = summary.file_bytes - summary.directory_offset,
                                 .profiles = summary.n_profiles,
                                 .digest = summary.digest,
                                 .t_min_ns = summary.t_min_ns,
                                 .t_max_ns = summary.t_max_ns,
                                 .parts = parts,
                                 .n_parts = parts_of(first, n, parts),
                                 .groups = fg_ever_none()};
    fg_name_segment(name, &segment.id);
    put(f, name, fg_buf_slice(&object));
    commit(f, &segment);
    fg_buf_done(&object);
}

static void draw_at(struct fixture *f, int64_t time_ns)
{
    f->profiles[f->n_profiles++] = made_draw(f->seed, f->drawn++, time_ns);
}

/* A segment of these many profiles, of the last `span` before `until`. */
static void arrive(struct fixture *f, size_t n, int64_t until_ns, int64_t span_ns)
{
    for (size_t i = 0; i < n; i++)
        draw_at(f, until_ns - (int64_t)(fg_mix64(f->seed + f->drawn * 77) % (uint64_t)span_ns));
    arrive_last(f, n);
}

/* The segment of ten minutes of profiles that end in them, as those of a service that is always
 * there do: the first begin before. They have 10 s each. */
static void arrive_steadily(struct fixture *f, size_t n, int64_t until_ns)
{
    int64_t each_ns = 10 * FG_MINUTE_NS / (int64_t)n;

    for (size_t i = 0; i < n; i++)
        draw_at(f, until_ns - 10 * FG_MINUTE_NS - 5 * FG_SECOND_NS + (int64_t)i * each_ns);
    arrive_last(f, n);
}

/* ---- what is there ---- */

static void read_object(struct fixture *f, const char *name, uint32_t tenant,
                        struct made_found *found)
{
    struct fg_buf object;

    get(f, name, &object);
    made_read(fg_buf_slice(&object), made_tenant(tenant), found);
    fg_buf_done(&object);
}

static void read_block(struct fixture *f, const struct fg_blocks_entry *block, uint32_t tenant,
                       struct made_found *found)
{
    struct fg_id digest = {0, 0};
    size_t before = found->n;
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    must(fg_name_block(name, fg_cstr(made_tenant(tenant)), block->id, &err), &err);
    read_object(f, name, tenant, found);
    for (size_t i = before; i < found->n; i++)
        digest = fg_id_add(digest, found->ids[i]);
    assert_int_equal(found->n - before, block->profiles);
    assert_true(fg_id_eq(digest, block->digest));
}

/* What a block has of a service. */
static uint64_t profiles_in(struct fixture *f, const struct fg_blocks *blocks, struct fg_id id,
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
    must(fg_name_block(name, blocks->tenant, id, &err), &err);
    get(f, name, &object);
    must(fg_block_directory_parse(
             fg_slice_sub(fg_buf_slice(&object), block->directory_offset, SIZE_MAX), object.len,
             arena, &directory, &err),
         &err);
    part = fg_block_part_find(&directory, blocks->tenant, service);
    assert_true(part < directory.n_parts && fg_slice_eq(directory.parts[part].service, service));
    profiles = directory.parts[part].n_profiles;
    fg_buf_done(&object);
    fg_arena_destroy(arena);
    return profiles;
}

/* Its parts sum up what the blocks it is made of have of a service. */
static void look_at_nodes(struct fixture *f, const struct fg_blocks *blocks,
                          const struct fg_blocks_entry *entry)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_block_directory directory;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf object;
    struct fg_err err;

    must(fg_name_block(name, blocks->tenant, entry->id, &err), &err);
    get(f, name, &object);
    must(fg_block_directory_parse(
             fg_slice_sub(fg_buf_slice(&object), entry->directory_offset, SIZE_MAX), object.len,
             arena, &directory, &err),
         &err);
    assert_int_equal(entry->profiles, directory.n_profiles);
    assert_int_equal(entry->nodes_offset, directory.nodes_offset);
    for (uint32_t p = 0; p < directory.n_parts; p++) {
        const struct fg_block_part *part = &directory.parts[p];
        struct fg_block_range nod = fg_nodes_ranges(part).nod;
        uint64_t profiles = 0;
        struct fg_nodes nodes;

        must(fg_nodes_parse(fg_slice_sub(fg_buf_slice(&object), nod.offset, nod.len), arena, &nodes,
                            &err),
             &err);
        for (uint32_t i = 0; i < nodes.n_made_of; i++)
            profiles += profiles_in(f, blocks, nodes.made_of[i], part->service);
        assert_int_equal(profiles, part->n_profiles);
        f->n_nodes_parts++;
    }
    fg_buf_done(&object);
    fg_arena_destroy(arena);
}

static void find_all(struct fixture *f, uint32_t tenant, struct made_found *found)
{
    struct env env = plain_env(f);
    struct fg_manifest *l0 = NULL, *blocks = NULL;
    uint32_t number;
    struct fg_err err;

    must(manifests_l0(&env, &l0, &err), &err);
    must(manifests_blocks(&env, fg_cstr(made_tenant(tenant)), &blocks, &err), &err);
    number = fg_l0_tenant(&l0->l0, fg_cstr(made_tenant(tenant)));
    for (uint32_t i = 0; i < l0->l0.n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->l0.segments[i];
        char name[FG_NAME_MAX_BYTES];

        if (fg_l0_part(segment, number) == NULL ||
            fg_blocks_covers(&blocks->blocks, segment->generation))
            continue;
        fg_name_segment(name, &segment->id);
        read_object(f, name, tenant, found);
    }
    for (uint32_t i = 0; i < blocks->blocks.n_blocks; i++) {
        if (blocks->blocks.blocks[i].alone)
            f->n_alone += blocks->blocks.blocks[i].profiles;
        else if (blocks->blocks.blocks[i].nodes_only)
            look_at_nodes(f, &blocks->blocks, &blocks->blocks.blocks[i]);
        else
            read_block(f, &blocks->blocks.blocks[i], tenant, found);
    }
    fg_manifest_unref(l0);
    fg_manifest_unref(blocks);
}

static void check(struct fixture *f)
{
    for (uint32_t t = 0; t < MADE_TENANTS; t++) {
        struct made_found found = {0};

        find_all(f, t, &found);
        made_expect(&found, f->profiles, f->n_profiles, t);
        made_found_done(&found);
    }
}

struct shape {
    uint32_t segments, hours, days, gone;
    uint32_t nodes; /* blocks of nodes only */
    size_t objects; /* below segments/ and tenants/ */
};

static bool count_object(const struct fg_bucket_entry *entry, void *arg)
{
    (void)entry;
    ++*(size_t *)arg;
    return true;
}

static struct shape shape_of(struct fixture *f)
{
    struct env env = plain_env(f);
    struct fg_manifest *l0 = NULL;
    struct shape shape = {0};
    struct fg_err err;

    must(manifests_l0(&env, &l0, &err), &err);
    shape.segments = l0->l0.n_segments;
    shape.gone = l0->l0.n_gone;
    for (uint32_t t = 0; t < MADE_TENANTS; t++) {
        struct fg_manifest *blocks = NULL;

        must(manifests_blocks(&env, fg_cstr(made_tenant(t)), &blocks, &err), &err);
        for (uint32_t i = 0; i < blocks->blocks.n_blocks; i++) {
            shape.hours += blocks->blocks.blocks[i].level == PLAN_HOUR;
            shape.days += blocks->blocks.blocks[i].level == PLAN_DAY;
            shape.nodes += blocks->blocks.blocks[i].nodes_only;
        }
        shape.gone += blocks->blocks.n_gone;
        fg_manifest_unref(blocks);
    }
    must(fg_bucket_each(f->memory, "", false, 0, count_object, &shape.objects, &err), &err);
    fg_manifest_unref(l0);
    return shape;
}

/* ---- rounds ---- */

static void turn(struct fixture *f)
{
    struct fg_err err;

    must(compaction_round(f->compaction, &err), &err);
    check(f);
}

static void try_round(struct fixture *f)
{
    struct fg_err err;

    if (compaction_round(f->compaction, &err) != FG_OK)
        assert_int_equal(err.code, FG_E_UNAVAILABLE);
}

static void pass_time(struct fixture *f, int64_t by_ns)
{
    fg_clock_manual_advance(&f->clock, by_ns);
}

/* Hours, then the day, then nothing but what is needed. */
static void from_segments_to_days(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct shape shape;

    (void)state;
    open_fixture(f, 1);
    for (int k = 0; k < 12; k++) { /* two hours */
        pass_time(f, 10 * FG_MINUTE_NS);
        arrive(f, 30, f->clock.wall_ns, 10 * FG_MINUTE_NS);
        turn(f);
    }
    pass_time(f, 11 * FG_MINUTE_NS);
    turn(f);
    shape = shape_of(f);
    assert_int_equal(shape.hours, 4); /* two hours of two tenants */
    pass_time(f, 26 * FG_HOUR_NS);
    turn(f);
    shape = shape_of(f);
    assert_int_equal(shape.hours, 0);
    assert_int_equal(shape.days, 2);
    assert_int_equal(shape.segments, 0);
    pass_time(f, 2 * FG_HOUR_NS);
    turn(f);
    turn(f);
    shape = shape_of(f);
    assert_int_equal(shape.gone, 0);
    assert_int_equal(shape.objects, 2 + 1 + 2); /* blocks, L0, tenants' manifests */
    assert_in_range(f->mortal.tidied, 2, 5);    /* once in six hours, while it has turns */
    close_fixture(f);
    free(f);
}

static void late_and_old(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct shape shape;

    (void)state;
    open_fixture(f, 2);
    arrive(f, 200, NOW, DAY / 2);
    pass_time(f, 2 * DAY);
    turn(f);
    arrive(f, 1, NOW - FG_HOUR_NS, FG_HOUR_NS); /* late: less than 1 % */
    arrive(f, 60, NOW - 300 * DAY, 5 * DAY);    /* and of last year */
    pass_time(f, 10 * FG_MINUTE_NS);
    turn(f);
    shape = shape_of(f);
    assert_in_range(shape.days, 10, 2 + 2 + 12); /* with a patch, and six days of two tenants */
    pass_time(f, DAY + FG_HOUR_NS);
    turn(f);
    assert_int_equal(shape_of(f).days, shape.days - 1); /* the patch is part of the day */
    close_fixture(f);
    free(f);
}

/* Days of work, with faults all the time. */
static void any_weather(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct fixture *f = fg_new(struct fixture);

        open_fixture(f, seed);
        f->settings.job_max_bytes = 30000; /* so that days are divided */
        restart(f);
        fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){.seed = seed,
                                                                   .lose_request_permille = 10,
                                                                   .lose_answer_permille = 20,
                                                                   .refuse_permille = 20,
                                                                   .tear_permille = 10});
        for (int k = 0; k < 40; k++) {
            pass_time(f, FG_HOUR_NS);
            arrive(f, 40, f->clock.wall_ns, k % 7 == 0 ? 3 * DAY : FG_HOUR_NS);
            try_round(f);
            check(f);
            if (k % 11 == 0)
                restart(f);
        }
        fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){.seed = seed});
        for (int k = 0; k < 6; k++) {
            pass_time(f, DAY);
            turn(f);
        }
        assert_int_equal(shape_of(f).hours + shape_of(f).segments + shape_of(f).gone, 0);
        close_fixture(f);
        free(f);
    }
}

/* The same little life each time, in which one thing goes wrong, or all from there on. */
enum wrong { REFUSED, ANSWER_LOST, KILLED };

/* false: it was over before the k-th request. */
static bool live_with(struct fixture *f, enum wrong wrong, uint64_t k)
{
    uint64_t before;

    arrive(f, 20, NOW, FG_HOUR_NS);
    arrive(f, 20, NOW, 2 * FG_HOUR_NS);
    pass_time(f, 2 * FG_HOUR_NS);
    try_round(f);
    arrive(f, 20, NOW, DAY);
    pass_time(f, 3 * FG_HOUR_NS);
    before = f->mortal.seen;
    if (wrong == KILLED)
        f->mortal.left = k - 1;
    else
        fg_bucket_faulty_fail(f->faulty, k, wrong == ANSWER_LOST);
    try_round(f);
    pass_time(f, 2 * FG_HOUR_NS);
    try_round(f); /* deletes what was replaced */
    check(f);
    return f->mortal.seen - before >= k;
}

static void heal(struct fixture *f)
{
    f->mortal.left = UINT64_MAX;
    fg_bucket_faulty_fail(f->faulty, 0, false);
    restart(f);
    for (int i = 0; i < 4; i++) {
        pass_time(f, 2 * DAY);
        turn(f);
    }
}

static void survives(enum wrong wrong)
{
    uint64_t k = 1;

    for (bool more = true; more; k++) {
        struct fixture *f = fg_new(struct fixture);
        struct shape shape;

        open_fixture(f, 7);
        more = live_with(f, wrong, k);
        heal(f);
        shape = shape_of(f);
        assert_int_equal(shape.segments + shape.hours + shape.gone, 0);
        /* Orphans too are gone: blocks of days, two manifests, and the first. */
        assert_int_equal(shape.objects, shape.days + 3);
        close_fixture(f);
        free(f);
    }
    assert_true(k > 30); /* there was something to fail */
}

static void survives_refusals(void **state)
{
    (void)state;
    survives(REFUSED);
}

static void survives_lost_answers(void **state)
{
    (void)state;
    survives(ANSWER_LOST);
}

static void survives_kills(void **state)
{
    (void)state;
    survives(KILLED);
}

/* Two that think the tenants are theirs, in turns: nothing is done twice. */
static void two_compactors(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    char scratch[80];
    struct compactor_config config;
    struct compaction *other;
    struct fg_err err;

    (void)state;
    open_fixture(f, 9);
    (void)snprintf(scratch, sizeof scratch, "%s-other", f->scratch);
    config = f->config;
    config.scratch = scratch;
    must(compaction_create(&config, NULL, &other, &err), &err);
    for (int k = 0; k < 30; k++) {
        pass_time(f, FG_HOUR_NS);
        arrive(f, 20, f->clock.wall_ns, FG_HOUR_NS);
        must(compaction_round(k % 2 == 0 ? f->compaction : other, &err), &err);
        must(compaction_round(k % 2 == 0 ? other : f->compaction, &err), &err);
        check(f);
    }
    compaction_destroy(other);
    assert_int_equal(rmdir(scratch), 0);
    close_fixture(f);
    free(f);
}

static uint32_t count_own(struct compaction *compaction)
{
    struct fg_slice rest;
    struct fg_buf status;
    uint32_t count = 0;
    size_t at;

    fg_buf_init(&status, SIZE_MAX);
    compaction_status(compaction, &status);
    rest = fg_buf_slice(&status);
    while ((at = fg_slice_search(rest, "\"own\":true")) != SIZE_MAX) {
        count++;
        rest = fg_slice_sub(rest, at + 1, rest.len);
    }
    fg_buf_done(&status);
    return count;
}

/* An hour in which so many of them say that they are there. */
static void turn_for_an_hour(struct fixture *f, struct presence *const *presences, int n)
{
    for (int64_t at = 0; at < FG_HOUR_NS; at += FG_MINUTE_NS) {
        pass_time(f, FG_MINUTE_NS);
        for (int i = 0; i < n; i++) {
            struct fg_err err;

            must(presence_turn(presences[i], &err), &err);
        }
    }
}

static void open_two(struct fixture *f, const char *const names[2], struct presence *presences[2],
                     char scratches[2][80], struct compaction *both[2])
{
    for (int i = 0; i < 2; i++) {
        const struct presence_config one = {f->memory, &f->clock.clock, names[i]};
        struct compactor_config config = f->config;
        struct fg_err err;

        must(presence_create(&one, &presences[i], &err), &err);
        (void)snprintf(scratches[i], sizeof scratches[i], "%s-%d", f->scratch, i);
        config.scratch = scratches[i];
        must(compaction_create(&config, presences[i], &both[i], &err), &err);
    }
}

static void close_two(struct presence *presences[2], char scratches[2][80],
                      struct compaction *both[2])
{
    for (int i = 0; i < 2; i++) {
        compaction_destroy(both[i]);
        presence_destroy(presences[i]);
        assert_int_equal(rmdir(scratches[i]), 0);
    }
}

/* Two who know of each other: each has its tenants, and all of them when the other falls silent. */
static void compactors_share_tenants(void **state)
{
    static const char *const names[] = {"one", "two"};
    struct fixture *f = fg_new(struct fixture);
    struct presence *presences[2];
    struct compaction *both[2];
    char scratches[2][80];
    struct fg_err err;

    (void)state;
    open_fixture(f, 9);
    open_two(f, names, presences, scratches, both);
    for (int k = 0; k < 60; k++) {
        bool alone = k >= 30;

        turn_for_an_hour(f, presences, alone ? 1 : 2);
        arrive(f, 20, f->clock.wall_ns, FG_HOUR_NS);
        must(compaction_round(both[0], &err), &err);
        if (!alone)
            must(compaction_round(both[1], &err), &err);
        check(f);
        if (k > 2) { /* the one that has fallen silent has no rounds either */
            assert_int_equal(count_own(both[0]), alone ? MADE_TENANTS : 1);
            assert_int_equal(count_own(both[1]), MADE_TENANTS - 1);
        }
    }
    pass_time(f, 2 * FG_HOUR_NS);
    must(presence_turn(presences[0], &err), &err);
    must(compaction_round(both[0], &err), &err);
    pass_time(f, FG_HOUR_NS);
    must(compaction_round(both[0], &err), &err);
    assert_in_range(shape_of(f).segments, 0, 2);
    close_two(presences, scratches, both);
    close_fixture(f);
    free(f);
}

/* Whoever retires segments goes on where the manifest of another one's tenant is broken. */
static void another_ones_broken_manifest(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct presence *presences[2];
    struct compaction *keeper;
    struct compactor_config config;
    char scratch[80];
    int number, others = 0;
    struct fg_err err;

    (void)state;
    open_fixture(f, 9);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 2; i++) {
            const struct presence_config one = {f->memory, &f->clock.clock, i == 0 ? "one" : "two"};

            if (k == 0)
                must(presence_create(&one, &presences[i], &err), &err);
            must(presence_turn(presences[i], &err), &err);
        }
    number = presence_owns(presences[0], FG_LIT("")) ? 0 : 1;
    config = f->config;
    (void)snprintf(scratch, sizeof scratch, "%s-0", f->scratch);
    config.scratch = scratch;
    must(compaction_create(&config, presences[number], &keeper, &err), &err);
    arrive(f, 60, f->clock.wall_ns, FG_HOUR_NS);
    for (uint32_t t = 0; t < MADE_TENANTS; t++) {
        char name[FG_NAME_MAX_BYTES];

        if (presence_owns(presences[number], fg_cstr(made_tenant(t))))
            continue;
        others++;
        must(fg_name_blocks(name, fg_cstr(made_tenant(t)), &err), &err);
        put(f, name, FG_LIT("nothing that was ever written"));
    }
    assert_in_range(others, 1, MADE_TENANTS);
    must(compaction_round(keeper, &err), &err);
    compaction_destroy(keeper);
    for (int i = 0; i < 2; i++)
        presence_destroy(presences[i]);
    assert_int_equal(rmdir(scratch), 0);
    close_fixture(f);
    free(f);
}

/* A source that was spoilt is an error that is told, and nothing is lost but that. */
static void broken_segment(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf object, status;
    struct fg_err err;

    (void)state;
    open_fixture(f, 11);
    arrive(f, 30, NOW, FG_HOUR_NS);
    arrive(f, 30, NOW, FG_HOUR_NS);
    fg_name_segment(name, &(struct fg_segment_id){{5, 5}, 1, 1});
    get(f, name, &object);
    object.ptr[40] ^= 1;
    put(f, name, fg_buf_slice(&object));
    pass_time(f, 2 * FG_HOUR_NS);
    must(compaction_round(f->compaction, &err), &err);
    fg_buf_init(&status, SIZE_MAX);
    compaction_status(f->compaction, &status);
    assert_true(fg_slice_search(fg_buf_slice(&status), name) != SIZE_MAX);
    pass_time(f, FG_HOUR_NS);
    must(compaction_round(f->compaction, &err), &err); /* the other one goes in alone */
    fg_buf_clear(&status);
    compaction_status(f->compaction, &status);
    assert_true(fg_slice_search(fg_buf_slice(&status), "\"uncovered_segments\":1") != SIZE_MAX);
    assert_int_equal(shape_of(f).days, 2);
    object.ptr[40] ^= 1;
    put(f, name, fg_buf_slice(&object));
    pass_time(f, FG_HOUR_NS);
    turn(f);
    pass_time(f, 2 * DAY);
    turn(f);
    assert_int_equal(shape_of(f).segments, 0);
    fg_buf_done(&object);
    fg_buf_done(&status);
    close_fixture(f);
    free(f);
}

/* A segment of some profiles of the hour, all of one instance and so of few shards. */
static void arrive_from(struct fixture *f, size_t n, uint32_t instance)
{
    for (size_t i = 0; i < n;) {
        draw_at(f, NOW - FG_HOUR_NS + (int64_t)f->drawn);
        if (f->profiles[f->n_profiles - 1].instance == instance)
            i++;
        else
            f->n_profiles--;
    }
    arrive_last(f, n);
}

/* Do the blocks of a tenant's hour divide its shards? Returns how many there are. */
static uint32_t count_halves(struct fixture *f)
{
    struct env env = plain_env(f);
    struct fg_manifest *manifest = NULL;
    struct fg_err err;
    uint32_t n;

    must(manifests_blocks(&env, FG_LIT("acme"), &manifest, &err), &err);
    n = manifest->blocks.n_blocks;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct fg_blocks_entry *a = &manifest->blocks.blocks[i];
            const struct fg_blocks_entry *b = &manifest->blocks.blocks[k];

            assert_int_equal(a->level, PLAN_HOUR);
            assert_int_equal(a->start_ns, b->start_ns);
            assert_true(a->shard_first > b->shard_last || b->shard_first > a->shard_last);
        }
    fg_manifest_unref(manifest);
    return n;
}

/* What does not fit into memory at once is written by halves of its shards; the less there is the
 * more of them, until a single shard does not fit either, and nothing is lost. */
static void halves_under_small_memory(void **state)
{
    uint32_t before = 1, most = 0;
    bool fits = true;

    (void)state;
    for (uint64_t memory = MEMORY_FROM_BYTES; fits; memory -= memory / 8) {
        struct fixture *f = fg_new(struct fixture);
        struct fg_err err;
        uint32_t n;

        open_fixture(f, 29);
        f->settings.memory_max_bytes = memory;
        restart(f);
        for (uint32_t k = 0; k < 60; k++)
            arrive_from(f, 6, k % MADE_INSTANCES);
        pass_time(f, FG_HOUR_NS);
        must(compaction_round(f->compaction, &err), &err);
        check(f);
        n = count_halves(f);
        fits = n > 0;
        assert_true(!fits || n >= before);
        before = n;
        most = FG_MAX(most, n);
        print_message("  %llu bytes: %u blocks\n", (unsigned long long)memory, n);
        close_fixture(f);
        free(f);
    }
    assert_in_range(most, 3, MADE_SERVICES * MADE_INSTANCES);
}

/* ---- deletion and retention ---- */

static void keep(struct fixture *f, bool (*stays)(const struct made_profile *profile))
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_profiles; i++)
        if (stays(&f->profiles[i]))
            f->profiles[n++] = f->profiles[i];
    f->n_profiles = n;
}

static void bury(struct fixture *f, const char *selector, int64_t start_ns, int64_t end_ns)
{
    const struct edit_task task = {.kind = EDIT_BURY,
                                   .tombstone = {.id = plan_block_id(f->clock.wall_ns, ++f->cuts),
                                                 .selector = fg_cstr(selector),
                                                 .start_ns = start_ns,
                                                 .end_ns = end_ns,
                                                 .asked_wall_ns = f->clock.wall_ns}};
    struct env env = plain_env(f);
    struct fg_err err;

    must(deletion_check(fg_cstr(selector), start_ns, end_ns, &err), &err);
    must(manifests_edit(&env, FG_LIT("acme"), &task, &err), &err);
}

struct counted {
    uint32_t pending, ended;
    uint64_t profiles; /* of all of them */
};

static struct counted count_deletions(struct fixture *f)
{
    struct env env = plain_env(f);
    struct fg_manifest *blocks = NULL;
    struct counted counted = {0};
    struct fg_err err;

    must(manifests_blocks(&env, FG_LIT("acme"), &blocks, &err), &err);
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

/* What is ready ends when the ingester was asked twice, and has answered. */
static void let_end(struct fixture *f)
{
    for (uint64_t asked = 1; asked <= 3; asked++) {
        try_round(f);
        assert_int_equal(be_clean(f), FG_MIN(asked, 2));
    }
}

static bool not_of_shop_that_hour(const struct made_profile *profile)
{
    return profile->tenant != 0 || profile->service != 2 || profile->time_ns < NOW - FG_HOUR_NS ||
           profile->time_ns >= NOW;
}

static void deletions(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct counted counted;
    size_t before;
    struct fg_err err;

    (void)state;
    open_fixture(f, 13);
    arrive(f, 300, NOW, 20 * FG_HOUR_NS);
    pass_time(f, 2 * DAY);
    turn(f);
    bury(f, "{service_name=\"shop\"}", NOW - FG_HOUR_NS, NOW);
    bury(f, "{service_name=\"shop\",pod=\"nobody\"}", INT64_MIN, INT64_MAX);
    before = f->n_profiles;
    keep(f, not_of_shop_that_hour);
    compaction_wake(f->compaction, FG_LIT("acme"));
    turn(f);
    assert_true(f->n_profiles < before);
    before -= f->n_profiles;
    arrive(f, 100, NOW, FG_HOUR_NS); /* what ingesters still held, goes as well */
    before += f->n_profiles;
    keep(f, not_of_shop_that_hour);
    pass_time(f, 20 * FG_MINUTE_NS);
    turn(f);
    assert_int_equal(count_deletions(f).pending, 2); /* more may come */
    restart(f);
    pass_time(f, 4 * FG_HOUR_NS);
    let_end(f);
    turn(f);
    counted = count_deletions(f);
    assert_int_equal(counted.pending, 0);
    assert_int_equal(counted.ended, 2);
    assert_int_equal(counted.profiles, before - f->n_profiles);
    assert_int_equal(deletion_check(FG_LIT("{__profile_type__=\"a\"}"), 0, 1, &err), FG_E_INVALID);
    assert_int_equal(deletion_check(FG_LIT("{a=}"), 0, 1, &err), FG_E_INVALID);
    assert_int_equal(deletion_check(FG_LIT("{}"), 1, 1, &err), FG_E_INVALID);
    close_fixture(f);
    free(f);
}

static void expect_status(struct fixture *f, const char *has)
{
    struct fg_buf status;

    fg_buf_init(&status, SIZE_MAX);
    compaction_status(f->compaction, &status);
    if (fg_slice_search(fg_buf_slice(&status), has) == SIZE_MAX)
        fail_msg("no %s in %.*s", has, FG_S(fg_buf_slice(&status)));
    fg_buf_done(&status);
}

/* An ingester that was away has what was deleted long ago, and commits it when it is back. */
static void deletion_waits_for_ingesters(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    size_t before;

    (void)state;
    open_fixture(f, 14);
    arrive(f, 300, NOW, 20 * FG_HOUR_NS);
    pass_time(f, 2 * DAY);
    turn(f);
    bury(f, "{service_name=\"shop\"}", NOW - FG_HOUR_NS, NOW);
    before = f->n_profiles;
    keep(f, not_of_shop_that_hour);
    compaction_wake(f->compaction, FG_LIT("acme"));
    turn(f);
    expect_status(f, "\"deletions_wait_for\":\"\"");
    for (int i = 0; i < 3; i++) { /* it asked, and nobody answers; days are no answer */
        pass_time(f, DAY);
        turn(f);
        turn(f);
        assert_int_equal(count_deletions(f).pending, 1);
        expect_status(f, "\"deletions_wait_for\":\"this server\"");
        restart(f);
    }
    before -= f->n_profiles;
    arrive(f, 100, NOW, FG_HOUR_NS);
    before += f->n_profiles;
    keep(f, not_of_shop_that_hour);
    pass_time(f, FG_HOUR_NS);
    assert_int_equal(be_clean(f), 1);
    turn(f); /* something was taken, so that this time does not count */
    assert_int_equal(be_clean(f), 2);
    turn(f);
    assert_int_equal(be_clean(f), 3);
    assert_int_equal(count_deletions(f).pending, 1);
    turn(f);
    assert_int_equal(count_deletions(f).pending, 0);
    assert_int_equal(count_deletions(f).profiles, before - f->n_profiles);
    close_fixture(f);
    free(f);
}

/* Asked of one, carried out by the other within a minute: not at its next look of every ten. */
static void a_deletion_asked_of_another_compactor(void **state)
{
    static const char *const names[] = {"one", "two"};
    struct fixture *f = fg_new(struct fixture);
    struct presence *presences[2];
    struct compaction *both[2];
    char scratches[2][80];
    size_t owner, before;
    struct fg_err err;

    (void)state;
    open_fixture(f, 13);
    open_two(f, names, presences, scratches, both);
    turn_for_an_hour(f, presences, 2);
    owner = presence_owns(presences[0], FG_LIT("acme")) ? 0 : 1;
    arrive(f, 300, NOW, 20 * FG_HOUR_NS);
    pass_time(f, 2 * DAY);
    turn_for_an_hour(f, presences, 2);
    for (size_t i = 0; i < 2; i++)
        must(compaction_round(both[i], &err), &err);
    before = f->n_profiles;
    bury(f, "{service_name=\"shop\"}", NOW - FG_HOUR_NS, NOW);
    keep(f, not_of_shop_that_hour);
    compaction_wake(both[1 - owner], FG_LIT("acme"));
    for (size_t i = 0; i < 2; i++) { /* each turn in either order */
        must(presence_turn(presences[1 - owner], &err), &err);
        must(presence_turn(presences[owner], &err), &err);
    }
    must(compaction_round(both[1 - owner], &err), &err);
    assert_int_equal(count_deletions(f).profiles, 0); /* not by who is not its own */
    must(compaction_round(both[owner], &err), &err);
    assert_int_equal(count_deletions(f).profiles, before - f->n_profiles);
    check(f);
    close_two(presences, scratches, both);
    close_fixture(f);
    free(f);
}

static bool is_kept(const struct made_profile *profile)
{
    return profile->time_ns >= NOW - 2 * DAY;
}

static void four_days(struct fg_limit_settings *limits)
{
    limits->retention_period_ns = 4 * DAY;
    limits->retention_period_nodes_ns = 1;
}

static void retention(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    (void)state;
    open_fixture(f, 17);
    arrive(f, 100, NOW - 3 * DAY, DAY);
    arrive(f, 100, NOW, DAY / 2);
    pass_time(f, 2 * DAY);
    turn(f);
    tenants_free(f->tenants, &f->limits);
    f->tenants = f->config.tenants = tenants_make(&f->limits, four_days, true, f->registry);
    restart(f); /* it is NOW + 2 days: spans that end before NOW - 2 days go */
    arrive(f, 50, NOW - 10 * DAY, DAY); /* of what goes: never written */
    pass_time(f, 20 * FG_MINUTE_NS);
    must(compaction_round(f->compaction, &err), &err);
    keep(f, is_kept);
    check(f);
    close_fixture(f);
    free(f);
}

/* `flamegrid bucket verify` makes every node anew. */
static void verify_bucket(struct fixture *f, const char *says)
{
    char *said;
    size_t len;
    FILE *out = open_memstream(&said, &len);
    struct fg_err err;

    assert_non_null(out);
    must(bucket_verify(f->memory, out, &err), &err);
    (void)fclose(out);
    if (strstr(said, says) == NULL)
        fail_msg("%s", said);
    free(said);
}

static int64_t split;

static bool is_after_split(const struct made_profile *profile)
{
    return profile->time_ns >= split;
}

static bool not_of_shop(const struct made_profile *profile)
{
    return profile->tenant != 0 || profile->service != 2;
}

static void nodes_for_long(struct fg_limit_settings *limits)
{
    limits->retention_period_ns = 7 * DAY;
    limits->retention_period_nodes_ns = 100 * DAY;
}

/* Weeks lose their profiles, and keep merged nodes of every service; a deletion takes the nodes of
 * those it may name. */
static void nodes_outlive_profiles(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    const int64_t week = 7 * DAY;
    uint64_t kept;
    size_t all;

    (void)state;
    open_fixture(f, 19);
    pass_time(f, NOW + 2 * week - f->clock.wall_ns);
    pass_time(f, week - f->clock.wall_ns % week); /* weeks begin now */
    const int64_t first = f->clock.wall_ns;
    for (int day = 0; day < 7; day++) {
        pass_time(f, DAY);
        arrive(f, 60, f->clock.wall_ns - 1, DAY - 2);
        if (day % 3 == 0)
            turn(f);
    }
    pass_time(f, 3 * DAY);
    turn(f);
    all = f->n_profiles;
    tenants_free(f->tenants, &f->limits);
    f->tenants = f->config.tenants = tenants_make(&f->limits, nodes_for_long, true, f->registry);
    restart(f);
    arrive(f, 40, first + 8 * DAY, DAY / 2); /* of the week after */
    pass_time(f, 3 * FG_HOUR_NS);
    turn(f); /* all of it is there yet */
    pass_time(f, first + 2 * week - f->clock.wall_ns);
    split = first + week;
    keep(f, is_after_split);
    turn(f);
    f->n_alone = 0;
    check(f);
    assert_int_equal(f->n_alone, all);
    verify_bucket(f, "profiles that were dropped, merged nodes in 1 blocks\n");

    bury(f, "{service_name=\"shop\",pod=\"nobody\"}", first, first + DAY);
    keep(f, not_of_shop); /* of the next week too, as the second deletion says */
    bury(f, "{service_name=\"shop\"}", first + week, first + 2 * week);
    compaction_wake(f->compaction, FG_LIT("acme"));
    turn(f);
    kept = f->n_alone;
    f->n_alone = 0;
    check(f);
    assert_in_range(f->n_alone, 1, kept - 1);
    verify_bucket(f, "merged nodes in 1 blocks\n");

    /* One day nodes are too old as well. */
    pass_time(f, 110 * DAY);
    f->n_profiles = 0;
    turn(f);
    f->n_alone = 0;
    check(f);
    assert_int_equal(f->n_alone, 0);
    close_fixture(f);
    free(f);
}

/* A bit of a block of the tenant that has profiles of then, `at` bytes from its begin or, where
 * that is negative, its end. */
static void flip(struct fixture *f, int64_t time_ns, int64_t at)
{
    struct env env = plain_env(f);
    struct fg_manifest *blocks = NULL;
    char name[FG_NAME_MAX_BYTES] = "";
    struct fg_buf object;
    struct fg_err err;

    must(manifests_blocks(&env, FG_LIT("acme"), &blocks, &err), &err);
    for (uint32_t i = 0; i < blocks->blocks.n_blocks; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks.blocks[i];

        if (!block->nodes_only && block->start_ns <= time_ns && block->end_ns > time_ns)
            must(fg_name_block(name, FG_LIT("acme"), block->id, &err), &err);
    }
    get(f, name, &object);
    object.ptr[at < 0 ? (int64_t)object.len + at : at] ^= 1;
    put(f, name, fg_buf_slice(&object));
    fg_buf_done(&object);
    fg_manifest_unref(blocks);
}

/* How many profiles of the first tenant blocks have, and how many of them as nodes only. */
static uint64_t kept_of_acme(struct fixture *f, uint64_t *ret_alone)
{
    struct env env = plain_env(f);
    struct fg_manifest *blocks = NULL;
    uint64_t profiles = 0;
    struct fg_err err;

    *ret_alone = 0;
    must(manifests_blocks(&env, FG_LIT("acme"), &blocks, &err), &err);
    for (uint32_t i = 0; i < blocks->blocks.n_blocks; i++) {
        const struct fg_blocks_entry *block = &blocks->blocks.blocks[i];

        profiles += !block->nodes_only || block->alone ? block->profiles : 0;
        *ret_alone += block->alone ? block->profiles : 0;
    }
    fg_manifest_unref(blocks);
    return profiles;
}

/* Rounds until what failed was tried in every way. */
static void look_again(struct fixture *f)
{
    struct fg_err err;

    for (int i = 0; i < 4; i++) {
        pass_time(f, FG_HOUR_NS);
        must(compaction_round(f->compaction, &err), &err);
    }
}

/* A week of which one day cannot be read, and a retention from now on that is over for all of it.
 * Returns how many profiles it has. */
static uint64_t break_a_day(struct fixture *f, int64_t place, int64_t *ret_first)
{
    const int64_t week = 7 * DAY;
    uint64_t all, alone;

    pass_time(f, week - f->clock.wall_ns % week);
    *ret_first = f->clock.wall_ns;
    for (int day = 0; day < 7; day++) {
        pass_time(f, DAY);
        arrive(f, 30, f->clock.wall_ns - 1, DAY - 2);
    }
    pass_time(f, 3 * DAY);
    turn(f);
    all = kept_of_acme(f, &alone);
    flip(f, *ret_first + 3 * DAY, place);
    tenants_free(f->tenants, &f->limits);
    f->tenants = f->config.tenants = tenants_make(&f->limits, nodes_for_long, true, f->registry);
    return all;
}

/* One day of a week cannot be read: the others become nodes, deletions of them end, and what is
 * broken goes a fortnight late; where it is mended, it is kept as any other. */
static void broken_block_holds_up_none(void **state)
{
    static const int64_t places[] = {-1, 40}; /* its directory, and what nodes are made of */

    (void)state;
    for (size_t k = 0; k < FG_COUNT(places) * 2; k++) {
        struct fixture *f = fg_new(struct fixture);
        const int64_t week = 7 * DAY, place = places[k / 2];
        uint64_t all, alone, broken;
        int64_t first;

        open_fixture(f, 31 + k);
        all = break_a_day(f, place, &first);
        bury(f, "{service_name=\"nobody\"}", first, first + week);
        restart(f);
        pass_time(f, first + 2 * week - f->clock.wall_ns + FG_HOUR_NS);
        look_again(f);
        assert_int_equal(kept_of_acme(f, &alone), all);
        assert_in_range(alone, 1, all - 1);
        broken = all - alone;
        expect_status(f, "\"error\":\"retention");
        if (k % 2 == 0) {
            flip(f, first + 3 * DAY, place);
            look_again(f);
            assert_int_equal(kept_of_acme(f, &alone), all);
            assert_int_equal(alone, all);
        } else {
            pass_time(f, 15 * DAY);
            look_again(f);
            assert_int_equal(kept_of_acme(f, &alone), all - broken);
            assert_int_equal(alone, all - broken);
        }
        let_end(f);
        assert_int_equal(count_deletions(f).pending, 0);
        close_fixture(f);
        free(f);
    }
}

/* What has been over for long when a compactor meets it is tried for a day, since what is wrong
 * may be right again: then nothing is lost. */
static void broken_block_is_tried_for_a_day(void **state)
{
    (void)state;
    for (int mended = 0; mended < 2; mended++) {
        struct fixture *f = fg_new(struct fixture);
        uint64_t all, alone;
        int64_t first;

        open_fixture(f, 37);
        all = break_a_day(f, 40, &first);
        restart(f);
        pass_time(f, 35 * DAY);
        for (int i = 0; i < 5; i++) /* 20 hours */
            look_again(f);
        assert_int_equal(kept_of_acme(f, &alone), all);
        assert_in_range(alone, 1, all - 1);
        if (mended == 1)
            flip(f, first + 3 * DAY, 40);
        for (int i = 0; i < 3; i++)
            look_again(f);
        assert_int_equal(kept_of_acme(f, &alone), mended == 1 ? all : alone);
        assert_in_range(alone, 1, mended == 1 ? all : all - 1);
        close_fixture(f);
        free(f);
    }
}

/* Days of a month: nodes over 6 hours while there are hours, then over weeks and the month. */
static void nodes_over_weeks(void **state)
{
    const int64_t month = 28 * DAY;
    struct fixture *f = fg_new(struct fixture);
    struct shape shape;

    (void)state;
    open_fixture(f, 3);
    pass_time(f, month - NOW % month);
    for (int day = 0; day < 30; day++)
        for (int quarter = 0; quarter < 4; quarter++) {
            for (int k = 0; k < (day < 28 ? 1 : 6); k++) {
                pass_time(f, day < 28 ? 6 * FG_HOUR_NS : FG_HOUR_NS);
                arrive(f, 20, f->clock.wall_ns, FG_HOUR_NS);
            }
            turn(f);
        }
    pass_time(f, 12 * FG_MINUTE_NS);
    turn(f);
    shape = shape_of(f);
    assert_in_range(shape.nodes, 2 * (4 + 1), 2 * (4 + 1 + 4)); /* of two tenants */
    assert_in_range(f->n_nodes_parts, 50, SIZE_MAX);
    verify_bucket(f, ", and 7 of merged nodes over these\n");
    close_fixture(f);
    free(f);
}

/* Each window's segment comes a minute after its end. */
static void live_steadily(struct fixture *f, uint32_t windows)
{
    struct fg_err err;

    for (uint32_t w = 0; w < windows; w++) {
        pass_time(f, 10 * FG_MINUTE_NS);
        arrive_steadily(f, 12, f->clock.wall_ns - FG_MINUTE_NS);
        must(compaction_round(f->compaction, &err), &err);
    }
    check(f);
}

/* What begins in one hour and ends in the next is no block of its own: of the open day there is one
 * of each hour, and nodes over 6 of them; of a day that is over one. */
static void steady_data_makes_a_block_an_hour(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct shape shape;

    (void)state;
    open_fixture(f, 21);
    pass_time(f, FG_MINUTE_NS);
    live_steadily(f, 6 * 20);
    shape = shape_of(f);
    assert_int_equal(shape.hours, 2 * 19); /* of two tenants; the last hour is segments */
    assert_int_equal(shape.nodes, 2 * 3);
    live_steadily(f, 6 * 5 + 1);
    assert_in_range(shape_of(f).hours, 2 * 25 + 1, 2 * 26); /* what came at midnight is apart */
    live_steadily(f, 6);
    shape = shape_of(f);
    assert_int_equal(shape.days, 2 + 1); /* the first profile of all begins the day before */
    assert_int_equal(shape.hours, 2 * 2);
    assert_int_equal(shape.nodes, 0);
    verify_bucket(f, "\n");
    close_fixture(f);
    free(f);
}

/* Late data is a patch, unless it is little and of the hour before. */
static void late_data_of_the_open_day(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    uint32_t hours;

    (void)state;
    open_fixture(f, 23);
    pass_time(f, FG_MINUTE_NS);
    live_steadily(f, 6 * 5);
    hours = shape_of(f).hours;
    arrive(f, 6, NOW + 3 * FG_HOUR_NS, FG_MINUTE_NS);
    live_steadily(f, 1);
    assert_int_equal(shape_of(f).hours, hours + 2 + 2); /* patches, and one more hour */
    live_steadily(f, 12);
    assert_int_equal(shape_of(f).hours, hours + 2 + 2 * 3);
    verify_bucket(f, "\n");
    close_fixture(f);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_segments_to_days),
        cmocka_unit_test(late_and_old),
        cmocka_unit_test(any_weather),
        cmocka_unit_test(survives_refusals),
        cmocka_unit_test(survives_lost_answers),
        cmocka_unit_test(survives_kills),
        cmocka_unit_test(two_compactors),
        cmocka_unit_test(compactors_share_tenants),
        cmocka_unit_test(another_ones_broken_manifest),
        cmocka_unit_test(broken_segment),
        cmocka_unit_test(halves_under_small_memory),
        cmocka_unit_test(deletions),
        cmocka_unit_test(deletion_waits_for_ingesters),
        cmocka_unit_test(a_deletion_asked_of_another_compactor),
        cmocka_unit_test(retention),
        cmocka_unit_test(nodes_over_weeks),
        cmocka_unit_test(steady_data_makes_a_block_an_hour),
        cmocka_unit_test(late_data_of_the_open_day),
        cmocka_unit_test(nodes_outlive_profiles),
        cmocka_unit_test(broken_block_holds_up_none),
        cmocka_unit_test(broken_block_is_tried_for_a_day),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
