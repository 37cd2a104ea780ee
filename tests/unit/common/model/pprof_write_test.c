#include "common/model/pprof_write.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct fg_pprof_head cpu = {
    .type = {FG_LIT("process_cpu"), FG_LIT("cpu"), FG_LIT("nanoseconds"), FG_LIT("cpu"),
             FG_LIT("nanoseconds")},
    .time_ns = 5,
};

static void a_small_profile_byte_for_byte(void **state)
{
    static const char want[] = "\x0a\x04\x08\x01\x10\x02" /* sample_type: cpu, nanoseconds */
                               "\x12\x06\x0a\x01\x01\x12\x01\x04"     /* main: 4 */
                               "\x12\x07\x0a\x02\x02\x01\x12\x01\x07" /* leaf, main: 7 */
                               "\x22\x06\x08\x01\x22\x02\x08\x01"     /* location 1 */
                               "\x22\x06\x08\x02\x22\x02\x08\x02"     /* location 2 */
                               "\x2a\x04\x08\x01\x10\x03"             /* function main */
                               "\x2a\x04\x08\x02\x10\x04"             /* function leaf */
                               "\x32\0\x32\x03"
                               "cpu\x32\x0b"
                               "nanoseconds" /* strings */
                               "\x32\x04main\x32\x04leaf"
                               "\x48\x05"                 /* time_nanos */
                               "\x5a\x04\x08\x01\x10\x02" /* period_type */
                               "\x60\x80\x94\xeb\xdc\x03" /* period: 1000000000 */
                               "\x70\x01";                /* default_sample_type */
    struct fg_tree tree;
    struct fg_buf buf;

    (void)state;
    fg_tree_init(&tree);
    slow_tree_add(&tree, "main", 4);
    slow_tree_add(&tree, "main;leaf", 7);
    slow_tree_add(&tree, "unused", 0);
    fg_buf_init(&buf, 4096);
    fg_pprof_write(&tree, &cpu, &buf);
    assert_int_equal(buf.len, sizeof want - 1);
    assert_memory_equal(buf.ptr, want, buf.len);
    fg_buf_done(&buf);
    fg_tree_done(&tree);
}

static void locations_and_mappings_keep_all_fields(void **state)
{
    static const char want[] = "\x1a\x0e\x08\x01\x10\x10\x18\x20\x20\x30\x28\x05\x30\x06\x48\x01"
                               "\x22\x08\x08\x01\x10\x01\x18\x11\x28\x01";
    struct fg_mapping mapping = {16, 32, 48, 0, 0, FG_MAPPING_LINES};
    struct fg_location location = {.address = 17, .folded = true};
    struct fg_tree tree;
    struct fg_buf buf;

    (void)state;
    fg_tree_init(&tree);
    mapping.filename = fg_symbols_string(&tree.symbols, FG_LIT("/bin/x"));
    mapping.build_id = fg_symbols_string(&tree.symbols, FG_LIT("id"));
    location.mapping = fg_symbols_mapping(&tree.symbols, &mapping);
    fg_tree_add(
        &tree,
        fg_tree_child(&tree, FG_TREE_ROOT, fg_symbols_location(&tree.symbols, &location, NULL)), 1);
    fg_buf_init(&buf, 4096);
    fg_pprof_write(&tree,
                   &(struct fg_pprof_head){.type = {.type = FG_LIT("a"),
                                                    .unit = FG_LIT("b"),
                                                    .period_type = FG_LIT("c"),
                                                    .period_unit = FG_LIT("d")}},
                   &buf);
    assert_non_null(memmem(buf.ptr, buf.len, want, sizeof want - 1));
    fg_buf_done(&buf);
    fg_tree_done(&tree);
}

static void a_value_without_a_stack_is_a_sample_without_locations(void **state)
{
    /* sample_type 1 1 {1: 1, 2: 2}; sample {2: packed 7} */
    static const char sample[] = "\x12\x03\x12\x01\x07";
    struct fg_pprof_head head = {.type = {.type = FG_LIT("a"), .unit = FG_LIT("b")}};
    struct fg_tree tree;
    struct fg_buf out;

    (void)state;
    fg_tree_init(&tree);
    fg_buf_init(&out, 4096);
    fg_tree_add(&tree, FG_TREE_ROOT, 7);
    fg_pprof_write(&tree, &head, &out);
    assert_non_null(memmem(out.ptr, out.len, sample, sizeof sample - 1));
    fg_buf_done(&out);
    fg_tree_done(&tree);
}

