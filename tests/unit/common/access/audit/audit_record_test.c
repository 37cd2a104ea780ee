/* A chain of records shows each change, removal and move; names and lines are read as they were
 * written. */
#include "common/access/audit/audit_record.h"
#include "common/base/str.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { OBJECTS = 3, EVENTS = 4, FAULTS_MAX = 4096 };

static const int64_t START_MS = INT64_C(1764194400000); /* 2025-11-26 22:00 */

/* A chain of objects of one hour each. */
struct fixture {
    struct fg_audit_writer writer;
    struct fg_buf objects[OBJECTS];
    char names[OBJECTS][FG_AUDIT_NAME_MAX_BYTES];
    struct fg_audit_chain chain;
    char faults[FAULTS_MAX];
};

static void append(struct fg_audit_writer *writer, int64_t ms, const struct fg_audit_event *event,
                   struct fg_buf *out)
{
    struct fg_buf text;

    fg_buf_init(&text, FG_AUDIT_LINE_MAX_BYTES);
    fg_audit_write_event(event, &text);
    fg_audit_append(writer, ms, fg_buf_slice(&text), out);
    fg_buf_done(&text);
    assert_false(out->full);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->writer = fg_audit_writer("flamegrid-querier", 0x1234, "host");
    for (int i = 0; i < OBJECTS; i++) {
        int64_t ms = START_MS + i * 3600000;

        fg_buf_init(&f->objects[i], FG_AUDIT_OBJECT_MAX_BYTES);
        for (int k = 0; k < EVENTS; k++)
            append(&f->writer, ms + k,
                   &(struct fg_audit_event){
                       .kind = FG_AUDIT_ADMIN, .who = FG_LIT("ops"), .count = (uint64_t)k},
                   &f->objects[i]);
        fg_audit_write_name(f->writer.head.chain, (uint64_t)i, ms, f->names[i]);
        fg_audit_next_object(&f->writer);
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < OBJECTS; i++)
        fg_buf_done(&f->objects[i]);
    free(f);
    return 0;
}

static void on_fault(void *arg, const char *chain, const char *sentence)
{
    struct fixture *f = arg;
    size_t len = strlen(f->faults);

    assert_string_equal(chain, f->writer.head.chain);
    (void)snprintf(f->faults + len, sizeof f->faults - len, "%s\n", sentence);
}

static void check(struct fixture *f, int object)
{
    struct fg_audit_name name;

    assert_true(fg_audit_read_name(fg_cstr(f->names[object]), &name));
    fg_audit_check_object(&f->chain, &name, fg_buf_slice(&f->objects[object]), on_fault, f);
}

static void check_all(struct fixture *f)
{
    for (int i = 0; i < OBJECTS; i++)
        check(f, i);
    fg_audit_check_links(&f->chain, 1, on_fault, f);
}

/* Returns the start of a line of an object. */
static char *line_of(struct fixture *f, int object, int line)
{
    char *at = (char *)f->objects[object].ptr;

    for (int i = 0; i < line; i++)
        at = memchr(at, '\n', f->objects[object].len) + (ptrdiff_t)1;
    return at;
}

static void remove_line(struct fixture *f, int object, int line)
{
    char *from = line_of(f, object, line), *to = memchr(from, '\n', FG_AUDIT_LINE_MAX_BYTES);
    size_t len = (size_t)(to + 1 - from);

    memmove(from, to + 1, f->objects[object].len - len - (size_t)(from - line_of(f, object, 0)));
    f->objects[object].len -= len;
}

static void an_untouched_chain_has_no_fault(void **state)
{
    struct fixture *f = *state;

    check_all(f);
    assert_string_equal(f->faults, "");
    assert_int_equal(f->chain.records, OBJECTS * (EVENTS + 1));
    assert_int_equal(f->chain.head.seq, OBJECTS * (EVENTS + 1) - 1);
    assert_memory_equal(f->chain.head.hash, f->writer.head.hash, FG_AUDIT_HASH_BYTES);
    assert_string_equal(f->chain.head.chain, "querier-0000000000001234");
}

static void any_changed_byte_shows(void **state)
{
    struct fixture *f = *state;

    /* Of all objects but the last record, whose hash nothing has yet. */
    for (int i = 0; i < OBJECTS; i++) {
        size_t end = i < OBJECTS - 1 ? f->objects[i].len
                                     : (size_t)(line_of(f, i, EVENTS) - line_of(f, i, 0));

        for (size_t at = 0; at < end; at++) {
            f->objects[i].ptr[at] ^= 1;
            f->faults[0] = '\0';
            f->chain = (struct fg_audit_chain){0};
            check_all(f);
            if (f->faults[0] == '\0')
                fail_msg("object %d, byte %zu was changed and nothing said so", i, at);
            f->objects[i].ptr[at] ^= 1;
        }
    }
}

