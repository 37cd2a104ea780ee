#include "querier/share/share.h"

#include "common/base/time.h"
#include "common/cluster/manifest/name.h"
#include "common/runtime/work.h"
#include "common/storage/bucket/impl.h"
#include "proto/inner.pb-c.h"
#include "querier/share/pages.h"

#include <pthread.h>
#include <sys/random.h>

enum {
    PEERS_MAX = 1024, /* as a ring has members */
    THREADS = 2,      /* they wait for the disk only; a page of the bucket comes by a callback */
};

#define CONF(field) FG_CONF_AT(struct qry_share_settings, field)

/* clang-format off */
const struct fg_conf_field qry_share_fields[] = {
    {"queriers", FG_CONF_STRING, CONF(queriers), .def = "", .max = "8000",
     .doc = "Addresses at which queriers call each other, tcp://HOST:PORT, separated by commas. Each querier caches a share of the segment and block data for all queriers, and evaluates a share of the tenants' recording rules each minute. A host name stands for all of its addresses; over TLS, such names require `rpc.tls_server_name`. Empty: each querier caches for itself only, and recording rules are evaluated when their metrics are scraped."},
    {"listen", FG_CONF_STRING, CONF(listen), .def = "tcp://127.0.0.1:4102", .min = "1",
     .doc = "Listen address for calls of other queriers. It is unused if `queriers` is empty."},
    {"cache_max_bytes", FG_CONF_BYTES, CONF(cache_max_bytes), .def = "128MiB", .min = "0",
     .doc = "Memory for the share of this querier."},
    {"requests_max", FG_CONF_UINT, CONF(requests_max), .def = "64", .min = "1", .max = "65536",
     .doc = "Concurrent reads for other queriers; also the concurrent reads from each other querier."},
    {"resolve_interval", FG_CONF_NS, CONF(resolve_interval_ns), .def = "10s", .min = "100ms", .max = "1h",
     .doc = "Interval at which the names of queriers are resolved again."},
    {"timeout", FG_CONF_NS, CONF(timeout_ns), .def = "2s", .min = "10ms", .max = "1m",
     .doc = "How long a read from another querier may take before the bucket is read instead."},
};
/* clang-format on */
const size_t qry_share_n_fields = FG_COUNT(qry_share_fields);

/* clang-format off */
#define SHARE_METRICS(M)                                                                                       \
    M(COUNTER, SHARE_OWN, "flamegrid_querier_share_reads_total{of=\"own\"}", "Reads of segments and blocks by the querier whose share they belong to") \
    M(COUNTER, SHARE_OTHERS, "flamegrid_querier_share_reads_total{of=\"another\"}", "Reads of segments and blocks by the querier whose share they belong to") \
    M(COUNTER, SHARE_FALLBACKS, "flamegrid_querier_share_fallbacks_total", "Reads made from the bucket because another querier did not respond") \
    M(COUNTER, SHARE_SERVED, "flamegrid_querier_share_served_total", "Reads served to other queriers") \
    M(GAUGE, SHARE_QUERIERS, "flamegrid_querier_share_queriers", "Queriers that share the cache, this one included") \
    M(COUNTER, SHARE_HITS, "flamegrid_querier_share_page_hits_total", "Pages found in the cache of this share") \
    M(COUNTER, SHARE_MISSES, "flamegrid_querier_share_page_misses_total", "Pages missing from the cache of this share") \
    M(GAUGE, SHARE_BYTES, "flamegrid_querier_share_cache_bytes", "Memory of the cache of this share")
/* clang-format on */
FG_METRICS_ENUM(share_metric, SHARE_METRICS)
FG_METRICS_TABLE(share_metrics, SHARE_METRICS)

struct qry_share {
    struct fg_bucket bucket; /* what queries see */
    struct qry_share_settings settings;
    struct fg_bucket *inner;
    struct fg_work *work; /* for reads of others: pages may be on the disk, which blocks */
    struct fg_clock *clock;
    struct fg_registry *registry;
    struct fg_metrics *metrics;
    struct qry_pages *pages;
    struct fg_peers *peers;
    struct fg_peer_directory *queriers;
    uint64_t start_id; /* random: tells this process in a reply */

