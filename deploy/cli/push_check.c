#include "deploy/cli/push_check.h"

#include "common/base/cursor.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/model/selector.h"
#include "common/net/inflate.h"
#include "deploy/cli/upload_file.h"

enum {
    LABELS_MAX = 100, /* limits.max_label_names_per_series is 30 by default */

    /* pprof's profile.proto */
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_TIME = 9,
};

#define YEAR_NS                                                                                    \
    (INT64_C(365) * 24 * FG_HOUR_NS) /* the server replaces times of 1970 by its own               \
                                      */

/* ---- the name ---- */

static enum fg_code malformed(const char *text, const char *why, struct fg_err *err)
{
    return fg_fail(err, FG_E_INVALID,
                   "--name %.200s: %s; a name is shop, shop{env=prod} or shop{env=\"prod\"}", text,
                   why);
}

/* Takes a value in quotes. The text begins after the opening quote, and moves behind the closing
 * one. */
static bool take_quoted(struct fg_slice *text, struct fg_buf *value)
{
    for (size_t i = 0; i < text->len; i++) {
        uint8_t byte = text->ptr[i];

        if (byte == '"') {
            *text = fg_trim(fg_slice_sub(*text, i + 1, SIZE_MAX));
            return true;
        }
        if (byte == '\\') {
            if (++i == text->len || (text->ptr[i] != '"' && text->ptr[i] != '\\'))
                return false;
            byte = text->ptr[i];
        }
        fg_buf_putc(value, byte);
    }
    return false;
}

/* Takes a value without quotes, up to the next comma or brace, which stays. */
static bool take_plain(struct fg_slice *text, struct fg_buf *value)
{
    size_t len = FG_MIN(fg_slice_find(*text, ','), fg_slice_find(*text, '}'));
    struct fg_slice plain = fg_trim(fg_slice_sub(*text, 0, len));

    /* A leading ~ is from =~, which only selectors have; a quote or brace inside is a typo. */
    if (len > text->len || fg_slice_find(plain, '"') != SIZE_MAX ||
        fg_slice_find(plain, '{') != SIZE_MAX || fg_slice_starts(plain, "~"))
        return false;
    fg_buf_put(value, plain);
    *text = fg_slice_sub(*text, len, SIZE_MAX);
    return true;
}

static enum fg_code take_label(const char *whole, struct fg_slice *text, struct fg_arena *arena,
                               struct fg_label *ret_label, struct fg_err *err)
{
    size_t equal = fg_slice_find(*text, '=');
    struct fg_slice name = fg_trim(fg_slice_sub(*text, 0, FG_MIN(equal, text->len)));
    struct fg_buf value;

    if (equal == SIZE_MAX || name.len == 0 || fg_slice_find(name, '"') != SIZE_MAX ||
        fg_slice_find(name, ',') != SIZE_MAX || fg_slice_find(name, '}') != SIZE_MAX ||
        fg_slice_ends(name, "!"))
        return malformed(whole, "a label and = are missing", err);
    *text = fg_trim(fg_slice_sub(*text, equal + 1, SIZE_MAX));
    bool quoted = fg_slice_starts(*text, "\"");
    if (quoted)
        *text = fg_slice_sub(*text, 1, SIZE_MAX);
    fg_buf_init(&value, SIZE_MAX);
    bool good = quoted ? take_quoted(text, &value) : take_plain(text, &value);
    *ret_label =
        (struct fg_label){fg_arena_copy(arena, name), fg_arena_copy(arena, fg_buf_slice(&value))};
    fg_buf_done(&value);
    if (!good)
        return malformed(whole, "a value does not end, or is not a plain one", err);
    /* The name parameter of /ingest has no quotes: such a value would end early there. */
    if (fg_slice_find(ret_label->value, ',') != SIZE_MAX ||
        fg_slice_find(ret_label->value, '}') != SIZE_MAX ||
        fg_trim(ret_label->value).len != ret_label->value.len)
        return malformed(whole, "a value with , or } in it, or blanks around it, cannot be sent",
                         err);
    return FG_OK;
}

enum fg_code cli_push_name_parse(const char *text, struct fg_arena *arena,
                                 struct cli_push_name *ret_name, struct fg_err *err)
{
    struct fg_slice rest = fg_trim(fg_cstr(text));
    size_t brace = fg_slice_find(rest, '{');
    struct cli_push_name name = {
        .name = fg_arena_copy(arena, fg_trim(fg_slice_sub(rest, 0, FG_MIN(brace, rest.len)))),
        .labels = {fg_arena_new(arena, struct fg_label, LABELS_MAX), 0}};

