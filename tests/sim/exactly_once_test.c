/*
 * Every acknowledged profile is in every answer exactly once, and in one block at the end: for each
 * shape of cluster, over some seeds; and not so where a rule is switched off.
 *
 *   FG_SIM_SEEDS=2000 FG_SIM_FIRST=0 [FG_SIM_TRACE=1] build/release/tests/bin/test_sim_exactly_once
 */
#include "common/base/str.h"
#include "tests/sim/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SEEDS = 6, SEEDS_TO_BREAK = 60 };

static const struct {
    const char *name;
    uint32_t heads, heads_max;
    unsigned replicas;
} shapes[] = {
    {"one ingester", 1, 1, 1},
    {"two to four ingesters, one replica", 2, 4, 1},
    {"three to five ingesters, three replicas", 3, 5, 3},
    {"two to four ingesters, two replicas", 2, 4, 2},
};

static const char *const rule_names[] = {
#define X(name, text) text,
    FG_RULES(X)
#undef X
};

static const char *const cluster_rule_names[] = {
#define X(name, text) text,
    CLUSTER_RULES(X)
#undef X
};

enum { ALL_CLUSTER_RULES = (1 << CLUSTER_RULES_COUNT) - 1 };

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value;

    return text != NULL && fg_parse_u64(fg_cstr(text), &value) ? value : otherwise;
}

static struct world *run(uint64_t seed, size_t shape, unsigned rules, unsigned cluster_rules)
{
    struct shape wanted = {.heads = shapes[shape].heads,
                           .heads_max = shapes[shape].heads_max,
                           .replicas = shapes[shape].replicas,
                           .rules = rules,
                           .cluster_rules = cluster_rules,
                           .length_ns = 90 * FG_MINUTE_NS,
                           .trace = setting("FG_SIM_TRACE", 0) != 0};

    return world_run(seed, &wanted);
}

static void holds(void **state)
{
    uint64_t first = setting("FG_SIM_FIRST", 0), seeds = setting("FG_SIM_SEEDS", SEEDS);

    (void)state;
    for (size_t s = 0; s < FG_COUNT(shapes); s++) {
        uint64_t acked = 0, reads = 0, refused = 0, unacked = 0, crashes = 0, compactions = 0,
                 deleted = 0, nodes = 0, built = 0, compared = 0, left = 0, wiped = 0,
                 forgotten = 0;

        for (uint64_t seed = first; seed < first + seeds; seed++) {
            struct world *world = run(seed, s, FG_RULES_ALL, ALL_CLUSTER_RULES);

            if (world->fault[0] != '\0')
                fail_msg("%s, seed %llu: %s", shapes[s].name, (unsigned long long)seed,
                         world->fault);
            acked += world->acked;
            reads += world->reads;
            refused += world->refused_reads;
            unacked += world->refused_writes;
            crashes += world->crashes;
            compactions += world->covers + world->replaces + world->retires;
            nodes += world->nodes_made;
            built += world->built;
            compared += world->compared;
            deleted += world->deleted;
            left += world->left;
            wiped += world->wiped;
            forgotten += world->forgotten;
            world_destroy(world);
        }
        print_message(
            "  %s, %llu seeds: %llu profiles, %llu pushes refused, %llu reads, %llu "
            "refused, %llu crashes, %llu compactions, %llu nodes over blocks, %llu objects "
            "deleted, %llu profiles built, %llu rounds committed by others, %llu members left, "
            "%llu were wiped, %llu forgotten\n",
            shapes[s].name, (unsigned long long)seeds, (unsigned long long)acked,
            (unsigned long long)unacked, (unsigned long long)reads, (unsigned long long)refused,
            (unsigned long long)crashes, (unsigned long long)compactions, (unsigned long long)nodes,
            (unsigned long long)deleted, (unsigned long long)built, (unsigned long long)compared,
            (unsigned long long)left, (unsigned long long)wiped, (unsigned long long)forgotten);
        assert_true(acked > 0 && reads > refused && nodes > 0);
        assert_true(shapes[s].replicas == 1 || compared > 0);
    }
}

/* While all is well most of what several heads hold is built into a segment by one of them. */
static void work_is_done_once(void **state)
{
    const struct shape shape = {.heads = 3,
                                .heads_max = 3,
                                .replicas = 3,
                                .rules = FG_RULES_ALL,
                                .cluster_rules = ALL_CLUSTER_RULES,
                                .length_ns = 3 * FG_HOUR_NS,
                                .calm = true};
    struct world *world = world_run(setting("FG_SIM_FIRST", 0), &shape);

    (void)state;
    print_message("  %u profiles in three heads each: %u built\n", world->n_sent, world->built);
    assert_string_equal(world->fault, "");
    assert_true(world->built < world->n_sent + world->n_sent / 2);
    world_destroy(world);
}

static void expect_fault(const char *without, unsigned rules, unsigned cluster_rules)
{
    bool broken = false;

    for (uint64_t seed = 0; seed < SEEDS_TO_BREAK && !broken; seed++) {
        size_t shape = seed % FG_COUNT(shapes);
        struct world *world = run(seed, shape, rules, cluster_rules);

        broken = world->fault[0] != '\0';
        if (broken)
            print_message("  without %s: %s, seed %llu: %s\n", without, shapes[shape].name,
                          (unsigned long long)seed, world->fault);
        world_destroy(world);
    }
    if (!broken)
        fail_msg("nothing happens without %s", without);
}

static void every_rule_is_needed(void **state)
{
    (void)state;
    for (unsigned rule = 0; rule < FG_RULES_COUNT; rule++)
        expect_fault(rule_names[rule], FG_RULES_ALL & ~(1u << rule), ALL_CLUSTER_RULES);
    for (unsigned rule = 0; rule < CLUSTER_RULES_COUNT; rule++)
        expect_fault(cluster_rule_names[rule], FG_RULES_ALL, ALL_CLUSTER_RULES & ~(1u << rule));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds),
        cmocka_unit_test(work_is_done_once),
        cmocka_unit_test(every_rule_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
