#include "tests/lib/bucket_hold.h"

#include "common/storage/bucket/impl.h"

#include <string.h>
#include <unistd.h>

static void hold_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct bucket_hold *hold = fg_container(bucket, struct bucket_hold, bucket);
    bool holds;

    (void)pthread_mutex_lock(&hold->lock);
    holds = hold->prefix != NULL && request->verb == hold->verb &&
            fg_slice_starts(fg_cstr(request->name == NULL ? "" : request->name), hold->prefix);
    holds = holds || (hold->nth > 0 && --hold->nth == 0);
    if (holds) {
        hold->held = request;
        hold->prefix = NULL;
    }
    (void)pthread_mutex_unlock(&hold->lock);
    if (!holds)
        hold->inner->ops->send(hold->inner, request);
}

/* The caller may hold a lock that done() takes, so the request is ended elsewhere. */
static void hold_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct bucket_hold *hold = fg_container(bucket, struct bucket_hold, bucket);
    bool held;

    (void)pthread_mutex_lock(&hold->lock);
    held = hold->held == request;
    hold->cancelled |= held;
    (void)pthread_mutex_unlock(&hold->lock);
    if (!held)
        hold->inner->ops->cancel(hold->inner, request);
}

static void hold_close(struct fg_bucket *bucket)
{
    (void)bucket;
}

void bucket_hold_init(struct bucket_hold *hold, struct fg_bucket *inner)
{
    static const struct fg_bucket_ops ops = {hold_send, hold_cancel, hold_close};

    *hold = (struct bucket_hold){.bucket = {.ops = &ops, .wraps = inner}, .inner = inner};
    (void)pthread_mutex_init(&hold->lock, NULL);
}

void bucket_hold_done(struct bucket_hold *hold)
{
    (void)pthread_mutex_destroy(&hold->lock);
}

void bucket_hold_next(struct bucket_hold *hold, enum fg_bucket_verb verb, const char *prefix)
{
    (void)pthread_mutex_lock(&hold->lock);
    hold->verb = verb;
    hold->prefix = prefix;
    hold->cancelled = false;
    (void)pthread_mutex_unlock(&hold->lock);
}

void bucket_hold_nth(struct bucket_hold *hold, unsigned n)
{
    (void)pthread_mutex_lock(&hold->lock);
    hold->nth = n;
    hold->cancelled = false;
    (void)pthread_mutex_unlock(&hold->lock);
}

static bool is_held(struct bucket_hold *hold, bool *ret_cancelled)
{
    bool held;

    (void)pthread_mutex_lock(&hold->lock);
    held = hold->held != NULL;
    *ret_cancelled = hold->cancelled;
    (void)pthread_mutex_unlock(&hold->lock);
    return held;
}

void bucket_hold_await(struct bucket_hold *hold)
{
    bool cancelled;

    while (!is_held(hold, &cancelled))
        (void)usleep(1000);
}

bool bucket_hold_end(struct bucket_hold *hold, enum fg_code code)
{
    struct fg_bucket_request *request;
    bool cancelled;

    (void)pthread_mutex_lock(&hold->lock);
    request = hold->held;
    cancelled = hold->cancelled;
    hold->held = NULL;
    (void)pthread_mutex_unlock(&hold->lock);
    request->code = fg_fail(&request->err, code, "held");
    fg_bucket_finish(request);
    return cancelled;
}

bool bucket_hold_await_cancel(struct bucket_hold *hold)
{
    bool cancelled;

    for (int i = 0; i < 10000 && is_held(hold, &cancelled) && !cancelled; i++)
        (void)usleep(1000);
    return bucket_hold_end(hold, cancelled ? FG_E_CANCELED : FG_E_DEADLINE);
}
