/* The thread that follows the ring, on a bucket in memory: nothing here depends on how long it
 * takes. */
#include "common/cluster/ring/object.h"
#include "common/cluster/ring/watch.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/ring_make.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

struct fixture {
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty;
    struct fg_bucket *bucket;
    struct fg_registry *registry;
    struct fg_bucket_wave *wave;
    struct fg_ring_object object;
};

/* An ingester whose head commits at once, if it is let. */
struct ingester {
    struct fg_ring_watch *watch;
    _Atomic bool holds;
    _Atomic uint64_t asked;
};

static int64_t soon(void)
{
    return fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS;
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static int set_up(void **state)
{
    static const struct fg_bucket_faults none = {.seed = 1};
    struct fixture *f = fg_new(struct fixture);

    f->memory = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->memory, &none);
    f->bucket = fg_bucket_faulty_bucket(f->faulty);
    f->registry = fg_registry_create();
    f->wave = fg_bucket_wave_create();
    f->object = (struct fg_ring_object){
        .bucket = f->bucket, .wave = f->wave, .clock = fg_clock_real(), .timeout_ns = FG_MINUTE_NS};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_bucket_wave_destroy(f->wave);
    fg_bucket_close(f->bucket);
    fg_bucket_close(f->memory);
    fg_registry_destroy(f->registry);
    free(f);
    return 0;
}

static void on_drain(void *arg, uint64_t revision)
{
    struct ingester *ingester = arg;

    atomic_store(&ingester->asked, revision);
    assert_true(fg_ring_watch_revision(ingester->watch) >= revision);
    if (!atomic_load(&ingester->holds))
        fg_ring_watch_drained(ingester->watch, revision, 7);
}

static struct fg_ring_watch *start(struct fixture *f, const struct fg_ring_watch_member *member)
{
    /* Nothing comes by itself: who wants to know asks. */
    const struct fg_ring_watch_config config = {.bucket = f->bucket,
                                                .clock = fg_clock_real(),
                                                .registry = f->registry,
                                                .poll_ns = 24 * FG_HOUR_NS,
                                                .member = member};
    struct fg_ring_watch *watch;
    struct fg_err err;

    must(fg_ring_watch_create(&config, &watch, &err), &err);
    return watch;
}

static void start_ingester(struct fixture *f, struct ingester *ingester, const char *name,
                           uint64_t store)
{
    const struct fg_ring_watch_member member = {
        .name = name,
        .zone = "z",
        .address = "tcp://h:1",
        .http = "",
        .store = {store, 1},
        .replicas = 1,
        .on_drain = on_drain,
        .arg = ingester,
    };
    struct fg_err err;

    ingester->watch = start(f, &member);
    assert_int_equal(fg_ring_watch_member_state(ingester->watch), FG_RING_MEMBER_JOINING);
    assert_int_equal(fg_ring_watch_admits(ingester->watch, 1), FG_RING_ADMITS_NOTHING);
    must(fg_ring_watch_start(ingester->watch, &err), &err);
}

static void wait_member(struct ingester *ingester, enum fg_ring_member_state state)
{
    struct fg_err err;

    must(fg_ring_watch_wait_member(ingester->watch, state, soon(), &err), &err);
}

/* The ring as it is now, in the copy of that watch too. */
static void see(struct fg_ring_watch *watch, uint64_t revision, uint32_t n_members)
{
    struct fg_ring_view *view;
    struct fg_err err;

    must(fg_ring_watch_fresh(watch, soon(), &view, &err), &err);
    assert_int_equal(fg_ring_newest(&view->ring), revision);
    assert_int_equal(view->ring.n_members, n_members);
    assert_int_equal(fg_ring_watch_revision(watch), revision);
    fg_ring_view_unref(view);
}

