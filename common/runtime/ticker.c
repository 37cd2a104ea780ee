#include "common/runtime/ticker.h"

#include "common/base/time.h"
#include "common/runtime/thread.h"

struct fg_ticker {
    struct fg_ticker_config config;
    struct fg_thread thread;
    bool asked; /* for the next call at once. Of the thread's lock */
};

/* Waits for the period or a wake. Returns false if the ticker has to end. */
static bool wait_for_turn(struct fg_ticker *ticker)
{
    int64_t until_ns = fg_mono_ns(fg_clock_real()) + ticker->config.period_ns;
    bool stop;

    fg_thread_lock(&ticker->thread);
    while (!ticker->thread.stop && !ticker->asked)
        if (!fg_thread_sleep(&ticker->thread, until_ns))
            break;
    /* Before the tick: a wake during the tick causes another one. */
    ticker->asked = false;
    stop = ticker->thread.stop;
    fg_thread_unlock(&ticker->thread);
    return !stop;
}

static void run(void *arg)
{
    struct fg_ticker *ticker = arg;

    while (wait_for_turn(ticker))
        ticker->config.tick(ticker->config.arg);
}

enum fg_code fg_ticker_create(const struct fg_ticker_config *config, struct fg_ticker **ret_ticker,
                              struct fg_err *err)
{
    struct fg_ticker *ticker = fg_new(struct fg_ticker);

    ticker->config = *config;
    fg_thread_init(&ticker->thread);
    if (fg_thread_start(&ticker->thread, config->name, run, ticker, err) != FG_OK) {
        fg_thread_done(&ticker->thread);
        free(ticker);
        return err->code;
    }
    *ret_ticker = ticker;
    return FG_OK;
}

void fg_ticker_wake(struct fg_ticker *ticker)
{
    fg_thread_lock(&ticker->thread);
    ticker->asked = true;
    fg_thread_wake(&ticker->thread);
    fg_thread_unlock(&ticker->thread);
}

void fg_ticker_destroy(struct fg_ticker *ticker)
{
    if (ticker == NULL)
        return;
    fg_thread_stop(&ticker->thread);
    fg_thread_done(&ticker->thread);
    free(ticker);
}
