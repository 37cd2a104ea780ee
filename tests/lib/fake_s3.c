#include "tests/lib/fake_s3.h"

#include "common/base/hash.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "tests/lib/fake_server.h"

#include <pthread.h>
#include <strings.h>

enum { OBJECTS_MAX = 256, PARTS_MAX = 64, FAULTS_MAX = 16, REQUEST_MAX = 40000, LINES_MAX = 1000 };

struct object {
    char key[1200];
    struct fg_buf content;
    char tag[64], etag[64];
};

struct upload {
    char key[1200], id[32], tag[64];
    int64_t begun_wall_ns;
    struct fg_buf parts[PARTS_MAX];
};

struct fault {
    char line_has[64];
    enum fake_fault fault;
    unsigned count;
};

struct fake_s3 {
    struct fake_server *server;
    pthread_mutex_t lock;
    struct fake_s3_rules rules;
    struct object *objects[OBJECTS_MAX];
    size_t n_objects;
    struct upload *uploads[OBJECTS_MAX];
    size_t n_uploads;
    unsigned given, role; /* ids of uploads, keys of roles */
    struct fault faults[FAULTS_MAX];
    size_t n_faults;
    char *heads[LINES_MAX];
    size_t n_heads;
};

/* A request, and what becomes of it. */
struct exchange {
    struct fake_s3 *s3;
    char method[16], key[1200], query[2400];
    const char *head;
    struct fg_slice body;
    unsigned status;
    const char *code;  /* of an error */
    char headers[600]; /* lines */
    struct fg_buf answer;
};

/* ---- small things ---- */

static void decode(struct fg_slice in, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < in.len && n + 1 < size; i++) {
        uint8_t byte = in.ptr[i];

        if (byte == '%' && fg_parse_hex(fg_slice_sub(in, i + 1, 2), &byte, 1))
            i += 2;
        out[n++] = (char)byte;
    }
    out[n] = '\0';
}

static bool header(const struct exchange *x, const char *name, char *out, size_t size)
{
    char line[100];
    const char *at, *end;

    (void)snprintf(line, sizeof line, "\r\n%s: ", name);
    at = strcasestr(x->head, line);
    out[0] = '\0';
    if (at == NULL)
        return false;
    at += strlen(line);
    end = strstr(at, "\r\n");
    (void)snprintf(out, size, "%.*s", (int)(end - at), at);
    return true;
}

/* "name=" of the query, decoded. */
static bool parameter(const struct exchange *x, const char *name, char *out, size_t size)
{
    struct fg_slice rest = fg_cstr(x->query);
    char wanted[64];

    (void)snprintf(wanted, sizeof wanted, "%s=", name);
    out[0] = '\0';
    while (rest.len > 0) {
        struct fg_slice one = fg_slice_sub(rest, 0, fg_slice_find(rest, '&'));

        if (fg_slice_starts(one, wanted)) {
            decode(fg_slice_sub(one, strlen(wanted), one.len), out, size);
            return true;
        }
        rest = fg_slice_sub(rest, one.len + 1, rest.len);
    }
    return false;
}

static void refuse(struct exchange *x, unsigned status, const char *code)
{
    x->status = status;
    x->code = code;
}

static struct object *find(struct fake_s3 *s3, const char *key)
{
    for (size_t i = 0; i < s3->n_objects; i++)
        if (strcmp(s3->objects[i]->key, key) == 0)
            return s3->objects[i];
    return NULL;
}

static void store(struct fake_s3 *s3, const char *key, struct fg_slice content, const char *tag)
{
    struct object *object = find(s3, key);

    if (object == NULL) {
        fg_assert(s3->n_objects < OBJECTS_MAX);
        object = fg_new(struct object);
        s3->objects[s3->n_objects++] = object;
        (void)snprintf(object->key, sizeof object->key, "%s", key);
        fg_buf_init(&object->content, SIZE_MAX);
    }
    fg_buf_clear(&object->content);
    fg_buf_put(&object->content, content);
    (void)snprintf(object->tag, sizeof object->tag, "%s", tag);
    (void)snprintf(object->etag, sizeof object->etag, "\"%016llx\"",
                   (unsigned long long)fg_hash64(content));
}

static void drop(struct fake_s3 *s3, const char *key)
{
    for (size_t i = 0; i < s3->n_objects; i++)
        if (strcmp(s3->objects[i]->key, key) == 0) {
            fg_buf_done(&s3->objects[i]->content);
            free(s3->objects[i]);
            s3->objects[i] = s3->objects[--s3->n_objects];
            return;
        }
}

