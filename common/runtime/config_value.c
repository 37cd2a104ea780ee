/* The texts of single settings: what a user writes into numbers in base units, and back. */
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/runtime/config_internal.h"

#include <stdarg.h>

#define DAY_NS (24 * FG_HOUR_NS)

/* Largest first in each family, so that printing finds the shortest exact form. */
static const struct {
    const char *name;
    uint64_t bytes;
} byte_units[] = {
    {"TiB", UINT64_C(1) << 40},
    {"GiB", UINT64_C(1) << 30},
    {"MiB", UINT64_C(1) << 20},
    {"KiB", UINT64_C(1) << 10},
    {"TB", UINT64_C(1000000000000)},
    {"GB", UINT64_C(1000000000)},
    {"MB", UINT64_C(1000000)},
    {"kB", UINT64_C(1000)},
    {"KB", UINT64_C(1000)},
    {"B", 1},
    {"", 1},
};
enum { BYTE_UNITS_BINARY = 4 }; /* the first four: what values are printed in */

/* Largest first: the parts of a duration have to come in this order. */
static const struct {
    const char *name;
    int64_t ns;
} time_units[] = {
    {"y", 365 * DAY_NS}, {"w", 7 * DAY_NS}, {"d", DAY_NS}, {"h", FG_HOUR_NS}, {"m", FG_MINUTE_NS},
    {"s", FG_SECOND_NS}, {"ms", FG_MS_NS},  {"us", 1000},  {"ns", 1},
};
/* Years and weeks are read but not written: 14d says more than 2w. */
enum { TIME_UNIT_DAY = 2 };

union value {
    bool b;
    uint64_t u;
    int64_t ns;
    double f;
    unsigned choice;
};

/* Takes digits off the front of the text. Returns false if there are none or too many. */
static bool take_number(struct fg_slice *text, uint64_t *ret_value)
{
    size_t n = 0;

    while (n < text->len && text->ptr[n] >= '0' && text->ptr[n] <= '9')
        n++;
    if (!fg_parse_u64(fg_slice_sub(*text, 0, n), ret_value))
        return false;
    *text = fg_slice_sub(*text, n, text->len);
    return true;
}

static const char *parse_bytes(struct fg_slice text, uint64_t *ret_bytes)
{
    uint64_t number;

    if (!take_number(&text, &number))
        return "is not a size such as 64KiB, 512MiB, 10MB or 4096";
    for (size_t i = 0; i < FG_COUNT(byte_units); i++) {
        if (!fg_slice_is(text, byte_units[i].name))
            continue;
        if (__builtin_mul_overflow(number, byte_units[i].bytes, ret_bytes))
            return "is too large for a size";
        return NULL;
    }
    return "has an unknown unit (B kB MB GB TB KiB MiB GiB TiB)";
}

/* Takes letters off the front of the text. Returns the index of the unit; SIZE_MAX: it is none. */
static size_t take_time_unit(struct fg_slice *text)
{
    struct fg_slice unit;
    size_t n = 0;

    /* All letters at once, so that the "m" of "ms" is not taken for minutes. */
    while (n < text->len && text->ptr[n] >= 'a' && text->ptr[n] <= 'z')
        n++;
    unit = fg_slice_sub(*text, 0, n);
    *text = fg_slice_sub(*text, n, text->len);
    for (size_t i = 0; i < FG_COUNT(time_units); i++)
        if (fg_slice_is(unit, time_units[i].name))
            return i;
    return SIZE_MAX;
}

const char *fg_conf_read_duration(struct fg_slice text, int64_t *ret_ns)
{
    int64_t total = 0, part;
    size_t next = 0; /* the largest unit that may follow */

    /* Without a unit only 0 is clear. */
    if (fg_slice_is(text, "0")) {
        *ret_ns = 0;
        return NULL;
    }
    do {
        uint64_t number;
        size_t unit;

        if (!take_number(&text, &number))
            return "is not a duration such as 250us, 10s, 1h30m or 7d";
        unit = take_time_unit(&text);
        if (unit == SIZE_MAX)
            return "needs a unit (ns us ms s m h d w y)";
        if (unit < next)
            return "has its units in the wrong order";
        if (__builtin_mul_overflow(number, time_units[unit].ns, &part) ||
            __builtin_add_overflow(total, part, &total))
            return "is too long for a duration";
        next = unit + 1;
    } while (text.len > 0);
    *ret_ns = total;
    return NULL;
}

static const char *parse_bool(struct fg_slice text, bool *ret_bool)
{
    static const char *const words[2][4] = {{"false", "no", "off", "0"},
                                            {"true", "yes", "on", "1"}};

    for (size_t i = 0; i < 4; i++) {
        for (int yes = 0; yes < 2; yes++) {
            if (fg_slice_is_nocase(text, words[yes][i])) {
                *ret_bool = yes == 1;
                return NULL;
            }
        }
    }
    return "is neither true nor false";
}

/* Returns the choice of that number; len 0: it is past the last. */
static struct fg_slice choice_at(const char *choices, unsigned index)
{
    struct fg_slice rest = fg_cstr(choices);

