#include "common/net/rpc/chunked_requests.h"

#include "common/base/buf.h"
#include "common/base/time.h"

#include <pthread.h>

enum { REQUESTS_MAX = 256 }; /* a table that is walked: requests in parts are of megabytes */

static const int64_t IDLE_NS = 30 * FG_SECOND_NS; /* as of answers that wait (chunked_replies.c) */

struct fg_whole_request {
    struct fg_budget *budget;
    uint64_t charged_bytes;
    struct fg_buf bytes;
    uint32_t owner;
    uint64_t key, total;
    int64_t end_mono_ns, idle_end_mono_ns;
};

struct fg_chunked_requests {
    struct fg_budget *budget;
    pthread_mutex_t lock; /* of all below; held while a part is copied, which is a megabyte */
    struct fg_whole_request *requests[REQUESTS_MAX];
    size_t n;
};

struct fg_chunked_requests *fg_chunked_requests_create(struct fg_budget *budget)
{
    struct fg_chunked_requests *parts = fg_new(struct fg_chunked_requests);

    parts->budget = budget;
    (void)pthread_mutex_init(&parts->lock, NULL);
    return parts;
}

struct fg_slice fg_whole_request_bytes(const struct fg_whole_request *whole)
{
    return fg_buf_slice(&whole->bytes);
}

void fg_whole_request_free(struct fg_whole_request *whole)
{
    if (whole == NULL)
        return;
    fg_buf_done(&whole->bytes);
    fg_budget_give(whole->budget, whole->charged_bytes);
    free(whole);
}

/* Locked. */
static struct fg_whole_request *take_out(struct fg_chunked_requests *parts, size_t i)
{
    struct fg_whole_request *one = parts->requests[i];

    parts->requests[i] = parts->requests[--parts->n];
    return one;
}

void fg_chunked_requests_destroy(struct fg_chunked_requests *parts)
{
    if (parts == NULL)
        return;
    while (parts->n > 0)
        fg_whole_request_free(take_out(parts, parts->n - 1));
    (void)pthread_mutex_destroy(&parts->lock);
    free(parts);
}

/* Locked. */
static void sweep(struct fg_chunked_requests *parts, int64_t now_mono_ns)
{
    for (size_t i = parts->n; i-- > 0;)
        if (FG_MIN(parts->requests[i]->end_mono_ns, parts->requests[i]->idle_end_mono_ns) <=
            now_mono_ns)
            fg_whole_request_free(take_out(parts, i));
}

/* Locked. The room is charged now and allocated at once, so that each part is copied once. The
 * system gives it real memory only as parts come. */
static enum fg_code begin_request(struct fg_chunked_requests *parts,
                                  const struct fg_request_part *part, struct fg_err *err)
{
    struct fg_whole_request *one;

    if (part->total > parts->budget->limit_bytes)
        return fg_fail(
            err, FG_E_TOO_LARGE,
            "request of %llu bytes exceeds the limit of %llu (half of rpc.requests_max_bytes)",
            (unsigned long long)part->total, (unsigned long long)parts->budget->limit_bytes);
    if (parts->n == REQUESTS_MAX || !fg_budget_take(parts->budget, part->total))
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "busy: no memory for a request of %llu bytes, other requests use %llu of "
                       "%llu bytes (half of rpc.requests_max_bytes)",
                       (unsigned long long)part->total,
                       (unsigned long long)fg_budget_used(parts->budget),
                       (unsigned long long)parts->budget->limit_bytes);
    one = fg_new(struct fg_whole_request);
    one->budget = parts->budget;
    one->charged_bytes = part->total;
    one->owner = part->owner;
    one->key = part->key;
    one->total = part->total;
    one->end_mono_ns = part->deadline_mono_ns;
    fg_buf_init(&one->bytes, part->total);
    fg_assert(fg_buf_reserve(&one->bytes, part->total));
    parts->requests[parts->n++] = one;
    return FG_OK;
}

/* Locked. */
static enum fg_code add_part(struct fg_chunked_requests *parts, const struct fg_request_part *part,
                             int64_t now_mono_ns, struct fg_whole_request **ret_whole,
                             struct fg_err *err)
{
    size_t i = 0;

    while (i < parts->n &&
           (parts->requests[i]->key != part->key || parts->requests[i]->owner != part->owner))
        i++;

    struct fg_whole_request *one;

    if (i == parts->n && part->offset > 0)
        return fg_fail(err, FG_E_UNAVAILABLE, "the first chunks of the request were discarded");
    if (i == parts->n && begin_request(parts, part, err) != FG_OK)
        return err->code;
    one = parts->requests[i];
    one->idle_end_mono_ns = fg_time_add(now_mono_ns, IDLE_NS);
    if (part->total == one->total && part->offset + part->bytes.len == one->bytes.len)
        return FG_OK; /* repeated */
    if (part->total != one->total || part->offset != one->bytes.len)
        return fg_fail(err, FG_E_INVALID, "part at %llu of %llu bytes, after %zu of %llu",
                       (unsigned long long)part->offset, (unsigned long long)part->total,
                       one->bytes.len, (unsigned long long)one->total);
    fg_buf_put(&one->bytes, part->bytes);
    if (one->bytes.len == one->total)
        *ret_whole = take_out(parts, i);
    return FG_OK;
}

enum fg_code fg_chunked_requests_add(struct fg_chunked_requests *parts,
                                     const struct fg_request_part *part, int64_t now_mono_ns,
                                     struct fg_whole_request **ret_whole, struct fg_err *err)
{
    enum fg_code code;

    *ret_whole = NULL;
    if (part->bytes.len == 0 || part->offset > part->total ||
        part->bytes.len > part->total - part->offset)
        return fg_fail(err, FG_E_INVALID, "part of %zu bytes at %llu of %llu", part->bytes.len,
                       (unsigned long long)part->offset, (unsigned long long)part->total);
    (void)pthread_mutex_lock(&parts->lock);
    sweep(parts, now_mono_ns);
    code = add_part(parts, part, now_mono_ns, ret_whole, err);
    (void)pthread_mutex_unlock(&parts->lock);
    return code;
}

void fg_chunked_requests_drop_owner(struct fg_chunked_requests *parts, uint32_t owner)
{
    (void)pthread_mutex_lock(&parts->lock);
    for (size_t i = parts->n; i-- > 0;)
        if (parts->requests[i]->owner == owner)
            fg_whole_request_free(take_out(parts, i));
    (void)pthread_mutex_unlock(&parts->lock);
}

void fg_chunked_requests_sweep(struct fg_chunked_requests *parts, int64_t now_mono_ns)
{
    (void)pthread_mutex_lock(&parts->lock);
    sweep(parts, now_mono_ns);
    (void)pthread_mutex_unlock(&parts->lock);
}
