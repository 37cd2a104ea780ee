/* Tests queries that ask the same at the same time (querier/together.h), through the whole querier.
 */
#include "tests/unit/querier/querier_served.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

/* A job that keeps the only worker, so that queries wait. */
struct hold {
    struct fg_job job;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, opened;
};

static enum fg_code hold_run(struct fg_job *job, struct fg_err *err)
{
    struct hold *hold = fg_container(job, struct hold, job);

    (void)err;
    (void)pthread_mutex_lock(&hold->lock);
    hold->running = true;
    (void)pthread_cond_broadcast(&hold->changed);
    while (!hold->opened)
        (void)pthread_cond_wait(&hold->changed, &hold->lock);
    (void)pthread_mutex_unlock(&hold->lock);
    return FG_OK;
}

static void hold_done(struct fg_job *job)
{
    (void)job;
}

static void hold_worker(struct querier_served *f, struct hold *hold)
{
    *hold = (struct hold){.job = {.run = hold_run, .done = hold_done}};
    assert_int_equal(pthread_mutex_init(&hold->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&hold->changed, NULL), 0);
    assert_true(fg_work_submit(f->served.work, FG_LANE_QUERY, &hold->job));
    (void)pthread_mutex_lock(&hold->lock);
    while (!hold->running)
        (void)pthread_cond_wait(&hold->changed, &hold->lock);
    (void)pthread_mutex_unlock(&hold->lock);
}

static void let_go(struct hold *hold)
{
    (void)pthread_mutex_lock(&hold->lock);
    hold->opened = true;
    (void)pthread_cond_broadcast(&hold->changed);
    (void)pthread_mutex_unlock(&hold->lock);
}

/* Call it once the answers are there: the worker is done with it. */
static void hold_free(struct hold *hold)
{
    (void)pthread_cond_destroy(&hold->changed);
    (void)pthread_mutex_destroy(&hold->lock);
}

static uint64_t count_joined(struct querier_served *f)
{
    static const char name[] = "\nflamegrid_querier_queries_joined_total ";
    struct fg_buf text;
    const char *at;
    uint64_t n;

    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(f->served.registry, &text);
    fg_buf_putc(&text, '\0');
    at = strstr((const char *)text.ptr, name);
    assert_non_null(at);
    n = strtoull(at + strlen(name), NULL, 10);
    fg_buf_done(&text);
    return n;
}

static unsigned count_queued(struct querier_served *f)
{
    struct fg_lane_state lane;

    fg_work_state(f->served.work, FG_LANE_QUERY, &lane);
    return lane.queued;
}

/* Sends a query, and returns its connection once it waits for a worker, or has joined another. */
static int ask_waiting(struct querier_served *f, const char *method, const char *headers,
                       const char *json, bool joins)
{
    uint64_t joined = count_joined(f) + (joins ? 1 : 0);
    unsigned queued = count_queued(f) + (joins ? 0 : 1);
    char request[512];
    int fd;

    print_message("  %s %s %s\n", method, headers, json);
    (void)snprintf(request, sizeof request,
                   "POST /querier.v1.QuerierService/%s HTTP/1.1\r\n"
                   "Content-Type: application/json%s",
                   method, headers);
    fd = http_ask_send(fg_http_server_port(f->served.server), request, fg_cstr(json));
    while (count_joined(f) < joined || count_queued(f) < queued)
        (void)sched_yield();
    assert_int_equal(count_joined(f), joined);
    assert_int_equal(count_queued(f), queued);
    return fd;
}

static void expect_answer(struct querier_served *f, int fd, unsigned status, const char *want,
                          bool joined)
{
    assert_int_equal(http_ask_receive(fd, &f->served.answer), status);
    if (want != NULL)
        assert_string_equal(querier_body(f), want);
    assert_int_equal(querier_head_has(f, "X-Flamegrid-Joined: true"), joined);
}

