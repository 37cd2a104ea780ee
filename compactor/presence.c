#include "compactor/presence.h"

#include "common/base/time.h"
#include "common/cluster/manifest/name.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"
#include "compactor/mates.h"

#include <pthread.h>

enum { TRIES = 8 }; /* when others write at the same time */

static const int64_t POLL_NS = 15 * FG_SECOND_NS;
static const int64_t BEAT_NS = FG_MINUTE_NS;
static const int64_t GONE_NS = 4 * FG_MINUTE_NS;
static const int64_t REQUEST_TIMEOUT_NS = 20 * FG_SECOND_NS;
static const int64_t LEAVE_TIMEOUT_NS = 5 * FG_SECOND_NS;

struct cmp_presence {
    struct fg_bucket *bucket;
    struct fg_clock *clock;

    struct fg_ticker *ticker; /* NULL: not started, or stopped */
    pthread_mutex_t lock;
    struct cmp_mates mates;             /* under lock */
    uint64_t heard[PRESENCE_HEARD_MAX]; /* under lock: of tenants, until they are taken */
    uint32_t n_heard;

    /* The ticker's own, and after it the owner's: what was read last. */
    struct fg_arena *arena;
    struct cmp_mates_list list;
    struct fg_bucket_etag etag; /* "": there was none */
    struct cmp_mate next[MATES_MAX + 1];
};

/* ---- the object ---- */

static struct fg_bucket_request request_to(const struct cmp_presence *presence,
                                           enum fg_bucket_verb verb, int64_t timeout_ns)
{
    return (struct fg_bucket_request){.verb = verb,
                                      .name = FG_NAME_COMPACTORS,
                                      .content_max_bytes = MATES_MAX_BYTES,
                                      .deadline_mono_ns = fg_mono_ns(presence->clock) + timeout_ns};
}

/* A broken list is no list: all that is in it can be said again. One of a newer version is not ours
 * to change, and is read anew the next time. */
static enum fg_code decode(struct cmp_presence *presence, const struct fg_bucket_request *get,
                           struct fg_err *err)
{
    struct cmp_mates_list list = {.n = 0};

    fg_arena_reset(presence->arena);
    presence->list = list; /* what it was is in the arena no more */
    presence->etag.text[0] = '\0';
    if (cmp_mates_decode(fg_buf_slice(&get->body), presence->arena, &list, err) ==
        FG_E_UNIMPLEMENTED)
        return err->code;
    if (err->code == FG_E_CORRUPT)
        fg_log_error("damaged list of compactors replaced", fg_ls("err", err->msg));
    presence->list = list;
    presence->etag = get->etag;
    return FG_OK;
}

static enum fg_code read_list(struct cmp_presence *presence, int64_t timeout_ns, struct fg_err *err)
{
    struct fg_bucket_request get = request_to(presence, FG_BUCKET_GET, timeout_ns);
    enum fg_code code = FG_OK;

    err->code = FG_OK;
    if (presence->etag.text[0] != '\0') {
        get.condition = FG_BUCKET_IF_CHANGED;
        get.if_etag = presence->etag;
    }
    if (fg_bucket_call(presence->bucket, &get) == FG_E_NOT_FOUND) {
        presence->list = (struct cmp_mates_list){.n = 0};
        presence->etag.text[0] = '\0';
    } else if (get.code != FG_OK) {
        *err = get.err;
        code = err->code;
    } else if (!get.unchanged) {
        code = decode(presence, &get, err);
    }
    fg_bucket_clear(&get);
    if (code != FG_OK)
        return fg_wrap(err, FG_NAME_COMPACTORS);
    (void)pthread_mutex_lock(&presence->lock);
    presence->n_heard +=
        cmp_mates_heard(&presence->mates, &presence->list, presence->heard + presence->n_heard,
                        PRESENCE_HEARD_MAX - presence->n_heard);
    cmp_mates_read(&presence->mates, &presence->list, fg_mono_ns(presence->clock));
    (void)pthread_mutex_unlock(&presence->lock);
    return FG_OK;
}

/* What is to be in the place of the list that was read. */
static enum fg_code make_list(struct cmp_presence *presence, bool leaves, struct fg_buf *bytes,
                              struct fg_err *err)
{
    struct cmp_mates_list next;
    enum fg_code code;

    (void)pthread_mutex_lock(&presence->lock);
    code = cmp_mates_next(&presence->mates, &presence->list, leaves, presence->next, &next, err);
    if (code == FG_OK)
        code = cmp_mates_encode(&next, bytes, err);
    (void)pthread_mutex_unlock(&presence->lock);
    return code;
}

/* FG_E_PRECONDITION: there is another one by now. */
static enum fg_code write_list(struct cmp_presence *presence, bool leaves, int64_t timeout_ns,
                               struct fg_err *err)
{
    struct fg_bucket_request put = request_to(presence, FG_BUCKET_PUT, timeout_ns);
    struct fg_buf bytes;
    enum fg_code code;

    fg_buf_init(&bytes, MATES_MAX_BYTES);
    code = make_list(presence, leaves, &bytes, err);
    if (code == FG_OK) {
        put.content = fg_buf_slice(&bytes);
        put.condition = presence->etag.text[0] == '\0' ? FG_BUCKET_IF_ABSENT : FG_BUCKET_IF_MATCH;
        put.if_etag = presence->etag;
        code = fg_bucket_call(presence->bucket, &put);
        *err = put.err;
        fg_bucket_clear(&put);
    }
    fg_buf_done(&bytes);
    return code == FG_OK ? FG_OK : fg_wrap(err, FG_NAME_COMPACTORS);
}