    pthread_mutex_t lock;           /* of all below and, in a read, of `outer` to `after` */
    pthread_cond_t ended;           /* the last read has */
    struct shared_read *first_read; /* whose requests have not ended */
    size_t n_reads;                 /* that exist */
};

/* Which request of a read is with the bucket, and can be cancelled there. */
enum shared_step { SENT_NOTHING, SENT_PAGES, SENT_DIRECT };

/*
 * A read of a query. A cancel ends the request of the query at once; the read itself ends when its
 * request to the bucket has, which is cancelled as well, or the call to the owner, which cannot be
 * cancelled but is short. So the read has a copy of all that it needs of the request.
 */
struct shared_read {
    struct qry_share *share;
    _Atomic unsigned refs;           /* the steps, and whoever sends or cancels one */
    struct fg_bucket_request *outer; /* NULL: it has ended */
    bool cancelled;
    enum shared_step sent;
    struct shared_read *before, *after; /* while `outer` is there */
    char name[FG_NAME_MAX_BYTES];
    uint64_t offset, length;
    size_t content_max_bytes;
    bool fresh;
    int64_t deadline_mono_ns;
    struct fg_peer_set *set;
    struct fg_peer_set_member *member; /* the owner that is asked; NULL: this querier */
    struct fg_call call;               /* to it */
    struct qry_pages_read read;        /* of this querier's pages */
    struct fg_bucket_request direct;   /* if the member did not answer */
};

/* ---- the end ---- */

static void shared_read_unref(struct shared_read *shared_read)
{
    struct qry_share *share = shared_read->share;
    unsigned before = atomic_fetch_sub(&shared_read->refs, 1);

    fg_assert(before > 0);
    if (before != 1)
        return;
    fg_assert(shared_read->outer == NULL);
    fg_peer_set_unref(shared_read->set);
    free(shared_read);
    (void)pthread_mutex_lock(&share->lock);
    if (--share->n_reads == 0)
        (void)pthread_cond_signal(&share->ended);
    (void)pthread_mutex_unlock(&share->lock);
}

/* Takes the request off the read: whoever does it has to end the request. Locked. */
static struct fg_bucket_request *take_outer(struct shared_read *shared_read)
{
    struct fg_bucket_request *outer = fg_take(shared_read->outer);

    if (outer == NULL)
        return NULL;
    if (shared_read->before != NULL)
        shared_read->before->after = shared_read->after;
    else
        shared_read->share->first_read = shared_read->after;
    if (shared_read->after != NULL)
        shared_read->after->before = shared_read->before;
    return outer;
}

/* Returns the request, for its result. Returns NULL if it was cancelled. */
static struct fg_bucket_request *claim_outer(struct shared_read *shared_read)
{
    struct fg_bucket_request *outer;

    (void)pthread_mutex_lock(&shared_read->share->lock);
    outer = take_outer(shared_read);
    (void)pthread_mutex_unlock(&shared_read->share->lock);
    return outer;
}

static bool is_cancelled(struct shared_read *shared_read)
{
    bool cancelled;

    (void)pthread_mutex_lock(&shared_read->share->lock);
    cancelled = shared_read->cancelled;
    (void)pthread_mutex_unlock(&shared_read->share->lock);
    return cancelled;
}

/* Ends a read after its last step. outer: has the result; NULL: it was cancelled. */
static void finish(struct shared_read *shared_read, struct fg_bucket_request *outer)
{
    if (outer != NULL)
        fg_bucket_finish(outer);
    shared_read_unref(shared_read);
}

/* The step may have ended, but its request is there: the caller has a reference. */
static void cancel_step(struct shared_read *shared_read, enum shared_step step)
{
    struct qry_share *share = shared_read->share;

    if (step == SENT_PAGES)
        qry_pages_cancel(share->pages, &shared_read->read);
    else if (step == SENT_DIRECT)
        fg_bucket_cancel(share->inner, &shared_read->direct);
}