static struct upload *find_upload(struct exchange *x)
{
    char id[64];

    (void)parameter(x, "uploadId", id, sizeof id);
    for (size_t i = 0; i < x->s3->n_uploads; i++)
        if (strcmp(x->s3->uploads[i]->id, id) == 0)
            return x->s3->uploads[i];
    refuse(x, 404, "NoSuchUpload");
    return NULL;
}

static void drop_upload(struct fake_s3 *s3, struct upload *upload)
{
    for (size_t i = 0; i < s3->n_uploads; i++)
        if (s3->uploads[i] == upload)
            s3->uploads[i] = s3->uploads[--s3->n_uploads];
    for (size_t i = 0; i < PARTS_MAX; i++)
        fg_buf_done(&upload->parts[i]);
    free(upload);
}

/* ---- conditions ---- */

static bool may_write(struct exchange *x, bool pass_over)
{
    const struct object *object = find(x->s3, x->key);
    char etag[200];

    if (pass_over)
        return true;
    if (!x->s3->rules.no_if_none_match && header(x, "if-none-match", etag, sizeof etag) &&
        object != NULL) {
        refuse(x, 412, "PreconditionFailed");
        return false;
    }
    if (x->s3->rules.no_if_match || !header(x, "if-match", etag, sizeof etag))
        return true;
    if (object == NULL && strcmp(x->method, "DELETE") == 0)
        return true;
    if (object == NULL)
        refuse(x, 404, "NoSuchKey");
    else if (strcmp(object->etag, etag) != 0)
        refuse(x, 412, "PreconditionFailed");
    return object != NULL && strcmp(object->etag, etag) == 0;
}

static void add_header(struct exchange *x, const char *name, const char *value)
{
    size_t used = strlen(x->headers);

    (void)snprintf(x->headers + used, sizeof x->headers - used, "%s: %s\r\n", name, value);
}

/* ---- verbs ---- */

static void describe(struct exchange *x, const struct object *object)
{
    add_header(x, "ETag", object->etag);
    add_header(x, "Last-Modified", "Thu, 29 Feb 2024 12:34:56 GMT");
    add_header(x, "Date", "Thu, 29 Feb 2024 12:35:06 GMT");
    if (!x->s3->rules.no_metadata && object->tag[0] != '\0')
        add_header(x, "x-amz-meta-flamegrid-tag", object->tag);
}

static void give_range(struct exchange *x, const struct object *object, const char *range)
{
    unsigned long long first = 0, last = UINT64_MAX;
    char value[100];

    (void)sscanf(range, "bytes=%llu-%llu", &first, &last); /* NOLINT(cert-err34-c) */
    if (first >= object->content.len) {
        refuse(x, 416, "InvalidRange");
        return;
    }
    last = FG_MIN(last, object->content.len - 1);
    x->status = 206;
    (void)snprintf(value, sizeof value, "bytes %llu-%llu/%zu", first, last, object->content.len);
    add_header(x, "Content-Range", value);
    fg_buf_put(&x->answer, fg_slice_sub(fg_buf_slice(&object->content), first, last - first + 1));
}

static void get(struct exchange *x)
{
    const struct object *object = find(x->s3, x->key);
    char value[200];

    if (object == NULL) {
        refuse(x, 404, "NoSuchKey");
        return;
    }
    if (header(x, "if-match", value, sizeof value) && strcmp(value, object->etag) != 0) {
        refuse(x, 412, "PreconditionFailed");
        return;
    }
    describe(x, object);
    if (header(x, "if-none-match", value, sizeof value) && strcmp(value, object->etag) == 0)
        x->status = 304;
    else if (header(x, "range", value, sizeof value) && !x->s3->rules.no_ranges)
        give_range(x, object, value);
    else
        fg_buf_put(&x->answer, fg_buf_slice(&object->content));
}

static void put(struct exchange *x)
{
    char tag[64];

    if (!may_write(x, false))
        return;
    (void)header(x, "x-amz-meta-flamegrid-tag", tag, sizeof tag);
    store(x->s3, x->key, x->body, tag);
    add_header(x, "ETag", find(x->s3, x->key)->etag);
}

