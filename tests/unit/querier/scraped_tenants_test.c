/* The object with the tenants whose metrics are scraped. */
#include "common/base/time.h"
#include "common/cluster/manifest/name.h"
#include "common/storage/bucket/message_object.h"
#include "querier/rules/scraped_tenants.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t START_NS = INT64_C(30000000) * FG_MINUTE_NS;

struct fixture {
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty;
    struct qry_scraped_tenants object;
};

static int set_up(void **state)
{
    static const struct fg_bucket_faults none;
    struct fixture *f = fg_new(struct fixture);

    f->memory = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->memory, &none);
    f->object = (struct qry_scraped_tenants){.bucket = fg_bucket_faulty_bucket(f->faulty),
                                             .arena = fg_arena_create(64 << 20)};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_bucket_close(f->memory);
    fg_arena_destroy(f->object.arena);
    free(f);
    return 0;
}

/* Records scrapes of tenants whose names are one letter each. */
static enum fg_code record(struct fixture *f, const char *letters, int64_t now_ns)
{
    struct qry_rule_tenant tenants[8] = {0};
    struct fg_err err;
    size_t n = 0;

    for (; letters[n] != '\0'; n++) {
        assert_true(n < FG_COUNT(tenants));
        tenants[n].name[0] = letters[n];
        tenants[n].scraped_ns = now_ns;
    }
    return qry_scraped_tenants_record(&f->object, tenants, n, now_ns, &err);
}

/* "tenant+seconds since START;" of each. */
static void assert_all(struct fixture *f, const char *want)
{
    Fg__Inner__ScrapedTenants *all;
    struct fg_buf found;
    struct fg_err err;

    assert_int_equal(qry_scraped_tenants_read(&f->object, &all, &err), FG_OK);
    fg_buf_init(&found, SIZE_MAX);
    for (size_t i = 0; i < all->n_tenants; i++) {
        fg_buf_append(&found, all->tenants[i]->tenant.data, all->tenants[i]->tenant.len);
        fg_buf_printf(&found, "+%lld;",
                      (long long)(all->tenants[i]->scraped_ms - START_NS / FG_MS_NS) / 1000);
    }
    fg_buf_putc(&found, '\0');
    assert_string_equal((const char *)found.ptr, want);
    fg_buf_done(&found);
}

static void queriers_record_in_one_list(void **state)
{
    struct fixture *f = *state;

    assert_all(f, "");
    assert_int_equal(record(f, "bd", START_NS), FG_OK);
    assert_int_equal(record(f, "ace", START_NS + 5 * FG_SECOND_NS), FG_OK);
    assert_all(f, "a+5;b+0;c+5;d+0;e+5;");
    assert_int_equal(record(f, "be", START_NS + 2 * FG_SECOND_NS), FG_OK);
    assert_all(f, "a+5;b+2;c+5;d+0;e+5;");
}

static void lapsed_tenants_are_removed(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(record(f, "ac", START_NS), FG_OK);
    assert_int_equal(record(f, "b", START_NS + FG_SECOND_NS), FG_OK);
    assert_int_equal(record(f, "c", START_NS + RULE_SCRAPED_NS), FG_OK);
    assert_all(f, "b+1;c+3600;");
}

static enum fg_code replace(void *arg, struct fg_arena *arena, ProtobufCMessage *message,
                            bool *ret_changed, struct fg_err *err)
{
    const Fg__Inner__ScrapedTenants *all = arg;
    Fg__Inner__ScrapedTenants *stored = (Fg__Inner__ScrapedTenants *)message;

    (void)arena;
    (void)err;
    stored->tenants = all->tenants;
    stored->n_tenants = all->n_tenants;
    *ret_changed = true;
    return FG_OK;
}

/* Another program wrote it: names that are none, times that never lapse or that overflow. */
static void tenants_that_cannot_be_are_removed(void **state)
{
    static const struct {
        const char *name;
        int64_t scraped_ms;
    } stored[] = {
        {"a/b", START_NS / FG_MS_NS},
        {"", START_NS / FG_MS_NS},
        {"c", INT64_MIN},
        {"d", INT64_MAX},
        {"e", (START_NS + RULE_SCRAPED_NS) / FG_MS_NS},
        {"f", 0},
        {"g", START_NS / FG_MS_NS + 1000},
    };
    Fg__Inner__ScrapedTenant tenants[FG_COUNT(stored)];
    Fg__Inner__ScrapedTenant *list[FG_COUNT(stored)];
    Fg__Inner__ScrapedTenants all = FG__INNER__SCRAPED_TENANTS__INIT;
    struct fixture *f = *state;
    struct fg_message_object object = {
        .bucket = f->object.bucket,
        .name = FG_NAME_SCRAPED,
        .what = "tenants",
        .type = &fg__inner__scraped_tenants__descriptor,
        .max_bytes = 1000,
        .arena = f->object.arena,
    };
    struct fg_err err;

    for (size_t i = 0; i < FG_COUNT(stored); i++) {
        list[i] = &tenants[i];
        fg__inner__scraped_tenant__init(list[i]);
        tenants[i].tenant.data = (uint8_t *)(uintptr_t)stored[i].name;
        tenants[i].tenant.len = strlen(stored[i].name);
        tenants[i].scraped_ms = stored[i].scraped_ms;
    }
    all.tenants = list;
    all.n_tenants = FG_COUNT(list);
    assert_int_equal(fg_message_object_swap(&object, replace, &all, &err), FG_OK);
    assert_int_equal(record(f, "b", START_NS), FG_OK);
    assert_all(f, "b+0;g+1;");
}

/* Whatever the k-th request of the bucket does, a scrape that is recorded again is there once. */
static void faults_of_the_bucket(void **state)
{
    struct fixture *f = *state;

    for (uint64_t k = 1; k <= 6; k++) {
        const char letter[] = {(char)('a' + k), '\0'};

        fg_bucket_faulty_fail(f->faulty, 1 + k % 3, k % 2 == 0);
        enum fg_code code = record(f, letter, START_NS);
        fg_bucket_faulty_fail(f->faulty, 0, false);
        if (code != FG_OK)
            assert_int_equal(record(f, letter, START_NS), FG_OK);
    }
    assert_all(f, "b+0;c+0;d+0;e+0;f+0;g+0;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(queriers_record_in_one_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lapsed_tenants_are_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tenants_that_cannot_be_are_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(faults_of_the_bucket, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
