#include "common/self_profile/unwind_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Where the section is loaded, where code begins, and the function of the entry. */
enum { SECTION_AT = 0x4000, LOW = 0x1000, FUNCTION_AT = 0x1100, FUNCTION_BYTES = 0x80 };

static const uint8_t cie[] = {
    20,   0,    0,   0, 0,    0, 0, 0, /* length, id */
    1,    'z',  'R', 0,                /* version, augmentation */
    1,    0x78, 16,  1, 0x1b, /* alignments 1 and -8, return address, length and encoding */
    0x0c, 7,    8,            /* CFA is sp + 8 */
    0x90, 1,    0,   0,       /* the return address is at CFA - 8; padding */
};

static size_t put_le32(uint8_t *out, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> 8 * i);
    return 4;
}

/* Reads a section of the CIE and one function with these instructions. */
static struct fg_unwind_rows read_function(const char *instructions, size_t len)
{
    struct fg_unwind_rows rows;
    uint8_t section[256];
    size_t at = sizeof cie;

    memcpy(section, cie, sizeof cie);
    at += put_le32(section + at, (uint32_t)(13 + len));
    at += put_le32(section + at, (uint32_t)at); /* back to the CIE */
    at += put_le32(section + at, (uint32_t)FUNCTION_AT - (uint32_t)(SECTION_AT + at));
    at += put_le32(section + at, FUNCTION_BYTES);
    section[at++] = 0; /* no augmentation */
    memcpy(section + at, instructions, len);
    at += len;
    at += put_le32(section + at, 0);
    fg_unwind_rows_read(fg_bytes(section, at), SECTION_AT, LOW, &rows);
    return rows;
}

#define OFFSET (FUNCTION_AT - LOW)

static const struct fg_unwind_row usual = {OFFSET, 1, FG_UNWIND_SP, 0};
static const struct fg_unwind_row behind = {OFFSET + FUNCTION_BYTES, 0, FG_UNWIND_UNKNOWN, 0};

static const struct {
    const char *name, *instructions;
    size_t len;
    struct fg_unwind_row want[6]; /* between `usual` and `behind`; base 0 ends */
    bool is_unknown;              /* from where its last instruction is */
} cases[] = {
    {"nothing", "", 0, {{0}}, false},
    {"push rbp; mov rbp, rsp; ...; ret", /* as every function of ours */
     "\x41\x0e\x10\x86\x02\x43\x0d\x06\x60\x0c\x07\x08",
     12,
     {{OFFSET + 1, 2, FG_UNWIND_SP, 2},
      {OFFSET + 4, 2, FG_UNWIND_FP, 2},
      {OFFSET + 36, 1, FG_UNWIND_SP, 2}},
     false},
    {"rbp as a usual register",
     "\x41\x0e\x10\x86\x02\x44\x0e\x40\x50\x0e\x08\xc6",
     12,
     {{OFFSET + 1, 2, FG_UNWIND_SP, 2},
      {OFFSET + 5, 8, FG_UNWIND_SP, 2},
      {OFFSET + 21, 1, FG_UNWIND_SP, 0}},
     false},
    {"an exit in the middle",
     "\x04\x10\x00\x00\x00\x0e\x20\x41\x0a\x0e\x08\x41\x0b",
     13,
     {{OFFSET + 16, 4, FG_UNWIND_SP, 0},
      {OFFSET + 17, 1, FG_UNWIND_SP, 0},
      {OFFSET + 18, 4, FG_UNWIND_SP, 0}},
     false},
    {"a frame that is too large for a row",
     "\x02\x10\x0e\x80\x80\x80\x01",
     7,
     {{OFFSET + 16, 0, FG_UNWIND_UNKNOWN, 0}},
     false},
    {"the end of the stack", "\x07\x10", 2, {{0}}, false},
    {"an unknown instruction", "\x41\x0e\x10\x3f", 4, {{0}}, true},
    {"a number that is cut short", "\x41\x0e\x80", 3, {{0}}, true},
    {"more states than were remembered", "\x41\x0b", 2, {{0}}, true},
};

static void instructions_become_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_unwind_rows rows = read_function(cases[i].instructions, cases[i].len);
        struct fg_unwind_row first = usual;
        uint32_t n = 0;

        print_message("  %s\n", cases[i].name);
        if (strcmp(cases[i].name, "the end of the stack") == 0)
            first = (struct fg_unwind_row){OFFSET, 0, FG_UNWIND_END, 0};
        assert_memory_equal(&rows.items[n++], &first, sizeof first);
        for (unsigned k = 0; cases[i].want[k].address != 0; k++)
            assert_memory_equal(&rows.items[n++], &cases[i].want[k], sizeof first);
        /* Unknown to its end, or what follows the function is a row of its own. */
        if (cases[i].is_unknown)
            assert_int_equal(rows.items[n++].base, FG_UNWIND_UNKNOWN);
        else if (rows.items[n - 1].base != FG_UNWIND_UNKNOWN)
            assert_memory_equal(&rows.items[n++], &behind, sizeof behind);
        assert_int_equal(rows.count, n);
        fg_unwind_rows_done(&rows);
    }
}

static void an_address_finds_the_row_before_it(void **state)
{
    struct fg_unwind_rows rows = read_function("\x50\x0e\x20", 3);

    (void)state;
    assert_null(fg_unwind_rows_find(&rows, OFFSET - 1));
    assert_int_equal(fg_unwind_rows_find(&rows, OFFSET)->cfa_words, 1);
    assert_int_equal(fg_unwind_rows_find(&rows, OFFSET + 15)->cfa_words, 1);
    assert_int_equal(fg_unwind_rows_find(&rows, OFFSET + 16)->cfa_words, 4);
    assert_int_equal(fg_unwind_rows_find(&rows, UINT32_MAX)->base, FG_UNWIND_UNKNOWN);
    fg_unwind_rows_done(&rows);
    assert_null(fg_unwind_rows_find(&rows, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_become_rows),
        cmocka_unit_test(an_address_finds_the_row_before_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
