#include "common/access/jwt/claims.h"

#include "common/base/json.h"

#include <math.h>

static const double TIME_MAX_S = 253402300799.0; /* 9999-12-31T23:59:59Z */

/* ---- the check ---- */

struct checker {
    struct fg_json json;
    struct fg_arena *arena;
    const char *fault; /* what the reader does not know of */
    bool full;         /* the arena is */
};

static bool check_value(struct checker *checker, enum fg_json_token token, unsigned depth);

/* Compares all of them: there are FG_CLAIMS_MEMBERS_MAX at most. */
static bool has_name(const struct fg_slice *names, uint32_t n, struct fg_slice name)
{
    for (uint32_t i = 0; i < n; i++)
        if (fg_slice_eq(names[i], name))
            return true;
    return false;
}

static bool refuse(struct checker *checker, const char *fault)
{
    checker->fault = fault;
    return false;
}

/* Names are compared without escapes: "a" and "\u0061" are one name. */
static bool check_members(struct checker *checker, unsigned depth)
{
    struct fg_slice *names = NULL;
    uint32_t n = 0, cap = 0;

    for (;;) {
        enum fg_json_token token = fg_json_next(&checker->json);
        struct fg_slice name;

        if (token != FG_JSON_KEY)
            return token == FG_JSON_OBJECT_END;
        name = fg_json_text(&checker->json, checker->arena);
        if (n == FG_CLAIMS_MEMBERS_MAX)
            return refuse(checker, "an object has too many members");
        if (has_name(names, n, name))
            return refuse(checker, "an object has two members of one name");
        checker->full =
            name.ptr == NULL || !fg_arena_grow(checker->arena, &names, n, 1, &cap, sizeof *names);
        if (checker->full)
            return false;
        names[n++] = name;
        if (!check_value(checker, fg_json_next(&checker->json), depth))
            return false;
    }
}

/* Frees the names of an object at its end, so the depth bounds the memory, not the length. */
static bool check_object(struct checker *checker, unsigned depth)
{
    struct fg_arena_mark mark = fg_arena_mark(checker->arena);
    bool ok = check_members(checker, depth);

    fg_arena_release(checker->arena, mark);
    return ok;
}

static bool check_array(struct checker *checker, unsigned depth)
{
    for (;;) {
        enum fg_json_token token = fg_json_next(&checker->json);

        if (token == FG_JSON_ARRAY_END)
            return true;
        if (!check_value(checker, token, depth))
            return false;
    }
}

/* Checks a value whose first token was just read. depth: how deep it may be nested. */
static bool check_value(struct checker *checker, enum fg_json_token token, unsigned depth)
{
    if (token != FG_JSON_OBJECT && token != FG_JSON_ARRAY)
        return token != FG_JSON_BAD;
    if (depth == 0)
        return refuse(checker, "objects and arrays are nested too deep");
    return token == FG_JSON_OBJECT ? check_object(checker, depth - 1)
                                   : check_array(checker, depth - 1);
}

enum fg_code fg_claims_check(struct fg_slice text, struct fg_arena *arena, struct fg_err *err)
{
    struct checker checker = {.json = fg_json(text), .arena = arena};
    enum fg_json_token token = fg_json_next(&checker.json);

    if (token != FG_JSON_OBJECT)
        return fg_json_fail(&checker.json, "expected an object", err);
    if (check_value(&checker, token, FG_CLAIMS_DEPTH_MAX) &&
        fg_json_next(&checker.json) == FG_JSON_END)
        return FG_OK;
    if (checker.full)
        return fg_fail(err, FG_E_LIMIT, "an object needs too much memory");
    return fg_json_fail(&checker.json, checker.fault == NULL ? "" : checker.fault, err);
}

/* ---- members ---- */

/* Finds a member of the object that the reader has just entered, and reads the first token of its
 * value. FG_JSON_END: there is none. */
