/* Records of the audit get into the bucket once each and in one chain, whatever fails: a put, its
 * answer, the process. A lost record is reported. */
#include "common/access/audit/audit.h"
#include "common/storage/bucket/directory.h"
#include "tests/lib/audit_look.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/faulty_disk.h"
#include "tests/lib/remove_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEXT_MAX_BYTES = 64 * 1024 };

static const int64_t START_NS = INT64_C(1764194400) * FG_SECOND_NS;

struct fixture {
    char folder[64], spool[80], objects[80];
    struct fg_bucket *bucket;
    struct fg_clock_manual clock;
    struct fg_registry *registry;
    struct fg_conditions *conditions;
    struct fg_audit_settings settings;
    struct fg_audit *audit;
    struct audit_look look;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    (void)snprintf(f->folder, sizeof f->folder, "/tmp/audit_test.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->spool, sizeof f->spool, "%s/audit", f->folder);
    (void)snprintf(f->objects, sizeof f->objects, "%s/bucket", f->folder);
    f->bucket = fg_bucket_memory();
    fg_clock_manual_init(&f->clock, START_NS);
    f->registry = fg_registry_create();
    f->conditions = fg_conditions_create(f->registry);
    f->settings.flush_ns = 5 * FG_MINUTE_NS;
    audit_look_init(&f->look);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_audit_destroy(f->audit);
    fg_bucket_close(f->bucket);
    fg_conditions_destroy(f->conditions);
    fg_registry_destroy(f->registry);
    audit_look_done(&f->look);
    (void)remove_tree(f->folder);
    free(f);
    return 0;
}

static struct fg_audit *create(struct fixture *f, struct fg_conditions *conditions)
{
    return fg_audit_create(&(struct fg_audit_config){.settings = &f->settings,
                                                     .program = "flamegrid-querier",
                                                     .clock = &f->clock.clock,
                                                     .registry = f->registry,
                                                     .conditions = conditions});
}

/* Opens the audit of the fixture. spool: in the folder. */
static void begin(struct fixture *f, struct fg_bucket *bucket, bool spool)
{
    struct fg_err err;

    f->audit = create(f, f->conditions);
    if (fg_audit_open(f->audit, bucket, spool ? f->spool : "", &err) != FG_OK)
        fail_msg("%s", err.msg);
}

static void end(struct fixture *f)
{
    fg_audit_destroy(f->audit);
    f->audit = NULL;
}

static unsigned verify(struct fixture *f, const char *text)
{
    return audit_look(&f->look, f->bucket, text);
}

static void assert_sound(struct fixture *f)
{
    assert_string_equal(audit_look_faults(&f->look), "");
}

static void note(struct fg_audit *audit, const char *what)
{
    fg_audit_note(audit, &(struct fg_audit_event){.kind = FG_AUDIT_ADMIN,
                                                  .who = FG_LIT("ops"),
                                                  .detail = fg_cstr(what)});
}

static void pass_flush(struct fixture *f)
{
    fg_clock_manual_advance(&f->clock, f->settings.flush_ns);
    fg_audit_turn(f->audit);
}

/* ---- storing ---- */

static void one_object_per_flush(void **state)
{
    struct fixture *f = *state;

    begin(f, f->bucket, false);
    note(f->audit, "one");
    fg_audit_turn(f->audit);
    fg_clock_manual_advance(&f->clock, f->settings.flush_ns - 1);
    note(f->audit, "two");
    fg_audit_turn(f->audit);
    assert_int_equal(verify(f, "detail"), 0);
    fg_clock_manual_advance(&f->clock, 1);
    fg_audit_turn(f->audit);
    assert_int_equal(verify(f, "detail"), 2);
    assert_int_equal(f->look.n_objects, 1);
    note(f->audit, "three");
    end(f);
    assert_int_equal(verify(f, "detail"), 3);
    assert_int_equal(f->look.n_objects, 2);
    assert_true(f->look.chains[0].ended);
    assert_sound(f);
}

static void a_process_that_records_nothing_stores_nothing(void **state)
{
    struct fixture *f = *state;

    begin(f, f->bucket, true);
    fg_audit_turn(f->audit);
    end(f);
    assert_int_equal(verify(f, "kind"), 0);
}

static void a_lost_answer_stores_nothing_twice(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_faulty *faulty =
        fg_bucket_faulty_create(f->bucket, &(struct fg_bucket_faults){.seed = 1});

    for (int spool = 0; spool < 2; spool++) {
        begin(f, fg_bucket_faulty_bucket(faulty), spool != 0);
        fg_bucket_faulty_fail(faulty, 1, true);
        note(f->audit, "once");
        fg_audit_turn(f->audit);
        pass_flush(f);
        fg_audit_turn(f->audit);
        end(f);
    }
    assert_int_equal(verify(f, "\"once\""), 2);
    assert_int_equal(f->look.n_chains, 2);
    assert_sound(f);
    fg_bucket_close(fg_bucket_faulty_bucket(faulty));
}

static void two_processes_have_a_chain_each(void **state)
{
    struct fixture *f = *state;
    struct fg_audit *other = create(f, NULL);
    struct fg_err err;

    begin(f, f->bucket, false);
    assert_int_equal(fg_audit_open(other, f->bucket, f->spool, &err), FG_OK);
    for (int i = 0; i < 3; i++) {
        note(f->audit, "this");
        note(other, "other");
        pass_flush(f);
        fg_audit_turn(other);
    }
    fg_audit_destroy(other);
    end(f);
    assert_int_equal(verify(f, "\"this\""), 3);
    assert_int_equal(verify(f, "\"other\""), 3);
    assert_int_equal(f->look.n_chains, 2);
    assert_sound(f);
}

/* ---- folders ---- */

static void a_folder_belongs_to_one_process(void **state)
{
    struct fixture *f = *state;
    struct fg_audit *other = create(f, NULL);
    struct fg_err err;

    begin(f, f->bucket, true);
    assert_int_equal(fg_audit_open(other, f->bucket, f->spool, &err), FG_E_UNAVAILABLE);
    fg_audit_destroy(other);
}

static struct fg_bucket *open_directory(const struct fixture *f)
{
    const struct fg_bucket_directory_config config = {
        .path = f->objects, .threads = 1, .queue_max = 8};
    struct fg_bucket *bucket;
    struct fg_err err;

