/* What frames are called. */
#include "common/model/frame_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NO_MAPPING = -1, LINES_MAX = 3 };

static const struct {
    uint64_t start, limit, offset;
    const char *filename, *build_id;
} mappings[] = {
    {0x7f0000000000, 0x7f0000200000, 0x1000, "/lib/x86_64-linux-gnu/libc.so.6", "b1"},
    {0x400000, 0, 0, "app", ""},                   /* without a limit */
    {0x1000, 0x3000, 0x1000, "/opt/ebpf/app", ""}, /* moved to the addresses of its ELF file */
    {0, 0, 0, "/usr/lib/", ""},
    {0x5000, 0x6000, 0, "", "b2"}, /* without a file */
    {0xffffffff81000000, UINT64_MAX, 0xffffffff81000000, "[kernel.kallsyms]", ""},
    {0x10, 0x20, UINT64_MAX, "odd", ""},
};

static void addresses_are_named_by_file_and_offset(void **state)
{
    static const struct {
        const char *name;
        int mapping;
        uint64_t address;
        const char *want;
    } cases[] = {
        {"in a library", 0, 0x7f000009e2a1, "libc.so.6+0x9f2a1"},
        {"where the mapping begins", 0, 0x7f0000000000, "libc.so.6+0x1000"},
        {"an offset already", 0, 0x9f2a1, "libc.so.6+0x9f2a1"},
        {"behind the mapping", 0, 0x7f0000200000, "libc.so.6+0x7f0000200000"},
        {"without a limit", 1, 0x401234, "app+0x1234"},
        {"an address of the ELF file", 2, 0x1234, "app+0x1234"},
        {"a path that ends with a slash", 3, 0x10, "/usr/lib/+0x10"},
        {"a mapping without a file", 4, 0x5010, "0x5010"},
        {"the kernel", 5, 0xffffffff81234567, "[kernel.kallsyms]+0xffffffff81234567"},
        {"more than 64 bits", 6, 0x12, "odd+0x1"},
        {"no mapping", NO_MAPPING, 0x7f12a0b3c4d5, "0x7f12a0b3c4d5"},
        {"the last address", NO_MAPPING, UINT64_MAX, "0xffffffffffffffff"},
        {"nothing", NO_MAPPING, 0, "[unknown]"},
        {"a mapping alone", 0, 0, "[unknown]"},
    };
    struct fg_symbols symbols;
    struct fg_buf scratch;

    (void)state;
    fg_symbols_init(&symbols);
    fg_buf_init(&scratch, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(mappings); i++) {
        struct fg_mapping mapping = {mappings[i].start,
                                     mappings[i].limit,
                                     mappings[i].offset,
                                     fg_symbols_string(&symbols, fg_cstr(mappings[i].filename)),
                                     fg_symbols_string(&symbols, fg_cstr(mappings[i].build_id)),
                                     0};

        assert_int_equal(fg_symbols_mapping(&symbols, &mapping), i);
    }
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_location location = {.address = cases[i].address,
                                       .mapping = cases[i].mapping == NO_MAPPING
                                                      ? (uint32_t)FG_NO_MAPPING
                                                      : (uint32_t)cases[i].mapping};
        uint32_t number = fg_symbols_location(&symbols, &location, NULL);
        struct fg_slice name;

        print_message("  %s\n", cases[i].name);
        assert_int_equal(fg_frame_count(&symbols.locations[number]), 1);
        name = fg_frame_name(&symbols, number, 0, &scratch);
        if (!fg_slice_is(name, cases[i].want))
            fail_msg("%.*s, not %s", FG_S(name), cases[i].want);
    }
    fg_buf_done(&scratch);
    fg_symbols_done(&symbols);
}

static void lines_are_named_by_function(void **state)
{
    static const struct {
        const char *name, *system_name, *want;
    } functions[LINES_MAX] = {
        {"hash", "_Z4hashv", "hash"},
        {"", "_Z4workv", "_Z4workv"},
        {"", "", "app+0x34"}, /* a line whose function has no name */
    };
    struct fg_line line[LINES_MAX];
    struct fg_location location = {.address = 0x400034, .n_lines = LINES_MAX};
    struct fg_symbols symbols;
    struct fg_buf scratch;
    uint32_t number;

    (void)state;
    fg_symbols_init(&symbols);
    fg_buf_init(&scratch, SIZE_MAX);
    for (size_t i = 0; i < LINES_MAX; i++) {
        struct fg_function function = {
            .name = fg_symbols_string(&symbols, fg_cstr(functions[i].name)),
            .system_name = fg_symbols_string(&symbols, fg_cstr(functions[i].system_name))};

        line[i] = (struct fg_line){fg_symbols_function(&symbols, &function), 7};
    }
    location.mapping = fg_symbols_mapping(
        &symbols, &(struct fg_mapping){.start = 0x400000,
                                       .filename = fg_symbols_string(&symbols, FG_LIT("app"))});
    number = fg_symbols_location(&symbols, &location, line);
    assert_int_equal(fg_frame_count(&symbols.locations[number]), LINES_MAX);
    for (uint32_t i = 0; i < LINES_MAX; i++)
        assert_true(fg_slice_is(fg_frame_name(&symbols, number, i, &scratch), functions[i].want));

    location = (struct fg_location){.mapping = FG_NO_MAPPING, .n_lines = 1};
    number = fg_symbols_location(&symbols, &location, &line[2]);
    assert_true(fg_slice_is(fg_frame_name(&symbols, number, 0, &scratch), ""));
    fg_buf_done(&scratch);
    fg_symbols_done(&symbols);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_named_by_file_and_offset),
        cmocka_unit_test(lines_are_named_by_function),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
