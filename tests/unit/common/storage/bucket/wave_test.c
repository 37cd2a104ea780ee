/* Requests of which many are under way, on buckets that do not answer, answer late, or never end.
 * What holds for every bucket is in bucket_test.c. */
#include "common/storage/bucket/bucket.h"
#include "common/storage/bucket/impl.h"
#include "tests/lib/bucket_doubles.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

/* --- lists --- */

/* A store whose page says that it follows itself. */
static void send_same_page(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    (void)bucket;
    (void)fg_bucket_list_add(request, FG_LIT("same"), false);
    fg_bucket_list_next(request, FG_LIT("token"));
    fg_bucket_finish(request);
}

static bool count_few(const struct fg_bucket_entry *entry, void *arg)
{
    (void)entry;
    return ++*(size_t *)arg < 10;
}

static void list_that_does_not_proceed_is_an_error(void **state)
{
    static const struct fg_bucket_ops ops = {.send = send_same_page};
    struct fg_bucket bucket = {.ops = &ops};
    struct fg_err err;
    size_t count = 0;

    (void)state;
    assert_int_equal(fg_bucket_each(&bucket, "", false, 0, count_few, &count, &err), FG_E_CORRUPT);
    assert_int_equal(count, 1);
}

/* A store whose list has a page for each letter. */
struct letters {
    struct fg_bucket bucket;
    struct fg_bucket_stop *stop;
    unsigned pages;
    size_t stop_at; /* the page whose entry stops the list */
};

static void send_letter(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct letters *letters = fg_container(bucket, struct letters, bucket);
    char name[] = {request->after == NULL ? 'a' : (char)(request->after[0] + 1), '\0'};

    letters->pages++;
    (void)fg_bucket_list_add(request, fg_cstr(name), false);
    if (name[0] != 'z')
        fg_bucket_list_next(request, fg_cstr(name));
    fg_bucket_finish(request);
}

static bool stop_list(const struct fg_bucket_entry *entry, void *arg)
{
    struct letters *letters = arg;

    (void)entry;
    if (letters->pages == letters->stop_at)
        fg_bucket_stop_all(letters->stop);
    return true;
}

static void a_list_that_is_stopped_asks_for_no_further_page(void **state)
{
    static const struct fg_bucket_ops ops = {.send = send_letter};
    static const struct {
        size_t stop_at;
        unsigned pages;
        enum fg_code code;
    } cases[] = {{0, 26, FG_OK}, {1, 1, FG_E_CANCELED}, {2, 2, FG_E_CANCELED}, {26, 26, FG_OK}};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct letters letters = {
            .bucket = {.ops = &ops}, .stop = fg_bucket_stop_create(), .stop_at = cases[i].stop_at};
        struct fg_err err;

        assert_int_equal(fg_bucket_each_until(&letters.bucket, "", false, 0, letters.stop,
                                              stop_list, &letters, &err),
                         cases[i].code);
        assert_int_equal(letters.pages, cases[i].pages);
        fg_bucket_stop_destroy(letters.stop);
    }
}

/* --- calls and waves --- */

/* A bucket that does not answer. */
struct hanging {
    struct fg_bucket bucket;
    _Atomic(struct fg_bucket_request *) request; /* that waits */
};

static void hanging_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    atomic_store(&fg_container(bucket, struct hanging, bucket)->request, request);
}

static void hanging_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    (void)bucket;
    request->code = fg_fail(&request->err, FG_E_CANCELED, "cancelled");
    request->done(request);
}

struct caller {
    struct fg_bucket *bucket;
    struct fg_bucket_stop *stop;
    struct fg_bucket_request request;
};

static void *call_until(void *arg)
{
    struct caller *caller = arg;

    (void)fg_bucket_call_until(caller->bucket, &caller->request, caller->stop);
    return NULL;
}

static void calls_are_stopped(void **state)
{
    static const struct fg_bucket_ops ops = {hanging_send, hanging_cancel, NULL};
    struct fg_bucket *memory = fg_bucket_memory();
    struct hanging hanging = {.bucket.ops = &ops};
    struct caller caller = {.bucket = &hanging.bucket,
                            .stop = fg_bucket_stop_create(),
                            .request = {.verb = FG_BUCKET_HEAD, .name = "a"}};
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = "a", .content = fg_cstr("a")};
    pthread_t thread;

    (void)state;
    assert_int_equal(fg_bucket_call_until(memory, &put, caller.stop), FG_OK);
    assert_int_equal(pthread_create(&thread, NULL, call_until, &caller), 0);
    while (atomic_load(&hanging.request) == NULL)
        (void)sched_yield();
    fg_bucket_stop_all(caller.stop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(caller.request.code, FG_E_CANCELED);
    atomic_store(&hanging.request, NULL);
    assert_int_equal(fg_bucket_call_until(&hanging.bucket, &caller.request, caller.stop),
                     FG_E_CANCELED);
    assert_null(atomic_load(&hanging.request)); /* nothing is sent any more */
    fg_bucket_clear(&put);
    fg_bucket_close(memory);
    fg_bucket_stop_destroy(caller.stop);
}

static void count_end(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* A bucket that sends "slow" only after the test says so. */
struct slow_sender {
    struct fg_bucket bucket;
    _Atomic(struct fg_bucket_request *)
        waiting; /* of other names, which are answered by the test */
    atomic_bool sending, may_send, cancelled;
};

static void slow_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct slow_sender *slow = fg_container(bucket, struct slow_sender, bucket);

    if (strcmp(request->name, "slow") != 0) {
        atomic_store(&slow->waiting, request);
        return;
    }
    atomic_store(&slow->sending, true);
    while (!atomic_load(&slow->may_send))
        (void)sched_yield();
}

