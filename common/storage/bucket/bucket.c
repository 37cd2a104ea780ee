/* The common code of all implementations of the bucket: checks of requests, and results. */
#include "common/storage/bucket/bucket.h"

#include "common/base/str.h"
#include "common/storage/bucket/impl.h"

#include <stdarg.h>

enum { LIST_MAX_BYTES = 4 * 1024 * 1024 }; /* a page of the longest names has 1 MB */

const char *const fg_bucket_verb_names[FG_BUCKET_VERBS] = {
    [FG_BUCKET_GET] = "get",       [FG_BUCKET_HEAD] = "head", [FG_BUCKET_PUT] = "put",
    [FG_BUCKET_DELETE] = "delete", [FG_BUCKET_LIST] = "list", [FG_BUCKET_CLEAN_UP] = "clean_up",
};

/* ---- names ---- */

/* Names become paths of a directory bucket, and must not lead out of it. 200 bytes leave room
 * below the 255 of file systems. */
static const char *segment_fault(struct fg_slice segment)
{
    if (segment.len == 0)
        return "has an empty segment";
    if (segment.len > FG_BUCKET_SEGMENT_MAX_BYTES)
        return "has a segment of more than 200 bytes";
    if (fg_slice_is(segment, ".") || fg_slice_is(segment, ".."))
        return "has a segment \".\" or \"..\"";
    for (size_t i = 0; i < segment.len; i++)
        if (segment.ptr[i] < 0x20 || segment.ptr[i] == 0x7f)
            return "has a control character";
    return NULL;
}

/* Checks what holds for prefixes of names as well. */
static const char *text_fault(struct fg_slice text)
{
    if (text.len > FG_BUCKET_NAME_MAX_BYTES)
        return "is longer than 800 bytes";
    return fg_utf8_valid(text) ? NULL : "is not UTF-8";
}

const char *fg_bucket_name_fault(const char *name)
{
    struct fg_slice rest = fg_cstr(name);
    const char *fault = text_fault(rest);

    for (size_t slash = 0; fault == NULL && slash != SIZE_MAX;) {
        slash = fg_slice_find(rest, '/');
        fault = segment_fault(fg_slice_sub(rest, 0, slash));
        if (slash != SIZE_MAX)
            rest = fg_slice_sub(rest, slash + 1, rest.len);
    }
    return fault;
}

/* The beginning of some name: its last segment may be cut anywhere, or be missing. */
static const char *prefix_fault(const char *prefix)
{
    struct fg_slice rest = fg_cstr(prefix);
    const char *fault = text_fault(rest);
    size_t slash;

    while (fault == NULL && (slash = fg_slice_find(rest, '/')) != SIZE_MAX) {
        fault = segment_fault(fg_slice_sub(rest, 0, slash));
        rest = fg_slice_sub(rest, slash + 1, rest.len);
    }
    if (fault == NULL && rest.len > 0 && !fg_slice_is(rest, ".") && !fg_slice_is(rest, ".."))
        fault = segment_fault(rest);
    return fault;
}

/* ---- results ---- */

static void set_sentence(struct fg_bucket_request *request, enum fg_code code, const char *what)
{
    const char *name = request->name == NULL ? "" : request->name;

    request->code = fg_fail(&request->err, code, "%s%s%s: %s", fg_bucket_verb_names[request->verb],
                            name[0] == '\0' ? "" : " ", name, what);
}

void fg_bucket_take_answer(struct fg_bucket_request *outer, struct fg_bucket_request *inner)
{
    outer->code = inner->code;
    outer->err = inner->err;
    outer->unsure = inner->unsure;
    outer->unchanged = inner->unchanged;
    outer->body = inner->body;
    fg_buf_init(&inner->body, 0);
    outer->etag = inner->etag;
    outer->size_bytes = inner->size_bytes;
    outer->modified_wall_ns = inner->modified_wall_ns;
    outer->answered_wall_ns = inner->answered_wall_ns;
    outer->tag = inner->tag;
    outer->arena = fg_take(inner->arena);
    outer->entries = inner->entries;
    outer->n_entries = inner->n_entries;
    outer->next = fg_take(inner->next);
}

