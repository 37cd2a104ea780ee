#include "proto/folded.h"
#include "tests/lib/batch_folded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct decoded {
    struct fg_arena *arena;
    struct fg_batch batch;
    struct fg_decode_counts counts;
    enum fg_code code;
    struct fg_err err;
};

static struct fg_value_type samples_type = {FG_LIT("samples"), FG_LIT("count")};

static struct fg_folded_request plain_request(enum fg_text_format format)
{
    static struct fg_label labels[] = {
        {FG_LIT("__name__"), FG_LIT("process_cpu")},
        {FG_LIT("service_name"), FG_LIT("shop")},
    };

    return (struct fg_folded_request){
        .upload = {.labels = {labels, 2}, .time_ns = 5, .limits = FG_DECODE_LIMITS_DEFAULT},
        .format = format,
        .period = 11,
        .factor = 1,
    };
}

static void decode(struct decoded *out, struct fg_slice in, const struct fg_folded_request *request)
{
    *out = (struct decoded){.arena = fg_arena_create(1 << 24)};
    out->batch.types = &samples_type;
    out->batch.n_types = 1;
    out->code = fg_folded_decode(in, request, out->arena, &out->batch, &out->counts, &out->err);
}

static void assert_text(const struct fg_batch *batch, const char *want)
{
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    batch_folded(batch, 0, &text);
    fg_buf_putc(&text, 0);
    assert_string_equal((const char *)text.ptr, want);
    fg_buf_done(&text);
}

static void good_texts(void **state)
{
    static const struct {
        const char *name;
        enum fg_text_format format;
        const char *in, *want;
    } cases[] = {
        {"nothing", FG_TEXT_FOLDED, "", ""},
        {"one line", FG_TEXT_FOLDED, "main;work;hash 30\n", "main;work;hash 30\n"},
        {"no line end", FG_TEXT_FOLDED, "a;b 1", "a;b 1\n"},
        {"CRLF", FG_TEXT_FOLDED, "a;b 1\r\nc 2\r\n", "a;b 1\nc 2\n"},
        {"equal stacks", FG_TEXT_FOLDED, "a;b 1\na 2\na;b 4\n", "a 2\na;b 5\n"},
        {"blanks in names", FG_TEXT_FOLDED, "a b;c d 7\n", "a b;c d 7\n"},
        {"no blank", FG_TEXT_FOLDED, "a;b\nc 1\n", "c 1\n"},
        {"empty lines", FG_TEXT_FOLDED, "\n\na 1\n\n", "a 1\n"},
        {"empty stack", FG_TEXT_FOLDED, " 5\na 1\n", "a 1\n"},
        {"zero and negative", FG_TEXT_FOLDED, "a 0\nb -3\nc 2\n", "c 2\n"},
        {"plus", FG_TEXT_FOLDED, "a +3\n", "a 3\n"},
        {"empty frames", FG_TEXT_FOLDED, ";a;;b 4\n", "0x0;a;0x0;b 4\n"},
        {"an end that is none", FG_TEXT_FOLDED, "a;b; 4\n;; 1\n; 2\n", "0x0 2\n0x0;0x0 1\na;b 4\n"},
        {"recursion", FG_TEXT_FOLDED, "a;a;a 1\na;a 2\n", "a;a 2\na;a;a 1\n"},
        {"greatest", FG_TEXT_FOLDED, "a 9223372036854775807\n", "a 9223372036854775807\n"},
        {"lines", FG_TEXT_LINES, "a;b\nc\na;b\n", "a;b 2\nc 1\n"},
        {"lines with numbers", FG_TEXT_LINES, "a;b 5\na;b 5\r\n", "a;b 5 2\n"},
        {"empty lines of lines", FG_TEXT_LINES, "\n\r\na\n\n", "a 1\n"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_folded_request request = plain_request(cases[i].format);
        struct decoded decoded;

        print_message("  %s\n", cases[i].name);
        decode(&decoded, fg_cstr(cases[i].in), &request);
        assert_int_equal(decoded.code, FG_OK);
        assert_text(&decoded.batch, cases[i].want);
        assert_int_equal(decoded.batch.n_profiles, cases[i].want[0] != '\0');
        fg_arena_destroy(decoded.arena);
    }
}

static void bad_texts(void **state)
{
    static const struct {
        const char *name, *in, *text;
        enum fg_code code;
    } cases[] = {
        {"a word", "a 1\nb x\n", "line 2: count \"x\" is not an integer", FG_E_DECODE},
        {"a fraction", "a 1.5\n", "line 1: count \"1.5\"", FG_E_DECODE},
        {"no count", "a \n", "line 1: count \"\"", FG_E_DECODE},
        {"over 63 bits", "a 9223372036854775808\n", "is not an integer", FG_E_DECODE},
        {"sum over 63 bits", "a 9223372036854775807\na 1\n", "line 2: sum of", FG_E_INVALID},
        {"not UTF-8", "a;\xff 1\n", "line 1: a frame's name is not UTF-8", FG_E_DECODE},
    };
    struct fg_folded_request request = plain_request(FG_TEXT_FOLDED);
    struct decoded decoded;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].name);
        decode(&decoded, fg_cstr(cases[i].in), &request);
        assert_int_equal(decoded.code, cases[i].code);
        assert_non_null(strstr(decoded.err.msg, cases[i].text));
        fg_arena_destroy(decoded.arena);
    }
}