    if (fg_bucket_directory_open(&config, &bucket, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return bucket;
}

/* Records three things in a process that is killed then. put: its put is tried, and fails in that
 * way. */
enum crash { BEFORE_THE_PUT, PUT_REFUSED, ANSWER_LOST, AFTER_THE_PUT, CRASHES };

static void record_and_crash(struct fixture *f, enum crash crash)
{
    struct fg_bucket *bucket = open_directory(f);
    struct fg_bucket_faulty *faulty =
        fg_bucket_faulty_create(bucket, &(struct fg_bucket_faults){.seed = 1});
    struct fg_err err;

    begin(f, fg_bucket_faulty_bucket(faulty), true);
    note(f->audit, "one");
    fg_audit_turn(f->audit);
    note(f->audit, "two");
    if (fg_audit_record(f->audit,
                        &(struct fg_audit_event){.kind = FG_AUDIT_ADMIN, .detail = FG_LIT("three")},
                        &err) != FG_OK)
        _exit(1);
    if (crash == PUT_REFUSED || crash == ANSWER_LOST)
        fg_bucket_faulty_fail(faulty, 1, crash == ANSWER_LOST);
    if (crash != BEFORE_THE_PUT)
        pass_flush(f);
    _exit(0);
}

static void records_of_a_killed_process_are_stored(void **state)
{
    struct fixture *f = *state;

    fg_bucket_close(f->bucket);
    f->bucket = NULL;
    for (enum crash crash = BEFORE_THE_PUT; crash < CRASHES; crash++) {
        int status;
        pid_t child = fork();

        if (child == 0)
            record_and_crash(f, crash);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        fg_clock_manual_advance(&f->clock, 10 * FG_MINUTE_NS);
        f->bucket = open_directory(f);
        begin(f, f->bucket, true);
        note(f->audit, "later");
        end(f);
        print_message("  crash %d\n", (int)crash);
        assert_int_equal(verify(f, "\"one\""), crash + 1);
        assert_int_equal(verify(f, "\"two\""), crash + 1);
        assert_int_equal(verify(f, "\"three\""), crash + 1);
        /* The chains of two processes for each crash, each continuing the one before it. */
        assert_int_equal(verify(f, "\"continues\""), 2 * crash + 1);
        assert_int_equal(f->look.n_chains, 2 * (crash + 1));
        assert_sound(f);
        fg_bucket_close(f->bucket);
        f->bucket = NULL;
        if (f->look.n_chains + 2 > AUDIT_LOOK_CHAINS_MAX)
            break;
    }
}

static void a_torn_line_is_not_stored(void **state)
{
    struct fixture *f = *state;
    char path[256];
    FILE *file;
    int status;
    pid_t child = fork();

    if (child == 0)
        record_and_crash(f, BEFORE_THE_PUT);
    assert_int_equal(waitpid(child, &status, 0), child);
    (void)snprintf(path, sizeof path, "cd %s && ls *.ndjson", f->spool);
    file = popen(path, "r"); /* NOLINT(cert-env33-c): the folder is ours */
    assert_int_equal(snprintf(path, sizeof path, "%s/", f->spool), strlen(f->spool) + 1);
    assert_non_null(fgets(path + strlen(path), 128, file));
    path[strcspn(path, "\n")] = '\0';
    (void)pclose(file);
    file = fopen(path, "a");
    assert_non_null(file);
    (void)fputs("{\"seq\":4,\"prev\":\"00", file);
    (void)fclose(file);
    begin(f, f->bucket, true);
    end(f);
    assert_int_equal(verify(f, "\"three\""), 1);
    assert_int_equal(verify(f, "\"seq\":4"), 0);
    assert_sound(f);
}

static void a_chain_without_its_end_shows_by_the_next_one(void **state)
{
    struct fixture *f = *state;
    char name[FG_AUDIT_NAME_MAX_BYTES];
    struct fg_bucket_request request = {.verb = FG_BUCKET_DELETE, .name = name};

    begin(f, f->bucket, true);
    note(f->audit, "kept");
    fg_audit_turn(f->audit);
    pass_flush(f);
    note(f->audit, "removed");
    end(f);
    (void)verify(f, "kind");
    fg_audit_write_name(f->look.chains[0].head.chain, 1, f->look.chains[0].head.object_ms, name);
    assert_int_equal(fg_bucket_call(f->bucket, &request), FG_OK);
    fg_bucket_clear(&request);
    assert_int_equal(verify(f, "removed"), 0);
    assert_sound(f); /* nobody can know yet */
    begin(f, f->bucket, true);
    note(f->audit, "later");
    end(f);
    (void)verify(f, "kind");
    assert_non_null(strstr(audit_look_faults(&f->look), "are missing"));
}

/* ---- what cannot be recorded ---- */

static void a_record_is_durable_or_refused(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_faulty *faulty =
        fg_bucket_faulty_create(f->bucket, &(struct fg_bucket_faults){.seed = 1});
    struct fg_audit_event event = {.kind = FG_AUDIT_ADMIN, .detail = FG_LIT("change")};
    struct fg_err err;

    begin(f, fg_bucket_faulty_bucket(faulty), false);
    assert_int_equal(fg_audit_record(f->audit, &event, &err), FG_OK);
    assert_int_equal(verify(f, "\"change\""), 1);
    fg_bucket_faulty_set(faulty, &(struct fg_bucket_faults){.refuse_permille = 1000});
    assert_int_equal(fg_audit_record(f->audit, &event, &err), FG_E_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "not done, because the audit cannot record it"));
    fg_bucket_faulty_set(faulty, &(struct fg_bucket_faults){.seed = 1});
    assert_int_equal(fg_audit_record(f->audit, &event, &err), FG_OK);
    assert_int_equal(verify(f, "\"change\""), 3); /* that it was tried, too */
    assert_sound(f);
    end(f);
    fg_bucket_close(fg_bucket_faulty_bucket(faulty));
}

static void a_disk_that_fills_up_breaks_no_chain(void **state)
{
    static const char *const rules[] = {"write ENOSPC", "sync EIO", "create ENOSPC"};
    struct fixture *f = *state;
    struct fg_audit_event event = {.kind = FG_AUDIT_ADMIN, .detail = FG_LIT("change")};
    struct fg_err err;

    faulty_disk_set(f->folder);
    begin(f, f->bucket, true);
    for (size_t i = 0; i < FG_COUNT(rules); i++) {
        faulty_disk_rules(rules[i]);
        if (i == 2)
            pass_flush(f); /* into another file */
        assert_int_equal(fg_audit_record(f->audit, &event, &err), FG_E_UNAVAILABLE);
        faulty_disk_rules("");
        assert_int_equal(fg_audit_record(f->audit, &event, &err), FG_OK);
    }
    assert_true(faulty_disk_hits() >= FG_COUNT(rules));
    end(f);
    assert_int_equal(verify(f, "\"change\""), 2 * FG_COUNT(rules)); /* what was tried, too */
    assert_sound(f);
}

static void a_full_disk_does_not_keep_it_from_starting(void **state)
{
    struct fixture *f = *state;

    faulty_disk_set(f->folder);
    faulty_disk_rules("write,create,mkdir ENOSPC");
    begin(f, f->bucket, true);
    note(f->audit, "in memory");
    end(f);
    faulty_disk_rules("");
    assert_int_equal(verify(f, "in memory"), 1);
    assert_sound(f);
}

static void a_refused_change_says_so(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_event event = {.kind = FG_AUDIT_ADMIN, .method = FG_LIT("POST")};
    struct fg_err err;

    begin(f, f->bucket, false);
    assert_int_equal(fg_audit_begin(f->audit, &event, &err), FG_OK);
    (void)fg_fail(&err, FG_E_DENIED, "not you");
    fg_audit_result(f->audit, &event, FG_E_DENIED, &err);
    end(f);
    assert_int_equal(verify(f, "\"op\":1,\"phase\":\"begin\",\"method\":\"POST\"}"), 1);
    assert_int_equal(verify(f, "\"op\":1,\"phase\":\"result\",\"method\":\"POST\",\"detail\":\"not "
                               "you\",\"status\":403}"),
                     1);
}

static bool holds(struct fixture *f, const char *name)
{
    struct fg_buf text;
    bool found;

    fg_buf_init(&text, TEXT_MAX_BYTES);
    fg_conditions_write(f->conditions, &text);
    found = fg_slice_search(fg_buf_slice(&text), name) != SIZE_MAX;
    fg_buf_done(&text);
    return found;
}

static void lost_records_are_counted_in_the_chain(void **state)
{
    struct fixture *f = *state;
    static char text[1000];
    char want[64];
    unsigned kept;

    memset(text, 'x', sizeof text - 1);
    begin(f, f->bucket, false);
    for (int i = 0; i < 2000; i++)
        note(f->audit, text);
    assert_true(holds(f, "audit_records_lost"));
    fg_audit_turn(f->audit);
    assert_false(holds(f, "audit_records_lost"));
    end(f);
    kept = verify(f, "\"detail\":\"x");
    assert_in_range(kept, 500, 1999);
    (void)snprintf(want, sizeof want, "\"kind\":\"lost\",\"count\":%u}", 2000 - kept);
    assert_int_equal(verify(f, want), 1);
    assert_sound(f);
}

static void memory_is_bounded_while_the_bucket_is_away(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_faulty *faulty =
        fg_bucket_faulty_create(f->bucket, &(struct fg_bucket_faults){.refuse_permille = 1000});
    static char text[1000];

    memset(text, 'x', sizeof text - 1);
    begin(f, fg_bucket_faulty_bucket(faulty), false);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 500; i++)
            note(f->audit, text);
        pass_flush(f);
    }
    assert_true(holds(f, "audit_not_stored"));
    assert_true(holds(f, "audit_records_lost"));
    fg_bucket_faulty_set(faulty, &(struct fg_bucket_faults){.seed = 1});
    pass_flush(f);
    fg_audit_turn(f->audit);
    assert_false(holds(f, "audit_not_stored"));
    end(f);
    assert_int_equal(verify(f, "\"kind\":\"lost\""), 1);
    assert_in_range(f->look.chains[0].records, 10000, 19000);
    assert_sound(f);
    fg_bucket_close(fg_bucket_faulty_bucket(faulty));
}