static void put_part(struct exchange *x)
{
    struct upload *upload = find_upload(x);
    char number[16];
    uint64_t nr = 0;

    (void)parameter(x, "partNumber", number, sizeof number);
    fg_assert(fg_parse_u64(fg_cstr(number), &nr) && nr > 0 && nr <= PARTS_MAX);
    if (upload == NULL)
        return;
    fg_buf_clear(&upload->parts[nr - 1]);
    fg_buf_put(&upload->parts[nr - 1], x->body);
    add_header(x, "ETag", "\"part\"");
}

static void create_upload(struct exchange *x)
{
    struct upload *upload = fg_new(struct upload);

    (void)snprintf(upload->key, sizeof upload->key, "%s", x->key);
    (void)snprintf(upload->id, sizeof upload->id, "id&%u", ++x->s3->given);
    (void)header(x, "x-amz-meta-flamegrid-tag", upload->tag, sizeof upload->tag);
    upload->begun_wall_ns = fg_wall_ns(fg_clock_real()) + x->s3->rules.ahead_ns;
    for (size_t i = 0; i < PARTS_MAX; i++)
        fg_buf_init(&upload->parts[i], SIZE_MAX);
    fg_assert(x->s3->n_uploads < OBJECTS_MAX);
    x->s3->uploads[x->s3->n_uploads++] = upload;
    fg_buf_printf(&x->answer,
                  "<InitiateMultipartUploadResult><UploadId>id&amp;%u</UploadId>"
                  "</InitiateMultipartUploadResult>",
                  x->s3->given);
}

static void complete_upload(struct exchange *x)
{
    struct upload *upload = find_upload(x);
    struct fg_buf content;

    if (upload == NULL || !may_write(x, x->s3->rules.no_multipart_conditions))
        return;
    fg_buf_init(&content, SIZE_MAX);
    for (size_t i = 0; i < PARTS_MAX; i++)
        fg_buf_put(&content, fg_buf_slice(&upload->parts[i]));
    store(x->s3, x->key, fg_buf_slice(&content), upload->tag);
    fg_buf_done(&content);
    drop_upload(x->s3, upload);
    fg_buf_printf(&x->answer,
                  "<CompleteMultipartUploadResult><ETag>&quot;%.16s&quot;</ETag>"
                  "</CompleteMultipartUploadResult>",
                  find(x->s3, x->key)->etag + 1);
}

static void add_date(struct exchange *x)
{
    time_t seconds = (time_t)((fg_wall_ns(fg_clock_real()) + x->s3->rules.ahead_ns) / FG_SECOND_NS);
    struct tm parts;
    char text[64];

    fg_assert(gmtime_r(&seconds, &parts) != NULL &&
              strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts) > 0);
    add_header(x, "Date", text);
}

static void list_uploads(struct exchange *x)
{
    if (x->s3->rules.ahead_ns != 0)
        add_date(x);
    fg_buf_puts(&x->answer, "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>");
    for (size_t i = 0; i < x->s3->n_uploads; i++) {
        const struct upload *upload = x->s3->uploads[i];
        time_t seconds = (time_t)(upload->begun_wall_ns / FG_SECOND_NS);
        struct tm parts;
        char text[32];

        fg_assert(gmtime_r(&seconds, &parts) != NULL &&
                  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0);
        fg_buf_printf(&x->answer, "<Upload><Key>%s</Key><UploadId>", upload->key);
        fg_buf_html(&x->answer, fg_cstr(upload->id));
        fg_buf_printf(&x->answer, "</UploadId><Initiated>%s</Initiated></Upload>", text);
    }
    fg_buf_puts(&x->answer, "</ListMultipartUploadsResult>");
}

static void list_objects(struct exchange *x)
{
    char prefix[1200];

    (void)parameter(x, "prefix", prefix, sizeof prefix);
    fg_buf_puts(&x->answer, "<ListBucketResult><IsTruncated>false</IsTruncated>");
    for (size_t i = 0; i < x->s3->n_objects; i++)
        if (fg_slice_starts(fg_cstr(x->s3->objects[i]->key), prefix))
            fg_buf_printf(&x->answer,
                          "<Contents><Key>%s</Key><Size>%zu</Size>"
                          "<LastModified>2024-02-29T12:34:56Z</LastModified></Contents>",
                          x->s3->objects[i]->key, x->s3->objects[i]->content.len);
    fg_buf_puts(&x->answer, "</ListBucketResult>");
}

