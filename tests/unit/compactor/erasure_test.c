/* Whole tenants are deleted: what goes, what stays, and that kills and old knowledge do no harm. */
#include "common/access/registry/registry_object.h"
#include "common/access/registry/tenant_deletion.h"
#include "common/runtime/log.h"
#include "tests/unit/compactor/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { TURNS_MAX = 200 };

struct fixture {
    struct world *world;
    struct fg_access_settings settings;
    char empty[1];
    struct fg_access *access; /* of the compactor: it looks when the test says so */
};

static void open_world(struct fixture *f, uint64_t seed)
{
    struct fg_access_config config = {.settings = &f->settings, .listen = "127.0.0.1:4040"};
    struct fg_err err;

    *f = (struct fixture){.world = fg_new(struct world)};
    world_open(f->world, seed);
    f->settings = (struct fg_access_settings){.mode = FG_ACCESS_NONE,
                                              .trusted_cidrs = f->empty,
                                              .poll_ns = FG_HOUR_NS,
                                              .stale_max_ns = 24 * FG_HOUR_NS,
                                              .bootstrap_token_file = f->empty,
                                              .copy = f->empty,
                                              .failures_per_minute = 20};
    config.clock = &f->world->clock.clock;
    config.registry = f->world->registry;
    world_must(fg_access_create(&config, &f->access, &err), &err);
    world_must(fg_access_follow(f->access, f->world->memory, &err), &err);
    fg_access_refresh(f->access); /* its thread has looked, and will not for an hour */
    f->world->config.access = f->access;
    world_restart(f->world);
}

static void close_world(struct fixture *f)
{
    cmp_compaction_destroy(f->world->compaction);
    f->world->compaction = NULL;
    fg_access_destroy(f->access);
    world_close(f->world);
    free(f->world);
}

/* ---- the registry ---- */

static enum fg_code create(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    return fg_access_create_tenant(change, fg_cstr(arg), err);
}

static enum fg_code ask_to_delete(void *arg, const struct fg_access_change *change,
                                  struct fg_err *err)
{
    return fg_access_delete_tenant(change, fg_cstr(arg), err);
}

/* As if somebody had created it again just now. */
static enum fg_code revive(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    (void)err;
    for (size_t i = 0; i < change->registry->n_tenants; i++)
        if (strcmp(change->registry->tenants[i]->id, arg) == 0) {
            change->registry->tenants[i]->state = ACCESS__TENANT__STATE__ACTIVE;
            change->registry->tenants[i]->deletion = NULL;
        }
    return FG_OK;
}

static void swap(struct fixture *f, fg_access_edit edit, const char *tenant)
{
    struct fg_err err;
    char name[64];

    (void)snprintf(name, sizeof name, "%s", tenant);
    world_must(
        fg_access_swap(&(struct fg_access_writer){.bucket = f->world->memory,
                                                  .by = "test",
                                                  .now_ms = f->world->clock.wall_ns / FG_MS_NS},
                       edit, name, &err),
        &err);
}

/* What the bucket says of the tenant. */
static Access__TenantDeletion read_deletion(struct fixture *f, const char *tenant,
                                            Access__Tenant__State *ret_state)
{
    Access__TenantDeletion deletion = ACCESS__TENANT_DELETION__INIT;
    struct fg_access_registry *registry;
    const Access__Tenant *entry;
    struct fg_err err;

    world_must(fg_access_read(f->world->memory, 0, &registry, &err), &err);
    entry = fg_access_find_tenant(registry, fg_cstr(tenant));
    assert_non_null(entry);
    *ret_state = entry->state;
    if (entry->deletion != NULL)
        deletion = *entry->deletion;
    deletion.asked_by = NULL; /* it is the registry's */
    fg_access_registry_unref(registry);
    return deletion;
}

/* ---- the world ---- */

static bool is_not_acme(const struct made_profile *profile)
{
    return profile->tenant != 0;
}

static uint64_t count_of_acme(const struct fixture *f)
{
    uint64_t n = 0;

    for (size_t i = 0; i < f->world->n_profiles; i++)
        n += f->world->profiles[i].tenant == 0;
    return n;
}

struct names {
    char text[4096];
};

static bool add_name(const struct fg_bucket_entry *entry, void *arg)
{
    struct names *names = arg;
    size_t len = strlen(names->text);

    if (strstr(entry->name, "acme") != NULL)
        (void)snprintf(names->text + len, sizeof names->text - len, "%s ", entry->name);
    return true;
}