    for (; rest.len > 0; index--) {
        size_t bar = FG_MIN(fg_slice_find(rest, '|'), rest.len);

        if (index == 0)
            return fg_slice_sub(rest, 0, bar);
        rest = fg_slice_sub(rest, bar + 1, rest.len);
    }
    return fg_bytes(NULL, 0);
}

static const char *parse_choice(const char *choices, struct fg_slice text, unsigned *ret_index)
{
    struct fg_slice choice;

    for (unsigned i = 0; (choice = choice_at(choices, i)).len > 0; i++) {
        if (fg_slice_eq(choice, text)) {
            *ret_index = i;
            return NULL;
        }
    }
    return "is not one of";
}

/* Returns NULL, or what is wrong with the text. Strings give their length. */
static const char *parse(const struct fg_conf_field *field, struct fg_slice text,
                         union value *ret_value)
{
    switch (field->type) {
    case FG_CONF_BOOL:
        return parse_bool(text, &ret_value->b);
    case FG_CONF_UINT:
        return fg_parse_u64(text, &ret_value->u) ? NULL : "is not a whole number";
    case FG_CONF_BYTES:
        return parse_bytes(text, &ret_value->u);
    case FG_CONF_NS:
        return fg_conf_read_duration(text, &ret_value->ns);
    case FG_CONF_FLOAT:
        return fg_parse_f64(text, &ret_value->f) ? NULL : "is not a number";
    case FG_CONF_ENUM:
        return parse_choice(field->choices, text, &ret_value->choice);
    case FG_CONF_STRING:
    case FG_CONF_SECRET:
    case FG_CONF_YAML:
        ret_value->u = text.len;
        if (fg_slice_find(text, '\0') != SIZE_MAX)
            return "contains a NUL character";
        return fg_utf8_valid(text) ? NULL : "is not UTF-8";
    }
    return "has an unknown type";
}

bool fg_conf_is_text(const struct fg_conf_field *field)
{
    return field->type == FG_CONF_STRING || field->type == FG_CONF_SECRET ||
           field->type == FG_CONF_YAML;
}

static int compare(enum fg_conf_type type, union value a, union value b)
{
    switch (type) {
    case FG_CONF_NS:
        return (a.ns > b.ns) - (a.ns < b.ns);
    case FG_CONF_FLOAT:
        return (a.f > b.f) - (a.f < b.f);
    case FG_CONF_BOOL:
    case FG_CONF_ENUM: /* an order would mean nothing */
        return 0;
    default:
        return (a.u > b.u) - (a.u < b.u);
    }
}

/* Parses a bound, which is ours and so always valid. Bounds of a text are of its length, and
 * plain numbers. */
static union value parse_bound(const struct fg_conf_field *field, const char *text)
{
    struct fg_conf_field number = {.type = FG_CONF_UINT};
    union value bound = {.u = 0};

    fg_assert(parse(fg_conf_is_text(field) ? &number : field, fg_cstr(text), &bound) == NULL);
    return bound;
}

static enum fg_code bad_value(const struct fg_conf_at *at, const char *where, struct fg_err *err,
                              const char *fmt, ...) fg_printf(4, 5);

/* path: what is wrong (where) */
static enum fg_code bad_value(const struct fg_conf_at *at, const char *where, struct fg_err *err,
                              const char *fmt, ...)
{
    /* The buffer is on the stack: with its maximum as its size it never grows. */
    char path_bytes[FG_CONF_PATH_MAX_BYTES];
    struct fg_buf path = {
        .ptr = (uint8_t *)path_bytes, .cap = sizeof path_bytes, .max_bytes = sizeof path_bytes};
    char wrong[FG_ERR_MSG_MAX_BYTES / 2];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(wrong, sizeof wrong, fmt, args);
    va_end(args);
    fg_conf_path(at, &path);
    return fg_fail(err, FG_E_INVALID, "%.*s: %s (%.128s)", FG_S(fg_buf_slice(&path)), wrong, where);
}

/* A text in an error; long ones are cut and secrets stay secret. */
static struct fg_slice shown(const struct fg_conf_field *field, struct fg_slice text)
{
    return field->type == FG_CONF_SECRET ? FG_LIT("***") : fg_slice_sub(text, 0, 80);
}

static enum fg_code check_bounds(const struct fg_conf_at *at, struct fg_slice text,
                                 union value value, const char *where, struct fg_err *err)
{
    const struct fg_conf_field *field = at->field;
    bool low =
        field->min != NULL && compare(field->type, value, parse_bound(field, field->min)) < 0;
    bool high =
        field->max != NULL && compare(field->type, value, parse_bound(field, field->max)) > 0;
    const char *side = low ? "below the minimum" : "above the maximum";
    const char *bound = low ? field->min : field->max;

    if (!low && !high)
        return FG_OK;
    if (fg_conf_is_text(field))
        return bad_value(at, where, err, "a length of %zu is %s %s", text.len, side, bound);
    return bad_value(at, where, err, "%.*s is %s %s", FG_S(shown(field, text)), side, bound);
}

