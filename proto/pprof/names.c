#include "proto/pprof/names.h"

#include "proto/pprof/quirks.h"

static const char shape[] = "[go.shape.";

/* End of the bracket that begins at `from`, or the text's end when it never closes. */
static size_t bracket_end(struct fg_slice text, size_t from)
{
    size_t depth = 0;

    for (size_t i = from; i < text.len; i++) {
        depth += text.ptr[i] == '[';
        if (text.ptr[i] == ']' && --depth == 0)
            return i + 1;
    }
    return SIZE_MAX;
}

size_t fg_go_drop_shapes(struct fg_slice text, uint8_t *out)
{
    size_t len = 0;

    for (;;) {
        size_t at = fg_slice_search(text, shape);
        size_t end = at == SIZE_MAX ? SIZE_MAX : bracket_end(text, at);
        size_t keep = end == SIZE_MAX ? text.len : at;

        if (keep > 0)
            memcpy(out + len, text.ptr, keep);
        len += keep;
        if (end == SIZE_MAX)
            return len;
        text = fg_slice_sub(text, end, text.len);
    }
}

static enum fg_code drop_shapes(struct fg_slice *name, struct fg_arena *arena, struct fg_err *err)
{
    uint8_t *copy;

    /* Few names have a bracket at all, and finding one byte is much cheaper than finding ten. */
    if (fg_slice_find(*name, '[') == SIZE_MAX || fg_slice_search(*name, shape) == SIZE_MAX)
        return FG_OK;
    copy = fg_arena_alloc(arena, name->len);
    if (copy == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "profile's names need too much memory");
    *name = fg_bytes(copy, fg_go_drop_shapes(*name, copy));
    return FG_OK;
}

/* System names are mostly the same slice of the upload, and stay so. */
static enum fg_code drop_all_shapes(struct fg_batch_function *function, struct fg_arena *arena,
                                    struct fg_err *err)
{
    bool same = function->system_name.ptr == function->name.ptr &&
                function->system_name.len == function->name.len;

    if (drop_shapes(&function->name, arena, err) != FG_OK)
        return err->code;
    if (!same)
        return drop_shapes(&function->system_name, arena, err);
    function->system_name = function->name;
    return FG_OK;
}

/* Go's runtime is in every Go profile, and its files end so. */
static bool looks_like_go(const struct fg_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_functions; i++)
        if (fg_slice_ends(batch->functions[i].filename, ".go"))
            return true;
    return false;
}

/* "app.py main": the same function name in two files is two functions. */
static enum fg_code prefix_file(struct fg_batch_function *function, struct fg_arena *arena,
                                struct fg_err *err)
{
    struct fg_slice file = function->filename, name = function->name;
    uint8_t *text = fg_arena_alloc(arena, file.len + 1 + name.len);

    if (text == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "profile's names need too much memory");
    /* Not with printf: a NUL may be in either. */
    if (file.len > 0)
        memcpy(text, file.ptr, file.len);
    text[file.len] = ' ';
    if (name.len > 0)
        memcpy(text + file.len + 1, name.ptr, name.len);
    function->name = fg_bytes(text, file.len + 1 + name.len);
    return FG_OK;
}

bool fg_pprof_is_go(const struct fg_batch *batch, unsigned quirks)
{
    return (quirks & FG_PPROF_GO) != 0 || ((quirks & FG_PPROF_NOT_GO) == 0 && looks_like_go(batch));
}

enum fg_code fg_pprof_rename(struct fg_batch *batch, unsigned quirks, struct fg_arena *arena,
                             struct fg_err *err)
{
    bool go = fg_pprof_is_go(batch, quirks);

    for (uint32_t i = 0; i < batch->n_functions; i++) {
        struct fg_batch_function *function = &batch->functions[i];
        bool absolute = fg_slice_starts(function->filename, "/");

        if (go && drop_all_shapes(function, arena, err) != FG_OK)
            return err->code;
        if ((quirks & FG_PPROF_SCRIPT_NAMES) != 0 &&
            !(absolute && (quirks & FG_PPROF_SCRIPT_RELATIVE) != 0) &&
            prefix_file(function, arena, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}