static void a_copy_follows_the_ring(void **state)
{
    struct fixture *f = *state;
    struct fg_ring_watch *watch = start(f, NULL);
    struct fg_ring_change join = ring_make_join("ann", "", 1);
    struct fg_ring_view *view = NULL, *again;
    struct fg_err err;

    assert_null(fg_ring_watch_get(watch));
    must(fg_ring_watch_start(watch, &err), &err);
    see(watch, 0, 0);
    must(fg_ring_object_change(&f->object, &join, &view, &err), &err);
    assert_int_equal(fg_ring_newest(&view->ring), 1);
    fg_ring_view_unref(view);
    must(fg_ring_watch_until(watch, 1, soon(), &view, &err), &err);
    assert_int_equal(view->ring.n_members, 1);
    see(watch, 1, 1);
    again = fg_ring_watch_get(watch);
    assert_ptr_equal(again, view); /* it was not changed, so it is the same */
    fg_ring_view_unref(again);
    fg_ring_view_unref(view);
    assert_int_equal(fg_ring_watch_until(watch, 2, fg_mono_ns(fg_clock_real()), &view, &err),
                     FG_E_DEADLINE);
    assert_int_equal(fg_ring_watch_member_state(watch), FG_RING_MEMBER_NONE);
    fg_ring_watch_destroy(watch);
}

static void members_join_drain_and_leave(void **state)
{
    struct fixture *f = *state;
    struct ingester ann = {0}, bob = {0};
    struct fg_ring_view *view;
    struct fg_buf text;
    struct fg_err err;

    start_ingester(f, &ann, "ann", 1);
    wait_member(&ann, FG_RING_MEMBER_ACTIVE);
    atomic_store(&ann.holds, true);
    start_ingester(f, &bob, "bob", 2);
    wait_member(&bob, FG_RING_MEMBER_ACTIVE);
    assert_int_equal(fg_ring_watch_admits(ann.watch, 1), FG_RING_ADMITS);
    assert_int_equal(fg_ring_watch_admits(ann.watch, 2), FG_RING_ADMITS_NOT_YET);
    must(fg_ring_watch_until(ann.watch, 2, soon(), &view, &err), &err);
    fg_ring_view_unref(view);
    assert_int_equal(fg_ring_watch_admits(ann.watch, 1), FG_RING_ADMITS_NOT_OLDER);
    assert_int_equal(fg_ring_watch_admits(ann.watch, 2), FG_RING_ADMITS);

    must(fg_ring_watch_fresh(ann.watch, soon(), &view, &err), &err);
    assert_int_equal(view->ring.n_revisions, 2); /* nobody has said that it has drained */
    fg_ring_view_unref(view);
    assert_int_equal(atomic_load(&ann.asked), 2);
    fg_ring_watch_drained(ann.watch, 2, 8);
    do /* it is written down some time */
        must(fg_ring_watch_fresh(bob.watch, soon(), &view, &err), &err);
    while (view->ring.n_revisions > 1 && (fg_ring_view_unref(view), true));
    fg_ring_view_unref(view);

    fg_buf_init(&text, 1 << 20);
    fg_registry_write(f->registry, &text);
    assert_true(fg_slice_search(fg_buf_slice(&text), "flamegrid_ring_member_state") != SIZE_MAX);
    fg_buf_done(&text);

    /* bob leaves: ann has to drain for the ring's sake, bob for his own. */
    fg_ring_watch_leave(bob.watch);
    wait_member(&bob, FG_RING_MEMBER_LEFT);
    assert_int_equal(fg_ring_watch_wait_member(bob.watch, FG_RING_MEMBER_ACTIVE, soon(), &err),
                     FG_E_PRECONDITION);
    assert_int_equal(fg_ring_watch_admits(bob.watch, 3), FG_RING_ADMITS_NOTHING);
    see(ann.watch, 3, 2);
    fg_ring_watch_destroy(bob.watch);
    fg_ring_watch_destroy(ann.watch);
}

