#include "common/access/audit/audit.h"

#include "common/access/audit/audit_spool.h"
#include "common/base/cursor.h"
#include "common/base/hash.h"
#include "common/net/inflate.h"
#include "common/runtime/log.h"
#include "common/runtime/thread.h"
#include "common/runtime/ticker.h"

#include <openssl/rand.h>
#include <pthread.h>
#include <unistd.h>
#include <zstd.h>

enum {
    QUEUE_MAX_BYTES = 1024 * 1024, /* about 3,000 records, the most of a second */
    OBJECT_SOFT_BYTES = 4 * 1024 * 1024,
    MEMORY_MAX_BYTES = 16 * 1024 * 1024,  /* of objects that wait without a folder, */
    FOLDER_MAX_BYTES = 256 * 1024 * 1024, /* ... and with one */
    STORED_MAX_BYTES = 16 * 1024 * 1024,  /* of an object that is read again */
    TALLIES_MAX = 256,
    TEXT_BYTES = 256,
    HOST_BYTES = 256,
    ZSTD_LEVEL = 3,
    ENTRY_BYTES = 12, /* before an event in the queue: its length and time */
};

#define PERIOD_NS       FG_SECOND_NS
#define PUT_TIMEOUT_NS  (30 * FG_SECOND_NS)
#define LAST_TIMEOUT_NS (5 * FG_SECOND_NS) /* of a put when the process ends */
#define RECORD_WAIT_NS  (10 * FG_SECOND_NS)
#define RETRY_MAX_NS    FG_MINUTE_NS
#define TELL_AFTER_NS   FG_MINUTE_NS /* that objects cannot be stored */

#define CONF(field) FG_CONF_AT(struct fg_audit_settings, field)

/* clang-format off */
const struct fg_conf_field fg_audit_fields[] = {
    {"reads", FG_CONF_ENUM, CONF(reads), .def = "none", .choices = "none|summary|all",
     .doc = "Which queries the audit records. none: those of several tenants, and exports. summary: also how many queries each caller sent to each tenant, once per `audit.flush`. all: every query with its selector and time range."},
    {"folder", FG_CONF_STRING, CONF(folder), .def = "", .max = "4000",
     .doc = "Folder for records of the audit until they are in the bucket, at most 256MiB; its parent has to exist. Empty: the folder audit in the data directory. A program without a data directory keeps at most 16MiB in memory, and a change of tenants or tokens waits until its record is in the bucket."},
    {"flush", FG_CONF_NS, CONF(flush_ns), .def = "5m", .min = "1s", .max = "1h",
     .doc = "How long records of the audit are collected for one object of the bucket."},
    {"retention", FG_CONF_NS, CONF(retention_ns), .def = "400d", .min = "0", .max = "3650d",
     .doc = "How long records of the audit are kept. One of the compactors deletes older ones, by whole hours. 0: forever."},
};
/* clang-format on */
const size_t fg_audit_n_fields = FG_COUNT(fg_audit_fields);

/* clang-format off */
#define AUDIT_METRICS(M)                                                                           \
    M(COUNTER, AUDIT_RECORDS, "flamegrid_audit_records_total", "Records of the audit that were chained") \
    M(COUNTER, AUDIT_LOST, "flamegrid_audit_lost_records_total",                                   \
      "Records of the audit that were lost because the queue was full")                            \
    M(COUNTER, AUDIT_OBJECTS, "flamegrid_audit_objects_total", "Objects of the audit that were stored") \
    M(COUNTER, AUDIT_FAILURES, "flamegrid_audit_failures_total",                                   \
      "Attempts to write records of the audit to the folder or the bucket that failed")            \
    M(GAUGE, AUDIT_WAITING, "flamegrid_audit_waiting_bytes",                                       \
      "Records of the audit that are not in the bucket yet")
/* clang-format on */
FG_METRICS_ENUM(audit_metric, AUDIT_METRICS)
FG_METRICS_TABLE(audit_metrics, AUDIT_METRICS)

/* An object that is being written, or waits to be stored. */
struct object {
    struct object *next;
    struct fg_audit_link last; /* its last record */
    uint64_t number;
    size_t bytes;
    struct fg_buf lines; /* without a folder */
    uint64_t ticket;     /* of its last record */
};

