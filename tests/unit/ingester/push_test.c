/* Pushes that an ingester refuses since it has reached a limit: each says whose limit that is, so
 * that a server that forwards waits with one tenant or with all. */
#include "common/runtime/foreground.h"
#include "ingester/committer.h"
#include "ingester/head_writer.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { SMALL_BYTES = 64 * 1024, PUSHES_MAX = 10000, ZONE_MAX_BYTES = 16, WRITE_WAITS_MS = 10000 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;

struct fixture {
    struct fg_store *store;
    struct head_bounds usual;
    struct head head;
};

static bool commit_queue_is_full;
static bool agent_comes; /* while the next push is on its worker */
static bool watches_writes;
static unsigned writes, writes_under_way;

bool __real_ing_committer_has_room(struct ing_committer *committer, bool forwarded);
bool __wrap_ing_committer_has_room(struct ing_committer *committer, bool forwarded);

/* The linker gives our own code this one. */
bool __wrap_ing_committer_has_room(struct ing_committer *committer, bool forwarded)
{
    fg_assert(forwarded || fg_foreground_is_under_way());
    if (agent_comes)
        fg_foreground_begin();
    agent_comes = false;
    return !commit_queue_is_full && __real_ing_committer_has_room(committer, forwarded);
}

enum fg_code __real_ing_head_writer_write(struct ing_head_writer *writer,
                                          struct fg_store_batch *batch,
                                          const struct fg_store_batch *undo, struct fg_err *err);
enum fg_code __wrap_ing_head_writer_write(struct ing_head_writer *writer,
                                          struct fg_store_batch *batch,
                                          const struct fg_store_batch *undo, struct fg_err *err);

/* Likewise. Waits for the worker that brought the push: it may still be at its end. */
enum fg_code __wrap_ing_head_writer_write(struct ing_head_writer *writer,
                                          struct fg_store_batch *batch,
                                          const struct fg_store_batch *undo, struct fg_err *err)
{
    const struct timespec pause = {.tv_nsec = FG_MS_NS};

    if (watches_writes) {
        for (unsigned i = 0; i < WRITE_WAITS_MS && fg_foreground_is_under_way(); i++)
            (void)nanosleep(&pause, NULL);
        writes++;
        writes_under_way += fg_foreground_is_under_way();
    }
    return __real_ing_head_writer_write(writer, batch, undo, err);
}

/* Opens the head of a test, which has set head_bounds. */
static struct head *open_head(struct fixture *f)
{
    head_open(&f->head, f->store);
    return &f->head;
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->store = fg_store_memory(HEAD_FAMILIES);
    f->usual = head_bounds;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    head_close(&f->head);
    fg_store_close(f->store);
    assert_false(fg_foreground_is_under_way());
    head_bounds = f->usual;
    commit_queue_is_full = watches_writes = false;
    writes = writes_under_way = 0;
    free(f);
    return 0;
}

static struct head_profile profile_of(const char *tenant, const char *zone, int64_t time_ns)
{
    static const struct head_sample sample[] = {{"shop;buy", {1, 10}, 0}};

    return (struct head_profile){.tenant = tenant,
                                 .service = "shop",
                                 .zone = zone,
                                 .time_ns = time_ns,
                                 .samples = sample,
                                 .n_samples = FG_COUNT(sample)};
}

static struct head_pushed push(struct head *head, const char *tenant, const char *zone,
                               int64_t time_ns)
{
    const struct head_profile profile = profile_of(tenant, zone, time_ns);

    return head_push(head, &profile, true);
}

static void expect_stored(struct head_pushed pushed)
{
    assert_int_equal(pushed.code, FG_OK);
    assert_int_equal(pushed.stored, 1);
    assert_int_equal(pushed.limit_of, FG_LIMIT_OF_UNSAID);
}

static void expect_refused(struct head_pushed pushed, enum fg_limit_of limit_of)
{
    assert_int_equal(pushed.code, FG_E_LIMIT);
    assert_int_equal(pushed.limit_of, limit_of);
}

/* ---- queues, which all tenants share ---- */

static void full_queue_of_workers_is_the_limit_of_the_server(void **state)
{
    struct head *head;

    head_bounds.queue_max = 0;
    head = open_head(*state);
    expect_refused(push(head, "tenant", "z", start_ns), FG_LIMIT_OF_SERVER);
}

static void full_commit_queue_is_the_limit_of_the_server(void **state)
{
    struct head *head = open_head(*state);

    expect_stored(push(head, "tenant", "z", start_ns));
    commit_queue_is_full = true;
    expect_refused(push(head, "tenant", "z", start_ns + 1), FG_LIMIT_OF_SERVER);
    commit_queue_is_full = false;
    expect_stored(push(head, "tenant", "z", start_ns + 1));
}

/* Stacks of a refused push have no numbers: what others of its service have defined stays. */
static void push_that_a_full_queue_refuses_spoils_no_dictionary(void **state)
{
    static const struct head_sample unknown[] = {{"shop;sell", {1, 10}, 0}};
    struct head *head = open_head(*state);
    struct head_profile known = profile_of("tenant", "z", start_ns + 2);
    struct head_profile profile = profile_of("tenant", "z", start_ns + 1);

    profile.samples = unknown;
    expect_stored(push(head, "tenant", "z", start_ns));
    commit_queue_is_full = true;
    expect_refused(head_push(head, &profile, true), FG_LIMIT_OF_SERVER);
    commit_queue_is_full = false;
    expect_stored(head_push(head, &known, false));
    expect_stored(head_push(head, &profile, true));
}

