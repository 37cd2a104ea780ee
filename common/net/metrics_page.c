#include "common/net/metrics_page.h"

#include <libdeflate.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    TEXT_MAX_BYTES = 64 * 1024 * 1024, /* hundreds of thousands of series; usually 100 KiB */
    GZIP_LEVEL = 5,                    /* as for other answers */
    GZIP_MIN_BYTES = 1400,             /* a smaller text fits one packet */
};

#define FRESH_NS FG_SECOND_NS

/* One text, shared by all requests that are answered with it. */
struct text {
    _Atomic unsigned refs;
    struct fg_buf plain, gzip; /* gzip is empty when it would not be smaller */
};

/* A request that waits for the text being made; lives in the request's arena. */
struct page_waiter {
    struct page_waiter *next;
    struct fg_msg msg;
    struct fg_http_request *req;
    struct fg_loop *home;
    struct text *text; /* NULL: no text could be made */
};

struct fg_metrics_page {
    struct fg_registry *registry;
    struct fg_work *work;
    struct fg_clock *clock;
    struct fg_job job;
    struct text *made;    /* by the job */
    pthread_mutex_t lock; /* of all below; held only to look and to exchange pointers */
    pthread_cond_t idle;
    struct text *text; /* the last; NULL: none yet */
    int64_t made_mono_ns;
    bool making;
    struct page_waiter *waiters;
};

/* --- a text --- */

static void text_unref(struct text *text)
{
    if (text == NULL || atomic_fetch_sub(&text->refs, 1) > 1)
        return;
    fg_buf_done(&text->plain);
    fg_buf_done(&text->gzip);
    free(text);
}

static struct text *text_ref(struct text *text)
{
    (void)atomic_fetch_add(&text->refs, 1);
    return text;
}

static struct text *text_make(struct fg_registry *registry)
{
    struct text *text = fg_new(struct text);

    atomic_init(&text->refs, 1);
    fg_buf_init(&text->plain, TEXT_MAX_BYTES);
    fg_buf_init(&text->gzip, TEXT_MAX_BYTES);
    fg_registry_write(registry, &text->plain);
    if (text->plain.len >= GZIP_MIN_BYTES) {
        struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(GZIP_LEVEL);

        fg_assert(compressor != NULL);
        fg_assert(fg_buf_reserve(&text->gzip, text->plain.len));
        text->gzip.len = libdeflate_gzip_compress(compressor, text->plain.ptr, text->plain.len,
                                                  text->gzip.ptr, text->plain.len - 1);
        libdeflate_free_compressor(compressor);
    }
    return text;
}

/* --- answers, on the loop --- */