static void *slot(const struct fg_conf_at *at)
{
    return (char *)at->section->values + at->field->offset;
}

static void store_text(char **slot, struct fg_slice text)
{
    char *copy = fg_malloc(text.len + 1);

    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    /* There may be the value of an earlier source, at least the default. */
    free(*slot);
    *slot = copy;
}

static void store(const struct fg_conf_at *at, struct fg_slice text, union value value)
{
    switch (at->field->type) {
    case FG_CONF_BOOL:
        *(bool *)slot(at) = value.b;
        break;
    case FG_CONF_UINT:
    case FG_CONF_BYTES:
        *(uint64_t *)slot(at) = value.u;
        break;
    case FG_CONF_NS:
        *(int64_t *)slot(at) = value.ns;
        break;
    case FG_CONF_FLOAT:
        *(double *)slot(at) = value.f;
        break;
    case FG_CONF_ENUM:
        *(unsigned *)slot(at) = value.choice;
        break;
    case FG_CONF_STRING:
    case FG_CONF_SECRET:
    case FG_CONF_YAML:
        store_text(slot(at), text);
        break;
    }
}

enum fg_code fg_conf_set(const struct fg_conf_at *at, struct fg_slice text, const char *where,
                         struct fg_err *err)
{
    union value value = {.u = 0};
    const char *wrong = parse(at->field, text, &value);
    const char *choices = at->field->type == FG_CONF_ENUM ? at->field->choices : "";

    if (wrong != NULL)
        return bad_value(at, where, err, "\"%.*s\" %s%s%s", FG_S(shown(at->field, text)), wrong,
                         *choices == '\0' ? "" : " ", choices);
    if (check_bounds(at, text, value, where, err) != FG_OK)
        return err->code;
    store(at, text, value);
    return FG_OK;
}

void fg_conf_free(const struct fg_conf_at *at)
{
    if (!fg_conf_is_text(at->field))
        return;
    free(*(char **)slot(at));
    *(char **)slot(at) = NULL;
}

/* ---- back to text ---- */

static void print_bytes(struct fg_buf *out, uint64_t bytes)
{
    /* 0 is a multiple of every unit, and is printed without one. */
    for (size_t i = 0; bytes > 0 && i < BYTE_UNITS_BINARY; i++) {
        if (bytes % byte_units[i].bytes == 0) {
            fg_buf_u64(out, bytes / byte_units[i].bytes);
            fg_buf_puts(out, byte_units[i].name);
            return;
        }
    }
    fg_buf_u64(out, bytes);
}

void fg_conf_write_duration(int64_t ns, struct fg_buf *out)
{
    if (ns == 0)
        fg_buf_putc(out, '0');
    for (size_t i = TIME_UNIT_DAY; ns > 0 && i < FG_COUNT(time_units); i++) {
        int64_t n = ns / time_units[i].ns;

        if (n == 0)
            continue;
        fg_buf_i64(out, n);
        fg_buf_puts(out, time_units[i].name);
        ns -= n * time_units[i].ns;
    }
}

/* The shortest decimal number that reads back as this one. */
static void print_float(struct fg_buf *out, double value)
{
    char text[64];

    /* 17 digits tell all doubles apart. */
    for (int digits = 6; digits <= 17; digits++) {
        double back = 0;

        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (fg_parse_f64(fg_cstr(text), &back) && back >= value && back <= value)
            break;
    }
    fg_buf_puts(out, text);
}

void fg_conf_print(const struct fg_conf_at *at, struct fg_buf *out)
{
    const void *from = slot(at);

    switch (at->field->type) {
    case FG_CONF_BOOL:
        fg_buf_puts(out, *(const bool *)from ? "true" : "false");
        break;
    case FG_CONF_UINT:
        fg_buf_u64(out, *(const uint64_t *)from);
        break;
    case FG_CONF_BYTES:
        print_bytes(out, *(const uint64_t *)from);
        break;
    case FG_CONF_NS:
        fg_conf_write_duration(*(const int64_t *)from, out);
        break;
    case FG_CONF_FLOAT:
        print_float(out, *(const double *)from);
        break;
    case FG_CONF_ENUM:
        fg_buf_put(out, choice_at(at->field->choices, *(const unsigned *)from));
        break;
    case FG_CONF_STRING:
    case FG_CONF_SECRET:
    case FG_CONF_YAML:
        fg_buf_puts(out, *(char *const *)from == NULL ? "" : *(char *const *)from);
        break;
    }
}

const char *fg_conf_type_name(const struct fg_conf_field *field)
{
    static const char *const names[] = {
        [FG_CONF_BOOL] = "true or false", [FG_CONF_UINT] = "number",  [FG_CONF_BYTES] = "bytes",
        [FG_CONF_NS] = "duration",        [FG_CONF_FLOAT] = "number", [FG_CONF_STRING] = "text",
        [FG_CONF_SECRET] = "secret",      [FG_CONF_YAML] = "YAML",
    };

    return field->type == FG_CONF_ENUM ? field->choices : names[field->type];
}