#define LABELS      "{" WHEN ",\"name\":\"pod\"}"
#define LABELS_WANT "{\"names\":[\"a\",\"b\"]}"

static void what_waits_and_asks_the_same_is_asked_once(void **state)
{
    struct querier_served *f = *state;
    struct hold hold;
    int fds[4];

    SERIES(&f->peers[0], "pod=a");
    SERIES(&f->peers[1], "pod=b");
    hold_worker(f, &hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        fds[i] = ask_waiting(f, "LabelValues", "", LABELS, i > 0);
    let_go(&hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++) {
        expect_answer(f, fds[i], 200, LABELS_WANT, i > 0);
        assert_true(querier_head_has(f, "X-Flamegrid-Complete: true"));
    }
    assert_int_equal(f->peers[0].calls[FG_RPC_SERIES], 1);
    hold_free(&hold);
}

/* All that an answer depends on keeps queries apart. */
static void what_differs_is_asked_for_itself(void **state)
{
    static const struct {
        const char *method, *headers, *json;
    } others[] = {
        {"LabelNames", "", "{" WHEN "}"},
        {"LabelValues", "", "{" WHEN ",\"name\":\"pod\",\"matchers\":[\"{a=\\\"b\\\"}\"]}"},
        {"LabelValues", "\r\nX-Flamegrid-Partial: true", LABELS},
        {"LabelValues", "\r\nX-Flamegrid-Refine: true", LABELS},
        {"LabelValues", "\r\nX-Flamegrid-Statistics: true", LABELS},
        {"LabelValues", "\r\nAccept: */*;allow-utf8-labelnames=true", LABELS},
        {"LabelValues", "\r\nAccept-Encoding: gzip", LABELS},
        {"LabelValues", "\r\nConnect-Timeout-Ms: 50000", LABELS},
    };
    struct querier_served *f = *state;
    struct hold hold;
    int first, fds[FG_COUNT(others)];

    hold_worker(f, &hold);
    first = ask_waiting(f, "LabelValues", "", LABELS, false);
    for (size_t i = 0; i < FG_COUNT(others); i++)
        fds[i] = ask_waiting(f, others[i].method, others[i].headers, others[i].json, false);
    let_go(&hold);
    expect_answer(f, first, 200, NULL, false);
    for (size_t i = 0; i < FG_COUNT(others); i++)
        expect_answer(f, fds[i], 200, NULL, false);
    assert_int_equal(f->peers[0].calls[FG_RPC_SERIES], 1 + FG_COUNT(others));
    hold_free(&hold);
}

static void tenants_never_share_an_answer(void **state)
{
    struct querier_served *f = *state;
    struct hold hold;
    int fds[4];

    hold_worker(f, &hold);
    fds[0] = ask_waiting(f, "LabelValues", "\r\nX-Scope-OrgID: a", LABELS, false);
    fds[1] = ask_waiting(f, "LabelValues", "\r\nX-Scope-OrgID: b", LABELS, false);
    fds[2] = ask_waiting(f, "LabelValues", "\r\nX-Scope-OrgID: a|b", LABELS, false);
    fds[3] = ask_waiting(f, "LabelValues", "\r\nX-Scope-OrgID: a", LABELS, true);
    let_go(&hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        expect_answer(f, fds[i], 200, "{}", i == 3);
    hold_free(&hold);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* The client of the first one disconnects; its question is answered for the others, if any. */
static void a_client_that_leaves_takes_nobody_along(void **state)
{
    struct querier_served *f = *state;
    struct hold hold;
    int left, alone, stayed;

    SERIES(&f->peers[0], "pod=a");
    SERIES(&f->peers[1], "pod=b");
    hold_worker(f, &hold);
    left = ask_waiting(f, "LabelValues", "", LABELS, false);
    stayed = ask_waiting(f, "LabelValues", "", LABELS, true);
    alone = ask_waiting(f, "LabelNames", "", "{" WHEN "}", false);
    close(left);
    close(alone);
    /* Twice: what the loop has found in one turn it has handled in the next one. */
    for (int i = 0; i < 2; i++)
        fg_loop_call(f->served.loop, nothing, NULL);
    let_go(&hold);
    expect_answer(f, stayed, 200, LABELS_WANT, true);
    assert_int_equal(f->peers[0].calls[FG_RPC_SERIES], 1);
    hold_free(&hold);
}

/* The first one has less time, and none left when the worker comes to it. */
static void a_deadline_is_of_one_client(void **state)
{
    struct querier_served *f = *state;
    struct hold hold;
    int hasty, patient;

    SERIES(&f->peers[0], "pod=a");
    SERIES(&f->peers[1], "pod=b");
    hold_worker(f, &hold);
    hasty = ask_waiting(f, "LabelValues", "\r\nConnect-Timeout-Ms: 20000", LABELS, false);
    patient = ask_waiting(f, "LabelValues", "\r\nConnect-Timeout-Ms: 40000", LABELS, true);
    f->clock.mono_ns += 21 * FG_SECOND_NS;
    let_go(&hold);
    expect_answer(f, hasty, 504, NULL, false);
    expect_answer(f, patient, 200, LABELS_WANT, false); /* it was asked again, for itself */
    hold_free(&hold);
}

static void a_failure_is_told_to_all(void **state)
{
    struct querier_served *f = *state;
    struct hold hold;
    int fds[2];

    hold_worker(f, &hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        fds[i] =
            ask_waiting(f, "LabelValues", "", "{\"name\":\"pod\",\"start\":2,\"end\":1}", i > 0);
    let_go(&hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        expect_answer(f, fds[i], 400, INVALID("query start time is after end time"), i > 0);
    hold_free(&hold);
}

/* Large enough to be compressed, for both by the same job. */
static void a_compressed_answer_is_shared(void **state)
{
    struct querier_served *f = *state;
    struct hold hold;
    char sets[400][16];
    const char *texts[FG_COUNT(sets)];
    struct fg_buf first;
    int fds[2];

    for (size_t i = 0; i < FG_COUNT(sets); i++) {
        (void)snprintf(sets[i], sizeof sets[i], "pod=name-%zu", i);
        texts[i] = sets[i];
    }
    querier_answer_series(&f->peers[0], texts, FG_COUNT(texts));
    querier_answer_series(&f->peers[1], texts, FG_COUNT(texts));
    hold_worker(f, &hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        fds[i] = ask_waiting(f, "LabelValues", "\r\nAccept-Encoding: gzip", LABELS, i > 0);
    let_go(&hold);
    fg_buf_init(&first, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(fds); i++) {
        struct fg_buf *answer = &f->served.answer;
        size_t head;

        expect_answer(f, fds[i], 200, NULL, i > 0);
        assert_true(querier_head_has(f, "Content-Encoding: gzip"));
        assert_true(querier_head_has(f, "Vary: Accept-Encoding"));
        head = (size_t)(querier_body(f) - (const char *)answer->ptr);
        if (i == 0)
            fg_buf_append(&first, answer->ptr + head, answer->len - head);
        else
            assert_true(fg_slice_eq(fg_buf_slice(&first),
                                    fg_bytes(answer->ptr + head, answer->len - head)));
    }
    fg_buf_done(&first);
    hold_free(&hold);
}

#define WITH(test, setup) cmocka_unit_test_setup_teardown(test, setup, querier_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(what_waits_and_asks_the_same_is_asked_once, querier_setup_one_worker),
        WITH(what_differs_is_asked_for_itself, querier_setup_one_worker),
        WITH(tenants_never_share_an_answer, querier_setup_tenants),
        WITH(a_client_that_leaves_takes_nobody_along, querier_setup_one_worker),
        WITH(a_deadline_is_of_one_client, querier_setup_one_worker),
        WITH(a_failure_is_told_to_all, querier_setup_one_worker),
        WITH(a_compressed_answer_is_shared, querier_setup_one_worker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