enum fg_code fg_bucket_fail(struct fg_bucket_request *request, enum fg_code code, const char *fmt,
                            ...)
{
    char what[FG_ERR_MSG_MAX_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    set_sentence(request, code, what);
    return code;
}

enum fg_code fg_bucket_fail_err(struct fg_bucket_request *request, const struct fg_err *err)
{
    set_sentence(request, err->code, err->msg);
    return err->code;
}

enum fg_code fg_bucket_check(struct fg_bucket_request *request, int64_t now_mono_ns)
{
    if (atomic_load(&request->cancelled))
        return fg_bucket_fail(request, FG_E_CANCELED, "cancelled");
    if (request->deadline_mono_ns != 0 && now_mono_ns >= request->deadline_mono_ns)
        return fg_bucket_fail(request, FG_E_DEADLINE, "not completed before the deadline");
    return FG_OK;
}

static void come_home(struct fg_msg *msg)
{
    struct fg_bucket_request *request = fg_container(msg, struct fg_bucket_request, msg);

    request->done(request);
}

void fg_bucket_finish(struct fg_bucket_request *request)
{
    /* Without a home done() runs on the thread that ends the request, which may be that of the
     * sender. */
    if (request->home == NULL) {
        request->done(request);
        return;
    }
    request->msg.run = come_home;
    fg_loop_post(request->home, &request->msg);
}

static bool condition_fails(struct fg_bucket_request *request, const char *why)
{
    (void)fg_bucket_fail(request, FG_E_PRECONDITION, "%s", why);
    return false;
}

bool fg_bucket_may(struct fg_bucket_request *request, const struct fg_bucket_etag *there)
{
    bool reads = request->verb == FG_BUCKET_GET || request->verb == FG_BUCKET_HEAD;
    bool same = there != NULL && fg_bucket_etag_eq(there, &request->if_etag);

    if (there == NULL && reads) {
        (void)fg_bucket_fail(request, FG_E_NOT_FOUND, "no such object");
        return false;
    }
    switch (request->condition) {
    case FG_BUCKET_ALWAYS:
        break;
    case FG_BUCKET_IF_ABSENT:
        if (there != NULL)
            return condition_fails(request, "the object already exists");
        break;
    case FG_BUCKET_IF_MATCH:
        /* Deleted already, perhaps by our own request whose answer was lost. */
        if (there == NULL && request->verb == FG_BUCKET_DELETE)
            break;
        if (!same)
            return condition_fails(request, there == NULL ? "the object does not exist"
                                                          : "the object has changed");
        break;
    case FG_BUCKET_IF_CHANGED:
        request->unchanged = same;
        if (same)
            request->etag = request->if_etag;
        return !same;
    }
    return true;
}

/* ---- lists ---- */

static struct fg_arena *list_arena(struct fg_bucket_request *request)
{
    if (request->arena == NULL) {
        request->arena = fg_arena_create(LIST_MAX_BYTES);
        request->entries = fg_arena_new(request->arena, struct fg_bucket_entry, FG_BUCKET_PAGE_MAX);
        fg_assert(request->entries != NULL);
    }
    return request->arena;
}

struct fg_bucket_entry *fg_bucket_list_add(struct fg_bucket_request *request, struct fg_slice name,
                                           bool folder)
{
    const char *copy = fg_arena_text(list_arena(request), name);

    fg_assert(request->n_entries < FG_BUCKET_PAGE_MAX);
    fg_assert(copy != NULL); /* names are bounded, and so is a page */
    request->entries[request->n_entries] = (struct fg_bucket_entry){copy, folder, 0, 0};
    return &request->entries[request->n_entries++];
}

void fg_bucket_list_next(struct fg_bucket_request *request, struct fg_slice next)
{
    request->next = fg_arena_text(list_arena(request), next);
    fg_assert(request->next != NULL);
}

static struct fg_slice last_name(const struct fg_bucket_request *request)
{
    return request->n_entries == 0 ? fg_bytes(NULL, 0)
                                   : fg_cstr(request->entries[request->n_entries - 1].name);
}

static bool begins(struct fg_slice text, struct fg_slice with)
{
    return fg_slice_eq(fg_slice_sub(text, 0, with.len), with);
}

/* True if the name was on the page before this one, by itself or in a folder. */
static bool is_before(const struct fg_bucket_request *request, struct fg_slice name)
{
    struct fg_slice after;

    if (request->after == NULL)
        return false;
    after = fg_cstr(request->after);
    return fg_slice_cmp(name, after) <= 0 || (fg_slice_ends(after, "/") && begins(name, after));
}

enum fg_bucket_listed fg_bucket_list_take(struct fg_bucket_request *request, struct fg_slice name,
                                          struct fg_bucket_entry **ret_entry)
{
    struct fg_slice prefix = fg_cstr(request->name), below;
    size_t slash = SIZE_MAX;

    if (!begins(name, prefix) || is_before(request, name))
        return FG_BUCKET_SKIPPED;
    below = fg_slice_sub(name, prefix.len, name.len);
    if (request->by_folder)
        slash = fg_slice_find(below, '/');
    if (slash != SIZE_MAX)
        name = fg_slice_sub(name, 0, prefix.len + slash + 1);
    if (slash != SIZE_MAX && fg_slice_eq(name, last_name(request)))
        return FG_BUCKET_FOLDED;
    if (request->n_entries == request->page_max) {
        /* The next page begins behind this name, also if the object is deleted meanwhile. */
        fg_bucket_list_next(request, last_name(request));
        return FG_BUCKET_FULL;
    }
    struct fg_bucket_entry *entry = fg_bucket_list_add(request, name, slash != SIZE_MAX);
    if (slash != SIZE_MAX)
        return FG_BUCKET_FOLDED;
    *ret_entry = entry;
    return FG_BUCKET_ADDED;
}

bool fg_bucket_list_wants(const struct fg_bucket_request *request, struct fg_slice folder)
{
    struct fg_slice prefix = fg_cstr(request->name), last = last_name(request);

    if (!begins(folder, prefix) && !begins(prefix, folder))
        return false;
    if (fg_slice_ends(last, "/") && begins(folder, last))
        return false; /* is in a folder that is there */
    /* What is in a folder that sorts before `after` does so too, unless `after` is in it. */
    return !is_before(request, folder) || (begins(fg_cstr(request->after), folder) &&
                                           !fg_slice_eq(fg_cstr(request->after), folder));
}

/* ---- outside ---- */

/* Which conditions make sense with which verb. */
static const char *condition_fault(const struct fg_bucket_request *request)
{
    static const unsigned allowed[FG_BUCKET_VERBS] = {
        [FG_BUCKET_GET] = 1u << FG_BUCKET_IF_MATCH | 1u << FG_BUCKET_IF_CHANGED,
        [FG_BUCKET_PUT] = 1u << FG_BUCKET_IF_ABSENT | 1u << FG_BUCKET_IF_MATCH,
        [FG_BUCKET_DELETE] = 1u << FG_BUCKET_IF_MATCH,
    };
    bool with_etag =
        request->condition == FG_BUCKET_IF_MATCH || request->condition == FG_BUCKET_IF_CHANGED;
    struct fg_slice etag = fg_cstr(request->if_etag.text);

    if (request->condition == FG_BUCKET_ALWAYS)
        return NULL;
    if ((allowed[request->verb] & 1u << request->condition) == 0)
        return "this operation does not support this condition";
    if (with_etag && etag.len == 0)
        return "the condition requires an etag";
    /* S3 gets the etag in a header: no byte of it may end that. */
    for (size_t i = 0; with_etag && i < etag.len; i++)
        if (etag.ptr[i] <= 0x20 || etag.ptr[i] >= 0x7f)
            return "the etag is none";
    return NULL;
}

static const char *fault_of(const struct fg_bucket_request *request)
{
    const char *fault = NULL;

    if (request->verb == FG_BUCKET_LIST)
        fault = prefix_fault(request->name);
    else if (request->verb != FG_BUCKET_CLEAN_UP)
        fault = fg_bucket_name_fault(request->name);
    return fault != NULL ? fault : condition_fault(request);
}

static void reset(struct fg_bucket_request *request)
{
    static _Atomic uint64_t serials;

    fg_bucket_clear(request);
    fg_buf_init(&request->body, request->content_max_bytes);
    request->code = FG_OK;
    request->err.code = FG_OK;
    request->err.msg[0] = '\0';
    request->unsure = request->unchanged = false;
    request->etag.text[0] = '\0';
    request->size_bytes = 0;
    request->modified_wall_ns = request->answered_wall_ns = 0;
    request->tag = (struct fg_id){0, 0};
    if (request->page_max == 0 || request->page_max > FG_BUCKET_PAGE_MAX)
        request->page_max = FG_BUCKET_PAGE_MAX;
    request->begun_mono_ns = fg_mono_ns(fg_clock_real());
    atomic_store(&request->cancelled, false);
    request->serial = atomic_fetch_add(&serials, 1) + 1;
}

void fg_bucket_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    const char *fault;

    fg_assert((unsigned)request->verb < FG_BUCKET_VERBS && request->done != NULL);
    fg_assert(request->verb == FG_BUCKET_CLEAN_UP || request->name != NULL);
    reset(request);
    fault = fault_of(request);
    if (fault != NULL) {
        (void)fg_bucket_fail(request, FG_E_INVALID, "the name or condition is not allowed: %s",
                             fault);
        fg_bucket_finish(request);
        return;
    }
    /* The store would delete the object whatever its etag is. */
    if (fg_bucket_base(bucket)->plain_deletes && request->verb == FG_BUCKET_DELETE &&
        request->condition != FG_BUCKET_ALWAYS) {
        (void)fg_bucket_fail(request, FG_E_UNIMPLEMENTED,
                             "this store does not support conditional deletes");
        fg_bucket_finish(request);
        return;
    }
    bucket->ops->send(bucket, request);
}

void fg_bucket_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    /* The mark first: a request that has not begun yet looks at it when it begins. */
    atomic_store(&request->cancelled, true);
    bucket->ops->cancel(bucket, request);
}

void fg_bucket_clear(struct fg_bucket_request *request)
{
    fg_buf_done(&request->body);
    fg_arena_destroy(request->arena);
    request->arena = NULL;
    request->entries = NULL;
    request->n_entries = 0;
    request->next = NULL;
}
