/* For code that waits: one request, a wave of them, all pages of a list. */
#include "common/runtime/thread.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/bucket/impl.h"

#include <pthread.h>

struct wave_list {
    struct fg_bucket_request *first, *last;
};

struct fg_bucket_stop {
    pthread_mutex_t lock; /* of the list; a wave lives as long as it is in it */
    struct fg_bucket_wave *first;
    _Atomic bool stopped;
};

struct fg_bucket_wave {
    struct fg_bucket_stop *stop;              /* NULL: none; below, of its list of waves */
    struct fg_bucket_wave *before, *after_it; /* under its lock */
    /* Of all below. Never held while a request is sent, which may take as long as a disk: the
     * thread of the bucket that ends another one needs it. */
    pthread_mutex_t lock;
    pthread_cond_t ended_one;
    struct wave_list under_way, ended;
    struct fg_bucket_request *sending; /* is under way, and the bucket may not know it yet */
    bool cancelled;
    void (*on_end)(void *arg); /* NULL: no callback */
    void *arg;
};

static void list_add(struct wave_list *list, struct fg_bucket_request *request)
{
    request->before = list->last;
    request->after_it = NULL;
    if (list->last != NULL)
        list->last->after_it = request;
    else
        list->first = request;
    list->last = request;
}

static void list_remove(struct wave_list *list, struct fg_bucket_request *request)
{
    if (request->before != NULL)
        request->before->after_it = request->after_it;
    else
        list->first = request->after_it;
    if (request->after_it != NULL)
        request->after_it->before = request->before;
    else
        list->last = request->before;
}

struct fg_bucket_wave *fg_bucket_wave_create(void)
{
    struct fg_bucket_wave *wave = fg_new(struct fg_bucket_wave);
    pthread_mutexattr_t attr;

    /* Requests are cancelled under the lock, so that they do not end meanwhile on another thread,
     * and may end within: done() takes it again. */
    fg_assert(pthread_mutexattr_init(&attr) == 0 &&
              pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE) == 0 &&
              pthread_mutex_init(&wave->lock, &attr) == 0);
    (void)pthread_mutexattr_destroy(&attr);
    fg_cond_init(&wave->ended_one);
    return wave;
}

void fg_bucket_wave_on_end(struct fg_bucket_wave *wave, void (*on_end)(void *arg), void *arg)
{
    wave->on_end = on_end;
    wave->arg = arg;
}

/* Locked. */
static void ended(struct fg_bucket_wave *wave, struct fg_bucket_request *request)
{
    list_add(&wave->ended, request);
    (void)pthread_cond_signal(&wave->ended_one);
    if (wave->on_end != NULL)
        wave->on_end(wave->arg);
}

static void on_done(struct fg_bucket_request *request)
{
    struct fg_bucket_wave *wave = request->wave;

    (void)pthread_mutex_lock(&wave->lock);
    fg_assert(wave->under_way.first != NULL);
    list_remove(&wave->under_way, request);
    if (wave->sending == request)
        wave->sending = NULL;
    ended(wave, request);
    (void)pthread_mutex_unlock(&wave->lock);
}

void fg_bucket_wave_send(struct fg_bucket_wave *wave, struct fg_bucket *bucket,
                         struct fg_bucket_request *request)
{
    request->wave = wave;
    request->bucket = bucket;
    request->home = NULL;
    request->done = on_done;
    (void)pthread_mutex_lock(&wave->lock);
    if (wave->cancelled) {
        fg_bucket_clear(request);
        request->code = fg_fail(&request->err, FG_E_CANCELED, "cancelled");
        ended(wave, request);
        (void)pthread_mutex_unlock(&wave->lock);
        return;
    }
    list_add(&wave->under_way, request);
    wave->sending = request;
    (void)pthread_mutex_unlock(&wave->lock);
    fg_bucket_send(bucket, request);
    (void)pthread_mutex_lock(&wave->lock);
    /* It may have ended. If not, a cancel that came meanwhile has left it to this thread. */
    if (wave->sending == request) {
        wave->sending = NULL;
        if (wave->cancelled)
            fg_bucket_cancel(bucket, request);
    }
    (void)pthread_mutex_unlock(&wave->lock);
}

/* Locked. */
static struct fg_bucket_request *take_ended(struct fg_bucket_wave *wave)
{
    struct fg_bucket_request *request = wave->ended.first;

