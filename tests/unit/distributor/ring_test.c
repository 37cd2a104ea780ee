/* Tests uploads through a whole distributor behind a real HTTP server, in a ring whose ingesters
 * answer as the test has scripted. */
#include "common/cluster/ring/shard.h"
#include "distributor/distributor.h"
#include "distributor/upload.h"
#include "tests/lib/push_ring.h"
#include "tests/lib/served.h"
#include "tests/lib/tenants.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ANN, BOB, CAT, DAN };

#define INGEST "POST /ingest?name=app.cpu HTTP/1.1"
#define STACKS "main;work;hash 30\nmain;work;sort 10\n"

/* A script without entries: every push succeeds. */
static const struct push_answer well[] = {{.code = FG_OK}};

struct fixture {
    struct push_ring ring;
    struct fg_ring_watch
        *late; /* not started; NULL: the distributor uses the ring of the fixture */
    struct served served;
    struct dist_settings settings;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct distributor *distributor;
};

/* --- fixture --- */

/* Only a very slow machine needs this long. */
static void load_settings(struct dist_settings *settings)
{
    struct fg_conf_section section = {"distributor", dist_fields, dist_n_fields, settings};
    struct fg_err err;

    fg_assert(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL,
                           NULL, 0, &err) == FG_OK);
    settings->push_timeout_ns = settings->push_retry_ns = FG_MINUTE_NS;
}

static void open_fixture(struct fixture *f, unsigned dead,
                         void (*change)(struct fg_limit_settings *limits), bool late)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = 2, .queue_max = 16}};
    struct fg_err err;

    push_ring_open(&f->ring, dead);
    if (late)
        fg_assert(fg_ring_watch_create(&(struct fg_ring_watch_config){.bucket = f->ring.bucket,
                                                                      .clock = fg_clock_real(),
                                                                      .registry = f->ring.registry,
                                                                      .poll_ns = FG_HOUR_NS},
                                       &f->late, &err) == FG_OK);
    for (unsigned i = ANN; i <= DAN; i++)
        push_ring_script(&f->ring, i, well, 1);
    load_settings(&f->settings);
    served_open(&f->served, lanes);
    f->tenants = tenants_make(&f->limits, change, false, f->served.registry);
    f->distributor = dist_create(&(struct dist_config){.settings = &f->settings,
                                                       .watch = late ? f->late : f->ring.watch,
                                                       .peers = f->ring.peers,
                                                       .work = f->served.work,
                                                       .tenants = f->tenants,
                                                       .registry = f->served.registry,
                                                       .clock = fg_clock_real()});
    dist_routes(f->distributor, f->served.server);
    served_start(&f->served);
}

static int open_with(void **state, unsigned dead, void (*change)(struct fg_limit_settings *limits))
{
    struct fixture *f = fg_new(struct fixture);

    open_fixture(f, dead, change, false);
    *state = f;
    return 0;
}

static int open_late(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    open_fixture(f, 0, NULL, true);
    *state = f;
    return 0;
}

static int open_all(void **state)
{
    return open_with(state, 0, NULL);
}

static int open_without_cat(void **state)
{
    return open_with(state, 1 << CAT, NULL);
}

static int open_with_ann_alone(void **state)
{
    return open_with(state, 1 << BOB | 1 << CAT, NULL);
}

static int close_all(void **state)
{
    struct fixture *f = *state;

    served_stop(&f->served);
    dist_stop(f->distributor);
    dist_destroy(f->distributor);
    fg_ring_watch_destroy(f->late);
    push_ring_close(&f->ring);
    tenants_free(f->tenants, &f->limits);
    served_close(&f->served);
    free(f);
    return 0;
}

static void expect(struct fixture *f, unsigned status, const char *text)
{
    unsigned got = served_ask(&f->served, INGEST, STACKS);

    if (got != status || strstr(http_ask_body(&f->served.answer), text) == NULL)
        fail_msg("%u: %s\nnot %u: %s", got, http_ask_body(&f->served.answer), status, text);
}

