/* Tests the export of single profiles: each comes as it was sent. */
#include "common/model/batch_tree.h"
#include "proto/builder/builder.h"
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

/* ---- as batches ---- */

struct batches {
    const struct world *world;
    bool *seen; /* [world->n_profiles] */
    uint64_t n;
};

static void assert_samples(const struct world *world, const struct world_profile *sent,
                           const struct fg_batch *batch, struct fg_arena *arena)
{
    uint64_t links = 0;

    for (uint32_t i = 0; i < sent->n_samples; i++)
        links += sent->samples[i].n_links;
    assert_true(batch->profiles[0].n_links <= links);
    for (uint32_t t = 0; t < batch->n_types; t++) {
        struct fg_tree found, want = world->tree;
        struct fg_err err;

        fg_tree_init(&found);
        want.root_self = 0;
        want.self = fg_calloc((size_t)want.n_nodes + 1, sizeof *want.self);
        for (uint32_t i = 0; i < sent->n_samples; i++)
            fg_tree_add(&want, sent->samples[i].stack - 1, (int64_t)sent->samples[i].values[t]);
        asker_must(fg_batch_tree_add(batch, t, SIZE_MAX, &found, &err), &err);
        assert_string_equal(asker_tree_text(&found, arena), asker_tree_text(&want, arena));
        free(want.self);
        fg_tree_done(&found);
    }
}

/* The ids of stacks follow from their content, as where they come from and where they go. */
static void assert_ids(const struct fg_batch *batch, struct fg_arena *arena)
{
    static const struct fg_decode_limits limits = FG_DECODE_LIMITS_DEFAULT;
    struct fg_decode_counts unused = {0};
    struct fg_batch copy = *batch;
    struct fg_builder *builder = fg_builder_create(arena, &limits, &copy, &unused);
    struct fg_err err;

    assert_int_equal(fg_builder_hash_locations(builder, &err), FG_OK);
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        const struct fg_stack *stack = &batch->stacks[i];

        assert_true(
            fg_id_eq(stack->id, fg_builder_stack_id(builder, batch->stack_locations + stack->first,
                                                    stack->depth)));
        for (uint32_t k = 0; k < i; k++)
            assert_false(fg_id_eq(stack->id, batch->stacks[k].id));
    }
}

static enum fg_code take_batch(void *arg, const struct fg_batch *batch, struct fg_err *err)
{
    struct batches *batches = arg;
    struct fg_arena *arena = fg_arena_create(ASKER_ARENA_BYTES);
    const struct fg_profile *profile = &batch->profiles[0];
    const struct world_profile *sent;
    uint32_t number;

    (void)err;
    assert_int_equal(batch->n_profiles, 1);
    number = profile_of(batches->world, profile->id);
    sent = &batches->world->profiles[number];
    assert_false(batches->seen[number]); /* nothing is compacted meanwhile */
    batches->seen[number] = true;
    batches->n++;
    assert_true(profile->time_ns == sent->time_ns);
    assert_true(profile->duration_ns == sent->duration_ns);
    assert_int_equal(fg_labels_cmp(&profile->labels, &batches->world->series[sent->series].labels),
                     0);
    assert_ids(batch, arena);
    assert_samples(batches->world, sent, batch, arena);
    fg_arena_destroy(arena);
    return FG_OK;
}

static bool has_values(const struct world_profile *profile)
{
    for (uint32_t i = 0; i < profile->n_samples; i++)
        for (unsigned t = 0; t < WORLD_TYPES_MAX; t++)
            if (profile->samples[i].values[t] != 0)
                return true;
    return false;
}

/* All tenants are listed, and each profile is a batch with its id and the content that it had. */
static void batches_are_those_of_the_uploads(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(4); seed++) {
        struct asker asker = {.random = seed};
        struct batches batches = {.world = &asker.world};
        struct fg_arena *arena = fg_arena_create(ASKER_ARENA_BYTES);
        uint64_t want = 0, counted = 0;
        struct fg_slice *tenants;
        struct fg_err err;
        size_t n;

        asker_init(&asker, seed, UINT64_C(64) << 20, NULL);
        asker.querier->ingester = NULL;
        world_push(&asker.world, 60);
        world_commit(&asker.world, 1000);
        world_compact(&asker.world, 0);
        fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
        batches.seen = fg_calloc(asker.world.n_profiles, 1);
        asker_must(qry_export_tenants(asker.querier, INT64_MAX, arena, &tenants, &n, &err), &err);
        assert_int_equal(n, WORLD_TENANTS);
        for (size_t i = 0; i < n; i++) {
            const struct qry_export what = {.tenant = tenants[i],
                                            .selector = "{}",
                                            .start_ms = 1,
                                            .end_ms = INT64_MAX,
                                            .deadline_mono_ns = INT64_MAX};
            struct qry_export_counts counts = {0, 1};

            asker_must(qry_export_batches(asker.querier, &what, take_batch, &batches, &err), &err);
            asker_must(qry_export_count(asker.querier, &what, &counts, &err), &err);
            assert_int_equal(counts.lost, 0);
            counted += counts.profiles;
        }
        for (uint32_t i = 0; i < asker.world.n_profiles; i++)
            want += has_values(&asker.world.profiles[i]);
        assert_int_equal(batches.n, want);
        /* Segments and blocks, each once; those without a value of any type, too. */
        assert_int_equal(counted, asker.world.n_profiles);
        free(batches.seen);
        fg_arena_destroy(arena);
        asker_done(&asker);
    }
}