/* Equal events since the first of them. */
struct tally {
    uint64_t key;
    struct fg_audit_event event; /* its texts are below */
    char who[TEXT_BYTES], token[TEXT_BYTES], session[TEXT_BYTES], issuer[TEXT_BYTES];
    char tenant[TEXT_BYTES], method[TEXT_BYTES], route[TEXT_BYTES], source[TEXT_BYTES];
};

struct tallies {
    struct tally *all; /* NULL: none yet */
    unsigned n;
    int64_t begin_mono_ns; /* of the first one */
};

struct fg_audit {
    struct fg_audit_config config;
    struct fg_metrics *metrics;
    struct fg_condition *unstored, *lost_some;
    char host[HOST_BYTES];

    pthread_mutex_t lock; /* of those up to the next line */
    pthread_cond_t durable_moved;
    struct fg_buf queue;           /* of entries: u32 length, i64 ms, event */
    uint64_t noted;                /* tickets given */
    uint64_t durable;              /* all up to this one are */
    uint64_t failed;               /* all up to this one were tried in vain */
    struct fg_err why;             /* of that */
    uint64_t ops;                  /* numbers of changes */
    uint64_t lost;                 /* since the last record about it */
    bool urgent;                   /* somebody waits */
    struct fg_ticker *ticker;      /* NULL: whoever waits does the work */
    struct tallies counted, reads; /* apart, so that refusals do not fill the room of reads */

    /* Of the thread. */
    struct fg_bucket *bucket; /* NULL: not opened */
    struct fg_bucket_stop *stop;
    struct fg_audit_spool *spool; /* NULL: no folder */
    struct fg_audit_writer writer;
    struct object *open; /* NULL: none */
    int64_t open_mono_ns;
    struct object *waiting, **waiting_end;
    size_t waiting_bytes;
    struct fg_buf taken;   /* of the queue, and not chained yet */
    uint64_t taken_ticket; /* of its last entry */
    bool failing;          /* the last turn did, since: */
    int64_t failing_mono_ns;
    int64_t retry_mono_ns, pause_ns; /* of storing, after a failure */
    bool ending;
};

static int64_t now_ms(const struct fg_audit *audit)
{
    return fg_wall_ns(audit->config.clock) / FG_MS_NS;
}

static int64_t mono_ns(const struct fg_audit *audit)
{
    return fg_mono_ns(audit->config.clock);
}

/* ---- the queue ---- */

/* Under the lock. Returns the ticket, or 0: there is no room. */
static uint64_t enqueue(struct fg_audit *audit, struct fg_slice event)
{
    if (ENTRY_BYTES + event.len > QUEUE_MAX_BYTES - audit->queue.len) {
        audit->lost++;
        fg_metric_add(audit->metrics, AUDIT_LOST, 1);
        return 0;
    }
    fg_buf_le32(&audit->queue, (uint32_t)event.len);
    fg_buf_le64(&audit->queue, (uint64_t)now_ms(audit));
    fg_buf_put(&audit->queue, event);
    return ++audit->noted;
}

static uint64_t take_event(struct fg_audit *audit, const struct fg_audit_event *event, bool urgent)
{
    struct fg_buf text;
    uint64_t ticket;

    fg_buf_init(&text, FG_AUDIT_LINE_MAX_BYTES);
    fg_audit_write_event(event, &text);
    fg_assert(!text.full); /* each text is cut */
    (void)pthread_mutex_lock(&audit->lock);
    ticket = enqueue(audit, fg_buf_slice(&text));
    audit->urgent |= urgent;
    (void)pthread_mutex_unlock(&audit->lock);
    fg_buf_done(&text);
    if (ticket == 0)
        fg_condition_raise(audit->lost_some,
                           "records of the audit are lost: they come faster than they can be "
                           "stored");
    return ticket;
}

void fg_audit_note(struct fg_audit *audit, const struct fg_audit_event *event)
{
    if (audit != NULL)
        (void)take_event(audit, event, false);
}

/* ---- equal events ---- */

static struct fg_slice keep(char out[TEXT_BYTES], struct fg_slice text)
{
    (void)snprintf(out, TEXT_BYTES, "%.*s", FG_S(text));
    return fg_cstr(out);
}

static void begin_tally(struct tally *tally, uint64_t key, const struct fg_audit_event *event)
{
    tally->key = key;
    tally->event = (struct fg_audit_event){
        .kind = event->kind,
        .who = keep(tally->who, event->who),
        .token = keep(tally->token, event->token),
        .session = keep(tally->session, event->session),
        .issuer = keep(tally->issuer, event->issuer),
        .tenant = keep(tally->tenant, event->tenant),
        .method = keep(tally->method, event->method),
        .route = keep(tally->route, event->route),
        .source = keep(tally->source, event->source),
        .status = event->status,
    };
}