static enum fg_json_token find(struct fg_json *json, struct fg_slice name, struct fg_arena *arena)
{
    while (fg_json_next(json) == FG_JSON_KEY) {
        /* A name with escapes takes memory, which only the comparison needs. */
        struct fg_arena_mark mark = fg_arena_mark(arena);
        bool found = fg_slice_eq(fg_json_text(json, arena), name);

        fg_arena_release(arena, mark);

        enum fg_json_token token = fg_json_next(json);

        if (found)
            return token;
        fg_json_skip(json, token);
    }
    return FG_JSON_END;
}

static enum fg_json_token member(struct fg_slice object, const char *name, struct fg_arena *arena,
                                 struct fg_json *json)
{
    *json = fg_json(object);
    if (fg_json_next(json) != FG_JSON_OBJECT)
        return FG_JSON_END;
    return find(json, fg_cstr(name), arena);
}

bool fg_claim_is_there(struct fg_slice object, const char *name, struct fg_arena *arena)
{
    struct fg_json json;

    return member(object, name, arena, &json) != FG_JSON_END;
}

static bool is_absent(enum fg_json_token token)
{
    return token == FG_JSON_END || token == FG_JSON_NULL;
}

enum fg_claim_found fg_claim_text(struct fg_slice object, const char *name, struct fg_arena *arena,
                                  struct fg_slice *ret_text)
{
    struct fg_json json;
    enum fg_json_token token = member(object, name, arena, &json);
    struct fg_slice text;

    if (is_absent(token))
        return FG_CLAIM_ABSENT;
    if (token != FG_JSON_STRING)
        return FG_CLAIM_OTHER;
    text = fg_json_text(&json, arena);
    if (text.ptr == NULL)
        return FG_CLAIM_OTHER;
    *ret_text = text;
    return FG_CLAIM_FOUND;
}

enum fg_claim_found fg_claim_time(struct fg_slice object, const char *name, struct fg_arena *arena,
                                  int64_t *ret_s)
{
    struct fg_json json;
    enum fg_json_token token = member(object, name, arena, &json);
    double seconds;

    if (is_absent(token))
        return FG_CLAIM_ABSENT;
    /* A double is exact to the second until the year 9999. */
    if (token != FG_JSON_NUMBER || !fg_json_f64(&json, &seconds) || seconds < 0 ||
        seconds > TIME_MAX_S)
        return FG_CLAIM_OTHER;
    *ret_s = (int64_t)floor(seconds);
    return FG_CLAIM_FOUND;
}

/* The text of the object or array that the reader has just entered, whose end it reads. */
static struct fg_slice whole_value(struct fg_json *json, enum fg_json_token token)
{
    /* The reader has just passed the bracket, which belongs to the text. */
    const uint8_t *start = json->cur.ptr - 1;
    size_t left = json->cur.left + 1;

    fg_json_skip(json, token);
    return fg_bytes(start, left - json->cur.left);
}

enum fg_claim_found fg_claim_nested(struct fg_slice object, const char *name,
                                    struct fg_arena *arena, struct fg_slice *ret_text)
{
    struct fg_json json;
    enum fg_json_token token = member(object, name, arena, &json);

    if (is_absent(token))
        return FG_CLAIM_ABSENT;
    if (token != FG_JSON_OBJECT && token != FG_JSON_ARRAY)
        return FG_CLAIM_OTHER;
    *ret_text = whole_value(&json, token);
    return FG_CLAIM_FOUND;
}

bool fg_claim_each_object(struct fg_slice array, bool (*each)(struct fg_slice object, void *arg),
                          void *arg)
{
    struct fg_json json = fg_json(array);
    enum fg_json_token token;

    if (fg_json_next(&json) != FG_JSON_ARRAY)
        return true;
    while ((token = fg_json_next(&json)) != FG_JSON_ARRAY_END && token != FG_JSON_BAD) {
        if (token != FG_JSON_OBJECT)
            fg_json_skip(&json, token);
        else if (!each(whole_value(&json, token), arg))
            return false;
    }
    return true;
}

/* ---- paths ---- */