static void an_edited_record_is_named(void **state)
{
    struct fixture *f = *state;
    char *line = line_of(f, 1, 2), *end = memchr(line, '\n', FG_AUDIT_LINE_MAX_BYTES);
    char *who = memmem(line, (size_t)(end - line), "\"ops\"", strlen("\"ops\""));

    who[1] = 'X';
    check_all(f);
    assert_string_equal(f->faults,
                        "object 1, line 4: record 8 does not continue the one before it: "
                        "record 7 was changed\n");
}

static void a_removed_record_is_named(void **state)
{
    struct fixture *f = *state;

    remove_line(f, 1, 2);
    check_all(f);
    assert_string_equal(
        f->faults, "object 1, line 3: record 8 follows record 6: records in between are missing\n");
}

static void reordered_records_show(void **state)
{
    struct fixture *f = *state;
    char *second = line_of(f, 0, 1), *third = line_of(f, 0, 2);
    size_t len = (size_t)(third - second);
    char kept[FG_AUDIT_TEXT_MAX_BYTES];

    /* Both have the same length except for "count", which the first one has not. */
    memcpy(kept, second, len);
    memmove(second, third, (size_t)(line_of(f, 0, 3) - third));
    memcpy(line_of(f, 0, 2), kept, len);
    check_all(f);
    assert_non_null(strstr(f->faults, "object 0, line 2: record 2 follows record 0"));
    assert_non_null(strstr(f->faults, "object 0, line 3: record 1 follows record 2: records were "
                                      "reordered"));
}

static void a_removed_object_shows(void **state)
{
    struct fixture *f = *state;

    check(f, 0);
    check(f, 2);
    assert_string_equal(f->faults, "object 1 is missing\n"
                                   "object 2, line 1: record 10 follows record 4: records in "
                                   "between are missing\n");
}

static void an_unreadable_object_shows(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_name name;

    check(f, 0);
    assert_true(fg_audit_read_name(fg_cstr(f->names[1]), &name));
    fg_audit_check_unreadable(&f->chain, &name, "damaged", on_fault, f);
    check(f, 2);
    assert_non_null(strstr(f->faults, "object 1 cannot be read: damaged\n"));
    assert_int_equal(f->chain.faults, 2);
}

static void an_object_under_another_name_shows(void **state)
{
    struct fixture *f = *state;
    struct fg_buf kept = f->objects[1];

    f->objects[1] = f->objects[2];
    f->objects[2] = kept;
    check_all(f);
    assert_non_null(strstr(f->faults, "object 1: its first record does not say that it is this "
                                      "object"));
}

static void first_objects_may_be_missing_only_by_retention(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_chain others[2] = {{.records = 0}};

    check(f, 1);
    check(f, 2);
    others[0] = f->chain;
    fg_audit_check_links(others, 2, on_fault, f);
    assert_string_equal(f->faults, "its first 1 objects are missing, and no record says that they "
                                   "were deleted because of their age\n");
    f->faults[0] = '\0';
    others[0] = f->chain;
    others[1].horizon_ms = START_MS + 3600000; /* all of the hour of object 0 */
    fg_audit_check_links(others, 2, on_fault, f);
    assert_string_equal(f->faults, "");
    others[0] = f->chain;
    others[1].horizon_ms--;
    fg_audit_check_links(others, 2, on_fault, f);
    assert_string_not_equal(f->faults, "");
}

static void the_next_process_knows_the_end(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_chain whole, cut_short;

    check(f, 0);
    check(f, 1);
    cut_short = f->chain;
    check(f, 2);
    whole = f->chain;
    /* A chain that continues itself: what is compared are its end and the link. */
    (void)snprintf(whole.continues.chain, sizeof whole.continues.chain, "%s", whole.head.chain);
    whole.continues.seq = whole.head.seq;
    memcpy(whole.continues.hash, whole.head.hash, FG_AUDIT_HASH_BYTES);
    fg_audit_check_links(&whole, 1, on_fault, f);
    assert_string_equal(f->faults, "");
    cut_short.continues = whole.continues;
    fg_audit_check_links(&cut_short, 1, on_fault, f);
    assert_string_equal(f->faults, "the last records of chain querier-0000000000001234, which it "
                                   "continues, are missing: 10 to 14\n");
    f->faults[0] = '\0';
    whole.continues.hash[5] ^= 1;
    fg_audit_check_links(&whole, 1, on_fault, f);
    assert_non_null(strstr(f->faults, "had another end: record 14"));
}