/* Returns the events like this one; of others if there are too many different ones. *ret_first: it
 * is the first of them. Under the lock. */
static struct tally *tally_of(struct tallies *tallies, const struct fg_audit_event *event,
                              int64_t now_mono_ns, bool *ret_first)
{
    const struct fg_slice texts[] = {event->who,    event->token, event->session, event->issuer,
                                     event->tenant, event->route, event->source,  event->method};
    uint64_t key = fg_mix64((uint64_t)event->kind << 32 | event->status);

    for (size_t i = 0; i < FG_COUNT(texts); i++)
        key = fg_mix64(key ^ fg_hash64_table(texts[i]));
    if (tallies->all == NULL)
        tallies->all = fg_calloc(TALLIES_MAX, sizeof *tallies->all);
    *ret_first = false;
    for (unsigned i = 0; i < tallies->n; i++)
        if (tallies->all[i].key == key)
            return &tallies->all[i];
    if (tallies->n == 0)
        tallies->begin_mono_ns = now_mono_ns;
    if (tallies->n == TALLIES_MAX)
        return &tallies->all[TALLIES_MAX - 1];
    *ret_first = true;
    if (tallies->n == TALLIES_MAX - 1)
        begin_tally(&tallies->all[tallies->n], 0,
                    &(struct fg_audit_event){.kind = event->kind, .who = FG_LIT("(others)")});
    else
        begin_tally(&tallies->all[tallies->n], key, event);
    return &tallies->all[tallies->n++];
}

static bool add_to_tally(struct fg_audit *audit, struct tallies *tallies,
                         const struct fg_audit_event *event, bool count_first)
{
    struct tally *tally;
    int64_t ms;
    bool first;

    (void)pthread_mutex_lock(&audit->lock);
    ms = now_ms(audit);
    tally = tally_of(tallies, event, mono_ns(audit), &first);
    if (first)
        tally->event.from_ms = ms;
    if (!first || count_first) {
        tally->event.to_ms = ms;
        tally->event.count++;
        tally->event.bytes += event->bytes;
    }
    (void)pthread_mutex_unlock(&audit->lock);
    return first;
}

void fg_audit_count(struct fg_audit *audit, const struct fg_audit_event *event)
{
    if (audit != NULL && add_to_tally(audit, &audit->counted, event, false))
        (void)take_event(audit, event, false);
}

void fg_audit_read_query(struct fg_audit *audit, const struct fg_audit_event *event)
{
    struct fg_audit_event summed;

    if (audit == NULL)
        return;
    if (event->kind != FG_AUDIT_READ || fg_slice_find(event->tenant, '|') != SIZE_MAX ||
        audit->config.settings->reads == FG_AUDIT_READS_ALL) {
        (void)take_event(audit, event, false);
    } else if (audit->config.settings->reads == FG_AUDIT_READS_SUMMARY) {
        summed = (struct fg_audit_event){.kind = FG_AUDIT_READS,
                                         .who = event->who,
                                         .token = event->token,
                                         .session = event->session,
                                         .issuer = event->issuer,
                                         .tenant = event->tenant,
                                         .bytes = event->bytes};
        (void)add_to_tally(audit, &audit->reads, &summed, true);
    }
}

/* Turns sums into events of the queue. Under the lock. */
static void flush_tallies(struct fg_audit *audit, struct tallies *tallies)
{
    struct fg_buf text;

    if (tallies->n == 0 ||
        (!audit->ending && tallies->n < TALLIES_MAX &&
         mono_ns(audit) - tallies->begin_mono_ns < audit->config.settings->flush_ns))
        return;
    fg_buf_init(&text, FG_AUDIT_LINE_MAX_BYTES);
    for (unsigned i = 0; i < tallies->n; i++) {
        if (tallies->all[i].event.count == 0)
            continue;
        fg_buf_clear(&text);
        fg_audit_write_event(&tallies->all[i].event, &text);
        (void)enqueue(audit, fg_buf_slice(&text));
    }
    tallies->n = 0;
    fg_buf_done(&text);
}

