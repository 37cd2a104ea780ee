#include "common/cluster/membership/membership.h"

#include "common/cluster/membership/membership_core.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <pthread.h>

enum { TRIES = 8 }; /* of a swap while others write at the same time */

/* A notice to the owner of a tenant waits this long at most; four reads a minute cost little. */
static const int64_t POLL_NS = 15 * FG_SECOND_NS;
static const int64_t HEARTBEAT_NS = FG_MINUTE_NS;
/* Four missed heartbeats. A member that lives and is taken for gone costs work done twice,
 * nothing more. */
static const int64_t GONE_NS = 4 * FG_MINUTE_NS;
static const int64_t STEP_TIMEOUT_NS = 20 * FG_SECOND_NS;
/* The process wants to end. An entry that stays behind expires after GONE_NS. */
static const int64_t LEAVE_TIMEOUT_NS = 5 * FG_SECOND_NS;

struct fg_membership {
    struct fg_membership_config config;

    struct fg_ticker *ticker; /* NULL: not started, or stopped */
    pthread_mutex_t lock;     /* of the core and the notices; never held for I/O */
    struct fg_membership_core core;
    uint64_t notices[FG_MEMBERSHIP_NOTICES_MAX]; /* of tenants, until they are taken */
    uint32_t n_notices;

    /* The ticker's own, and after it the owner's: what was read last. */
    struct fg_arena *arena;
    struct fg_member_list list;
    struct fg_bucket_etag etag; /* "": there was none */
    struct fg_member next[FG_MEMBERS_MAX + 1];
};

/* ---- the object ---- */

static struct fg_bucket_request request_to(const struct fg_membership *membership,
                                           enum fg_bucket_verb verb, int64_t deadline_mono_ns)
{
    return (struct fg_bucket_request){.verb = verb,
                                      .name = membership->config.object,
                                      .content_max_bytes = FG_MEMBER_LIST_MAX_BYTES,
                                      .deadline_mono_ns = deadline_mono_ns};
}

/* A damaged list counts as empty, since members can say again what was in it. A list of a newer
 * version must not be replaced, and is read again next time. */
static enum fg_code decode(struct fg_membership *membership, const struct fg_bucket_request *get,
                           struct fg_err *err)
{
    struct fg_member_list list = {.n = 0};

    fg_arena_reset(membership->arena);
    membership->list = list; /* the old list was in the arena */
    membership->etag.text[0] = '\0';
    if (fg_member_list_decode(fg_buf_slice(&get->body), membership->arena, &list, err) ==
        FG_E_UNIMPLEMENTED)
        return err->code;
    if (err->code == FG_E_CORRUPT)
        fg_log_error("damaged list of members replaced", fg_ls("err", err->msg));
    membership->list = list;
    membership->etag = get->etag;
    return FG_OK;
}

static enum fg_code read_list(struct fg_membership *membership, int64_t deadline_mono_ns,
                              struct fg_err *err)
{
    struct fg_bucket_request get = request_to(membership, FG_BUCKET_GET, deadline_mono_ns);
    enum fg_code code = FG_OK;

    err->code = FG_OK;
    if (membership->etag.text[0] != '\0') {
        get.condition = FG_BUCKET_IF_CHANGED;
        get.if_etag = membership->etag;
    }
    if (fg_bucket_call(membership->config.bucket, &get) == FG_E_NOT_FOUND) {
        membership->list = (struct fg_member_list){.n = 0};
        membership->etag.text[0] = '\0';
    } else if (get.code != FG_OK) {
        *err = get.err;
        code = err->code;
    } else if (!get.unchanged) {
        code = decode(membership, &get, err);
    }
    fg_bucket_clear(&get);
    if (code != FG_OK)
        return fg_wrap(err, "%s", membership->config.object);
    (void)pthread_mutex_lock(&membership->lock);
    /* Notices before core_read(), which makes this list the known one: a notice is new if its
     * heartbeat is greater than the one known before. */
    membership->n_notices += fg_membership_core_notices(
        &membership->core, &membership->list, membership->notices + membership->n_notices,
        FG_MEMBERSHIP_NOTICES_MAX - membership->n_notices);
    fg_membership_core_read(&membership->core, &membership->list,
                            fg_mono_ns(membership->config.clock));
    (void)pthread_mutex_unlock(&membership->lock);
    return FG_OK;
}

/* Encodes the list that replaces the one read last. */
static enum fg_code make_list(struct fg_membership *membership, bool leaves, struct fg_buf *bytes,
                              struct fg_err *err)
{
    struct fg_member_list next;
    enum fg_code code;

    (void)pthread_mutex_lock(&membership->lock);
    code = fg_membership_core_next(&membership->core, &membership->list, leaves, membership->next,
                                   &next, err);
    if (code == FG_OK)
        code = fg_member_list_encode(&next, bytes, err);
    (void)pthread_mutex_unlock(&membership->lock);
    return code;
}

/* FG_E_PRECONDITION: another member has replaced the list meanwhile. */
static enum fg_code write_list(struct fg_membership *membership, bool leaves,
                               int64_t deadline_mono_ns, struct fg_err *err)
{
    struct fg_bucket_request put = request_to(membership, FG_BUCKET_PUT, deadline_mono_ns);
    struct fg_buf bytes;
    enum fg_code code;

    fg_buf_init(&bytes, FG_MEMBER_LIST_MAX_BYTES);
    code = make_list(membership, leaves, &bytes, err);
    if (code == FG_OK) {
        put.content = fg_buf_slice(&bytes);
        put.condition = membership->etag.text[0] == '\0' ? FG_BUCKET_IF_ABSENT : FG_BUCKET_IF_MATCH;
        put.if_etag = membership->etag;
        code = fg_bucket_call(membership->config.bucket, &put);
        *err = put.err;
        fg_bucket_clear(&put);
    }
    fg_buf_done(&bytes);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", membership->config.object);
}