/* Waits until stragglers are answered. */
static void wait_idle(struct fixture *f)
{
    struct dist_owner_set set;
    struct fg_err err;

    fg_assert(dist_owners_of(f->distributor->owners, 0, &set, &err) == FG_OK);
    for (unsigned i = 0; i < set.n_with_peer; i++)
        while (!dist_peer_queue_is_idle(set.with_peer[i]->queue))
            sched_yield();
    dist_owner_set_done(&set);
}

static uint16_t shard_of_app(void)
{
    return fg_shard_first(FG_LIT("anonymous"), FG_LIT("app"), 0);
}

/* --- tests --- */

static void an_upload_goes_to_all_its_owners(void **state)
{
    struct fixture *f = *state;

    push_ring_script(&f->ring, ANN, NULL, 0);
    expect(f, 200, ""); /* without an answer of ann */
    for (unsigned i = ANN; i <= CAT; i++) {
        struct push_asked *asked = &f->ring.ingesters[i].asked[0];

        if (i == ANN)
            asked = push_ring_take(&f->ring, ANN);
        else
            while (push_ring_count(&f->ring, i) == 0)
                sched_yield();
        assert_int_equal(asked->revision, 3);
        assert_int_equal(asked->shards[0], shard_of_app());
        if (i == ANN)
            push_ring_answer(asked, &well[0]);
    }
}

static void a_dead_owner_costs_nothing(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 8; i++)
        expect(f, 200, "");
}

static void too_few_ingesters_are_a_503(void **state)
{
    struct fixture *f = *state;

    f->settings.push_retry_ns = 0;
    expect(f, 503, "2 of the 3 ingesters that own this series must acknowledge, 1 did: ");
    assert_true(http_ask_head_has(&f->served.answer, "Retry-After: "));
}

/* Two owners are away for three rounds. */
static void replicas_that_come_back_in_time_count(void **state)
{
    static const struct push_answer away[] = {
        {.code = FG_E_UNAVAILABLE}, {.code = FG_E_UNAVAILABLE}, {.code = FG_E_UNAVAILABLE}};
    struct fixture *f = *state;

    push_ring_script(&f->ring, BOB, away, FG_COUNT(away));
    push_ring_script(&f->ring, CAT, away, FG_COUNT(away));
    expect(f, 200, "");
    wait_idle(f);
    assert_int_equal(push_ring_count(&f->ring, ANN), 1);
    assert_int_equal(push_ring_count(&f->ring, BOB), 4);
}

static void definitions_are_sent_to_ingesters_that_lack_them(void **state)
{
    static const struct push_answer lacks[] = {{.lacks = true}};
    static const struct push_answer away[] = {{.code = FG_E_UNAVAILABLE}};
    struct fixture *f = *state;

    expect(f, 200, "");
    wait_idle(f);
    push_ring_script(&f->ring, BOB, lacks, 1);
    push_ring_script(&f->ring, CAT, away, 1);
    expect(f, 200, "");
    wait_idle(f);
    assert_int_equal(push_ring_count(&f->ring, ANN), 2);
    assert_int_equal(push_ring_count(&f->ring, BOB), 3);
    /* With definitions, then without, then with. */
    assert_true(f->ring.ingesters[BOB].asked[1].bytes < f->ring.ingesters[BOB].asked[0].bytes);
    assert_int_equal(f->ring.ingesters[BOB].asked[2].bytes, f->ring.ingesters[BOB].asked[0].bytes);
}

/* The ring has a fourth member that the distributor does not know: an answer tells it, and it reads
 * the ring. */
static void a_stale_ring_is_reloaded(void **state)
{
    static const struct push_answer stale[] = {{.code = FG_E_PRECONDITION, .newest = 4}};
    struct fixture *f = *state;
    unsigned total = 0;

    push_ring_join(&f->ring, DAN, 4);
    for (unsigned i = ANN; i <= CAT; i++)
        push_ring_script(&f->ring, i, stale, 1);
    expect(f, 200, "");
    assert_int_equal(fg_ring_watch_revision(f->ring.watch), 4);
    for (unsigned i = ANN; i <= DAN; i++)
        for (unsigned k = 0; k < push_ring_count(&f->ring, i); k++)
            total += f->ring.ingesters[i].asked[k].revision == 4;
    assert_true(total >= 2);
}

