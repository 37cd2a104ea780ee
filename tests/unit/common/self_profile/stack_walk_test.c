#include "common/self_profile/own_stack.h"

#include <execinfo.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORDS = 64 };

/* A stack with a page behind it that cannot be read. */
struct fake {
    uintptr_t *low;
    uintptr_t high;
};

static struct fake make_fake(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *at = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    assert_int_equal(mprotect(at + page, page, PROT_READ | PROT_WRITE), 0);
    return (struct fake){(uintptr_t *)(at + 2 * page) - WORDS, (uintptr_t)(at + 2 * page)};
}

static void free_fake(const struct fake *fake)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    assert_int_equal(munmap((char *)fake->high - 2 * page, 3 * page), 0);
}

static uintptr_t at(const struct fake *fake, unsigned word)
{
    return (uintptr_t)(fake->low + word);
}

static void record(struct fake *fake, unsigned word, uintptr_t fp, uintptr_t pc)
{
    fake->low[word] = fp;
    fake->low[word + 1] = pc;
}

static void frame_pointers_are_followed_to_the_end(void **state)
{
    struct fake fake = make_fake();
    uintptr_t pcs[FG_STACK_DEPTH_MAX];

    (void)state;
    record(&fake, 2, at(&fake, 10), 0x200);
    record(&fake, 10, at(&fake, 62), 0x300);
    record(&fake, 62, 0, 0x400); /* the last two words */
    assert_int_equal(
        fg_stack_walk(
            NULL, &(struct fg_stack_registers){0x100, at(&fake, 2), at(&fake, 0), fake.high}, pcs),
        4);
    assert_int_equal(pcs[0], 0x100);
    assert_int_equal(pcs[3], 0x400);
    /* Of the callers alone. */
    assert_int_equal(
        fg_stack_walk(NULL, &(struct fg_stack_registers){0, at(&fake, 2), at(&fake, 2), fake.high},
                      pcs),
        3);
    assert_int_equal(pcs[0], 0x200);
    free_fake(&fake);
}

static void a_wrong_frame_pointer_ends_the_walk(void **state)
{
    struct fake fake = make_fake();
    uintptr_t pcs[FG_STACK_DEPTH_MAX];
    const struct {
        const char *name;
        uintptr_t fp;
    } cases[] = {
        {"zero", 0},
        {"below the stack", at(&fake, 0) - 8},
        {"not aligned", at(&fake, 4) + 1},
        {"its record ends behind the stack", at(&fake, WORDS - 1)},
        {"behind the stack", fake.high},
        {"far away", UINTPTR_MAX - 7},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_stack_registers registers = {0x100, cases[i].fp, at(&fake, 0), fake.high};

        print_message("  %s\n", cases[i].name);
        assert_int_equal(fg_stack_walk(NULL, &registers, pcs), 1);
        /* The same from a record. */
        record(&fake, 2, cases[i].fp, 0x200);
        registers.fp = at(&fake, 2);
        assert_int_equal(fg_stack_walk(NULL, &registers, pcs), 2);
    }
    free_fake(&fake);
}

static void a_circle_of_frames_ends(void **state)
{
    struct fake fake = make_fake();
    uintptr_t pcs[FG_STACK_DEPTH_MAX];

    (void)state;
    record(&fake, 2, at(&fake, 8), 0x200);
    record(&fake, 8, at(&fake, 2), 0x300);
    assert_int_equal(
        fg_stack_walk(
            NULL, &(struct fg_stack_registers){0x100, at(&fake, 2), at(&fake, 0), fake.high}, pcs),
        3);
    free_fake(&fake);
}

static void a_deep_stack_keeps_its_leaf_side(void **state)
{
    uintptr_t pcs[FG_STACK_DEPTH_MAX], words[4 * FG_STACK_DEPTH_MAX];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(words); i += 2) {
        words[i] = (uintptr_t)&words[i + 2];
        words[i + 1] = 0x100 + i;
    }
    assert_int_equal(
        fg_stack_walk(NULL,
                      &(struct fg_stack_registers){1, (uintptr_t)words, (uintptr_t)words,
                                                   (uintptr_t)(words + FG_COUNT(words))},
                      pcs),
        FG_STACK_DEPTH_MAX);
    assert_int_equal(pcs[0], 1);
    assert_int_equal(pcs[1], 0x100);
}

/* A module with all kinds of rows. */
static struct fg_unwind_row rows[] = {
    {0x00, 4, FG_UNWIND_SP, 2},       /* a frame of 32 bytes, the frame pointer in its third word */
    {0x10, 1, FG_UNWIND_SP, 0},       /* at the start of a function */
    {0x20, 2, FG_UNWIND_FP, 2},       /* with a frame pointer */
    {0x30, 0, FG_UNWIND_UNKNOWN, 0},  /* no row */
    {0x40, 0, FG_UNWIND_END, 0},      /* the first function of a thread */
    {0x50, 65535, FG_UNWIND_SP, 255}, /* nonsense */
};
static struct fg_unwind_map map = {
    .count = 1, .modules = {{0x1000, 0x1060, {.items = rows, .count = FG_COUNT(rows)}}}};

