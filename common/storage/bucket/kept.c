#include "common/storage/bucket/kept.h"

#include "common/runtime/log.h"
#include "common/storage/bucket/bucket.h"

#include <pthread.h>

enum {
    OBJECTS = 1024, /* whose last copy is remembered; two that share a place are kept more often */
    UNDER_WAY_MAX = 2, /* copies; a manifest has up to 32 MiB */
};

static const int64_t TIMEOUT_NS = FG_MINUTE_NS;

/* clang-format off */
#define KEPT_METRICS(M)                                                                            \
    M(COUNTER, KEPT_COPIES, "flamegrid_manifest_backups_total", "Backup copies of manifests and the ring written to manifests/kept/") \
    M(COUNTER, KEPT_FAILURES, "flamegrid_manifest_backup_failures_total", "Failed writes of backup copies to manifests/kept/; the next attempt follows after ten minutes")
/* clang-format on */
FG_METRICS_ENUM(kept_metric, KEPT_METRICS)
FG_METRICS_TABLE(kept_metrics, KEPT_METRICS)

struct last {
    uint64_t hash; /* of the object's name */
    int64_t mono_ns;
};

/* A copy under way. */
struct copy {
    struct fg_bucket_request request;
    struct fg_kept *kept;
    char name[FG_KEPT_NAME_MAX_BYTES];
    struct fg_buf bytes;
    bool busy;
    bool ended; /* while it is busy: its request is the bucket's no more */
};

struct fg_kept {
    struct fg_bucket *bucket;
    struct fg_metrics *metrics;
    struct fg_clock *clock;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t ended;
    struct last last[OBJECTS];
    struct copy copies[UNDER_WAY_MAX];
};

static void on_close(struct fg_bucket *bucket)
{
    struct fg_kept *kept = fg_take(bucket->kept);

    (void)pthread_mutex_lock(&kept->lock);
    for (size_t i = 0; i < UNDER_WAY_MAX; i++) {
        if (kept->copies[i].busy && !kept->copies[i].ended)
            fg_bucket_cancel(kept->bucket, &kept->copies[i].request);
        while (kept->copies[i].busy)
            (void)pthread_cond_wait(&kept->ended, &kept->lock);
    }
    (void)pthread_mutex_unlock(&kept->lock);
    (void)pthread_cond_destroy(&kept->ended);
    (void)pthread_mutex_destroy(&kept->lock);
    free(kept);
}

void fg_kept_attach(struct fg_bucket *bucket, struct fg_registry *registry, struct fg_clock *clock)
{
    struct fg_kept *kept = fg_new(struct fg_kept);

    fg_assert(bucket->kept == NULL && bucket->on_close == NULL);
    kept->bucket = bucket;
    kept->clock = clock;
    kept->metrics = fg_metrics_register(registry, kept_metrics, FG_COUNT(kept_metrics));
    (void)pthread_mutex_init(&kept->lock, NULL);
    (void)pthread_cond_init(&kept->ended, NULL);
    for (size_t i = 0; i < UNDER_WAY_MAX; i++)
        kept->copies[i].kept = kept;
    bucket->kept = kept;
    bucket->on_close = on_close;
}

void fg_kept_name(char out[FG_KEPT_NAME_MAX_BYTES], const char *object, const char *place)
{
    static const char own[] = "manifests/";

    if (strncmp(object, own, sizeof own - 1) == 0)
        object += sizeof own - 1;
    (void)snprintf(out, FG_KEPT_NAME_MAX_BYTES, "%s%s/%s", FG_KEPT_PREFIX, object, place);
}

/* On a thread of the bucket's. */
static void on_written(struct fg_bucket_request *request)
{
    struct copy *copy = fg_container(request, struct copy, request);
    struct fg_kept *kept = copy->kept;

    (void)pthread_mutex_lock(&kept->lock);
    fg_assert(copy->busy && !copy->ended);
    /* From here on, on_close() must not cancel it: the bucket no longer knows the request. */
    copy->ended = true;
    (void)pthread_mutex_unlock(&kept->lock);
    if (request->code == FG_OK) {
        fg_metric_add(kept->metrics, KEPT_COPIES, 1);
    } else if (request->code != FG_E_CANCELED) {
        fg_metric_add(kept->metrics, KEPT_FAILURES, 1);
        fg_log_warn("backup copy of a manifest could not be written", fg_ls("object", copy->name),
                    fg_ls("err", request->err.msg));
    }
    fg_bucket_clear(request);
    fg_buf_done(&copy->bytes);
    (void)pthread_mutex_lock(&kept->lock);
    /* Last: on_close() frees the copy when no one is busy. */
    copy->busy = false;
    (void)pthread_cond_broadcast(&kept->ended);
    (void)pthread_mutex_unlock(&kept->lock);
}

/* Returns a free copy if one is due for that object, else NULL. An object is noted as copied
 * before it is: a write that fails is not repeated. */
static struct copy *take_copy(struct fg_kept *kept, const char *object)
{
    uint64_t hash = fg_hash64(fg_cstr(object));
    struct last *last = &kept->last[hash % OBJECTS];
    int64_t now_ns = fg_mono_ns(kept->clock);
    struct copy *copy = NULL;

    (void)pthread_mutex_lock(&kept->lock);
    if (last->hash != hash || now_ns - last->mono_ns >= FG_KEPT_EVERY_NS)
        for (size_t i = 0; i < UNDER_WAY_MAX && copy == NULL; i++)
            if (!kept->copies[i].busy)
                copy = &kept->copies[i];
    if (copy != NULL) {
        copy->busy = true;
        copy->ended = false;
        *last = (struct last){hash, now_ns};
    }
    (void)pthread_mutex_unlock(&kept->lock);
    return copy;
}

void fg_kept_offer(struct fg_kept *kept, const char *object, struct fg_slice bytes)
{
    struct copy *copy = kept == NULL ? NULL : take_copy(kept, object);

    if (copy == NULL)
        return;
    /* By the clock, so that processes that write the same object use the same place. */
    fg_kept_name(copy->name, object,
                 fg_wall_ns(kept->clock) / FG_KEPT_EVERY_NS % FG_KEPT_PLACES == 0 ? "0" : "1");
    fg_buf_init(&copy->bytes, SIZE_MAX);
    fg_buf_put(&copy->bytes, bytes);
    copy->request = (struct fg_bucket_request){.verb = FG_BUCKET_PUT,
                                               .name = copy->name,
                                               .content = fg_buf_slice(&copy->bytes),
                                               .deadline_mono_ns =
                                                   fg_time_add(fg_mono_ns(kept->clock), TIMEOUT_NS),
                                               .done = on_written};
    fg_bucket_send(kept->bucket, &copy->request);
}
