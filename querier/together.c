#include "querier/together.h"

#include "common/base/hash.h"
#include "querier/query.h"

#include <pthread.h>

enum { PLACES = 256 }; /* of leaders that wait; more of them share places */

/* Bytes that several queries send. Each but the last one copies them. */
struct qry_together_answer {
    atomic_uint refs;
    struct fg_buf body;
};

struct qry_together {
    qry_submit submit;
    pthread_mutex_t lock;
    struct qry_query *waiting[PLACES]; /* the newest first */
};

struct qry_together *qry_together_create(qry_submit submit)
{
    struct qry_together *together = fg_new(struct qry_together);

    together->submit = submit;
    fg_assert(pthread_mutex_init(&together->lock, NULL) == 0);
    return together;
}

void qry_together_destroy(struct qry_together *together)
{
    if (together == NULL)
        return;
    for (size_t i = 0; i < PLACES; i++)
        fg_assert(together->waiting[i] == NULL);
    (void)pthread_mutex_destroy(&together->lock);
    free(together);
}

static void lock(struct qry_together *together)
{
    (void)pthread_mutex_lock(&together->lock);
}

static void unlock(struct qry_together *together)
{
    (void)pthread_mutex_unlock(&together->lock);
}

/* --- before it begins --- */

/* Returns whether the time that the leader has is enough for the query, and not more. */
static bool has_time_for(const struct qry_query *leader, const struct qry_query *query)
{
    int64_t now_ns = fg_mono_ns(query->querier->clock);
    int64_t left_ns = leader->deadline_mono_ns - now_ns;

    return query->deadline_mono_ns >= leader->deadline_mono_ns &&
           left_ns >= (query->deadline_mono_ns - now_ns) / 2;
}

/* Returns the leader that the query joins; NULL: none. Locked. */
static struct qry_query *find_leader(const struct qry_together *together,
                                     const struct qry_query *query)
{
    struct qry_query *leader = together->waiting[query->together.place];

    while (leader != NULL &&
           !(fg_slice_eq(leader->together.key, query->together.key) &&
             leader->together.n_followers < QRY_TOGETHER_MAX && has_time_for(leader, query)))
        leader = leader->together.next;
    return leader;
}

static void follow(struct qry_query *leader, struct qry_query *query)
{
    query->together.next = leader->together.followers;
    leader->together.followers = query;
    leader->together.n_followers++;
}

enum fg_code qry_together_submit(struct qry_query *query, bool *ret_joined, struct fg_err *err)
{
    struct qry_together *together = query->querier->together;
    struct qry_query *leader, **first;
    enum fg_code code = FG_OK;

    fg_assert(query->job.home != NULL);
    *ret_joined = false;
    if (query->together.key.len == 0)
        return together->submit(query, err);
    query->together.place = (unsigned)(fg_hash64_table(query->together.key) % PLACES);
    first = &together->waiting[query->together.place];
    lock(together);
    leader = find_leader(together, query);
    if (leader != NULL)
        follow(leader, query);
    else
        code = together->submit(query, err);
    /* It leads. Still locked, so that it cannot begin before it is listed. */
    if (leader == NULL && code == FG_OK) {
        query->together.next = *first;
        query->together.listed = true;
        *first = query;
    }
    unlock(together);
    *ret_joined = leader != NULL;
    return code;
}

void qry_together_begin(struct qry_query *query)
{
    struct qry_together *together = query->querier->together;
    struct qry_query **at;

    if (query->together.key.len == 0)
        return;
    lock(together);
    if (query->together.listed) {
        at = &together->waiting[query->together.place];
        while (*at != query)
            at = &(*at)->together.next;
        *at = query->together.next;
        query->together.listed = false;
    }
    unlock(together);
}

/* --- at its end --- */

static void on_answer(struct fg_msg *msg)
{
    struct qry_query *query = fg_container(msg, struct qry_query, together.msg);

    query->job.done(&query->job);
}

/* The query is its loop's again, and may be gone when this returns. */
static void deliver(struct qry_query *query, enum fg_code code, const struct fg_err *err)
{
    query->together.joined = true;
    query->together.msg.run = on_answer;
    query->job.code = code;
    if (code != FG_OK)
        query->job.err = *err;
    fg_loop_post(query->job.home, &query->together.msg);
}

static struct fg_slice copy(struct qry_query *to, struct fg_slice bytes)
{
    struct fg_slice copied = fg_arena_copy(to->arena, bytes);

    fg_assert(copied.ptr != NULL || bytes.len == 0); /* its arena has room for answers */
    return copied;
}

