/* Tests queries that need the same piece of a flame graph (querier/blocks/pieces.h) at the same
 * time: one makes it, and what becomes of the others if it is slow, fails, or goes away. */
#include "common/model/flame.h"
#include "common/net/http/impl.h"
#include "querier/blocks/blocks_impl.h"
#include "tests/lib/bucket_gate.h"
#include "tests/lib/bucket_hold.h"
#include "tests/unit/querier/asker.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

enum { VIEWERS = 4 };

/* A clock that tests move while queries read it. */
struct moved_clock {
    struct fg_clock clock;
    _Atomic int64_t now_ns;
};

static int64_t read_clock(struct fg_clock *clock)
{
    return atomic_load(&fg_container(clock, struct moved_clock, clock)->now_ns);
}

/* A client that asks for the flame graph, on a thread of its own. */
struct viewer {
    struct asker *asker;
    struct fg_http_request req; /* of a client that may go */
    int64_t time_ns;            /* until its deadline */
    pthread_t thread;
    atomic_bool ended;
    enum fg_code code;
    struct fg_buf text;
};

struct scene {
    struct asker asker;
    struct moved_clock clock;
    struct bucket_gate gate;
    struct viewer viewers[VIEWERS];
};

static void *view(void *arg)
{
    static const struct qry_stack_filter all;
    struct viewer *viewer = arg;
    struct qry_query *query = asker_begin(viewer->asker, 7);
    struct qry_selection selection = {
        .type_text = asker_types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct fg_tree tree;
    struct fg_err err;

    query->req = &viewer->req;
    query->deadline_mono_ns = fg_mono_ns(query->querier->clock) + viewer->time_ns;
    fg_tree_init(&tree);
    viewer->code = asker_whole(
        query, qry_flamegraph_make(query, &selection, &all, 1000, true, &tree, &err), &err);
    if (viewer->code == FG_OK)
        fg_flame_write_tree(&tree, 1000, &viewer->text);
    fg_buf_printf(&viewer->text, "%llu", (unsigned long long)query->profiles);
    fg_tree_done(&tree);
    asker_end(query);
    atomic_store(&viewer->ended, true);
    return NULL;
}

static void begin(struct scene *scene, unsigned number, int64_t time_ns)
{
    struct viewer *viewer = &scene->viewers[number];

    fg_buf_done(&viewer->text);
    *viewer = (struct viewer){.asker = &scene->asker, .time_ns = time_ns};
    fg_buf_init(&viewer->text, SIZE_MAX);
    assert_int_equal(pthread_create(&viewer->thread, NULL, view, viewer), 0);
}

static void end(struct scene *scene, unsigned number, enum fg_code want)
{
    assert_int_equal(pthread_join(scene->viewers[number].thread, NULL), 0);
    assert_int_equal(scene->viewers[number].code, want);
}

static uint64_t count(const struct scene *scene, unsigned metric)
{
    return fg_metric_get(asker_blocks(&scene->asker)->metrics, metric);
}

static void await_count(const struct scene *scene, unsigned metric, uint64_t want)
{
    while (count(scene, metric) < want)
        (void)sched_yield();
    assert_int_equal(count(scene, metric), want);
}

static void assert_same(const struct scene *scene, unsigned a, unsigned b)
{
    assert_true(
        fg_slice_eq(fg_buf_slice(&scene->viewers[a].text), fg_buf_slice(&scene->viewers[b].text)));
}

/* The bucket holds back what the first viewer needs for the piece; the others wait for it.
 * times_ns: until each one's deadline. */
static void scene_init(struct scene *scene, const int64_t times_ns[VIEWERS])
{
    static const struct fg_clock_ops ops = {.wall_ns = read_clock, .mono_ns = read_clock};
    struct fg_err err;

    *scene = (struct scene){.asker = {.random = 5, .keeps_all = true}};
    asker_init(&scene->asker, 30, UINT64_C(64) << 20, NULL);
    scene->clock.clock.ops = &ops;
    atomic_init(&scene->clock.now_ns, scene->asker.world.end_ns);
    scene->asker.querier->clock = asker_blocks(&scene->asker)->clock = &scene->clock.clock;
    world_push(&scene->asker.world, 40);
    world_commit(&scene->asker.world, 1000);
    world_push(&scene->asker.world, 40);
    world_commit(&scene->asker.world, 1000);
    bucket_gate_init(&scene->gate, asker_blocks(&scene->asker)->bucket);
    asker_blocks(&scene->asker)->bucket = &scene->gate.bucket;
    /* Directories, indexes and samples are in the cache then, and function trees are not. */
    asker_must(asker_ask_all(&scene->asker, false, &err), &err);
    bucket_gate_shut(&scene->gate, FG_BUCKET_GET, FG_NAME_SEGMENTS);
    begin(scene, 0, times_ns[0]);
    bucket_gate_await(&scene->gate);
    for (unsigned i = 1; i < VIEWERS; i++)
        begin(scene, i, times_ns[i]);
    await_count(scene, BLOCKS_PIECES_JOINED, VIEWERS - 1);
    assert_int_equal(count(scene, BLOCKS_PIECES_MADE), 1);
}

static void scene_done(struct scene *scene)
{
    for (unsigned i = 0; i < VIEWERS; i++)
        fg_buf_done(&scene->viewers[i].text);
    asker_blocks(&scene->asker)->bucket = scene->gate.inner;
    bucket_gate_done(&scene->gate);
    asker_done(&scene->asker);
}

static const int64_t patient_ns[VIEWERS] = {FG_HOUR_NS, FG_HOUR_NS, FG_HOUR_NS, FG_HOUR_NS};

static void one_makes_the_piece_for_all(void **state)
{
    (void)state;
    for (unsigned large = 0; large < 2; large++) {
        struct scene scene;

        scene_init(&scene, patient_ns);
        if (large == 1) /* for the cache: those that wait get it nevertheless */
            asker_blocks(&scene.asker)->cache_max_bytes = 1;
        bucket_gate_open(&scene.gate);
        for (unsigned i = 0; i < VIEWERS; i++) {
            end(&scene, i, FG_OK);
            assert_same(&scene, i, 0);
        }
        assert_int_equal(count(&scene, BLOCKS_PIECES_MADE), 1);
        assert_int_equal(count(&scene, BLOCKS_PIECES_CACHED), VIEWERS - 1);
        begin(&scene, 0, FG_HOUR_NS);
        end(&scene, 0, FG_OK);
        assert_same(&scene, 1, 0);
        assert_int_equal(count(&scene, BLOCKS_PIECES_MADE), 1 + large);
        scene_done(&scene);
    }
}

/* Whoever makes the piece has no more time, and then its client is gone: another one makes it,
 * once.
 */
static void another_takes_over_when_the_first_goes_away(void **state)
{
    (void)state;
    for (unsigned gone = 0; gone < 2; gone++) {
        struct scene scene;

        scene_init(&scene, (const int64_t[]){FG_MINUTE_NS, 10 * FG_HOUR_NS, 10 * FG_HOUR_NS,
                                             10 * FG_HOUR_NS});
        if (gone == 1)
            atomic_store(&scene.viewers[0].req.gone, true);
        else
            atomic_fetch_add(&scene.clock.now_ns, FG_MINUTE_NS);
        bucket_gate_open(&scene.gate);
        end(&scene, 0, gone == 1 ? FG_E_CANCELED : FG_E_DEADLINE);
        for (unsigned i = 1; i < VIEWERS; i++) {
            end(&scene, i, FG_OK);
            assert_same(&scene, i, 1);
        }
        assert_int_equal(count(&scene, BLOCKS_PIECES_MADE), 2);
        assert_int_equal(count(&scene, BLOCKS_PIECES_CACHED), VIEWERS - 2);
        scene_done(&scene);
    }
}

/* Their clients go, or their time is over, while the first one is still at it. */
static void a_query_that_waits_has_its_own_deadline_and_client(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, (const int64_t[]){FG_HOUR_NS, FG_MINUTE_NS, FG_HOUR_NS, FG_HOUR_NS});
    atomic_store(&scene.viewers[2].req.gone, true);
    end(&scene, 2, FG_E_CANCELED);
    atomic_fetch_add(&scene.clock.now_ns, FG_MINUTE_NS);
    end(&scene, 1, FG_E_DEADLINE);
    bucket_gate_open(&scene.gate);
    end(&scene, 0, FG_OK);
    end(&scene, 3, FG_OK);
    assert_same(&scene, 3, 0);
    assert_int_equal(count(&scene, BLOCKS_PIECES_MADE), 1);
    scene_done(&scene);
}

