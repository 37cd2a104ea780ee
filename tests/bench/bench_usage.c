/*
 * What usage costs where there is much of it: reading the documents of a year from a bucket that
 * takes its time, and adding one day to another that has as many services as are allowed.
 *
 *     bench_usage [DAYS [LATENCY_MS]]
 *
 * Reading is on the wall, since it waits; adding is processor time. Each next to the simple way:
 * one document after another, one row after another.
 */
#include "common/base/str.h"
#include "common/cluster/usage/documents.h"
#include "common/model/usage_day.h"
#include "tests/lib/bucket_doubles.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
    DAYS = 365,
    LATENCY_MS = 20, /* of an object store in the same region */
    SERVICES = 20,   /* of a document */
    FIRST_DAY = 20000,
    DAY_ROWS = 80000, /* together less than the rows of a document may have */
    MORE_ROWS = 40000,
    NAME_BYTES = 32,
};

/* Passes requests on after a while, as many at a time as there are. */
struct late {
    struct fg_bucket bucket;
    struct fg_bucket *inner;
    pthread_mutex_t lock; /* of inner */
    int64_t latency_ns;
};

static double seconds(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *answer_later(void *arg)
{
    struct fg_bucket_request *request = arg;
    struct late *late = fg_container(request->bucket, struct late, bucket);
    const struct timespec pause = {.tv_sec = late->latency_ns / FG_SECOND_NS,
                                   .tv_nsec = late->latency_ns % FG_SECOND_NS};

    (void)nanosleep(&pause, NULL);
    (void)pthread_mutex_lock(&late->lock);
    fg_bucket_send(late->inner, request);
    (void)pthread_mutex_unlock(&late->lock);
    return NULL;
}

static void late_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    pthread_t thread;

    (void)bucket;
    fg_assert(pthread_create(&thread, NULL, answer_later, request) == 0);
    fg_assert(pthread_detach(thread) == 0);
}

static const struct fg_bucket_ops late_ops = {.send = late_send};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code == FG_OK)
        return;
    (void)fprintf(stderr, "bench_usage: %s\n", err->msg);
    exit(1);
}

/* Adds rows of the services number first, first + step, … */
static void make_rows(struct fg_usage_day *day, uint32_t first, uint32_t step, uint32_t count,
                      struct fg_arena *arena)
{
    for (uint32_t i = 0; i < count; i++) {
        char name[NAME_BYTES];
        struct fg_usage_row row = {.profiles = 8640, .usage = {1, 2, 3, 4}, .series = 10};

        (void)snprintf(name, sizeof name, "service-%08u", first + i * step);
        row.service = fg_cstr(name);
        fg_assert(fg_usage_day_add_row(day, &row, arena));
    }
}

static enum fg_code go_on(void *arg, struct fg_err *err)
{
    (void)arg;
    (void)err;
    return FG_OK;
}

static void measure_reading(uint32_t days, int64_t latency_ns)
{
    struct fg_arena *arena = fg_arena_create((size_t)1 << 30);
    struct fg_usage_reading *readings = fg_calloc(days, sizeof *readings);
    struct late late = {.bucket.ops = &late_ops,
                        .inner = fg_bucket_memory(),
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .latency_ns = latency_ns};
    struct fg_usage_documents documents = {
        .bucket = late.inner, .clock = fg_clock_real(), .timeout_ns = FG_MINUTE_NS};
    double begin_s;
    struct fg_err err;

    for (uint32_t i = 0; i < days; i++) {
        struct fg_usage_day day = {.day = FIRST_DAY + (int32_t)i};
        struct fg_usage_document document;

        make_rows(&day, 0, 1, SERVICES, arena);
        must(fg_usage_document_next(NULL, FG_LIT("acme"), 1, &day, arena, &document, &err), &err);
        must(fg_usage_documents_write(&documents, &document, &err), &err);
        readings[i] =
            (struct fg_usage_reading){.tenant = FG_LIT("acme"), .newest = {day.day, 1, 10000}};
    }
    documents.bucket = &late.bucket;
    printf("| %u documents, %.0f ms each | s |\n|---|---|\n", days, (double)latency_ns / 1e6);
    begin_s = seconds(CLOCK_MONOTONIC);
    for (uint32_t i = 0; i < days; i++)
        must(fg_usage_documents_read(&documents, readings[i].tenant, readings[i].newest.day, 1,
                                     arena, &readings[i].document, &err),
             &err);
    printf("| one after another | %.2f |\n", seconds(CLOCK_MONOTONIC) - begin_s);
    begin_s = seconds(CLOCK_MONOTONIC);
    must(fg_usage_documents_read_all(&documents, readings, days, arena, go_on, NULL, &err), &err);
    printf("| as `/api/usage` reads them | %.2f |\n", seconds(CLOCK_MONOTONIC) - begin_s);
    for (uint32_t i = 0; i < days; i++)
        fg_assert(readings[i].document.sums.n_rows == SERVICES);
    fg_bucket_close(late.inner);
    fg_arena_destroy(arena);
    free(readings);
}

static void measure_adding(void)
{
    struct fg_arena *arena = fg_arena_create((size_t)1 << 30);
    struct fg_usage_day day = {0}, more = {0}, one_by_one, merged;
    double begin_s;

    make_rows(&day, 0, 2, DAY_ROWS, arena);
    make_rows(&more, 1, 4, MORE_ROWS, arena);
    fg_assert(fg_usage_day_copy(&one_by_one, &day, arena));
    fg_assert(fg_usage_day_copy(&merged, &day, arena));
    printf("\n| a day of %u services and one of %u others | CPU ms |\n|---|---|\n", DAY_ROWS,
           MORE_ROWS);
    begin_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (uint32_t i = 0; i < more.n_rows; i++)
        fg_assert(fg_usage_day_add_row(&one_by_one, &more.rows[i], arena));
    printf("| one row after another | %.1f |\n",
           (seconds(CLOCK_PROCESS_CPUTIME_ID) - begin_s) * 1e3);
    begin_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
    fg_assert(fg_usage_day_add(&merged, &more, arena));
    printf("| merged | %.1f |\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - begin_s) * 1e3);
    fg_assert(merged.n_rows == one_by_one.n_rows && merged.n_rows == DAY_ROWS + MORE_ROWS);
    fg_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    unsigned long days = argc > 1 ? strtoul(argv[1], NULL, 10) : DAYS;
    unsigned long latency_ms = argc > 2 ? strtoul(argv[2], NULL, 10) : LATENCY_MS;

    if (argc > 3 || days == 0 || days > 10000 || latency_ms > 10000) {
        (void)fprintf(stderr, "usage: bench_usage [DAYS [LATENCY_MS]], up to 10000 each\n");
        return 2;
    }
    measure_reading((uint32_t)days, (int64_t)latency_ms * FG_MS_NS);
    measure_adding();
    return 0;
}
