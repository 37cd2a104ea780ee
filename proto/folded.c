#include "proto/folded.h"

#include "common/base/str.h"
#include "proto/lines.h"

struct folded_reader {
    const struct fg_folded_request *request;
    struct fg_builder *builder;
    uint32_t *stack; /* leaf first, filled from the end */
    uint32_t cap;
    uint32_t group;
};

/* Counts the frames. A ';' ends a frame, and so does the end of the text unless the frame is
 * empty: "a;b" and "a;b;" are the same. */
static uint32_t count_frames(struct fg_slice stack)
{
    uint32_t frames = 0;
    bool open = false;

    for (size_t i = 0; stack.ptr != NULL && i < stack.len; i++) {
        open = stack.ptr[i] != ';';
        frames += !open;
    }
    return frames + open;
}

/* Turns the frames of "a;b;c", root first, into locations, leaf first. */
static enum fg_code read_stack(struct folded_reader *reader, struct fg_arena *arena,
                               struct fg_slice text, uint32_t *ret_stack, struct fg_err *err)
{
    uint32_t frames = count_frames(text);

    if (frames > reader->cap) {
        /* Twice as much, since an arena frees nothing: all arrays together stay below twice the
         * last. */
        reader->cap = FG_MAX(frames, 2 * reader->cap);
        reader->stack = fg_arena_alloc(arena, reader->cap * sizeof *reader->stack);
        if (reader->stack == NULL)
            return fg_fail(err, FG_E_TOO_LARGE, "stack of %u frames", frames);
    }
    /* Filled from the end: the text is root first, stacks are leaf first. */
    for (uint32_t i = frames; i > 0; i--) {
        size_t end = fg_slice_find(text, ';');
        struct fg_slice name = fg_slice_sub(text, 0, end);

        /* Names go into JSON and protobuf, which have no other bytes than UTF-8. */
        if (!fg_utf8_valid(name))
            return fg_fail(err, FG_E_DECODE, "a frame's name is not UTF-8");
        if (fg_builder_name(reader->builder, name, &reader->stack[i - 1], err) != FG_OK)
            return err->code;
        text = end == SIZE_MAX ? text : fg_slice_sub(text, end + 1, text.len);
    }
    return fg_builder_stack(reader->builder, reader->stack, frames, ret_stack, err);
}

static enum fg_code read_line(struct folded_reader *reader, struct fg_arena *arena,
                              struct fg_slice line, struct fg_err *err)
{
    int64_t count = 1, value;
    uint32_t stack = 0;

    if (reader->request->format == FG_TEXT_FOLDED) {
        /* The last one, since names of frames may have blanks. */
        const uint8_t *hit = line.len == 0 ? NULL : memrchr(line.ptr, ' ', line.len);
        size_t blank = hit == NULL ? SIZE_MAX : (size_t)(hit - line.ptr);
        struct fg_slice text;

        /* Lines without a count are skipped, as Pyroscope's own parser does. */
        if (blank == SIZE_MAX)
            return FG_OK;
        text = fg_slice_sub(line, blank + 1, line.len);
        if (!fg_parse_i64(text, &count))
            return fg_fail(err, FG_E_DECODE, "count \"%.*s\" is not an integer",
                           FG_S(fg_slice_sub(text, 0, 40)));
        line = fg_slice_sub(line, 0, blank);
    }
    if (line.len == 0)
        return FG_OK;
    if (__builtin_mul_overflow(count, reader->request->factor, &value))
        return fg_fail(err, FG_E_DECODE, "count %lld times the period exceeds 64 bits",
                       (long long)count);
    if (read_stack(reader, arena, line, &stack, err) != FG_OK)
        return err->code;
    return fg_builder_sample(reader->builder, reader->group, stack, NULL, &value, err);
}

enum fg_code fg_folded_decode(struct fg_slice in, const struct fg_folded_request *request,
                              struct fg_arena *arena, struct fg_batch *batch,
                              struct fg_decode_counts *counts, struct fg_err *err)
{
    const struct fg_labels no_labels = {0};
    struct folded_reader reader = {
        .request = request,
        .builder = fg_builder_create(arena, &request->upload.limits, batch, counts),
    };
    size_t number = 0;

    if (reader.builder == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "no memory left for decoding");
    if (fg_builder_group(reader.builder, &no_labels, &reader.group, err) != FG_OK)
        return err->code;
    while (in.len > 0) {
        number++;
        if (read_line(&reader, arena, fg_line_next(&in), err) != FG_OK)
            return fg_wrap(err, "line %zu", number);
    }
    return fg_builder_finish(reader.builder, &request->upload, request->period, err);
}
