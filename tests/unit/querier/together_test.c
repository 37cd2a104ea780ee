/* Queries that ask the same: who joins whom, what they get, and that none gets an answer that is
 * older than itself. The work of a query is the test's; querier_test.c has them behind HTTP. */
#include "common/base/cursor.h"
#include "common/base/str.h"
#include "querier/together.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LEFT_NS (60 * FG_SECOND_NS) /* of the first query */

enum {
    ASKED_MAX = QRY_TOGETHER_MAX + 4,
    LOOPS = 3,
    CHAINS = 8, /* of queries on each loop, one after another */
    CHAIN_LENGTH = 300,
};

struct fixture;

struct asked {
    struct qry_query query;
    struct fixture *fixture;
    enum fg_code code; /* that its job ends with */
    bool joined;       /* as it was told when it was asked */
    bool done;
    uint64_t seen; /* what was acknowledged when it was asked */
    unsigned left; /* in its chain */
};

struct fixture {
    struct querier querier;
    struct fg_clock_manual clock;
    struct fg_work *work;
    struct fg_loop *loops[LOOPS];
    struct asked *asked; /* [ASKED_MAX] */
    size_t n_asked;
    bool refuse;      /* the lane is full */
    atomic_uint runs; /* of jobs */
    atomic_ullong acknowledged;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held, opened;       /* the only worker waits; it may go on */
    size_t answered, joined; /* queries */
};

/* --- fixture --- */

static enum fg_code submit(struct qry_query *query, struct fg_err *err)
{
    struct fixture *f = fg_container(query->querier, struct fixture, querier);

    if (f->refuse || !fg_work_submit(f->work, FG_LANE_QUERY, &query->job))
        return fg_fail(err, FG_E_LIMIT, "the lane is full");
    return FG_OK;
}

static int setup_with(void **state, unsigned threads)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = threads, .queue_max = 4096}};
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    fg_clock_manual_init(&f->clock, FG_SECOND_NS);
    f->querier.clock = &f->clock.clock;
    f->querier.together = qry_together_create(submit);
    f->asked = fg_calloc(ASKED_MAX, sizeof *f->asked);
    assert_int_equal(pthread_mutex_init(&f->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&f->changed, NULL), 0);
    assert_int_equal(fg_work_create("test", lanes, &f->work, &err), FG_OK);
    for (size_t i = 0; i < LOOPS; i++) {
        f->loops[i] = fg_loop_create("test");
        assert_int_equal(fg_loop_start(f->loops[i], &err), FG_OK);
    }
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 1);
}

static int setup_two_workers(void **state)
{
    return setup_with(state, 2);
}

/* Runs all that was submitted, and delivers all answers. */
static void finish(struct fixture *f)
{
    fg_work_destroy(fg_take(f->work));
    for (size_t i = 0; i < LOOPS; i++) {
        fg_loop_stop(f->loops[i]);
        fg_loop_destroy(f->loops[i]);
    }
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    qry_together_destroy(f->querier.together);
    for (size_t i = 0; i < f->n_asked; i++) {
        assert_true(f->asked[i].done);
        fg_buf_done(&f->asked[i].query.body);
        fg_buf_done(&f->asked[i].query.missing);
        fg_arena_destroy(f->asked[i].query.arena);
    }
    (void)pthread_cond_destroy(&f->changed);
    (void)pthread_mutex_destroy(&f->lock);
    free(f->asked);
    free(f);
    return 0;
}

/* --- queries --- */

/* The answer is what the query asks, and what was acknowledged when its reading began. */
static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    struct asked *asked = fg_container(job, struct asked, query.job);
    struct qry_query *query = &asked->query;
    enum fg_code code = asked->code;

    qry_together_begin(query);
    atomic_fetch_add(&asked->fixture->runs, 1);
    fg_buf_varint(&query->body, atomic_load(&asked->fixture->acknowledged));
    fg_buf_lenbytes(&query->body, query->together.key);
    query->profiles = 7;
    query->incomplete = true;
    fg_buf_puts(&query->missing, "one: away");
    query->unit = fg_arena_text(query->arena, FG_LIT("bytes"));
    query->planned_bytes = 1000;
    query->cpu_ns = 1000;
    if (code != FG_OK)
        (void)fg_fail(err, code, "as the test says");
    qry_together_end(query, code, err);
    return code;
}

