#include "common/net/rpc/chunked_replies.h"

#include "common/base/time.h"

#include <pthread.h>
#include <sys/random.h>

enum { ANSWERS_MAX = 256 }; /* a table that is walked: every answer in it is a megabyte or more */

/* Longer than a caller takes between two parts. A caller that is silent for longer, although its
 * connection was never closed, is on a machine that died. */
static const int64_t IDLE_NS = 30 * FG_SECOND_NS;

struct stored_reply {
    struct fg_chunked_reply answer;
    struct fg_buf payload;
    uint32_t owner;
    unsigned refs; /* the table's and the readers' */
    bool in_table;
    int64_t end_mono_ns, idle_end_mono_ns;
};

struct fg_chunked_replies {
    pthread_mutex_t lock; /* of all below */
    uint64_t max_bytes, bytes;
    uint64_t next_key;
    struct stored_reply *answers[ANSWERS_MAX];
    size_t n;
};

struct fg_chunked_replies *fg_chunked_replies_create(uint64_t max_bytes)
{
    struct fg_chunked_replies *replies = fg_new(struct fg_chunked_replies);

    replies->max_bytes = max_bytes;
    fg_assert(getrandom(&replies->next_key, sizeof replies->next_key, 0) ==
              sizeof replies->next_key);
    (void)pthread_mutex_init(&replies->lock, NULL);
    return replies;
}

/* Locked. */
static void unref(struct stored_reply *one)
{
    if (--one->refs > 0)
        return;
    fg_buf_done(&one->payload);
    free(one);
}

/* Locked. Bytes that readers still hold are not counted any more: each sends one part of them. */
static void remove_at(struct fg_chunked_replies *replies, size_t i)
{
    struct stored_reply *one = replies->answers[i];

    replies->answers[i] = replies->answers[--replies->n];
    replies->bytes -= one->payload.len;
    one->in_table = false;
    unref(one);
}

/* Locked. */
static void sweep(struct fg_chunked_replies *replies, int64_t now_mono_ns)
{
    for (size_t i = replies->n; i-- > 0;)
        if (FG_MIN(replies->answers[i]->end_mono_ns, replies->answers[i]->idle_end_mono_ns) <=
            now_mono_ns)
            remove_at(replies, i);
}

void fg_chunked_replies_destroy(struct fg_chunked_replies *replies)
{
    if (replies == NULL)
        return;
    while (replies->n > 0)
        remove_at(replies, replies->n - 1);
    (void)pthread_mutex_destroy(&replies->lock);
    free(replies);
}

static struct stored_reply *store_reply(struct fg_chunked_replies *replies, uint32_t owner,
                                        struct fg_buf *payload)
{
    struct stored_reply *one = fg_new(struct stored_reply);

    one->payload = *payload;
    one->payload.ptr = fg_realloc(payload->ptr, payload->len); /* what it grew to for nothing */
    one->payload.cap = payload->len;
    fg_buf_init(payload, 0);
    one->answer.key = replies->next_key++;
    one->answer.payload = fg_buf_slice(&one->payload);
    one->owner = owner;
    one->refs = 2;
    one->in_table = true;
    return one;
}

enum fg_code fg_chunked_replies_add(struct fg_chunked_replies *replies, uint32_t owner,
                                    struct fg_buf *payload, int64_t now_mono_ns,
                                    int64_t deadline_mono_ns, struct fg_chunked_reply **ret_answer,
                                    struct fg_err *err)
{
    enum fg_code code = FG_OK;

    (void)pthread_mutex_lock(&replies->lock);
    sweep(replies, now_mono_ns);
    if (replies->n == ANSWERS_MAX || payload->len > replies->max_bytes - replies->bytes) {
        code = fg_fail(err, FG_E_LIMIT,
                       "no memory for a response of %zu bytes: %zu other responses wait for their "
                       "callers and use %llu of %llu bytes (rpc.answers_max_bytes)",
                       payload->len, replies->n, (unsigned long long)replies->bytes,
                       (unsigned long long)replies->max_bytes);
    } else {
        struct stored_reply *one = store_reply(replies, owner, payload);

        one->end_mono_ns = deadline_mono_ns;
        one->idle_end_mono_ns = fg_time_add(now_mono_ns, IDLE_NS);
        replies->answers[replies->n++] = one;
        replies->bytes += one->payload.len;
        *ret_answer = &one->answer;
    }
    (void)pthread_mutex_unlock(&replies->lock);
    return code;
}

struct fg_chunked_reply *fg_chunked_replies_find(struct fg_chunked_replies *replies, uint32_t owner,
                                                 uint64_t key, int64_t now_mono_ns)
{
    struct fg_chunked_reply *found = NULL;

    (void)pthread_mutex_lock(&replies->lock);
    sweep(replies, now_mono_ns);
    for (size_t i = 0; i < replies->n && found == NULL; i++) {
        struct stored_reply *one = replies->answers[i];

        if (one->answer.key == key && one->owner == owner) {
            one->refs++;
            one->idle_end_mono_ns = fg_time_add(now_mono_ns, IDLE_NS);
            found = &one->answer;
        }
    }
    (void)pthread_mutex_unlock(&replies->lock);
    return found;
}

void fg_chunked_replies_unref(struct fg_chunked_replies *replies, struct fg_chunked_reply *answer)
{
    (void)pthread_mutex_lock(&replies->lock);
    unref(fg_container(answer, struct stored_reply, answer));
    (void)pthread_mutex_unlock(&replies->lock);
}

void fg_chunked_replies_drop(struct fg_chunked_replies *replies, struct fg_chunked_reply *answer)
{
    struct stored_reply *one = fg_container(answer, struct stored_reply, answer);

    (void)pthread_mutex_lock(&replies->lock);
    for (size_t i = 0; one->in_table; i++)
        if (replies->answers[i] == one)
            remove_at(replies, i);
    (void)pthread_mutex_unlock(&replies->lock);
}

void fg_chunked_replies_drop_owner(struct fg_chunked_replies *replies, uint32_t owner)
{
    (void)pthread_mutex_lock(&replies->lock);
    for (size_t i = replies->n; i-- > 0;)
        if (replies->answers[i]->owner == owner)
            remove_at(replies, i);
    (void)pthread_mutex_unlock(&replies->lock);
}

void fg_chunked_replies_sweep(struct fg_chunked_replies *replies, int64_t now_mono_ns)
{
    (void)pthread_mutex_lock(&replies->lock);
    sweep(replies, now_mono_ns);
    (void)pthread_mutex_unlock(&replies->lock);
}

uint64_t fg_chunked_replies_bytes(struct fg_chunked_replies *replies)
{
    uint64_t bytes;

    (void)pthread_mutex_lock(&replies->lock);
    bytes = replies->bytes;
    (void)pthread_mutex_unlock(&replies->lock);
    return bytes;
}
