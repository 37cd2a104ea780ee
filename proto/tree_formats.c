#include "proto/tree_formats.h"

#include "common/base/cursor.h"
#include "common/base/str.h"
#include "proto/frames.h"

enum {
    NODE_MIN_BYTES = 3, /* three varints */
    /* A chain of n nodes makes stacks of 1 to n frames, so a small upload can cost n * n; those
     * that are cut to the depth limit are equal, but cost the same to look up. Names that are
     * put together from pieces grow in the same way. Real uploads stay a hundred times below. */
    FRAMES_MAX = 32 * 1024 * 1024,
    NAMES_MAX_BYTES = 256 * 1024 * 1024,
};

struct node {
    struct fg_slice name;
    uint64_t value;
    uint32_t n_children;
};

/* An open node, and what has to be restored when it ends. Levels are on the heap and not on the
 * stack: the depth is the sender's choice. */
struct tree_level {
    uint32_t n_left; /* children that follow */
    uint32_t depth;
    uint32_t text_len, name_at;
};

struct tree_reader {
    const struct fg_tree_request *request;
    struct fg_arena *arena;
    struct fg_builder *builder;
    struct fg_batch *batch;
    struct fg_decode_counts *counts;
    struct fg_cur cur;
    size_t in_len;

    struct tree_level *levels;
    uint32_t n_levels, cap_levels;
    struct fg_frames frames; /* of a trie: those that are complete */
    uint8_t *text;           /* of a trie: the names so far, put together */
    uint32_t text_len, cap_text;
    uint32_t name_at; /* where in the text the last frame begins */

    uint32_t group;
    uint64_t n_samples, n_frames, names_bytes;
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "profile needs more memory than decoding may use");
}

static enum fg_code read_node(struct tree_reader *reader, struct node *node, struct fg_err *err)
{
    size_t at = reader->in_len - reader->cur.left;
    uint64_t n_children;

    if (!fg_cur_more(&reader->cur))
        return fg_fail(err, FG_E_DECODE, "the input ends where a node is expected");
    node->name = fg_cur_lenbytes(&reader->cur);
    node->value = fg_cur_varint(&reader->cur);
    n_children = fg_cur_varint(&reader->cur);
    if (reader->cur.bad)
        return fg_fail(err, FG_E_DECODE, "node at byte %zu is cut short", at);
    /* Each child takes three bytes at least, so this bounds what a count may claim. */
    if (n_children > reader->cur.left / NODE_MIN_BYTES || n_children > UINT32_MAX)
        return fg_fail(err, FG_E_DECODE, "node at byte %zu has %llu children, but %zu bytes follow",
                       at, (unsigned long long)n_children, reader->cur.left);
    node->n_children = (uint32_t)n_children;
    return FG_OK;
}

/* ---- frames ---- */

static enum fg_code check_name(struct tree_reader *reader, struct fg_slice name, struct fg_err *err)
{
    reader->names_bytes += name.len;
    if (reader->names_bytes > NAMES_MAX_BYTES)
        return fg_fail(err, FG_E_TOO_LARGE, "names of frames add up to more than %d MiB",
                       NAMES_MAX_BYTES / 1024 / 1024);
    if (!fg_utf8_valid(name))
        return fg_fail(err, FG_E_DECODE, "a frame's name is not UTF-8");
    return FG_OK;
}

/* Enters a node of a tree. Its name is a frame, except for a root without a name. */
static enum fg_code enter_tree_node(struct tree_reader *reader, struct fg_slice name,
                                    struct fg_err *err)
{
    uint32_t max = reader->request->upload.limits.symbol_max_bytes, location = 0;

    if (reader->n_levels == 0 && name.len == 0)
        return FG_OK;
    if (max != 0 && name.len > max)
        return fg_fail(err, FG_E_DECODE, "name of %zu bytes; limit %u", name.len, max);
    if (check_name(reader, name, err) != FG_OK ||
        fg_builder_name(reader->builder, name, &location, err) != FG_OK)
        return err->code;
    return fg_frames_push(&reader->frames, reader->arena, location) ? FG_OK : too_large(err);
}

/* Pushes the text since the last ';' as a frame. The text buffer moves, so the builder gets a
 * copy. */
static enum fg_code push_text(struct tree_reader *reader, struct fg_err *err)
{
    struct fg_arena_mark mark = fg_arena_mark(reader->arena);
    uint32_t n_functions = reader->batch->n_functions, location = 0;
    struct fg_slice name =
        fg_bytes(reader->text + reader->name_at, reader->text_len - reader->name_at);

    name = fg_symbol_cut(name, &reader->request->upload.limits, reader->counts);
    if (check_name(reader, name, err) != FG_OK)
        return err->code;
    name = fg_arena_copy(reader->arena, name);
    if (name.ptr == NULL)
        return too_large(err);
    if (fg_builder_name(reader->builder, name, &location, err) != FG_OK)
        return err->code;
    if (reader->batch->n_functions == n_functions) /* it was there already */
        fg_arena_release(reader->arena, mark);
    return fg_frames_push(&reader->frames, reader->arena, location) ? FG_OK : too_large(err);
}

