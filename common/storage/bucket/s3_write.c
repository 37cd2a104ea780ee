/*
 * What changes the store, on workers.
 *
 *   put:    PUT ---------------------------> settle
 *   large:  CREATE -> PARTS -> COMPLETE ---> settle, or ABORT
 *
 * settle finds out what became of a conditional put when an answer was lost; see s3.h.
 */
#include "common/base/str.h"
#include "common/storage/bucket/impl.h"
#include "common/storage/bucket/s3_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ARENA_BYTES = 2 * 1024 * 1024, /* names, tags, the list of 10,000 parts */
    MD5_BYTES = 16,
    MD5_TEXT_BYTES = 25,                  /* base64 of 16 bytes, and a NUL */
    TAG_TEXT_BYTES = 2 * FG_ID_BYTES + 1, /* hexadecimal, and a NUL */
    PARTS_MAX = 10000,                    /* S3's limit */
    UPLOADS_MAX = 3,  /* a whole upload from its start, when the store gives it up */
    PAGES_MAX = 1000, /* of unfinished uploads; to end some day whatever the store says */
};

static const int64_t ABORT_TIMEOUT_NS = 10 * FG_SECOND_NS; /* else a sweep ends it */
static const int64_t SETTLE_TIMEOUT_NS = 5 * FG_SECOND_NS; /* where there is no deadline */
static const int64_t STALE_NS = 24 * FG_HOUR_NS;

/* A put on its way. */
struct put {
    struct fg_s3 *s3;
    struct fg_bucket_request *request;
    struct fg_arena *arena;
    char tag[TAG_TEXT_BYTES];
    int fd; /* of the file; -1: the content is in the request */
    uint64_t size_bytes;
    const char *upload; /* encoded id of one that is to be aborted; NULL: none */
    const char *path;   /* of its object */
};

/* ---- small things ---- */

static const char *content_md5(struct fg_slice content, struct fg_arena *arena)
{
    uint8_t digest[MD5_BYTES], text[MD5_TEXT_BYTES];
    const char *copy;

    fg_assert(EVP_Digest(content.ptr, content.len, digest, NULL, EVP_md5(), NULL) == 1);
    fg_assert(EVP_EncodeBlock(text, digest, MD5_BYTES) == MD5_TEXT_BYTES - 1);
    copy = fg_arena_text(arena, fg_bytes(text, MD5_TEXT_BYTES - 1));
    fg_assert(copy != NULL);
    return copy;
}

/* A random tag in the object's metadata. It tells our object from another writer's with the same
 * content and, with some stores, the same etag. */