/* Notes after the send that a step can be cancelled, and cancels it if the read was meanwhile. */
static void note_sent(struct shared_read *shared_read, enum shared_step step)
{
    bool over;

    (void)pthread_mutex_lock(&shared_read->share->lock);
    shared_read->sent = step;
    over = shared_read->cancelled;
    (void)pthread_mutex_unlock(&shared_read->share->lock);
    if (over)
        cancel_step(shared_read, step);
}

static void take_body(struct fg_bucket_request *outer, struct fg_buf *body)
{
    fg_buf_done(&outer->body);
    outer->body = *body;
    fg_buf_init(body, 0);
}

/* ---- the bucket itself ---- */

static void on_direct(struct fg_bucket_request *direct)
{
    struct shared_read *shared_read = fg_container(direct, struct shared_read, direct);
    struct fg_bucket_request *outer = claim_outer(shared_read);

    if (outer != NULL) {
        outer->code = direct->code;
        outer->err = direct->err;
        take_body(outer, &direct->body);
    }
    fg_bucket_clear(direct);
    finish(shared_read, outer);
}

static void ask_bucket(struct shared_read *shared_read)
{
    fg_metric_add(shared_read->share->metrics, SHARE_FALLBACKS, 1);
    shared_read->direct = (struct fg_bucket_request){
        .verb = FG_BUCKET_GET,
        .name = shared_read->name,
        .offset = shared_read->offset,
        .length = shared_read->length,
        .content_max_bytes = shared_read->content_max_bytes,
        .deadline_mono_ns = shared_read->deadline_mono_ns,
        .done = on_direct,
    };
    (void)atomic_fetch_add(&shared_read->refs, 1);
    fg_bucket_send(shared_read->share->inner, &shared_read->direct);
    note_sent(shared_read, SENT_DIRECT);
    shared_read_unref(shared_read);
}

/* ---- objects of this querier ---- */

static void on_own(struct qry_pages_read *read)
{
    struct shared_read *shared_read = fg_container(read, struct shared_read, read);
    struct fg_bucket_request *outer = claim_outer(shared_read);

    if (outer != NULL) {
        outer->code = read->code;
        outer->err = read->err;
        if (read->code == FG_OK)
            take_body(outer, &read->body);
    }
    qry_pages_read_done(read);
    finish(shared_read, outer);
}

static void read_own(struct shared_read *shared_read)
{
    fg_metric_add(shared_read->share->metrics, SHARE_OWN, 1);
    shared_read->read = (struct qry_pages_read){
        .name = shared_read->name,
        .offset = shared_read->offset,
        .length = shared_read->length,
        .fresh = shared_read->fresh,
        .deadline_mono_ns = shared_read->deadline_mono_ns,
        .done = on_own,
    };
    (void)atomic_fetch_add(&shared_read->refs, 1);
    qry_pages_read(shared_read->share->pages, &shared_read->read);
    note_sent(shared_read, SENT_PAGES);
    shared_read_unref(shared_read);
}

/* ---- objects of another querier ---- */

static void take_reply(struct shared_read *shared_read, const struct fg_call *call,
                       struct fg_bucket_request *outer)
{
    struct fg_slice head = call->reply_head;
    Fg__Inner__ReadReply *reply = fg__inner__read_reply__unpack(NULL, head.len, head.ptr);

    /* The list of queriers has this one, too, by an address that only a call can recognise.
     * Until then it calls itself, which works; from now on it does not. */
    if (reply != NULL && reply->start_id == shared_read->share->start_id)
        atomic_store(&shared_read->member->self, true);
    fg__inner__read_reply__free_unpacked(reply, NULL);
    if (outer == NULL)
        return;
    outer->code = FG_OK;
    fg_buf_init(&outer->body, outer->content_max_bytes);
    fg_buf_put(&outer->body, call->reply_payload);
}