static void a_push_waits_for_ingesters_to_load_the_ring(void **state)
{
    static const struct push_answer early[] = {{.code = FG_E_ABORTED}, {.code = FG_E_ABORTED}};
    struct fixture *f = *state;

    push_ring_script(&f->ring, ANN, early, FG_COUNT(early));
    push_ring_script(&f->ring, BOB, early, FG_COUNT(early));
    expect(f, 200, "");
    assert_int_equal(push_ring_count(&f->ring, ANN), 3);
}

static void full_ingesters_answer_429(void **state)
{
    static const struct push_answer full[] = {{.code = FG_E_LIMIT}};
    struct fixture *f = *state;

    push_ring_script(&f->ring, ANN, full, 1);
    push_ring_script(&f->ring, BOB, full, 1);
    expect(f, 429, "as the test says");
    assert_true(http_ask_head_has(&f->served.answer, "Retry-After: "));
    expect(f, 200, "");
}

static void *push_early(void *arg)
{
    expect(arg, 200, "");
    return NULL;
}

static bool has_come(struct fixture *f)
{
    struct fg_buf text;
    bool come;

    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(f->served.registry, &text);
    come = fg_slice_search(fg_buf_slice(&text), "\nflamegrid_distributor_uploads_total 1\n") !=
           SIZE_MAX;
    fg_buf_done(&text);
    return come;
}

/* The program has just started, and the client did not wait for /ready. */
static void an_upload_waits_for_the_first_ring(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;
    pthread_t client;

    assert_int_equal(pthread_create(&client, NULL, push_early, f), 0);
    while (!has_come(f))
        sched_yield();
    assert_int_equal(fg_ring_watch_start(f->late, &err), FG_OK);
    assert_int_equal(pthread_join(client, NULL), 0);
    wait_idle(f);
}

/* --- spread --- */

enum { PODS = 40, SPREAD = 3 };

static void spread_out(struct fg_limit_settings *limits)
{
    limits->shard_factor = SPREAD;
    limits->reject_newer_than_ns = 0;
}

static int open_spread(void **state)
{
    return open_with(state, 0, spread_out);
}

/* Builds an upload: one batch of a service with a profile of each pod. */
struct many {
    struct dist_upload upload;
    int64_t time_ns;
    sem_t answered;
};

static struct fg_labels labels_of_pod(unsigned pod, struct fg_arena *arena)
{
    struct fg_label *labels = fg_arena_new(arena, struct fg_label, 3);

    labels[0] = (struct fg_label){FG_LIT("__name__"), FG_LIT("process_cpu")};
    labels[1] = (struct fg_label){FG_LIT("pod"), fg_cstr(fg_arena_printf(arena, "pod-%u", pod))};
    labels[2] = (struct fg_label){FG_LIT("service_name"), FG_LIT("app")};
    return (struct fg_labels){labels, 3};
}

static uint16_t shard_of_pod(unsigned pod)
{
    fg_auto(fg_arena) *arena = fg_arena_create(SIZE_MAX);
    struct fg_labels labels = labels_of_pod(pod, arena);

    return fg_shard_of(FG_LIT("anonymous"), FG_LIT("app"), fg_labels_hash(&labels), SPREAD);
}

static enum fg_code decode_many(struct dist_upload *upload, struct dist_workspace *space,
                                struct fg_err *err)
{
    struct fg_value_type type = {FG_LIT("cpu"), FG_LIT("nanoseconds")};
    struct fg_profile *profiles = fg_arena_new(space->arena, struct fg_profile, PODS);
    struct fg_batch batch = {
        .types = &type, .n_types = 1, .profiles = profiles, .n_profiles = PODS};

    for (unsigned i = 0; i < PODS; i++) {
        profiles[i].labels = labels_of_pod(i, space->arena);
        profiles[i].time_ns = fg_container(upload, struct many, upload)->time_ns;
    }
    return dist_upload_add(upload, &batch, true, err);
}

static void respond_many(struct dist_upload *upload)
{
    (void)sem_post(&fg_container(upload, struct many, upload)->answered);
}

static void start_many(void *arg)
{
    struct many *many = arg;

    dist_upload_start(&many->upload);
}

