#include "querier/adhoc/flame.h"

#include "common/model/batch_tree.h"
#include "common/model/flame.h"
#include "common/net/inflate.h"
#include "proto/profile_file.h"
#include "querier/diff.h"
#include "querier/flame_json.h"

enum {
    /* Of names in an error, which come from the file and may have any length. */
    TYPE_SHOWN_BYTES = 100,
    FRAME_BYTES = 48, /* of a node of a function tree, with its share of growing arrays */
};

/* A file on its way into a flame graph. */
struct adhoc_decoding {
    const struct qry_adhoc_file *file;
    struct qry_adhoc_flame *flame;
    bool is_chosen;      /* flame->chosen is known */
    struct fg_tree tree; /* of locations, with the values of the chosen type */
    bool any;            /* samples, of whatever type */
};

/* ---- types ---- */

static bool is_called(const struct qry_adhoc_type *type, struct fg_slice name)
{
    struct fg_slice rest = name;
    const struct fg_slice parts[] = {type->kind, type->type, type->unit};

    /* Short and long names are both taken: of two files that are compared only one may need the
     * long one. */
    if (fg_slice_eq(type->type, name))
        return true;
    for (size_t i = 0; i < FG_COUNT(parts); i++) {
        if (!fg_slice_eq(fg_slice_sub(rest, 0, parts[i].len), parts[i]))
            return false;
        rest = fg_slice_sub(rest, parts[i].len, SIZE_MAX);
        if (i + 1 < FG_COUNT(parts) && !fg_slice_starts(rest, ":"))
            return false;
        rest = fg_slice_sub(rest, i + 1 < FG_COUNT(parts) ? 1 : 0, SIZE_MAX);
    }
    return rest.len == 0;
}

/* Finds or adds a type. The batch's texts end with it, so they are copied. */
static enum fg_code note_type(struct adhoc_decoding *decoding, struct fg_slice kind,
                              const struct fg_value_type *value, size_t *ret_at, struct fg_err *err)
{
    struct qry_adhoc_flame *flame = decoding->flame;
    struct fg_arena *arena = decoding->file->arena;
    struct qry_adhoc_type *type;

    for (size_t i = 0; i < flame->n_types; i++) {
        type = &flame->types[i];
        if (fg_slice_eq(type->kind, kind) && fg_slice_eq(type->type, value->type) &&
            fg_slice_eq(type->unit, value->unit)) {
            *ret_at = i;
            return FG_OK;
        }
    }
    if (flame->n_types == ADHOC_TYPES_MAX)
        return fg_fail(err, FG_E_TOO_LARGE, "the file has more than %d sample types",
                       ADHOC_TYPES_MAX);
    type = &flame->types[flame->n_types];
    *type = (struct qry_adhoc_type){.kind = fg_arena_copy(arena, kind),
                                    .type = fg_arena_copy(arena, value->type),
                                    .unit = fg_arena_copy(arena, value->unit)};
    if (type->kind.ptr == NULL || type->type.ptr == NULL || type->unit.ptr == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "the names of the sample types are too long");
    *ret_at = flame->n_types++;
    return FG_OK;
}

/* Gives each type a name that no other one has. */
static enum fg_code call_types(struct qry_adhoc_flame *flame, struct fg_arena *arena,
                               struct fg_err *err)
{
    for (size_t i = 0; i < flame->n_types; i++) {
        struct qry_adhoc_type *type = &flame->types[i];
        bool alone = true;
        char *parts;

        /* Quadratic in at most ADHOC_TYPES_MAX types. */
        for (size_t k = 0; alone && k < flame->n_types; k++)
            alone = k == i || !fg_slice_eq(flame->types[k].type, type->type);
        type->called = type->type;
        if (alone)
            continue;
        parts = fg_arena_printf(arena, "%.*s:%.*s:%.*s", FG_S(type->kind), FG_S(type->type),
                                FG_S(type->unit));
        if (parts == NULL)
            return fg_fail(err, FG_E_TOO_LARGE, "the names of the sample types are too long");
        type->called = fg_cstr(parts);
    }
    return FG_OK;
}

/* ---- decoding ---- */