static void on_answer(struct fg_call *call)
{
    struct shared_read *shared_read = fg_container(call, struct shared_read, call);
    struct fg_bucket_request *outer = NULL;
    enum fg_code code = call->code;
    bool responded = code == FG_OK || code == FG_E_NOT_FOUND; /* the owner has asked the bucket */

    if (responded)
        outer = claim_outer(shared_read);
    if (code == FG_OK) {
        take_reply(shared_read, call, outer);
    } else if (outer != NULL) {
        outer->code = code;
        outer->err = call->err;
    }
    /* Before the set is released, which holds the peer. */
    fg_call_done(shared_read->member->peer, call);
    if (responded || is_cancelled(shared_read))
        finish(shared_read, outer);
    else
        ask_bucket(shared_read);
}

static void ask_member(struct shared_read *shared_read)
{
    struct qry_share *share = shared_read->share;
    /* Short, so that enough of the query's time is left for the bucket. */
    int64_t deadline = fg_mono_ns(share->clock) + share->settings.timeout_ns;
    Fg__Inner__ReadHead head;
    struct fg_buf bytes;

    fg_metric_add(share->metrics, SHARE_OTHERS, 1);
    fg__inner__read_head__init(&head);
    head.name = shared_read->name;
    head.offset = shared_read->offset;
    head.length = shared_read->length;
    head.fresh = shared_read->fresh;
    fg_buf_init(&bytes, SIZE_MAX);
    fg_buf_reserve(&bytes, fg__inner__read_head__get_packed_size(&head));
    bytes.len = fg__inner__read_head__pack(&head, bytes.ptr);
    shared_read->call = (struct fg_call){
        .method = FG_RPC_READ,
        .head = fg_buf_slice(&bytes),
        .deadline_mono_ns = shared_read->deadline_mono_ns == 0
                                ? deadline
                                : FG_MIN(deadline, shared_read->deadline_mono_ns),
        .reply_max_bytes = shared_read->content_max_bytes,
        .done = on_answer,
    };
    fg_peer_send(shared_read->member->peer, &shared_read->call);
    fg_buf_done(&bytes);
}

/* ---- as a bucket ---- */

/* Returns true for ranges of segments and blocks, which never change: manifests and the ring have
 * to come from the bucket each time. */
static bool is_shared(const struct fg_bucket_request *request)
{
    struct fg_name name;

    return request->verb == FG_BUCKET_GET && request->condition == FG_BUCKET_ALWAYS &&
           request->length > 0 && request->length <= PAGES_READ_MAX_BYTES &&
           fg_name_parse(fg_cstr(request->name), &name) &&
           (name.kind == FG_NAME_IS_SEGMENT || name.kind == FG_NAME_IS_BLOCK);
}

static struct qry_share *share_of(struct fg_bucket *bucket)
{
    return fg_container(bucket, struct qry_share, bucket);
}

static void share_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct qry_share *share = share_of(bucket);
    struct shared_read *shared_read;

    if (!is_shared(request)) {
        share->inner->ops->send(share->inner, request);
        return;
    }
    shared_read = fg_new(struct shared_read);
    shared_read->share = share;
    atomic_store(&shared_read->refs, 1);
    shared_read->outer = request;
    (void)snprintf(shared_read->name, sizeof shared_read->name, "%s", request->name);
    shared_read->offset = request->offset;
    shared_read->length = request->length;
    shared_read->content_max_bytes = request->content_max_bytes;
    shared_read->fresh = request->fresh;
    shared_read->deadline_mono_ns = request->deadline_mono_ns;
    shared_read->set = fg_peer_directory_get(share->queriers);
    shared_read->member = fg_peer_set_owner(shared_read->set, fg_hash128(fg_cstr(request->name)),
                                            fg_mono_ns(share->clock));
    (void)pthread_mutex_lock(&share->lock);
    share->n_reads++;
    shared_read->after = share->first_read;
    if (share->first_read != NULL)
        share->first_read->before = shared_read;
    share->first_read = shared_read;
    (void)pthread_mutex_unlock(&share->lock);
    if (shared_read->member == NULL || atomic_load(&shared_read->member->self))
        read_own(shared_read);
    else
        ask_member(shared_read);
}

