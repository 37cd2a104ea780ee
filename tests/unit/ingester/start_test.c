/* A start that fails takes down what it has made, while the operator routes are served. */
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"
#include "tests/lib/tenants.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The last module that can fail by its settings: that of segments, without a folder to write to. */
static void failed_start_leaves_nothing_to_scrape(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_conditions *conditions = fg_conditions_create(registry);
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_bucket *bucket = fg_bucket_memory();
    struct fg_limit_settings limits = {0};
    struct fg_tenants *tenants = tenants_make(&limits, NULL, false, registry);
    const struct ing_segments_settings segments = {.cut_bytes = 1 << 20};
    const struct ing_settings settings = {
        .dictionary_max_bytes = 1 << 20,
        .catalog_max_bytes = 1 << 20,
        .workers = 1,
        .query_workers = 1,
        .queue_max = 1,
        .query_queue_max = 1,
        .late_queue_max = 1,
    };
    const struct ing_config config = {
        .settings = &settings,
        .segments = &segments,
        .store = store,
        .bucket = bucket,
        .scratch = "/does-not-exist",
        .tenants = tenants,
        .registry = registry,
        .conditions = conditions,
        .clock = fg_clock_real(),
    };
    struct ingester *ingester;
    struct fg_err err;
    struct fg_buf text;

    (void)state;
    assert_int_not_equal(ing_create(&config, &ingester, &err), FG_OK);
    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(registry, &text); /* a sanitizer finds uses of freed modules */
    fg_buf_done(&text);
    tenants_free(tenants, &limits);
    fg_bucket_close(bucket);
    fg_store_close(store);
    fg_conditions_destroy(conditions);
    fg_registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_start_leaves_nothing_to_scrape),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
