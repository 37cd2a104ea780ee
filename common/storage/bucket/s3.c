/*
 * The S3 bucket. A get or a head is one call, made on the loop. Puts, deletes, lists and clean-up
 * are jobs on workers: straight-line code that makes calls and waits for them.
 */
#include "common/storage/bucket/s3.h"

#include "common/base/str.h"
#include "common/net/aws/endpoint.h"
#include "common/storage/bucket/impl.h"
#include "common/storage/bucket/s3_impl.h"

#include <curl/curl.h>

enum {
    WRITERS = 8,   /* small puts, deletes and lists at a time */
    UPLOADERS = 4, /* files at a time: what is small and urgent does not wait behind them */
    ARENA_BYTES = 64 * 1024,
    RANGE_BYTES = 64,
    PART_LEAST_BYTES = 1024, /* for tests; S3 itself wants 5 MiB */
};

/* ---- words that calls are made with ---- */

/* Encodes a name as a path: '/' stays, all else that is not plain becomes %XX. The same text is
 * sent and signed (SigV4 for S3 encodes a path once). */
static void put_path(struct fg_buf *out, const char *name)
{
    struct fg_slice rest = fg_cstr(name);

    while (rest.len > 0) {
        struct fg_slice segment = fg_slice_sub(rest, 0, fg_slice_find(rest, '/'));

        fg_buf_url(out, segment);
        rest = fg_slice_sub(rest, segment.len, rest.len);
        if (rest.len > 0)
            fg_buf_putc(out, '/');
        rest = fg_slice_sub(rest, 1, rest.len);
    }
}

void fg_s3_call_init(struct fg_s3_call *call, struct fg_s3 *s3, struct fg_bucket_request *request,
                     const char *method, const char *name, struct fg_arena *arena)
{
    struct fg_buf path;

    memset(call, 0, sizeof *call);
    call->s3 = s3;
    call->method = method;
    call->path = s3->bucket_path;
    call->query = "";
    if (name != NULL) {
        fg_buf_init(&path, SIZE_MAX);
        fg_buf_puts(&path, s3->root);
        put_path(&path, name);
        call->path = fg_arena_text(arena, fg_buf_slice(&path));
        fg_buf_done(&path);
        fg_assert(call->path != NULL); /* names are bounded */
    }
    if (request != NULL) {
        call->class = fg_bucket_class_of(request->verb);
        call->deadline_mono_ns = request->deadline_mono_ns;
        call->serial = request->serial;
        call->cancelled = &request->cancelled;
    }
}

void fg_s3_add_condition(struct fg_s3_call *call, const struct fg_bucket_request *request,
                         struct fg_arena *arena)
{
    bool weak = fg_slice_starts(fg_cstr(request->if_etag.text), "W/");
    const char *etag = fg_arena_printf(arena, weak ? "%s" : "\"%s\"", request->if_etag.text);

    fg_assert(etag != NULL);
    switch (request->condition) {
    case FG_BUCKET_ALWAYS:
        break;
    case FG_BUCKET_IF_ABSENT:
        fg_s3_call_header(call, "if-none-match", "*");
        break;
    case FG_BUCKET_IF_MATCH:
        fg_s3_call_header(call, "if-match", etag);
        break;
    case FG_BUCKET_IF_CHANGED:
        fg_s3_call_header(call, "if-none-match", etag);
        break;
    }
}

void fg_s3_fail_by(struct fg_bucket_request *request, const struct fg_s3_call *call)
{
    /* Only a write can have had an effect that nobody knows of. */
    bool writes = request->verb == FG_BUCKET_PUT || request->verb == FG_BUCKET_DELETE;

    (void)fg_bucket_fail_err(request, &call->err);
    request->unsure = writes && call->unsure;
}

void fg_s3_finish(struct fg_s3 *s3, struct fg_bucket_request *request)
{
    fg_bucket_meter_request(&s3->meter, request);
    fg_bucket_finish(request);
}

/* ---- heads of answers ---- */

int64_t fg_s3_time_of(const struct fg_s3_call *call, const char *header)
{
    struct fg_slice text = fg_client_header(&call->http, header);
    char date[64] = "";
    time_t seconds;

    if (text.len > 0 && text.len < sizeof date)
        memcpy(date, text.ptr, text.len);
    seconds = curl_getdate(date, NULL);
    return seconds > 0 ? (int64_t)seconds * FG_SECOND_NS : 0;
}