/* A query that has waited for half of its time makes the piece itself. */
static void nobody_waits_for_a_slow_one_for_all_of_its_time(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, (const int64_t[]){FG_HOUR_NS, FG_MINUTE_NS, FG_HOUR_NS, FG_HOUR_NS});
    atomic_fetch_add(&scene.clock.now_ns, FG_MINUTE_NS * 2 / 3);
    await_count(&scene, BLOCKS_PIECES_MADE, 2);
    bucket_gate_open(&scene.gate);
    for (unsigned i = 0; i < VIEWERS; i++) {
        end(&scene, i, FG_OK);
        assert_same(&scene, i, 0);
    }
    assert_int_equal(count(&scene, BLOCKS_PIECES_MADE), 2);
    scene_done(&scene);
}

/* --- a bucket that does not respond --- */

/* A world, of which no object is in the cache: the manifests are. */
static void silent_scene_init(struct scene *scene, struct bucket_hold *hold)
{
    static const struct fg_clock_ops ops = {.wall_ns = read_clock, .mono_ns = read_clock};
    static const struct fg_bucket_faults none = {.seed = 1};
    struct fg_err err;

    *scene = (struct scene){.asker = {.random = 5, .keeps_all = true, .partial = true}};
    asker_init(&scene->asker, 30, 0, &none);
    scene->clock.clock.ops = &ops;
    atomic_init(&scene->clock.now_ns, scene->asker.world.end_ns);
    scene->asker.querier->clock = asker_blocks(&scene->asker)->clock = &scene->clock.clock;
    world_push(&scene->asker.world, 40);
    world_commit(&scene->asker.world, 1000);
    asker_must(asker_ask_all(&scene->asker, false, &err), &err);
    bucket_hold_init(hold, asker_blocks(&scene->asker)->bucket);
    asker_blocks(&scene->asker)->bucket = &hold->bucket;
    bucket_hold_next(hold, FG_BUCKET_GET, FG_NAME_SEGMENTS);
    begin(scene, 0, 10 * FG_HOUR_NS);
    bucket_hold_await(hold);
}