static void members_stop_one_after_the_other(void **state)
{
    struct fixture *f = *state;
    struct ingester ann = {0}, bob = {0};
    struct fg_ring_view *view;
    struct fg_err err;

    start_ingester(f, &ann, "ann", 1);
    wait_member(&ann, FG_RING_MEMBER_ACTIVE);
    start_ingester(f, &bob, "bob", 2);
    wait_member(&bob, FG_RING_MEMBER_ACTIVE);
    fg_ring_watch_pause(ann.watch, false);
    must(fg_ring_watch_wait_paused(ann.watch, soon(), &err), &err);
    assert_int_equal(fg_ring_watch_admits(ann.watch, 2), FG_RING_ADMITS); /* until it stops */
    fg_ring_watch_pause(bob.watch, false);
    assert_int_equal(
        fg_ring_watch_wait_paused(bob.watch, fg_mono_ns(fg_clock_real()) + 50 * FG_MS_NS, &err),
        FG_E_DEADLINE);
    fg_ring_watch_pause(bob.watch, true);
    must(fg_ring_watch_wait_paused(bob.watch, soon(), &err), &err);
    must(fg_ring_watch_fresh(bob.watch, soon(), &view, &err), &err);
    assert_int_equal(view->ring.overrides, 1);
    fg_ring_view_unref(view);

    /* One that has left never is in maintenance; nobody is to wait for that. */
    fg_ring_watch_leave(bob.watch);
    wait_member(&bob, FG_RING_MEMBER_LEFT);
    assert_int_equal(fg_ring_watch_wait_paused(bob.watch, soon(), &err), FG_E_PRECONDITION);
    fg_ring_watch_destroy(bob.watch);
    fg_ring_watch_destroy(ann.watch);
}

/* Another store under the same name. */
static void a_second_store_replaces_the_first(void **state)
{
    struct fixture *f = *state;
    struct ingester ann = {0}, other = {0};

    start_ingester(f, &ann, "ann", 1);
    wait_member(&ann, FG_RING_MEMBER_ACTIVE);
    start_ingester(f, &other, "ann", 2);
    wait_member(&other, FG_RING_MEMBER_ACTIVE);
    fg_ring_watch_look(ann.watch, 0);
    wait_member(&ann, FG_RING_MEMBER_REPLACED);
    assert_int_equal(fg_ring_watch_admits(ann.watch, 2), FG_RING_ADMITS_NOTHING);
    fg_ring_watch_destroy(ann.watch);
    fg_ring_watch_destroy(other.watch);
}

/* While the bucket is away the copy serves, and who needs a fresh one is told. */
static void an_outage_keeps_the_copy(void **state)
{
    struct fixture *f = *state;
    static const struct fg_bucket_faults all = {.seed = 1, .refuse_permille = 1000};
    static const struct fg_bucket_faults none = {.seed = 1};
    struct fg_ring_watch *watch = start(f, NULL);
    struct fg_ring_change join = ring_make_join("ann", "", 1);
    struct fg_ring_view *view = NULL;
    struct fg_err err;
    int64_t age_ns;

    must(fg_ring_object_change(&f->object, &join, &view, &err), &err);
    fg_ring_view_unref(view);
    must(fg_ring_watch_start(watch, &err), &err);
    see(watch, 1, 1);
    fg_bucket_faulty_set(f->faulty, &all);
    assert_int_equal(fg_ring_watch_fresh(watch, soon(), &view, &err), FG_E_UNAVAILABLE);
    assert_int_equal(fg_ring_watch_revision(watch), 1);
    view = fg_ring_watch_get(watch);
    assert_int_equal(view->ring.n_members, 1);
    fg_ring_view_unref(view);
    /* Who takes an older one has it at once, with its age. */
    must(fg_ring_watch_latest(watch, INT64_MAX, &view, &age_ns, &err), &err);
    assert_int_equal(err.code, FG_E_UNAVAILABLE);
    assert_true(age_ns > 0);
    assert_int_equal(view->ring.n_members, 1);
    fg_ring_view_unref(view);
    fg_bucket_faulty_set(f->faulty, &none);
    see(watch, 1, 1);
    must(fg_ring_watch_latest(watch, soon(), &view, &age_ns, &err), &err);
    assert_int_equal(age_ns, 0);
    fg_ring_view_unref(view);
    fg_ring_watch_destroy(watch);
}