/* The names of all objects with the tenant's name in theirs. */
static struct names names_of_acme(struct fixture *f)
{
    struct names names = {""};
    struct fg_err err;

    world_must(fg_bucket_each(f->world->memory, "", false, 0, add_name, &names, &err), &err);
    return names;
}

/* What others than the compactor have of the tenant in the bucket. */
static void put_other_objects(struct fixture *f)
{
    static const char *const objects[] = {
        "tenants/acme/settings",
        "tenants/acme/rules",
        "tenants/acme/adhoc/00000000000000000000000001-0000000000000001-00000001-cpu.pb",
        "tenants/acme/blocks/00000000000000010000000000000001", /* an orphan */
        "usage/days/acme/2099-01-01/0000000001",
        "manifests/kept/tenants/acme/manifest/0",
        "manifests/kept/tenants/acme/manifest/1",
        "tenants/acme2/settings", /* of somebody else */
    };

    char foreign[FG_BUCKET_NAME_MAX_BYTES + 1]; /* longer than any name of ours */

    for (size_t i = 0; i < FG_COUNT(objects); i++)
        world_put(f->world, objects[i], FG_LIT("something"));
    (void)snprintf(foreign, sizeof foreign, "tenants/acme/%0150d/%0150d/%0150d", 1, 2, 3);
    world_put(f->world, foreign, FG_LIT("something"));
}

/* Lets time pass and ingesters answer until the tenant is gone. round: one of the compactor. */
static void let_it_end(struct fixture *f, void (*round)(struct world *world))
{
    Access__Tenant__State state = ACCESS__TENANT__STATE__DELETING;

    for (int i = 0; i < TURNS_MAX && state == ACCESS__TENANT__STATE__DELETING; i++) {
        round(f->world);
        (void)world_be_clean(f->world);
        world_pass_time(f->world, 10 * FG_MINUTE_NS);
        (void)read_deletion(f, "acme", &state);
    }
    assert_int_equal(state, ACCESS__TENANT__STATE__DELETED);
}

static void ask_for_deletion(struct fixture *f)
{
    swap(f, create, "acme");
    swap(f, create, "zoo");
    swap(f, ask_to_delete, "acme");
    fg_access_look(f->access);
}

static void a_tenant_goes_with_everything(void **state)
{
    struct fixture f;
    Access__Tenant__State said;
    Access__TenantDeletion deletion;
    uint64_t listed, late;

    (void)state;
    open_world(&f, 21);
    world_arrive(f.world, 300, WORLD_NOW, 20 * FG_HOUR_NS);
    world_pass_time(f.world, 2 * PLAN_DAY_NS);
    world_turn(f.world);
    world_arrive(f.world, 50, WORLD_NOW + 2 * PLAN_DAY_NS, FG_HOUR_NS);
    put_other_objects(&f);
    listed = count_of_acme(&f);
    ask_for_deletion(&f);
    world_keep(f.world, is_not_acme);
    world_turn(f.world); /* at once nothing of it is listed */
    deletion = read_deletion(&f, "acme", &said);
    assert_int_equal(said, ACCESS__TENANT__STATE__DELETING);
    assert_int_equal(deletion.listed, listed);
    assert_true(deletion.blocks > 0 && deletion.bytes > 0 && deletion.segments > 0);
    world_arrive(f.world, 40, WORLD_NOW + 2 * PLAN_DAY_NS, FG_HOUR_NS); /* ingesters had that */
    late = count_of_acme(&f);
    assert_true(late > 0);
    world_keep(f.world, is_not_acme);
    let_it_end(&f, world_turn);
    deletion = read_deletion(&f, "acme", &said);
    assert_int_equal(deletion.removed, listed + late);
    assert_true(deletion.ended_ms > deletion.asked_ms);
    assert_string_equal(names_of_acme(&f).text, "tenants/acme/manifest tenants/acme2/settings ");
    assert_int_equal(world_shape_of(f.world).gone, 0);
    world_verify(f.world, "");
    close_world(&f);
}

/* An ingester that was away for days commits what it has, and the tenant has ended long ago: the
 * operator had told the ring to forget it. */