/* Reads and writes the list until no other member was faster, all within timeout_ns: who leaves is
 * waited for. */
static enum fg_code change_list(struct fg_membership *membership, bool leaves, int64_t timeout_ns,
                                struct fg_err *err)
{
    int64_t deadline_mono_ns = fg_mono_ns(membership->config.clock) + timeout_ns;
    enum fg_code code = FG_E_PRECONDITION;

    for (int i = 0; i < TRIES && code == FG_E_PRECONDITION; i++) {
        bool due;

        if (read_list(membership, deadline_mono_ns, err) != FG_OK)
            return err->code;
        (void)pthread_mutex_lock(&membership->lock);
        due = leaves ? membership->core.listed
                     : fg_membership_core_is_due(&membership->core,
                                                 fg_mono_ns(membership->config.clock));
        (void)pthread_mutex_unlock(&membership->lock);
        code = due ? write_list(membership, leaves, deadline_mono_ns, err) : FG_OK;
        /* Only after a write that succeeded: otherwise the heartbeat stays due and the next tick
         * repeats it. */
        if (due && code == FG_OK && !leaves) {
            (void)pthread_mutex_lock(&membership->lock);
            fg_membership_core_written(&membership->core, fg_mono_ns(membership->config.clock));
            (void)pthread_mutex_unlock(&membership->lock);
        }
    }
    return code;
}

enum fg_code fg_membership_step(struct fg_membership *membership, struct fg_err *err)
{
    return change_list(membership, false, STEP_TIMEOUT_NS, err);
}

/* ---- beginning and end ---- */

static void tick(void *arg)
{
    struct fg_err err;

    if (fg_membership_step(arg, &err) != FG_OK)
        fg_log_warn(
            "heartbeat failed, other members may take over the work of this one, will retry",
            fg_ls("err", err.msg));
}

enum fg_code fg_membership_create(const struct fg_membership_config *config,
                                  struct fg_membership **ret_membership, struct fg_err *err)
{
    struct fg_membership *membership = fg_new(struct fg_membership);

    if (fg_membership_core_init(&membership->core, config->kind, config->name, HEARTBEAT_NS,
                                GONE_NS, err) != FG_OK) {
        free(membership);
        return err->code;
    }
    membership->config = *config;
    membership->arena = fg_arena_create(FG_MEMBER_LIST_ARENA_BYTES);
    (void)pthread_mutex_init(&membership->lock, NULL);
    *ret_membership = membership;
    return FG_OK;
}

enum fg_code fg_membership_start(struct fg_membership *membership, struct fg_err *err)
{
    const struct fg_ticker_config ticker = {
        .name = "membership", .period_ns = POLL_NS, .tick = tick, .arg = membership};

    /* The first step here and not on the ticker: when start() returns, ownership is known. */
    if (fg_membership_step(membership, err) != FG_OK)
        return err->code;
    return fg_ticker_create(&ticker, &membership->ticker, err);
}

void fg_membership_stop(struct fg_membership *membership)
{
    struct fg_err err;

    if (membership == NULL || membership->ticker == NULL)
        return;
    /* First the ticker, which must not list us again after we have left. */
    fg_ticker_destroy(fg_take(membership->ticker));
    if (change_list(membership, true, LEAVE_TIMEOUT_NS, &err) != FG_OK)
        fg_log_warn("could not leave the list of members, the entry stays until it expires",
                    fg_ls("err", err.msg));
}

void fg_membership_destroy(struct fg_membership *membership)
{
    if (membership == NULL)
        return;
    fg_assert(membership->ticker == NULL);
    fg_arena_destroy(membership->arena);
    (void)pthread_mutex_destroy(&membership->lock);
    free(membership);
}

bool fg_membership_owns(struct fg_membership *membership, struct fg_slice name)
{
    bool owns;

    if (membership == NULL)
        return true;
    (void)pthread_mutex_lock(&membership->lock);
    owns = fg_membership_core_owns(&membership->core, name);
    (void)pthread_mutex_unlock(&membership->lock);
    return owns;
}

void fg_membership_notify(struct fg_membership *membership, struct fg_slice key)
{
    bool said = true;

    if (membership == NULL)
        return;
    (void)pthread_mutex_lock(&membership->lock);
    if (!fg_membership_core_owns(&membership->core, key))
        said = fg_membership_core_notify(&membership->core, key);
    (void)pthread_mutex_unlock(&membership->lock);
    if (!said)
        fg_log_info("owner could not be notified, the key waits for its next pass",
                    fg_lb("key", key));
}

uint32_t fg_membership_notices(struct fg_membership *membership,
                               uint64_t keys[FG_MEMBERSHIP_NOTICES_MAX])
{
    uint32_t n;

    if (membership == NULL)
        return 0;
    (void)pthread_mutex_lock(&membership->lock);
    n = membership->n_notices;
    memcpy(keys, membership->notices, n * sizeof *keys);
    membership->n_notices = 0;
    (void)pthread_mutex_unlock(&membership->lock);
    return n;
}

uint32_t fg_membership_count(struct fg_membership *membership)
{
    uint32_t count;

    if (membership == NULL)
        return 1;
    (void)pthread_mutex_lock(&membership->lock);
    count = fg_membership_core_count(&membership->core);
    (void)pthread_mutex_unlock(&membership->lock);
    return count;
}
