#include "common/self_profile/elf_file.h"
#include "common/self_profile/file_map.h"
#include "common/self_profile/process_modules.h"
#include "common/self_profile/process_symbols.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static __attribute__((noinline)) void a_function_of_this_file(void)
{
    __asm__ volatile("");
}

static void find_bias(void *arg, const struct fg_process_module *module)
{
    if (strcmp(module->path, "/proc/self/exe") == 0)
        *(uintptr_t *)arg = module->bias;
}

static void functions_of_the_program_are_found_by_address(void **state)
{
    struct fg_slice file = fg_file_map("/proc/self/exe");
    struct fg_elf_functions functions;
    uintptr_t bias = UINTPTR_MAX;
    uint64_t address;
    struct fg_err err;

    (void)state;
    fg_process_modules_each(find_bias, &bias);
    address = (uintptr_t)a_function_of_this_file - bias;
    assert_true(fg_elf_has(file, FG_ELF_SYMTAB));
    assert_int_equal(fg_elf_functions(file, FG_ELF_SYMTAB, &functions, &err), FG_OK);
    assert_true(
        fg_slice_is(fg_elf_function_name(&functions, fg_elf_function_at(&functions, address)),
                    "a_function_of_this_file"));
    assert_int_equal(fg_elf_function_at(&functions, 0), UINT32_MAX);
    assert_int_equal(fg_elf_function_at(&functions, UINT64_MAX), UINT32_MAX);
    fg_elf_functions_done(&functions);
    assert_true(fg_elf_section(file, ".eh_frame", &address, &(struct fg_slice){NULL, 0}));
    assert_false(fg_elf_section(file, ".no_such", &address, &(struct fg_slice){NULL, 0}));
    fg_file_unmap(file);
}

static void a_file_that_is_no_elf_is_refused(void **state)
{
    struct fg_elf_functions functions;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_elf_functions(FG_LIT("#!/bin/sh"), FG_ELF_SYMTAB, &functions, &err),
                     FG_E_INVALID);
    assert_int_equal(fg_elf_functions(fg_file_map("/no/such"), FG_ELF_SYMTAB, &functions, &err),
                     FG_E_INVALID);
}

/* Of the shared library of C: it is large and there is nothing of ours in it. */
static void a_file_that_is_cut_short_gives_no_more_than_fewer_names(void **state)
{
    struct fg_slice file = fg_file_map("/proc/self/exe");
    struct fg_elf_functions functions;
    struct fg_err err;

    (void)state;
    for (size_t len = 0; len < file.len; len = len * 5 / 4 + 1) {
        /* A copy of that length, so that the sanitizer sees reads beyond it. */
        uint8_t *copy = fg_malloc(len);
        uint64_t address;
        struct fg_slice bytes;

        if (len > 0)
            memcpy(copy, file.ptr, len);
        if (fg_elf_functions(fg_bytes(copy, len), FG_ELF_SYMTAB, &functions, &err) == FG_OK) {
            for (uint32_t i = 0; i < functions.count; i++)
                (void)fg_elf_function_name(&functions, i);
            fg_elf_functions_done(&functions);
        }
        (void)fg_elf_section(fg_bytes(copy, len), ".eh_frame", &address, &bytes);
        (void)fg_elf_build_id(fg_bytes(copy, len));
        free(copy);
    }
    fg_file_unmap(file);
}

static bool name_is(struct fg_process_symbols *symbols, const void *code, const char *want)
{
    struct fg_buf name;
    uint64_t id;
    bool same;

    fg_buf_init(&name, 1000);
    assert_true(fg_process_symbols_find(symbols, (uintptr_t)code, &id));
    fg_process_symbols_name(symbols, id, &name);
    same = fg_slice_is(fg_buf_slice(&name), want);
    if (!same)
        print_message("  %.*s, want %s\n", FG_S(fg_buf_slice(&name)), want);
    fg_buf_done(&name);
    return same;
}

static void functions_of_this_process_have_their_names(void **state)
{
    struct fg_process_symbols *symbols = fg_process_symbols_create();
    uint64_t id;

    (void)state;
    assert_true(name_is(symbols, (const void *)a_function_of_this_file, "a_function_of_this_file"));
    assert_true(name_is(symbols, (const void *)toupper, "toupper"));
    assert_false(fg_process_symbols_find(symbols, 1, &id));
    assert_false(fg_process_symbols_find(symbols, (uintptr_t)&id, &id)); /* data is no code */
    fg_process_symbols_refresh(symbols);
    fg_process_symbols_destroy(symbols);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_the_program_are_found_by_address),
        cmocka_unit_test(a_file_that_is_no_elf_is_refused),
        cmocka_unit_test(a_file_that_is_cut_short_gives_no_more_than_fewer_names),
        cmocka_unit_test(functions_of_this_process_have_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