    if (request != NULL)
        list_remove(&wave->ended, request);
    return request;
}

struct fg_bucket_request *fg_bucket_wave_next(struct fg_bucket_wave *wave)
{
    struct fg_bucket_request *request;

    (void)pthread_mutex_lock(&wave->lock);
    while (wave->ended.first == NULL && wave->under_way.first != NULL)
        (void)pthread_cond_wait(&wave->ended_one, &wave->lock);
    request = take_ended(wave);
    (void)pthread_mutex_unlock(&wave->lock);
    return request;
}

struct fg_bucket_request *fg_bucket_wave_next_within(struct fg_bucket_wave *wave,
                                                     int64_t timeout_ns)
{
    int64_t at_ns = fg_time_add(fg_mono_ns(fg_clock_real()), timeout_ns);
    struct timespec until = {.tv_sec = at_ns / FG_SECOND_NS, .tv_nsec = at_ns % FG_SECOND_NS};
    struct fg_bucket_request *request;
    int rc = 0;

    (void)pthread_mutex_lock(&wave->lock);
    while (wave->ended.first == NULL && wave->under_way.first != NULL && rc == 0)
        rc = pthread_cond_timedwait(&wave->ended_one, &wave->lock, &until);
    request = take_ended(wave);
    (void)pthread_mutex_unlock(&wave->lock);
    return request;
}

struct fg_bucket_request *fg_bucket_wave_poll(struct fg_bucket_wave *wave)
{
    struct fg_bucket_request *request;

    (void)pthread_mutex_lock(&wave->lock);
    request = take_ended(wave);
    (void)pthread_mutex_unlock(&wave->lock);
    return request;
}

/* Locked. A request that has ended leaves the list under the same lock, so none of these is gone.
 * One that is being sent is left to the thread that sends it: sending resets the mark. */
static void cancel_all(struct fg_bucket_wave *wave)
{
    struct fg_bucket_request *next;

    for (struct fg_bucket_request *at = wave->under_way.first; at != NULL; at = next) {
        next = at->after_it; /* it may end within, and is in the other list then */
        if (at != wave->sending)
            fg_bucket_cancel(at->bucket, at);
    }
}

void fg_bucket_wave_cancel(struct fg_bucket_wave *wave)
{
    (void)pthread_mutex_lock(&wave->lock);
    wave->cancelled = true;
    cancel_all(wave);
    (void)pthread_mutex_unlock(&wave->lock);
}

static const struct fg_bucket_request *first_failed(const struct fg_bucket_wave *wave)
{
    for (const struct fg_bucket_request *at = wave->ended.first; at != NULL; at = at->after_it)
        if (at->code != FG_OK)
            return at;
    return NULL;
}

enum fg_code fg_bucket_wave_wait(struct fg_bucket_wave *wave, struct fg_err *err)
{
    const struct fg_bucket_request *failed = NULL;

    (void)pthread_mutex_lock(&wave->lock);
    for (;;) {
        /* Waits for the others too: the bucket uses their requests and buffers until they end. */
        if (failed == NULL && (failed = first_failed(wave)) != NULL)
            cancel_all(wave);
        if (wave->under_way.first == NULL)
            break;
        (void)pthread_cond_wait(&wave->ended_one, &wave->lock);
    }
    (void)pthread_mutex_unlock(&wave->lock);
    if (failed == NULL)
        return FG_OK;
    *err = failed->err;
    return failed->code;
}

/* ---- stops ---- */

struct fg_bucket_stop *fg_bucket_stop_create(void)
{
    struct fg_bucket_stop *stop = fg_new(struct fg_bucket_stop);

    (void)pthread_mutex_init(&stop->lock, NULL);
    return stop;
}

void fg_bucket_stop_destroy(struct fg_bucket_stop *stop)
{
    if (stop == NULL)
        return;
    fg_assert(stop->first == NULL);
    (void)pthread_mutex_destroy(&stop->lock);
    free(stop);
}

void fg_bucket_stop_all(struct fg_bucket_stop *stop)
{
    (void)pthread_mutex_lock(&stop->lock);
    atomic_store(&stop->stopped, true);
    for (struct fg_bucket_wave *at = stop->first; at != NULL; at = at->after_it)
        fg_bucket_wave_cancel(at);
    (void)pthread_mutex_unlock(&stop->lock);
}