static void flush_sums(struct fg_audit *audit)
{
    (void)pthread_mutex_lock(&audit->lock);
    flush_tallies(audit, &audit->counted);
    flush_tallies(audit, &audit->reads);
    (void)pthread_mutex_unlock(&audit->lock);
}

/* ---- objects ---- */

static void free_object(struct object *object)
{
    if (object == NULL)
        return;
    fg_buf_done(&object->lines);
    free(object);
}

static void push_waiting(struct fg_audit *audit, struct object *object)
{
    *audit->waiting_end = object;
    audit->waiting_end = &object->next;
    audit->waiting_bytes += object->bytes;
}

static void pop_waiting(struct fg_audit *audit)
{
    struct object *object = audit->waiting;

    audit->waiting = object->next;
    if (audit->waiting == NULL)
        audit->waiting_end = &audit->waiting;
    audit->waiting_bytes -= object->bytes;
    free_object(object);
}

static struct object *make_object(const struct fg_audit_link *last, uint64_t number)
{
    struct object *object = fg_new(struct object);

    object->last = *last;
    object->number = number;
    fg_buf_init(&object->lines, FG_AUDIT_OBJECT_MAX_BYTES);
    return object;
}

/* All up to this ticket are durable. */
static void move_durable(struct fg_audit *audit, uint64_t ticket)
{
    (void)pthread_mutex_lock(&audit->lock);
    audit->durable = FG_MAX(audit->durable, ticket);
    (void)pthread_cond_broadcast(&audit->durable_moved);
    (void)pthread_mutex_unlock(&audit->lock);
}

/* Records with a ticket up to this one could not be made durable: wakes those that wait for them.
 */
static void tell_failure(struct fg_audit *audit, uint64_t ticket, const struct fg_err *err)
{
    int64_t ns = mono_ns(audit);

    fg_metric_add(audit->metrics, AUDIT_FAILURES, 1);
    (void)pthread_mutex_lock(&audit->lock);
    audit->failed = FG_MAX(audit->failed, ticket);
    audit->why = *err;
    (void)pthread_cond_broadcast(&audit->durable_moved);
    (void)pthread_mutex_unlock(&audit->lock);
    if (!audit->failing) {
        audit->failing = true;
        audit->failing_mono_ns = ns;
    }
    /* Too many records wait because the bucket fails, and that is the sentence to read. */
    if (ns - audit->failing_mono_ns >= TELL_AFTER_NS && err->code != FG_E_LIMIT)
        fg_condition_raise(audit->unstored,
                           "records of the audit cannot be stored, and changes of tenants and "
                           "tokens may be refused: %s",
                           err->msg);
}

static void tell_success(struct fg_audit *audit)
{
    audit->failing = false;
    fg_condition_clear(audit->unstored);
}

/* ---- storing ---- */

static enum fg_code compress(struct fg_slice lines, struct fg_buf *out, struct fg_err *err)
{
    size_t bound = ZSTD_compressBound(lines.len), len;

    if (!fg_buf_reserve(out, bound))
        return fg_fail(err, FG_E_LIMIT, "%zu bytes of records", lines.len);
    len = ZSTD_compress(out->ptr, bound, lines.ptr, lines.len, ZSTD_LEVEL);
    if (ZSTD_isError(len))
        return fg_fail(err, FG_E_INTERNAL, "zstd: %s", ZSTD_getErrorName(len));
    out->len = len;
    return FG_OK;
}

/* Somebody created the object: we, if an answer was lost or a process was killed. The lines are
 * compared, since another version of zstd makes other bytes. */
static enum fg_code compare_stored(struct fg_audit *audit, const char *name, struct fg_slice lines,
                                   int64_t deadline_ns, struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = name,
                                    .content_max_bytes = STORED_MAX_BYTES,
                                    .deadline_mono_ns = deadline_ns};
    struct fg_buf stored;

    fg_buf_init(&stored, FG_AUDIT_OBJECT_MAX_BYTES);
    if (fg_bucket_call_until(audit->bucket, &get, audit->stop) != FG_OK)
        *err = get.err;
    else if (fg_inflate(fg_buf_slice(&get.body), FG_CODING_ZSTD, FG_AUDIT_OBJECT_MAX_BYTES, &stored,
                        err) != FG_OK)
        (void)fg_wrap(err, "%s", name);
    else if (!fg_slice_eq(fg_buf_slice(&stored), lines))
        (void)fg_fail(err, FG_E_CORRUPT, "%s has other records than this process wrote", name);
    else
        err->code = FG_OK;
    fg_buf_done(&stored);
    fg_bucket_clear(&get);
    return err->code;
}

