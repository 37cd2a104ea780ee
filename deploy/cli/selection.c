#include "deploy/cli/selection.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/model/selector.h"
#include "deploy/cli/times.h"

/* ---- SELECTOR ---- */

/* The suffixes of /ingest (distributor/API.md#the-name), and the type that finds their profiles. */
static const struct {
    const char *suffix, *type;
} suffixes[] = {
    {"cpu", "cpu"},
    {"itimer", "cpu"},
    {"wall", "wall"},
    {"inuse_objects", "inuse_objects"},
    {"alloc_objects", "alloc_objects"},
    {"inuse_space", "inuse_space"},
    {"alloc_space", "alloc_space"},
    {"goroutine", "goroutine"},
    {"goroutines", "goroutines"},
    {"mutex_count", "mutex:contentions"},
    {"mutex_duration", "mutex:delay"},
    {"block_count", "block:contentions"},
    {"lock_count", "block:contentions"},
    {"block_duration", "block:delay"},
    {"lock_duration", "block:delay"},
    {"alloc_in_new_tlab_objects", "alloc_in_new_tlab_objects"},
    {"alloc_in_new_tlab_bytes", "alloc_in_new_tlab_bytes"},
    {"alloc_outside_tlab_objects", "alloc_outside_tlab_objects"},
    {"alloc_outside_tlab_bytes", "alloc_outside_tlab_bytes"},
    {"live", "live"},
    {"exceptions", "exceptions:samples"},
};

bool cli_selection_is_full_type(struct fg_slice type)
{
    size_t parts = 1;

    for (size_t i = 0; i < type.len; i++)
        parts += type.ptr[i] == ':';
    /* name:sample_type:sample_unit:period_type:period_unit, and perhaps :delta. */
    return parts >= 5;
}

/* Cuts a known suffix off the name. */
static struct fg_slice take_suffix(struct fg_slice *name)
{
    for (size_t i = 0; i < FG_COUNT(suffixes); i++) {
        /* The order of the table does not matter: a dot has to come before the suffix. */
        size_t len = strlen(suffixes[i].suffix);

        /* The service before the dot needs a character: ".cpu" is no service. */
        if (!fg_slice_ends(*name, suffixes[i].suffix) || name->len < len + 2 ||
            name->ptr[name->len - len - 1] != '.')
            continue;
        name->len -= len + 1;
        return fg_cstr(suffixes[i].type);
    }
    return FG_LIT("");
}

static enum fg_code write_labels(const struct fg_selector *selector, struct fg_arena *arena,
                                 struct fg_slice *ret_labels, struct fg_err *err)
{
    struct fg_buf text;

    /* Longer ones are refused here, since no server parses them. */
    fg_buf_init(&text, FG_SELECTOR_MAX_BYTES);
    fg_selector_write(selector, &text);
    struct fg_slice labels = fg_arena_copy(arena, fg_buf_slice(&text));
    bool full = text.full || labels.ptr == NULL;
    fg_buf_done(&text);
    if (full)
        return fg_fail(err, FG_E_INVALID, "the selector is too long");
    *ret_labels = labels;
    return FG_OK;
}

static enum fg_code parse(struct fg_slice text, struct fg_arena *arena,
                          struct fg_selector *selector, struct cli_selection *ret_selection,
                          struct fg_err *err)
{
    size_t brace = FG_MIN(fg_slice_find(text, '{'), text.len);
    struct fg_slice name = fg_trim(fg_slice_sub(text, 0, brace));
    struct fg_slice labels = fg_slice_sub(text, brace, text.len);
    struct cli_selection selection = {0};

    /* What stands before the braces: a full type, or a service with or without a type's suffix. */
    if (cli_selection_is_full_type(name)) {
        selection.type = name;
    } else if (name.len > 0) {
        selection.type = take_suffix(&name);
        if (fg_selector_add(selector, arena, FG_MATCH_EQ, FG_LIT(FG_LABEL_SERVICE), name, err) !=
            FG_OK)
            return err->code;
    }
    if (labels.len > 0 && fg_selector_parse(labels, arena, selector, err) != FG_OK)
        /* The braces are right if RE2 complains. */
        return fg_wrap(err, strstr(err->msg, "error parsing regexp") != NULL
                                ? "a regular expression is wrong"
                                : "labels are written {name=\"value\"}");
    if (write_labels(selector, arena, &selection.labels, err) != FG_OK)
        return err->code;
    *ret_selection = selection;
    return FG_OK;
}