static void silent_scene_done(struct scene *scene, struct bucket_hold *hold)
{
    for (unsigned i = 0; i < VIEWERS; i++)
        fg_buf_done(&scene->viewers[i].text);
    asker_blocks(&scene->asker)->bucket = hold->inner;
    bucket_hold_done(hold);
    asker_done(&scene->asker);
}

static void a_client_that_goes_ends_the_wait_for_the_bucket(void **state)
{
    struct scene scene;
    struct bucket_hold hold;

    (void)state;
    silent_scene_init(&scene, &hold);
    atomic_store(&scene.viewers[0].req.gone, true);
    assert_true(bucket_hold_await_cancel(&hold));
    end(&scene, 0, FG_E_CANCELED);
    silent_scene_done(&scene, &hold);
}

/* The first query began before the bucket failed, and has ten hours. The second one answers from
 * older manifests, and has two seconds for what is in no cache. */
static void a_stale_query_does_not_wait_for_another_one(void **state)
{
    static const struct fg_bucket_faults away = {.seed = 1, .refuse_permille = 1000};
    struct scene scene;
    struct bucket_hold hold;
    int seconds = 0;

    (void)state;
    silent_scene_init(&scene, &hold);
    fg_bucket_faulty_set(scene.asker.faulty, &away);
    fg_clock_manual_advance(&scene.asker.clock, FG_MINUTE_NS); /* manifests are too old */
    begin(&scene, 1, 10 * FG_HOUR_NS);
    /* Until it has looked at the clock often enough. */
    while (!atomic_load(&scene.viewers[1].ended) && ++seconds < 600) {
        atomic_fetch_add(&scene.clock.now_ns, FG_SECOND_NS);
        (void)usleep(50 * 1000);
    }
    assert_in_range(seconds, 0, 599);
    end(&scene, 1, FG_E_UNAVAILABLE); /* incomplete */
    (void)bucket_hold_end(&hold, FG_E_DEADLINE);
    end(&scene, 0, FG_E_DEADLINE);
    silent_scene_done(&scene, &hold);
}