static void a_tree_without_values_has_type_period_and_time(void **state)
{
    static const char want[] = "\x0a\x04\x08\x01\x10\x02" /* sample_type: cpu, nanoseconds */
                               "\x32\0\x32\x03"
                               "cpu\x32\x0b"
                               "nanoseconds"
                               "\x48\x05"                 /* time_nanos */
                               "\x5a\x04\x08\x01\x10\x02" /* period_type */
                               "\x60\x80\x94\xeb\xdc\x03" /* period: 1000000000 */
                               "\x70\x01";                /* default_sample_type */
    struct fg_tree tree;
    struct fg_buf buf;

    (void)state;
    fg_tree_init(&tree);
    slow_tree_add(&tree, "main;leaf", 0);
    fg_buf_init(&buf, 4096);
    fg_pprof_write(&tree, &cpu, &buf);
    assert_int_equal(buf.len, sizeof want - 1);
    assert_memory_equal(buf.ptr, want, buf.len);
    fg_buf_done(&buf);
    fg_tree_done(&tree);
}

static void exceeding_the_maximum_is_reported(void **state)
{
    struct fg_tree tree;
    struct fg_buf buf;

    (void)state;
    fg_tree_init(&tree);
    fg_buf_init(&buf, 40);
    slow_tree_add(&tree, "main;leaf", 1);
    fg_pprof_write(&tree, &cpu, &buf);
    assert_true(buf.full);
    fg_buf_done(&buf);
    fg_tree_done(&tree);
}

static void a_profile_has_all_its_types(void **state)
{
    static const char types[] =
        "\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04";                      /* samples, cpu */
    static const char samples[] = "\x12\x09\x0a\x02\x01\x02\x12\x03\x01\xac\x02" /* leaf, main */
                                  "\x12\x04\x12\x02\x02\x00";                    /* no stack */
    static const struct fg_value_type names[] = {{FG_LIT("samples"), FG_LIT("count")},
                                                 {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    static const int64_t values[] = {1, 2, 300, 0};
    struct fg_pprof_head head = {.time_ns = 5, .duration_ns = 6};
    uint32_t nodes[] = {1, FG_TREE_ROOT};
    struct fg_tree tree;
    struct fg_buf out;

    (void)state;
    fg_tree_init(&tree);
    slow_tree_add(&tree, "main", 4);
    slow_tree_add(&tree, "main;leaf", 7);
    fg_buf_init(&out, 4096);
    fg_pprof_write_samples(&tree, &(struct fg_pprof_samples){names, nodes, values, 2, 2, NULL, 0},
                           &head, &out);
    assert_memory_equal(out.ptr, types, sizeof types - 1);
    assert_memory_equal(out.ptr + sizeof types - 1, samples, sizeof samples - 1);
    /* time, duration, an empty period type and no period */
    assert_memory_equal(out.ptr + out.len - 6, "\x48\x05\x50\x06\x5a\x00", 6);
    fg_buf_done(&out);
    fg_tree_done(&tree);
}

/* One without, one with a span, one with a trace only. */
static void links_are_labels_of_their_samples(void **state)
{
    static const char want[] = "\x12\x06\x0a\x01\x01\x12\x01\x01"
                               "\x12\x0c\x0a\x01\x01\x12\x01\x02\x1a\x04\x08\x04\x10\x05"
                               "\x12\x0c\x0a\x01\x01\x12\x01\x03\x1a\x04\x08\x06\x10\x07";
    static const char texts[] = "\x32\x07span_id\x32\x10"
                                "00000000deadbeef\x32\x08trace_id\x32\x20"
                                "000102030405060708090a0b0c0d0e0f";
    static const struct fg_value_type cpu_type = {FG_LIT("cpu"), FG_LIT("nanoseconds")};
    struct fg_link links[2] = {{.sample = 1}, {.sample = 2}};
    static const int64_t values[] = {1, 2, 3};
    static const uint32_t nodes[] = {0, 0, 0};
    struct fg_pprof_head head = {.time_ns = 5};
    struct fg_tree tree;
    struct fg_buf out;

    (void)state;
    links[0].span_id =
        fg_id_get((const uint8_t[FG_ID_BYTES]){0, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef}).lo;
    for (size_t i = 0; i < FG_ID_BYTES; i++)
        links[1].trace_id[i] = (uint8_t)i;
    fg_tree_init(&tree);
    slow_tree_add(&tree, "main", 4);
    fg_buf_init(&out, 4096);
    fg_pprof_write_samples(
        &tree, &(struct fg_pprof_samples){&cpu_type, nodes, values, 1, 3, links, 2}, &head, &out);
    assert_true(fg_slice_search(fg_buf_slice(&out), texts) != SIZE_MAX);
    assert_memory_equal(out.ptr + 6, want, sizeof want - 1);
    fg_buf_done(&out);
    fg_tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_profile_byte_for_byte),
        cmocka_unit_test(locations_and_mappings_keep_all_fields),
        cmocka_unit_test(a_value_without_a_stack_is_a_sample_without_locations),
        cmocka_unit_test(a_profile_has_all_its_types),
        cmocka_unit_test(links_are_labels_of_their_samples),
        cmocka_unit_test(a_tree_without_values_has_type_period_and_time),
        cmocka_unit_test(exceeding_the_maximum_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