/* A fg_batch_sink. Only the tree of the chosen type is made: trees are the largest part. */
static enum fg_code take_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct adhoc_decoding *decoding = arg;
    struct qry_adhoc_flame *flame = decoding->flame;
    struct fg_slice kind = FG_LIT(FG_PROFILE_FILE_NAME);

    /* All profiles of a batch are of one kind. */
    if (batch->n_profiles > 0)
        kind = fg_labels_get(&batch->profiles[0].labels, FG_LABEL_NAME);
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        decoding->any |= batch->profiles[i].n_samples > 0;
    for (uint32_t t = 0; t < batch->n_types; t++) {
        struct fg_slice wanted = decoding->file->type;
        size_t at = 0;

        if (note_type(decoding, kind, &batch->types[t], &at, err) != FG_OK)
            return err->code;
        /* The first type that fits stays: JFR sends several batches, and their trees add up. */
        if (!decoding->is_chosen && (wanted.len == 0 || is_called(&flame->types[at], wanted))) {
            decoding->is_chosen = true;
            flame->chosen = at;
        }
        if (decoding->is_chosen && flame->chosen == at &&
            fg_batch_tree_add(batch, t, decoding->file->decode_max_bytes, &decoding->tree, err) !=
                FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code unknown_type(const struct adhoc_decoding *decoding, struct fg_err *err)
{
    const struct qry_adhoc_flame *flame = decoding->flame;
    char known[FG_ERR_MSG_MAX_BYTES / 2] = "";
    size_t len = 0;

    /* snprintf() returns the length that it wanted, so a list that is cut ends the loop. */
    for (size_t i = 0; i < flame->n_types && len < sizeof known; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%.*s", i == 0 ? "" : ", ",
                                FG_S(fg_slice_sub(flame->types[i].called, 0, TYPE_SHOWN_BYTES)));
    return fg_fail(err, FG_E_INVALID, "the file has no sample type \"%.*s\"; it has: %s",
                   FG_S(fg_slice_sub(decoding->file->type, 0, TYPE_SHOWN_BYTES)), known);
}

/* A location may be a thousand inlined functions, so a small tree of locations may have a huge tree
 * of functions: the frames are counted before they are made. */
static enum fg_code name_frames(const struct fg_tree *tree, uint64_t max_bytes,
                                struct fg_tree *into, struct fg_err *err)
{
    uint64_t frames = 0;

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        frames += fg_frame_count(&tree->symbols.locations[tree->locations[i]]);
    if (frames > max_bytes / FRAME_BYTES)
        return fg_fail(err, FG_E_TOO_LARGE,
                       "the stacks of the profile have %llu frames, more than %llu "
                       "(querier.adhoc_decode_max_bytes)",
                       (unsigned long long)frames, (unsigned long long)max_bytes / FRAME_BYTES);
    fg_tree_names(tree, into);
    return FG_OK;
}

static enum fg_code finish(struct adhoc_decoding *decoding, struct fg_err *err)
{
    struct qry_adhoc_flame *flame = decoding->flame;

    if (!decoding->any)
        return fg_fail(err, FG_E_INVALID, "the file has no samples (read as %s)",
                       fg_file_format_name(flame->format));
    if (call_types(flame, decoding->file->arena, err) != FG_OK)
        return err->code;
    if (!decoding->is_chosen)
        return unknown_type(decoding, err);
    return name_frames(&decoding->tree, decoding->file->decode_max_bytes, &flame->tree, err);
}

static enum fg_code decode(struct adhoc_decoding *decoding, struct fg_slice plain,
                           struct fg_arena *arena, struct fg_err *err)
{
    const struct qry_adhoc_file *file = decoding->file;
    const struct fg_profile_file opened = {
        .content = plain,
        .format = decoding->flame->format,
        .untyped = {file->name, FG_LIT("")},
        .time_ns = file->now_ns,
        .limits = fg_decode_limits_of(file->limits),
    };
    struct fg_decode_counts counts = {0};

    if (fg_profile_file_decode(&opened, arena, take_batch, decoding, &counts, err) == FG_OK)
        return finish(decoding, err);
    if (err->code == FG_E_TOO_LARGE)
        (void)fg_wrap(err, "querier.adhoc_decode_max_bytes");
    return fg_wrap(err, "the file cannot be read as %s", fg_file_format_name(opened.format));
}

/* Decompressed bytes and decoded objects share one limit, as of uploads to /ingest. */
static enum fg_code open_file(struct adhoc_decoding *decoding, struct fg_buf *inflated,
                              struct fg_err *err)
{
    const struct qry_adhoc_file *file = decoding->file;
    enum fg_coding coding = fg_coding_sniff(file->content);
    uint64_t profile_max = file->limits->max_profile_size_bytes;
    struct fg_slice plain = file->content;
    enum fg_code code = FG_OK;

    if (coding != FG_CODING_IDENTITY) {
        code = fg_inflate(file->content, coding,
                          (size_t)FG_MIN(profile_max, file->decode_max_bytes), inflated, err);
        plain = fg_buf_slice(inflated);
    } else if (plain.len > profile_max) {
        code = FG_E_TOO_LARGE;
    }
    if (code == FG_E_TOO_LARGE)
        return fg_fail(err, FG_E_TOO_LARGE,
                       "the file has more than %llu bytes after decompression "
                       "(limits.max_profile_size_bytes, querier.adhoc_decode_max_bytes)",
                       (unsigned long long)FG_MIN(profile_max, file->decode_max_bytes));
    if (code != FG_OK)
        return fg_wrap(err, "the file cannot be decompressed");
    fg_auto(fg_arena) *arena = fg_arena_create((size_t)(file->decode_max_bytes - inflated->len));
    decoding->flame->format = fg_file_format_find(file->name, plain);
    return decode(decoding, plain, arena, err);
}

enum fg_code qry_adhoc_flame_make(const struct qry_adhoc_file *file,
                                  struct qry_adhoc_flame *ret_flame, struct fg_err *err)
{
    struct adhoc_decoding decoding = {.file = file, .flame = ret_flame};
    struct fg_buf inflated;
    enum fg_code code;

    fg_buf_init(&inflated, SIZE_MAX);
    fg_tree_init(&decoding.tree);
    fg_tree_init(&ret_flame->tree);
    code = open_file(&decoding, &inflated, err);
    fg_tree_done(&decoding.tree);
    fg_buf_done(&inflated);
    return code;
}

void qry_adhoc_flame_done(struct qry_adhoc_flame *flame)
{
    fg_tree_done(&flame->tree);
}

/* ---- writing ---- */

static bool is_untyped(const struct qry_adhoc_flame *flame)
{
    return flame->types[flame->chosen].unit.len == 0;
}

static void write_metadata(const struct qry_adhoc_flame *flame, const char *format,
                           struct fg_json_writer *json)
{
    const struct qry_adhoc_type *type = &flame->types[flame->chosen];

    qry_flame_json_metadata(&(struct qry_flame_metadata){format, is_untyped(flame) ? "unknown" : "",
                                                         type->type, type->unit},
                            json);
}

static void write_rest(const struct qry_adhoc_flame *flame, struct fg_json_writer *json)
{
    fg_json_put_null(json, "timeline");
    /* As Pyroscope, which has an empty object for files of text. */
    if (is_untyped(flame)) {
        fg_json_begin_object(json, "groups");
        fg_json_end(json);
    } else {
        fg_json_put_null(json, "groups");
    }
    fg_json_put_null(json, "heatmap");
}

void qry_adhoc_flame_write(const struct qry_adhoc_flame *flame, size_t max_nodes,
                           struct fg_json_writer *json)
{
    struct fg_flame drawn;

    fg_flame_make(&flame->tree, max_nodes, &drawn);
    fg_json_put_u64(json, "version", 1);
    qry_flame_json(&(struct qry_flame_parts){drawn.names, drawn.n_names, drawn.values,
                                             drawn.level_ends, drawn.n_levels, drawn.total,
                                             drawn.max_self},
                   "flamebearer", json);
    fg_flame_done(&drawn);
    write_metadata(flame, "single", json);
    write_rest(flame, json);
}

enum fg_code qry_adhoc_flame_write_diff(const struct qry_adhoc_flame *left,
                                        const struct qry_adhoc_flame *right, size_t max_nodes,
                                        struct fg_json_writer *json, struct fg_err *err)
{
    struct fg_slice left_unit = left->types[left->chosen].unit;
    struct fg_slice right_unit = right->types[right->chosen].unit;
    struct fg_crown_verdict verdict;
    struct fg_crown_sum sums[2];
    struct qry_diff diff = {0};

    /* Both sides are drawn on one axis, which has one unit. */
    if (!fg_slice_eq(left_unit, right_unit))
        return fg_fail(err, FG_E_INVALID, "the units differ: \"%.*s\" and \"%.*s\"",
                       FG_S(fg_slice_sub(left_unit, 0, TYPE_SHOWN_BYTES)),
                       FG_S(fg_slice_sub(right_unit, 0, TYPE_SHOWN_BYTES)));
    for (size_t i = 0; i < FG_COUNT(sums); i++) {
        fg_crown_sum_init(&sums[i]);
        fg_crown_sum_add_tree(&sums[i], i == 0 ? &left->tree : &right->tree);
        fg_crown_sum_finish(&sums[i]);
    }
    qry_diff_make(&sums[0], &sums[1], max_nodes, &diff, &verdict);
    fg_json_put_u64(json, "version", 1);
    qry_flame_json(&(struct qry_flame_parts){diff.names, diff.n_names, diff.values, diff.level_ends,
                                             diff.n_levels,
                                             fg_value_add(diff.left_ticks, diff.right_ticks),
                                             diff.max_self},
                   "flamebearer", json);
    write_metadata(left, "double", json);
    write_rest(left, json);
    fg_json_put_i64(json, "leftTicks", diff.left_ticks);
    fg_json_put_i64(json, "rightTicks", diff.right_ticks);
    for (size_t i = 0; i < FG_COUNT(sums); i++)
        fg_crown_sum_done(&sums[i]);
    qry_diff_done(&diff);
    return FG_OK;
}