/* ---- what comes often ---- */

static void equal_refusals_become_two_records(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_event event = {
        .kind = FG_AUDIT_REFUSED, .route = FG_LIT("/ingest"), .status = 403};

    begin(f, f->bucket, false);
    for (int i = 0; i < 5; i++)
        fg_audit_count(f->audit, &event);
    event.status = 401;
    fg_audit_count(f->audit, &event);
    end(f);
    assert_int_equal(verify(f, "\"refused\""), 3);
    assert_int_equal(verify(f, "\"count\":4,\"status\":403"), 1);
    assert_int_equal(verify(f, "\"status\":401"), 1);
}

static void many_different_refusals_are_bounded(void **state)
{
    struct fixture *f = *state;
    char route[32];

    begin(f, f->bucket, false);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(route, sizeof route, "/%d", i);
        fg_audit_count(f->audit,
                       &(struct fg_audit_event){.kind = FG_AUDIT_REFUSED, .route = fg_cstr(route)});
    }
    end(f);
    assert_int_equal(verify(f, "\"route\""), 256);
    assert_int_equal(verify(f, "\"who\":\"(others)\""), 1);
    assert_int_equal(verify(f, "\"count\":744"), 1);
}

/* Whoever is refused must not decide how exactly reads are recorded. */
static void refusals_take_no_room_of_reads(void **state)
{
    struct fixture *f = *state;
    char route[32];

    f->settings.reads = FG_AUDIT_READS_SUMMARY;
    begin(f, f->bucket, false);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(route, sizeof route, "/%d", i);
        fg_audit_count(f->audit,
                       &(struct fg_audit_event){.kind = FG_AUDIT_REFUSED, .route = fg_cstr(route)});
    }
    for (int i = 0; i < 3; i++)
        fg_audit_read_query(f->audit, &(struct fg_audit_event){.kind = FG_AUDIT_READ,
                                                               .who = FG_LIT("anna"),
                                                               .tenant = FG_LIT("shop")});
    end(f);
    assert_int_equal(verify(f, "\"who\":\"anna\""), 1);
    assert_int_equal(verify(f, "\"count\":3"), 1);
}