    if (name.name.len == 0)
        return malformed(text, "the service is missing", err);
    if (brace == SIZE_MAX && fg_slice_find(rest, '}') != SIZE_MAX)
        return malformed(text, "a { is missing", err);
    rest = brace == SIZE_MAX ? fg_bytes(NULL, 0) : fg_trim(fg_slice_sub(rest, brace + 1, SIZE_MAX));
    while (brace != SIZE_MAX && !fg_slice_starts(rest, "}")) {
        if (name.labels.count == LABELS_MAX)
            return malformed(text, "too many labels", err);
        if (take_label(text, &rest, arena, &name.labels.items[name.labels.count], err) != FG_OK)
            return err->code;
        name.labels.count++;
        if (fg_slice_starts(rest, ","))
            rest = fg_trim(fg_slice_sub(rest, 1, SIZE_MAX));
        else if (!fg_slice_starts(rest, "}"))
            return malformed(text, "a , or } is missing", err);
    }
    if (brace != SIZE_MAX && rest.len > 1)
        return malformed(text, "unexpected data after the }", err);
    *ret_name = name;
    return FG_OK;
}

void cli_push_name_write(const struct cli_push_name *name, struct fg_buf *out)
{
    fg_buf_put(out, name->name);
    for (size_t i = 0; i < name->labels.count; i++)
        fg_buf_printf(out, "%c%.*s=%.*s", i == 0 ? '{' : ',', FG_S(name->labels.items[i].name),
                      FG_S(name->labels.items[i].value));
    if (name->labels.count > 0)
        fg_buf_putc(out, '}');
}

void cli_push_name_write_selector(const struct cli_push_name *name, bool typed, struct fg_buf *out)
{
    bool plain = typed || fg_slice_find(name->name, '.') == SIZE_MAX;
    const char *before = "{";

    if (plain) {
        fg_buf_put(out, name->name);
    } else {
        fg_buf_printf(out, "{" FG_LABEL_SERVICE "=\"%.*s\"", FG_S(name->name));
        before = ",";
    }
    for (size_t i = 0; i < name->labels.count; i++, before = ",") {
        fg_buf_printf(out, "%s%.*s=\"", before, FG_S(name->labels.items[i].name));
        fg_buf_json(out, name->labels.items[i].value);
        fg_buf_putc(out, '"');
    }
    if (!plain || name->labels.count > 0)
        fg_buf_putc(out, '}');
}

/* ---- the content ---- */

/* Checks that a pprof has sample types, and finds its time. The server checks the rest. */
static enum fg_code check_pprof(struct fg_slice content, int64_t *ret_time_ns, struct fg_err *err)
{
    struct fg_cur cur;
    struct fg_buf plain;
    bool types = false;
    int64_t time_ns = 0;

    fg_buf_init(&plain, SIZE_MAX);
    if (fg_inflate(content, fg_coding_sniff(content), UPLOAD_FILE_MAX_BYTES, &plain, err) !=
        FG_OK) {
        fg_buf_done(&plain);
        return fg_wrap(err, "cannot be unpacked");
    }
    cur = fg_cur(fg_buf_slice(&plain));
    /* Only the outer fields are read; samples are skipped by their length, so large files cost
     * little. */
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        types = types || tag == FG_PB_TAG(PROFILE_SAMPLE_TYPE, FG_PB_LEN);
        if (tag == FG_PB_TAG(PROFILE_TIME, FG_PB_VARINT))
            time_ns = (int64_t)fg_cur_varint(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    fg_buf_done(&plain);
    if (cur.bad || !types)
        return fg_fail(err, FG_E_INVALID, "is no pprof, or damaged");
    *ret_time_ns = time_ns >= YEAR_NS ? time_ns : 0;
    return FG_OK;
}

/* Returns true if any line is a stack and a count ("main;work 30"). The server ignores other lines,
 * so a text without such a line would be stored as nothing. */
static bool has_stack(struct fg_slice content)
{
    while (content.len > 0) {
        size_t end = FG_MIN(fg_slice_find(content, '\n'), content.len);
        struct fg_slice line = fg_trim(fg_slice_sub(content, 0, end));
        /* The last blank: frames may contain blanks, and the count comes after all of them. */
        const uint8_t *blank = line.len == 0 ? NULL : memrchr(line.ptr, ' ', line.len);
        int64_t count;

        if (blank != NULL && blank != line.ptr &&
            fg_parse_i64(fg_slice_sub(line, (size_t)(blank - line.ptr) + 1, SIZE_MAX), &count))
            return true;
        content = fg_slice_sub(content, end + 1, SIZE_MAX);
    }
    return false;
}

enum fg_code cli_push_content_check(const char *format, struct fg_slice content,
                                    int64_t *ret_time_ns, struct fg_err *err)
{
    struct fg_slice kind = fg_cstr(format);
    /* The signature of a compressed recording is not visible; the server checks it after
     * unpacking. */
    bool packed = fg_coding_sniff(content) != FG_CODING_IDENTITY;

    *ret_time_ns = 0;
    if (fg_slice_is(kind, "pprof"))
        return check_pprof(content, ret_time_ns, err);
    if (fg_slice_is(kind, "jfr") && !packed && !fg_slice_starts(content, "FLR"))
        return fg_fail(err, FG_E_INVALID, "is no Java recording");
    if ((fg_slice_is(kind, "folded") || fg_slice_is(kind, "collapsed") ||
         fg_slice_is(kind, "groups")) &&
        !has_stack(content))
        return fg_fail(err, FG_E_INVALID,
                       "is no profile: no line is a stack and a count, \"main;work 30\"");
    return FG_OK;
}