static void delete (struct exchange *x)
{
    struct upload *upload;

    if (strstr(x->query, "uploadId=") != NULL) {
        upload = find_upload(x);
        if (upload != NULL)
            drop_upload(x->s3, upload);
    } else if (may_write(x, x->s3->rules.no_delete_conditions)) {
        drop(x->s3, x->key);
    }
    if (x->status == 200)
        x->status = 204;
}

static void give_role(struct exchange *x)
{
    time_t seconds = (time_t)((fg_wall_ns(fg_clock_real()) + x->s3->rules.role_ns) / FG_SECOND_NS);
    struct tm parts;
    char text[32];

    if (x->s3->rules.sts_fails ||
        fg_slice_search(x->body, "WebIdentityToken=good.token") == SIZE_MAX ||
        fg_slice_search(x->body, "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr") == SIZE_MAX) {
        refuse(x, 400, "InvalidIdentityToken");
        return;
    }
    fg_assert(gmtime_r(&seconds, &parts) != NULL &&
              strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0);
    fg_buf_printf(&x->answer,
                  "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>"
                  "<Credentials><SessionToken>token%u</SessionToken>"
                  "<SecretAccessKey>secret</SecretAccessKey><Expiration>%s</Expiration>"
                  "<AccessKeyId>role%u</AccessKeyId></Credentials>"
                  "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
                  x->s3->role + 1, text, x->s3->role + 1);
    x->s3->role++;
}

static bool is_known(struct exchange *x)
{
    char wanted[64];

    if (!x->s3->rules.wants_role)
        return true;
    (void)snprintf(wanted, sizeof wanted, "Credential=role%u/", x->s3->role);
    if (strstr(x->head, wanted) == NULL)
        refuse(x, 403, "InvalidAccessKeyId");
    return x->status == 200;
}

static void act(struct exchange *x)
{
    bool objects = x->key[0] != '\0', post = strcmp(x->method, "POST") == 0;

    if (post && strstr(x->head, "POST / ") == x->head)
        give_role(x);
    else if (!is_known(x))
        return;
    else if (strcmp(x->method, "DELETE") == 0)
        delete (x);
    else if (strcmp(x->method, "PUT") == 0 && strstr(x->query, "uploadId=") != NULL)
        put_part(x);
    else if (strcmp(x->method, "PUT") == 0)
        put(x);
    else if (post && strstr(x->query, "uploads=") != NULL)
        create_upload(x);
    else if (post)
        complete_upload(x);
    else if (objects)
        get(x);
    else if (strstr(x->query, "uploads=") != NULL)
        list_uploads(x);
    else
        list_objects(x);
}

/* ---- faults ---- */

static enum fake_fault take_fault(struct fake_s3 *s3, const char *request)
{
    struct fg_slice line = fg_slice_sub(fg_cstr(request), 0, fg_slice_find(fg_cstr(request), '\r'));

    for (size_t i = 0; i < s3->n_faults; i++)
        if (s3->faults[i].count > 0 && fg_slice_search(line, s3->faults[i].line_has) != SIZE_MAX) {
            s3->faults[i].count--;
            return s3->faults[i].fault;
        }
    return FAULT_NONE;
}

/* Instead of doing anything; false: there is something to be done. */
static bool act_wrong(struct exchange *x, enum fake_fault fault)
{
    struct upload *upload;

    switch (fault) {
    case FAULT_502:
        x->status = 502;
        fg_buf_puts(&x->answer, "<html><body><h1>502 Bad Gateway</h1><br></body></html>");
        return true;
    case FAULT_503:
        refuse(x, 503, "SlowDown");
        return true;
    case FAULT_409:
        refuse(x, 409, "ConditionalRequestConflict");
        return true;
    case FAULT_403:
        refuse(x, 403, "AccessDenied");
        return true;
    case FAULT_EXPIRED:
        refuse(x, 400, "ExpiredToken");
        return true;
    case FAULT_FULL:
        refuse(x, 507, "XMinioStorageFull");
        return true;
    case FAULT_200_ERROR:
        refuse(x, 200, "InternalError");
        return true;
    case FAULT_200_NO_UPLOAD:
        upload = find_upload(x);
        if (upload != NULL)
            drop_upload(x->s3, upload);
        refuse(x, 404, "NoSuchUpload");
        return true;
    default:
        return false;
    }
}