/* ---- maps in arenas ---- */

/* The map that was added to last. Maps have their values one after the other. */
static struct {
    const struct fg_map *map;
    uint32_t n;
    uint64_t sum;        /* of the slots between a value and the slot of its hash */
    double most_distant; /* the largest mean of all maps of more than a few values */
} added;

bool __real_fg_map_add_in(struct fg_map *map, struct fg_arena *arena, uint64_t hash,
                          uint32_t value);
bool __wrap_fg_map_add_in(struct fg_map *map, struct fg_arena *arena, uint64_t hash,
                          uint32_t value);

/* The linker gives our own code this one. */
bool __wrap_fg_map_add_in(struct fg_map *map, struct fg_arena *arena, uint64_t hash, uint32_t value)
{
    enum { FEW = 100 };
    bool fits = __real_fg_map_add_in(map, arena, hash, value);
    uint32_t slot = (uint32_t)hash & map->mask;

    if (map != added.map) {
        added.map = map;
        added.n = 0;
        added.sum = 0;
    }
    while (fits && map->slots[slot].value != value) {
        slot = (slot + 1) & map->mask;
        added.sum++;
    }
    if (++added.n > FEW)
        added.most_distant = FG_MAX(added.most_distant, (double)added.sum / added.n);
    return fits;
}

static enum fg_code count_stacks(void *arg, const struct fg_batch *batch, struct fg_err *err)
{
    uint32_t *n_stacks = arg;

    (void)err;
    *n_stacks += batch->n_stacks;
    return FG_OK;
}

/* Adds a profile of which a chain of calls is all stacks, so that nodes are numbered by depth in
 * the block, too. Samples end in the nodes that would fall into a few slots of the map, if nothing
 * of it were secret. */
static void push_chosen(struct world *world, uint32_t depth, uint64_t slot_bits)
{
    uint32_t location = fg_symbols_name_location(&world->tree.symbols, FG_LIT("chosen"));
    uint32_t node = FG_TREE_ROOT;
    struct world_profile *profile;

    world_push(world, 1);
    profile = &world->profiles[world->n_profiles - 1];
    profile->samples = fg_arena_new(world->arena, struct world_sample, depth);
    profile->n_samples = 0;
    for (uint32_t i = 0; i < depth; i++) {
        node = fg_tree_child(&world->tree, node, location);
        if ((fg_mix64(i) & slot_bits) != 0)
            continue;
        profile->samples[profile->n_samples++] =
            (struct world_sample){.stack = node + 1, .values = {1, 1, 1, 1}};
    }
}

static void chosen_stacks_do_not_meet_in_the_map(void **state)
{
    enum { DEPTH = 20000, SLOT_BITS = 0x3f, MOST = 10 };
    struct asker asker = {.random = 1, .keeps_all = true};
    struct qry_export what = {
        .selector = "{}", .start_ms = 1, .end_ms = INT64_MAX, .deadline_mono_ns = INT64_MAX};
    uint32_t n_stacks = 0;
    struct fg_err err;

    (void)state;
    asker_init(&asker, 1, UINT64_C(64) << 20, NULL);
    asker.querier->ingester = NULL;
    push_chosen(&asker.world, DEPTH, SLOT_BITS);
    world_commit(&asker.world, 1000);
    what.tenant = asker.world.tenants[asker.world.profiles[0].tenant];
    added.most_distant = 0;
    asker_must(qry_export_batches(asker.querier, &what, count_stacks, &n_stacks, &err), &err);
    print_message("  %u stacks, %.1f slots away\n", n_stacks, added.most_distant);
    assert_int_equal(n_stacks, asker.world.profiles[0].n_samples);
    assert_true(n_stacks > 200);
    assert_true(added.most_distant > 0);
    assert_true(added.most_distant < MOST);
    asker_done(&asker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_profile_is_visited_as_it_was_sent),
        cmocka_unit_test(export_of_a_tenant_with_deletions),
        cmocka_unit_test(batches_are_those_of_the_uploads),
        cmocka_unit_test(chosen_stacks_do_not_meet_in_the_map),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