bool fg_s3_read_head(struct fg_bucket_request *request, const struct fg_s3_call *call)
{
    fg_s3_read_etag(fg_client_header(&call->http, "ETag"), &request->etag);
    request->modified_wall_ns = fg_s3_time_of(call, "Last-Modified");
    if (request->verb == FG_BUCKET_HEAD) {
        uint8_t bytes[FG_ID_BYTES];

        if (fg_parse_hex(fg_client_header(&call->http, "x-amz-meta-flamegrid-tag"), bytes,
                         sizeof bytes))
            request->tag = fg_id_get(bytes);
    }
    /* Without an etag no conditional request is possible, so such an answer is an error. */
    return request->etag.text[0] != '\0' &&
           fg_parse_u64(fg_client_header(&call->http, "Content-Length"), &request->size_bytes);
}

/* Checks Content-Range, such as "bytes 3-6/10", against the request and the body: a cache on the
 * way may answer with another range. */
static bool read_range(struct fg_bucket_request *request, const struct fg_s3_call *call)
{
    struct fg_slice text = fg_client_header(&call->http, "Content-Range");
    size_t dash = fg_slice_find(text, '-'), slash = fg_slice_find(text, '/');
    uint64_t first, last, size;

    if (!fg_slice_starts(text, "bytes ") || dash == SIZE_MAX || slash == SIZE_MAX || dash < 6 ||
        slash < dash || !fg_parse_u64(fg_slice_sub(text, 6, dash - 6), &first) ||
        !fg_parse_u64(fg_slice_sub(text, dash + 1, slash - dash - 1), &last) ||
        !fg_parse_u64(fg_slice_sub(text, slash + 1, text.len), &size))
        return false;
    request->size_bytes = size;
    return first == request->offset && last >= first && last < size &&
           last - first + 1 == request->body.len &&
           (request->length == 0 || request->body.len == FG_MIN(request->length, size - first));
}

/* ---- reads ---- */

struct s3_read {
    struct fg_s3_call call;
    struct fg_bucket_request *request;
    struct fg_arena *arena;
    char range[RANGE_BYTES];
};

static void take_content(struct fg_bucket_request *request, const struct fg_s3_call *call)
{
    bool ok = fg_s3_read_head(request, call);

    request->answered_wall_ns = fg_s3_time_of(call, "Date");
    if (call->status == 304) {
        request->unchanged = true;
        request->etag = request->if_etag;
        return;
    }
    /* 200 to a ranged request never arrives here: on_chunk() has ended that call. */
    if (call->status == 206)
        ok = ok && read_range(request, call);
    else if (request->verb == FG_BUCKET_GET)
        ok = ok && request->size_bytes == request->body.len;
    if (!ok)
        (void)fg_bucket_fail(request, FG_E_CORRUPT,
                             "the response headers do not match the request or the body");
}

/* A range of an empty object: the result is empty, not an error. */
static bool is_empty_object(const struct fg_bucket_request *request, const struct fg_s3_call *call)
{
    return call->status == 416 && request->verb == FG_BUCKET_GET && request->offset == 0;
}

static void on_read(struct fg_s3_call *call)
{
    struct s3_read *read = fg_container(call, struct s3_read, call);
    struct fg_bucket_request *request = read->request;
    struct fg_s3 *s3 = call->s3;

    if (call->code == FG_OK)
        take_content(request, call);
    else if (is_empty_object(request, call))
        fg_s3_read_etag(fg_client_header(&call->http, "ETag"), &request->etag);
    else if (call->status == 416)
        (void)fg_bucket_fail(request, FG_E_INVALID, "begins at byte %llu, which is beyond its end",
                             (unsigned long long)request->offset);
    else
        fg_s3_fail_by(request, call);
    if (request->code != FG_OK)
        fg_buf_clear(&request->body);
    fg_s3_call_clear(call);
    fg_arena_destroy(read->arena);
    free(read);
    /* Last: the request may be freed or sent again by its done(). */
    fg_s3_finish(s3, request);
}