static void the_factor_multiplies(void **state)
{
    struct fg_folded_request request = plain_request(FG_TEXT_FOLDED);
    struct decoded decoded;

    (void)state;
    request.factor = 10000000;
    decode(&decoded, FG_LIT("a 3\n"), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_text(&decoded.batch, "a 30000000\n");
    assert_int_equal(decoded.batch.profiles[0].period, 11);
    assert_int_equal(decoded.batch.profiles[0].time_ns, 5);
    fg_arena_destroy(decoded.arena);
    decode(&decoded, FG_LIT("a 922337203686\n"), &request);
    assert_int_equal(decoded.code, FG_E_DECODE);
    assert_non_null(strstr(decoded.err.msg, "times the period"));
    fg_arena_destroy(decoded.arena);
}

/* A pprof and a text of the same names give the same stacks their ids by content, in any order. */
static void order_makes_no_difference(void **state)
{
    static const char *const texts[] = {"a;b 1\na;c 2\nd 3\n", "d 1\na;c 2\nd 2\na;b 1\n"};
    struct fg_folded_request request = plain_request(FG_TEXT_FOLDED);
    struct fg_id ids[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct decoded decoded;

        decode(&decoded, fg_cstr(texts[i]), &request);
        assert_int_equal(decoded.code, FG_OK);
        fg_batch_identify(&decoded.batch, FG_LIT("t"), FG_LIT(""), FG_LIT(""));
        ids[i] = decoded.batch.profiles[0].id;
        fg_arena_destroy(decoded.arena);
    }
    assert_true(fg_id_eq(ids[0], ids[1]));
}

static void limits_cut(void **state)
{
    struct fg_folded_request request = plain_request(FG_TEXT_FOLDED);
    struct decoded decoded;

    (void)state;
    request.upload.limits.stack_depth_max = 2;
    request.upload.limits.symbol_max_bytes = 3;
    decode(&decoded,
           FG_LIT("main;work;leaf 1\na\xc3\xa9"
                  "bc;x 2\n"),
           &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_text(&decoded.batch, "ain;ork 1\nbc;x 2\n");
    assert_int_equal(decoded.counts.stacks_cut, 1);
    assert_int_equal(decoded.counts.symbols_cut, 4);
    fg_arena_destroy(decoded.arena);
}

static void memory_is_bounded(void **state)
{
    struct fg_folded_request request = plain_request(FG_TEXT_FOLDED);
    struct fg_arena *arena = fg_arena_create(50000);
    struct fg_batch batch = {.types = &samples_type, .n_types = 1};
    struct fg_decode_counts counts = {0};
    struct fg_err err;
    struct fg_buf text;

    (void)state;
    fg_buf_init(&text, SIZE_MAX);
    for (int i = 0; i < 100000; i++)
        fg_buf_putc(&text, ';');
    fg_buf_puts(&text, " 1\n");
    assert_int_equal(fg_folded_decode(fg_buf_slice(&text), &request, arena, &batch, &counts, &err),
                     FG_E_TOO_LARGE);
    fg_buf_clear(&text);
    for (int i = 0; i < 10000; i++)
        fg_buf_printf(&text, "f%d 1\n", i);
    fg_arena_reset(arena);
    batch = (struct fg_batch){.types = &samples_type, .n_types = 1};
    assert_int_equal(fg_folded_decode(fg_buf_slice(&text), &request, arena, &batch, &counts, &err),
                     FG_E_TOO_LARGE);
    fg_buf_done(&text);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts),
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(the_factor_multiplies),
        cmocka_unit_test(order_makes_no_difference),
        cmocka_unit_test(limits_cut),
        cmocka_unit_test(memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
