/*
 * Tests comparisons with what is known of them: simulated services whose functions did not change,
 * or of which some changed by a known amount.
 */
#include "common/base/def.h"
#include "common/base/hash.h"
#include "querier/compare/changes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* One by one, functions down to a third of the least share that is tested; the small ones behind
 * these as one number. */
enum { FUNCTIONS = 300, SMALL = 700, PODS_MAX = 100, CHANGED = 10, SAMPLES = 100000 };

static const double min_share = 0.001;
/* Functions differ in how noisy they are: so many times the noise of the service. */
static const double noise_least = 0.4, noise_most = 1.2;

/* ---- random numbers ---- */

struct random {
    uint64_t state;
};

static double uniform(struct random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    return ((double)(fg_mix64(random->state) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(struct random *random)
{
    return sqrt(-2 * log(uniform(random))) * cos(2 * M_PI * uniform(random));
}

static double poisson(struct random *random, double mean)
{
    double product = 1, limit = exp(-mean);
    int n = -1;

    if (mean > 12) /* also of the least functions that are tested: these have a mean of 100 */
        return fmax(0, round(mean + sqrt(mean) * normal(random)));
    for (; product > limit; n++)
        product *= uniform(random);
    return n;
}

/* ---- a service: shares by Zipf's law, which differ between pods ---- */

struct service {
    struct random random;
    size_t pods;
    double between, within;                     /* log-normal variation of a function's share */
    double shift;                               /* of the functions that change, on side 1 */
    bool paired;                                /* the pods are the same on both sides */
    bool changed[FUNCTIONS];                    /* which functions do */
    double shares[FUNCTIONS], noise[FUNCTIONS]; /* noise: in multiples of between and within */
    double small;                               /* the share of all small functions */
    double bases[2][FUNCTIONS][PODS_MAX];       /* logarithms, of pods */
    double values[2][FUNCTIONS][PODS_MAX], totals[2][PODS_MAX];
    uint32_t partners[PODS_MAX];
    struct qry_change changes[FUNCTIONS];
    size_t functions[FUNCTIONS], n; /* of the changes */
};

static void set_shares(struct service *service)
{
    double sum = 0;

    for (size_t i = 0; i < FUNCTIONS; i++)
        sum += service->shares[i] = pow((double)i + 1, -1.1);
    service->small = 0;
    for (size_t i = FUNCTIONS; i < FUNCTIONS + SMALL; i++)
        service->small += pow((double)i + 1, -1.1);
    sum += service->small;
    for (size_t i = 0; i < FUNCTIONS; i++)
        service->shares[i] /= sum;
    service->small /= sum;
}

/* Chooses the functions that change among those that are large enough to be tested. */
static void choose_changed(struct service *service)
{
    size_t large = 0, left = service->shift == 0 ? 0 : CHANGED;

    memset(service->changed, 0, sizeof service->changed);
    while (large < FUNCTIONS && service->shares[large] >= min_share)
        large++;
    while (left > 0) {
        size_t at = (size_t)(uniform(&service->random) * (double)large);

        left -= !service->changed[at];
        service->changed[at] = true;
    }
}

static void draw(struct service *service)
{
    struct random *random = &service->random;

    for (size_t side = 0; side < 2; side++)
        for (size_t pod = 0; pod < service->pods; pod++)
            service->totals[side][pod] = poisson(random, SAMPLES * service->small);
    for (size_t f = 0; f < FUNCTIONS; f++)
        for (size_t side = 0; side < 2; side++)
            for (size_t pod = 0; pod < service->pods; pod++) {
                double base = service->between * service->noise[f] * normal(random), mean;

                if (side == 1 && service->paired)
                    base = service->bases[0][f][pod];
                service->bases[side][f][pod] = base;
                mean = SAMPLES * service->shares[f] *
                       exp(base + service->within * service->noise[f] * normal(random));
                if (side == 1 && service->changed[f])
                    mean *= 1 + service->shift;
                service->values[side][f][pod] = poisson(random, mean);
                service->totals[side][pod] += service->values[side][f][pod];
            }
}

static struct qry_change_config config_of(const struct service *service)
{
    return (struct qry_change_config){
        .design = service->paired ? QRY_CHANGE_PAIRED : QRY_CHANGE_INSTANCES,
        .sides = {{service->pods, service->totals[0]}, {service->pods, service->totals[1]}},
        .partners = service->paired ? service->partners : NULL,
        .quantum = 1,
        .q = 0.05};
}

/* Lists the functions that are large enough on a side. */
static void list(struct service *service)
{
    double all[2] = {0};

    for (size_t side = 0; side < 2; side++)
        for (size_t pod = 0; pod < service->pods; pod++)
            all[side] += service->totals[side][pod];
    service->n = 0;
    for (size_t f = 0; f < FUNCTIONS; f++) {
        double sums[2] = {0};

        for (size_t side = 0; side < 2; side++)
            for (size_t pod = 0; pod < service->pods; pod++)
                sums[side] += service->values[side][f][pod];
        if (sums[0] < min_share * all[0] && sums[1] < min_share * all[1])
            continue;
        service->functions[service->n] = f;
        service->changes[service->n++] =
            (struct qry_change){.values = {service->values[0][f], service->values[1][f]}};
    }
}

static struct service *create(uint64_t seed, size_t pods, bool paired, double shift)
{
    struct service *service = fg_new(struct service);

    service->random.state = seed;
    service->pods = pods;
    service->paired = paired;
    service->shift = shift;
    service->between = 0.1;
    service->within = paired ? 0.05 : 0;
    for (uint32_t i = 0; i < PODS_MAX; i++)
        service->partners[i] = i;
    set_shares(service);
    for (size_t f = 0; f < FUNCTIONS; f++)
        service->noise[f] = noise_least + (noise_most - noise_least) * uniform(&service->random);
    return service;
}

/* Compares once. Returns how many functions that changed were found, and in *ret_false how many
 * that did not. */
static size_t compare(struct service *service, size_t *ret_false,
                      struct qry_changes_summary *ret_summary)
{
    const struct qry_change_config config = config_of(service);
    size_t found = 0, wrong = 0;

    choose_changed(service);
    draw(service);
    list(service);
    qry_changes_test(&config, service->changes, service->n, ret_summary);
    for (size_t i = 0; i < service->n; i++) {
        const struct qry_change *change = &service->changes[i];

        if (change->state == QRY_CHANGE_NOT_SIGNIFICANT)
            continue;
        assert_true(change->q <= 0.05 && change->p <= change->q);
        if (service->changed[service->functions[i]])
            found++;
        else
            wrong++;
    }
    *ret_false = wrong;
    return found;
}

/* ---- tests ---- */

/* Returns 5 % of so many splits and one standard error, which is 0.3 % of all of them together. */
static double most_alarms(size_t splits)
{
    return (double)splits * 0.05 + sqrt((double)splits * 0.05 * 0.95);
}

static void two_sides_of_one_program_differ_in_few_comparisons(void **state)
{
    static const struct {
        size_t pods, splits;
        bool paired;
    } cases[] = {
        {4, 800, false}, {5, 800, false}, {20, 800, false}, {5, 800, true}, {20, 800, true}};
    size_t alarms_all = 0, splits_all = 0;
    struct qry_changes_summary summary;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct service *service = create(i, cases[i].pods, cases[i].paired, 0);
        size_t alarms = 0, all = 0;

        for (size_t k = 0; k < cases[i].splits; k++) {
            size_t wrong;

            (void)compare(service, &wrong, &summary);
            alarms += wrong > 0;
            all += wrong;
        }
        print_message("  %zu pods%s: %zu of %zu comparisons with a false alarm, %zu in all\n",
                      cases[i].pods, cases[i].paired ? ", the same" : "", alarms, cases[i].splits,
                      all);
        assert_true((double)alarms <= most_alarms(cases[i].splits));
        alarms_all += alarms;
        splits_all += cases[i].splits;
        free(service);
    }
    assert_true((double)alarms_all <= most_alarms(splits_all) && alarms_all > splits_all / 100);
}

static void planted_changes_are_found_as_often_as_designed(void **state)
{
    /* How many are found depends on how noisy those functions happen to be: several services. */
    enum { SERVICES = 25, EACH = 4, RUNS = SERVICES * EACH };
    static const struct {
        size_t pods;
        bool paired;
        double shift, found; /* of CHANGED, on average */
    } cases[] = {
        {5, false, 0.30, 5.0},   {20, false, 0.10, 2.4},  {20, false, 0.20, 8.9},
        {100, false, 0.05, 4.2}, {100, false, 0.10, 9.2}, {5, true, 0.20, 5.7},
        {20, true, 0.05, 0.7},   {20, true, 0.10, 7.1},   {100, true, 0.03, 3.2},
        {100, true, 0.05, 9.0},
    };
    struct qry_changes_summary summary;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        size_t found = 0, wrong_all = 0;

        for (size_t k = 0; k < SERVICES; k++) {
            struct service *service =
                create(100 + i + 1000 * k, cases[i].pods, cases[i].paired, cases[i].shift);

            for (size_t run = 0; run < EACH; run++) {
                size_t wrong;

                found += compare(service, &wrong, &summary);
                wrong_all += wrong;
            }
            free(service);
        }
        print_message(
            "  %zu pods%s, %.0f %%: found %.2f of 10, designed %.1f; %.2f false; prior %.1f, "
            "detectable %.1f %% (median)\n",
            cases[i].pods, cases[i].paired ? ", the same" : "", 100 * cases[i].shift,
            (double)found / RUNS, cases[i].found, (double)wrong_all / RUNS, summary.prior_df,
            100 * (exp(summary.median_detectable) - 1));
        /* A tenth less at most; more than designed is no fault. */
        assert_true((double)found / RUNS >= 0.9 * cases[i].found);
    }
}

/* ---- single figures ---- */

static struct qry_change_config config_for(enum qry_change_design design, size_t n,
                                           const double *exposures)
{
    return (struct qry_change_config){
        .design = design, .sides = {{n, exposures}, {n, exposures}}, .quantum = 10, .q = 0.05};
}

static void a_function_that_comes_or_goes_has_a_bound_effect(void **state)
{
    const double exposures[] = {1e6, 1e6, 1e6, 1e6, 1e6}, nothing[5] = {0},
                 some[] = {20000, 21000, 19000, 20500, 20000}, one[] = {100000, 0, 0, 0, 0};
    const struct qry_change_config config = config_for(QRY_CHANGE_INSTANCES, 5, exposures);
    struct qry_change changes[] = {{.values = {nothing, some}},
                                   {.values = {some, nothing}},
                                   {.values = {nothing, one}},
                                   {.values = {nothing, nothing}},
                                   {.values = {some, some}, .skip = true}};
    struct qry_changes_summary summary;

    (void)state;
    qry_changes_test(&config, changes, FG_COUNT(changes), &summary);
    assert_int_equal(summary.n_tests, 3);
    assert_int_equal(changes[0].state, QRY_CHANGE_NEW);
    assert_int_equal(changes[1].state, QRY_CHANGE_GONE);
    /* What only one of five instances has is no change of the program. */
    assert_int_equal(changes[2].state, QRY_CHANGE_NOT_SIGNIFICANT);
    assert_int_equal(changes[3].state, QRY_CHANGE_TOO_LITTLE_DATA);
    assert_int_equal(changes[4].state, QRY_CHANGE_TOO_LITTLE_DATA);
    assert_true(changes[0].sums[1] == 100500 && changes[0].sums[0] == 0);
    assert_true(fabs(changes[0].effect - log(100500.0 / 5)) < 1e-9); /* to half a sample */
    assert_true(changes[0].low < changes[0].effect && changes[0].effect < changes[0].high);
}

static void pairs_see_what_differs_less_than_instances_do(void **state)
{
    /* Instances differ by 50 %, each became 10 % slower. */
    const double exposures[] = {1e6, 1e6, 1e6, 1e6, 1e6, 1e6},
                 before[] = {50000, 75000, 100000, 60000, 90000, 80000},
                 after[] = {55100, 82400, 110200, 65900, 99100, 87900};
    const uint32_t partners[] = {0, 1, 2, 3, 4, 5};
    struct qry_change_config config = config_for(QRY_CHANGE_INSTANCES, 6, exposures);
    struct qry_change change = {.values = {before, after}};

    (void)state;
    qry_change_test_one(&config, &change);
    assert_int_equal(change.state, QRY_CHANGE_NOT_SIGNIFICANT);
    assert_true(change.detectable > change.effect);
    config.design = QRY_CHANGE_PAIRED;
    config.partners = partners;
    qry_change_test_one(&config, &change);
    assert_int_equal(change.state, QRY_CHANGE_UP);
    assert_true(fabs(exp(change.effect) - 1.1) < 0.01);
    assert_true(change.low > 0.07 && change.high < 0.12);
}

static void counts_are_trusted_less_than_they_seem_to_tell(void **state)
{
    const double exposures[] = {1e6}, before[] = {10000}, after[] = {11200}, twice[] = {15000};
    const struct qry_change_config config = config_for(QRY_CHANGE_COUNTS, 1, exposures);
    struct qry_change changes[] = {{.values = {before, after}}, {.values = {before, twice}}};
    struct qry_changes_summary summary;

    (void)state;
    qry_changes_test(&config, changes, FG_COUNT(changes), &summary);
    assert_true(summary.dispersion == 3);
    assert_true(fabs(changes[0].variance - 3 * (1 / 1000.0 + 1 / 1120.0)) < 1e-12);
    assert_int_equal(changes[0].state, QRY_CHANGE_NOT_SIGNIFICANT);
    assert_int_equal(changes[1].state, QRY_CHANGE_UP);
}

static void the_design_follows_what_there_is(void **state)
{
    static const struct {
        size_t instances[2], same, times[2];
        enum qry_change_design design;
    } cases[] = {
        {{5, 9}, 5, {60, 60}, QRY_CHANGE_PAIRED}, {{4, 4}, 4, {60, 60}, QRY_CHANGE_INSTANCES},
        {{3, 9}, 3, {8, 60}, QRY_CHANGE_TIMES},   {{3, 9}, 3, {7, 60}, QRY_CHANGE_COUNTS},
        {{0, 0}, 0, {0, 0}, QRY_CHANGE_COUNTS},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        assert_int_equal(qry_changes_design(cases[i].instances, cases[i].same, cases[i].times),
                         cases[i].design);
}

static void no_tests_are_no_findings(void **state)
{
    const struct qry_change_config config = config_for(QRY_CHANGE_INSTANCES, 0, NULL);
    struct qry_change change = {0};
    struct qry_changes_summary summary;

    (void)state;
    qry_changes_test(&config, NULL, 0, &summary);
    assert_int_equal(summary.n_tests, 0);
    qry_changes_test(&config, &change, 1, &summary);
    assert_int_equal(summary.n_tests, 0);
    assert_int_equal(change.state, QRY_CHANGE_TOO_LITTLE_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_that_comes_or_goes_has_a_bound_effect),
        cmocka_unit_test(pairs_see_what_differs_less_than_instances_do),
        cmocka_unit_test(counts_are_trusted_less_than_they_seem_to_tell),
        cmocka_unit_test(the_design_follows_what_there_is),
        cmocka_unit_test(no_tests_are_no_findings),
        cmocka_unit_test(two_sides_of_one_program_differ_in_few_comparisons),
        cmocka_unit_test(planted_changes_are_found_as_often_as_designed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