static enum fg_code put_object(struct fg_audit *audit, const char *name, struct fg_slice lines,
                               struct fg_err *err)
{
    int64_t deadline_ns =
        fg_mono_ns(fg_clock_real()) + (audit->ending ? LAST_TIMEOUT_NS : PUT_TIMEOUT_NS);
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT,
                                        .name = name,
                                        .condition = FG_BUCKET_IF_ABSENT,
                                        .deadline_mono_ns = deadline_ns};
    struct fg_buf packed;
    enum fg_code code;

    fg_buf_init(&packed, SIZE_MAX);
    code = compress(lines, &packed, err);
    if (code == FG_OK) {
        request.content = fg_buf_slice(&packed);
        code = fg_bucket_call_until(audit->bucket, &request, audit->stop);
        *err = request.err;
        if (code == FG_E_PRECONDITION)
            code = compare_stored(audit, name, lines, deadline_ns, err);
        fg_bucket_clear(&request);
    }
    fg_buf_done(&packed);
    return code;
}

static enum fg_code store(struct fg_audit *audit, struct object *object, struct fg_err *err)
{
    char name[FG_AUDIT_NAME_MAX_BYTES];
    enum fg_code code = FG_OK;

    fg_audit_write_name(object->last.chain, object->number, object->last.object_ms, name);
    if (audit->spool != NULL) {
        fg_buf_clear(&object->lines);
        code = fg_audit_spool_read(audit->spool, object->last.chain, object->number, &object->lines,
                                   err);
    }
    if (code == FG_OK)
        code = put_object(audit, name, fg_buf_slice(&object->lines), err);
    if (code == FG_OK && audit->spool != NULL)
        code = fg_audit_spool_remove(audit->spool, &object->last, object->number, err);
    if (audit->spool != NULL)
        fg_buf_done(&object->lines); /* the folder has them */
    return code;
}

/* Stores the objects that wait, the oldest first. Returns whether all are stored. at_once: also if
 * it was tried in vain just now. */
static bool store_waiting(struct fg_audit *audit, bool at_once)
{
    struct fg_err err;

    if (audit->waiting != NULL && !at_once && mono_ns(audit) < audit->retry_mono_ns)
        return false;
    while (audit->waiting != NULL) {
        if (store(audit, audit->waiting, &err) != FG_OK) {
            fg_log_warn("an object of the audit could not be stored, will retry",
                        fg_ls("chain", audit->waiting->last.chain),
                        fg_lu("object", audit->waiting->number), fg_ls("err", err.msg));
            tell_failure(audit, audit->taken_ticket, &err);
            audit->pause_ns = FG_MIN(FG_MAX(2 * audit->pause_ns, PERIOD_NS), RETRY_MAX_NS);
            audit->retry_mono_ns = mono_ns(audit) + audit->pause_ns;
            return false;
        }
        audit->pause_ns = 0;
        audit->retry_mono_ns = INT64_MIN;
        fg_metric_add(audit->metrics, AUDIT_OBJECTS, 1);
        move_durable(audit, audit->waiting->ticket);
        pop_waiting(audit);
    }
    return true;
}

/* ---- chaining ---- */

/* Moves the queue to `taken`, behind what is still there. Returns whether somebody waits. */
static bool take_queue(struct fg_audit *audit)
{
    struct fg_buf empty = {.max_bytes = QUEUE_MAX_BYTES};
    bool urgent;

    (void)pthread_mutex_lock(&audit->lock);
    urgent = audit->urgent;
    if (audit->taken.len == 0) {
        fg_buf_done(&audit->taken);
        audit->taken = audit->queue;
        audit->queue = empty;
        audit->taken_ticket = audit->noted;
        audit->urgent = false;
    }
    (void)pthread_mutex_unlock(&audit->lock);
    return urgent;
}

/* A hole in the records is a record. Returns how many records are missing. */
static uint64_t append_lost(struct fg_audit *audit, struct fg_audit_writer *writer,
                            struct fg_buf *out)
{
    struct fg_audit_event event = {.kind = FG_AUDIT_LOST};
    struct fg_buf text;

