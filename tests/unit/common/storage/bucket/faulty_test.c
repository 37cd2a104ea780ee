/* The faults: each does what it says, and the same seed gives the same run. */
#include "common/storage/bucket/bucket.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    struct fg_bucket *inner, *bucket;
    struct fg_bucket_faulty *faulty;
    struct fg_clock_manual clock;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->inner = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->inner, &(struct fg_bucket_faults){.seed = 1});
    f->bucket = fg_bucket_faulty_bucket(f->faulty);
    fg_clock_manual_init(&f->clock, 1);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_bucket_close(f->bucket);
    fg_bucket_close(f->inner);
    free(f);
    return 0;
}

static enum fg_code put(struct fg_bucket *bucket, const char *name, const char *content,
                        bool *ret_unsure)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT,
                                        .name = name,
                                        .content = fg_cstr(content),
                                        .condition = FG_BUCKET_IF_ABSENT};

    (void)fg_bucket_call(bucket, &request);
    if (ret_unsure != NULL)
        *ret_unsure = request.unsure;
    return request.code;
}

static bool is_there(struct fixture *f, const char *name)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_HEAD, .name = name};

    return fg_bucket_call(f->inner, &request) == FG_OK;
}

static void each_fault(void **state)
{
    static const struct {
        struct fg_bucket_faults faults;
        bool unsure, there;
    } cases[] = {
        {{.lose_request_permille = 1000}, true, false},
        {{.lose_answer_permille = 1000}, true, true},
        {{.refuse_permille = 1000}, false, false},
        {{.tear_permille = 1000}, true, false},
        {{.straggle_permille = 1000}, true, true},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char name[16];
        bool unsure;

        (void)snprintf(name, sizeof name, "%zu", i);
        fg_bucket_faulty_set(f->faulty, &cases[i].faults);
        assert_int_equal(put(f->bucket, name, "x", &unsure), FG_E_UNAVAILABLE);
        assert_int_equal(unsure, cases[i].unsure);
        assert_int_equal(is_there(f, name), cases[i].there);
    }
}

static void spoils(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET, .name = "a", .content_max_bytes = 100};
    unsigned bits = 0;

    assert_int_equal(put(f->inner, "a", "0123456789", NULL), FG_OK);
    fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){.spoil_permille = 1000});
    assert_int_equal(fg_bucket_call(f->bucket, &get), FG_OK);
    assert_int_equal(get.body.len, 10);
    for (unsigned i = 0; i < 10; i++)
        bits += (unsigned)__builtin_popcount(get.body.ptr[i] ^ (unsigned)"0123456789"[i]);
    assert_int_equal(bits, 1);
    fg_bucket_clear(&get);
}

static void fails_the_chosen_one(void **state)
{
    struct fixture *f = *state;
    bool unsure;

    fg_bucket_faulty_fail(f->faulty, 2, false);
    assert_int_equal(put(f->bucket, "1", "x", NULL), FG_OK);
    assert_int_equal(put(f->bucket, "2", "x", &unsure), FG_E_UNAVAILABLE);
    assert_false(unsure || is_there(f, "2"));
    assert_int_equal(put(f->bucket, "2", "x", NULL), FG_OK);
    fg_bucket_faulty_fail(f->faulty, 1, true);
    assert_int_equal(put(f->bucket, "3", "x", &unsure), FG_E_UNAVAILABLE);
    assert_true(unsure && is_there(f, "3"));
    assert_int_equal(fg_bucket_faulty_count(f->faulty), 4);
}

static uint64_t a_run(uint64_t seed)
{
    struct fg_bucket *inner = fg_bucket_memory();
    struct fg_bucket_faulty *faulty = fg_bucket_faulty_create(
        inner, &(struct fg_bucket_faults){.seed = seed, .refuse_permille = 500});
    uint64_t outcome = 0;

    for (unsigned i = 0; i < 64; i++)
        outcome = outcome << 1 |
                  (put(fg_bucket_faulty_bucket(faulty), "a", "x", NULL) == FG_E_UNAVAILABLE);
    fg_bucket_close(fg_bucket_faulty_bucket(faulty));
    fg_bucket_close(inner);
    return outcome;
}

static void a_seed_is_a_run(void **state)
{
    (void)state;
    assert_true(a_run(1) == a_run(1));
    assert_true(a_run(1) != a_run(2));
}

static void count_done(struct fg_bucket_request *request)
{
    request->content_max_bytes++; /* nobody needs it for a put */
}

static void delays(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT, .name = "a", .done = count_done};

    fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){.delay_max_ns = FG_SECOND_NS,
                                                               .clock = &f->clock.clock});
    fg_bucket_send(f->bucket, &request);
    assert_true(request.content_max_bytes == 0 && !is_there(f, "a"));
    int64_t arrives = fg_bucket_faulty_next_mono_ns(f->faulty);
    assert_true(arrives > 0 && arrives < FG_SECOND_NS);
    fg_bucket_faulty_turn(f->faulty);
    assert_false(is_there(f, "a"));
    fg_clock_manual_advance(&f->clock, arrives - f->clock.mono_ns);
    fg_bucket_faulty_turn(f->faulty);
    assert_true(request.content_max_bytes == 0 && is_there(f, "a"));
    fg_clock_manual_advance(&f->clock, FG_SECOND_NS);
    fg_bucket_faulty_turn(f->faulty);
    assert_true(request.content_max_bytes == 1 && request.code == FG_OK);
    assert_true(fg_bucket_faulty_next_mono_ns(f->faulty) == INT64_MAX);
}

static void stragglers_come_late(void **state)
{
    struct fixture *f = *state;
    char content[] = "x";
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_PUT, .name = "a", .done = count_done, .content = fg_cstr(content)};

    fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){.delay_max_ns = FG_SECOND_NS,
                                                               .straggle_permille = 1000,
                                                               .clock = &f->clock.clock});
    fg_bucket_send(f->bucket, &request);
    while (request.content_max_bytes == 0) {
        fg_clock_manual_advance(&f->clock, FG_MS_NS);
        fg_bucket_faulty_turn(f->faulty);
    }
    assert_true(request.code == FG_E_UNAVAILABLE && request.unsure && !is_there(f, "a"));
    content[0] = '?'; /* it is not looked at any more */
    memset(&request, 0, sizeof request);
    fg_clock_manual_advance(&f->clock, FG_SECOND_NS);
    fg_bucket_faulty_turn(f->faulty);
    assert_true(is_there(f, "a"));
    fg_clock_manual_advance(&f->clock, FG_SECOND_NS);
    fg_bucket_faulty_turn(f->faulty);
}

static void deadlines_pass_on_the_way(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_PUT, .name = "a", .done = count_done, .deadline_mono_ns = 1};

    fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){.delay_max_ns = FG_SECOND_NS,
                                                               .clock = &f->clock.clock});
    fg_bucket_send(f->bucket, &request);
    fg_clock_manual_advance(&f->clock, FG_SECOND_NS);
    fg_bucket_faulty_turn(f->faulty);
    assert_true(request.content_max_bytes == 1 && request.code == FG_E_DEADLINE);
    assert_false(is_there(f, "a"));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_fault),
        TEST(spoils),
        TEST(fails_the_chosen_one),
        TEST(a_seed_is_a_run),
        TEST(delays),
        TEST(stragglers_come_late),
        TEST(deadlines_pass_on_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
