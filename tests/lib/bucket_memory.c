/* The bucket in memory, for tests: an array of objects by name under one lock. */
#include "common/storage/bucket/bucket.h"
#include "common/storage/bucket/impl.h"
#include "tests/lib/bucket_doubles.h"

#include <pthread.h>

enum { READ_MAX_BYTES = 256 * 1024 }; /* of a file at a time */

struct memory_object {
    char *name;
    struct fg_buf content;
    struct fg_bucket_etag etag;
    int64_t modified_wall_ns;
};

struct memory_bucket {
    struct fg_bucket bucket;
    pthread_mutex_t lock;
    struct memory_object *objects; /* by name */
    size_t n, cap;
    uint64_t versions; /* etags given so far */
    struct fg_clock *clock;
};

static struct memory_bucket *memory_of(struct fg_bucket *bucket)
{
    return fg_container(bucket, struct memory_bucket, bucket);
}

/* Where the name is, or would be. */
static size_t position(const struct memory_bucket *memory, struct fg_slice name)
{
    size_t low = 0, high = memory->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (fg_slice_cmp(fg_cstr(memory->objects[middle].name), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct memory_object *find(const struct memory_bucket *memory, const char *name)
{
    size_t at = position(memory, fg_cstr(name));

    return at < memory->n && fg_slice_is(fg_cstr(memory->objects[at].name), name)
               ? &memory->objects[at]
               : NULL;
}

static struct memory_object *insert(struct memory_bucket *memory, const char *name)
{
    size_t at = position(memory, fg_cstr(name));

    if (memory->n == memory->cap) {
        memory->cap = FG_MAX(2 * memory->cap, (size_t)64);
        memory->objects = fg_realloc(memory->objects, memory->cap * sizeof *memory->objects);
    }
    memmove(memory->objects + at + 1, memory->objects + at,
            (memory->n - at) * sizeof *memory->objects);
    memory->n++;
    memory->objects[at] = (struct memory_object){.name = fg_malloc(strlen(name) + 1)};
    memcpy(memory->objects[at].name, name, strlen(name) + 1);
    fg_buf_init(&memory->objects[at].content, SIZE_MAX);
    return &memory->objects[at];
}

static void object_done(struct memory_object *object)
{
    free(object->name);
    fg_buf_done(&object->content);
}

/* ---- verbs, locked ---- */

static void describe(struct fg_bucket_request *request, const struct memory_object *object)
{
    request->etag = object->etag;
    request->size_bytes = object->content.len;
    request->modified_wall_ns = object->modified_wall_ns;
}

static void get(struct memory_bucket *memory, struct fg_bucket_request *request)
{
    const struct memory_object *object = find(memory, request->name);
    struct fg_slice content;

    request->answered_wall_ns = fg_wall_ns(memory->clock);
    if (!fg_bucket_may(request, object == NULL ? NULL : &object->etag))
        return;
    content = fg_buf_slice(&object->content);
    if (request->offset > 0 && request->offset >= content.len) {
        (void)fg_bucket_fail(request, FG_E_INVALID, "begins at byte %llu, but the object has %zu",
                             (unsigned long long)request->offset, content.len);
        return;
    }
    content = fg_slice_sub(content, request->offset,
                           request->length == 0 ? content.len : request->length);
    if (content.len > request->content_max_bytes) {
        (void)fg_bucket_fail(request, FG_E_TOO_LARGE, "%zu bytes exceed %zu", content.len,
                             request->content_max_bytes);
        return;
    }
    fg_buf_put(&request->body, content);
    describe(request, object);
}

static void head(struct memory_bucket *memory, struct fg_bucket_request *request)
{
    const struct memory_object *object = find(memory, request->name);

    if (fg_bucket_may(request, object == NULL ? NULL : &object->etag))
        describe(request, object);
}

static bool read_file(struct fg_bucket_request *request, struct fg_buf *out)
{
    FILE *file = fopen(request->path, "re");
    size_t got = 1;
    bool ok;

    while (file != NULL && got > 0 && fg_buf_reserve(out, READ_MAX_BYTES)) {
        got = fread(out->ptr + out->len, 1, READ_MAX_BYTES, file);
        out->len += got;
    }
    ok = file != NULL && ferror(file) == 0;
    if (file != NULL)
        (void)fclose(file);
    if (!ok)
        (void)fg_bucket_fail(request, FG_E_INVALID, "file %s cannot be read", request->path);
    return ok;
}

/* Takes the content's memory. */
static void put(struct memory_bucket *memory, struct fg_bucket_request *request,
                struct fg_buf *content)
{
    struct memory_object *object = find(memory, request->name);

    if (!fg_bucket_may(request, object == NULL ? NULL : &object->etag))
        return;
    if (object == NULL)
        object = insert(memory, request->name);
    fg_buf_done(&object->content);
    object->content = *content;
    fg_buf_init(content, 0);
    object->modified_wall_ns = fg_wall_ns(memory->clock);
    (void)snprintf(object->etag.text, sizeof object->etag.text, "%llu",
                   (unsigned long long)++memory->versions);
    describe(request, object);
}

static void delete (struct memory_bucket *memory, struct fg_bucket_request *request)
{
    struct memory_object *object = find(memory, request->name);
    size_t at;

    if (!fg_bucket_may(request, object == NULL ? NULL : &object->etag) || object == NULL)
        return;
    at = (size_t)(object - memory->objects);
    object_done(object);
    memory->n--;
    memmove(memory->objects + at, memory->objects + at + 1,
            (memory->n - at) * sizeof *memory->objects);
}

static void list(struct memory_bucket *memory, struct fg_bucket_request *request)
{
    for (size_t at = position(memory, fg_cstr(request->name)); at < memory->n; at++) {
        const struct memory_object *object = &memory->objects[at];
        struct fg_bucket_entry *entry;
        enum fg_bucket_listed listed = fg_bucket_list_take(request, fg_cstr(object->name), &entry);

        if (listed == FG_BUCKET_FULL)
            break;
        if (listed == FG_BUCKET_ADDED) {
            entry->size_bytes = object->content.len;
            entry->modified_wall_ns = object->modified_wall_ns;
        }
    }
}

static void act(struct memory_bucket *memory, struct fg_bucket_request *request,
                struct fg_buf *content)
{
    switch (request->verb) {
    case FG_BUCKET_GET:
        get(memory, request);
        break;
    case FG_BUCKET_HEAD:
        head(memory, request);
        break;
    case FG_BUCKET_PUT:
        put(memory, request, content);
        break;
    case FG_BUCKET_DELETE:
        delete (memory, request);
        break;
    case FG_BUCKET_LIST:
        list(memory, request);
        break;
    default:
        break; /* nothing is ever left over */
    }
}

/* ---- the bucket ---- */

/* What is put, copied before the lock is taken. */
static bool take_content(struct fg_bucket_request *request, struct fg_buf *out)
{
    if (request->verb != FG_BUCKET_PUT)
        return true;
    if (request->path != NULL)
        return read_file(request, out);
    fg_buf_put(out, request->content);
    return true;
}

static void memory_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct memory_bucket *memory = memory_of(bucket);
    struct fg_buf content;

    fg_buf_init(&content, SIZE_MAX);
    if (take_content(request, &content)) {
        (void)pthread_mutex_lock(&memory->lock);
        act(memory, request, &content);
        (void)pthread_mutex_unlock(&memory->lock);
    }
    fg_buf_done(&content);
    fg_bucket_finish(request);
}

static void memory_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    (void)bucket, (void)request; /* it was done within send */
}

static void memory_close(struct fg_bucket *bucket)
{
    struct memory_bucket *memory = memory_of(bucket);

    for (size_t i = 0; i < memory->n; i++)
        object_done(&memory->objects[i]);
    free(memory->objects);
    (void)pthread_mutex_destroy(&memory->lock);
    free(memory);
}

struct fg_bucket *fg_bucket_memory(void)
{
    static const struct fg_bucket_ops ops = {memory_send, memory_cancel, memory_close};
    struct memory_bucket *memory = fg_new(struct memory_bucket);

    memory->bucket.ops = &ops;
    memory->clock = fg_clock_real();
    (void)pthread_mutex_init(&memory->lock, NULL);
    return &memory->bucket;
}

void fg_bucket_memory_tell_time(struct fg_bucket *bucket, struct fg_clock *clock)
{
    memory_of(bucket)->clock = clock;
}