static void add_range(struct s3_read *read)
{
    const struct fg_bucket_request *request = read->request;
    uint64_t last = request->offset + request->length - 1;

    if (request->offset == 0 && request->length == 0)
        return;
    /* The sum wrapped around, or is more than stores accept. */
    if (last < request->offset || last > INT64_MAX)
        last = INT64_MAX;
    if (request->length == 0)
        (void)snprintf(read->range, sizeof read->range, "bytes=%llu-",
                       (unsigned long long)request->offset);
    else
        (void)snprintf(read->range, sizeof read->range, "bytes=%llu-%llu",
                       (unsigned long long)request->offset, (unsigned long long)last);
    fg_s3_call_header(&read->call, "range", read->range);
    read->call.ranged = true;
}

static void start_read(struct fg_s3 *s3, struct fg_bucket_request *request)
{
    struct s3_read *read = fg_new(struct s3_read);
    bool get = request->verb == FG_BUCKET_GET;

    read->request = request;
    read->arena = fg_arena_create(ARENA_BYTES);
    fg_s3_call_init(&read->call, s3, request, get ? "GET" : "HEAD", request->name, read->arena);
    fg_s3_add_condition(&read->call, request, read->arena);
    if (get)
        add_range(read);
    read->call.into = get ? &request->body : NULL;
    read->call.done = on_read;
    fg_s3_call_start(&read->call);
}

/* ---- lists ---- */

static void write_list_query(const struct fg_s3 *s3, const struct fg_bucket_request *request,
                             struct fg_buf *out)
{
    /* Parameters in alphabetical order, as the signature has them. */
    if (request->after != NULL) {
        fg_buf_puts(out, "continuation-token=");
        fg_buf_url(out, fg_cstr(request->after));
        fg_buf_putc(out, '&');
    }
    if (request->by_folder)
        fg_buf_puts(out, "delimiter=%2F&");
    fg_buf_printf(out, "encoding-type=url&list-type=2&max-keys=%u&prefix=", request->page_max);
    fg_buf_url(out, fg_cstr(s3->prefix));
    fg_buf_url(out, fg_cstr(request->name));
}

static void list(struct fg_s3 *s3, struct fg_bucket_request *request)
{
    struct fg_buf query, answer;
    struct fg_s3_call call;
    struct fg_err err;

    fg_buf_init(&query, SIZE_MAX);
    fg_buf_init(&answer, S3_ANSWER_MAX_BYTES);
    write_list_query(s3, request, &query);
    fg_buf_putc(&query, '\0');
    fg_s3_call_init(&call, s3, request, "GET", NULL, NULL);
    call.query = (const char *)query.ptr;
    call.into = &answer;
    if (fg_s3_call_run(&call) != FG_OK)
        fg_s3_fail_by(request, &call);
    else if (fg_s3_read_list(fg_buf_slice(&answer), fg_cstr(s3->prefix), request, &err) != FG_OK)
        (void)fg_bucket_fail_err(request, &err);
    fg_s3_call_clear(&call);
    fg_buf_done(&query);
    fg_buf_done(&answer);
    fg_s3_finish(s3, request);
}

/* ---- jobs ---- */

struct s3_work {
    struct fg_job job;
    struct fg_s3 *s3;
    struct fg_bucket_request *request;
};

static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    struct s3_work *work = fg_container(job, struct s3_work, job);
    struct fg_bucket_request *request = work->request;

    (void)err; /* it is the request's */
    if (fg_bucket_check(request, fg_mono_ns(fg_clock_real())) != FG_OK)
        fg_s3_finish(work->s3, request);
    else if (request->verb == FG_BUCKET_PUT)
        fg_s3_put(work->s3, request);
    else if (request->verb == FG_BUCKET_DELETE)
        fg_s3_delete(work->s3, request);
    else if (request->verb == FG_BUCKET_LIST)
        list(work->s3, request);
    else
        fg_s3_clean_up(work->s3, request);
    return FG_OK;
}

static void on_ran(struct fg_job *job)
{
    free(fg_container(job, struct s3_work, job));
}