/* A node of a trie: each ';' in its name completes a frame. */
static enum fg_code enter_trie_node(struct tree_reader *reader, struct fg_slice name,
                                    struct fg_err *err)
{
    if (name.len > UINT32_MAX || !fg_arena_grow(reader->arena, &reader->text, reader->text_len,
                                                (uint32_t)name.len, &reader->cap_text, 1))
        return too_large(err);
    while (name.len > 0) {
        size_t end = fg_slice_find(name, ';');
        struct fg_slice piece = fg_slice_sub(name, 0, end);

        if (piece.len > 0)
            memcpy(reader->text + reader->text_len, piece.ptr, piece.len);
        reader->text_len += (uint32_t)piece.len;
        if (end == SIZE_MAX)
            return FG_OK;
        if (push_text(reader, err) != FG_OK)
            return err->code;
        reader->text[reader->text_len++] = ';';
        reader->name_at = reader->text_len;
        name = fg_slice_sub(name, end + 1, name.len);
    }
    return FG_OK;
}

/* ---- samples ---- */

static enum fg_code add_stack(struct tree_reader *reader, int64_t value, struct fg_err *err)
{
    uint32_t max = reader->request->upload.limits.stack_depth_max, stack = 0;
    const struct fg_frames *frames = &reader->frames;

    reader->n_frames += max == 0 ? frames->depth : FG_MIN(frames->depth, max);
    if (reader->n_frames > FRAMES_MAX)
        return fg_fail(err, FG_E_TOO_LARGE, "frames of all stacks add up to more than %d million",
                       FRAMES_MAX / 1000 / 1000);
    if (fg_builder_stack(reader->builder, fg_frames_leaf_first(frames), frames->depth, &stack,
                         err) != FG_OK)
        return err->code;
    return fg_builder_sample(reader->builder, reader->group, stack, NULL, &value, err);
}

static enum fg_code add_sample(struct tree_reader *reader, uint64_t value, struct fg_err *err)
{
    uint32_t max = reader->request->upload.limits.samples_max;
    uint32_t depth = reader->frames.depth;
    int64_t scaled;

    if (max != 0 && ++reader->n_samples > max)
        return fg_fail(err, FG_E_INVALID,
                       "profile exceeds the samples count limit (max_profile_stacktrace_samples, "
                       "limit: %u)",
                       max);
    /* Samples are multiplied by their period here; a product that wraps would become a plausible
     * wrong value. */
    if (__builtin_mul_overflow(value, reader->request->factor, &scaled))
        return fg_fail(err, FG_E_DECODE, "value %llu times the period exceeds 63 bits",
                       (unsigned long long)value);
    /* What follows the last ';' of a trie, if anything, is a frame too, but not that of the nodes
     * below. A tree has no text. */
    if (reader->text_len > reader->name_at && push_text(reader, err) != FG_OK)
        return err->code;
    if (add_stack(reader, scaled, err) != FG_OK)
        return err->code;
    fg_frames_pop_to(&reader->frames, depth);
    return FG_OK;
}

/* ---- nodes ---- */

static enum fg_code enter(struct tree_reader *reader, struct fg_err *err)
{
    struct tree_level before = {
        .depth = reader->frames.depth,
        .text_len = reader->text_len,
        .name_at = reader->name_at,
    };
    size_t at = reader->in_len - reader->cur.left;
    struct node node = {.value = 0};
    enum fg_code code;

    if (read_node(reader, &node, err) != FG_OK)
        return err->code;
    code = reader->request->format == FG_FORMAT_TREE ? enter_tree_node(reader, node.name, err)
                                                     : enter_trie_node(reader, node.name, err);
    if (code == FG_OK && node.value > 0)
        code = add_sample(reader, node.value, err);
    if (code != FG_OK)
        return fg_wrap(err, "node at byte %zu", at);
    if (!fg_arena_grow(reader->arena, &reader->levels, reader->n_levels, 1, &reader->cap_levels,
                       sizeof *reader->levels))
        return too_large(err);
    /* Pushed after the node was entered: `before` is what leave() restores. */
    before.n_left = node.n_children;
    reader->levels[reader->n_levels++] = before;
    return FG_OK;
}

static void leave(struct tree_reader *reader)
{
    const struct tree_level *level = &reader->levels[--reader->n_levels];

    fg_frames_pop_to(&reader->frames, level->depth);
    reader->text_len = level->text_len;
    reader->name_at = level->name_at;
}

static enum fg_code read_nodes(struct tree_reader *reader, struct fg_err *err)
{
    if (enter(reader, err) != FG_OK)
        return err->code;
    while (reader->n_levels > 0) {
        struct tree_level *level = &reader->levels[reader->n_levels - 1];

        if (level->n_left == 0) {
            leave(reader);
            continue;
        }
        level->n_left--;
        if (enter(reader, err) != FG_OK)
            return err->code;
    }
    if (fg_cur_more(&reader->cur))
        return fg_fail(err, FG_E_DECODE, "%zu bytes follow the last node", reader->cur.left);
    return FG_OK;
}

enum fg_code fg_tree_format_decode(struct fg_slice in, const struct fg_tree_request *request,
                                   struct fg_arena *arena, struct fg_batch *batch,
                                   struct fg_decode_counts *counts, struct fg_err *err)
{
    const struct fg_labels no_labels = {0};
    struct tree_reader reader = {
        .request = request,
        .arena = arena,
        .builder = fg_builder_create(arena, &request->upload.limits, batch, counts),
        .batch = batch,
        .counts = counts,
        .cur = fg_cur(in),
        .in_len = in.len,
    };

    if (reader.builder == NULL)
        return too_large(err);
    if (fg_builder_group(reader.builder, &no_labels, &reader.group, err) != FG_OK)
        return err->code;
    if ((in.len > 0 || request->format == FG_FORMAT_TREE) && read_nodes(&reader, err) != FG_OK)
        return err->code;
    return fg_builder_finish(reader.builder, &request->upload, request->period, err);
}