static void share_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct qry_share *share = share_of(bucket);
    struct shared_read *shared_read;
    enum shared_step step = SENT_NOTHING;

    if (!is_shared(request)) {
        share->inner->ops->cancel(share->inner, request);
        return;
    }
    (void)pthread_mutex_lock(&share->lock);
    shared_read = share->first_read;
    while (shared_read != NULL && shared_read->outer != request)
        shared_read = shared_read->after;
    if (shared_read != NULL) {
        (void)take_outer(shared_read);
        shared_read->cancelled = true;
        step = shared_read->sent;
        (void)atomic_fetch_add(&shared_read->refs, 1);
    }
    (void)pthread_mutex_unlock(&share->lock);
    if (shared_read == NULL) /* is about to end with the result that was reached */
        return;
    cancel_step(shared_read, step);
    shared_read_unref(shared_read);
    (void)fg_bucket_fail(request, FG_E_CANCELED, "cancelled");
    fg_bucket_finish(request);
}

static void share_close(struct fg_bucket *bucket)
{
    (void)bucket; /* qry_share_destroy() */
}

/* ---- serving others ---- */

struct served {
    _Atomic unsigned refs; /* the job, the read */
    struct qry_share *share;
    struct fg_rpc_request *req;
    Fg__Inner__ReadHead *head;
    struct fg_job job;
    struct qry_pages_read read;
};

static void served_unref(struct served *served)
{
    unsigned before = atomic_fetch_sub(&served->refs, 1);

    fg_assert(before > 0);
    if (before != 1)
        return;
    fg__inner__read_head__free_unpacked(served->head, NULL);
    free(served);
}

static void reply(struct served *served)
{
    struct qry_pages_read *read = &served->read;
    Fg__Inner__ReadReply head;
    uint8_t bytes[16];

    if (read->code != FG_OK) {
        fg_rpc_reply_error(served->req, &read->err);
        return;
    }
    fg__inner__read_reply__init(&head);
    head.start_id = served->share->start_id;
    fg_assert(fg__inner__read_reply__get_packed_size(&head) <= sizeof bytes);
    fg_rpc_reply_take(served->req, fg_bytes(bytes, fg__inner__read_reply__pack(&head, bytes)),
                      &read->body);
}

static void on_served(struct qry_pages_read *read)
{
    struct served *served = fg_container(read, struct served, read);

    fg_metric_add(served->share->metrics, SHARE_SERVED, 1);
    reply(served);
    qry_pages_read_done(read);
    served_unref(served);
}

static enum fg_code run_served(struct fg_job *job, struct fg_err *err)
{
    struct served *served = fg_container(job, struct served, job);

    (void)err;
    qry_pages_read(served->share->pages, &served->read);
    return FG_OK;
}

static void served_done(struct fg_job *job)
{
    served_unref(fg_container(job, struct served, job));
}

static bool is_served(const Fg__Inner__ReadHead *head)
{
    const struct fg_bucket_request request = {
        .verb = FG_BUCKET_GET, .name = head->name, .length = head->length};

    /* Another querier of an older or newer release may send anything: only what this one would ask
     * for itself is read from the bucket. */
    return head->offset <= INT64_MAX && is_shared(&request);
}

static void handle_read(struct fg_rpc_request *req, void *arg)
{
    struct qry_share *share = arg;
    struct fg_slice bytes = fg_rpc_head(req);
    Fg__Inner__ReadHead *head = fg__inner__read_head__unpack(NULL, bytes.len, bytes.ptr);
    struct served *served;
    struct fg_err err;

    if (head == NULL || !is_served(head)) {
        fg__inner__read_head__free_unpacked(head, NULL);
        (void)fg_fail(&err, FG_E_INVALID, "not a range of a segment or block");
        fg_rpc_reply_error(req, &err);
        return;
    }
    served = fg_new(struct served);
    /* The read may end before the job does, on a thread of the bucket, and the other way round. */
    atomic_store(&served->refs, 2);
    served->share = share;
    served->req = req;
    served->head = head;
    served->job.run = run_served;
    served->job.done = served_done;
    served->read = (struct qry_pages_read){
        .name = head->name,
        .offset = head->offset,
        .length = head->length,
        .fresh = head->fresh,
        .deadline_mono_ns = fg_rpc_deadline_mono_ns(req),
        .done = on_served,
    };
    if (fg_work_submit(share->work, FG_LANE_BACKGROUND, &served->job))
        return;
    (void)fg_fail(&err, FG_E_LIMIT, "querier has too many reads for other queriers");
    fg_rpc_reply_error(req, &err);
    atomic_store(&served->refs, 1);
    served_unref(served);
}

