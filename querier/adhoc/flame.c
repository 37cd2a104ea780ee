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
    NAMING_BYTES = 5, /* of a node of the tree that it is made from, while it is made */
    /* Drawing and comparing copies a function tree once. */
    TREE_COPIES = 2,
    /* What most files need: agents' profiles become 5 to 15 times as large. */
    USUAL_BYTES_PER_BYTE = 24,
    USUAL_MIN_BYTES = 4 * 1024 * 1024,
};

/* A file on its way into a flame graph. */
struct adhoc_decoding {
    const struct qry_adhoc_file *file;
    struct qry_adhoc_flame *flame;
    uint64_t max_bytes;     /* of all that follows */
    struct fg_buf inflated; /* empty: the file was not compressed */
    struct fg_arena *arena; /* what was decoded */
    bool is_chosen;         /* flame->chosen is known */
    struct fg_tree tree;    /* of locations, with the values of the chosen type */
    bool any;               /* samples, of whatever type */
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

/* Adds the samples of a batch to the tree. What the tree takes, later batches have no more. */
static enum fg_code grow_tree(struct adhoc_decoding *decoding, const struct fg_batch *batch,
                              uint32_t type, struct fg_err *err)
{
    struct fg_tree *tree = &decoding->tree;
    uint64_t others = decoding->inflated.len + fg_arena_used_bytes(decoding->arena);
    /* The tree of locations may have all but what else is in memory. */
    uint64_t max_bytes = decoding->max_bytes - FG_MIN(others, decoding->max_bytes);

    if (fg_batch_tree_add(batch, type, (size_t)max_bytes, tree, err) != FG_OK)
        return err->code;
    fg_arena_set_limit(decoding->arena, (size_t)(decoding->max_bytes - decoding->inflated.len -
                                                 fg_tree_bytes(tree)));
    return FG_OK;
}

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
            grow_tree(decoding, batch, t, err) != FG_OK)
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
static enum fg_code name_frames(const struct adhoc_decoding *decoding, struct fg_err *err)
{
    const struct fg_tree *tree = &decoding->tree;
    uint64_t used = fg_tree_bytes(tree) + (uint64_t)tree->n_nodes * NAMING_BYTES;
    uint64_t max =
        (decoding->max_bytes - FG_MIN(used, decoding->max_bytes)) / FRAME_BYTES / TREE_COPIES;
    uint64_t frames = 0;

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        frames += fg_frame_count(&tree->symbols.locations[tree->locations[i]]);
    if (frames > max)
        return fg_fail(err, FG_E_TOO_LARGE,
                       "the stacks of the profile have %llu frames, more than %llu "
                       "(querier.adhoc_decode_max_bytes)",
                       (unsigned long long)frames, (unsigned long long)max);
    fg_tree_names(tree, &decoding->flame->tree);
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
    if (decoding->is_chosen)
        return name_frames(decoding, err);
    flame->is_decoded = true;
    return unknown_type(decoding, err);
}

static enum fg_code decode(struct adhoc_decoding *decoding, struct fg_slice plain,
                           struct fg_err *err)
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

    if (fg_profile_file_decode(&opened, decoding->arena, take_batch, decoding, &counts, err) ==
        FG_OK)
        return FG_OK;
    if (err->code == FG_E_TOO_LARGE)
        (void)fg_wrap(err, "querier.adhoc_decode_max_bytes");
    return fg_wrap(err, "the file cannot be read as %s", fg_file_format_name(opened.format));
}

/* Decompressed bytes, decoded objects and the tree share one limit. */
static enum fg_code open_file(struct adhoc_decoding *decoding, struct fg_err *err)
{
    const struct qry_adhoc_file *file = decoding->file;
    enum fg_coding coding = fg_coding_sniff(file->content);
    uint64_t profile_max = file->limits->max_profile_size_bytes;
    struct fg_slice plain = file->content;
    enum fg_code code = FG_OK;

    if (coding != FG_CODING_IDENTITY) {
        code = fg_inflate(file->content, coding, (size_t)FG_MIN(profile_max, decoding->max_bytes),
                          &decoding->inflated, err);
        plain = fg_buf_slice(&decoding->inflated);
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
    decoding->arena = fg_arena_create((size_t)(decoding->max_bytes - decoding->inflated.len));
    decoding->flame->format = fg_file_format_find(file->name, plain);
    return decode(decoding, plain, err);
}

/* Makes a flame graph with at most max_bytes, of which it keeps what it needs. */
static enum fg_code make_within(const struct qry_adhoc_file *file, uint64_t max_bytes,
                                struct qry_adhoc_flame *flame, struct fg_err *err)
{
    struct adhoc_decoding decoding = {.file = file, .flame = flame, .max_bytes = max_bytes};
    enum fg_code code;

    *flame = (struct qry_adhoc_flame){0};
    fg_tree_init(&flame->tree);
    if (!fg_budget_take(file->memory, max_bytes))
        return fg_fail(err, FG_E_LIMIT,
                       "other ad hoc profiles are being decoded, try again "
                       "(querier.adhoc_memory_max_bytes)");
    fg_buf_init(&decoding.inflated, SIZE_MAX);
    fg_tree_init(&decoding.tree);
    code = open_file(&decoding, err);
    /* The tree of locations has copies of what it needs. */
    fg_arena_destroy(decoding.arena);
    fg_buf_done(&decoding.inflated);
    if (code == FG_OK)
        code = finish(&decoding, err);
    fg_tree_done(&decoding.tree);
    flame->memory = file->memory;
    flame->held_bytes = FG_MIN(TREE_COPIES * fg_tree_bytes(&flame->tree), max_bytes);
    fg_budget_give(file->memory, max_bytes - flame->held_bytes);
    return code;
}

enum fg_code qry_adhoc_flame_make(const struct qry_adhoc_file *file,
                                  struct qry_adhoc_flame *ret_flame, struct fg_err *err)
{
    uint64_t usual = FG_MAX(file->content.len * (uint64_t)USUAL_BYTES_PER_BYTE, USUAL_MIN_BYTES);
    uint64_t first = FG_MIN(usual, file->decode_max_bytes);
    enum fg_code code = make_within(file, first, ret_flame, err);

    /* How much a file needs is known only once it was decoded. If each took the most that one may
     * have, two small ones would be in each other's way. */
    if (code == FG_E_TOO_LARGE && first < file->decode_max_bytes) {
        qry_adhoc_flame_done(ret_flame);
        code = make_within(file, file->decode_max_bytes, ret_flame, err);
    }
    return code;
}

void qry_adhoc_flame_done(struct qry_adhoc_flame *flame)
{
    fg_tree_done(&flame->tree);
    if (flame->memory != NULL)
        fg_budget_give(flame->memory, flame->held_bytes);
    flame->memory = NULL;
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