const char *fg_claim_path_fault(struct fg_slice path)
{
    if (path.len == 0)
        return "is empty";
    if (path.len > FG_CLAIM_PATH_MAX_BYTES)
        return "is too long";
    if (path.ptr[0] != '/')
        return NULL;
    for (size_t i = 0; i < path.len; i++)
        if (path.ptr[i] == '~' &&
            (i + 1 == path.len || (path.ptr[i + 1] != '0' && path.ptr[i + 1] != '1')))
            return "has a ~ that is not followed by 0 or 1";
    return NULL;
}

/* The first name of a pointer, without its escapes, into `name`; the rest begins with a slash. */
static struct fg_slice take_name(struct fg_slice *pointer, uint8_t *name)
{
    struct fg_slice rest = fg_slice_sub(*pointer, 1, pointer->len);
    size_t len = FG_MIN(fg_slice_find(rest, '/'), rest.len), n = 0;

    for (size_t i = 0; i < len; i++) {
        uint8_t c = rest.ptr[i];

        if (c == '~' && i + 1 < len)
            c = rest.ptr[++i] == '1' ? '/' : '~';
        name[n++] = c;
    }
    *pointer = fg_slice_sub(rest, len, rest.len);
    return fg_bytes(name, n);
}

/* Reads up to the first token of the value. FG_JSON_END: there is none. */
static enum fg_json_token follow(struct fg_json *json, struct fg_slice path, struct fg_arena *arena)
{
    uint8_t name[FG_CLAIM_PATH_MAX_BYTES];
    enum fg_json_token token = fg_json_next(json);

    /* The paths of bindings were checked when they were made; this bounds `name` whatever they
     * are. */
    if (path.len == 0 || path.len > sizeof name || token != FG_JSON_OBJECT)
        return FG_JSON_END;
    if (path.ptr[0] != '/')
        return find(json, path, arena);
    while (path.len > 0) {
        if (token != FG_JSON_OBJECT)
            return FG_JSON_END;
        token = find(json, take_name(&path, name), arena);
    }
    return token;
}

struct values {
    struct fg_slice *list;
    uint32_t n, cap;
};

static bool add_value(struct values *values, struct fg_slice value, struct fg_arena *arena)
{
    if (value.ptr == NULL || values->n == FG_CLAIM_VALUES_MAX ||
        !fg_arena_grow(arena, &values->list, values->n, 1, &values->cap, sizeof *values->list))
        return false;
    values->list[values->n++] = value;
    return true;
}

static bool add_token(struct values *values, const struct fg_json *json, enum fg_json_token token,
                      struct fg_arena *arena)
{
    switch (token) {
    case FG_JSON_STRING:
        return add_value(values, fg_json_text(json, arena), arena);
    case FG_JSON_TRUE:
        return add_value(values, FG_LIT("true"), arena);
    case FG_JSON_FALSE:
        return add_value(values, FG_LIT("false"), arena);
    default:
        return true;
    }
}

static bool add_elements(struct values *values, struct fg_json *json, struct fg_arena *arena)
{
    for (;;) {
        enum fg_json_token token = fg_json_next(json);

        if (token == FG_JSON_ARRAY_END || token == FG_JSON_BAD)
            return token == FG_JSON_ARRAY_END;
        if (!add_token(values, json, token, arena))
            return false;
        fg_json_skip(json, token);
    }
}

enum fg_claim_found fg_claim_values(struct fg_slice object, struct fg_slice path,
                                    struct fg_arena *arena, struct fg_slice **ret_values,
                                    uint32_t *ret_n)
{
    struct fg_json json = fg_json(object);
    enum fg_json_token token = follow(&json, path, arena);
    struct values values = {NULL, 0, 0};

    if (is_absent(token))
        return FG_CLAIM_ABSENT;
    if (token == FG_JSON_ARRAY) {
        if (!add_elements(&values, &json, arena))
            return FG_CLAIM_OTHER;
    } else if (!add_token(&values, &json, token, arena) || values.n == 0) {
        return FG_CLAIM_OTHER;
    }
    *ret_values = values.list;
    *ret_n = values.n;
    return FG_CLAIM_FOUND;
}
