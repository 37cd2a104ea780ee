/* GET /metrics over real HTTP, next to a hook that blocks for as long as the test likes. */
#include "common/net/metrics_page.h"
#include "tests/lib/http_run.h"
#include "tests/lib/served.h"

#include <libdeflate.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

#define TEST_METRICS(M) M(GAUGE, T_SCRAPES, "test_scrapes", "How often the hook was called.")
FG_METRICS_ENUM(test_metric, TEST_METRICS)
FG_METRICS_TABLE(test_metrics, TEST_METRICS)

struct fixture {
    struct served served;
    struct fg_metrics_page *page;
    struct fg_metrics *metrics;
    sem_t gate; /* the hook passes through it; 0: closed */
    _Atomic int calls;
};

static void on_scrape(void *arg)
{
    struct fixture *f = arg;

    fg_metric_set(f->metrics, T_SCRAPES, atomic_fetch_add(&f->calls, 1) + 1);
    while (sem_wait(&f->gate) != 0)
        continue;
    (void)sem_post(&f->gate);
}

static int setup(void **state)
{
    static const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_BACKGROUND] = {.threads = 1, .queue_max = 1}};
    struct fixture *f = fg_new(struct fixture);

    fg_assert(sem_init(&f->gate, 0, 1) == 0);
    served_open(&f->served, lanes);
    f->metrics = fg_metrics_register(f->served.registry, test_metrics, FG_COUNT(test_metrics));
    fg_registry_on_scrape(f->served.registry, on_scrape, f);
    f->page = fg_metrics_page_create(f->served.registry, f->served.work);
    fg_metrics_page_route(f->page, f->served.server);
    fg_http_server_route(f->served.server, &(struct fg_http_route){.methods = FG_HTTP_GET,
                                                                   .path = "/echo",
                                                                   .handler = run_echo,
                                                                   .kind = FG_HTTP_READS,
                                                                   .scopes = FG_SCOPE_READ});
    served_start(&f->served);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    fg_http_server_stop(f->served.server);
    fg_metrics_page_stop(f->page);
    fg_metrics_page_destroy(f->page);
    served_stop(&f->served);
    served_close(&f->served);
    (void)sem_destroy(&f->gate);
    free(f);
    return 0;
}

static void wait_calls(struct fixture *f, int calls)
{
    for (int i = 0; i < 20000 && atomic_load(&f->calls) < calls; i++)
        (void)usleep(1000);
    assert_int_equal(atomic_load(&f->calls), calls);
}

static int ask_metrics(const struct fixture *f)
{
    int fd = run_client_of(fg_http_server_port(f->served.server));

    run_say(fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return fd;
}

/* Many ask while a text is being made, and the loop serves others: all get that one text. */
static void all_waiting_scrapes_share_one_text(void **state)
{
    enum { ASKERS = 20 };
    struct fixture *f = *state;
    int fds[ASKERS], other = run_client_of(fg_http_server_port(f->served.server));

    assert_int_equal(sem_wait(&f->gate), 0);
    for (size_t i = 0; i < ASKERS; i++)
        fds[i] = ask_metrics(f);
    wait_calls(f, 1);
    run_say(other, "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
    run_expect(other, 200, "1 /echo ");
    (void)close(other);
    run_expect_silence(fds[0], 0);
    (void)sem_post(&f->gate);
    for (size_t i = 0; i < ASKERS; i++) {
        struct run_answer answer;

        assert_true(run_hear(fds[i], &answer));
        assert_int_equal(answer.status, 200);
        assert_non_null(strstr(answer.head, "Content-Type: text/plain; version=0.0.4"));
        assert_non_null(strstr((char *)answer.body, "\ntest_scrapes 1\n"));
        free(answer.body);
        (void)close(fds[i]);
    }
}

/* Within a second it is the same one; later it is another. */
static void a_metrics_text_is_reused_for_a_second(void **state)
{
    struct fixture *f = *state;
    int64_t start_ns = fg_mono_ns(fg_clock_real());

    while (atomic_load(&f->calls) < 2) {
        assert_int_equal(served_ask(&f->served, "GET /metrics HTTP/1.1", NULL), 200);
        (void)usleep(10000);
    }
    assert_true(fg_mono_ns(fg_clock_real()) - start_ns >= FG_SECOND_NS);
}

static void metrics_are_compressed_if_the_client_accepts_it(void **state)
{
    struct fixture *f = *state;
    struct libdeflate_decompressor *inflate = libdeflate_alloc_decompressor();
    struct run_answer answer;
    size_t len;
    char text[65536];
    int fd = run_client_of(fg_http_server_port(f->served.server));

    run_say(fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_true(run_hear(fd, &answer));
    assert_non_null(strstr(answer.head, "Content-Encoding: gzip\r\n"));
    assert_int_equal(
        libdeflate_gzip_decompress(inflate, answer.body, answer.len, text, sizeof text - 1, &len),
        LIBDEFLATE_SUCCESS);
    text[len] = '\0';
    assert_non_null(strstr(text, "\ntest_scrapes 1\n"));
    free(answer.body);
    run_say(fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip;q=0\r\n\r\n");
    assert_true(run_hear(fd, &answer));
    assert_null(strstr(answer.head, "Content-Encoding"));
    free(answer.body);
    (void)close(fd);
    libdeflate_free_decompressor(inflate);
}

static void *open_gate(void *arg)
{
    struct fixture *f = arg;

    (void)usleep(100000);
    atomic_store(&f->calls, 100); /* as the hook cannot: it is inside */
    (void)sem_post(&f->gate);
    return NULL;
}

/* What hooks look at may be destroyed after stop: none is at work then. */
static void stop_waits_for_the_text(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    int fd;

    assert_int_equal(sem_wait(&f->gate), 0);
    fd = ask_metrics(f);
    wait_calls(f, 1);
    (void)close(fd); /* nobody waits for it any more */
    assert_int_equal(pthread_create(&thread, NULL, open_gate, f), 0);
    fg_metrics_page_stop(f->page);
    assert_int_equal(atomic_load(&f->calls), 100);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_waiting_scrapes_share_one_text, setup, teardown),
        cmocka_unit_test_setup_teardown(a_metrics_text_is_reused_for_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(metrics_are_compressed_if_the_client_accepts_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(stop_waits_for_the_text, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