    (void)pthread_mutex_lock(&audit->lock);
    event.count = audit->lost;
    (void)pthread_mutex_unlock(&audit->lock);
    if (event.count == 0)
        return 0;
    fg_buf_init(&text, FG_AUDIT_LINE_MAX_BYTES);
    fg_audit_write_event(&event, &text);
    fg_audit_append(writer, now_ms(audit), fg_buf_slice(&text), out);
    fg_buf_done(&text);
    return event.count;
}

static uint64_t append_taken(const struct fg_audit *audit, struct fg_audit_writer *writer,
                             struct fg_buf *out)
{
    struct fg_cur cur = fg_cur(fg_buf_slice(&audit->taken));
    uint64_t n = 0;

    for (; fg_cur_more(&cur); n++) {
        uint32_t len = fg_cur_le32(&cur);
        int64_t ms = (int64_t)fg_cur_le64(&cur);

        fg_audit_append(writer, ms, fg_cur_take(&cur, len), out);
    }
    fg_assert(!cur.bad);
    return n;
}

/* Writes lines to the folder, or to memory. */
static enum fg_code keep_lines(struct fg_audit *audit, const struct fg_audit_writer *writer,
                               struct fg_slice lines, struct fg_err *err)
{
    if (audit->spool != NULL && fg_audit_spool_append(audit->spool, writer->head.chain,
                                                      writer->object, lines, err) != FG_OK)
        return err->code;
    if (audit->open == NULL) {
        audit->open = make_object(&writer->head, writer->object);
        audit->open_mono_ns = mono_ns(audit);
    }
    if (audit->spool == NULL)
        fg_buf_put(&audit->open->lines, lines);
    fg_assert(!audit->open->lines.full);
    audit->open->last = writer->head;
    audit->open->bytes += lines.len;
    audit->open->ticket = audit->taken_ticket;
    return FG_OK;
}

/* Chains what was taken. The chain goes on only if its lines were kept. */
static enum fg_code chain(struct fg_audit *audit, struct fg_err *err)
{
    struct fg_audit_writer writer = audit->writer;
    struct fg_buf lines;
    uint64_t n, lost;

    if (audit->taken.len == 0)
        return FG_OK;

    size_t open = audit->open == NULL ? 0 : audit->open->bytes;

    if (audit->waiting_bytes + open >=
        (audit->spool != NULL ? (size_t)FOLDER_MAX_BYTES : (size_t)MEMORY_MAX_BYTES))
        return fg_fail(err, FG_E_LIMIT, "too many records of the audit wait for the bucket");
    fg_buf_init(&lines, FG_AUDIT_OBJECT_MAX_BYTES - OBJECT_SOFT_BYTES);
    lost = append_lost(audit, &writer, &lines);
    n = append_taken(audit, &writer, &lines);
    fg_assert(!lines.full); /* four times the queue */
    if (keep_lines(audit, &writer, fg_buf_slice(&lines), err) == FG_OK) {
        bool all;

        audit->writer = writer;
        /* The chain says now how many records were lost; callers may have lost more since. */
        (void)pthread_mutex_lock(&audit->lock);
        audit->lost -= lost;
        all = audit->lost == 0;
        (void)pthread_mutex_unlock(&audit->lock);
        if (all)
            fg_condition_clear(audit->lost_some);
        fg_buf_clear(&audit->taken);
        fg_metric_add(audit->metrics, AUDIT_RECORDS, n);
        if (audit->spool != NULL)
            move_durable(audit, audit->taken_ticket);
        err->code = FG_OK;
    }
    fg_buf_done(&lines);
    return err->code;
}

void fg_audit_turn(struct fg_audit *audit)
{
    struct fg_err err;
    bool again, urgent, chained;

    flush_sums(audit);
    again = audit->taken.len > 0; /* of a turn that failed; the queue waits behind it */
    urgent = take_queue(audit);
    chained = chain(audit, &err) == FG_OK;
    if (again && chained) {
        urgent |= take_queue(audit);
        chained = chain(audit, &err) == FG_OK;
    }
    urgent = urgent && audit->spool == NULL;
    if (!chained) {
        /* Everything that was noted waits behind what could not be chained. */
        uint64_t noted;

        (void)pthread_mutex_lock(&audit->lock);
        noted = audit->noted;
        (void)pthread_mutex_unlock(&audit->lock);
        tell_failure(audit, noted, &err);
    }
    if (audit->open != NULL &&
        (urgent || audit->ending || audit->open->bytes >= OBJECT_SOFT_BYTES ||
         mono_ns(audit) - audit->open_mono_ns >= audit->config.settings->flush_ns)) {
        push_waiting(audit, audit->open);
        audit->open = NULL;
        fg_audit_next_object(&audit->writer);
    }
    if (store_waiting(audit, urgent || audit->ending) && chained)
        tell_success(audit);
    fg_metric_set(audit->metrics, AUDIT_WAITING,
                  (int64_t)(audit->waiting_bytes + (audit->open == NULL ? 0 : audit->open->bytes)));
}