static bool is_due(struct cmp_presence *presence, bool leaves)
{
    bool due;

    (void)pthread_mutex_lock(&presence->lock);
    due = leaves ? presence->mates.listed
                 : cmp_mates_is_due(&presence->mates, fg_mono_ns(presence->clock));
    (void)pthread_mutex_unlock(&presence->lock);
    return due;
}

/* Read and written until nobody was faster. */
static enum fg_code change(struct cmp_presence *presence, bool leaves, int64_t timeout_ns,
                           struct fg_err *err)
{
    enum fg_code code = FG_E_PRECONDITION;

    for (int i = 0; i < TRIES && code == FG_E_PRECONDITION; i++) {
        bool due;

        if (read_list(presence, timeout_ns, err) != FG_OK)
            return err->code;
        due = is_due(presence, leaves);
        code = due ? write_list(presence, leaves, timeout_ns, err) : FG_OK;
        if (due && code == FG_OK && !leaves) {
            (void)pthread_mutex_lock(&presence->lock);
            cmp_mates_written(&presence->mates, fg_mono_ns(presence->clock));
            (void)pthread_mutex_unlock(&presence->lock);
        }
    }
    return code;
}

enum fg_code cmp_presence_turn(struct cmp_presence *presence, struct fg_err *err)
{
    return change(presence, false, REQUEST_TIMEOUT_NS, err);
}

/* ---- beginning and end ---- */

static void tick(void *arg)
{
    struct fg_err err;

    if (cmp_presence_turn(arg, &err) != FG_OK)
        fg_log_warn("compactor heartbeat failed, other compactors may take over its tenants, "
                    "will retry",
                    fg_ls("err", err.msg));
}

enum fg_code cmp_presence_create(const struct cmp_presence_config *config,
                                 struct cmp_presence **ret_presence, struct fg_err *err)
{
    struct cmp_presence *presence = fg_new(struct cmp_presence);

    if (cmp_mates_init(&presence->mates, config->name, BEAT_NS, GONE_NS, err) != FG_OK) {
        free(presence);
        return err->code;
    }
    presence->bucket = config->bucket;
    presence->clock = config->clock;
    presence->arena = fg_arena_create(MATES_ARENA_BYTES);
    (void)pthread_mutex_init(&presence->lock, NULL);
    *ret_presence = presence;
    return FG_OK;
}

enum fg_code cmp_presence_start(struct cmp_presence *presence, struct fg_err *err)
{
    const struct fg_ticker_config ticker = {
        .name = "presence", .period_ns = POLL_NS, .tick = tick, .arg = presence};

    if (cmp_presence_turn(presence, err) != FG_OK)
        return err->code;
    return fg_ticker_create(&ticker, &presence->ticker, err);
}

void cmp_presence_stop(struct cmp_presence *presence)
{
    struct fg_err err;

    if (presence == NULL || presence->ticker == NULL)
        return;
    fg_ticker_destroy(fg_take(presence->ticker));
    if (change(presence, true, LEAVE_TIMEOUT_NS, &err) != FG_OK)
        fg_log_warn(
            "compactor could not leave the list of compactors, its entry stays until it expires",
            fg_ls("err", err.msg));
}

void cmp_presence_destroy(struct cmp_presence *presence)
{
    if (presence == NULL)
        return;
    fg_assert(presence->ticker == NULL);
    fg_arena_destroy(presence->arena);
    (void)pthread_mutex_destroy(&presence->lock);
    free(presence);
}

bool cmp_presence_owns(struct cmp_presence *presence, struct fg_slice name)
{
    bool owns;

    if (presence == NULL)
        return true;
    (void)pthread_mutex_lock(&presence->lock);
    owns = cmp_mates_own(&presence->mates, name);
    (void)pthread_mutex_unlock(&presence->lock);
    return owns;
}

void cmp_presence_ask(struct cmp_presence *presence, struct fg_slice tenant)
{
    bool said = true;

    if (presence == NULL)
        return;
    (void)pthread_mutex_lock(&presence->lock);
    if (!cmp_mates_own(&presence->mates, tenant))
        said = cmp_mates_ask(&presence->mates, tenant);
    (void)pthread_mutex_unlock(&presence->lock);
    if (!said)
        fg_log_info("compactor of the tenant could not be notified, tenant waits for its next pass",
                    fg_lb("tenant", tenant));
}

uint32_t cmp_presence_heard(struct cmp_presence *presence, uint64_t tenants[PRESENCE_HEARD_MAX])
{
    uint32_t n;

    if (presence == NULL)
        return 0;
    (void)pthread_mutex_lock(&presence->lock);
    n = presence->n_heard;
    memcpy(tenants, presence->heard, n * sizeof *tenants);
    presence->n_heard = 0;
    (void)pthread_mutex_unlock(&presence->lock);
    return n;
}

uint32_t cmp_presence_count(struct cmp_presence *presence)
{
    uint32_t count;

    if (presence == NULL)
        return 1;
    (void)pthread_mutex_lock(&presence->lock);
    count = cmp_mates_count(&presence->mates);
    (void)pthread_mutex_unlock(&presence->lock);
    return count;
}