static char *copy_text(struct qry_query *to, const char *text)
{
    return text == NULL ? NULL : (char *)(uintptr_t)copy(to, fg_bytes(text, strlen(text) + 1)).ptr;
}

/* Copies what the response says besides its body. What it took (planned_bytes, cpu_ns) is the
 * leader's. */
static void copy_facts(const struct qry_query *from, struct qry_query *to)
{
    to->content_type = copy_text(to, from->content_type);
    to->file_name = copy_text(to, from->file_name);
    to->unit = copy_text(to, from->unit);
    to->profiles = from->profiles;
    to->bytes = from->bytes;
    to->series = from->series;
    to->objects = from->objects;
    to->requests = from->requests;
    to->cache_hits = from->cache_hits;
    to->disk_hits = from->disk_hits;
    to->rollups = from->rollups;
    to->audited.detail = copy(to, from->audited.detail);
    to->audited.from_ms = from->audited.from_ms;
    to->audited.to_ms = from->audited.to_ms;
    to->exported = from->exported;
    to->empty = from->empty;
    to->inexact = from->inexact;
    to->bound = from->bound;
    to->saturated = from->saturated;
    memcpy(to->wide, from->wide, sizeof to->wide);
    to->n_wide = from->n_wide;
    to->incomplete = from->incomplete;
    fg_buf_clear(&to->missing);
    fg_buf_put(&to->missing, fg_buf_slice(&from->missing));
    to->together.coding = from->req == NULL ? 0 : fg_http_coding(from->req);
}

/* Takes the queries whose clients are still there. The others get the error. */
static struct qry_query *take_present(struct qry_query *followers, const struct fg_err *err)
{
    struct qry_query *present = NULL;

    while (followers != NULL) {
        struct qry_query *query = followers;

        followers = query->together.next;
        if (qry_query_is_gone(query)) {
            deliver(query, err->code, err);
            continue;
        }
        query->together.next = present;
        present = query;
    }
    return present;
}

/* Makes one of the queries the leader of the others: the one with the least time, as if the others
 * had joined it. */
static struct qry_query *elect(struct qry_query *queries)
{
    struct qry_query *leader = queries;

    for (struct qry_query *query = queries; query != NULL; query = query->together.next)
        if (query->deadline_mono_ns < leader->deadline_mono_ns)
            leader = query;
    while (queries != NULL) {
        struct qry_query *query = queries;

        queries = query->together.next;
        if (query != leader)
            follow(leader, query);
    }
    return leader;
}

/* Asks again for queries whose leader had an error of its own. Nobody else joins them: their leader
 * is not listed. */
static void ask_again(struct qry_together *together, struct qry_query *followers,
                      const struct fg_err *err)
{
    struct qry_query *leader = elect(take_present(followers, err)), *refused;
    struct fg_err refusal;

    if (leader == NULL || together->submit(leader, &refusal) == FG_OK)
        return;
    refused = fg_take(leader->together.followers);
    deliver(leader, refusal.code, &refusal);
    while (refused != NULL) {
        struct qry_query *query = refused;

        refused = query->together.next;
        deliver(query, refusal.code, &refusal);
    }
}

void qry_together_end(struct qry_query *query, enum fg_code code, const struct fg_err *err)
{
    struct qry_query *follower = fg_take(query->together.followers);
    struct qry_together_answer *answer = NULL;

    if (follower == NULL)
        return;
    if (code == FG_E_DEADLINE || code == FG_E_CANCELED) {
        ask_again(query->querier->together, follower, err);
        return;
    }
    /* The body becomes one of the query and of those that have joined it. */
    if (code == FG_OK) {
        answer = fg_new(struct qry_together_answer);
        atomic_init(&answer->refs, query->together.n_followers + 1);
        answer->body = query->body;
        fg_buf_init(&query->body, answer->body.max_bytes);
        query->together.answer = answer;
    }
    while (follower != NULL) {
        struct qry_query *next = follower->together.next;

        copy_facts(query, follower);
        follower->together.answer = answer;
        deliver(follower, code, err);
        follower = next;
    }
}

/* --- on the loop of each --- */

void qry_together_take(struct qry_query *query)
{
    struct qry_together_answer *answer = fg_take(query->together.answer);

    if (answer == NULL)
        return;
    if (atomic_load(&answer->refs) == 1) {
        /* The last one: all others have copied. */
        query->body = answer->body;
        free(answer);
    } else {
        fg_buf_put(&query->body, fg_buf_slice(&answer->body));
        if (atomic_fetch_sub(&answer->refs, 1) == 1) {
            fg_buf_done(&answer->body);
            free(answer);
        }
    }
}