/* ---- changes ---- */

/* Makes the thread work at once. Returns false if there is none. Results may come from loops while
 * the process ends, so it is under the lock. */
static bool wake(struct fg_audit *audit)
{
    bool running;

    (void)pthread_mutex_lock(&audit->lock);
    running = audit->ticker != NULL;
    if (running)
        fg_ticker_wake(audit->ticker);
    (void)pthread_mutex_unlock(&audit->lock);
    return running;
}

static enum fg_code await(struct fg_audit *audit, uint64_t ticket, struct fg_err *err)
{
    int64_t deadline_ns = fg_mono_ns(fg_clock_real()) + RECORD_WAIT_NS;
    const struct timespec until = {deadline_ns / FG_SECOND_NS, deadline_ns % FG_SECOND_NS};
    bool in_time = true, durable;

    (void)pthread_mutex_lock(&audit->lock);
    while (audit->durable < ticket && audit->failed < ticket && in_time)
        in_time = pthread_cond_timedwait(&audit->durable_moved, &audit->lock, &until) == 0;
    durable = audit->durable >= ticket;
    if (!durable)
        (void)fg_fail(err, FG_E_UNAVAILABLE, "not done, because the audit cannot record it: %s",
                      audit->failed >= ticket ? audit->why.msg : "storing the record takes long");
    (void)pthread_mutex_unlock(&audit->lock);
    return durable ? FG_OK : err->code;
}

enum fg_code fg_audit_record(struct fg_audit *audit, const struct fg_audit_event *event,
                             struct fg_err *err)
{
    uint64_t ticket;

    if (audit == NULL)
        return FG_OK;
    ticket = take_event(audit, event, true);
    if (ticket == 0)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "not done, because the audit cannot record it: its queue is full");
    if (!wake(audit) && audit->bucket != NULL)
        fg_audit_turn(audit);
    return await(audit, ticket, err);
}

enum fg_code fg_audit_begin(struct fg_audit *audit, struct fg_audit_event *event,
                            struct fg_err *err)
{
    if (audit == NULL)
        return FG_OK;
    (void)pthread_mutex_lock(&audit->lock);
    event->op = ++audit->ops;
    (void)pthread_mutex_unlock(&audit->lock);
    event->phase = FG_AUDIT_BEGIN;
    if (fg_audit_record(audit, event, err) == FG_OK)
        return FG_OK;
    fg_audit_result(audit, event, err->code, err); /* the begin may get through yet */
    return err->code;
}

void fg_audit_result(struct fg_audit *audit, struct fg_audit_event *event, enum fg_code code,
                     const struct fg_err *err)
{
    if (audit == NULL)
        return;
    event->phase = FG_AUDIT_RESULT;
    event->status = fg_code_http(code);
    if (code != FG_OK)
        event->detail = fg_cstr(err->msg);
    fg_audit_note(audit, event);
    (void)wake(audit); /* into the folder at once: a result should not be missing */
}

int64_t fg_audit_retention_ns(const struct fg_audit *audit)
{
    return audit->config.settings->retention_ns;
}

/* ---- life ---- */

struct fg_audit *fg_audit_create(const struct fg_audit_config *config)
{
    struct fg_audit *audit = fg_new(struct fg_audit);

    audit->config = *config;
    audit->waiting_end = &audit->waiting;
    audit->retry_mono_ns = INT64_MIN;
    fg_buf_init(&audit->queue, QUEUE_MAX_BYTES);
    fg_buf_init(&audit->taken, QUEUE_MAX_BYTES);
    fg_assert(pthread_mutex_init(&audit->lock, NULL) == 0);
    fg_cond_init(&audit->durable_moved);
    audit->metrics = fg_metrics_register(config->registry, audit_metrics, FG_COUNT(audit_metrics));
    audit->unstored = fg_condition_create(config->conditions, "audit_not_stored");
    audit->lost_some = fg_condition_create(config->conditions, "audit_records_lost");
    return audit;
}

