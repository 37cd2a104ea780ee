/* The forms of /api/usage, to the byte: programs that write bills read them. */
#include "querier/usage_table.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void add(struct fg_usage_day *day, const char *service, uint64_t n, uint64_t measured,
                struct fg_arena *arena)
{
    const struct fg_usage_row row = {
        fg_cstr(service), n, {measured, 10 * measured, 100 * measured, 1000 * measured}, n};

    assert_true(fg_usage_day_add_row(day, &row, arena));
}

static struct qry_usage_table make(struct qry_usage_entry entries[2], struct fg_arena *arena)
{
    entries[0] = (struct qry_usage_entry){.tenant = FG_LIT("acme"),
                                          .version = 1796000000,
                                          .revision = 2,
                                          .sums = {.day = 20784,
                                                   .stored = {5000, 43200},
                                                   .writes = 26,
                                                   .queries = {12, 30, 99999, 4711999}}};
    add(&entries[0].sums, "shop", 3, 2, arena);
    add(&entries[0].sums, "a \"quoted\", one\n", 1, 1, arena);
    entries[1] = (struct qry_usage_entry){
        .tenant = FG_LIT("acme"), .preliminary = true, .sums = {.day = 20785, .writes = 1}};
    return (struct qry_usage_table){.entries = entries, .n_entries = 2};
}

static void expect(const struct fg_buf *got, const char *wanted)
{
    if (!fg_slice_is(fg_buf_slice(got), wanted))
        fail_msg("%.*s", FG_S(fg_buf_slice(got)));
}

static void csv_is_as_it_was(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct qry_usage_entry entries[2];
    struct qry_usage_table table = make(entries, arena);
    struct fg_buf out;

    (void)state;
    fg_buf_init(&out, 1 << 20);
    qry_usage_table_csv(&table, &out);
    expect(&out,
           "tenant,day,service,version,revision,preliminary,profiles,unmeasured_profiles,samples,"
           "wire_bytes,raw_bytes,series,stored_byte_days,stored_byte_seconds,writes,queries,reads,"
           "read_bytes,cpu_ms\r\n"
           "acme,2026-11-27,,1796000000,2,false,4,1,30,300,3000,4,5000,43200,26,12,30,99999,4711"
           "\r\n"
           "acme,2026-11-28,,0,0,true,0,0,0,0,0,0,0,0,1,0,0,0,0\r\n");
    fg_buf_clear(&out);
    table.by_service = true;
    qry_usage_table_csv(&table, &out);
    expect(&out,
           "tenant,day,service,version,revision,preliminary,profiles,unmeasured_profiles,samples,"
           "wire_bytes,raw_bytes,series,stored_byte_days,stored_byte_seconds,writes,queries,reads,"
           "read_bytes,cpu_ms\r\n"
           "acme,2026-11-27,\"a \"\"quoted\"\", one\n\",1796000000,2,false,1,0,10,100,1000,1,,,,,,,"
           "\r\n"
           "acme,2026-11-27,shop,1796000000,2,false,3,1,20,200,2000,3,,,,,,,\r\n");
    fg_buf_done(&out);
    fg_arena_destroy(arena);
}

static void json_is_as_it_was(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct qry_usage_entry entries[2];
    struct qry_usage_table table = make(entries, arena);
    struct fg_json_writer json;
    struct fg_buf out;

    (void)state;
    table.by_service = true;
    table.n_entries = 1;
    fg_buf_init(&out, 1 << 20);
    json = fg_json_writer(&out);
    fg_json_begin_object(&json, NULL);
    qry_usage_table_json(&table, &json);
    fg_json_end(&json);
    expect(&out,
           "{\"days\":[\n{\"tenant\":\"acme\",\"day\":\"2026-11-27\",\"version\":1796000000,"
           "\"revision\":2,\"preliminary\":false,\"profiles\":4,\"unmeasured_profiles\":1,"
           "\"samples\":30,\"wire_bytes\":300,\"raw_bytes\":3000,\"series\":4,"
           "\"stored_byte_days\":5000,\"stored_byte_seconds\":43200,\"writes\":26,\"queries\":12,"
           "\"reads\":30,\"read_bytes\":99999,\"cpu_ms\":4711,\"services\":["
           "\n{\"service\":\"a \\\"quoted\\\", one\\n\",\"profiles\":1,\"unmeasured_profiles\":0,"
           "\"samples\":10,\"wire_bytes\":100,\"raw_bytes\":1000,\"series\":1},"
           "\n{\"service\":\"shop\",\"profiles\":3,\"unmeasured_profiles\":1,\"samples\":20,"
           "\"wire_bytes\":200,\"raw_bytes\":2000,\"series\":3}]}]}");
    fg_buf_done(&out);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_is_as_it_was),
        cmocka_unit_test(json_is_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
