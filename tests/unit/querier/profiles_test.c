/* Tests the export of single profiles: each comes as it was sent. */
#include "querier/export.h"
#include "tests/lib/seeds.h"
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct visits {
    const struct world *world;
    const struct ask *ask;
    struct fg_tree tree; /* stacks of the first type */
    bool *seen;          /* [world->n_profiles]: a profile may come twice */
};

static uint32_t profile_of(const struct world *world, struct fg_id id)
{
    for (uint32_t i = 0; i < world->n_profiles; i++)
        if (fg_id_eq(world->profiles[i].id, id))
            return i;
    fail_msg("a profile nobody has sent");
    return 0;
}

static void merge_profile(const struct qry_one_profile *profile, struct fg_tree *into)
{
    struct fg_tree view = *profile->tree;

    view.root_self = 0;
    view.self = fg_calloc((size_t)view.n_nodes + 1, sizeof *view.self);
    for (uint32_t i = 0; i < profile->samples.count; i++)
        fg_tree_add(&view, profile->samples.nodes[i], profile->samples.values[i]);
    fg_tree_merge_used(into, &view);
    free(view.self);
}

/* Without a type the profile has all its types, in their order. */
static void assert_all_types(const struct world_profile *sent, const struct fg_pprof_samples *found)
{
    for (uint32_t t = 0; t < found->n_types; t++) {
        uint64_t sum = 0, want = 0;

        for (uint32_t i = 0; i < found->count; i++)
            sum += (uint64_t)found->values[t * found->count + i];
        for (uint32_t i = 0; i < sent->n_samples; i++)
            want += sent->samples[i].values[t];
        assert_true(sum == want);
    }
}

static enum fg_code visit_profile(void *arg, const struct qry_one_profile *profile,
                                  struct fg_err *err)
{
    struct visits *visits = arg;
    uint32_t number = profile_of(visits->world, profile->id);
    const struct world_profile *sent = &visits->world->profiles[number];

    (void)err;
    assert_true(profile->head.time_ns == sent->time_ns);
    assert_true(profile->head.duration_ns == sent->duration_ns);
    assert_int_equal(fg_labels_cmp(profile->labels, &visits->world->series[sent->series].labels),
                     0);
    if (visits->ask->selection.type_text == NULL)
        assert_all_types(sent, &profile->samples);
    else
        assert_int_equal(profile->samples.n_types, 1);
    if (!visits->seen[number])
        merge_profile(profile, &visits->tree);
    visits->seen[number] = true;
    return FG_OK;
}

static void check_visits(const struct visits *visits)
{
    static const struct qry_stack_filter all;
    struct fg_arena *arena = visits->ask->query->arena;
    struct fg_tree want;

    if (visits->ask->selection.type_text == NULL)
        return;
    fg_tree_init(&want);
    world_select(visits->world, &visits->ask->asked, &all, false, &want);
    assert_string_equal(asker_tree_text(&visits->tree, arena), asker_tree_text(&want, arena));
    fg_tree_done(&want);
}

/* Commits all profiles. */
static enum fg_code check_profiles(struct asker *asker, struct fg_err *err)
{
    struct visits visits = {.world = &asker->world, .seen = fg_calloc(asker->world.n_profiles, 1)};
    struct ask ask;
    enum fg_code code;

    ask_begin(asker, &ask);
    if (asker_draw(asker, 4) == 0)
        ask_for_all_time(&ask);
    if (asker_draw(asker, 4) == 0)
        ask.selection.type_text = NULL;
    visits.ask = &ask;
    fg_tree_init(&visits.tree);
    code = qry_collect_profiles(ask.query, &ask.selection, visit_profile, &visits, err);
    if (code == FG_OK)
        check_visits(&visits);
    fg_tree_done(&visits.tree);
    free(visits.seen);
    ask_end(&ask);
    return code;
}

/* Exports without peers while segments become blocks; the manifests are new, or outdated. */
static void each_profile_is_visited_as_it_was_sent(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(6); seed++) {
        struct asker asker = {.random = seed};
        struct fg_err err;

        asker_init(&asker, seed, seed % 3 == 0 ? UINT64_C(64) << 20 : 100 * 1024, NULL);
        asker.querier->ingester = NULL;
        for (unsigned i = 0; i < 30; i++) {
            world_push(&asker.world, 20);
            world_commit(&asker.world, 1000);
            fg_clock_manual_advance(&asker.clock, seed % 2 == 0 ? FG_MINUTE_NS : 10 * FG_SECOND_NS);
            asker_must(check_profiles(&asker, &err), &err);
            asker_happen(&asker, ASKER_COMPACT +
                                     world_random(&asker.world, ASKER_HAPPENINGS - ASKER_COMPACT));
            asker_must(check_profiles(&asker, &err), &err);
        }
        asker_done(&asker);
    }
}

/* An export reads the deletions of its tenant, some with regular expressions, and frees them. */
static void export_of_a_tenant_with_deletions(void **state)
{
    struct asker asker = {.random = 1};

    (void)state;
    asker_init(&asker, 1, UINT64_C(64) << 20, NULL);
    asker.querier->ingester = NULL;
    world_push(&asker.world, 40);
    world_commit(&asker.world, 1000);
    fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
    for (uint32_t tenant = 0; tenant < WORLD_TENANTS; tenant++) {
        struct fg_arena *arena = fg_arena_create(ASKER_ARENA_BYTES);
        struct qry_export what = {.tenant = asker.world.tenants[tenant],
                                  .selector = "{}",
                                  .start_ms = 1,
                                  .end_ms = INT64_MAX,
                                  .deadline_mono_ns = INT64_MAX};
        struct fg_slice *ids;
        struct fg_err err;
        size_t n;

        for (unsigned i = 0; i < 4; i++)
            world_delete(&asker.world, tenant);
        assert_true(asker.world.deletions[tenant].count > 0);
        asker_must(qry_export_types(asker.querier, &what, arena, &ids, &n, &err), &err);
        fg_arena_destroy(arena);
    }
    asker_done(&asker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_profile_is_visited_as_it_was_sent),
        cmocka_unit_test(export_of_a_tenant_with_deletions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
