/* What parses is written and parses again to the same text. */
#include "common/model/selector.h"

static bool parse(struct fg_slice text, struct fg_arena *arena, struct fg_buf *out)
{
    struct fg_selector selector = {0};
    struct fg_err err;
    bool good = fg_selector_parse(text, arena, &selector, &err) == FG_OK;

    fg_selector_write(&selector, out);
    (void)fg_selector_matches(&selector, &(struct fg_labels){0});
    fg_selector_done(&selector);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fg_auto(fg_arena) *arena = fg_arena_create(4 << 20);
    struct fg_buf once, twice;

    fg_buf_init(&once, 1 << 20);
    fg_buf_init(&twice, 1 << 20);
    /* Escapes can make the text longer than a selector may be; short ones come back. */
    if (parse(fg_bytes(data, size), arena, &once) && size < 4096) {
        fg_assert(parse(fg_buf_slice(&once), arena, &twice));
        fg_assert(fg_slice_eq(fg_buf_slice(&once), fg_buf_slice(&twice)));
    }
    fg_buf_done(&once);
    fg_buf_done(&twice);
    return 0;
}