/* A bucket that does not answer: who takes an older ring waits no longer than he says. */
static void a_hanging_bucket_ends_with_the_deadline(void **state)
{
    struct fixture *f = *state;
    static const struct fg_bucket_faults all = {.seed = 1, .lose_answer_permille = 1000};
    static const struct fg_bucket_faults none = {.seed = 1};
    struct fg_ring_watch *watch = start(f, NULL);
    struct fg_ring_view *view = NULL;
    struct fg_err err;
    int64_t age_ns;

    must(fg_ring_watch_start(watch, &err), &err);
    assert_int_equal(fg_ring_watch_until(watch, 0, soon(), &view, &err), FG_OK);
    fg_ring_view_unref(view);
    fg_bucket_faulty_set(f->faulty, &all);
    must(fg_ring_watch_latest(watch, fg_mono_ns(fg_clock_real()) + 20 * FG_MS_NS, &view, &age_ns,
                              &err),
         &err);
    assert_true(age_ns > 0);
    fg_ring_view_unref(view);
    fg_bucket_faulty_set(f->faulty, &none);
    fg_ring_watch_destroy(watch);
}

/* The ring of another bucket, or of none. */
static void an_older_ring_is_put_back(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket_request remove = {.verb = FG_BUCKET_DELETE, .name = FG_RING_NAME};
    struct fg_ring_watch *watch = start(f, NULL);
    struct fg_ring_change join = ring_make_join("ann", "", 1);
    struct fg_ring_view *view = NULL;
    struct fg_err err;

    must(fg_ring_object_change(&f->object, &join, &view, &err), &err);
    fg_ring_view_unref(view);
    must(fg_ring_watch_start(watch, &err), &err);
    see(watch, 1, 1);
    must(fg_bucket_call(f->bucket, &remove), &remove.err);
    assert_int_equal(fg_ring_watch_fresh(watch, soon(), &view, &err), FG_E_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "older than one read before: swaps 1, then 0"));
    assert_int_equal(fg_ring_watch_revision(watch), 1);
    fg_ring_watch_destroy(watch);
}

static void delete_ring(struct fixture *f)
{
    struct fg_bucket_request remove = {.verb = FG_BUCKET_DELETE, .name = FG_RING_NAME};

    must(fg_bucket_call(f->bucket, &remove), &remove.err);
}

/* The ring as the bucket has it; its bytes in *out. */
static void get_ring(struct fixture *f, struct fg_buf *out)
{
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET, .name = FG_RING_NAME, .content_max_bytes = FG_RING_MAX_BYTES};

    fg_buf_clear(out);
    if (fg_bucket_call(f->bucket, &get) == FG_OK)
        fg_buf_put(out, fg_buf_slice(&get.body));
    fg_bucket_clear(&get);
}

static void put_ring(struct fixture *f, struct fg_slice bytes)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = FG_RING_NAME, .content = bytes};

    must(fg_bucket_call(f->bucket, &put), &put.err);
    fg_bucket_clear(&put);
}

/* A ring without members that an operator has made: more swaps, and no revision yet. */
static void a_rebuilt_ring_is_taken(void **state)
{
    struct fixture *f = *state;
    struct fg_ring_watch *watch = start(f, NULL);
    struct fg_ring_change join = ring_make_join("ann", "", 1);
    struct fg_ring ring = fg_ring_none();
    struct fg_ring_view *view = NULL;
    struct fg_buf bytes;
    struct fg_err err;

    must(fg_ring_object_change(&f->object, &join, &view, &err), &err);
    fg_ring_view_unref(view);
    must(fg_ring_watch_start(watch, &err), &err);
    see(watch, 1, 1);
    ring.swaps = 1000;
    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    must(fg_ring_encode(&ring, &bytes, &err), &err);
    put_ring(f, fg_buf_slice(&bytes));
    see(watch, 0, 0);
    must(fg_ring_object_change(&f->object, &join, &view, &err), &err);
    fg_ring_view_unref(view);
    see(watch, 1, 1);
    fg_buf_done(&bytes);
    fg_ring_watch_destroy(watch);
}