static void check_answer(struct asked *asked)
{
    struct fg_cur cur = fg_cur(fg_buf_slice(&asked->query.body));

    assert_true(fg_cur_varint(&cur) >= asked->seen);
    assert_true(fg_slice_eq(fg_cur_lenbytes(&cur), asked->query.together.key));
    assert_true(fg_cur_end(&cur));
}

static void done(struct fg_job *job)
{
    struct asked *asked = fg_container(job, struct asked, query.job);
    struct qry_query *query = &asked->query;
    struct fixture *f = asked->fixture;

    qry_together_take(query);
    if (job->code == FG_OK)
        check_answer(asked);
    else
        assert_int_equal(job->err.code, job->code);
    asked->done = true;
    (void)pthread_mutex_lock(&f->lock);
    f->answered++;
    f->joined += query->together.joined;
    (void)pthread_cond_broadcast(&f->changed);
    (void)pthread_mutex_unlock(&f->lock);
}

static void wait_for_answers(struct fixture *f, size_t n)
{
    (void)pthread_mutex_lock(&f->lock);
    while (f->answered < n)
        (void)pthread_cond_wait(&f->changed, &f->lock);
    (void)pthread_mutex_unlock(&f->lock);
}

static void query_init(struct fixture *f, struct asked *asked, const char *key, int64_t left_ns)
{
    struct qry_query *query = &asked->query;

    *asked = (struct asked){.fixture = f};
    query->querier = &f->querier;
    query->arena = fg_arena_create((size_t)1 << 20);
    fg_buf_init(&query->body, 4096);
    fg_buf_init(&query->missing, MISSING_MAX_BYTES);
    query->deadline_mono_ns = fg_mono_ns(f->querier.clock) + left_ns;
    query->together.key = fg_cstr(key);
    query->job.run = run;
    query->job.done = done;
}

/* Each query is of another loop than the one before it. */
static struct asked *make(struct fixture *f, const char *key, int64_t left_ns)
{
    struct asked *asked = &f->asked[f->n_asked];

    assert_true(f->n_asked < ASKED_MAX);
    query_init(f, asked, key, left_ns);
    asked->query.job.home = f->loops[f->n_asked++ % LOOPS];
    return asked;
}

static struct asked *ask_with(struct fixture *f, const char *key, int64_t left_ns,
                              enum fg_code code)
{
    struct asked *asked = make(f, key, left_ns);
    struct fg_err err;

    asked->code = code;
    asked->seen = atomic_load(&f->acknowledged);
    assert_int_equal(qry_together_submit(&asked->query, &asked->joined, &err), FG_OK);
    return asked;
}

static struct asked *ask(struct fixture *f, const char *key)
{
    return ask_with(f, key, LEFT_NS, FG_OK);
}

/* --- the worker waits --- */

static enum fg_code hold_run(struct fg_job *job, struct fg_err *err)
{
    struct asked *asked = fg_container(job, struct asked, query.job);
    struct fixture *f = asked->fixture;

    qry_together_begin(&asked->query);
    (void)pthread_mutex_lock(&f->lock);
    f->held = true;
    (void)pthread_cond_broadcast(&f->changed);
    while (!f->opened)
        (void)pthread_cond_wait(&f->changed, &f->lock);
    (void)pthread_mutex_unlock(&f->lock);
    return run(job, err);
}

/* Asks a query that begins and waits, so that all others wait for the worker. */
static struct asked *hold(struct fixture *f, const char *key)
{
    struct asked *asked = make(f, key, LEFT_NS);
    struct fg_err err;

    asked->query.job.run = hold_run;
    assert_int_equal(qry_together_submit(&asked->query, &asked->joined, &err), FG_OK);
    (void)pthread_mutex_lock(&f->lock);
    while (!f->held)
        (void)pthread_cond_wait(&f->changed, &f->lock);
    (void)pthread_mutex_unlock(&f->lock);
    return asked;
}

static void let_go(struct fixture *f)
{
    (void)pthread_mutex_lock(&f->lock);
    f->opened = true;
    (void)pthread_cond_broadcast(&f->changed);
    (void)pthread_mutex_unlock(&f->lock);
    wait_for_answers(f, f->n_asked); /* a pool that is stopped takes nothing that is asked again */
    finish(f);
}