enum fg_code cli_selection_parse(struct fg_slice text, struct fg_arena *arena,
                                 struct cli_selection *ret_selection, struct fg_err *err)
{
    struct fg_selector selector = {0};

    if (fg_trim(text).len == 0)
        return fg_fail(err, FG_E_INVALID, "the selector is empty; {} selects all");
    enum fg_code code = parse(fg_trim(text), arena, &selector, ret_selection, err);
    fg_selector_done(&selector);
    return code;
}

/* The parts of a short type: name:type or type. */
static void split_short(struct fg_slice type, struct fg_slice *ret_name, struct fg_slice *ret_type)
{
    size_t colon = fg_slice_find(type, ':');

    *ret_name = colon == SIZE_MAX ? FG_LIT("") : fg_slice_sub(type, 0, colon);
    *ret_type = colon == SIZE_MAX ? type : fg_slice_sub(type, colon + 1, type.len);
}

static enum fg_code add_matcher(struct fg_selector *selector, struct fg_arena *arena,
                                const char *name, struct fg_slice value, struct fg_err *err)
{
    if (value.len == 0)
        return FG_OK;
    return fg_selector_add(selector, arena, FG_MATCH_EQ, fg_cstr(name), value, err);
}

static enum fg_code add_type(struct fg_selector *selector, struct fg_arena *arena,
                             struct fg_slice type, struct fg_err *err)
{
    struct fg_slice name, sample_type;

    if (cli_selection_is_full_type(type))
        return add_matcher(selector, arena, FG_LABEL_PROFILE_TYPE, type, err);
    split_short(type, &name, &sample_type);
    if (add_matcher(selector, arena, FG_LABEL_NAME, name, err) != FG_OK)
        return err->code;
    return add_matcher(selector, arena, FG_LABEL_TYPE, sample_type, err);
}

enum fg_code cli_selection_with_type(const struct cli_selection *selection, struct fg_arena *arena,
                                     struct fg_slice *ret_labels, struct fg_err *err)
{
    struct fg_selector selector = {0};
    enum fg_code code = fg_selector_parse(selection->labels, arena, &selector, err);

    if (code == FG_OK)
        code = add_type(&selector, arena, selection->type, err);
    if (code == FG_OK)
        code = write_labels(&selector, arena, ret_labels, err);
    fg_selector_done(&selector);
    return code;
}

/* ---- types ---- */

static bool is_type(struct fg_slice id, struct fg_slice wanted)
{
    struct fg_slice name, sample_type;
    struct fg_profile_type type;
    struct fg_err err;

    /* The error is of no use: what is no type is not the one that is wanted. */
    if (fg_profile_type_parse(id, &type, &err) != FG_OK)
        return false;
    split_short(wanted, &name, &sample_type);
    return (name.len == 0 || fg_slice_eq(name, type.name)) && fg_slice_eq(sample_type, type.type);
}

/* Appends ", a, b" as long as there is room for it in a sentence. */
static void list_ids(const struct fg_slice *ids, size_t n_ids, struct fg_slice wanted,
                     struct fg_buf *out)
{
    enum { LIST_MAX_BYTES = 300 };

    for (size_t i = 0; i < n_ids; i++) {
        if (wanted.len > 0 && !is_type(ids[i], wanted))
            continue;
        /* An error has a limit of its own, which would cut a name in two. */
        if (out->len + ids[i].len > LIST_MAX_BYTES) {
            fg_buf_puts(out, ", ...");
            return;
        }
        fg_buf_printf(out, "%s%.*s", out->len > 0 ? ", " : "", FG_S(ids[i]));
    }
}

