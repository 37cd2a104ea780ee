/* A list of profiles as an ingester answers with: a byte that says how it is read, then the list.
 * What was read is written and read again. */
#include "common/model/profile_rows.h"

static const char *const by_pod[] = {"pod"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 22);
    struct fg_profile_rows_config config = {.arena = arena,
                                            .max_bytes = 1 << 20,
                                            .group_by = by_pod,
                                            .n_group_by = 1,
                                            .step_ns = 15000000000,
                                            .last_step = 1000,
                                            .n_newest = 3};
    struct fg_profile_rows rows, again;
    struct fg_buf bytes;
    struct fg_err err;

    if (size == 0)
        return 0;
    config.spans = (data[0] & 1) != 0;
    config.keep = (enum fg_profile_rows_keep)(data[0] / 2 % 3);
    fg_profile_rows_init(&rows, &config);
    if (fg_profile_rows_decode(&rows, fg_bytes(data + 1, size - 1), &err) == FG_OK) {
        fg_profile_rows_finish(&rows);
        fg_buf_init(&bytes, SIZE_MAX);
        fg_profile_rows_encode(&rows, &bytes);
        fg_profile_rows_init(&again, &config);
        if (fg_profile_rows_decode(&again, fg_buf_slice(&bytes), &err) == FG_OK) {
            fg_profile_rows_finish(&again);
            fg_assert(again.n == rows.n);
        } else {
            fg_assert(err.code == FG_E_LIMIT); /* of the arena, which has both */
        }
        fg_profile_rows_done(&again);
        fg_buf_done(&bytes);
    } else {
        fg_assert(err.code == FG_E_CORRUPT || err.code == FG_E_LIMIT);
    }
    fg_profile_rows_done(&rows);
    return 0;
}