/* --- tests --- */

static void those_that_wait_get_one_answer(void **state)
{
    struct fixture *f = *state;
    struct asked *leader, *follower, *other;

    hold(f, "a");
    leader = ask(f, "a"); /* the first one has begun */
    atomic_store(&f->acknowledged, 5);
    follower = ask(f, "a");
    other = ask(f, "b");
    assert_false(leader->joined);
    assert_true(follower->joined);
    assert_false(other->joined);
    let_go(f);
    assert_int_equal(f->runs, 3);
    assert_int_equal(f->joined, 1);
    assert_true(follower->query.together.joined);
    assert_false(leader->query.together.joined || other->query.together.joined);
}

static void a_query_that_joined_says_the_same_and_took_nothing(void **state)
{
    struct fixture *f = *state;
    struct asked *leader, *follower;

    hold(f, "other");
    leader = ask(f, "a");
    follower = ask(f, "a");
    let_go(f);
    assert_int_equal(follower->query.profiles, 7);
    assert_true(follower->query.incomplete);
    assert_true(fg_slice_is(fg_buf_slice(&follower->query.missing), "one: away"));
    assert_string_equal(follower->query.unit, "bytes");
    assert_ptr_not_equal(follower->query.unit, leader->query.unit); /* each has its arena */
    assert_int_equal(leader->query.planned_bytes, 1000);
    assert_int_equal(follower->query.planned_bytes, 0);
    assert_int_equal(follower->query.cpu_ns, 0);
}

static void without_a_key_each_is_alone(void **state)
{
    struct fixture *f = *state;

    hold(f, "");
    assert_false(ask(f, "")->joined);
    assert_false(ask(f, "")->joined);
    let_go(f);
    assert_int_equal(f->runs, 3);
}

static void an_error_of_the_question_is_for_all(void **state)
{
    struct fixture *f = *state;
    struct asked *follower;

    hold(f, "other");
    ask_with(f, "a", LEFT_NS, FG_E_INVALID);
    follower = ask(f, "a");
    let_go(f);
    assert_int_equal(f->runs, 2);
    assert_int_equal(follower->query.job.code, FG_E_INVALID);
    assert_string_equal(follower->query.job.err.msg, "as the test says");
}

/* The time of a leader is over; the one with the least time of the others asks again for all. */
static void the_deadline_of_a_leader_is_its_own(void **state)
{
    struct fixture *f = *state;
    struct asked *leader, *late, *soon;

    hold(f, "other");
    leader = ask_with(f, "a", LEFT_NS, FG_E_DEADLINE);
    late = ask(f, "a");
    late->query.deadline_mono_ns += 2;
    soon = ask(f, "a");
    soon->query.deadline_mono_ns += 1;
    let_go(f);
    assert_int_equal(leader->query.job.code, FG_E_DEADLINE);
    assert_int_equal(late->query.job.code, FG_OK);
    assert_int_equal(soon->query.job.code, FG_OK);
    assert_int_equal(f->runs, 3);
    assert_true(late->query.together.joined);
    assert_false(soon->query.together.joined);
}

/* A query that is asked again may find the lane full. */
static void asking_again_may_be_refused(void **state)
{
    struct fixture *f = *state;
    struct asked *followers[3];

    hold(f, "other");
    ask_with(f, "a", LEFT_NS, FG_E_DEADLINE);
    for (size_t i = 0; i < FG_COUNT(followers); i++)
        followers[i] = ask(f, "a");
    f->refuse = true;
    let_go(f);
    for (size_t i = 0; i < FG_COUNT(followers); i++) {
        assert_int_equal(followers[i]->query.job.code, FG_E_LIMIT);
        assert_string_equal(followers[i]->query.job.err.msg, "the lane is full");
    }
    assert_int_equal(f->runs, 2);
}

static void a_refused_query_is_as_it_was(void **state)
{
    struct fixture *f = *state;
    struct asked *asked = make(f, "a", LEFT_NS);
    struct fg_err err;

    f->refuse = true;
    assert_int_equal(qry_together_submit(&asked->query, &asked->joined, &err), FG_E_LIMIT);
    f->refuse = false;
    assert_int_equal(qry_together_submit(&asked->query, &asked->joined, &err), FG_OK);
    assert_false(asked->joined);
    finish(f);
    assert_int_equal(f->runs, 1);
}