static void objects_that_arrive_after_the_end_are_erased(void **state)
{
    struct fixture f;

    (void)state;
    open_world(&f, 22);
    world_arrive(f.world, 60, WORLD_NOW, FG_HOUR_NS);
    ask_for_deletion(&f);
    world_keep(f.world, is_not_acme);
    let_it_end(&f, world_turn);
    fg_access_look(f.access);
    world_arrive(f.world, 60, WORLD_NOW, FG_HOUR_NS);
    assert_true(count_of_acme(&f) > 0);
    world_keep(f.world, is_not_acme);
    world_turn(f.world);
    for (int i = 0; i < 20; i++) {
        world_pass_time(f.world, 20 * FG_MINUTE_NS);
        world_turn(f.world);
    }
    assert_string_equal(names_of_acme(&f).text, "tenants/acme/manifest ");
    assert_int_equal(world_shape_of(f.world).gone, 0);
    close_world(&f);
}

static void a_tenant_of_the_same_name_begins_empty(void **state)
{
    struct fixture f;

    (void)state;
    open_world(&f, 23);
    world_arrive(f.world, 60, WORLD_NOW, FG_HOUR_NS);
    ask_for_deletion(&f);
    world_keep(f.world, is_not_acme);
    let_it_end(&f, world_turn);
    swap(&f, create, "acme");
    world_arrive(f.world, 60, WORLD_NOW, FG_HOUR_NS);
    world_turn(f.world); /* the compactor still believes that it is deleted */
    fg_access_look(f.access);
    world_pass_time(f.world, 2 * PLAN_DAY_NS);
    world_turn(f.world);
    assert_true(count_of_acme(&f) > 0);
    world_verify(f.world, "");
    close_world(&f);
}

/* The compactor has heard of the deletion, but not yet that it is over. */
static void old_knowledge_deletes_nothing(void **state)
{
    struct fixture f;

    (void)state;
    open_world(&f, 24);
    world_arrive(f.world, 60, WORLD_NOW, FG_HOUR_NS);
    ask_for_deletion(&f);
    swap(&f, revive, "acme");
    for (int i = 0; i < 5; i++) {
        world_pass_time(f.world, FG_HOUR_NS);
        world_turn(f.world);
    }
    close_world(&f);
}

/* It was created, somebody set it up, and nobody ever sent a profile. */
static void a_tenant_without_profiles_goes(void **state)
{
    struct fixture f;
    Access__Tenant__State said;

    (void)state;
    open_world(&f, 25);
    put_other_objects(&f);
    ask_for_deletion(&f);
    let_it_end(&f, world_turn);
    assert_int_equal(read_deletion(&f, "acme", &said).removed, 0);
    assert_string_equal(names_of_acme(&f).text, "tenants/acme/manifest tenants/acme2/settings ");
    close_world(&f);
}