static void make_tag(struct put *put)
{
    uint8_t bytes[FG_ID_BYTES];
    struct fg_buf text;

    fg_assert(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
    put->request->tag = fg_id_get(bytes);
    fg_buf_init(&text, TAG_TEXT_BYTES);
    fg_buf_hex(&text, bytes, sizeof bytes);
    memcpy(put->tag, text.ptr, text.len);
    fg_buf_done(&text);
}

/* Adds the properties with which an object is made; its parts and its completion have none. */
static void add_properties(struct fg_s3_call *call, const struct put *put)
{
    const struct fg_bucket_s3_config *config = &put->s3->config;

    fg_s3_call_header(call, "x-amz-meta-flamegrid-tag", put->tag);
    if (config->sse == FG_BUCKET_S3_SSE_S3)
        fg_s3_call_header(call, "x-amz-server-side-encryption", "AES256");
    if (config->sse == FG_BUCKET_S3_SSE_KMS) {
        fg_s3_call_header(call, "x-amz-server-side-encryption", "aws:kms");
        if (config->kms_key_id[0] != '\0')
            fg_s3_call_header(call, "x-amz-server-side-encryption-aws-kms-key-id",
                              config->kms_key_id);
    }
    if (config->storage_class[0] != '\0')
        fg_s3_call_header(call, "x-amz-storage-class", config->storage_class);
}

/* ---- settling ---- */

enum owner { OURS, NOT_OURS, UNKNOWN };

/* Reads whose object is there now. OURS: its etag becomes the request's. */
static enum owner find_owner(struct put *put)
{
    struct fg_bucket_request head = {.verb = FG_BUCKET_HEAD};
    struct fg_s3_call call;
    enum owner owner = UNKNOWN;

    fg_s3_call_init(&call, put->s3, put->request, "HEAD", put->request->name, put->arena);
    call.class = FG_BUCKET_CLASS_B;
    if (call.deadline_mono_ns == 0)
        call.deadline_mono_ns = fg_mono_ns(fg_clock_real()) + SETTLE_TIMEOUT_NS;
    if (fg_s3_call_run(&call) == FG_E_NOT_FOUND)
        owner = NOT_OURS;
    else if (call.code == FG_OK && fg_s3_read_head(&head, &call))
        owner = fg_id_eq(head.tag, put->request->tag) ? OURS : NOT_OURS;
    if (owner == OURS) {
        put->request->etag = head.etag;
        put->request->modified_wall_ns = head.modified_wall_ns;
    }
    fg_s3_call_clear(&call);
    return owner;
}

static bool is_conditional(const struct put *put)
{
    return put->request->condition != FG_BUCKET_ALWAYS;
}

/* The store says that the condition does not hold. That may be because of this put: an answer
 * before was lost, or a proxy on the way has sent the request twice. */
static void settle_refusal(struct put *put, const struct fg_s3_call *call)
{
    struct fg_bucket_request *request = put->request;

    if (find_owner(put) == OURS) {
        request->size_bytes = put->size_bytes;
    } else if (call->unsure) {
        (void)fg_bucket_fail(request, FG_E_UNAVAILABLE,
                             "the response to an attempt was lost, and now the condition does not "
                             "hold; it is unknown whether the attempt succeeded");
        request->unsure = true;
    } else {
        (void)fg_bucket_fail(request, FG_E_PRECONDITION, "%s",
                             request->condition == FG_BUCKET_IF_ABSENT ? "the object already exists"
                                                                       : "the object has changed");
    }
}

/* Finds out what became of a put from the end of its last call, the one that makes the object. */
static void settle(struct put *put, const struct fg_s3_call *call,
                   const struct fg_bucket_etag *etag)
{
    struct fg_bucket_request *request = put->request;
    bool refused = call->code == FG_E_PRECONDITION ||
                   (call->code == FG_E_NOT_FOUND && request->condition == FG_BUCKET_IF_MATCH);

    if (call->code == FG_OK && etag->text[0] != '\0') {
        request->etag = *etag;
        request->size_bytes = put->size_bytes;
    } else if (refused && is_conditional(put)) {
        settle_refusal(put, call);
    } else if ((call->code == FG_OK || call->unsure) && find_owner(put) == OURS) {
        request->size_bytes = put->size_bytes;
    } else if (call->code == FG_OK) {
        (void)fg_bucket_fail(request, FG_E_UNAVAILABLE, "the response has no etag");
        request->unsure = true;
    } else {
        fg_s3_fail_by(request, call);
    }
}

/* ---- content ---- */

static enum fg_code open_file(struct put *put)
{
    struct fg_bucket_request *request = put->request;
    struct stat info;

    put->size_bytes = request->content.len;
    if (request->path == NULL)
        return FG_OK;
    put->fd = open(request->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (put->fd < 0 || fstat(put->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return fg_bucket_fail(request, FG_E_INVALID, "file %.200s cannot be read", request->path);
    put->size_bytes = (uint64_t)info.st_size;
    return FG_OK;
}

/* [offset, offset + len) of it; from a file by way of `space`, which is initialised. */
static enum fg_code read_content(struct put *put, uint64_t offset, size_t len, struct fg_buf *space,
                                 struct fg_slice *ret_content)
{
    if (put->fd < 0) {
        *ret_content = fg_slice_sub(put->request->content, (size_t)offset, len);
        return FG_OK;
    }
    fg_buf_clear(space);
    fg_assert(fg_buf_reserve(space, FG_MAX(len, (size_t)1)));
    while (space->len < len) {
        ssize_t got =
            pread(put->fd, space->ptr + space->len, len - space->len, (off_t)(offset + space->len));

        if (got < 0 && errno == EINTR)
            continue;
        /* A file that shrinks while it is uploaded is the caller's fault, and no object comes of
         * it. */
        if (got <= 0)
            return fg_bucket_fail(put->request, FG_E_INVALID, "file %.200s: %s", put->request->path,
                                  got == 0 ? "was truncated" : "cannot be read");
        space->len += (size_t)got;
    }
    *ret_content = fg_bytes(space->ptr, len); /* not NULL: a body without content is one */
    return FG_OK;
}

/* ---- in one piece ---- */

static void put_whole(struct put *put)
{
    struct fg_slice content = {NULL, 0};
    struct fg_bucket_etag etag;
    struct fg_s3_call call;
    struct fg_buf space;

    fg_buf_init(&space, SIZE_MAX);
    if (read_content(put, 0, (size_t)put->size_bytes, &space, &content) == FG_OK) {
        fg_s3_call_init(&call, put->s3, put->request, "PUT", put->request->name, put->arena);
        call.body = content.len > 0 ? content : FG_LIT("");
        /* The client must not send a conditional put again by itself: the second one would fail
         * because of the first. */
        call.once = is_conditional(put);
        fg_s3_add_condition(&call, put->request, put->arena);
        add_properties(&call, put);
        fg_s3_call_header(&call, "content-md5", content_md5(content, put->arena));
        (void)fg_s3_call_run(&call);
        fg_s3_read_etag(fg_client_header(&call.http, "ETag"), &etag);
        settle(put, &call, &etag);
        fg_s3_call_clear(&call);
    }
    fg_buf_done(&space);
}

/* ---- in parts ---- */

/* One place of several in which parts are under way. */
struct s3_write_slot {
    struct fg_s3_call call;
    struct fg_buf space;
    char query[S3_ID_BYTES * 3 + 64];
    bool busy;
    unsigned part; /* 1, 2, … */
};

struct upload {
    struct put *put;
    const char *id; /* encoded */
    uint64_t part_bytes;
    unsigned n_parts;
    struct fg_bucket_etag *etags; /* of the parts */
    struct s3_write_slot *slots;
    unsigned n_slots;
};

static enum fg_code create(struct put *put, struct upload *upload)
{
    char id[S3_ID_BYTES];
    struct fg_buf answer, encoded;
    struct fg_s3_call call;
    struct fg_err err;
    enum fg_code code;

    fg_buf_init(&answer, S3_ERROR_MAX_BYTES);
    fg_buf_init(&encoded, SIZE_MAX);
    fg_s3_call_init(&call, put->s3, put->request, "POST", put->request->name, put->arena);
    call.query = "uploads=";
    call.body = FG_LIT("");
    call.into = &answer;
    add_properties(&call, put);
    put->path = call.path;
    code = fg_s3_call_run(&call);
    if (code != FG_OK) {
        fg_s3_fail_by(put->request, &call);
        put->request->unsure = false; /* an upload that is never completed is not an object */
    } else if ((code = fg_s3_read_field(fg_buf_slice(&answer), "InitiateMultipartUploadResult",
                                        "UploadId", id, sizeof id, &err)) != FG_OK) {
        (void)fg_bucket_fail_err(put->request, &err);
    } else {
        fg_buf_url(&encoded, fg_cstr(id));
        upload->id = put->upload = fg_arena_text(put->arena, fg_buf_slice(&encoded));
        fg_assert(upload->id != NULL);
    }
    fg_s3_call_clear(&call);
    fg_buf_done(&answer);
    fg_buf_done(&encoded);
    return code;
}

/* Waits for the part in the slot, if there is one. */
static enum fg_code finish_part(struct upload *upload, struct s3_write_slot *slot)
{
    struct fg_bucket_request *request = upload->put->request;
    struct fg_bucket_etag *etag;
    enum fg_code code;

    if (!slot->busy)
        return FG_OK;
    slot->busy = false;
    code = fg_s3_call_wait(&slot->call);
    etag = &upload->etags[slot->part - 1];
    if (code != FG_OK && request->code == FG_OK) {
        fg_s3_fail_by(request, &slot->call);
        request->unsure = false;
    }
    if (code == FG_OK) {
        fg_s3_read_etag(fg_client_header(&slot->call.http, "ETag"), etag);
        if (etag->text[0] == '\0')
            code = fg_bucket_fail(request, FG_E_UNAVAILABLE, "part %u: the response has no etag",
                                  slot->part);
    }
    fg_s3_call_clear(&slot->call);
    return code;
}

static enum fg_code start_part(struct upload *upload, struct s3_write_slot *slot, unsigned part)
{
    struct put *put = upload->put;
    uint64_t offset = (part - 1) * upload->part_bytes;
    uint64_t len = FG_MIN(put->size_bytes - offset, upload->part_bytes);
    struct fg_slice content = {NULL, 0};

    if (read_content(put, offset, (size_t)len, &slot->space, &content) != FG_OK)
        return put->request->code;
    fg_s3_call_init(&slot->call, put->s3, put->request, "PUT", NULL, put->arena);
    slot->call.path = put->path;
    (void)snprintf(slot->query, sizeof slot->query, "partNumber=%u&uploadId=%s", part, upload->id);
    slot->call.query = slot->query;
    slot->call.body = content.len > 0 ? content : FG_LIT("");
    fg_s3_call_header(&slot->call, "content-md5", content_md5(content, put->arena));
    slot->part = part;
    slot->busy = true;
    fg_s3_call_begin(&slot->call);
    return FG_OK;
}

static enum fg_code send_parts(struct upload *upload)
{
    enum fg_code code = FG_OK, ended;

    for (unsigned part = 1; code == FG_OK && part <= upload->n_parts; part++) {
        struct s3_write_slot *slot = &upload->slots[part % upload->n_slots];

        code = finish_part(upload, slot);
        if (code == FG_OK)
            code = start_part(upload, slot, part);
    }
    /* Also after a failure: calls under way use memory of the slots. */
    for (unsigned i = 0; i < upload->n_slots; i++) {
        ended = finish_part(upload, &upload->slots[i]);
        code = code == FG_OK ? ended : code;
    }
    return code;
}

static void write_parts(const struct upload *upload, struct fg_buf *out)
{
    fg_buf_puts(out, "<CompleteMultipartUpload "
                     "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (unsigned i = 0; i < upload->n_parts; i++) {
        fg_buf_printf(out, "<Part><PartNumber>%u</PartNumber><ETag>\"", i + 1);
        fg_buf_html(out, fg_cstr(upload->etags[i].text));
        fg_buf_puts(out, "\"</ETag></Part>");
    }
    fg_buf_puts(out, "</CompleteMultipartUpload>");
}

/* 200 is sent before the store has begun; what came of it is in the body. */
static enum fg_code check_completed(struct fg_s3_call *call, struct fg_aws_error *error)
{
    char etag[FG_BUCKET_ETAG_BYTES];
    struct fg_err err;

    if (fg_s3_read_field(fg_buf_slice(call->into), "CompleteMultipartUploadResult", "ETag", etag,
                         sizeof etag, &err) == FG_OK)
        return FG_OK;
    fg_aws_read_error(fg_buf_slice(call->into), error);
    return err.code;
}

/* FG_E_ABORTED: the upload is gone, and was not completed. */
static enum fg_code complete(struct upload *upload)
{
    struct put *put = upload->put;
    struct fg_buf answer, parts;
    struct fg_bucket_etag etag = {""};
    struct fg_s3_call call;
    char text[FG_BUCKET_ETAG_BYTES], query[sizeof upload->slots->query];
    struct fg_err err;
    bool gone, conflict;

    fg_buf_init(&answer, S3_ERROR_MAX_BYTES);
    fg_buf_init(&parts, SIZE_MAX);
    write_parts(upload, &parts);
    (void)snprintf(query, sizeof query, "uploadId=%s", upload->id);
    fg_s3_call_init(&call, put->s3, put->request, "POST", NULL, put->arena);
    call.path = put->path;
    call.query = query;
    call.body = fg_buf_slice(&parts);
    call.into = &answer;
    /* Completing twice answers NoSuchUpload, which would look like a failure. */
    call.once = true;
    call.check = check_completed;
    fg_s3_add_condition(&call, put->request, put->arena);
    (void)fg_s3_call_run(&call);
    if (call.code == FG_OK &&
        fg_s3_read_field(fg_buf_slice(&answer), "CompleteMultipartUploadResult", "ETag", text,
                         sizeof text, &err) == FG_OK)
        fg_s3_read_etag(fg_cstr(text), &etag);
    conflict = strcmp(call.error.code, "ConditionalRequestConflict") == 0;
    gone = (call.code == FG_E_ABORTED || conflict) && !call.unsure;
    if (call.code == FG_OK)
        put->upload = NULL;
    if (gone) {
        fg_s3_fail_by(put->request, &call);
        put->request->code = FG_E_ABORTED;
    } else {
        settle(put, &call, &etag);
    }
    /* Never from its start again when this one may have been completed: the next one's refusal
     * would look certain. */
    if (!gone && put->request->code == FG_E_ABORTED)
        put->request->code = put->request->err.code = FG_E_UNAVAILABLE;
    fg_s3_call_clear(&call);
    fg_buf_done(&answer);
    fg_buf_done(&parts);
    return put->request->code;
}

/* No part waits any more, so the request may be finished. */
static void abort_upload(struct put *put)
{
    char query[sizeof((struct s3_write_slot *)NULL)->query];
    struct fg_s3_call call;

    if (put->upload == NULL)
        return;
    (void)snprintf(query, sizeof query, "uploadId=%s", put->upload);
    fg_s3_call_init(&call, put->s3, NULL, "DELETE", NULL, NULL);
    call.path = put->path;
    call.query = query;
    call.class = FG_BUCKET_CLASS_FREE;
    call.deadline_mono_ns = fg_mono_ns(fg_clock_real()) + ABORT_TIMEOUT_NS;
    (void)fg_s3_call_run(&call);
    fg_s3_call_clear(&call);
    put->upload = NULL;
}

static void upload_init(struct upload *upload, struct put *put)
{
    const struct fg_bucket_s3_config *config = &put->s3->config;

    upload->put = put;
    upload->part_bytes = FG_MAX(config->part_bytes, (put->size_bytes + PARTS_MAX - 1) / PARTS_MAX);
    upload->n_parts =
        (unsigned)FG_MAX((put->size_bytes + upload->part_bytes - 1) / upload->part_bytes,
                         UINT64_C(1)); /* an empty object has one, too */
    upload->n_slots = FG_MIN(config->parts_at_once, upload->n_parts);
    upload->etags = fg_calloc(upload->n_parts, sizeof *upload->etags);
    upload->slots = fg_calloc(upload->n_slots, sizeof *upload->slots);
    for (unsigned i = 0; i < upload->n_slots; i++)
        fg_buf_init(&upload->slots[i].space, SIZE_MAX);
}

static void put_in_parts(struct put *put)
{
    struct upload upload = {0};
    enum fg_code code = FG_E_ABORTED;

    upload_init(&upload, put);
    for (unsigned i = 0; i < UPLOADS_MAX && code == FG_E_ABORTED; i++) {
        abort_upload(put); /* of the time before */
        put->request->code = FG_OK;
        code = create(put, &upload);
        if (code == FG_OK)
            code = send_parts(&upload);
        if (code == FG_OK)
            code = complete(&upload);
    }
    /* Only between the store and us: the caller has nothing to repeat. */
    if (put->request->code == FG_E_ABORTED)
        put->request->code = put->request->err.code = FG_E_UNAVAILABLE;
    for (unsigned i = 0; i < upload.n_slots; i++)
        fg_buf_done(&upload.slots[i].space);
    free(upload.slots);
    free(upload.etags);
}

/* ---- outside ---- */

void fg_s3_put(struct fg_s3 *s3, struct fg_bucket_request *request)
{
    struct put put = {
        .s3 = s3, .request = request, .fd = -1, .arena = fg_arena_create(ARENA_BYTES)};

    make_tag(&put);
    if (open_file(&put) == FG_OK) {
        if (request->in_parts || put.size_bytes > s3->config.part_bytes)
            put_in_parts(&put);
        else
            put_whole(&put);
    }
    if (put.fd >= 0)
        (void)close(put.fd);
    fg_s3_finish(s3, request);
    abort_upload(&put);
    fg_arena_destroy(put.arena);
}

void fg_s3_delete(struct fg_s3 *s3, struct fg_bucket_request *request)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_s3_call call;

    fg_s3_call_init(&call, s3, request, "DELETE", request->name, arena);
    fg_s3_add_condition(&call, request, arena);
    call.once = request->condition != FG_BUCKET_ALWAYS;
    if (fg_s3_call_run(&call) == FG_E_PRECONDITION && call.unsure) {
        (void)fg_bucket_fail(request, FG_E_UNAVAILABLE,
                             "the response to an attempt was lost, and now another object exists");
        request->unsure = true;
    } else if (call.code != FG_OK && call.code != FG_E_NOT_FOUND) {
        fg_s3_fail_by(request, &call);
    }
    fg_s3_call_clear(&call);
    fg_s3_finish(s3, request);
}

/* ---- unfinished uploads ---- */

/* *ret_wall_ns: when the store answered, by the clock that it gives uploads their times from. */
static enum fg_code list_uploads(struct fg_s3 *s3, struct fg_bucket_request *request,
                                 struct fg_s3_uploads *uploads, int64_t *ret_wall_ns)
{
    struct fg_buf query, answer;
    struct fg_s3_call call;
    struct fg_err err;
    enum fg_code code;

    fg_buf_init(&query, SIZE_MAX);
    fg_buf_init(&answer, S3_ANSWER_MAX_BYTES);
    fg_buf_puts(&query, "encoding-type=url");
    if (uploads->next_key != NULL) {
        fg_buf_puts(&query, "&key-marker=");
        fg_buf_url(&query, fg_cstr(uploads->next_key));
    }
    fg_buf_puts(&query, "&max-uploads=1000&prefix=");
    fg_buf_url(&query, fg_cstr(s3->prefix));
    if (uploads->next_key != NULL && uploads->next_id != NULL) {
        fg_buf_puts(&query, "&upload-id-marker=");
        fg_buf_url(&query, fg_cstr(uploads->next_id));
    }
    fg_buf_puts(&query, "&uploads=");
    fg_buf_putc(&query, '\0');
    fg_s3_call_init(&call, s3, request, "GET", NULL, NULL);
    call.query = (const char *)query.ptr;
    call.into = &answer;
    code = fg_s3_call_run(&call);
    *ret_wall_ns = fg_s3_time_of(&call, "Date");
    if (*ret_wall_ns == 0)
        *ret_wall_ns = fg_wall_ns(fg_s3_clock(s3));
    fg_arena_reset(uploads->arena);
    if (code != FG_OK)
        fg_s3_fail_by(request, &call);
    else if ((code = fg_s3_read_uploads(fg_buf_slice(&answer), uploads, &err)) != FG_OK)
        (void)fg_bucket_fail_err(request, &err);
    fg_s3_call_clear(&call);
    fg_buf_done(&query);
    fg_buf_done(&answer);
    return code;
}

static enum fg_code abort_stale(struct fg_s3 *s3, struct fg_bucket_request *request,
                                const struct fg_s3_upload *stale)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_buf query;
    struct fg_s3_call call;
    enum fg_code code;

    fg_buf_init(&query, SIZE_MAX);
    fg_buf_puts(&query, "uploadId=");
    fg_buf_url(&query, fg_cstr(stale->id));
    fg_buf_putc(&query, '\0');
    /* Names are within the prefix, which the root has already. */
    fg_s3_call_init(&call, s3, request, "DELETE", stale->key + strlen(s3->prefix), arena);
    call.class = FG_BUCKET_CLASS_FREE;
    call.query = (const char *)query.ptr;
    code = fg_s3_call_run(&call);
    if (code == FG_OK)
        request->size_bytes++;
    else if (code == FG_E_NOT_FOUND || code == FG_E_ABORTED)
        code = FG_OK; /* another process removed it */
    else
        fg_s3_fail_by(request, &call);
    fg_s3_call_clear(&call);
    fg_buf_done(&query);
    return code;
}

void fg_s3_clean_up(struct fg_s3 *s3, struct fg_bucket_request *request)
{
    struct fg_s3_uploads uploads = {.arena = fg_arena_create(S3_ANSWER_MAX_BYTES)};
    int64_t age_ns = request->older_than_ns > 0 ? request->older_than_ns : STALE_NS;
    int64_t wall_ns;
    enum fg_code code = FG_OK;

    for (unsigned page = 0; code == FG_OK && page < PAGES_MAX; page++) {
        code = list_uploads(s3, request, &uploads, &wall_ns);
        for (size_t i = 0; code == FG_OK && i < uploads.n; i++)
            if (uploads.items[i].initiated_wall_ns < wall_ns - age_ns &&
                fg_slice_starts(fg_cstr(uploads.items[i].key), s3->prefix))
                code = abort_stale(s3, request, &uploads.items[i]);
        if (uploads.next_key == NULL)
            break;
    }
    fg_arena_destroy(uploads.arena);
    fg_s3_finish(s3, request);
}