/* Fails with a list of types. only: lists matching ids; empty: all. */
static enum fg_code fail_with_list(struct fg_err *err, enum fg_code code, const char *what,
                                   const struct fg_slice *ids, size_t n_ids, struct fg_slice only)
{
    struct fg_buf list;

    fg_buf_init(&list, SIZE_MAX);
    list_ids(ids, n_ids, only, &list);
    (void)fg_fail(err, code, "%s: %.*s", what, FG_S(fg_buf_slice(&list)));
    fg_buf_done(&list);
    return code;
}

static size_t count_matches(struct fg_slice wanted, const struct fg_slice *ids, size_t n_ids,
                            struct fg_slice *ret_last)
{
    size_t n = 0;

    for (size_t i = 0; i < n_ids; i++) {
        if (!is_type(ids[i], wanted))
            continue;
        *ret_last = ids[i];
        n++;
    }
    return n;
}

static enum fg_code choose_default(const struct fg_slice *ids, size_t n_ids,
                                   struct fg_slice *ret_id, struct fg_err *err)
{
    if (n_ids == 1) {
        *ret_id = ids[0];
        return FG_OK;
    }
    /* CPU is what most people look for first. */
    if (count_matches(FG_LIT("process_cpu:cpu"), ids, n_ids, ret_id) == 1)
        return FG_OK;
    return fail_with_list(err, FG_E_INVALID, "there are several types, choose with --type", ids,
                          n_ids, FG_LIT(""));
}

enum fg_code cli_selection_choose_type(struct fg_slice type, const struct fg_slice *ids,
                                       size_t n_ids, const char *of, struct fg_slice *ret_id,
                                       struct fg_err *err)
{
    struct fg_slice id = {0};
    char what[FG_ERR_MSG_MAX_BYTES];

    if (n_ids == 0)
        return fg_fail(err, FG_E_NOT_FOUND, "there are no profiles");
    if (type.len == 0)
        return choose_default(ids, n_ids, ret_id, err);
    size_t n = count_matches(type, ids, n_ids, &id);
    if (n == 0) {
        (void)snprintf(what, sizeof what, "no profiles of the type %.*s%s; there are", FG_S(type),
                       of);
        return fail_with_list(err, FG_E_NOT_FOUND, what, ids, n_ids, FG_LIT(""));
    }
    if (n > 1)
        return fail_with_list(err, FG_E_INVALID, "it means several types, choose with --type", ids,
                              n_ids, type);
    *ret_id = id;
    return FG_OK;
}

/* ---- time ---- */

static enum fg_code read_time(const char *option, const char *text, int64_t now_ns, int64_t *ret_ms,
                              struct fg_err *err)
{
    int64_t ns;

    if (cli_time_parse(option, text, now_ns, &ns, err) != FG_OK)
        return err->code;
    *ret_ms = ns / FG_MS_NS;
    return FG_OK;
}

enum fg_code cli_selection_range(const char *from, const char *until, int64_t now_ns,
                                 struct cli_selection_range *ret_range, struct fg_err *err)
{
    struct cli_selection_range range = {0};

    if (read_time("--from", from, now_ns, &range.start_ms, err) != FG_OK ||
        read_time("--until", until, now_ns, &range.end_ms, err) != FG_OK)
        return err->code;
    if (range.start_ms >= range.end_ms)
        return fg_fail(err, FG_E_INVALID, "--from %s is not before --until %s", from, until);
    *ret_range = range;
    return FG_OK;
}

enum fg_code cli_selection_fail_side(struct fg_slice labels,
                                     const struct cli_selection_range *range, bool damaged,
                                     struct fg_err *err)
{
    char from[CLI_TIME_TEXT_BYTES], until[CLI_TIME_TEXT_BYTES];

    cli_time_write(range->start_ms * FG_MS_NS, from);
    cli_time_write(range->end_ms * FG_MS_NS, until);
    return damaged ? fg_fail(err, FG_E_NOT_FOUND, "nothing of %.*s from %s until %s can be read",
                             FG_S(labels), from, until)
                   : fg_fail(err, FG_E_NOT_FOUND, "no profiles of %.*s from %s until %s to compare",
                             FG_S(labels), from, until);
}
