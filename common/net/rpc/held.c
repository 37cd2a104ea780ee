#include "common/net/rpc/held.h"

#include "common/base/time.h"

#include <pthread.h>
#include <sys/random.h>

enum { ANSWERS_MAX = 256 }; /* a table that is walked: every answer in it is a megabyte or more */

/* Longer than a caller takes between two parts; a caller that is gone without its connection having
 * been closed is a machine that died. */
static const int64_t IDLE_NS = 30 * FG_SECOND_NS;

struct rpc_held {
    struct fg_held_answer answer;
    struct fg_buf payload;
    uint32_t owner;
    unsigned refs; /* the table's and the readers' */
    bool in_table;
    int64_t end_mono_ns, idle_end_mono_ns;
};

struct fg_held {
    pthread_mutex_t lock; /* of all below */
    uint64_t max_bytes, bytes;
    uint64_t next_key;
    struct rpc_held *answers[ANSWERS_MAX];
    size_t n;
};

struct fg_held *fg_held_create(uint64_t max_bytes)
{
    struct fg_held *held = fg_new(struct fg_held);

    held->max_bytes = max_bytes;
    fg_assert(getrandom(&held->next_key, sizeof held->next_key, 0) == sizeof held->next_key);
    (void)pthread_mutex_init(&held->lock, NULL);
    return held;
}

/* Locked. */
static void unref(struct rpc_held *one)
{
    if (--one->refs > 0)
        return;
    fg_buf_done(&one->payload);
    free(one);
}

/* Locked. What readers still hold counts no more: they are sending one part of it. */
static void remove_at(struct fg_held *held, size_t i)
{
    struct rpc_held *one = held->answers[i];

    held->answers[i] = held->answers[--held->n];
    held->bytes -= one->payload.len;
    one->in_table = false;
    unref(one);
}

/* Locked. */
static void sweep(struct fg_held *held, int64_t now_mono_ns)
{
    for (size_t i = held->n; i-- > 0;)
        if (FG_MIN(held->answers[i]->end_mono_ns, held->answers[i]->idle_end_mono_ns) <=
            now_mono_ns)
            remove_at(held, i);
}

void fg_held_destroy(struct fg_held *held)
{
    if (held == NULL)
        return;
    while (held->n > 0)
        remove_at(held, held->n - 1);
    (void)pthread_mutex_destroy(&held->lock);
    free(held);
}

static struct rpc_held *make(struct fg_held *held, uint32_t owner, struct fg_buf *payload)
{
    struct rpc_held *one = fg_new(struct rpc_held);

    one->payload = *payload;
    one->payload.ptr = fg_realloc(payload->ptr, payload->len); /* what it grew to for nothing */
    one->payload.cap = payload->len;
    fg_buf_init(payload, 0);
    one->answer.key = held->next_key++;
    one->answer.payload = fg_buf_slice(&one->payload);
    one->owner = owner;
    one->refs = 2;
    one->in_table = true;
    return one;
}

enum fg_code fg_held_add(struct fg_held *held, uint32_t owner, struct fg_buf *payload,
                         int64_t now_mono_ns, int64_t deadline_mono_ns,
                         struct fg_held_answer **ret_answer, struct fg_err *err)
{
    enum fg_code code = FG_OK;

    (void)pthread_mutex_lock(&held->lock);
    sweep(held, now_mono_ns);
    if (held->n == ANSWERS_MAX || payload->len > held->max_bytes - held->bytes) {
        code = fg_fail(err, FG_E_LIMIT,
                       "no memory for a response of %zu bytes: %zu other responses wait for their "
                       "callers and use %llu of %llu bytes (rpc.answers_max_bytes)",
                       payload->len, held->n, (unsigned long long)held->bytes,
                       (unsigned long long)held->max_bytes);
    } else {
        struct rpc_held *one = make(held, owner, payload);

        one->end_mono_ns = deadline_mono_ns;
        one->idle_end_mono_ns = fg_time_add(now_mono_ns, IDLE_NS);
        held->answers[held->n++] = one;
        held->bytes += one->payload.len;
        *ret_answer = &one->answer;
    }
    (void)pthread_mutex_unlock(&held->lock);
    return code;
}

struct fg_held_answer *fg_held_find(struct fg_held *held, uint32_t owner, uint64_t key,
                                    int64_t now_mono_ns)
{
    struct fg_held_answer *found = NULL;

    (void)pthread_mutex_lock(&held->lock);
    sweep(held, now_mono_ns);
    for (size_t i = 0; i < held->n && found == NULL; i++) {
        struct rpc_held *one = held->answers[i];

        if (one->answer.key == key && one->owner == owner) {
            one->refs++;
            one->idle_end_mono_ns = fg_time_add(now_mono_ns, IDLE_NS);
            found = &one->answer;
        }
    }
    (void)pthread_mutex_unlock(&held->lock);
    return found;
}

void fg_held_put(struct fg_held *held, struct fg_held_answer *answer)
{
    (void)pthread_mutex_lock(&held->lock);
    unref(fg_container(answer, struct rpc_held, answer));
    (void)pthread_mutex_unlock(&held->lock);
}

void fg_held_drop(struct fg_held *held, struct fg_held_answer *answer)
{
    struct rpc_held *one = fg_container(answer, struct rpc_held, answer);

    (void)pthread_mutex_lock(&held->lock);
    for (size_t i = 0; one->in_table; i++)
        if (held->answers[i] == one)
            remove_at(held, i);
    (void)pthread_mutex_unlock(&held->lock);
}

void fg_held_drop_owner(struct fg_held *held, uint32_t owner)
{
    (void)pthread_mutex_lock(&held->lock);
    for (size_t i = held->n; i-- > 0;)
        if (held->answers[i]->owner == owner)
            remove_at(held, i);
    (void)pthread_mutex_unlock(&held->lock);
}

void fg_held_sweep(struct fg_held *held, int64_t now_mono_ns)
{
    (void)pthread_mutex_lock(&held->lock);
    sweep(held, now_mono_ns);
    (void)pthread_mutex_unlock(&held->lock);
}

uint64_t fg_held_bytes(struct fg_held *held)
{
    uint64_t bytes;

    (void)pthread_mutex_lock(&held->lock);
    bytes = held->bytes;
    (void)pthread_mutex_unlock(&held->lock);
    return bytes;
}