/* --- a bucket that fails for a while --- */

enum { ROUNDS = 40 };

static void *ask_while_it_fails(void *arg)
{
    struct asker *asker = arg;
    struct fg_err err;

    for (unsigned i = 0; i < ROUNDS; i++)
        if (asker_check_flamegraph(asker, &err) != FG_OK)
            assert_int_equal(err.code, FG_E_UNAVAILABLE);
    return NULL;
}

static void ask_at_once(const struct asker *asker, uint64_t random)
{
    struct asker crowd[VIEWERS]; /* all ask the same */
    pthread_t threads[VIEWERS];

    /* All copies first: the threads use the original, too, whose peers it has. */
    for (unsigned i = 0; i < VIEWERS; i++) {
        crowd[i] = *asker;
        crowd[i].random = random;
    }
    for (unsigned i = 0; i < VIEWERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_while_it_fails, &crowd[i]), 0);
    for (unsigned i = 0; i < VIEWERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Answers are right or errors, and nothing waits for what has failed, in a cache that keeps nothing
 * and in one that keeps pieces. */
static void pieces_survive_a_bucket_that_fails_for_a_while(void **state)
{
    static const struct fg_bucket_faults none = {.seed = 1},
                                         some = {.seed = 1, .refuse_permille = 30},
                                         all = {.seed = 1, .refuse_permille = 1000};

    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        struct asker asker = {.random = 5, .keeps_all = true};
        struct fg_err err;

        asker_init(&asker, 12 + c, c * (64 << 20), &none);
        world_settle(&asker.world);
        asker_must(asker_ask_all(&asker, true, &err), &err);
        for (uint64_t round = 0; round < 3; round++) {
            fg_bucket_faulty_set(asker.faulty, round == 1 ? &all : &some);
            ask_at_once(&asker, round);
        }
        fg_bucket_faulty_set(asker.faulty, &none);
        asker.random = 0;
        for (unsigned i = 0; i < ROUNDS; i++)
            asker_must(asker_check_flamegraph(&asker, &err), &err);
        assert_true(fg_metric_get(asker_blocks(&asker)->metrics, BLOCKS_PIECES_MADE) > 0);
        asker_done(&asker);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_makes_the_piece_for_all),
        cmocka_unit_test(another_takes_over_when_the_first_goes_away),
        cmocka_unit_test(a_query_that_waits_has_its_own_deadline_and_client),
        cmocka_unit_test(nobody_waits_for_a_slow_one_for_all_of_its_time),
        cmocka_unit_test(a_client_that_goes_ends_the_wait_for_the_bucket),
        cmocka_unit_test(a_stale_query_does_not_wait_for_another_one),
        cmocka_unit_test(pieces_survive_a_bucket_that_fails_for_a_while),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
