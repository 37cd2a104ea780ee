/* Recording rules: what is refused, the object they are in, and the text of metrics. */
#include "common/base/time.h"
#include "querier/rules/expose.h"
#include "querier/rules/rule_store.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define OBJECT "tenants/acme/rules"
#define CPU    "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

enum { RULES_MAX = 30 };

struct fixture {
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty;
    struct fg_arena *arena;
    struct qry_rule_store store;
};

static int set_up(void **state)
{
    static const struct fg_bucket_faults none;
    struct fixture *f = fg_new(struct fixture);

    f->memory = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->memory, &none);
    f->arena = fg_arena_create(64 << 20);
    f->store = (struct qry_rule_store){.bucket = fg_bucket_faulty_bucket(f->faulty),
                                       .tenant = FG_LIT("acme"),
                                       .arena = f->arena,
                                       .rules_max = RULES_MAX};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_bucket_close(f->memory);
    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

/* Returns a copy that may be written to, which messages want. */
static char *text(struct fixture *f, const char *from)
{
    return fg_arena_text(f->arena, fg_cstr(from));
}

static Settings__V1__RecordingRule *make(struct fixture *f, const char *id, const char *metric,
                                         const char *matcher, int64_t generation)
{
    Settings__V1__RecordingRule *rule = fg_arena_new(f->arena, Settings__V1__RecordingRule, 1);

    settings__v1__recording_rule__init(rule);
    rule->id = text(f, id);
    rule->metric_name = text(f, metric);
    rule->generation = generation;
    rule->matchers = fg_arena_new(f->arena, char *, 1);
    rule->matchers[rule->n_matchers++] = text(f, matcher);
    return rule;
}

/* ---- rules ---- */

static void types_and_selectors(void **state)
{
    static const struct {
        const char *matcher, *type, *selector;
        bool instant;
    } cases[] = {
        {"{__profile_type__=\"" CPU "\"}", CPU, "{}", false},
        {"{a=\"b\",__profile_type__=\"" CPU "\",c=~\"d|e\"}", CPU, "{a=\"b\",c=~\"d|e\"}", false},
        {"{__profile_type__=\"memory:inuse_space:bytes:space:bytes\"}",
         "memory:inuse_space:bytes:space:bytes", "{}", true},
        {"{__profile_type__=\"memory:alloc_space:bytes:space:bytes:delta\"}",
         "memory:alloc_space:bytes:space:bytes", "{}", false},
        {"{__profile_type__=\"goroutines:goroutine:count:goroutine:count\"}",
         "goroutines:goroutine:count:goroutine:count", "{}", true},
    };
    struct fixture *f = *state;
    struct qry_rule rule;
    struct fg_err err;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].matcher);
        assert_int_equal(
            qry_rule_read(make(f, "a", "m", cases[i].matcher, 1), f->arena, &rule, &err), FG_OK);
        assert_string_equal(rule.type_id, cases[i].type);
        assert_string_equal(rule.selector, cases[i].selector);
        assert_int_equal(rule.instant, cases[i].instant);
        assert_int_equal(rule.kind, QRY_RULE_ALL);
        qry_rule_done(&rule);
    }
}

/* All faults are said at once, and what follows them is not lost in them. */
static void faults_of_a_rule(void **state)
{
    struct fixture *f = *state;
    Settings__V1__RecordingRule *wrong = make(f, "a b", "1", "{a=", -1);
    struct qry_rule rule;
    struct fg_err err;

    wrong->group_by = wrong->matchers;
    wrong->n_group_by = 1;
    assert_int_equal(qry_rule_read(wrong, f->arena, &rule, &err), FG_E_INVALID);
    assert_string_equal(
        err.msg,
        "id \"a b\" must match ^[a-zA-Z]+$\n"
        "metric_name \"1\" is invalid: must match ^[a-zA-Z_:][a-zA-Z0-9_:]*$\n"
        "matcher \"{a=\" is invalid: 1:4: parse error: unexpected end of input inside braces\n"
        "matchers must contain a \"__profile_type__\" matcher\n"
        "group_by label \"{a=\" must match ^[a-zA-Z_][a-zA-Z0-9_]*$\n"
        "generation must be positive");
}