/* Whoever writes all later hashes again, or cuts the end off, is found by a head kept elsewhere. */
static void a_known_record_has_to_be_there(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_chain cut_short;

    f->chain.known = f->writer.head;
    check_all(f);
    assert_string_equal(f->faults, "");
    f->chain = (struct fg_audit_chain){.known = f->writer.head};
    f->chain.known.hash[0] ^= 1;
    check_all(f);
    assert_non_null(strstr(f->faults, "record 14 is not the one that was known"));
    f->faults[0] = '\0';
    cut_short = (struct fg_audit_chain){.known = f->writer.head};
    f->chain = cut_short;
    check(f, 0);
    check(f, 1);
    fg_audit_check_links(&f->chain, 1, on_fault, f);
    assert_string_equal(f->faults, "record 14, which was known, is missing\n");
    f->faults[0] = '\0';
    /* Nothing of the chain is left. */
    cut_short.head = f->writer.head;
    fg_audit_check_links(&cut_short, 1, on_fault, f);
    assert_string_equal(f->faults, "record 14, which was known, is missing\n");
}

static void records_after_the_end_show(void **state)
{
    struct fixture *f = *state;

    append(&f->writer, START_MS, &(struct fg_audit_event){.kind = FG_AUDIT_END}, &f->objects[2]);
    append(&f->writer, START_MS, &(struct fg_audit_event){.kind = FG_AUDIT_READ}, &f->objects[2]);
    check(f, 0);
    check(f, 1);
    check(f, 2);
    assert_non_null(strstr(f->faults, "a record follows the end of the process"));
}

/* ---- one record ---- */

static void written_records_are_read_back(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1024 * 1024);
    const struct fg_audit_event event = {
        .kind = FG_AUDIT_DELETE,
        .op = 7,
        .phase = FG_AUDIT_RESULT,
        .who = FG_LIT("token abcd1234 (\"a\\b\")"),
        .token = FG_LIT("abcd1234"),
        .session = FG_LIT("anna\n"),
        .issuer = FG_LIT("https://id.example/\""),
        .tenant = FG_LIT("a|b"),
        .method = FG_LIT("POST"),
        .route = FG_LIT("/compactor/delete"),
        .detail = FG_LIT("{service_name=\"sh\xc3\xb6p\"}"),
        .source = FG_LIT("::1"),
        .from_ms = -1,
        .to_ms = INT64_MAX,
        .count = 3,
        .bytes = UINT64_MAX,
        .status = 503,
    };
    struct fg_audit_writer writer = fg_audit_writer("p", 1, "");
    struct fg_audit_record record;
    struct fg_slice line;
    struct fg_buf lines, again;
    struct fg_err err;

    (void)state;
    fg_buf_init(&lines, FG_AUDIT_OBJECT_MAX_BYTES);
    fg_buf_init(&again, FG_AUDIT_LINE_MAX_BYTES);
    append(&writer, START_MS, &event, &lines);
    line =
        fg_slice_sub(fg_buf_slice(&lines), fg_slice_find(fg_buf_slice(&lines), '\n') + 1, SIZE_MAX);
    line.len--;
    assert_int_equal(fg_audit_read(line, arena, &record, &err), FG_OK);
    assert_int_equal(record.seq, 1);
    assert_int_equal(record.ms, START_MS);
    assert_true(fg_slice_eq(record.event.detail, event.detail));
    fg_audit_write_event(&record.event, &again);
    /* All members of the event are at the end of the line, so this compares each of them. */
    fg_buf_putc(&again, '\0');
    fg_buf_putc(&lines, '\0');
    assert_non_null(strstr((char *)lines.ptr, (char *)again.ptr + 1));
    fg_buf_done(&again);
    fg_buf_done(&lines);
}

static void long_texts_are_cut_between_characters(void **state)
{
    char text[2 * FG_AUDIT_TEXT_MAX_BYTES + 2] = "x";
    struct fg_audit_event event = {.kind = FG_AUDIT_READ};
    struct fg_buf out;

    (void)state;
    for (int i = 0; i < FG_AUDIT_TEXT_MAX_BYTES; i++)
        memcpy(text + 1 + 2 * (ptrdiff_t)i, "\xc3\xb6", 3);
    event.detail = fg_cstr(text);
    fg_buf_init(&out, FG_AUDIT_LINE_MAX_BYTES);
    fg_audit_write_event(&event, &out);
    assert_true(fg_utf8_valid(fg_buf_slice(&out)));
    assert_in_range(out.len, FG_AUDIT_TEXT_MAX_BYTES, FG_AUDIT_TEXT_MAX_BYTES + 64);
    assert_int_equal(fg_slice_search(fg_buf_slice(&out), "\xef\xbf\xbd"), SIZE_MAX);
    fg_buf_done(&out);
}