bool fg_bucket_stopped(const struct fg_bucket_stop *stop)
{
    return stop != NULL && atomic_load_explicit(&stop->stopped, memory_order_relaxed);
}

static void attach(struct fg_bucket_wave *wave, struct fg_bucket_stop *stop)
{
    (void)pthread_mutex_lock(&stop->lock);
    wave->stop = stop;
    wave->after_it = stop->first;
    if (stop->first != NULL)
        stop->first->before = wave;
    stop->first = wave;
    if (atomic_load(&stop->stopped))
        fg_bucket_wave_cancel(wave); /* before it sends: nothing is sent then */
    (void)pthread_mutex_unlock(&stop->lock);
}

static void detach(struct fg_bucket_wave *wave)
{
    (void)pthread_mutex_lock(&wave->stop->lock);
    if (wave->before != NULL)
        wave->before->after_it = wave->after_it;
    else
        wave->stop->first = wave->after_it;
    if (wave->after_it != NULL)
        wave->after_it->before = wave->before;
    (void)pthread_mutex_unlock(&wave->stop->lock);
}

struct fg_bucket_wave *fg_bucket_wave_create_until(struct fg_bucket_stop *stop)
{
    struct fg_bucket_wave *wave = fg_bucket_wave_create();

    if (stop != NULL)
        attach(wave, stop);
    return wave;
}

void fg_bucket_wave_destroy(struct fg_bucket_wave *wave)
{
    if (wave == NULL)
        return;
    if (wave->stop != NULL)
        detach(wave);
    fg_bucket_wave_cancel(wave);
    while (fg_bucket_wave_next(wave) != NULL)
        continue;
    (void)pthread_cond_destroy(&wave->ended_one);
    (void)pthread_mutex_destroy(&wave->lock);
    free(wave);
}

/* ---- one request, all pages of a list ---- */

enum fg_code fg_bucket_call(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    return fg_bucket_call_until(bucket, request, NULL);
}

enum fg_code fg_bucket_call_until(struct fg_bucket *bucket, struct fg_bucket_request *request,
                                  struct fg_bucket_stop *stop)
{
    fg_auto(fg_bucket_wave) *wave = fg_bucket_wave_create_until(stop);

    fg_bucket_wave_send(wave, bucket, request);
    (void)fg_bucket_wave_next(wave);
    return request->code;
}

enum fg_code fg_bucket_each(struct fg_bucket *bucket, const char *prefix, bool by_folder,
                            int64_t deadline_mono_ns,
                            bool (*each)(const struct fg_bucket_entry *entry, void *arg), void *arg,
                            struct fg_err *err)
{
    return fg_bucket_each_until(bucket, prefix, by_folder, deadline_mono_ns, NULL, each, arg, err);
}

enum fg_code fg_bucket_each_until(struct fg_bucket *bucket, const char *prefix, bool by_folder,
                                  int64_t deadline_mono_ns, struct fg_bucket_stop *stop,
                                  bool (*each)(const struct fg_bucket_entry *entry, void *arg),
                                  void *arg, struct fg_err *err)
{
    struct fg_bucket_request pages[2] = {0};
    bool go_on = true;
    enum fg_code code = FG_OK;

    /* Two, in turn: `after` is in what the page before holds. */
    for (unsigned i = 0; go_on; i ^= 1) {
        struct fg_bucket_request *page = &pages[i];

        page->verb = FG_BUCKET_LIST;
        page->name = prefix;
        page->by_folder = by_folder;
        page->after = pages[i ^ 1].next;
        page->deadline_mono_ns = deadline_mono_ns;
        code = fg_bucket_call_until(bucket, page, stop);
        if (code != FG_OK) {
            *err = page->err;
            break;
        }
        /* Such a list would have no end. */
        if (page->next != NULL && page->after != NULL && strcmp(page->next, page->after) == 0) {
            code = fg_bucket_fail(page, FG_E_CORRUPT, "a page says that it follows itself");
            *err = page->err;
            break;
        }
        for (size_t k = 0; go_on && k < page->n_entries; k++)
            go_on = each(&page->entries[k], arg);
        go_on = go_on && page->next != NULL;
    }
    fg_bucket_clear(&pages[0]);
    fg_bucket_clear(&pages[1]);
    return code;
}
