/* Reading the ring, and putting it back if it was lost: the shell of follow_core.h. */
#include "common/cluster/ring/watch_impl.h"
#include "common/runtime/log.h"

/* Reads in a row that must find the same damaged object before the local copy replaces it: a
 * single one may have been damaged on the way. */
enum { DAMAGED_READS = 3 };
enum { WHOLE_READS = 12 }; /* one in so many reads is unconditional: once a minute, if idle */
/* After the ring was put back, nobody changes it for this long: members with a newer copy can
 * put that back first, and a change of the older copy would hide it. */
static const int64_t HOLD_NS = 30 * FG_SECOND_NS;

/* Makes the copy visible to callers. With the lock held. */
static void publish(struct fg_ring_watch *watch)
{
    struct fg_ring_view *before = watch->view;

    /* Readers go by it. Revisions may go back: an operator has rebuilt the ring. */
    fg_assert(before == NULL || watch->copy->ring.swaps >= before->ring.swaps);
    /* The view before the revision: a push that passes the check by `revision` finds at least
     * that ring. */
    watch->view = fg_ring_view_ref(watch->copy);
    fg_ring_view_unref(before);
    atomic_store(&watch->revision, fg_ring_newest(&watch->copy->ring));
}

/* Rejects the ring that was read: the copy is again what callers see. Returns the rejected one.
 * With the lock held. */
static struct fg_ring_view *take_back(struct fg_ring_watch *watch)
{
    struct fg_ring_view *found = watch->copy;

    (void)fg_fail(&watch->err, FG_E_UNAVAILABLE,
                  "the ring in the bucket is older than one read before: swaps %llu, then %llu; is "
                  "this a different bucket, or one restored from a backup?",
                  (unsigned long long)watch->view->ring.swaps,
                  (unsigned long long)watch->copy->ring.swaps);
    watch->copy = fg_ring_view_ref(watch->view);
    return found;
}

/* Hands the end of a read to the core, and publishes the ring or takes it back. *ret_found: the
 * rejected ring if it is older than the copy, else NULL. Returns true if the ring was published. */
static bool end_read(struct fg_ring_watch *watch, enum fg_code code, const struct fg_err *err,
                     struct fg_ring_follow_effects *effects, struct fg_ring_view **ret_found)
{
    struct fg_ring_follow_event event = {.kind = FG_RING_FOLLOW_FAILED,
                                         .mono_ns = fg_ring_watch_now(watch)};
    bool taken;

    if (code == FG_OK) {
        event.kind = FG_RING_FOLLOW_READ;
        event.swaps = watch->copy->ring.swaps;
        event.revision = fg_ring_newest(&watch->copy->ring);
    }
    *ret_found = NULL;
    fg_thread_lock(&watch->thread);
    fg_ring_follow_step(&watch->follow, &event, effects);
    taken = effects->take;
    if (code != FG_OK)
        watch->err = *err;
    else if (!taken)
        *ret_found = take_back(watch);
    else
        publish(watch);
    if (taken)
        watch->read_mono_ns = event.mono_ns;
    fg_assert(watch->copy == watch->view);
    fg_assert(watch->follow.ended_well <= watch->follow.ended);
    (void)pthread_cond_broadcast(&watch->moved);
    fg_thread_unlock(&watch->thread);
    return taken;
}

/* Replaces a ring in the bucket that is lost, damaged, or from a backup by the copy. A member
 * with a newer copy then finds an older ring and replaces that. */
static void put_back(struct fg_ring_watch *watch, struct fg_slice etag, const char *why)
{
    struct fg_err err;

    /* Also if the swap fails: another member may have put the ring back just now. */
    watch->hold_mono_ns = fg_time_add(fg_ring_watch_now(watch), HOLD_NS);
    if (fg_ring_object_swap(&watch->object, etag, &watch->copy->ring, &err) != FG_OK) {
        if (err.code != FG_E_PRECONDITION && err.code != FG_E_CANCELED)
            fg_log_warn("ring could not be restored from the local copy, retrying",
                        fg_ls("found", why), fg_ls("err", err.msg));
        return;
    }
    fg_metric_add(watch->metrics, WATCH_PUT_BACK, 1);
    fg_log_error("ring restored from the local copy", fg_ls("found", why),
                 fg_lu("swaps", watch->copy->ring.swaps));
}

