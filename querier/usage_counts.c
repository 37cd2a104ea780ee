#include "querier/usage_counts.h"

#include "common/cluster/manifest/name.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICK_NS         (10 * FG_SECOND_NS)
#define PUT_TIMEOUT_NS  (20 * FG_SECOND_NS)
#define STOP_TIMEOUT_NS (3 * FG_SECOND_NS) /* at the end, when others wait for the process */

enum { PATH_MAX_BYTES = 4096, FILES_MAX = 1000 /* of the folder, in one look */ };

#define USAGE_COUNTS_METRICS(M)                                                                    \
    M(COUNTER, USAGE_COUNTS_WRITTEN, "flamegrid_querier_usage_objects_total",                      \
      "Objects with the cost of queries that were written to the bucket")                          \
    M(COUNTER, USAGE_COUNTS_FAILURES, "flamegrid_querier_usage_failures_total",                    \
      "Failed writes of objects with the cost of queries, which are retried")                      \
    M(COUNTER, USAGE_COUNTS_UNCOUNTED, "flamegrid_querier_usage_uncounted_total",                  \
      "Queries whose cost was not counted because there were too many tenants")
FG_METRICS_ENUM(usage_counts_metric, USAGE_COUNTS_METRICS)
FG_METRICS_TABLE(usage_counts_metrics, USAGE_COUNTS_METRICS)

/* Counts that do not change any more, under the name that they have in the bucket. */
struct usage_object {
    struct fg_query_counts_name name;
    struct fg_buf bytes; /* empty: there is none */
    bool on_disk;        /* in the folder, too */
};

struct qry_usage_counts {
    struct qry_usage_counts_config config;
    struct fg_metrics *metrics;
    struct fg_ticker *ticker;
    uint64_t process; /* random: a process that starts again is another one */

    pthread_mutex_t lock; /* over: */
    struct fg_query_counts counts;
    struct fg_arena *arena; /* of counts */
    int64_t begun_wall_ns;  /* of the interval */

    /* The ticker's, and at the end the owner's. */
    uint64_t number; /* of the next object */
    struct usage_object object;
    int64_t timeout_ns;
    bool told_kept; /* that there are files which this version cannot read */
};

void qry_usage_counts_add(struct qry_usage_counts *counts, struct fg_slice tenant,
                          const struct fg_usage_queries *took)
{
    bool added;

    if (counts == NULL)
        return;
    (void)pthread_mutex_lock(&counts->lock);
    added = fg_query_counts_add(&counts->counts, tenant, took, counts->arena);
    (void)pthread_mutex_unlock(&counts->lock);
    fg_metric_add(counts->metrics, USAGE_COUNTS_UNCOUNTED, !added);
}

/* ---- the folder ---- */

static void file_path(const struct qry_usage_counts *counts,
                      const struct fg_query_counts_name *name, char out[PATH_MAX_BYTES])
{
    char object[FG_NAME_MAX_BYTES];

    fg_name_query_counts(object, name);
    for (char *at = object; *at != '\0'; at++) /* one file, no folders */
        if (*at == '/')
            *at = '+';
    (void)snprintf(out, PATH_MAX_BYTES, "%s/%s", counts->config.spool, object);
}

/* Reads back such a name; files that have another one are not ours. */
static bool parse_file(const char *file, struct fg_query_counts_name *ret_name)
{
    char object[FG_NAME_MAX_BYTES];

    size_t len = strlen(file);

    if (len >= sizeof object)
        return false;
    memcpy(object, file, len + 1);
    for (char *at = object; *at != '\0'; at++)
        if (*at == '+')
            *at = '/';
    return fg_name_parse_query_counts(fg_cstr(object), ret_name);
}

static bool write_all(int fd, struct fg_slice bytes)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.ptr, bytes.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes = fg_slice_sub(bytes, (size_t)n, bytes.len);
    }
    return true;
}

/* Writes the object to the folder, if there is one, so that it outlives the process. A full disk
 * must not stop anything. A file that was not finished has a checksum that is wrong. */
static void spool(struct qry_usage_counts *counts)
{
    char path[PATH_MAX_BYTES];
    bool written;
    int fd;

    if (counts->config.spool == NULL)
        return;
    file_path(counts, &counts->object.name, path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    written = fd >= 0 && write_all(fd, fg_buf_slice(&counts->object.bytes)) && fsync(fd) == 0;
    if (!written)
        fg_log_warn("counts of queries cannot be written to disk", fg_ls("file", path),
                    fg_li("errno", errno));
    if (fd >= 0)
        (void)close(fd);
    counts->object.on_disk = written;
}

static void unspool(const struct qry_usage_counts *counts, const struct fg_query_counts_name *name)
{
    char path[PATH_MAX_BYTES];

    if (counts->config.spool == NULL)
        return;
    file_path(counts, name, path);
    (void)unlink(path);
}

/* Reads a file into the object and checks it. FG_E_CORRUPT: it was not finished, or is damaged.
 * Else it may be of a newer version. */
static enum fg_code read_file(struct qry_usage_counts *counts, const char *path, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_QUERY_COUNTS_ARENA_BYTES);
    struct fg_query_counts found = {.count = 0};
    struct fg_buf *bytes = &counts->object.bytes;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char chunk[4096];
    ssize_t n = -1;

    while (fd >= 0 && (n = read(fd, chunk, sizeof chunk)) > 0)
        fg_buf_append(bytes, chunk, (size_t)n);
    if (n < 0)
        (void)fg_fail_errno(err, errno, "read");
    if (fd >= 0)
        (void)close(fd);
    if (n < 0)
        return err->code;
    if (bytes->full)
        return fg_fail(err, FG_E_TOO_LARGE, "more than %zu bytes", bytes->max_bytes);
    return fg_query_counts_add_encoded(&found, fg_buf_slice(bytes), arena, err);
}