static void respond(struct fg_http_request *req, const struct text *text)
{
    bool gzip = text->gzip.len > 0 && fg_http_takes_gzip(req);
    const struct fg_buf *from = gzip ? &text->gzip : &text->plain;
    struct fg_buf body;

    fg_http_no_coding(req); /* compression by the server would wait behind queries */
    fg_http_add_header(req, "Vary", "Accept-Encoding");
    if (gzip)
        fg_http_add_header(req, "Content-Encoding", "gzip");
    fg_buf_init(&body, from->len);
    fg_buf_put(&body, fg_buf_slice(from));
    fg_http_respond(req, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

static void on_made(struct fg_msg *msg)
{
    struct page_waiter *waiter = fg_container(msg, struct page_waiter, msg);
    struct text *text = waiter->text;

    if (text == NULL) {
        /* Frees the waiter with its arena. */
        struct fg_err err;

        (void)fg_fail(&err, FG_E_UNAVAILABLE, "the server is stopping");
        fg_http_respond_error(waiter->req, &err);
    } else {
        respond(waiter->req, text);
    }
    text_unref(text);
}

/* --- making it --- */

/* Answers all waiters with the text, whose reference it takes. NULL: refuses them. */
static void give(struct fg_metrics_page *page, struct text *text)
{
    struct page_waiter *waiters;
    struct text *before = NULL;

    pthread_mutex_lock(&page->lock);
    waiters = page->waiters;
    page->waiters = NULL;
    if (text != NULL) {
        before = page->text;
        page->text = text_ref(text);
        page->made_mono_ns = fg_mono_ns(page->clock);
    }
    page->making = false;
    pthread_cond_broadcast(&page->idle);
    pthread_mutex_unlock(&page->lock);
    /* From here on fg_metrics_page_stop() may return and the page be destroyed. */
    while (waiters != NULL) {
        struct page_waiter *waiter = waiters;

        waiters = waiter->next;
        waiter->text = text == NULL ? NULL : text_ref(text);
        waiter->msg.run = on_made;
        fg_loop_post(waiter->home, &waiter->msg);
    }
    text_unref(before);
    text_unref(text);
}

static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    struct fg_metrics_page *page = fg_container(job, struct fg_metrics_page, job);

    (void)err;
    page->made = text_make(page->registry);
    return FG_OK;
}

/* Runs on the worker, too. Only here the job is free to be submitted again. */
static void done(struct fg_job *job)
{
    struct fg_metrics_page *page = fg_container(job, struct fg_metrics_page, job);

    give(page, page->made);
}

static void get_metrics(struct fg_http_request *req, void *arg)
{
    struct fg_metrics_page *page = arg;
    struct page_waiter *waiter;
    struct text *text = NULL;
    bool make = false;

    pthread_mutex_lock(&page->lock);
    if (page->text != NULL && fg_mono_ns(page->clock) - page->made_mono_ns < FRESH_NS) {
        text = text_ref(page->text);
    } else {
        waiter = fg_arena_new(fg_http_arena(req), struct page_waiter, 1);
        fg_assert(waiter != NULL); /* the first thing in an arena of a MiB */
        *waiter =
            (struct page_waiter){.next = page->waiters, .req = req, .home = fg_http_loop(req)};
        page->waiters = waiter;
        make = !page->making;
        page->making = true;
    }
    pthread_mutex_unlock(&page->lock);
    if (text != NULL)
        respond(req, text);
    else if (make && !fg_work_submit(page->work, FG_LANE_BACKGROUND, &page->job))
        give(page, NULL);
    text_unref(text);
}

/* --- life --- */

struct fg_metrics_page *fg_metrics_page_create(struct fg_registry *registry, struct fg_work *work)
{
    struct fg_metrics_page *page = fg_new(struct fg_metrics_page);

    page->registry = registry;
    page->work = work;
    page->clock = fg_clock_real();
    page->job = (struct fg_job){.run = run, .done = done};
    fg_assert(pthread_mutex_init(&page->lock, NULL) == 0);
    fg_assert(pthread_cond_init(&page->idle, NULL) == 0);
    return page;
}

void fg_metrics_page_stop(struct fg_metrics_page *page)
{
    if (page == NULL)
        return;
    pthread_mutex_lock(&page->lock);
    while (page->making)
        pthread_cond_wait(&page->idle, &page->lock);
    pthread_mutex_unlock(&page->lock);
}

void fg_metrics_page_destroy(struct fg_metrics_page *page)
{
    if (page == NULL)
        return;
    fg_assert(!page->making);
    text_unref(page->text);
    (void)pthread_cond_destroy(&page->idle);
    (void)pthread_mutex_destroy(&page->lock);
    free(page);
}

void fg_metrics_page_route(struct fg_metrics_page *page, struct fg_http_server *server)
{
    fg_http_server_route(server,
                         &(struct fg_http_route){.methods = FG_HTTP_GET,
                                                 .path = "/metrics",
                                                 .handler = get_metrics,
                                                 .kind = FG_HTTP_READS,
                                                 .scopes = FG_SCOPE_METRICS | FG_SCOPE_ADMIN,
                                                 .arg = page});
}