/* Replaces the selector of a pending deletion in the manifest by one that nobody can read. */
static void spoil_deletion(struct fixture *f)
{
    struct cmp_env env = world_env(f->world);
    struct fg_manifest *manifest = NULL;
    struct fg_buf bytes;
    struct fg_err err;

    world_must(cmp_env_read_manifest(&env, FG_LIT("acme"), &manifest, &err), &err);
    assert_true(manifest->blocks.n_tombstones > 0);
    manifest->blocks.tombstones[0].selector = FG_LIT("{a=");
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    world_must(fg_blocks_encode(&manifest->blocks, &bytes, &err), &err);
    world_put(f->world, "tenants/acme/manifest", fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
    fg_manifest_unref(manifest);
}

/* They would never complete: a tenant that is deleted is not compacted any more. */
static void pending_deletions_do_not_hold_it_up(void **state)
{
    (void)state;
    for (int spoilt = 0; spoilt < 2; spoilt++) {
        struct fixture f;
        Access__Tenant__State said;
        uint64_t listed;

        open_world(&f, 26);
        world_arrive(f.world, 60, WORLD_NOW, FG_HOUR_NS);
        for (int i = 0; i < (spoilt ? 3 : FG_BLOCKS_TOMBSTONES_MAX); i++)
            world_bury(f.world, "{service_name=\"nobody\"}", i, i + 1);
        if (spoilt)
            spoil_deletion(&f);
        listed = count_of_acme(&f);
        ask_for_deletion(&f);
        world_keep(f.world, is_not_acme);
        let_it_end(&f, world_turn);
        assert_int_equal(read_deletion(&f, "acme", &said).removed, listed);
        assert_string_equal(names_of_acme(&f).text, "tenants/acme/manifest ");
        close_world(&f);
    }
}

/* An object as an ingester leaves it that ends between upload and commit. */
static void upload_segment(struct fixture *f, struct fg_segment_id id, bool of_acme_alone)
{
    struct made_profile profiles[40];
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf object;
    size_t n = 0;

    for (uint64_t i = 0; n < FG_COUNT(profiles); i++) {
        profiles[n] = made_draw(f->world->seed, 100000 + i, WORLD_NOW - (int64_t)i);
        n += !of_acme_alone || profiles[n].tenant == 0;
    }
    fg_buf_init(&object, SIZE_MAX);
    (void)made_write(profiles, n, 0, 1, &object);
    fg_name_segment(name, &id);
    world_put(f->world, name, fg_buf_slice(&object));
    fg_buf_done(&object);
}

static bool has_object(struct fixture *f, struct fg_segment_id id)
{
    struct fg_bucket_request head = {.verb = FG_BUCKET_HEAD};
    char name[FG_NAME_MAX_BYTES];
    enum fg_code code;

    fg_name_segment(name, &id);
    head.name = name;
    code = fg_bucket_call(f->world->memory, &head);
    fg_bucket_clear(&head);
    return code == FG_OK;
}

/* They are in no manifest, and a sweep for orphans comes a day later. */
static void segments_that_no_manifest_lists_are_gone_at_the_end(void **state)
{
    struct fg_segment_id lost, own = {{6, 6}, 1, 1};
    struct fixture f;

    (void)state;
    open_world(&f, 27);
    world_arrive(f.world, 60, WORLD_NOW, FG_HOUR_NS);
    world_pass_time(f.world, FG_HOUR_NS);
    world_turn(f.world); /* with a sweep; the next one is six hours away, after the end */
    /* The cut was built once more, under another name, and that one was committed. */
    lost = (struct fg_segment_id){{5, 5}, f.world->cuts, 2};
    upload_segment(&f, lost, false);
    /* A store that the manifest has never heard of. */
    upload_segment(&f, own, true);
    ask_for_deletion(&f);
    world_keep(f.world, is_not_acme);
    let_it_end(&f, world_turn);
    assert_false(has_object(&f, lost));
    assert_false(has_object(&f, own));
    close_world(&f);
}

/* The number that ingesters were asked to be clean of. */
static uint64_t asked(struct fixture *f)
{
    struct cmp_env env = world_env(f->world);
    struct fg_manifest *l0 = NULL;
    struct fg_err err;
    uint64_t number;

    world_must(cmp_env_read_manifest(&env, FG_LIT(""), &l0, &err), &err);
    number = l0->l0.asked;
    fg_manifest_unref(l0);
    return number;
}

/* So many rounds of the compactor. Ingesters answer up to this number. */
static void turn(struct fixture *f, int n, uint64_t answered)
{
    for (int i = 0; i < n; i++) {
        world_turn(f->world);
        if (asked(f) <= answered)
            (void)world_be_clean(f->world);
        world_pass_time(f->world, 10 * FG_MINUTE_NS);
    }
}

static bool is_deleted(struct fixture *f)
{
    Access__Tenant__State state;

    (void)read_deletion(f, "acme", &state);
    return state == ACCESS__TENANT__STATE__DELETED;
}

/* One may be on its way into the manifest, or be the only copy of what others have in it. */
static void segments_that_others_share_go_when_nobody_can_commit_them(void **state)
{
    const struct fg_segment_id unknown = {{6, 6}, 1, 1}, own = {{5, 5}, 1000, 1};
    struct fixture f;

    (void)state;
    open_world(&f, 28);
    world_arrive(f.world, 60, WORLD_NOW, FG_HOUR_NS);
    upload_segment(&f, unknown, false);
    upload_segment(&f, own, false);
    ask_for_deletion(&f);
    world_keep(f.world, is_not_acme);
    turn(&f, 60, COMPLETION_QUIET); /* what is asked then is about these */
    assert_int_equal(asked(&f), COMPLETION_QUIET + 1);
    assert_false(is_deleted(&f));
    assert_true(has_object(&f, unknown) && has_object(&f, own));
    world_expect_status(f.world, "\"deletions_wait_for\":\"this server\"");
    let_it_end(&f, world_turn);
    assert_false(has_object(&f, unknown) || has_object(&f, own));
    close_world(&f);
}

/* A program that was forgotten may still run, and commit what it has just uploaded. */
static void segments_that_others_share_stay_while_they_are_young(void **state)
{
    const struct fg_segment_id shared = {{6, 6}, 1, 1};
    struct fixture f;

    (void)state;
    open_world(&f, 29);
    f.world->clock.wall_ns = fg_wall_ns(fg_clock_real()); /* that of the bucket in memory */
    upload_segment(&f, shared, false);
    ask_for_deletion(&f);
    turn(&f, 11, UINT64_MAX); /* less than two hours */
    assert_int_equal(asked(&f), COMPLETION_QUIET + 1);
    assert_false(is_deleted(&f));
    assert_true(has_object(&f, shared));
    let_it_end(&f, world_turn);
    assert_false(has_object(&f, shared));
    close_world(&f);
}

static void restarting_round(struct world *world)
{
    world_turn(world);
    if (++world->drawn % 4 == 0)
        world_restart(world);
}

/* Then it asks again. */
static void compactor_may_forget_segments_that_others_share(void **state)
{
    const struct fg_segment_id shared = {{6, 6}, 1, 1};
    struct fixture f;

    (void)state;
    open_world(&f, 31);
    world_arrive(f.world, 60, WORLD_NOW, FG_HOUR_NS);
    upload_segment(&f, shared, false);
    ask_for_deletion(&f);
    world_keep(f.world, is_not_acme);
    turn(&f, 60, COMPLETION_QUIET);
    assert_int_equal(asked(&f), COMPLETION_QUIET + 1);
    world_restart(f.world);
    turn(&f, 10, COMPLETION_QUIET);
    assert_int_equal(asked(&f), COMPLETION_QUIET + 2);
    assert_true(has_object(&f, shared));
    let_it_end(&f, restarting_round);
    assert_false(has_object(&f, shared));
    close_world(&f);
}

/* All of it is in segments that were never listed, more than a compactor remembers. */
static void tenant_that_was_never_listed_goes(void **state)
{
    struct fixture f;

    (void)state;
    open_world(&f, 30);
    for (uint64_t i = 0; i <= ERASURE_SHARED_MAX; i++)
        upload_segment(&f, (struct fg_segment_id){{6, 6}, 1, i}, false);
    ask_for_deletion(&f);
    let_it_end(&f, world_turn);
    for (uint64_t i = 0; i <= ERASURE_SHARED_MAX; i++)
        assert_false(has_object(&f, (struct fg_segment_id){{6, 6}, 1, i}));
    close_world(&f);
}

/* Each round of the compactor is killed after some requests, and another one goes on. */
static void killed_round(struct world *world)
{
    world->mortal.left = fg_mix64(world->seed * 1000 + ++world->drawn) % 50;
    world_try_round(world);
    world->mortal.left = UINT64_MAX;
    world_restart(world);
}

static void kills_at_any_request_change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 30; seed < 50; seed++) {
        struct fixture f;
        Access__Tenant__State said;
        uint64_t listed;

        open_world(&f, seed);
        world_arrive(f.world, 60, WORLD_NOW, 20 * FG_HOUR_NS);
        world_pass_time(f.world, 2 * PLAN_DAY_NS);
        world_turn(f.world);
        world_arrive(f.world, 20, WORLD_NOW + 2 * PLAN_DAY_NS, FG_HOUR_NS);
        put_other_objects(&f);
        listed = count_of_acme(&f);
        ask_for_deletion(&f);
        let_it_end(&f, killed_round);
        assert_int_equal(read_deletion(&f, "acme", &said).removed, listed);
        world_keep(f.world, is_not_acme);
        world_check(f.world);
        assert_string_equal(names_of_acme(&f).text,
                            "tenants/acme/manifest tenants/acme2/settings ");
        close_world(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_goes_with_everything),
        cmocka_unit_test(objects_that_arrive_after_the_end_are_erased),
        cmocka_unit_test(a_tenant_of_the_same_name_begins_empty),
        cmocka_unit_test(old_knowledge_deletes_nothing),
        cmocka_unit_test(a_tenant_without_profiles_goes),
        cmocka_unit_test(pending_deletions_do_not_hold_it_up),
        cmocka_unit_test(segments_that_no_manifest_lists_are_gone_at_the_end),
        cmocka_unit_test(segments_that_others_share_go_when_nobody_can_commit_them),
        cmocka_unit_test(segments_that_others_share_stay_while_they_are_young),
        cmocka_unit_test(compactor_may_forget_segments_that_others_share),
        cmocka_unit_test(tenant_that_was_never_listed_goes),
        cmocka_unit_test(kills_at_any_request_change_nothing),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