void fg_audit_destroy(struct fg_audit *audit)
{
    if (audit == NULL)
        return;
    fg_audit_close(audit);
    while (audit->waiting != NULL)
        pop_waiting(audit);
    free_object(audit->open);
    fg_condition_destroy(audit->lost_some);
    fg_condition_destroy(audit->unstored);
    fg_buf_done(&audit->taken);
    fg_buf_done(&audit->queue);
    free(audit->reads.all);
    free(audit->counted.all);
    (void)pthread_cond_destroy(&audit->durable_moved);
    (void)pthread_mutex_destroy(&audit->lock);
    free(audit);
}

/* Queues what an earlier process has left. */
static enum fg_code take_left(struct fg_audit *audit, struct fg_err *err)
{
    struct fg_audit_left *left = NULL;
    size_t n = 0;

    if (fg_audit_spool_left(audit->spool, &left, &n, &audit->writer.continues, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < n; i++)
        push_waiting(audit, make_object(&left[i].link, left[i].object));
    if (n > 0)
        fg_log_info("storing records of the audit that an earlier process has left",
                    fg_lu("objects", n), fg_ls("chain", left[n - 1].link.chain));
    free(left);
    return FG_OK;
}

/* A server starts on a full disk, because it can answer queries. */
static enum fg_code open_folder(struct fg_audit *audit, const char *folder, struct fg_err *err)
{
    if (fg_audit_spool_open(folder, &audit->spool, err) == FG_OK && take_left(audit, err) == FG_OK)
        return FG_OK;
    fg_audit_spool_close(audit->spool);
    audit->spool = NULL;
    if (err->code != FG_E_NO_SPACE)
        return err->code;
    fg_log_warn("the disk is full, so records of the audit are kept in memory until the next start",
                fg_ls("err", err->msg));
    return FG_OK;
}

enum fg_code fg_audit_open(struct fg_audit *audit, struct fg_bucket *bucket, const char *folder,
                           struct fg_err *err)
{
    uint64_t random;

    if (RAND_bytes((uint8_t *)&random, sizeof random) != 1)
        return fg_fail(err, FG_E_INTERNAL, "no random numbers");
    if (gethostname(audit->host, sizeof audit->host - 1) != 0)
        audit->host[0] = '\0';
    audit->writer = fg_audit_writer(audit->config.program, random, audit->host);
    if (folder[0] != '\0' && open_folder(audit, folder, err) != FG_OK)
        return err->code;
    audit->bucket = bucket;
    audit->stop = fg_bucket_stop_create();
    return FG_OK;
}

static void tick(void *arg)
{
    fg_audit_turn(arg);
}

enum fg_code fg_audit_start(struct fg_audit *audit, struct fg_err *err)
{
    const struct fg_ticker_config ticker = {
        .name = "audit", .period_ns = PERIOD_NS, .tick = tick, .arg = audit};

    struct fg_ticker *made;

    if (fg_ticker_create(&ticker, &made, err) != FG_OK)
        return err->code;
    (void)pthread_mutex_lock(&audit->lock);
    audit->ticker = made;
    (void)pthread_mutex_unlock(&audit->lock);
    return FG_OK;
}

void fg_audit_close(struct fg_audit *audit)
{
    struct fg_ticker *ticker;
    bool any;

    if (audit == NULL || audit->bucket == NULL)
        return;
    (void)pthread_mutex_lock(&audit->lock);
    ticker = audit->ticker;
    audit->ticker = NULL;
    (void)pthread_mutex_unlock(&audit->lock);
    fg_bucket_stop_all(audit->stop); /* a put may be under way */
    fg_ticker_destroy(ticker);
    fg_bucket_stop_destroy(audit->stop);
    audit->stop = NULL;
    audit->ending = true;
    /* A process that recorded nothing leaves nothing, not even an end. */
    flush_sums(audit);
    (void)pthread_mutex_lock(&audit->lock);
    any = audit->writer.next_seq > 0 || audit->queue.len > 0 || audit->taken.len > 0;
    (void)pthread_mutex_unlock(&audit->lock);
    if (any)
        fg_audit_note(audit, &(struct fg_audit_event){.kind = FG_AUDIT_END});
    fg_audit_turn(audit);
    fg_audit_spool_close(audit->spool);
    audit->spool = NULL;
    audit->bucket = NULL;
}