static void an_id_is_made(void **state)
{
    struct fixture *f = *state;
    Settings__V1__UpsertRecordingRuleRequest request =
        SETTINGS__V1__UPSERT_RECORDING_RULE_REQUEST__INIT;
    Settings__V1__RecordingRule rule, other;
    struct fg_err err;

    request.metric_name = text(f, "\tm ");
    request.generation = 5;
    request.n_matchers = 1;
    request.matchers = fg_arena_new(f->arena, char *, 1);
    request.matchers[0] = text(f, "{__profile_type__=\"" CPU "\"}");
    assert_int_equal(qry_rule_of_request(&request, f->arena, &rule, &err), FG_OK);
    assert_int_equal(qry_rule_of_request(&request, f->arena, &other, &err), FG_OK);
    assert_int_equal(strlen(rule.id), RULE_ID_LETTERS);
    /* From one content one id, whatever the generation; from another another. */
    assert_string_equal(rule.id, other.id);
    request.metric_name = text(f, "n");
    request.generation = 0;
    assert_int_equal(qry_rule_of_request(&request, f->arena, &other, &err), FG_OK);
    assert_string_not_equal(rule.id, other.id);
    assert_string_equal(rule.metric_name, "m");
    assert_int_equal(rule.generation, 1);
    assert_string_equal(rule.profile_type, CPU);
    request.n_matchers = 0;
    assert_int_equal(qry_rule_of_request(&request, f->arena, &rule, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "invalid request: matchers must contain a \"__profile_type__\" "
                                 "matcher");
}

/* ---- the object ---- */

static enum fg_code put(struct fixture *f, const char *id, const char *metric, int64_t generation,
                        struct fg_err *err)
{
    return qry_rule_store_put(&f->store, make(f, id, metric, "{}", generation), err);
}

/* "id=metric@generation;" of each. */
static void assert_all(struct fixture *f, const char *want)
{
    Settings__V1__ListRecordingRulesResponse *all;
    struct fg_buf found;
    struct fg_err err;

    assert_int_equal(qry_rule_store_list(&f->store, &all, &err), FG_OK);
    fg_buf_init(&found, SIZE_MAX);
    for (size_t i = 0; i < all->n_rules; i++)
        fg_buf_printf(&found, "%s=%s@%lld;", all->rules[i]->id, all->rules[i]->metric_name,
                      (long long)all->rules[i]->generation);
    fg_buf_putc(&found, '\0');
    assert_string_equal((const char *)found.ptr, want);
    fg_buf_done(&found);
}

static void generations(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    assert_all(f, "");
    assert_int_equal(put(f, "b", "m", 7, &err), FG_OK);
    assert_int_equal(put(f, "a", "n", 0, &err), FG_OK);
    assert_int_equal(put(f, "b", "o", 2, &err), FG_E_EXISTS);
    assert_int_equal(put(f, "b", "o", 1, &err), FG_OK);
    assert_int_equal(put(f, "b", "p", 1, &err), FG_E_EXISTS);
    assert_string_equal(err.msg, "conflicting update, please try again");
    assert_all(f, "b=o@2;a=n@1;");
    assert_int_equal(qry_rule_store_delete(&f->store, "c", &err), FG_E_NOT_FOUND);
    assert_int_equal(qry_rule_store_delete(&f->store, "b", &err), FG_OK);
    assert_int_equal(qry_rule_store_delete(&f->store, "b", &err), FG_E_NOT_FOUND);
    assert_all(f, "a=n@1;");
    f->store.tenant = FG_LIT("other");
    assert_all(f, "");
}

/* A client that gets no answer sends its request again. */
static void requests_may_come_twice(void **state)
{
    struct fixture *f = *state;
    Settings__V1__UpsertRecordingRuleRequest request =
        SETTINGS__V1__UPSERT_RECORDING_RULE_REQUEST__INIT;
    Settings__V1__RecordingRule rule, again, other;
    struct fg_err err;

    request.metric_name = text(f, "m");
    request.n_matchers = 1;
    request.matchers = fg_arena_new(f->arena, char *, 1);
    request.matchers[0] = text(f, "{__profile_type__=\"" CPU "\"}");
    assert_int_equal(qry_rule_of_request(&request, f->arena, &rule, &err), FG_OK);
    assert_int_equal(qry_rule_of_request(&request, f->arena, &again, &err), FG_OK);
    assert_int_equal(qry_rule_store_create(&f->store, &rule, &err), FG_OK);
    assert_int_equal(qry_rule_store_create(&f->store, &again, &err), FG_OK);
    assert_string_equal(rule.id, again.id);
    assert_int_equal(again.generation, 1);
    /* A change, and the same again; then another one of the old generation. */
    assert_int_equal(put(f, rule.id, "n", 1, &err), FG_OK);
    assert_int_equal(put(f, rule.id, "n", 1, &err), FG_OK);
    assert_int_equal(put(f, rule.id, "o", 1, &err), FG_E_EXISTS);
    /* The first rule was changed since, so the same request creates a new rule with another id. */
    assert_int_equal(qry_rule_of_request(&request, f->arena, &other, &err), FG_OK);
    assert_int_equal(qry_rule_store_create(&f->store, &other, &err), FG_OK);
    assert_string_not_equal(rule.id, other.id);
    assert_int_equal(qry_rule_of_request(&request, f->arena, &again, &err), FG_OK);
    assert_int_equal(qry_rule_store_create(&f->store, &again, &err), FG_OK);
    assert_string_equal(other.id, again.id);
    char want[100];
    (void)snprintf(want, sizeof want, "%s=n@2;%s=m@1;", rule.id, other.id);
    assert_all(f, want);
}

static void too_many(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;
    char id[] = "aa";

    for (unsigned i = 0; i < RULES_MAX; i++) {
        id[0] = (char)('a' + i % 26);
        id[1] = (char)('a' + i / 26);
        assert_int_equal(put(f, id, "m", 0, &err), FG_OK);
    }
    assert_int_equal(put(f, "one", "m", 0, &err), FG_E_TOO_MUCH);
    assert_int_equal(put(f, id, "n", 1, &err), FG_OK); /* one that is there may change */
}

/* Whatever the k-th request of the bucket does, a client that asks again finds its rule once. */
static void faults_of_the_bucket(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    for (uint64_t k = 1; k < 12; k++) {
        char id[2] = {(char)('a' + k), '\0'};

        fg_bucket_faulty_fail(f->faulty, 1 + k % 3, k % 2 == 0);
        enum fg_code code = put(f, id, "m", 0, &err);
        fg_bucket_faulty_fail(f->faulty, 0, false);
        /* FG_E_EXISTS: it was written, and only the answer was lost. */
        if (code != FG_OK && put(f, id, "m", 0, &err) != FG_OK)
            assert_int_equal(err.code, FG_E_EXISTS);
    }
    assert_all(f, "b=m@1;c=m@1;d=m@1;e=m@1;f=m@1;g=m@1;h=m@1;i=m@1;j=m@1;k=m@1;l=m@1;");
}

/* Damage anywhere is said, and nothing overwrites it. */
static void damage(void **state)
{
    struct fixture *f = *state;
    Settings__V1__ListRecordingRulesResponse *all;
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET, .name = OBJECT, .content_max_bytes = 4096};
    struct fg_err err;

    assert_int_equal(put(f, "a", "metric", 0, &err), FG_OK);
    assert_int_equal(fg_bucket_call(f->memory, &get), FG_OK);
    for (size_t i = 0; i < get.body.len; i++) {
        struct fg_bucket_request write = {
            .verb = FG_BUCKET_PUT, .name = OBJECT, .content = fg_buf_slice(&get.body)};

        get.body.ptr[i] ^= 4;
        assert_int_equal(fg_bucket_call(f->memory, &write), FG_OK);
        fg_bucket_clear(&write);
        assert_int_equal(qry_rule_store_list(&f->store, &all, &err), FG_E_CORRUPT);
        assert_non_null(strstr(err.msg, OBJECT));
        assert_int_equal(put(f, "b", "m", 0, &err), FG_E_CORRUPT);
        assert_int_equal(qry_rule_store_delete(&f->store, "a", &err), FG_E_CORRUPT);
        get.body.ptr[i] ^= 4;
    }
    fg_bucket_clear(&get);
}

