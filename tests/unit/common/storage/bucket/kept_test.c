/* Kept versions: two places by turns, not too often, and never in the way of who offers them. */
#include "common/storage/bucket/kept.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct fixture {
    struct fg_registry *registry;
    struct fg_clock_manual clock;
    struct fg_bucket *inner, *bucket;
    struct fg_bucket_faulty *faulty;
};

static int set_up(void **state)
{
    const struct fg_bucket_faults none = {.seed = 1};
    struct fixture *f = fg_new(struct fixture);

    f->registry = fg_registry_create();
    fg_clock_manual_init(&f->clock, 0);
    f->inner = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->inner, &none);
    f->bucket = fg_bucket_faulty_bucket(f->faulty);
    fg_kept_attach(f->bucket, f->registry, &f->clock.clock);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_bucket_close(f->bucket);
    fg_bucket_close(f->inner);
    fg_registry_destroy(f->registry);
    free(f);
    return 0;
}

static void pass(struct fixture *f, int64_t ns)
{
    f->clock.mono_ns += ns;
    f->clock.wall_ns += ns;
}

static void expect(struct fixture *f, const char *name, const char *content)
{
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = 1 << 20};
    enum fg_code code = fg_bucket_call(f->inner, &get);

    assert_int_equal(code, content == NULL ? FG_E_NOT_FOUND : FG_OK);
    if (content != NULL)
        assert_true(fg_slice_eq(fg_buf_slice(&get.body), fg_cstr(content)));
    fg_bucket_clear(&get);
}

static void places_take_turns(void **state)
{
    struct fixture *f = *state;

    fg_kept_offer(f->bucket->kept, "manifests/l0", FG_LIT("one"));
    expect(f, "manifests/kept/l0/0", "one");
    fg_kept_offer(f->bucket->kept, "manifests/l0", FG_LIT("soon after"));
    expect(f, "manifests/kept/l0/0", "one");
    fg_kept_offer(f->bucket->kept, "tenants/acme/manifest", FG_LIT("another object"));
    expect(f, "manifests/kept/tenants/acme/manifest/0", "another object");
    pass(f, FG_KEPT_EVERY_NS);
    fg_kept_offer(f->bucket->kept, "manifests/l0", FG_LIT("two"));
    expect(f, "manifests/kept/l0/0", "one");
    expect(f, "manifests/kept/l0/1", "two");
    pass(f, FG_KEPT_EVERY_NS);
    fg_kept_offer(f->bucket->kept, "manifests/l0", FG_LIT("three"));
    expect(f, "manifests/kept/l0/0", "three");
}

static void a_copy_that_fails_is_passed_over(void **state)
{
    struct fixture *f = *state;

    fg_bucket_faulty_fail(f->faulty, 1, false);
    fg_kept_offer(f->bucket->kept, "manifests/ring", FG_LIT("one"));
    expect(f, "manifests/kept/ring/0", NULL);
    pass(f, FG_KEPT_EVERY_NS);
    fg_kept_offer(f->bucket->kept, "manifests/ring", FG_LIT("two"));
    expect(f, "manifests/kept/ring/1", "two");
}

/* A bucket that does not answer: offers return at once, and no more copies are begun than there is
 * room for. */
static void a_bucket_that_hangs_holds_nobody_up(void **state)
{
    struct fixture *f = *state;
    const struct fg_bucket_faults slow = {
        .seed = 1, .delay_max_ns = FG_HOUR_NS, .clock = &f->clock.clock};
    uint64_t before = fg_bucket_faulty_count(f->faulty);
    char name[32];

    fg_bucket_faulty_set(f->faulty, &slow);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof name, "tenants/t%d/manifest", i);
        fg_kept_offer(f->bucket->kept, name, FG_LIT("content"));
    }
    assert_int_equal(fg_bucket_faulty_count(f->faulty) - before, 2);
    for (int i = 0; i < 10; i++) {
        pass(f, FG_HOUR_NS);
        fg_bucket_faulty_turn(f->faulty);
    }
    fg_kept_offer(f->bucket->kept, "tenants/t9/manifest", FG_LIT("content"));
    assert_int_equal(fg_bucket_faulty_count(f->faulty) - before, 3);
    pass(f, FG_HOUR_NS);
    fg_bucket_faulty_turn(f->faulty);
    fg_bucket_faulty_turn(f->faulty);
    pass(f, FG_HOUR_NS);
    fg_bucket_faulty_turn(f->faulty);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(places_take_turns),
        TEST(a_copy_that_fails_is_passed_over),
        TEST(a_bucket_that_hangs_holds_nobody_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