static void reads_are_recorded_as_the_setting_says(void **state)
{
    static const struct {
        enum fg_audit_reads reads;
        unsigned single, sums;
    } cases[] = {
        {FG_AUDIT_READS_NONE, 2, 0},
        {FG_AUDIT_READS_SUMMARY, 2, 2},
        {FG_AUDIT_READS_ALL, 6, 0},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_audit_event event = {
            .kind = FG_AUDIT_READ, .who = FG_LIT("anna"), .tenant = FG_LIT("shop"), .bytes = 10};

        fg_bucket_close(f->bucket);
        f->bucket = fg_bucket_memory();
        f->settings.reads = cases[i].reads;
        begin(f, f->bucket, false);
        for (int k = 0; k < 3; k++)
            fg_audit_read_query(f->audit, &event);
        event.tenant = FG_LIT("bank");
        fg_audit_read_query(f->audit, &event);
        event.tenant = FG_LIT("bank|shop");
        fg_audit_read_query(f->audit, &event);
        event.kind = FG_AUDIT_EXPORT;
        event.tenant = FG_LIT("shop");
        fg_audit_read_query(f->audit, &event);
        end(f);
        assert_int_equal(verify(f, "\"read\"") + verify(f, "\"export\""), cases[i].single);
        assert_int_equal(verify(f, "\"reads\""), cases[i].sums);
        assert_int_equal(verify(f, "\"count\":3,\"bytes\":30"), cases[i].sums / 2);
    }
}