/* A field that no message has may be such that it can be read once: then nothing is written. */
static void fields_that_cannot_be_stored(void **state)
{
    struct fixture *f = *state;
    ProtobufCMessageUnknownField known = {
        .tag = 17, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 1, .data = (uint8_t[]){1}};
    ProtobufCMessageUnknownField zero = {
        .tag = 0, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 1, .data = (uint8_t[]){1}};
    Settings__V1__RecordingRule *rule = make(f, "a", "m", "{}", 0);
    Types__V1__LabelPair pair = TYPES__V1__LABEL_PAIR__INIT, *pairs = &pair;
    struct fg_err err;

    pair.name = text(f, "n");
    rule->external_labels = &pairs;
    rule->n_external_labels = 1;
    pair.base.unknown_fields = &zero;
    pair.base.n_unknown_fields = 1;
    assert_int_equal(qry_rule_store_put(&f->store, rule, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "the recording rules of a tenant: a field cannot be stored");
    assert_all(f, "");
    pair.base.unknown_fields = &known;
    assert_int_equal(qry_rule_store_put(&f->store, rule, &err), FG_OK);
    assert_all(f, "a=m@1;");
}

static void no_bucket(void **state)
{
    struct fixture *f = *state;
    struct qry_rule_store store = f->store;
    Settings__V1__ListRecordingRulesResponse *all;
    struct fg_err err;

    store.bucket = NULL;
    assert_int_equal(qry_rule_store_list(&store, &all, &err), FG_E_UNIMPLEMENTED);
}

/* ---- the text ---- */

static void assert_text(const struct fg_buf *found, const char *want)
{
    char *copy = fg_calloc(found->len + 1, 1);

    memcpy(copy, found->ptr, found->len);
    assert_string_equal(copy, want);
    free(copy);
}

static void numbers_and_names(void **state)
{
    static const struct {
        double number;
        const char *text;
    } numbers[] = {{0, "0"},
                   {0.1, "0.1"},
                   {1.0 / 3, "0.3333333333333333"},
                   {-2, "-2"},
                   {9007199254740993.0, "9007199254740992"},
                   {1e300, "1e+300"}};
    static const struct {
        const char *name, *text;
    } names[] = {
        {"main", "main"},
        {"a \"b\"\\\n", "a \\\"b\\\"\\\\\\n"},
        {"caf\xc3\xa9 \xff\xc3", "caf\xc3\xa9 ??"},
    };
    struct fg_buf out;
    char longest[1026];

    (void)state;
    fg_buf_init(&out, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(numbers); i++) {
        fg_buf_clear(&out);
        qry_expose_number(numbers[i].number, &out);
        assert_text(&out, numbers[i].text);
    }
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        fg_buf_clear(&out);
        qry_expose_text(fg_cstr(names[i].name), &out);
        assert_text(&out, names[i].text);
    }
    /* Names that differ only behind the cut stay two. */
    memset(longest, 'x', sizeof longest);
    fg_buf_clear(&out);
    qry_expose_text(fg_bytes(longest, 1024), &out);
    assert_int_equal(out.len, 1024);
    for (int last = 0; last < 2; last++) {
        longest[1025] = (char)('a' + last);
        qry_expose_text(fg_bytes(longest, 1026), &out);
    }
    assert_int_equal(out.len, 1024 + 2 * (1000 + 17));
    assert_memory_not_equal(out.ptr + 1024, out.ptr + 1024 + 1017, 1017);
    fg_buf_done(&out);
}

