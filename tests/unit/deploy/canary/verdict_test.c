#include "common/base/hash.h"
#include "deploy/canary/verdict.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PROFILES = 60, PENDING_MAX = 32, CELLS = 10, ROUNDS = 20000 };

/* Six profiles in each cell. */
static const struct canary_journal_shape shape = {
    .seed = 11, .services = 2, .pods = 3, .leaves = 5, .start_ms = 5000, .interval_ms = 10};

/* A journal, a query for all of it, and an answer that tests falsify. */
struct scene {
    struct canary_journal *journal;
    struct canary_journal_expected expected;
    int64_t cells[CELLS], foreign;
    struct canary_verdict verdict;
};

static uint32_t cell_of(uint64_t number)
{
    struct canary_journal_profile profile = canary_journal_profile(&shape, number);

    return canary_journal_cell(&shape, profile.service, profile.leaf);
}

/* Adds the profile to the answer n times. */
static void put(struct scene *scene, uint64_t number, int times)
{
    scene->cells[cell_of(number)] += times * (int64_t)canary_journal_profile(&shape, number).value;
}

/* is_pending: the numbers without an acknowledgement. The answer has all other profiles. */
static void set_up(struct scene *scene, bool (*is_pending)(uint64_t number))
{
    *scene = (struct scene){.journal = canary_journal_create(&shape, 64, PENDING_MAX)};
    for (uint64_t number = 0; number < PROFILES; number++) {
        assert_true(canary_journal_issue(scene->journal, number));
        if (is_pending(number))
            continue;
        canary_journal_settle(scene->journal, number, 1);
        put(scene, number, 1);
    }
    canary_journal_expect(scene->journal,
                          &(struct canary_journal_range){shape.start_ms,
                                                         canary_journal_end_ms(scene->journal),
                                                         JOURNAL_NONE, JOURNAL_NONE},
                          &scene->expected);
}

static void judge(struct scene *scene)
{
    canary_verdict_done(&scene->verdict);
    canary_verdict_of_cells(scene->journal, &scene->expected, scene->cells, scene->foreign,
                            &scene->verdict);
}

static void judge_total(struct scene *scene)
{
    int64_t total = 0;

    for (size_t i = 0; i < CELLS; i++)
        total += scene->cells[i];
    canary_verdict_done(&scene->verdict);
    canary_verdict_of_total(scene->journal, &scene->expected, total, &scene->verdict);
}

static void tear_down(struct scene *scene)
{
    canary_verdict_done(&scene->verdict);
    canary_journal_expected_done(&scene->expected);
    canary_journal_destroy(scene->journal);
}

static bool none(uint64_t number)
{
    (void)number;
    return false;
}

static bool every_ninth(uint64_t number)
{
    return number % 9 == 0;
}

/* All profiles of three cells are pending: too many to try all subsets of a total. */
static bool three_cells(uint64_t number)
{
    return number % CELLS < 3;
}

static void assert_finding(const struct scene *scene, uint32_t at, enum canary_verdict_kind kind,
                           uint64_t number)
{
    assert_true(at < scene->verdict.n);
    assert_int_equal(scene->verdict.findings[at].kind, kind);
    assert_int_equal(scene->verdict.findings[at].number, number);
}

static void a_correct_answer_has_no_findings(void **state)
{
    struct scene scene;

    (void)state;
    set_up(&scene, none);
    judge(&scene);
    assert_int_equal(scene.verdict.n, 0);
    judge_total(&scene);
    assert_int_equal(scene.verdict.n, 0);
    tear_down(&scene);
}

static void one_lost_and_one_double_are_named(void **state)
{
    struct scene scene;

    (void)state;
    set_up(&scene, every_ninth);
    put(&scene, 33, -1);
    put(&scene, 44, 1);
    put(&scene, 9, 2); /* never acknowledged, and twice in the answer */
    judge(&scene);
    assert_int_equal(scene.verdict.n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t number = scene.verdict.findings[i].number;

        assert_true(number == 33 || number == 44 || number == 9);
        assert_finding(&scene, i, number == 33 ? VERDICT_LOST : VERDICT_DOUBLE, number);
    }
    tear_down(&scene);
}

static void an_empty_cell_has_lost_all_its_profiles(void **state)
{
    struct scene scene;

    (void)state;
    set_up(&scene, none);
    scene.cells[cell_of(4)] = 0;
    judge(&scene);
    assert_int_equal(scene.verdict.n, PROFILES / CELLS);
    for (uint32_t i = 0; i < scene.verdict.n; i++)
        assert_finding(&scene, i, VERDICT_LOST, 4 + CELLS * (uint64_t)i);
    tear_down(&scene);
}