static void time_decides_who_may_join(void **state)
{
    struct fixture *f = *state;

    hold(f, "other");
    assert_false(ask_with(f, "a", LEFT_NS, FG_OK)->joined);
    assert_false(ask_with(f, "a", LEFT_NS - 1, FG_OK)->joined); /* it would wait for too long */
    assert_true(ask_with(f, "a", LEFT_NS, FG_OK)->joined);
    assert_true(ask_with(f, "a", 2 * LEFT_NS, FG_OK)->joined);
    assert_false(ask_with(f, "a", 2 * LEFT_NS + 2, FG_OK)->joined); /* it has time for more */
    f->clock.mono_ns += LEFT_NS; /* no time is left for those that waited so long */
    assert_false(ask_with(f, "a", LEFT_NS / 4, FG_OK)->joined);
    let_go(f);
}

static void no_more_join_than_may(void **state)
{
    struct fixture *f = *state;

    hold(f, "other");
    assert_false(ask(f, "a")->joined);
    for (size_t i = 0; i < QRY_TOGETHER_MAX; i++)
        assert_true(ask(f, "a")->joined);
    assert_false(ask(f, "a")->joined);
    assert_true(ask(f, "a")->joined);
    let_go(f);
    assert_int_equal(f->runs, 3);
}

/* --- many threads --- */

static void on_chain(struct fg_job *job);

static void chain_next(struct asked *asked)
{
    static const char *const keys[] = {"a", "b", "a", ""};
    struct fixture *f = asked->fixture;
    struct fg_loop *home = asked->query.job.home;
    unsigned left = asked->left;
    struct fg_err err;

    query_init(f, asked, keys[left % FG_COUNT(keys)], LEFT_NS);
    asked->left = left;
    asked->query.job.home = home;
    asked->query.job.done = on_chain;
    asked->seen = atomic_load(&f->acknowledged);
    assert_int_equal(qry_together_submit(&asked->query, &asked->joined, &err), FG_OK);
}

static void on_chain(struct fg_job *job)
{
    struct asked *asked = fg_container(job, struct asked, query.job);
    struct fixture *f = asked->fixture;

    done(job);
    assert_int_equal(asked->joined, asked->query.together.joined);
    atomic_fetch_add(&f->acknowledged, 1);
    if (--asked->left == 0)
        return;
    fg_buf_done(&asked->query.body);
    fg_buf_done(&asked->query.missing);
    fg_arena_destroy(asked->query.arena);
    chain_next(asked);
}

struct chain_start {
    struct fg_msg msg;
    struct asked *asked;
};

static void on_start(struct fg_msg *msg)
{
    chain_next(fg_container(msg, struct chain_start, msg)->asked);
}

/* Whatever was acknowledged before a query was asked is in its answer: done() looks. */
static void no_answer_is_older_than_its_question(void **state)
{
    enum { TOTAL = LOOPS * CHAINS * CHAIN_LENGTH };
    struct fixture *f = *state;
    struct chain_start starts[LOOPS * CHAINS];

    for (size_t i = 0; i < FG_COUNT(starts); i++) {
        struct asked *asked = &f->asked[f->n_asked++];

        asked->fixture = f;
        asked->left = CHAIN_LENGTH;
        asked->query.job.home = f->loops[i % LOOPS];
        starts[i] = (struct chain_start){.msg.run = on_start, .asked = asked};
        fg_loop_post(asked->query.job.home, &starts[i].msg);
    }
    wait_for_answers(f, TOTAL);
    finish(f);
    print_message("  %d queries, %zu joined others\n", TOTAL, f->joined);
    assert_int_equal(f->runs + f->joined, TOTAL);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(those_that_wait_get_one_answer),
        WITH(a_query_that_joined_says_the_same_and_took_nothing),
        WITH(without_a_key_each_is_alone),
        WITH(an_error_of_the_question_is_for_all),
        WITH(the_deadline_of_a_leader_is_its_own),
        WITH(asking_again_may_be_refused),
        WITH(a_refused_query_is_as_it_was),
        WITH(time_decides_who_may_join),
        WITH(no_more_join_than_may),
        cmocka_unit_test_setup_teardown(no_answer_is_older_than_its_question, setup_two_workers,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