/* Sends the upload and returns a bit for each shard, from the widest first one on, for which ann
 * got a batch. */
static uint64_t send_many(struct fixture *f, uint16_t first, int64_t time_ns)
{
    static const struct dist_upload_interface interface = {.decode = decode_many,
                                                           .respond = respond_many};
    static const struct push_answer full[1 << SPREAD] = {
        {.code = FG_E_LIMIT}, {.code = FG_E_LIMIT}, {.code = FG_E_LIMIT}, {.code = FG_E_LIMIT},
        {.code = FG_E_LIMIT}, {.code = FG_E_LIMIT}, {.code = FG_E_LIMIT}, {.code = FG_E_LIMIT}};
    struct many many = {.upload = {.interface = &interface,
                                   .distributor = f->distributor,
                                   .home = f->served.loop,
                                   .asked_tenant = FG_LIT("anonymous")},
                        .time_ns = time_ns};
    unsigned before = push_ring_count(&f->ring, ANN);
    uint64_t seen = 0;

    assert_int_equal(sem_init(&many.answered, 0, 0), 0);
    push_ring_script(&f->ring, CAT, full,
                     FG_COUNT(full)); /* so that the answers of both others count */
    fg_loop_call(f->served.loop, start_many, &many);
    while (sem_wait(&many.answered) != 0)
        continue;
    assert_int_equal(many.upload.err.code, FG_OK);
    (void)sem_destroy(&many.answered);
    for (unsigned k = before; k < push_ring_count(&f->ring, ANN); k++) {
        const struct push_asked *asked = &f->ring.ingesters[ANN].asked[k];

        for (size_t i = 0; i < asked->n_items; i++) {
            uint64_t bit = UINT64_C(1) << (asked->shards[i] - first);

            assert_true(asked->shards[i] >= first && asked->shards[i] < first + (1u << SPREAD));
            assert_true((seen & bit) == 0); /* one batch for each */
            seen |= bit;
        }
    }
    return seen;
}

/* Profiles are spread as the ring says for their time. A distributor asks the ring for the spread
 * that the limit says, and that spread begins later: so a profile that is sent again goes to the
 * same shard. */
static void a_service_is_divided_by_the_spread(void **state)
{
    struct fixture *f = *state;
    uint16_t first = fg_shard_first(FG_LIT("anonymous"), FG_LIT("app"), SPREAD);
    uint64_t one = UINT64_C(1) << (fg_shard_first(FG_LIT("anonymous"), FG_LIT("app"), 0) - first);
    int64_t now_ns = fg_wall_ns(fg_clock_real()), later_ns = now_ns + FG_HOUR_NS;
    uint64_t wanted = 0;
    unsigned spread = 0;

    assert_true(send_many(f, first, now_ns) == one);
    while (spread < SPREAD) {
        fg_auto(fg_ring_view) *view = NULL;
        int64_t deadline = fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS;
        struct fg_err err;

        assert_int_equal(fg_ring_watch_fresh(f->ring.watch, deadline, &view, &err), FG_OK);
        spread = fg_ring_shard_factor(&view->ring, FG_LIT("anonymous"));
    }
    for (unsigned i = 0; i < PODS; i++)
        wanted |= UINT64_C(1) << (shard_of_pod(i) - first);
    assert_true((wanted & (wanted - 1)) != 0);
    assert_true(send_many(f, first, now_ns) == one);
    assert_true(send_many(f, first, later_ns) == wanted);
}

/* clang-format off */
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, close_all)
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_upload_goes_to_all_its_owners, open_all),
        TEST(an_upload_waits_for_the_first_ring, open_late),
        TEST(a_dead_owner_costs_nothing, open_without_cat),
        TEST(too_few_ingesters_are_a_503, open_with_ann_alone),
        TEST(replicas_that_come_back_in_time_count, open_all),
        TEST(definitions_are_sent_to_ingesters_that_lack_them, open_all),
        TEST(a_stale_ring_is_reloaded, open_all),
        TEST(a_push_waits_for_ingesters_to_load_the_ring, open_without_cat),
        TEST(full_ingesters_answer_429, open_all),
        TEST(a_service_is_divided_by_the_spread, open_spread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