static void flip_ring(struct fixture *f)
{
    struct fg_buf bytes;

    fg_buf_init(&bytes, SIZE_MAX);
    get_ring(f, &bytes);
    bytes.ptr[bytes.len / 2] ^= 0x10;
    put_ring(f, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

/* Asks both members until both have a ring of so many swaps again: whoever is asked reads it, and
 * puts back the copy that is newer. Until then answers are errors of this code, or the copy of a
 * member that had not read the last change. */
static void see_again(struct ingester *const members[2], uint64_t swaps, enum fg_code code)
{
    unsigned n_back = 0;

    for (unsigned i = 0; n_back < 2; i++) {
        struct fg_ring_view *view;
        struct fg_err err;

        if (fg_ring_watch_fresh(members[i % 2]->watch, soon(), &view, &err) != FG_OK) {
            /* FG_E_UNAVAILABLE: an older ring, which the other member has put back. */
            assert_true(err.code == code || err.code == FG_E_UNAVAILABLE);
            n_back = 0;
            continue;
        }
        assert_int_equal(view->ring.n_members, 2);
        n_back = view->ring.swaps >= swaps ? n_back + 1 : 0;
        fg_ring_view_unref(view);
    }
}

/* Members that run have the ring: they put it back if it is lost, damaged or older. */
static void members_put_a_lost_ring_back(void **state)
{
    enum { OLDER, LOST, FLIPPED, FAULTS };

    struct fixture *f = *state;
    struct ingester ann = {0}, bob = {0}, *const members[] = {&bob, &ann};
    struct fg_ring_view *view;
    struct fg_buf older;
    struct fg_err err;
    uint64_t swaps;

    fg_buf_init(&older, SIZE_MAX);
    start_ingester(f, &ann, "ann", 1);
    wait_member(&ann, FG_RING_MEMBER_ACTIVE);
    get_ring(f, &older);
    start_ingester(f, &bob, "bob", 2);
    wait_member(&bob, FG_RING_MEMBER_ACTIVE);
    must(fg_ring_watch_until(ann.watch, 2, soon(), &view, &err), &err);
    swaps = view->ring.swaps;
    fg_ring_view_unref(view);
    for (int fault = 0; fault < FAULTS; fault++) {
        if (fault == OLDER)
            put_ring(f, fg_buf_slice(&older));
        else if (fault == LOST)
            delete_ring(f);
        else
            flip_ring(f);
        see_again(members, swaps, fault == FLIPPED ? FG_E_CORRUPT : FG_E_UNAVAILABLE);
    }
    assert_int_equal(fg_ring_watch_member_state(ann.watch), FG_RING_MEMBER_ACTIVE);
    fg_ring_watch_destroy(ann.watch);
    fg_ring_watch_destroy(bob.watch);
    fg_buf_done(&older);
}

struct used {
    _Atomic bool used;
    _Atomic unsigned asked;
};

static enum fg_code check_unused(void *arg, struct fg_err *err)
{
    struct used *used = arg;

    atomic_fetch_add(&used->asked, 1);
    return atomic_load(&used->used) ? fg_fail(err, FG_E_CORRUPT, "the ring is lost") : FG_OK;
}

/* An ingester that starts with a bucket that was used, and finds no ring, does not make one. */
static void no_ring_is_made_in_a_bucket_that_was_used(void **state)
{
    struct fixture *f = *state;
    struct used used = {.used = true};
    const struct fg_ring_watch_member member = {
        .name = "ann",
        .zone = "",
        .address = "tcp://h:1",
        .http = "",
        .store = {1, 1},
        .replicas = 1,
        .on_drain = on_drain,
        .check_unused = check_unused,
        .arg = &used,
    };
    struct fg_conditions *conditions = fg_conditions_create(f->registry);
    struct fg_ring_watch *watch;
    struct fg_buf text;
    struct fg_err err;

    fg_buf_init(&text, SIZE_MAX);
    must(fg_ring_watch_create(&(struct fg_ring_watch_config){.bucket = f->bucket,
                                                             .clock = fg_clock_real(),
                                                             .registry = f->registry,
                                                             .conditions = conditions,
                                                             .poll_ns = 24 * FG_HOUR_NS,
                                                             .member = &member},
                              &watch, &err),
         &err);
    must(fg_ring_watch_start(watch, &err), &err);
    for (unsigned asked = 1; asked <= 3; asked++) {
        see(watch, 0, 0);
        while (atomic_load(&used.asked) < asked)
            sched_yield();
    }
    assert_int_equal(fg_ring_watch_member_state(watch), FG_RING_MEMBER_JOINING);
    get_ring(f, &text);
    assert_int_equal(text.len, 0);
    do {
        fg_buf_clear(&text);
        fg_conditions_write(conditions, &text);
    } while (text.len == 0);
    assert_true(fg_slice_is(fg_buf_slice(&text), "ring_lost: the ring is lost\n"));

    atomic_store(&used.used, false); /* an operator says so */
    fg_ring_watch_look(watch, 0);
    must(fg_ring_watch_wait_member(watch, FG_RING_MEMBER_ACTIVE, soon(), &err), &err);
    fg_ring_watch_destroy(watch);
    fg_conditions_destroy(conditions);
    fg_buf_done(&text);
}

/* Who waits is told when it ends. */
static void *wait_for_ever(void *arg)
{
    struct fg_ring_view *view;
    struct fg_err err;

    assert_int_equal(fg_ring_watch_until(arg, 99, soon() + FG_HOUR_NS, &view, &err), FG_E_CANCELED);
    return NULL;
}

static void stop_ends_all_waits(void **state)
{
    struct fixture *f = *state;
    struct fg_ring_watch *watch = start(f, NULL);
    pthread_t waiting;
    struct fg_err err;

    must(fg_ring_watch_start(watch, &err), &err);
    assert_int_equal(pthread_create(&waiting, NULL, wait_for_ever, watch), 0);
    see(watch, 0, 0);
    fg_ring_watch_stop(watch);
    assert_int_equal(pthread_join(waiting, NULL), 0);
    fg_ring_watch_destroy(watch);
}

/* Seats come and go while the bucket loses and delays. */
static void random_faults_do_no_harm(void **state)
{
    struct fixture *f = *state;
    static const struct fg_bucket_faults some = {.seed = 7,
                                                 .lose_request_permille = 100,
                                                 .lose_answer_permille = 100,
                                                 .refuse_permille = 100,
                                                 .straggle_permille = 100};
    static const struct fg_bucket_faults none = {.seed = 7};
    static const char *const names[] = {"a", "b", "c", "d"};
    struct ingester ingesters[FG_COUNT(names)] = {0};
    struct fg_ring_view *view = NULL;
    struct fg_err err;

    fg_bucket_faulty_set(f->faulty, &some);
    for (unsigned i = 0; i < FG_COUNT(names); i++)
        start_ingester(f, &ingesters[i], names[i], i);
    for (unsigned i = 0; i < FG_COUNT(names); i++)
        wait_member(&ingesters[i], FG_RING_MEMBER_ACTIVE);
    fg_ring_watch_leave(ingesters[3].watch);
    wait_member(&ingesters[3], FG_RING_MEMBER_LEFT);
    fg_bucket_faulty_set(f->faulty, &none);
    for (bool drained = false; !drained;) {
        for (unsigned i = 0; i < FG_COUNT(names); i++) {
            must(fg_ring_watch_fresh(ingesters[i].watch, soon(), &view, &err), &err);
            drained = view->ring.n_revisions == 1;
            ring_make_check(&view->ring);
            fg_ring_view_unref(view);
        }
    }
    see(ingesters[0].watch, 5, 3);
    for (unsigned i = 0; i < FG_COUNT(names); i++)
        fg_ring_watch_destroy(ingesters[i].watch);
}

static void invalid_members_are_refused(void **state)
{
    struct fixture *f = *state;
    struct fg_ring_watch_member member = {
        .name = "", .zone = "", .address = "a", .http = "", .replicas = 3, .on_drain = on_drain};
    struct fg_ring_watch_config config = {.bucket = f->bucket,
                                          .clock = fg_clock_real(),
                                          .registry = f->registry,
                                          .poll_ns = FG_SECOND_NS,
                                          .member = &member};
    struct fg_ring_watch *watch;
    struct fg_err err;

    assert_int_equal(fg_ring_watch_create(&config, &watch, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "ring: the name is empty");
    member.name = "a";
    member.replicas = 0;
    assert_int_equal(fg_ring_watch_create(&config, &watch, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "ring: 0 replicas; there can be 1 to 3");
}

/* The k-th request of an operator's change fails, for each k; the change is there in the end. */
static void an_operators_change_is_carried_out(void **state)
{
    struct fixture *f = *state;

    for (uint64_t k = 1; k <= 8; k++) {
        struct fg_ring_change join = ring_make_join("ann", "", k), forget = ring_make_forget("ann");
        struct fg_ring_view *view = NULL;
        struct fg_err err;

        fg_bucket_faulty_fail(f->faulty, k, k % 2 == 0);
        must(fg_ring_object_change(&f->object, &join, &view, &err), &err);
        assert_int_equal(view->ring.members[0].store.lo, k);
        fg_ring_view_unref(view);
        must(fg_ring_object_change(&f->object, &forget, &view, &err), &err);
        assert_int_equal(view->ring.n_members, 0);
        fg_ring_view_unref(view);
    }
}

/* Until the copy of that watch has the shard factor; it is asked for as a distributor does. */
static void widen_until(struct fg_ring_watch *watch, const char *tenant, unsigned shard_factor)
{
    struct fg_ring_view *view;
    struct fg_err err;
    unsigned known;

    do {
        fg_ring_watch_widen(watch, fg_cstr(tenant), shard_factor);
        if (fg_ring_watch_fresh(watch, soon(), &view, &err) != FG_OK)
            continue; /* the bucket failed, as it is to */
        known = fg_ring_shard_factor(&view->ring, fg_cstr(tenant));
        fg_ring_view_unref(view);
        if (known == shard_factor)
            return;
    } while (true);
}

/* The k-th request fails, for each k, as long as two watches widen what they want. */
static void a_greater_shard_factor_reaches_all_copies(void **state)
{
    struct fixture *f = *state;
    struct fg_ring_watch *a = start(f, NULL), *b = start(f, NULL);
    struct fg_ring_view *view;
    struct fg_err err;

    must(fg_ring_watch_start(a, &err), &err);
    must(fg_ring_watch_start(b, &err), &err);
    for (unsigned k = 1; k <= 6; k++) {
        fg_bucket_faulty_fail(f->faulty, k, k % 2 == 0);
        fg_ring_watch_widen(b, FG_LIT("us"), k);
        widen_until(a, "us", k);
        widen_until(a, "them", k);
        widen_until(b, "those", k);
    }
    must(fg_ring_watch_fresh(b, soon(), &view, &err), &err);
    assert_int_equal(fg_ring_shard_factor(&view->ring, FG_LIT("us")), 6);
    assert_int_equal(fg_ring_shard_factor(&view->ring, FG_LIT("them")), 6);
    assert_int_equal(view->ring.n_shard_factors, 3);
    assert_int_equal(view->ring.others.n, 0);
    /* It begins later, when everyone has that ring. */
    assert_int_equal(
        fg_ring_shard_factor_at(&view->ring, FG_LIT("us"), fg_wall_ns(fg_clock_real())), 0);
    fg_ring_view_unref(view);
    fg_ring_watch_destroy(a);
    fg_ring_watch_destroy(b);
}

/* ---- a clock that is wrong, and a bucket that may only be read ---- */

static int64_t a_year_ahead(struct fg_clock *clock)
{
    (void)clock;
    return fg_wall_ns(fg_clock_real()) + 365 * 24 * FG_HOUR_NS;
}

static int64_t mono(struct fg_clock *clock)
{
    (void)clock;
    return fg_mono_ns(fg_clock_real());
}

/* A shard factor begins by the bucket's clock: one that began a year later would block those after
 * it. */
static void the_buckets_clock_times_shard_factors(void **state)
{
    static const struct fg_clock_ops ops = {a_year_ahead, mono};
    struct fixture *f = *state;
    struct fg_clock clock = {&ops};
    const struct fg_ring_watch_config config = {
        .bucket = f->bucket, .clock = &clock, .registry = f->registry, .poll_ns = 24 * FG_HOUR_NS};
    struct fg_ring_change join = ring_make_join("ann", "", 1);
    struct fg_ring_watch *watch;
    struct fg_ring_view *view = NULL;
    struct fg_err err;

    must(fg_ring_object_change(&f->object, &join, &view, &err),
         &err); /* of nothing no time is said */
    fg_ring_view_unref(view);
    must(fg_ring_watch_create(&config, &watch, &err), &err);
    must(fg_ring_watch_start(watch, &err), &err);
    widen_until(watch, "us", 2);
    must(fg_ring_watch_fresh(watch, soon(), &view, &err), &err);
    assert_int_equal(fg_ring_shard_factor_at(&view->ring, FG_LIT("us"),
                                             fg_wall_ns(fg_clock_real()) + FG_HOUR_NS),
                     2);
    fg_ring_view_unref(view);
    fg_ring_watch_destroy(watch);
}

struct readable {
    struct fg_bucket bucket;
    struct fg_bucket *inner;
    _Atomic unsigned puts;
};

static void readable_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct readable *readable = fg_container(bucket, struct readable, bucket);

    if (request->verb != FG_BUCKET_PUT) {
        fg_bucket_send(readable->inner, request);
        return;
    }
    request->code = fg_fail(&request->err, FG_E_DENIED, "read only");
    atomic_fetch_add(&readable->puts, 1);
    request->done(request);
}

static void readable_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    (void)bucket;
    (void)request; /* all is done within send */
}

static void readable_close(struct fg_bucket *bucket)
{
    (void)bucket;
}

/* It is tried once, said, and everything goes on. */
static void a_denied_update_is_reported_once(void **state)
{
    static const struct fg_bucket_ops ops = {readable_send, readable_cancel, readable_close};
    struct fixture *f = *state;
    struct readable readable = {.bucket = {.ops = &ops}, .inner = f->memory};
    const struct fg_ring_watch_config config = {.bucket = &readable.bucket,
                                                .clock = fg_clock_real(),
                                                .registry = f->registry,
                                                .poll_ns = 24 * FG_HOUR_NS};
    struct fg_ring_change join = ring_make_join("ann", "", 1);
    struct fg_ring_watch *watch;
    struct fg_ring_view *view = NULL;
    struct fg_buf metrics;
    struct fg_err err;

    must(fg_ring_object_change(&f->object, &join, &view, &err), &err);
    fg_ring_view_unref(view);
    must(fg_ring_watch_create(&config, &watch, &err), &err);
    must(fg_ring_watch_start(watch, &err), &err);
    for (int i = 0; i < 1000 || atomic_load(&readable.puts) == 0; i++) {
        fg_ring_watch_widen(watch, FG_LIT("us"), 2);
        must(fg_ring_watch_fresh(watch, soon(), &view, &err), &err);
        assert_int_equal(fg_ring_shard_factor(&view->ring, FG_LIT("us")), 0);
        fg_ring_view_unref(view);
    }
    assert_int_equal(atomic_load(&readable.puts), 1);
    fg_buf_init(&metrics, 1 << 20);
    fg_registry_write(f->registry, &metrics);
    assert_true(fg_slice_search(fg_buf_slice(&metrics), "flamegrid_ring_update_denied 1\n") !=
                SIZE_MAX);
    fg_buf_done(&metrics);
    fg_ring_watch_destroy(watch);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_copy_follows_the_ring),
        TEST(members_join_drain_and_leave),
        TEST(members_stop_one_after_the_other),
        TEST(a_second_store_replaces_the_first),
        TEST(an_outage_keeps_the_copy),
        TEST(a_hanging_bucket_ends_with_the_deadline),
        TEST(an_older_ring_is_put_back),
        TEST(a_rebuilt_ring_is_taken),
        TEST(members_put_a_lost_ring_back),
        TEST(no_ring_is_made_in_a_bucket_that_was_used),
        TEST(stop_ends_all_waits),
        TEST(random_faults_do_no_harm),
        TEST(invalid_members_are_refused),
        TEST(an_operators_change_is_carried_out),
        TEST(a_greater_shard_factor_reaches_all_copies),
        TEST(the_buckets_clock_times_shard_factors),
        TEST(a_denied_update_is_reported_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
