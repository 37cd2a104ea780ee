#include "common/runtime/ticker.h"

#include "common/base/time.h"

#include <pthread.h>

struct fg_ticker {
    struct fg_ticker_config config;
    pthread_t thread;
    pthread_mutex_t lock; /* of the fields below */
    pthread_cond_t wake;
    bool asked, stop;
};

/* Waits for the period or a wake. Returns false if the ticker has to end. */
static bool wait_for_turn(struct fg_ticker *ticker)
{
    int64_t until_ns = fg_mono_ns(fg_clock_real()) + ticker->config.period_ns;
    const struct timespec until = {until_ns / FG_SECOND_NS, until_ns % FG_SECOND_NS};
    bool stop;

    (void)pthread_mutex_lock(&ticker->lock);
    while (!ticker->stop && !ticker->asked)
        if (pthread_cond_timedwait(&ticker->wake, &ticker->lock, &until) != 0)
            break;
    /* Before the tick: a wake during the tick causes another one. */
    ticker->asked = false;
    stop = ticker->stop;
    (void)pthread_mutex_unlock(&ticker->lock);
    return !stop;
}

static void *run(void *arg)
{
    struct fg_ticker *ticker = arg;

    (void)pthread_setname_np(pthread_self(), ticker->config.name);
    while (wait_for_turn(ticker))
        ticker->config.tick(ticker->config.arg);
    return NULL;
}

static void ticker_free(struct fg_ticker *ticker)
{
    (void)pthread_cond_destroy(&ticker->wake);
    (void)pthread_mutex_destroy(&ticker->lock);
    free(ticker);
}

enum fg_code fg_ticker_create(const struct fg_ticker_config *config, struct fg_ticker **ret_ticker,
                              struct fg_err *err)
{
    struct fg_ticker *ticker = fg_new(struct fg_ticker);
    pthread_condattr_t monotonic;
    int failed;

    ticker->config = *config;
    (void)pthread_mutex_init(&ticker->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    /* Monotonic: a period must not depend on the wall clock. */
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&ticker->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    failed = pthread_create(&ticker->thread, NULL, run, ticker);
    if (failed != 0) {
        ticker_free(ticker);
        return fg_fail_errno(err, failed, "thread %s", config->name);
    }
    *ret_ticker = ticker;
    return FG_OK;
}

void fg_ticker_wake(struct fg_ticker *ticker)
{
    (void)pthread_mutex_lock(&ticker->lock);
    ticker->asked = true;
    (void)pthread_cond_signal(&ticker->wake);
    (void)pthread_mutex_unlock(&ticker->lock);
}

void fg_ticker_destroy(struct fg_ticker *ticker)
{
    if (ticker == NULL)
        return;
    fg_assert(!pthread_equal(pthread_self(), ticker->thread)); /* it would wait for itself */
    (void)pthread_mutex_lock(&ticker->lock);
    ticker->stop = true;
    (void)pthread_cond_signal(&ticker->wake);
    (void)pthread_mutex_unlock(&ticker->lock);
    (void)pthread_join(ticker->thread, NULL);
    ticker_free(ticker);
}