/* After it was done. */
static void falsify(struct exchange *x, enum fake_fault fault)
{
    char *etag = strstr(x->headers, "ETag"), *range = strstr(x->headers, "bytes ");

    if (fault == FAULT_LOSE_REPLACED)
        store(x->s3, x->key, FG_LIT("another's"), "0123456789abcdef0123456789abcdef");
    if (fault == FAULT_LOSE_DELETED)
        drop(x->s3, x->key);
    if (fault == FAULT_500_DONE)
        refuse(x, 500, "InternalError");
    if (fault == FAULT_NO_ETAG && etag != NULL)
        memcpy(etag, "Xtag", 4);
    if (fault == FAULT_OTHER_RANGE && range != NULL)
        range[6]++;
    if (fault == FAULT_JUNK) {
        fg_buf_clear(&x->answer);
        fg_buf_puts(&x->answer, "<a><b>junk &unknown;");
    }
}

static void write_error(struct exchange *x)
{
    if (x->code == NULL)
        return;
    fg_buf_clear(&x->answer);
    fg_buf_printf(&x->answer, "<Error><Code>%s</Code><Message>as the test wants</Message></Error>",
                  x->code);
}

/* false: the connection ends. */
static bool answer(struct fake_connection *connection, struct exchange *x, enum fake_fault fault)
{
    struct fg_slice body = fg_buf_slice(&x->answer);
    char head[1000];

    if (fault == FAULT_RESET || fault == FAULT_LOSE || fault == FAULT_LOSE_REPLACED ||
        fault == FAULT_LOSE_DELETED)
        return false;
    if (fault == FAULT_SILENT) {
        fake_wait_gone(connection);
        return false;
    }
    if (strcmp(x->method, "HEAD") != 0 && fault != FAULT_CUT)
        return fake_respond(connection, x->status, x->headers,
                            x->status == 304 ? FG_LIT("") : body);
    (void)snprintf(head, sizeof head, "HTTP/1.1 %u X\r\nContent-Length: %zu\r\n%s\r\n", x->status,
                   body.len, x->headers);
    return fake_write(connection, fg_cstr(head)) &&
           (fault != FAULT_CUT ||
            (fake_write(connection, fg_slice_sub(body, 0, body.len / 2)) && false));
}

/* ---- requests ---- */

static void note(struct fake_s3 *s3, const char *request)
{
    const char *end = strstr(request, "\r\n\r\n");
    size_t len = (size_t)(end - request) + 2;
    char *copy = fg_malloc(len + 1);

    memcpy(copy, request, len);
    copy[len] = '\0';
    fg_assert(s3->n_heads < LINES_MAX);
    s3->heads[s3->n_heads++] = copy;
}

static void read_line(struct exchange *x, const char *request)
{
    struct fg_slice text = fg_cstr(request), path;
    size_t blank = fg_slice_find(text, ' '), question;

    (void)snprintf(x->method, sizeof x->method, "%.*s", (int)blank, request);
    text = fg_slice_sub(text, blank + 1, text.len);
    path = fg_slice_sub(text, 0, fg_slice_find(text, ' '));
    question = fg_slice_find(path, '?');
    if (question != SIZE_MAX)
        (void)snprintf(x->query, sizeof x->query, "%.*s",
                       FG_S(fg_slice_sub(path, question + 1, path.len)));
    path = fg_slice_sub(path, 0, question);
    /* "/bucket/key" */
    text = fg_slice_sub(path, 1, path.len);
    if (fg_slice_find(text, '/') != SIZE_MAX)
        decode(fg_slice_sub(text, fg_slice_find(text, '/') + 1, text.len), x->key, sizeof x->key);
}

static void handle(struct fake_connection *connection, void *arg)
{
    struct fake_s3 *s3 = arg;
    char *request = fg_malloc(REQUEST_MAX);
    struct exchange *x = fg_new(struct exchange);
    bool go_on = true;

    while (go_on && fake_read(connection, request, REQUEST_MAX)) {
        enum fake_fault fault;
        char length[32];
        uint64_t len = 0;

        *x = (struct exchange){.s3 = s3, .head = request, .status = 200};
        fg_buf_init(&x->answer, SIZE_MAX);
        read_line(x, request);
        if (header(x, "content-length", length, sizeof length))
            (void)!fg_parse_u64(fg_cstr(length), &len);
        x->body = fg_bytes(strstr(request, "\r\n\r\n") + 4, len);
        (void)pthread_mutex_lock(&s3->lock);
        note(s3, request);
        fault = take_fault(s3, request);
        if (fault != FAULT_RESET && fault != FAULT_SILENT && !act_wrong(x, fault)) {
            act(x);
            falsify(x, fault);
        }
        write_error(x);
        (void)pthread_mutex_unlock(&s3->lock);
        go_on = answer(connection, x, fault);
        fg_buf_done(&x->answer);
    }
    free(x);
    free(request);
}