static void metrics(void **state)
{
    struct fixture *f = *state;
    Settings__V1__RecordingRule *message = make(f, "a", "m", "{__profile_type__=\"" CPU "\"}", 1);
    struct fg_label label = {FG_LIT("pod"), FG_LIT("p\"1")};
    struct qry_rule_series series[] = {
        {.labels = {&label, 1}, .value = 120e9, .whole = 240e9},
        {.function = FG_LIT("f"), .value = 30, .whole = 0},
    };
    struct qry_rule_values values = {.items = series,
                                     .n = 2,
                                     .rest = {.value = 6e9, .whole = 8e9},
                                     .n_rest = 3,
                                     .profiles = 7,
                                     .at_wall_ns = 1500 * FG_MS_NS,
                                     .took_ns = FG_SECOND_NS / 4};
    struct qry_rule rule;
    struct qry_exposed_rule exposed[] = {{message, &rule, &values, NULL},
                                         {message, NULL, NULL, "bad\nnews"}};
    struct fg_buf out;
    struct fg_err err;

    message->group_by = fg_arena_new(f->arena, char *, 1);
    message->group_by[message->n_group_by++] = text(f, "pod");
    assert_int_equal(qry_rule_read(message, f->arena, &rule, &err), FG_OK);
    fg_buf_init(&out, SIZE_MAX);
    qry_expose(exposed, 2, 2 * FG_MINUTE_NS, &out);
    fg_buf_putc(&out, '\0');
    assert_non_null(strstr((char *)out.ptr,
                           "# HELP m " CPU ", nanoseconds per second\n"
                           "# TYPE m gauge\n"
                           "m{rule_id=\"a\",pod=\"p\\\"1\"} 2000000000 180000\n"
                           "m{rule_id=\"a\",function=\"f\"} 0.5 180000\n"
                           "m{rule_id=\"a\",flamegrid_overflow=\"true\"} 100000000 180000\n"
                           "# bad news\n"
                           "# HELP flamegrid_rule_minute_end_timestamp_seconds"));
    assert_non_null(strstr((char *)out.ptr,
                           "\nflamegrid_rule_complete{rule_id=\"a\",metric=\"m\"} 1\n"
                           "flamegrid_rule_complete{rule_id=\"a\",metric=\"m\"} 0\n"));
    assert_non_null(
        strstr((char *)out.ptr, "_timestamp_seconds{rule_id=\"a\",metric=\"m\"} 1.5\n"));
    assert_non_null(strstr((char *)out.ptr, "_series_dropped{rule_id=\"a\",metric=\"m\"} 3\n"));
    rule.share = true;
    fg_buf_clear(&out);
    qry_expose(exposed, 1, 2 * FG_MINUTE_NS, &out);
    fg_buf_putc(&out, '\0');
    /* A share of nothing is none. */
    assert_non_null(strstr((char *)out.ptr, ", share\n# TYPE m gauge\n"
                                            "m{rule_id=\"a\",pod=\"p\\\"1\"} 0.5 180000\n"
                                            "m{rule_id=\"a\",flamegrid_overflow=\"true\"} 0.75 "));
    fg_buf_done(&out);
    qry_rule_done(&rule);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(types_and_selectors),
        TEST(faults_of_a_rule),
        TEST(an_id_is_made),
        TEST(generations),
        TEST(requests_may_come_twice),
        TEST(too_many),
        TEST(faults_of_the_bucket),
        TEST(damage),
        TEST(fields_that_cannot_be_stored),
        TEST(no_bucket),
        TEST(numbers_and_names),
        TEST(metrics),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
