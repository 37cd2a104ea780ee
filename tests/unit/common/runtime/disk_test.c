#include "common/base/time.h"
#include "common/runtime/disk.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

/* ---- deciding ---- */

static void states_follow_free_space(void **state)
{
    static const struct {
        const char *name;
        enum fg_disk_state before;
        uint64_t free_mib; /* of a reserve of 100 */
        enum fg_disk_state want;
    } cases[] = {
        {"much", FG_DISK_OK, 1000, FG_DISK_OK},
        {"twice the reserve", FG_DISK_OK, 200, FG_DISK_OK},
        {"less than that", FG_DISK_OK, 199, FG_DISK_LOW},
        {"the reserve", FG_DISK_OK, 100, FG_DISK_LOW},
        {"less than the reserve", FG_DISK_OK, 99, FG_DISK_FULL},
        {"nothing", FG_DISK_LOW, 0, FG_DISK_FULL},
        {"full, at its edge", FG_DISK_FULL, 100, FG_DISK_FULL},
        {"full, within the edge", FG_DISK_FULL, 124, FG_DISK_FULL},
        {"full, beyond the edge", FG_DISK_FULL, 125, FG_DISK_LOW},
        {"full, much room at once", FG_DISK_FULL, 225, FG_DISK_OK},
        {"low, within the edge", FG_DISK_LOW, 224, FG_DISK_LOW},
        {"low, beyond the edge", FG_DISK_LOW, 225, FG_DISK_OK},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].name);
        assert_int_equal(
            fg_disk_next(cases[i].before, cases[i].free_mib * MIB, UINT64_C(100) * MIB),
            cases[i].want);
    }
}

static void a_disk_near_a_threshold_keeps_its_state(void **state)
{
    enum fg_disk_state disk = FG_DISK_OK;
    unsigned changes = 0;

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t free_mib = i % 2 == 0 ? 99 : 101;
        enum fg_disk_state next = fg_disk_next(disk, free_mib * MIB, UINT64_C(100) * MIB);

        changes += next != disk;
        disk = next;
    }
    assert_int_equal(changes, 1);
}

static void the_reserve_follows_the_size(void **state)
{
    (void)state;
    assert_true(fg_disk_reserve_of(UINT64_C(40) * MIB) == UINT64_C(2) * MIB);
    assert_true(fg_disk_reserve_of(UINT64_C(1) << 40) == UINT64_C(1) << 30);
    assert_true(fg_disk_reserve_of(0) == 0);
}

/* ---- looking at a real one ---- */

static struct fg_disk *watch(uint64_t reserve_bytes, struct fg_registry *registry)
{
    struct fg_disk *disk;
    struct fg_err err;

    assert_int_equal(fg_disk_watch(&(struct fg_disk_config){.path = "/tmp",
                                                            .role = "test",
                                                            .reserve_bytes = reserve_bytes,
                                                            .registry = registry},
                                   &disk, &err),
                     FG_OK);
    return disk;
}

static void a_disk_with_room_allows_writes(void **state)
{
    struct fg_disk *disk = watch(1, NULL);
    struct fg_disk_room room = fg_disk_room(disk);
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_disk_state(disk), FG_DISK_OK);
    assert_true(fg_disk_lacks(disk) == 0);
    assert_true(room.free_bytes > 0 && room.free_bytes <= room.size_bytes);
    assert_int_equal(fg_disk_fits(disk, 1, 0, "a byte", &err), FG_OK);
    assert_int_equal(fg_disk_fits(disk, 1, UINT64_MAX, "a byte", &err), FG_E_NO_SPACE);
    assert_int_equal(fg_disk_fits(disk, UINT64_MAX, 1, "everything", &err), FG_E_NO_SPACE);
    assert_non_null(strstr(err.msg, "everything of 18446744073709551615 bytes does not fit"));
    fg_disk_unwatch(disk);
}

static void a_disk_low_on_space_is_reported(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_disk *disk = watch(UINT64_C(1) << 60, registry);
    struct fg_buf text;

    (void)state;
    fg_buf_init(&text, MIB);
    assert_int_equal(fg_disk_state(disk), FG_DISK_FULL);
    assert_true(fg_disk_lacks(disk) > UINT64_C(1) << 61);
    fg_registry_write(registry, &text);
    fg_buf_putc(&text, '\0');
    assert_non_null(strstr((char *)text.ptr, "flamegrid_disk_state{disk=\"test\"} 2\n"));
    fg_buf_clear(&text);
    fg_disk_describe(disk, &text);
    fg_buf_putc(&text, '\0');
    assert_non_null(strstr((char *)text.ptr, "1099511627776 MiB are reserved"));
    fg_buf_done(&text);
    fg_disk_unwatch(disk);
    fg_registry_destroy(registry);
}

static void an_unwatched_disk_has_room(void **state)
{
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_disk_state(NULL), FG_DISK_OK);
    assert_true(fg_disk_lacks(NULL) == 0);
    assert_true(fg_disk_reserve(NULL) == 0);
    assert_int_equal(fg_disk_fits(NULL, UINT64_MAX, UINT64_MAX, "all", &err), FG_OK);
    fg_disk_unwatch(NULL);
}

static void a_missing_folder_is_an_error(void **state)
{
    struct fg_disk *disk = NULL;
    struct fg_err err;

    (void)state;
    assert_int_equal(
        fg_disk_watch(&(struct fg_disk_config){.path = "/nowhere/at/all", .role = "test"}, &disk,
                      &err),
        FG_E_NOT_FOUND);
    assert_null(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_follow_free_space),
        cmocka_unit_test(a_disk_near_a_threshold_keeps_its_state),
        cmocka_unit_test(the_reserve_follows_the_size),
        cmocka_unit_test(a_disk_with_room_allows_writes),
        cmocka_unit_test(a_disk_low_on_space_is_reported),
        cmocka_unit_test(an_unwatched_disk_has_room),
        cmocka_unit_test(a_missing_folder_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
