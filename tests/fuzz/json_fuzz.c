/* Our reader and jansson agree on what is JSON. */
#include "common/base/json.h"
#include "common/base/str.h"

#include <jansson.h>

/* What jansson refuses though it is JSON: numbers beyond its types, halves of surrogates. */
static bool jansson_only(const json_error_t *why)
{
    return json_error_code(why) == json_error_numeric_overflow ||
           strstr(why->text, "invalid Unicode") != NULL ||
           json_error_code(why) == json_error_stack_overflow;
}

static bool ours(struct fg_slice in, bool *ret_too_deep)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_json json = fg_json(in);
    enum fg_json_token token;
    double number;
    uint64_t u;
    int64_t i;

    do {
        token = fg_json_next(&json);
        if (token == FG_JSON_STRING || token == FG_JSON_KEY) {
            struct fg_slice text = fg_json_text(&json, arena);

            fg_assert(text.ptr == NULL || fg_utf8_valid(text));
        }
        if (token == FG_JSON_NUMBER && fg_json_i64(&json, &i) && fg_json_u64(&json, &u))
            fg_assert((uint64_t)i == u && fg_json_f64(&json, &number));
    } while (token != FG_JSON_BAD && token != FG_JSON_END);
    fg_arena_destroy(arena);
    *ret_too_deep = json.why != NULL && strstr(json.why, "deep") != NULL;
    return token == FG_JSON_END;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool too_deep, good = ours(fg_bytes(data, size), &too_deep);
    bool has_nul = size > 0 && memchr(data, 0, size) != NULL; /* where jansson ends */
    json_error_t why;
    json_t *theirs = json_loadb(size == 0 ? "" : (const char *)data, size,
                                JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);

    if (!too_deep && !has_nul)
        fg_assert(good == (theirs != NULL) || (good && jansson_only(&why)));
    json_decref(theirs);
    return 0;
}