/* ---- outside ---- */

struct fake_s3 *fake_s3_start(void)
{
    struct fake_s3 *s3 = fg_new(struct fake_s3);

    (void)pthread_mutex_init(&s3->lock, NULL);
    s3->rules.role_ns = FG_HOUR_NS;
    s3->server = fake_server_start(NULL, false, handle, s3);
    return s3;
}

void fake_s3_stop(struct fake_s3 *s3)
{
    fake_server_stop(s3->server);
    while (s3->n_objects > 0)
        drop(s3, s3->objects[0]->key);
    while (s3->n_uploads > 0)
        drop_upload(s3, s3->uploads[0]);
    for (size_t i = 0; i < s3->n_heads; i++)
        free(s3->heads[i]);
    (void)pthread_mutex_destroy(&s3->lock);
    free(s3);
}

unsigned fake_s3_port(const struct fake_s3 *s3)
{
    return fake_server_port(s3->server);
}

void fake_s3_set(struct fake_s3 *s3, const struct fake_s3_rules *rules)
{
    (void)pthread_mutex_lock(&s3->lock);
    s3->rules = *rules;
    (void)pthread_mutex_unlock(&s3->lock);
}

void fake_s3_fail(struct fake_s3 *s3, const char *line_has, enum fake_fault fault, unsigned count)
{
    struct fault *one;

    (void)pthread_mutex_lock(&s3->lock);
    fg_assert(s3->n_faults < FAULTS_MAX);
    one = &s3->faults[s3->n_faults++];
    (void)snprintf(one->line_has, sizeof one->line_has, "%s", line_has);
    one->fault = fault;
    one->count = count;
    (void)pthread_mutex_unlock(&s3->lock);
}

unsigned fake_s3_count(struct fake_s3 *s3, const char *line_has)
{
    unsigned count = 0;

    (void)pthread_mutex_lock(&s3->lock);
    for (size_t i = 0; i < s3->n_heads; i++) {
        struct fg_slice head = fg_cstr(s3->heads[i]);

        count +=
            fg_slice_search(fg_slice_sub(head, 0, fg_slice_find(head, '\r')), line_has) != SIZE_MAX;
    }
    (void)pthread_mutex_unlock(&s3->lock);
    return count;
}

bool fake_s3_saw(struct fake_s3 *s3, const char *head_has)
{
    bool saw = false;

    (void)pthread_mutex_lock(&s3->lock);
    for (size_t i = 0; i < s3->n_heads; i++)
        saw = saw || strstr(s3->heads[i], head_has) != NULL;
    (void)pthread_mutex_unlock(&s3->lock);
    return saw;
}

unsigned fake_s3_uploads(struct fake_s3 *s3)
{
    size_t n;

    (void)pthread_mutex_lock(&s3->lock);
    n = s3->n_uploads;
    (void)pthread_mutex_unlock(&s3->lock);
    return (unsigned)n;
}

bool fake_s3_get(struct fake_s3 *s3, const char *key, struct fg_buf *out)
{
    const struct object *object;

    (void)pthread_mutex_lock(&s3->lock);
    object = find(s3, key);
    if (object != NULL)
        fg_buf_put(out, fg_buf_slice(&object->content));
    (void)pthread_mutex_unlock(&s3->lock);
    return object != NULL;
}

void fake_s3_put(struct fake_s3 *s3, const char *key, const char *content)
{
    (void)pthread_mutex_lock(&s3->lock);
    store(s3, key, fg_cstr(content), "");
    (void)pthread_mutex_unlock(&s3->lock);
}

void fake_s3_age_uploads(struct fake_s3 *s3, int64_t by_ns)
{
    (void)pthread_mutex_lock(&s3->lock);
    for (size_t i = 0; i < s3->n_uploads; i++)
        s3->uploads[i]->begun_wall_ns -= by_ns;
    (void)pthread_mutex_unlock(&s3->lock);
}