/* True if the same object was found damaged often enough. */
static bool is_damaged(struct fg_ring_watch *watch, enum fg_code code)
{
    const struct fg_bucket_etag *etag = &watch->read.damaged;

    if (code != FG_E_CORRUPT || etag->text[0] == '\0') {
        watch->n_damaged = 0;
        return false;
    }
    if (strcmp(etag->text, watch->damaged.text) != 0)
        watch->n_damaged = 0;
    watch->damaged = *etag;
    return ++watch->n_damaged >= DAMAGED_READS;
}

/* True if this member may change the ring. Not while it is held, and not if it is missing in a
 * bucket that was used: an empty ring would give all shards to the first member that comes. */
static bool may_change(struct fg_ring_watch *watch)
{
    struct fg_err err;

    if (fg_ring_watch_now(watch) < watch->hold_mono_ns)
        return false;
    if (watch->copy->etag.len == 0 && watch->member_config.check_unused != NULL &&
        watch->member_config.check_unused(watch->member_config.arg, &err) != FG_OK) {
        if (err.code == FG_E_CORRUPT)
            fg_condition_raise(watch->lost, "%s", err.msg);
        return false;
    }
    fg_condition_clear(watch->lost);
    return true;
}

void fg_ring_watch_read(struct fg_ring_watch *watch, struct fg_ring_follow_effects *effects)
{
    struct fg_ring_view *found;
    struct fg_err err;

    /* In full while damage is suspected, and once in WHOLE_READS reads: "unchanged" says nothing
     * about bytes that rot under the same etag. */
    watch->object.whole = watch->n_reads++ % WHOLE_READS == 0 || watch->n_damaged > 0;
    enum fg_code code = fg_ring_object_read(&watch->object, &watch->copy, &watch->read, &err);
    bool damaged = is_damaged(watch, code);

    if (end_read(watch, code, &err, effects, &found)) {
        fg_metric_add(watch->metrics, WATCH_READS, 1);
        fg_condition_clear(watch->unread);
        if (watch->config.member != NULL && may_change(watch))
            fg_ring_watch_show_member(watch);
        if (!watch->widen.idle && fg_ring_watch_now(watch) >= watch->hold_mono_ns)
            fg_ring_watch_show_widen(watch);
        return;
    }
    if (found != NULL && watch->config.member != NULL)
        put_back(watch, found->etag, watch->err.msg);
    else if (damaged && watch->config.member != NULL && watch->copy != NULL &&
             watch->copy->etag.len > 0)
        put_back(watch, fg_cstr(watch->damaged.text), err.msg);
    fg_ring_view_unref(found);
    fg_metric_add(watch->metrics, WATCH_READ_FAILURES, 1);
    if (code != FG_E_CANCELED) /* only we write it */
        fg_condition_raise(watch->unread, "the ring cannot be read, using the last copy: %s",
                           watch->err.msg);
}

void fg_ring_watch_follow(struct fg_ring_watch *watch, const struct fg_ring_watch_asked *asked,
                          struct fg_ring_follow_effects *effects)
{
    const struct fg_ring_follow_event event = {
        .kind = asked->wanted > 0 ? FG_RING_FOLLOW_WANTED : FG_RING_FOLLOW_TICK,
        .mono_ns = fg_ring_watch_now(watch),
        .revision = asked->wanted,
    };

    fg_thread_lock(&watch->thread);
    fg_ring_follow_step(&watch->follow, &event, effects);
    fg_thread_unlock(&watch->thread);
}