static void slow_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct slow_sender *slow = fg_container(bucket, struct slow_sender, bucket);

    assert_true(atomic_load(&slow->may_send)); /* never before the bucket has got it */
    atomic_store(&slow->cancelled, true);
    request->code = fg_fail(&request->err, FG_E_CANCELED, "cancelled");
    request->done(request);
}

struct wave_sender {
    struct fg_bucket_wave *wave;
    struct fg_bucket *bucket;
    struct fg_bucket_request request;
};

static void *send_in_wave(void *arg)
{
    struct wave_sender *sender = arg;

    fg_bucket_wave_send(sender->wave, sender->bucket, &sender->request);
    return NULL;
}

static void *end_request(void *arg)
{
    struct fg_bucket_request *request = arg;

    request->done(request);
    return NULL;
}

/* While one request of a wave is being sent, which may take as long as a disk, another one ends, on
 * the thread that all requests of the process need, and the wave is cancelled. */
static void a_send_that_blocks_holds_up_no_other_thread(void **state)
{
    static const struct fg_bucket_ops ops = {slow_send, slow_cancel, NULL};
    struct slow_sender slow = {.bucket.ops = &ops};
    struct fg_bucket_wave *wave = fg_bucket_wave_create();
    struct fg_bucket_request other = {.verb = FG_BUCKET_HEAD, .name = "other"};
    struct wave_sender sender = {
        .wave = wave, .bucket = &slow.bucket, .request = {.verb = FG_BUCKET_HEAD, .name = "slow"}};
    atomic_uint ends = 0;
    pthread_t sending, ending;

    (void)state;
    fg_bucket_wave_on_end(wave, count_end, &ends);
    fg_bucket_wave_send(wave, &slow.bucket, &other);
    assert_int_equal(pthread_create(&sending, NULL, send_in_wave, &sender), 0);
    while (!atomic_load(&slow.sending))
        (void)sched_yield();
    assert_int_equal(pthread_create(&ending, NULL, end_request, atomic_load(&slow.waiting)), 0);
    for (int i = 0; i < 10000 && atomic_load(&ends) == 0; i++)
        (void)usleep(1000);
    assert_int_equal(atomic_load(&ends), 1);
    fg_bucket_wave_cancel(wave);
    assert_false(atomic_load(&slow.cancelled));
    atomic_store(&slow.may_send, true);
    assert_int_equal(pthread_join(sending, NULL), 0);
    assert_int_equal(pthread_join(ending, NULL), 0);
    assert_true(atomic_load(&slow.cancelled));
    assert_ptr_equal(fg_bucket_wave_next(wave), &other);
    assert_ptr_equal(fg_bucket_wave_next(wave), &sender.request);
    assert_int_equal(sender.request.code, FG_E_CANCELED);
    fg_bucket_wave_destroy(wave);
}

static void a_wait_for_a_wave_ends_in_time(void **state)
{
    static const struct fg_bucket_ops ops = {hanging_send, hanging_cancel, NULL};
    struct hanging hanging = {.bucket.ops = &ops};
    struct fg_bucket_wave *wave = fg_bucket_wave_create();
    struct fg_bucket_request request = {.verb = FG_BUCKET_HEAD, .name = "a"};

    (void)state;
    assert_null(fg_bucket_wave_next_within(wave, FG_HOUR_NS)); /* none is left */
    fg_bucket_wave_send(wave, &hanging.bucket, &request);
    assert_null(fg_bucket_wave_next_within(wave, FG_MS_NS));
    fg_bucket_wave_cancel(wave);
    assert_ptr_equal(fg_bucket_wave_next_within(wave, FG_HOUR_NS), &request);
    fg_bucket_wave_destroy(wave);
}

enum { STOPPED_WAVES = 3 };

/* One stop is for all threads of a service. */
static void waves_are_stopped(void **state)
{
    static const struct fg_bucket_ops ops = {hanging_send, hanging_cancel, NULL};
    struct hanging hanging[STOPPED_WAVES] = {0};
    struct fg_bucket_request requests[STOPPED_WAVES] = {0};
    struct fg_bucket_wave *waves[STOPPED_WAVES + 1];
    struct fg_bucket_stop *stop = fg_bucket_stop_create();

    (void)state;
    assert_false(fg_bucket_stopped(NULL) || fg_bucket_stopped(stop));
    for (size_t i = 0; i <= STOPPED_WAVES; i++)
        waves[i] = fg_bucket_wave_create_until(stop);
    fg_bucket_wave_destroy(waves[STOPPED_WAVES]); /* has left before */
    for (size_t i = 0; i < STOPPED_WAVES; i++) {
        hanging[i].bucket.ops = &ops;
        requests[i] = (struct fg_bucket_request){.verb = FG_BUCKET_HEAD, .name = "a"};
        fg_bucket_wave_send(waves[i], &hanging[i].bucket, &requests[i]);
    }
    fg_bucket_stop_all(stop);
    assert_true(fg_bucket_stopped(stop));
    for (size_t i = 0; i < STOPPED_WAVES; i++) {
        assert_ptr_equal(fg_bucket_wave_poll(waves[i]), &requests[i]);
        assert_int_equal(requests[i].code, FG_E_CANCELED);
    }
    fg_bucket_wave_destroy(waves[1]);
    fg_bucket_wave_destroy(waves[0]);
    fg_bucket_wave_destroy(waves[2]);
    fg_bucket_stop_destroy(stop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_that_does_not_proceed_is_an_error),
        cmocka_unit_test(a_list_that_is_stopped_asks_for_no_further_page),
        cmocka_unit_test(calls_are_stopped),
        cmocka_unit_test(a_send_that_blocks_holds_up_no_other_thread),
        cmocka_unit_test(a_wait_for_a_wave_ends_in_time),
        cmocka_unit_test(waves_are_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
