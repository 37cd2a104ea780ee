/* What the writer writes is JSON, whatever the texts in it are. */
#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/json_writer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect(struct fg_buf *out, const char *want)
{
    fg_buf_putc(out, 0);
    assert_false(out->full);
    assert_string_equal((const char *)out->ptr, want);
    fg_buf_done(out);
}

static void each_kind_of_value_has_its_form(void **state)
{
    struct fg_buf out;
    struct fg_json_writer json;

    (void)state;
    fg_buf_init(&out, 4096);
    json = fg_json_writer(&out);
    fg_json_begin_object(&json, NULL);
    fg_json_put_i64(&json, "i64", INT64_MIN);
    fg_json_put_u64(&json, "u64", UINT64_MAX);
    fg_json_put_fixed(&json, "fixed", 1.5, 3);
    fg_json_put_bool(&json, "yes", true);
    fg_json_put_bool(&json, "no", false);
    fg_json_put_null(&json, "null");
    fg_json_put_cstr(&json, "cstr", "x");
    fg_buf_puts(fg_json_value(&json, "own"), "[0]");
    fg_json_put_key(&json, FG_LIT("a \"key\""));
    fg_json_begin_array(&json, NULL);
    fg_json_end(&json);
    fg_json_put_text(&json, "text", FG_LIT("\"\\\n\x01\xff"));
    fg_json_end(&json);
    expect(&out, "{\"i64\":-9223372036854775808,\"u64\":18446744073709551615,\"fixed\":1.500,"
                 "\"yes\":true,\"no\":false,\"null\":null,\"cstr\":\"x\",\"own\":[0],"
                 "\"a \\\"key\\\"\":[],\"text\":\"\\\"\\\\\\n\\u0001\\ufffd\"}");
}

static void commas_stand_between_values_of_one_level(void **state)
{
    struct fg_buf out;
    struct fg_json_writer json;

    (void)state;
    fg_buf_init(&out, 4096);
    json = fg_json_writer(&out);
    fg_json_begin_array(&json, NULL);
    fg_json_begin_array(&json, NULL);
    fg_json_end(&json);
    fg_json_begin_object(&json, NULL);
    fg_json_begin_object(&json, "a");
    fg_json_end(&json);
    fg_json_put_u64(&json, "b", 1);
    fg_json_end(&json);
    fg_json_put_u64(&json, NULL, 2);
    fg_json_newline(&json);
    fg_json_put_u64(&json, NULL, 3);
    fg_json_end(&json);
    expect(&out, "[[],{\"a\":{},\"b\":1},2,\n3]");
}

static void a_full_buffer_is_told_and_not_overrun(void **state)
{
    struct fg_buf out;
    struct fg_json_writer json;

    (void)state;
    fg_buf_init(&out, 8);
    json = fg_json_writer(&out);
    fg_json_begin_array(&json, NULL);
    for (unsigned i = 0; i < 100; i++)
        fg_json_put_cstr(&json, NULL, "text");
    fg_json_end(&json);
    assert_true(out.full);
    assert_true(out.len <= 8);
    fg_buf_done(&out);
}

/* Random calls at a level, and the tokens that a reader must find, as letters. */
static void write_random(struct fg_json_writer *json, struct fg_buf *tokens, uint64_t *seed,
                         unsigned depth, bool object)
{
    unsigned n = (unsigned)((*seed = fg_mix64(*seed + 1)) % 4);

    for (unsigned i = 0; i < n; i++) {
        const char *key = object ? "key" : NULL;
        unsigned kind = (unsigned)((*seed = fg_mix64(*seed + 1)) % 5);

        if (object)
            fg_buf_putc(tokens, 'k');
        if (kind < 2 && depth < 8) {
            fg_buf_putc(tokens, kind == 0 ? '{' : '[');
            if (kind == 0)
                fg_json_begin_object(json, key);
            else
                fg_json_begin_array(json, key);
            write_random(json, tokens, seed, depth + 1, kind == 0);
            fg_json_end(json);
            fg_buf_putc(tokens, kind == 0 ? '}' : ']');
        } else if (kind == 2) {
            fg_buf_putc(tokens, 's');
            fg_json_put_text(json, key, fg_bytes(seed, sizeof *seed));
        } else if (kind == 3) {
            fg_buf_putc(tokens, 'n');
            fg_json_put_i64(json, key, (int64_t)*seed);
        } else {
            fg_json_newline(json);
            fg_buf_putc(tokens, '0');
            fg_json_put_null(json, key);
        }
    }
}

static void random_calls_write_what_the_reader_reads(void **state)
{
    static const char letters[] = "!.{}[]ksntf0";

    (void)state;
    for (uint64_t number = 0; number < 2000; number++) {
        uint64_t seed = number;
        struct fg_buf out, want, got;
        struct fg_json_writer json;
        struct fg_json read;
        enum fg_json_token token;

        fg_buf_init(&out, 1 << 20);
        fg_buf_init(&want, 1 << 20);
        fg_buf_init(&got, 1 << 20);
        json = fg_json_writer(&out);
        fg_json_begin_array(&json, NULL);
        write_random(&json, &want, &seed, 0, false);
        fg_json_end(&json);
        read = fg_json(fg_buf_slice(&out));
        while ((token = fg_json_next(&read)) != FG_JSON_END && token != FG_JSON_BAD)
            fg_buf_putc(&got, (uint8_t)letters[token]);
        if (token == FG_JSON_BAD || got.len != want.len + 2 ||
            (want.len > 0 && memcmp(got.ptr + 1, want.ptr, want.len) != 0))
            fail_msg("seed %llu: %.*s", (unsigned long long)number, (int)out.len,
                     (const char *)out.ptr);
        fg_buf_done(&out);
        fg_buf_done(&want);
        fg_buf_done(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_value_has_its_form),
        cmocka_unit_test(commas_stand_between_values_of_one_level),
        cmocka_unit_test(a_full_buffer_is_told_and_not_overrun),
        cmocka_unit_test(random_calls_write_what_the_reader_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