void qry_share_serve(struct qry_share *share, struct fg_rpc_server *server)
{
    fg_rpc_server_handle(server, FG_RPC_READ, handle_read, share);
}

/* ---- start and end ---- */

static void on_scrape(void *arg)
{
    struct qry_share *share = arg;
    struct qry_pages_stats stats = qry_pages_stats(share->pages);
    struct fg_peer_set *set = fg_peer_directory_get(share->queriers);

    fg_metric_set(share->metrics, SHARE_QUERIERS, set->n);
    fg_metric_set_total(share->metrics, SHARE_HITS, stats.hits);
    fg_metric_set_total(share->metrics, SHARE_MISSES, stats.misses);
    fg_metric_set(share->metrics, SHARE_BYTES, (int64_t)stats.bytes);
    fg_peer_set_unref(set);
}

struct fg_bucket *qry_share_bucket(struct qry_share *share)
{
    return &share->bucket;
}

struct fg_peer_directory *qry_share_queriers(const struct qry_share *share)
{
    return share->queriers;
}

uint64_t qry_share_start_id(const struct qry_share *share)
{
    return share->start_id;
}

enum fg_code qry_share_create(const struct qry_share_config *config, struct qry_share **ret_share,
                              struct fg_err *err)
{
    static const struct fg_bucket_ops ops = {share_send, share_cancel, share_close};
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_BACKGROUND] = {.threads = THREADS,
                                .queue_max = (unsigned)config->settings->requests_max}};
    struct qry_share *share = fg_new(struct qry_share);

    share->bucket.ops = &ops;
    share->bucket.wraps = config->bucket;
    share->settings = *config->settings;
    share->inner = config->bucket;
    share->clock = config->clock;
    (void)pthread_mutex_init(&share->lock, NULL);
    (void)pthread_cond_init(&share->ended, NULL);
    while (share->start_id == 0) /* 0: a reply of no querier */
        fg_assert(getrandom(&share->start_id, sizeof share->start_id, 0) == sizeof share->start_id);
    share->pages = qry_pages_create(config->bucket, config->disk, share->settings.cache_max_bytes);
    share->peers = fg_peers_create(&(struct fg_peers_config){
        .rpc = config->rpc,
        .calls_max = (unsigned)share->settings.requests_max,
        .peers_max = PEERS_MAX,
        .idle_ns = FG_PEERS_IDLE_NS,
    });
    if (fg_peer_directory_create(
            &(struct fg_peer_directory_config){.addresses = share->settings.queriers,
                                               .kind = "querier",
                                               .peers = share->peers,
                                               .every_ns = share->settings.resolve_interval_ns},
            &share->queriers, err) != FG_OK ||
        fg_work_create("share", lanes, &share->work, err) != FG_OK) {
        qry_share_destroy(share);
        return err->code;
    }
    share->registry = config->registry;
    share->metrics = fg_metrics_register(share->registry, share_metrics, FG_COUNT(share_metrics));
    fg_registry_on_scrape(share->registry, on_scrape, share);
    *ret_share = share;
    return FG_OK;
}

void qry_share_destroy(struct qry_share *share)
{
    if (share == NULL)
        return;
    /* First: its jobs use the pages. */
    fg_work_destroy(share->work);
    /* Cancelled reads may still wait for a call to their owner. */
    (void)pthread_mutex_lock(&share->lock);
    while (share->n_reads > 0)
        (void)pthread_cond_wait(&share->ended, &share->lock);
    (void)pthread_mutex_unlock(&share->lock);
    fg_peer_directory_destroy(share->queriers);
    fg_peers_destroy(share->peers);
    qry_pages_destroy(share->pages);
    (void)pthread_cond_destroy(&share->ended);
    (void)pthread_mutex_destroy(&share->lock);
    free(share);
}