static void faults_without_a_profile_count_too(void **state)
{
    struct scene scene;

    (void)state;
    set_up(&scene, none);
    put(&scene, 5, -1);
    put(&scene, 5 + CELLS, -1);
    judge(&scene);
    assert_int_equal(scene.verdict.n, 1);
    assert_finding(&scene, 0, VERDICT_LOST, VERDICT_NO_NUMBER);
    judge_total(&scene);
    assert_finding(&scene, 0, VERDICT_LOST, VERDICT_NO_NUMBER);
    tear_down(&scene);
}

static void unexpected_stacks_are_reported(void **state)
{
    struct scene scene;

    (void)state;
    set_up(&scene, none);
    scene.foreign = 3;
    judge(&scene);
    assert_int_equal(scene.verdict.n, 1);
    assert_finding(&scene, 0, VERDICT_FOREIGN, VERDICT_NO_NUMBER);
    tear_down(&scene);
}

/* Profiles without an acknowledgement may be in the answer or not. */
static void pending_profiles_may_be_there(void **state)
{
    uint64_t drawn = 1;
    struct scene scene;

    (void)state;
    for (size_t round = 0; round < 50; round++) {
        set_up(&scene, every_ninth);
        for (uint64_t number = 0; number < PROFILES; number += 9)
            put(&scene, number, (int)(fg_mix64(drawn++) % 2));
        judge(&scene);
        assert_int_equal(scene.verdict.n, 0);
        judge_total(&scene);
        assert_int_equal(scene.verdict.n, 0);
        tear_down(&scene);
    }
}

static void an_answer_may_have_all_that_are_pending(void **state)
{
    struct scene scene;

    (void)state;
    set_up(&scene, every_ninth);
    judge(&scene);
    assert_false(scene.verdict.has_all);
    for (uint64_t number = 0; number < PROFILES; number += 9) {
        assert_false(scene.verdict.has_all);
        put(&scene, number, 1);
        judge(&scene);
        assert_int_equal(scene.verdict.n, 0);
    }
    assert_true(scene.verdict.has_all);
    judge_total(&scene);
    assert_true(scene.verdict.has_all);
    put(&scene, 1, -1);
    judge(&scene);
    assert_false(scene.verdict.has_all);
    judge_total(&scene);
    assert_false(scene.verdict.has_all);
    put(&scene, 1, 1);
    scene.foreign = 1;
    judge(&scene);
    assert_false(scene.verdict.has_all);
    tear_down(&scene);
}

static void a_total_with_many_pending_has_bounds(void **state)
{
    struct scene scene;

    (void)state;
    set_up(&scene, three_cells);
    judge_total(&scene);
    assert_int_equal(scene.verdict.n, 0);
    put(&scene, 0, 1);
    judge_total(&scene);
    assert_int_equal(scene.verdict.n, 0);
    put(&scene, 0, -1);
    put(&scene, 59, -1);
    judge_total(&scene);
    assert_finding(&scene, 0, VERDICT_LOST, VERDICT_NO_NUMBER);
    put(&scene, 59, 1);
    for (uint64_t number = 0; number < PROFILES; number++)
        put(&scene, number, three_cells(number));
    judge_total(&scene);
    assert_int_equal(scene.verdict.n, 0);
    put(&scene, 58, 1);
    judge_total(&scene);
    assert_finding(&scene, 0, VERDICT_DOUBLE, VERDICT_NO_NUMBER);
    tear_down(&scene);
}

/* Every change of an answer is found, and a single change in a cell is named. */
static void every_single_change_is_named(void **state)
{
    struct scene scene;

    (void)state;
    set_up(&scene, every_ninth);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t number = fg_mix64(round) % PROFILES;
        int times = every_ninth(number) ? 2 : (round % 2 == 0 ? 1 : -1);

        put(&scene, number, times);
        judge(&scene);
        assert_int_equal(scene.verdict.n, 1);
        assert_finding(&scene, 0, times < 0 ? VERDICT_LOST : VERDICT_DOUBLE, number);
        put(&scene, number, -times);
    }
    tear_down(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_correct_answer_has_no_findings),
        cmocka_unit_test(one_lost_and_one_double_are_named),
        cmocka_unit_test(an_empty_cell_has_lost_all_its_profiles),
        cmocka_unit_test(faults_without_a_profile_count_too),
        cmocka_unit_test(unexpected_stacks_are_reported),
        cmocka_unit_test(pending_profiles_may_be_there),
        cmocka_unit_test(an_answer_may_have_all_that_are_pending),
        cmocka_unit_test(a_total_with_many_pending_has_bounds),
        cmocka_unit_test(every_single_change_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