static void rows_say_where_the_caller_is(void **state)
{
    struct fake fake = make_fake();
    uintptr_t pcs[FG_STACK_DEPTH_MAX];
    const uintptr_t want[] = {0x1010, 0x1005, 0x1025, 0x1035, 0x1042};

    (void)state;
    fake.low[0] = 0x1005;                     /* the row of 0x10: nothing was pushed */
    fake.low[3] = at(&fake, 10);              /* the row of 0x00: frame pointer, */
    fake.low[4] = 0x1025;                     /* ... return address */
    record(&fake, 10, at(&fake, 20), 0x1035); /* the row of 0x20 */
    record(&fake, 20, at(&fake, 30), 0x1042); /* no row, so the frame pointer */
    record(&fake, 30, at(&fake, 40), 0x1012); /* not reached: nothing called that one */
    assert_int_equal(
        fg_stack_walk(&map, &(struct fg_stack_registers){0x1010, 12345, at(&fake, 0), fake.high},
                      pcs),
        FG_COUNT(want));
    assert_memory_equal(pcs, want, sizeof want);
    free_fake(&fake);
}

static void a_caller_in_no_code_ends_the_walk(void **state)
{
    struct fake fake = make_fake();
    uintptr_t pcs[FG_STACK_DEPTH_MAX];

    (void)state;
    fake.low[0] = 0x5555; /* in no module */
    record(&fake, 2, at(&fake, 10), 0x1012);
    assert_int_equal(
        fg_stack_walk(
            &map, &(struct fg_stack_registers){0x1010, at(&fake, 2), at(&fake, 0), fake.high}, pcs),
        2);
    /* A leaf in no module is one of the kernel's page: its caller is found. */
    assert_int_equal(
        fg_stack_walk(
            &map, &(struct fg_stack_registers){0x7777, at(&fake, 2), at(&fake, 0), fake.high}, pcs),
        2); /* what is above is no record */
    assert_int_equal(pcs[1], 0x1012);
    free_fake(&fake);
}

/* Whatever registers, rows and stack say, nothing outside of the stack is read. */
static void nonsense_reads_nothing_outside(void **state)
{
    struct fake fake = make_fake();
    uintptr_t pcs[FG_STACK_DEPTH_MAX];

    (void)state;
    srandom(1);
    for (unsigned round = 0; round < 200000; round++) {
        struct fg_stack_registers registers = {
            .pc = round % 3 == 0 ? 0 : 0x1000 + (uintptr_t)random() % 0x70,
            .fp = at(&fake, 0) + (uintptr_t)random() % 700 - 50,
            .sp = at(&fake, (unsigned)random() % WORDS),
            .high = fake.high,
        };

        for (unsigned i = 0; i < WORDS; i++)
            fake.low[i] = random() % 2 == 0 ? 0x1000 + (uintptr_t)random() % 0x70
                                            : at(&fake, 0) + (uintptr_t)random() % 700 - 50;
        assert_true(fg_stack_walk(&map, &registers, pcs) <= FG_STACK_DEPTH_MAX);
    }
    free_fake(&fake);
}

/* ---- this process ---- */

static uintptr_t ours[FG_STACK_DEPTH_MAX];
static void *libgccs[FG_STACK_DEPTH_MAX];
static uint32_t n_ours;
static int n_libgccs;

static int compare(const void *a, const void *b)
{
    n_ours = fg_own_stack(ours);
    n_libgccs = backtrace(libgccs, FG_STACK_DEPTH_MAX);
    return *(const int *)a - *(const int *)b;
}

/* The C library's qsort() has no frame pointers, and neither has cmocka. */
static void a_stack_through_libraries_is_that_of_libgcc(void **state)
{
    int numbers[] = {2, 1}, first = 0;

    (void)state;
#if !defined(__x86_64__)
    skip();
#endif
    fg_unwind_map_make();
    assert_non_null(fg_unwind_map());
    qsort(numbers, 2, sizeof numbers[0], compare);
    /* It begins with compare() itself and, with the sanitizer, with a function in between. */
    while (first < n_libgccs && (uintptr_t)libgccs[first] != ours[0])
        first++;
    assert_in_range(first, 1, 2);
    assert_true(n_ours > 6);
    assert_int_equal(n_ours, n_libgccs - first);
    for (uint32_t i = 0; i < n_ours; i++)
        assert_int_equal(ours[i], (uintptr_t)libgccs[first + (int)i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_pointers_are_followed_to_the_end),
        cmocka_unit_test(a_wrong_frame_pointer_ends_the_walk),
        cmocka_unit_test(a_circle_of_frames_ends),
        cmocka_unit_test(a_deep_stack_keeps_its_leaf_side),
        cmocka_unit_test(rows_say_where_the_caller_is),
        cmocka_unit_test(a_caller_in_no_code_ends_the_walk),
        cmocka_unit_test(nonsense_reads_nothing_outside),
        cmocka_unit_test(a_stack_through_libraries_is_that_of_libgcc),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