static void lines_that_are_no_records_are_refused(void **state)
{
    static const char *const lines[] = {
        "",
        "[]",
        "{}",
        "{\"kind\":\"unheard\"}",
        "{\"kind\":\"read\"}x",
        "{\"kind\":\"read\",\"seq\":-1}",
        "{\"kind\":\"read\",\"seq\":\"1\"}",
        "{\"kind\":\"read\",\"prev\":\"00\"}",
        "{\"kind\":\"read\",\"who\":1}",
        "{\"kind\":\"read\",\"status\":70000}",
        "{\"kind\":\"read\",\"phase\":\"middle\"}",
        "{\"kind\":\"object\",\"continues\":{}}",
        "{\"kind\":\"object\",\"continues\":1}",
        "{\"kind\":\"read\"",
    };
    fg_auto(fg_arena) *arena = fg_arena_create(1024 * 1024);
    struct fg_audit_record record;
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(lines); i++)
        if (fg_audit_read(fg_cstr(lines[i]), arena, &record, &err) != FG_E_DECODE)
            fail_msg("taken as a record: %s", lines[i]);
    assert_int_equal(
        fg_audit_read(fg_cstr("{\"kind\":\"read\",\"new\":[{}],\"seq\":5}"), arena, &record, &err),
        FG_OK);
    assert_int_equal(record.seq, 5);
}

/* ---- names and files ---- */

static void names_are_read_only_as_they_are_written(void **state)
{
    static const char *const others[] = {
        "audit/2025/11/26/22/querier-1-0.ndjson.zst",
        "audit/2025/11/26/24/querier-1-000000.ndjson.zst",
        "audit/2025/13/26/22/querier-1-000000.ndjson.zst",
        "audit/2025/02/30/22/querier-1-000000.ndjson.zst",
        "audit/2025/11/26/22/querier-1-0000000.ndjson.zst",
        "audit/2025/11/26/22/querier-1-000000.ndjson",
        "audit/2025/11/26/22/-000000.ndjson.zst",
        "audit/2025/11/26/22/x/querier-1-000000.ndjson.zst0",
        "audits/2025/11/26/22/querier-1-000000.ndjson.zst",
        "audit/",
    };
    struct fg_audit_name name;

    (void)state;
    assert_true(
        fg_audit_read_name(fg_cstr("audit/2025/11/26/22/querier-1-000007.ndjson.zst"), &name));
    assert_string_equal(name.chain, "querier-1");
    assert_int_equal(name.object, 7);
    assert_int_equal(name.hour_ms, START_MS);
    for (size_t i = 0; i < FG_COUNT(others); i++)
        if (fg_audit_read_name(fg_cstr(others[i]), &name))
            fail_msg("taken as a name: %s", others[i]);
}

static void a_torn_line_is_cut_off(void **state)
{
    struct fixture *f = *state;
    struct fg_slice all = fg_buf_slice(&f->objects[1]);
    size_t last = (size_t)(line_of(f, 1, EVENTS) - line_of(f, 1, 0));
    struct fg_audit_link link;
    uint64_t object = 0;

    assert_int_equal(fg_audit_whole(all, &link, &object), all.len);
    assert_int_equal(link.seq, 9);
    for (size_t len = last; len < all.len; len++) {
        assert_int_equal(fg_audit_whole(fg_slice_sub(all, 0, len), &link, &object), last);
        assert_int_equal(link.seq, 8);
        assert_int_equal(object, 1);
        assert_int_equal(link.object_ms, START_MS + 3600000);
        assert_string_equal(link.chain, f->writer.head.chain);
    }
    assert_int_equal(fg_audit_whole(fg_slice_sub(all, 0, 40), &link, &object), 0);
    assert_int_equal(fg_audit_whole(FG_LIT("nonsense\n"), &link, &object), 0);
}

int main(void)
{
#define CHAIN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CHAIN_TEST(an_untouched_chain_has_no_fault),
        CHAIN_TEST(any_changed_byte_shows),
        CHAIN_TEST(an_edited_record_is_named),
        CHAIN_TEST(a_removed_record_is_named),
        CHAIN_TEST(reordered_records_show),
        CHAIN_TEST(a_removed_object_shows),
        CHAIN_TEST(an_unreadable_object_shows),
        CHAIN_TEST(an_object_under_another_name_shows),
        CHAIN_TEST(first_objects_may_be_missing_only_by_retention),
        CHAIN_TEST(the_next_process_knows_the_end),
        CHAIN_TEST(a_known_record_has_to_be_there),
        CHAIN_TEST(records_after_the_end_show),
        cmocka_unit_test(written_records_are_read_back),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(lines_that_are_no_records_are_refused),
        cmocka_unit_test(names_are_read_only_as_they_are_written),
        CHAIN_TEST(a_torn_line_is_cut_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
