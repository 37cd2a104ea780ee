/* Arrays that grow under their readers: what was outgrown stays until it is freed, and no longer.
 */
#include "common/base/outgrown.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { GROWTHS = 10 };

static void outgrown_arrays_keep_what_they_had(void **state)
{
    struct fg_outgrown list = {0}, other = {0};
    uint32_t *arrays[GROWTHS], count = 4;
    size_t bytes = 0;

    (void)state;
    arrays[0] = fg_outgrow(&list, NULL, 0, count * sizeof *arrays[0]);
    assert_null(list.arrays);
    for (uint32_t i = 0; i < count; i++)
        arrays[0][i] = i;
    for (unsigned g = 1; g < GROWTHS; g++) {
        arrays[g] = fg_outgrow(&list, arrays[g - 1], count * sizeof(uint32_t),
                               2 * count * sizeof(uint32_t));
        bytes += count * sizeof(uint32_t);
        for (uint32_t i = count; i < 2 * count; i++)
            arrays[g][i] = i;
        count *= 2;
    }
    assert_int_equal(list.bytes, bytes);
    assert_true(bytes <= count * sizeof(uint32_t)); /* as the header promises */
    for (unsigned g = 0; g < GROWTHS; g++)
        for (uint32_t i = 0; i < UINT32_C(4) << g; i++)
            assert_int_equal(arrays[g][i], i);

    fg_outgrown_move(&other, &list);
    assert_int_equal(list.bytes, 0);
    assert_null(list.arrays);
    assert_int_equal(other.bytes, bytes);
    fg_outgrown_free(&other); /* the sanitizer says whether all were there */
    assert_int_equal(other.bytes, 0);
    free(arrays[GROWTHS - 1]);
}

static void move_joins_two_lists(void **state)
{
    struct fg_outgrown a = {0}, b = {0};

    (void)state;
    free(fg_outgrow(&a, fg_malloc(8), 8, 16));
    free(fg_outgrow(&b, fg_malloc(8), 8, 16));
    free(fg_outgrow(&b, fg_malloc(8), 4, 16));
    fg_outgrown_move(&a, &b);
    fg_outgrown_move(&a, &b);
    assert_int_equal(a.bytes, 20);
    fg_outgrown_free(&a);
}

static void without_a_list_the_old_array_is_freed(void **state)
{
    uint8_t *array = fg_outgrow(NULL, NULL, 0, 4);

    (void)state;
    memcpy(array, "abcd", 4);
    array = fg_outgrow(NULL, array, 4, 400);
    assert_memory_equal(array, "abcd", 4);
    free(array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outgrown_arrays_keep_what_they_had),
        cmocka_unit_test(move_joins_two_lists),
        cmocka_unit_test(without_a_list_the_old_array_is_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