static void too_many_late_profiles_are_the_limit_of_the_server(void **state)
{
    const struct head_query all = {
        .tenant = "tenant", .type = "cpu:nanoseconds", .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct fixture *f = *state;
    struct fg_bucket *bucket = fg_bucket_memory();
    struct head *head = &f->head;
    struct fg_buf text;
    struct fg_err err;

    head_bounds.late_queue_max = 0;
    head_open_evicting(head, f->store, bucket, 0);
    head->owns_bucket = true;
    expect_stored(push(head, "tenant", "z", start_ns));
    if (ing_flush(head->ingester, fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS, &err) != FG_OK)
        fail_msg("%s", err.msg);
    fg_buf_init(&text, SIZE_MAX);
    /* Once the head has nothing of the tenant its window is late. */
    while (head_select(head, &all, &text) != FG_E_PRECONDITION)
        usleep(10000);
    fg_buf_done(&text);
    expect_refused(push(head, "tenant", "z", start_ns + 1), FG_LIMIT_OF_SERVER);
    expect_stored(push(head, "other", "z", start_ns));
}

/* ---- the catalog ---- */

/* Pushes profiles of new series, or of one series in new windows, until one is refused. */
static struct head_pushed fill(struct head *head, const char *tenant, bool series)
{
    struct head_pushed pushed;

    for (int i = 0; i < PUSHES_MAX; i++) {
        char zone[ZONE_MAX_BYTES] = "z";

        if (series)
            (void)snprintf(zone, sizeof zone, "z%d", i);
        pushed = push(head, tenant, zone, start_ns + (series ? 0 : i * FG_HOUR_NS));
        if (pushed.code != FG_OK)
            return pushed;
        expect_stored(pushed);
    }
    fail_msg("there is no limit");
    return pushed;
}

/* Nobody's new series find room, and everybody's known ones go on. */
static void full_catalog_is_the_limit_of_nobody(void **state)
{
    struct head *head;

    head_bounds.catalog_max_bytes = SMALL_BYTES;
    head_bounds.series_max = 0;
    head = open_head(*state);
    expect_stored(push(head, "other", "z", start_ns));
    expect_refused(fill(head, "tenant", true), FG_LIMIT_OF_UNSAID);
    expect_refused(push(head, "other", "new", start_ns), FG_LIMIT_OF_UNSAID);
    expect_stored(push(head, "other", "z", start_ns + 1));
    expect_stored(push(head, "tenant", "z0", start_ns + 1));
}

static void full_share_of_the_catalog_is_the_limit_of_its_tenant(void **state)
{
    struct head *head;

    head_bounds.catalog_max_bytes = SMALL_BYTES;
    head_bounds.series_max = 0;
    head_bounds.tenant_catalog_share = 0.5;
    head = open_head(*state);
    expect_refused(fill(head, "tenant", true), FG_LIMIT_OF_TENANT);
    expect_stored(push(head, "other", "z", start_ns));
    expect_stored(push(head, "tenant", "z0", start_ns + 1));
}

static void full_table_of_windows_is_the_limit_of_nobody(void **state)
{
    struct head *head;

    head_bounds.catalog_max_bytes = SMALL_BYTES;
    head = open_head(*state);
    expect_refused(fill(head, "tenant", false), FG_LIMIT_OF_UNSAID);
    expect_stored(push(head, "tenant", "z", start_ns + 1));
}

static void full_share_of_the_windows_is_the_limit_of_its_tenant(void **state)
{
    struct head *head;

    head_bounds.catalog_max_bytes = SMALL_BYTES;
    head_bounds.tenant_catalog_share = 0.5;
    head = open_head(*state);
    expect_refused(fill(head, "tenant", false), FG_LIMIT_OF_TENANT);
    expect_stored(push(head, "other", "z", start_ns));
    expect_stored(push(head, "tenant", "z", start_ns + 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- foreground work ---- */

/* Most of its time it waits for the disk, and others may work then. */
static void push_is_not_under_way_while_the_disk_writes(void **state)
{
    struct head *head = open_head(*state);

    watches_writes = true;
    expect_stored(push(head, "tenant", "z", start_ns));
    assert_int_equal(writes, 1);
    assert_int_equal(writes_under_way, 0);
}

static void forwarded_push_lets_agents_pass_between_its_steps(void **state)
{
    static const struct fg_id store = {1, 2};
    uint8_t via[FG_ID_BYTES];
    struct head_profile profile = profile_of("tenant", "z", start_ns + 1);
    struct head *head = open_head(*state);
    int64_t before;

    fg_id_put(via, store);
    profile.via = fg_bytes(via, sizeof via);
    expect_stored(push(head, "tenant", "z", start_ns));
    before = fg_foreground_waited_ns();
    agent_comes = true;
    expect_stored(head_push(head, &profile, false));
    fg_foreground_end();
    assert_true(fg_foreground_waited_ns() > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(full_queue_of_workers_is_the_limit_of_the_server),
        TEST(full_commit_queue_is_the_limit_of_the_server),
        TEST(push_that_a_full_queue_refuses_spoils_no_dictionary),
        TEST(too_many_late_profiles_are_the_limit_of_the_server),
        TEST(full_catalog_is_the_limit_of_nobody),
        TEST(full_share_of_the_catalog_is_the_limit_of_its_tenant),
        TEST(full_table_of_windows_is_the_limit_of_nobody),
        TEST(full_share_of_the_windows_is_the_limit_of_its_tenant),
        TEST(push_is_not_under_way_while_the_disk_writes),
        TEST(forwarded_push_lets_agents_pass_between_its_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