static void submit(struct fg_s3 *s3, struct fg_bucket_request *request)
{
    /* Uploads of files take minutes. On lanes of their own they never hold up the swap of a
     * manifest. */
    bool slow = request->path != NULL || request->verb == FG_BUCKET_CLEAN_UP;
    struct s3_work *work = fg_new(struct s3_work);

    *work = (struct s3_work){{.run = run, .done = on_ran}, s3, request};
    if (fg_work_submit(s3->work, slow ? FG_LANE_BACKGROUND : FG_LANE_INGEST, &work->job))
        return;
    free(work);
    (void)fg_bucket_fail(request, FG_E_LIMIT, "too many requests are waiting");
    fg_s3_finish(s3, request);
}

/* ---- the bucket ---- */

static void s3_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct fg_s3 *s3 = fg_container(bucket, struct fg_s3, bucket);

    if (request->verb == FG_BUCKET_GET || request->verb == FG_BUCKET_HEAD)
        start_read(s3, request);
    else
        submit(s3, request);
}

struct cancel {
    struct fg_msg msg;
    struct fg_s3 *s3;
    uint64_t serial;
};

static void on_cancel(struct fg_msg *msg)
{
    struct cancel *cancel = fg_container(msg, struct cancel, msg);

    fg_s3_calls_cancel(cancel->s3, cancel->serial);
    free(cancel);
}

static void s3_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    /* By serial and not by address: when the message arrives, the request may have ended and be
     * gone. */
    struct cancel *cancel = fg_new(struct cancel);

    *cancel = (struct cancel){
        {.run = on_cancel}, fg_container(bucket, struct fg_s3, bucket), request->serial};
    fg_loop_post(cancel->s3->loop, &cancel->msg);
}

static void on_closing(void *arg)
{
    ((struct fg_s3 *)arg)->closing = true;
}

static void on_close(void *arg)
{
    struct fg_s3 *s3 = arg;

    fg_s3_calls_done(s3);
    fg_client_close(s3->client);
}

/* The texts of the configuration, in one place, so that they are copied and freed alike. */
static void each_text(struct fg_bucket_s3_config *config, void (*each)(const char **text))
{
    const char **const texts[] = {
        &config->endpoint,
        &config->region,
        &config->bucket,
        &config->prefix,
        &config->ca_file,
        &config->keys.access_key,
        &config->keys.secret_key,
        &config->keys.session_token,
        &config->keys.access_key_file,
        &config->keys.secret_key_file,
        &config->keys.session_token_file,
        &config->keys.role_arn,
        &config->keys.web_identity_token_file,
        &config->keys.role_session_name,
        &config->keys.sts_endpoint,
        &config->kms_key_id,
        &config->storage_class,
    };

    for (size_t i = 0; i < FG_COUNT(texts); i++)
        each(texts[i]);
}

static void copy_text(const char **text)
{
    size_t len = *text == NULL ? 0 : strlen(*text);
    char *copy = fg_malloc(len + 1);

    if (len > 0)
        memcpy(copy, *text, len);
    copy[len] = '\0';
    *text = copy;
}

static void free_text(const char **text)
{
    free((void *)(uintptr_t)*text);
}

static void s3_free(struct fg_s3 *s3)
{
    fg_client_destroy(s3->client);
    fg_loop_destroy(s3->loop);
    fg_aws_credentials_done(&s3->auth.credentials);
    each_text(&s3->config, free_text);
    free(s3->origin);
    free(s3->host);
    free(s3->root);
    free(s3->bucket_path);
    free(s3->prefix);
    free(s3);
}

static void s3_close(struct fg_bucket *bucket)
{
    struct fg_s3 *s3 = fg_container(bucket, struct fg_s3, bucket);

    /* First no new keys are fetched, then the workers end their calls, and only then the client
     * goes. */
    fg_loop_call(s3->loop, on_closing, s3);
    fg_work_destroy(s3->work);
    fg_loop_call(s3->loop, on_close, s3);
    fg_loop_stop(s3->loop);
    s3_free(s3);
}

/* ---- opening ---- */

static char *take_text(struct fg_buf *buf)
{
    char *text;

    fg_buf_putc(buf, '\0');
    text = (char *)buf->ptr;
    fg_buf_init(buf, SIZE_MAX);
    return text;
}

static enum fg_code make_addresses(struct fg_s3 *s3, struct fg_err *err)
{
    const struct fg_bucket_s3_config *config = &s3->config;
    struct fg_slice scheme = {NULL, 0}, host = {NULL, 0};
    struct fg_buf text;
    char aws[FG_AWS_ENDPOINT_BYTES];

