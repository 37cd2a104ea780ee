/* Answers to an import: the first byte says which one it is. A profile that is read has the same
 * sum with the time that it gets. */
#include "deploy/cli/import_answer.h"

#include <math.h>

enum { ARENA_BYTES = 16 * 1024 * 1024 };

static void try_series(struct fg_slice in, struct fg_arena *arena)
{
    static const struct cli_import_scope scope = {{NULL, 0}, 1};
    struct cli_import_list list;
    struct fg_labels *sets;
    struct fg_buf selector;
    struct fg_err err;
    size_t n;

    if (cli_import_read_series(in, arena, &sets, &n, &err) != FG_OK ||
        cli_import_list_make(sets, n, &scope, arena, &list, &err) != FG_OK)
        return;
    fg_buf_init(&selector, 1 << 22);
    for (size_t i = 0; i < list.count; i++)
        cli_import_write_selector(&list, &list.items[i], &selector);
    fg_buf_done(&selector);
}

/* Every point is in one unit, and every unit in one group, whatever the answers say. */
static void try_points(struct fg_slice in, struct fg_arena *arena)
{
    struct cli_import_point *points;
    struct cli_import_unit *units;
    struct fg_err err;
    size_t n, n_units;

    if (cli_import_read_points(in, arena, &points, &n, &err) != FG_OK ||
        cli_import_units(points, n, 1, arena, &units, &n_units, &err) != FG_OK)
        return;
    fg_assert(n_units == n);
    for (size_t i = cli_import_first(units, n, 0); i < n;) {
        struct cli_import_group group = cli_import_group(&units[i], n - i);

        while (cli_import_group_answer(&group, group.narrow ? 0 : INFINITY) == IMPORT_ASK)
            fg_assert(group.n <= n - i);
        i += group.n;
    }
}

static void try_profile(struct fg_slice in, struct fg_arena *arena)
{
    struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("process_cpu")},
                                {FG_LIT("service_name"), FG_LIT("shop")}};
    const struct cli_import_series series = {
        .type = FG_LIT("process_cpu:cpu:nanoseconds:cpu:nanoseconds"),
        .pushed = {labels, FG_COUNT(labels)}};
    struct fg_buf written;
    struct fg_err err;
    double sum, again;

    if (cli_import_read_profile(in, &series, arena, &sum, &err) != FG_OK || in.len == 0)
        return;
    fg_buf_init(&written, SIZE_MAX);
    cli_import_write_profile(in, 1234567890123, &written);
    fg_assert(cli_import_read_profile(fg_buf_slice(&written), &series, arena, &again, &err) ==
              FG_OK);
    fg_assert(sum == again);
    fg_buf_done(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice in = fg_slice_sub(fg_bytes(data, size), 1, SIZE_MAX);
    struct fg_arena *arena;
    int64_t oldest_ms;
    struct fg_err err;

    if (size == 0)
        return 0;
    arena = fg_arena_create(ARENA_BYTES);
    switch (data[0] % 4) {
    case 0:
        try_series(in, arena);
        break;
    case 1:
        try_points(in, arena);
        break;
    case 2:
        try_profile(in, arena);
        break;
    default:
        if (cli_import_read_oldest(in, arena, &oldest_ms, &err) != FG_OK)
            fg_assert(err.code == FG_E_DECODE || err.code == FG_E_LIMIT);
    }
    fg_arena_destroy(arena);
    return 0;
}
