/* The state of an import: one that is read and written is read again to the same text. */
#include "deploy/cli/import_state.h"

static bool read(struct fg_slice in, struct fg_buf *out)
{
    static const struct cli_selection_range range = {0, 1};
    struct cli_import_state state;
    struct fg_err err;
    bool good;

    cli_import_state_init(&state, FG_LIT("a job"), &range);
    good = cli_import_state_read(&state, in, &err) == FG_OK;
    if (good)
        cli_import_state_write(&state, out);
    cli_import_state_done(&state);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_buf once, twice;

    fg_buf_init(&once, SIZE_MAX);
    fg_buf_init(&twice, SIZE_MAX);
    if (read(fg_bytes(data, size), &once)) {
        fg_assert(read(fg_buf_slice(&once), &twice));
        fg_assert(fg_slice_eq(fg_buf_slice(&once), fg_buf_slice(&twice)));
    }
    fg_buf_done(&once);
    fg_buf_done(&twice);
    return 0;
}