    fg_aws_endpoint("s3", config->region, aws);
    if (fg_aws_endpoint_split(config->endpoint[0] == '\0' ? aws : config->endpoint, &scheme, &host,
                              err) != FG_OK)
        return err->code;
    fg_buf_init(&text, SIZE_MAX);
    if (!config->path_style)
        fg_buf_printf(&text, "%s.", config->bucket);
    fg_buf_put(&text, host);
    s3->host = take_text(&text);
    fg_buf_put(&text, scheme);
    fg_buf_puts(&text, s3->host);
    s3->origin = take_text(&text);
    fg_buf_printf(&text, "/%s", config->path_style ? config->bucket : "");
    s3->bucket_path = take_text(&text);
    fg_buf_printf(&text, "%s%s", config->prefix, config->prefix[0] == '\0' ? "" : "/");
    s3->prefix = take_text(&text);
    fg_buf_printf(&text, "%s%s", s3->bucket_path, config->path_style ? "/" : "");
    put_path(&text, s3->prefix);
    s3->root = take_text(&text);
    return FG_OK;
}

static enum fg_code check_config(const struct fg_bucket_s3_config *config, struct fg_err *err)
{
    const char *fault = config->prefix[0] == '\0' ? NULL : fg_bucket_name_fault(config->prefix);
    /* Bucket names are part of a host's name, or of a path that is signed as it is. */
    size_t name_len = strspn(config->bucket, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789-._");

    if (config->bucket[name_len] != '\0' || name_len < 3 || name_len > 255 ||
        config->bucket[0] == '.')
        return fg_fail(err, FG_E_INVALID, "bucket \"%s\": not a valid bucket name", config->bucket);
    if (config->region[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "no region");
    if (fault != NULL || strlen(config->prefix) > 200)
        return fg_fail(err, FG_E_INVALID, "prefix \"%s\" %s", config->prefix,
                       fault != NULL ? fault : "is longer than 200 bytes");
    if (config->part_bytes < PART_LEAST_BYTES || config->parts_at_once == 0 ||
        config->tries_max == 0 || config->requests_max == 0)
        return fg_fail(err, FG_E_INVALID, "part size, parts, tries or requests are too few");
    return FG_OK;
}

static enum fg_code start(struct fg_s3 *s3, struct fg_err *err)
{
    const struct fg_bucket_s3_config *config = &s3->config;
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = WRITERS, .queue_max = config->waiting_max},
        [FG_LANE_BACKGROUND] = {.threads = UPLOADERS, .queue_max = config->waiting_max},
        /* A worker of its own: all others may wait for keys that it fetches. */
        [FG_LANE_QUERY] = {.threads = 1, .queue_max = 1}, /* keys */
    };

    if (check_config(config, err) != FG_OK || make_addresses(s3, err) != FG_OK ||
        fg_s3_auth_init(s3, err) != FG_OK)
        return err->code;
    if (config->ca_file[0] != '\0')
        s3->tls.ca_file = config->ca_file;
    s3->loop = fg_loop_create("s3");
    s3->client = fg_client_create(&(struct fg_client_config){
        .loop = s3->loop,
        .running_max = config->requests_max,
        .waiting_max = config->waiting_max + config->requests_max, /* calls are counted before */
    });
    fg_s3_calls_init(s3);
    if (fg_loop_start(s3->loop, err) != FG_OK)
        return err->code;
    return fg_work_create("s3", lanes, &s3->work, err);
}

enum fg_code fg_bucket_s3_open(const struct fg_bucket_s3_config *config,
                               struct fg_bucket **ret_bucket, struct fg_err *err)
{
    static const struct fg_bucket_ops ops = {s3_send, s3_cancel, s3_close};
    struct fg_s3 *s3 = fg_new(struct fg_s3);

    s3->bucket.ops = &ops;
    s3->config = *config;
    each_text(&s3->config, copy_text);
    fg_bucket_meter_init(&s3->meter, config->registry);
    if (start(s3, err) != FG_OK) {
        if (s3->loop != NULL) /* a thread could not be had */
            s3_close(&s3->bucket);
        else
            s3_free(s3);
        return fg_wrap(err, "bucket %s", config->bucket == NULL ? "" : config->bucket);
    }
    *ret_bucket = &s3->bucket;
    return FG_OK;
}