static void it_works_on_a_thread(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    begin(f, f->bucket, true);
    assert_int_equal(fg_audit_start(f->audit, &err), FG_OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(
            fg_audit_record(f->audit, &(struct fg_audit_event){.kind = FG_AUDIT_ADMIN}, &err),
            FG_OK);
    end(f);
    assert_int_equal(verify(f, "\"admin\""), 20);
    assert_sound(f);
}

int main(void)
{
#define AUDIT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        AUDIT_TEST(one_object_per_flush),
        AUDIT_TEST(a_process_that_records_nothing_stores_nothing),
        AUDIT_TEST(a_lost_answer_stores_nothing_twice),
        AUDIT_TEST(two_processes_have_a_chain_each),
        AUDIT_TEST(a_folder_belongs_to_one_process),
        AUDIT_TEST(records_of_a_killed_process_are_stored),
        AUDIT_TEST(a_torn_line_is_not_stored),
        AUDIT_TEST(a_chain_without_its_end_shows_by_the_next_one),
        AUDIT_TEST(a_record_is_durable_or_refused),
        AUDIT_TEST(a_disk_that_fills_up_breaks_no_chain),
        AUDIT_TEST(a_full_disk_does_not_keep_it_from_starting),
        AUDIT_TEST(a_refused_change_says_so),
        AUDIT_TEST(lost_records_are_counted_in_the_chain),
        AUDIT_TEST(memory_is_bounded_while_the_bucket_is_away),
        AUDIT_TEST(equal_refusals_become_two_records),
        AUDIT_TEST(many_different_refusals_are_bounded),
        AUDIT_TEST(refusals_take_no_room_of_reads),
        AUDIT_TEST(reads_are_recorded_as_the_setting_says),
        AUDIT_TEST(it_works_on_a_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
