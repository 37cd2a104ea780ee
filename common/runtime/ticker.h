/*
 * A ticker calls a function periodically on a thread of its own, for work that may block on a disk
 * or a peer.
 */
#ifndef FG_COMMON_RUNTIME_TICKER_H
#define FG_COMMON_RUNTIME_TICKER_H

#include "common/base/err.h"

struct fg_ticker;

struct fg_ticker_config {
    const char *name;        /* of the thread, at most 15 bytes */
    int64_t period_ns;       /* from the end of one call to the start of the next */
    void (*tick)(void *arg); /* the ticker's thread; may block */
    void *arg;
};

/* Starts the thread. The first call comes one period later. config is copied. FG_E_UNAVAILABLE: no
 * more threads. */
enum fg_code fg_ticker_create(const struct fg_ticker_config *config, struct fg_ticker **ret_ticker,
                              struct fg_err *err) fg_must_check;

/* Makes the next call start at once. During a call, it makes another call follow that one. Any
 * thread. */
void fg_ticker_wake(struct fg_ticker *ticker);

/* Waits for a call under way, makes no further calls, ends the thread and frees the ticker. Not
 * from tick(). Accepts NULL. */
void fg_ticker_destroy(struct fg_ticker *ticker);

#endif