/* Loads a file as the object. Deletes one that is damaged; leaves one that this version cannot read
 * to a newer one. */
static bool load(struct qry_usage_counts *counts, const struct fg_query_counts_name *name)
{
    char path[PATH_MAX_BYTES];
    struct fg_err err;

    file_path(counts, name, path);
    if (read_file(counts, path, &err) == FG_OK) {
        counts->object.name = *name;
        counts->object.on_disk = true;
        return true;
    }
    fg_buf_clear(&counts->object.bytes);
    if (err.code == FG_E_CORRUPT) {
        fg_log_error("counts of queries on disk are damaged and deleted", fg_ls("file", path),
                     fg_ls("err", err.msg));
        (void)unlink(path);
    } else if (!counts->told_kept) {
        counts->told_kept = true; /* each tick comes here */
        fg_log_warn("counts of queries on disk cannot be read; they are kept", fg_ls("file", path),
                    fg_ls("err", err.msg));
    }
    return false;
}

/* Loads any file of the folder as the object. */
static bool load_any(struct qry_usage_counts *counts)
{
    DIR *dir = counts->config.spool == NULL ? NULL : opendir(counts->config.spool);
    const struct dirent *file;
    bool loaded = false;

    if (dir == NULL)
        return false;
    while (!loaded &&
           (file = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a stream of ours */
        struct fg_query_counts_name name;

        if (parse_file(file->d_name, &name))
            loaded = load(counts, &name);
    }
    (void)closedir(dir);
    return loaded;
}

/* ---- the bucket ---- */

static enum fg_code call(struct qry_usage_counts *counts, enum fg_bucket_verb verb,
                         struct fg_err *err)
{
    const struct usage_object *object = &counts->object;
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request request = {
        .verb = verb,
        .name = name,
        .deadline_mono_ns = fg_time_add(fg_mono_ns(counts->config.clock), counts->timeout_ns)};
    enum fg_code code;

    fg_name_query_counts(name, &object->name);
    if (verb == FG_BUCKET_PUT) {
        request.condition = FG_BUCKET_IF_ABSENT;
        request.content = fg_buf_slice(&object->bytes);
    }
    code = fg_bucket_call(counts->config.bucket, &request);
    if (code != FG_OK)
        *err = request.err;
    fg_bucket_clear(&request);
    return code;
}

/* Gives the object the name of another day if its own is over. Its old name was perhaps written by
 * a put whose answer was lost. *ret_there: it was. */
static enum fg_code name_anew(struct qry_usage_counts *counts, bool *ret_there, struct fg_err *err)
{
    struct fg_query_counts_name *name = &counts->object.name;
    int32_t day = fg_query_counts_day(name->day, fg_wall_ns(counts->config.clock));
    enum fg_code code;

    *ret_there = false;
    if (day == name->day)
        return FG_OK;
    code = call(counts, FG_BUCKET_HEAD, err);
    *ret_there = code == FG_OK;
    if (code != FG_OK && code != FG_E_NOT_FOUND)
        return code;
    if (code == FG_E_NOT_FOUND) {
        struct fg_query_counts_name before = *name;

        name->day = day;
        spool(counts);
        unspool(counts, &before);
    }
    return FG_OK;
}

/* Writes the object. Returns false if it has to wait. */
static bool deliver(struct qry_usage_counts *counts)
{
    bool there = false;
    struct fg_err err;
    enum fg_code code = name_anew(counts, &there, &err);

    if (code == FG_OK && !there)
        code = call(counts, FG_BUCKET_PUT, &err);
    if (code != FG_OK &&
        code != FG_E_PRECONDITION) { /* which is our own put, whose answer was lost */
        fg_metric_add(counts->metrics, USAGE_COUNTS_FAILURES, 1);
        fg_log_warn("counts of queries cannot be written to the bucket, will retry",
                    fg_ls("err", err.msg));
        return false;
    }
    fg_metric_add(counts->metrics, USAGE_COUNTS_WRITTEN, 1);
    unspool(counts, &counts->object.name);
    fg_buf_clear(&counts->object.bytes);
    return true;
}

/* ---- intervals ---- */

/* Takes what was counted as the object, and begins the next interval. */
static void pack(struct qry_usage_counts *counts, int64_t now_ns)
{
    struct fg_arena *arena = fg_arena_create(FG_QUERY_COUNTS_ARENA_BYTES), *old;
    struct fg_query_counts taken;
    int64_t begun_ns;
    struct fg_err err;

    (void)pthread_mutex_lock(&counts->lock);
    taken = counts->counts;
    old = counts->arena;
    begun_ns = counts->begun_wall_ns;
    counts->counts = (struct fg_query_counts){.count = 0};
    counts->arena = arena;
    counts->begun_wall_ns = now_ns;
    (void)pthread_mutex_unlock(&counts->lock);
    if (taken.count > 0) {
        /* The day on which the interval began: it may have ended a little after midnight. */
        counts->object.name = (struct fg_query_counts_name){
            .day = fg_query_counts_day(fg_usage_day_of(begun_ns), now_ns),
            .process = counts->process,
            .number = counts->number++};
        if (fg_query_counts_encode(&taken, &counts->object.bytes, &err) != FG_OK) {
            fg_log_error("counts of queries are lost", fg_ls("err", err.msg));
            fg_buf_clear(&counts->object.bytes);
        }
    }
    fg_arena_destroy(old);
    if (counts->object.bytes.len > 0)
        spool(counts);
}

/* Delivers what waits: the object, then those of the folder. */
static void deliver_all(struct qry_usage_counts *counts)
{
    for (int i = 0; i < FILES_MAX; i++) {
        if (counts->object.bytes.len == 0 && !load_any(counts))
            return;
        if (!deliver(counts)) {
            if (counts->object.on_disk)
                fg_buf_clear(&counts->object.bytes); /* it is loaded again */
            return;
        }
    }
}

static void tick(void *arg)
{
    struct qry_usage_counts *counts = arg;
    int64_t now_ns = fg_wall_ns(counts->config.clock), interval_ns = counts->config.interval_ns;
    int64_t begun_ns;

    (void)pthread_mutex_lock(&counts->lock);
    begun_ns = counts->begun_wall_ns;
    (void)pthread_mutex_unlock(&counts->lock);
    /* An object that only memory has is delivered before the next one, while counting goes on. */
    if (counts->object.bytes.len == 0 && now_ns / interval_ns != begun_ns / interval_ns)
        pack(counts, now_ns);
    deliver_all(counts);
}

enum fg_code qry_usage_counts_create(const struct qry_usage_counts_config *config,
                                     struct qry_usage_counts **ret_counts, struct fg_err *err)
{
    const int64_t period_ns = FG_MIN(TICK_NS, config->interval_ns);
    struct qry_usage_counts *counts;
    enum fg_code code;

    if (config->spool != NULL && mkdir(config->spool, 0750) != 0 && errno != EEXIST)
        return fg_fail_errno(err, errno, "folder %s", config->spool);
    counts = fg_new(struct qry_usage_counts);
    counts->config = *config;
    counts->metrics =
        fg_metrics_register(config->registry, usage_counts_metrics, FG_COUNT(usage_counts_metrics));
    counts->arena = fg_arena_create(FG_QUERY_COUNTS_ARENA_BYTES);
    counts->begun_wall_ns = fg_wall_ns(config->clock);
    counts->timeout_ns = PUT_TIMEOUT_NS;
    (void)pthread_mutex_init(&counts->lock, NULL);
    fg_buf_init(&counts->object.bytes, FG_QUERY_COUNTS_MAX_BYTES);
    if (getrandom(&counts->process, sizeof counts->process, 0) != sizeof counts->process)
        counts->process = fg_mix64((uint64_t)counts->begun_wall_ns ^ (uint64_t)getpid());
    code = fg_ticker_create(
        &(struct fg_ticker_config){
            .name = "usage", .period_ns = period_ns, .tick = tick, .arg = counts},
        &counts->ticker, err);
    if (code != FG_OK) {
        qry_usage_counts_destroy(counts);
        return code;
    }
    *ret_counts = counts;
    return FG_OK;
}

/* Delivers the object at the end. */
static void deliver_last(struct qry_usage_counts *counts)
{
    if (counts->object.bytes.len > 0 && !deliver(counts) && !counts->object.on_disk)
        fg_log_error("counts of queries are lost: the bucket does not take them");
    fg_buf_clear(&counts->object.bytes);
}

void qry_usage_counts_destroy(struct qry_usage_counts *counts)
{
    if (counts == NULL)
        return;
    fg_ticker_destroy(counts->ticker);
    counts->timeout_ns = STOP_TIMEOUT_NS;
    deliver_last(counts); /* what memory alone has; then what was counted since */
    pack(counts, fg_wall_ns(counts->config.clock));
    deliver_last(counts);
    fg_buf_done(&counts->object.bytes);
    fg_arena_destroy(counts->arena);
    (void)pthread_mutex_destroy(&counts->lock);
    free(counts);
}
