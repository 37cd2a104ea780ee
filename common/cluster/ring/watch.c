#include "common/cluster/ring/watch.h"

#include "common/cluster/ring/follow_core.h"
#include "common/cluster/ring/object.h"
#include "common/runtime/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

static const int64_t REQUEST_TIMEOUT_NS = 10 * FG_SECOND_NS;
static const int64_t BACKOFF_MIN_NS = 100 * FG_MS_NS;
static const int64_t BACKOFF_MAX_NS = 10 * FG_SECOND_NS;
/* So many reads in a row have to find the same damaged object before the copy replaces it: damage
 * on the way is no damage of the object. */
enum { DAMAGED_READS = 3 };
enum { WHOLE_READS = 12 }; /* each of so many reads: once a minute, if nobody asks for the ring */
/* So long nobody changes a ring that was put back: all who have a newer copy have put it there. */
static const int64_t HOLD_NS = 30 * FG_SECOND_NS;
static const int64_t DENIED_NS = 10 * FG_MINUTE_NS; /* permissions change by people's hands */
/* Longer than a copy of the ring gets old while the bucket is there, and than clocks of machines
 * that send profiles differ: who sends a profile of after it has the ring by then. */
static const int64_t WIDEN_LEAD_NS = 15 * FG_MINUTE_NS;

/* clang-format off */
#define WATCH_METRICS(M)                                                                           \
    M(GAUGE, WATCH_REVISION, "flamegrid_ring_revision", "Newest ring revision that this process has read") \
    M(GAUGE, WATCH_ACTIVE, "flamegrid_ring_members{state=\"active\"}", "Ring members by state")    \
    M(GAUGE, WATCH_LEAVING, "flamegrid_ring_members{state=\"leaving\"}", "Ring members by state")  \
    M(GAUGE, WATCH_GONE, "flamegrid_ring_members{state=\"gone\"}", "Ring members by state")        \
    M(GAUGE, WATCH_UNDRAINED, "flamegrid_ring_undrained_revisions", "Older ring revisions whose owners queries still ask") \
    M(GAUGE, WATCH_AGE, "flamegrid_ring_age_ns", "Time since the last successful read of the ring") \
    M(GAUGE, WATCH_DENIED, "flamegrid_ring_change_denied", "1 if the bucket denied the last ring update") \
    M(GAUGE, WATCH_MEMBER, "flamegrid_ring_seat_state", "State of this member in the ring: 0 none, 1 joining, 2 active, 3 leaving, 4 left, 5 replaced") \
    M(COUNTER, WATCH_READS, "flamegrid_ring_reads_total", "Reads of the ring")                     \
    M(COUNTER, WATCH_READ_FAILURES, "flamegrid_ring_read_failures_total", "Failed reads of the ring") \
    M(COUNTER, WATCH_PUT_BACK, "flamegrid_ring_put_back_total", "Lost, damaged or outdated rings that this process replaced with its copy") \
    M(COUNTER, WATCH_SWAPS, "flamegrid_ring_swaps_total", "Attempted ring updates")                \
    M(COUNTER, WATCH_SWAPS_LOST, "flamegrid_ring_swaps_lost_total", "Ring updates that failed or whose outcome is unknown")
/* clang-format on */
FG_METRICS_ENUM(watch_metric, WATCH_METRICS)
static const struct fg_metric_def watch_metrics[] = FG_METRICS_DEFS(WATCH_METRICS);

struct fg_ring_watch {
    struct fg_ring_watch_config config;
    struct fg_ring_watch_member member_config;
    struct fg_ring_object object;
    struct fg_metrics *metrics;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock;
    pthread_cond_t wake;  /* the thread: something is asked for */
    pthread_cond_t moved; /* those who wait */
    /* What is asked for. */
    bool stop, leave, asked;
    uint64_t wanted, drained; /* revisions */
    uint64_t generation;      /* at which that was drained */
    bool widening, wishes;    /* there is a wish; it was not taken over yet */
    struct fg_ring_wish wish;
    /* What there is. */
    struct fg_ring_view *view; /* NULL: not read yet */
    struct fg_ring_follow follow;
    struct fg_err err; /* of the last read, if it failed */
    int64_t read_mono_ns;

    _Atomic uint64_t revision;
    _Atomic unsigned member_state; /* enum fg_ring_member_state */

    /* The thread's own. */
    struct fg_ring_view *copy; /* what was read last; `view` but while it is taken over */
    struct fg_ring_member_core member;
    int64_t member_wake_mono_ns;
    struct fg_ring_widen widen;
    int64_t widen_wake_mono_ns;
    struct fg_ring_read read; /* the last one */
    uint64_t n_reads;
    struct fg_bucket_etag damaged; /* of the object that the last reads found to be no ring */
    unsigned n_damaged;            /* these reads */
    bool denied;                   /* the last swap */
    int64_t hold_mono_ns;          /* the ring is not changed before then */
    struct fg_condition *lost, *unread;
};

static int64_t now(const struct fg_ring_watch *watch)
{
    return fg_mono_ns(watch->config.clock);
}

/* Under the lock. Returns the number of a read that begins from now on. */
static uint64_t ask(struct fg_ring_watch *watch)
{
    watch->asked = true;
    (void)pthread_cond_signal(&watch->wake);
    return fg_ring_follow_ticket(&watch->follow);
}

static void ask_to_read(struct fg_ring_watch *watch)
{
    (void)pthread_mutex_lock(&watch->lock);
    (void)ask(watch);
    (void)pthread_mutex_unlock(&watch->lock);
}

/* Said once for as long as it lasts. */
static void note_denied(struct fg_ring_watch *watch, bool denied, const struct fg_err *err)
{
    if (denied && !watch->denied)
        fg_log_error("ring update denied by the bucket, keeping the current ring",
                     fg_ls("err", err->msg));
    watch->denied = denied;
    fg_metric_set(watch->metrics, WATCH_DENIED, denied);
}

/* Onto the copy; was it won, as far as is known? */
static enum fg_code swap(struct fg_ring_watch *watch, const struct fg_ring *ring)
{
    struct fg_err err;
    enum fg_code code = fg_ring_object_swap(&watch->object, watch->copy->etag, ring, &err);

    fg_metric_add(watch->metrics, WATCH_SWAPS, 1);
    fg_metric_add(watch->metrics, WATCH_SWAPS_LOST, code != FG_OK);
    note_denied(watch, code == FG_E_DENIED, &err);
    if (code != FG_OK && code != FG_E_PRECONDITION && code != FG_E_CANCELED && code != FG_E_DENIED)
        fg_log_warn("ring update unconfirmed, retrying", fg_ls("err", err.msg));
    return code;
}

/* ---- shard factors ---- */

/* What was wished is there: the next wish may come. */
static void end_wish(struct fg_ring_watch *watch)
{
    const struct fg_ring_wish *wish = &watch->widen.wish;

    fg_log_info("ring has the new spread of a tenant",
                fg_lb("tenant", fg_bytes(wish->tenant, wish->tenant_len)),
                fg_lu("spread", wish->shard_factor));
    (void)pthread_mutex_lock(&watch->lock);
    watch->widening = false;
    (void)pthread_mutex_unlock(&watch->lock);
}

static void widen_step(struct fg_ring_watch *watch, struct fg_ring_widen_event *event)
{
    struct fg_ring_widen_effects effects;
    bool was_idle = watch->widen.idle;

    event->mono_ns = now(watch);
    fg_ring_widen_step(&watch->widen, event, &effects);
    watch->widen_wake_mono_ns = effects.wake_mono_ns;
    if (watch->widen.idle && !was_idle)
        end_wish(watch);
    if (effects.read)
        ask_to_read(watch);
    if (effects.swap) {
        struct fg_ring_widen_event swapped = {.kind = FG_RING_WIDEN_SWAPPED};

        enum fg_code code = swap(watch, &effects.ring);

        swapped.won = code == FG_OK;
        swapped.denied = code == FG_E_DENIED;
        widen_step(watch, &swapped);
    }
}

static void show_widen(struct fg_ring_watch *watch)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring_widen_event event = {
        .kind = FG_RING_WIDEN_RING, .ring = &watch->copy->ring, .arena = arena};

    event.wall_ns = watch->read.answered_wall_ns != 0 ? watch->read.answered_wall_ns
                                                      : fg_wall_ns(watch->config.clock);
    widen_step(watch, &event);
}

/* ---- the seat ---- */

static void member_step(struct fg_ring_watch *watch, struct fg_ring_member_event *event);

static void on_moved_state(struct fg_ring_watch *watch, enum fg_ring_member_state before)
{
    /* The drawing of seat.h. One that has not joined yet may be told to leave. */
    static const unsigned moves[] = {
        [FG_RING_MEMBER_JOINING] =
            1 << FG_RING_MEMBER_ACTIVE | 1 << FG_RING_MEMBER_LEAVING | 1 << FG_RING_MEMBER_REPLACED,
        [FG_RING_MEMBER_ACTIVE] = 1 << FG_RING_MEMBER_JOINING | 1 << FG_RING_MEMBER_LEAVING |
                                  1 << FG_RING_MEMBER_REPLACED,
        [FG_RING_MEMBER_LEAVING] = 1 << FG_RING_MEMBER_LEFT | 1 << FG_RING_MEMBER_REPLACED,
        [FG_RING_MEMBER_LEFT] = 0,
        [FG_RING_MEMBER_REPLACED] = 0,
    };
    enum fg_ring_member_state state = watch->member.state;

    if (state == before)
        return;
    fg_assert((moves[before] >> state & 1) != 0);
    (void)pthread_mutex_lock(&watch->lock);
    atomic_store(&watch->member_state, state);
    (void)pthread_cond_broadcast(&watch->moved);
    (void)pthread_mutex_unlock(&watch->lock);
    if (state == FG_RING_MEMBER_REPLACED)
        fg_log_error(
            "ring member replaced by another store with the same name, refusing all pushes",
            fg_lb("member", watch->member.config.name));
    else
        fg_log_info("ring membership changed", fg_lb("member", watch->member.config.name),
                    fg_ls("state", fg_ring_member_state_name(state)),
                    fg_lu("revision", fg_ring_watch_revision(watch)));
}

static void member_swap(struct fg_ring_watch *watch, const struct fg_ring *ring)
{
    struct fg_ring_member_event event = {.kind = FG_RING_MEMBER_SWAPPED};

    event.won = swap(watch, ring) == FG_OK;
    member_step(watch, &event);
}

static void member_step(struct fg_ring_watch *watch, struct fg_ring_member_event *event)
{
    enum fg_ring_member_state before = watch->member.state;
    enum fg_code fault = watch->member.err.code;
    struct fg_ring_member_effects effects;

    event->mono_ns = now(watch);
    event->wall_ns = fg_wall_ns(watch->config.clock);
    fg_ring_member_step(&watch->member, event, &effects);
    watch->member_wake_mono_ns = effects.wake_mono_ns;
    on_moved_state(watch, before);
    if (watch->member.err.code != FG_OK && fault == FG_OK)
        fg_log_warn("cannot join the ring yet, retrying", fg_ls("err", watch->member.err.msg));
    if (effects.drain > 0)
        watch->member_config.on_drain(watch->member_config.arg, effects.drain);
    if (effects.read)
        ask_to_read(watch);
    if (effects.swap)
        member_swap(watch, &effects.ring);
}

static void show_member(struct fg_ring_watch *watch)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring_member_event event = {
        .kind = FG_RING_MEMBER_RING, .ring = &watch->copy->ring, .arena = arena};

    member_step(watch, &event);
}

/* ---- reading ---- */

/* The copy becomes what others see. Under the lock. */
static void publish(struct fg_ring_watch *watch)
{
    struct fg_ring_view *before = watch->view;

    /* Readers go by it. Revisions may go back: an operator has rebuilt the ring. */
    fg_assert(before == NULL || watch->copy->ring.swaps >= before->ring.swaps);
    watch->view = fg_ring_view_ref(watch->copy);
    fg_ring_view_unref(before);
    atomic_store(&watch->revision, fg_ring_newest(&watch->copy->ring));
}

/* What was read is not ours any more: back to what others see. Returns it. Under the lock. */
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

/* Hands in what came of a read. *effects: what is to be done next. *ret_found: what was read, if it
 * is older than the copy; else NULL. */
static bool end_read(struct fg_ring_watch *watch, enum fg_code code, const struct fg_err *err,
                     struct fg_ring_follow_effects *effects, struct fg_ring_view **ret_found)
{
    struct fg_ring_follow_event event = {.kind = FG_RING_FOLLOW_FAILED, .mono_ns = now(watch)};
    bool taken;

    if (code == FG_OK) {
        event.kind = FG_RING_FOLLOW_READ;
        event.swaps = watch->copy->ring.swaps;
        event.revision = fg_ring_newest(&watch->copy->ring);
    }
    *ret_found = NULL;
    (void)pthread_mutex_lock(&watch->lock);
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
    (void)pthread_mutex_unlock(&watch->lock);
    return taken;
}

/* The ring in the bucket is lost, damaged, or from a backup: the copy replaces it. A member with a
 * newer copy finds an older ring then and replaces that. */
static void put_back(struct fg_ring_watch *watch, struct fg_slice etag, const char *why)
{
    struct fg_err err;

    watch->hold_mono_ns = fg_time_add(now(watch), HOLD_NS);
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

/* Has the ring been found damaged so often that it is the object? */
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

/* May the ring be changed? Not one that is missing in a bucket that was used. */
static bool may_change(struct fg_ring_watch *watch)
{
    struct fg_err err;

    if (now(watch) < watch->hold_mono_ns)
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

static void read_once(struct fg_ring_watch *watch, struct fg_ring_follow_effects *effects)
{
    struct fg_ring_view *found;
    struct fg_err err;

    watch->object.whole = watch->n_reads++ % WHOLE_READS == 0 || watch->n_damaged > 0;
    enum fg_code code = fg_ring_object_read(&watch->object, &watch->copy, &watch->read, &err);
    bool damaged = is_damaged(watch, code);

    if (end_read(watch, code, &err, effects, &found)) {
        fg_metric_add(watch->metrics, WATCH_READS, 1);
        fg_condition_clear(watch->unread);
        if (watch->config.member != NULL && may_change(watch))
            show_member(watch);
        if (!watch->widen.idle && now(watch) >= watch->hold_mono_ns)
            show_widen(watch);
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

/* ---- the thread ---- */

static struct timespec timespec_of(int64_t mono_ns)
{
    return (struct timespec){mono_ns / FG_SECOND_NS, mono_ns % FG_SECOND_NS};
}

static bool is_asked(const struct fg_ring_watch *watch)
{
    return watch->stop || watch->leave || watch->asked || watch->wishes || watch->wanted > 0 ||
           watch->drained > 0;
}

/* What was asked for since, taken over. */
struct ring_asked {
    bool stop, leave;
    uint64_t wanted, drained, generation;
    bool wishes;
    struct fg_ring_wish wish;
};

/* Until something is asked for, or due. */
static struct ring_asked wait_for_more(struct fg_ring_watch *watch, int64_t wake_mono_ns)
{
    const struct timespec until = timespec_of(wake_mono_ns);
    struct ring_asked asked;

    (void)pthread_mutex_lock(&watch->lock);
    while (!is_asked(watch))
        if (pthread_cond_timedwait(&watch->wake, &watch->lock, &until) != 0)
            break;
    asked = (struct ring_asked){.stop = watch->stop,
                                .leave = watch->leave,
                                .wanted = watch->wanted,
                                .drained = watch->drained,
                                .generation = watch->generation,
                                .wishes = watch->wishes,
                                .wish = watch->wish};
    watch->leave = watch->asked = watch->wishes = false;
    watch->wanted = watch->drained = 0;
    (void)pthread_mutex_unlock(&watch->lock);
    return asked;
}

static void tell_member(struct fg_ring_watch *watch, const struct ring_asked *asked)
{
    struct fg_ring_member_event event = {.kind = FG_RING_MEMBER_TICK};

    if (asked->leave) {
        event.kind = FG_RING_MEMBER_LEAVE;
        member_step(watch, &event);
    }
    event = (struct fg_ring_member_event){.kind = FG_RING_MEMBER_DRAINED,
                                          .revision = asked->drained,
                                          .generation = asked->generation};
    if (asked->drained > 0)
        member_step(watch, &event);
    event = (struct fg_ring_member_event){.kind = FG_RING_MEMBER_TICK};
    if (now(watch) >= watch->member_wake_mono_ns)
        member_step(watch, &event);
}

static void tell_widen(struct fg_ring_watch *watch, const struct ring_asked *asked)
{
    struct fg_ring_widen_event event = {.kind = FG_RING_WIDEN_WANT, .wish = &asked->wish};

    if (!asked->wishes)
        event.kind = FG_RING_WIDEN_TICK;
    if (asked->wishes || now(watch) >= watch->widen_wake_mono_ns)
        widen_step(watch, &event);
}

static void follow_step(struct fg_ring_watch *watch, const struct ring_asked *asked,
                        struct fg_ring_follow_effects *effects)
{
    const struct fg_ring_follow_event event = {
        .kind = asked->wanted > 0 ? FG_RING_FOLLOW_WANTED : FG_RING_FOLLOW_TICK,
        .mono_ns = now(watch),
        .revision = asked->wanted,
    };

    (void)pthread_mutex_lock(&watch->lock);
    fg_ring_follow_step(&watch->follow, &event, effects);
    (void)pthread_mutex_unlock(&watch->lock);
}

static void *run(void *arg)
{
    struct fg_ring_watch *watch = arg;
    struct fg_ring_follow_effects effects = {0};
    struct ring_asked asked = {0};

    (void)pthread_setname_np(pthread_self(), "ring");
    do {
        bool begun = effects.read; /* at the end of the last one, for those who waited */
        int64_t wake_mono_ns;

        if (watch->config.member != NULL)
            tell_member(watch, &asked);
        tell_widen(watch, &asked);
        follow_step(watch, &asked, &effects);
        effects.read |= begun;
        if (effects.read)
            read_once(watch, &effects);
        wake_mono_ns = FG_MIN(effects.wake_mono_ns, watch->member_wake_mono_ns);
        wake_mono_ns = effects.read ? 0 : FG_MIN(wake_mono_ns, watch->widen_wake_mono_ns);
        asked = wait_for_more(watch, wake_mono_ns);
    } while (!asked.stop);
    return NULL;
}

/* ---- what never waits ---- */

struct fg_ring_view *fg_ring_watch_get(struct fg_ring_watch *watch)
{
    struct fg_ring_view *view;

    (void)pthread_mutex_lock(&watch->lock);
    view = fg_ring_view_ref(watch->view);
    (void)pthread_mutex_unlock(&watch->lock);
    return view;
}

uint64_t fg_ring_watch_revision(const struct fg_ring_watch *watch)
{
    return atomic_load(&watch->revision);
}

enum fg_ring_member_state fg_ring_watch_member_state(const struct fg_ring_watch *watch)
{
    return (enum fg_ring_member_state)atomic_load(&watch->member_state);
}

enum fg_ring_admission fg_ring_watch_admits(const struct fg_ring_watch *watch, uint64_t revision)
{
    enum fg_ring_member_state state = fg_ring_watch_member_state(watch);
    uint64_t known = fg_ring_watch_revision(watch);

    if (state != FG_RING_MEMBER_ACTIVE && state != FG_RING_MEMBER_LEAVING)
        return FG_RING_ADMITS_NOTHING;
    if (revision == known)
        return FG_RING_ADMITS;
    return revision < known ? FG_RING_ADMITS_NOT_OLDER : FG_RING_ADMITS_NOT_YET;
}

void fg_ring_watch_look(struct fg_ring_watch *watch, uint64_t revision)
{
    (void)pthread_mutex_lock(&watch->lock);
    if (revision == 0) {
        (void)ask(watch);
    } else {
        watch->wanted = FG_MAX(watch->wanted, revision);
        (void)pthread_cond_signal(&watch->wake);
    }
    (void)pthread_mutex_unlock(&watch->lock);
}

void fg_ring_watch_widen(struct fg_ring_watch *watch, struct fg_slice tenant, unsigned shard_factor)
{
    fg_assert(fg_ring_tenant_fault(tenant) == NULL);
    (void)pthread_mutex_lock(&watch->lock);
    if (!watch->widening) {
        watch->widening = watch->wishes = true;
        memcpy(watch->wish.tenant, tenant.ptr, tenant.len);
        watch->wish.tenant_len = tenant.len;
        watch->wish.shard_factor = shard_factor;
        (void)pthread_cond_signal(&watch->wake);
    }
    (void)pthread_mutex_unlock(&watch->lock);
}

void fg_ring_watch_drained(struct fg_ring_watch *watch, uint64_t revision, uint64_t generation)
{
    (void)pthread_mutex_lock(&watch->lock);
    watch->drained = FG_MAX(watch->drained, revision);
    watch->generation = FG_MAX(watch->generation, generation);
    (void)pthread_cond_signal(&watch->wake);
    (void)pthread_mutex_unlock(&watch->lock);
}

void fg_ring_watch_leave(struct fg_ring_watch *watch)
{
    (void)pthread_mutex_lock(&watch->lock);
    watch->leave = true;
    (void)pthread_cond_signal(&watch->wake);
    (void)pthread_mutex_unlock(&watch->lock);
}

/* ---- what waits ---- */

/* Under the lock: until something has moved. FG_E_CANCELED, FG_E_DEADLINE. */
static enum fg_code wait_for_move(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                  struct fg_err *err)
{
    const struct timespec until = timespec_of(deadline_mono_ns);

    if (watch->stop)
        return fg_fail(err, FG_E_CANCELED, "the ring watch has stopped");
    if (pthread_cond_timedwait(&watch->moved, &watch->lock, &until) == 0)
        return FG_OK;
    return fg_fail(err, FG_E_DEADLINE, "the ring was not read in time%s%s",
                   watch->err.code == FG_OK ? "" : ": ", watch->err.msg);
}

enum fg_code fg_ring_watch_until(struct fg_ring_watch *watch, uint64_t revision,
                                 int64_t deadline_mono_ns, struct fg_ring_view **ret_view,
                                 struct fg_err *err)
{
    enum fg_code code = FG_OK;

    (void)pthread_mutex_lock(&watch->lock);
    while (code == FG_OK &&
           (watch->view == NULL || fg_ring_newest(&watch->view->ring) < revision)) {
        watch->wanted = FG_MAX(watch->wanted, revision);
        (void)pthread_cond_signal(&watch->wake);
        code = wait_for_move(watch, deadline_mono_ns, err);
    }
    if (code == FG_OK)
        *ret_view = fg_ring_view_ref(watch->view);
    (void)pthread_mutex_unlock(&watch->lock);
    return code;
}

/* Under the lock: until a read that began after this call has ended. */
static enum fg_code read_anew(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                              struct fg_err *err)
{
    uint64_t ticket = ask(watch);
    enum fg_code code = FG_OK;

    while (code == FG_OK && watch->follow.ended_well < ticket) {
        if (watch->follow.ended >= ticket) {
            *err = watch->err;
            code = err->code;
        } else {
            code = wait_for_move(watch, deadline_mono_ns, err);
        }
    }
    return code;
}

enum fg_code fg_ring_watch_fresh(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                 struct fg_ring_view **ret_view, struct fg_err *err)
{
    enum fg_code code;

    (void)pthread_mutex_lock(&watch->lock);
    code = read_anew(watch, deadline_mono_ns, err);
    if (code == FG_OK)
        *ret_view = fg_ring_view_ref(watch->view);
    (void)pthread_mutex_unlock(&watch->lock);
    return code;
}

enum fg_code fg_ring_watch_latest(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                  struct fg_ring_view **ret_view, int64_t *ret_age_ns,
                                  struct fg_err *ret_why)
{
    enum fg_code code;

    *ret_age_ns = 0;
    (void)pthread_mutex_lock(&watch->lock);
    if (watch->view != NULL && watch->follow.failures > 0) {
        (void)ask(watch);
        *ret_why = watch->err;
        code = ret_why->code;
    } else {
        code = read_anew(watch, deadline_mono_ns, ret_why);
    }
    if (code != FG_OK && code != FG_E_CANCELED && watch->view != NULL) {
        *ret_age_ns = FG_MAX(now(watch) - watch->read_mono_ns, 1);
        code = FG_OK;
    }
    if (code == FG_OK)
        *ret_view = fg_ring_view_ref(watch->view);
    (void)pthread_mutex_unlock(&watch->lock);
    return code;
}

static bool is_last(enum fg_ring_member_state state)
{
    return state == FG_RING_MEMBER_LEFT || state == FG_RING_MEMBER_REPLACED;
}

enum fg_code fg_ring_watch_wait_member(struct fg_ring_watch *watch, enum fg_ring_member_state state,
                                       int64_t deadline_mono_ns, struct fg_err *err)
{
    enum fg_code code = FG_OK;

    (void)pthread_mutex_lock(&watch->lock);
    while (code == FG_OK && fg_ring_watch_member_state(watch) != state) {
        if (is_last(fg_ring_watch_member_state(watch)))
            code = fg_fail(err, FG_E_PRECONDITION, "the ring membership is permanently %s",
                           fg_ring_member_state_name(fg_ring_watch_member_state(watch)));
        else
            code = wait_for_move(watch, deadline_mono_ns, err);
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return code;
}

/* ---- life ---- */

static void count_members(const struct fg_ring *ring, int64_t counts[3])
{
    for (uint32_t i = 0; i < ring->n_members; i++)
        counts[fg_ring_state(ring, i)]++;
}

static void on_scrape(void *arg)
{
    struct fg_ring_watch *watch = arg;
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(watch);
    int64_t counts[3] = {0}, read_mono_ns;

    fg_metric_set(watch->metrics, WATCH_MEMBER, fg_ring_watch_member_state(watch));
    if (view == NULL)
        return;
    (void)pthread_mutex_lock(&watch->lock);
    read_mono_ns = watch->read_mono_ns;
    (void)pthread_mutex_unlock(&watch->lock);
    count_members(&view->ring, counts);
    fg_metric_set(watch->metrics, WATCH_REVISION, (int64_t)fg_ring_newest(&view->ring));
    fg_metric_set(watch->metrics, WATCH_ACTIVE, counts[FG_RING_ACTIVE]);
    fg_metric_set(watch->metrics, WATCH_LEAVING, counts[FG_RING_LEAVING]);
    fg_metric_set(watch->metrics, WATCH_GONE, counts[FG_RING_GONE]);
    fg_metric_set(watch->metrics, WATCH_UNDRAINED,
                  view->ring.n_revisions == 0 ? 0 : view->ring.n_revisions - 1);
    fg_metric_set(watch->metrics, WATCH_AGE, now(watch) - read_mono_ns);
}

static enum fg_code member_fault(const char *what, const char *fault, struct fg_err *err)
{
    return fault == NULL ? FG_OK : fg_fail(err, FG_E_INVALID, "ring: %s %s", what, fault);
}

static enum fg_code check_member(const struct fg_ring_watch_member *member, struct fg_err *err)
{
    if (member_fault("the name", fg_member_name_fault(fg_cstr(member->name)), err) != FG_OK ||
        member_fault("the zone", fg_member_zone_fault(fg_cstr(member->zone)), err) != FG_OK ||
        member_fault("the address", fg_ring_address_fault(fg_cstr(member->address), false), err) !=
            FG_OK ||
        member_fault("the address of HTTP", fg_ring_address_fault(fg_cstr(member->http), true),
                     err) != FG_OK)
        return err->code;
    if (member->replicas == 0 || member->replicas > FG_RING_REPLICAS_MAX)
        return fg_fail(err, FG_E_INVALID, "ring: %u replicas; there can be 1 to %d",
                       member->replicas, FG_RING_REPLICAS_MAX);
    return FG_OK;
}

static void init_member(struct fg_ring_watch *watch, uint64_t seed)
{
    const struct fg_ring_watch_member *member = watch->config.member;

    watch->member_config = *member;
    watch->config.member = &watch->member_config;
    fg_ring_member_init(&watch->member, &(struct fg_ring_member_config){
                                            .name = fg_cstr(member->name),
                                            .zone = fg_cstr(member->zone),
                                            .address = fg_cstr(member->address),
                                            .http = fg_cstr(member->http),
                                            .store = member->store,
                                            .replicas = member->replicas,
                                            .backoff_min_ns = BACKOFF_MIN_NS,
                                            .backoff_max_ns = BACKOFF_MAX_NS,
                                            .seed = seed,
                                        });
    atomic_store(&watch->member_state, watch->member.state);
}

static void init_threads(struct fg_ring_watch *watch)
{
    pthread_condattr_t monotonic;

    (void)pthread_mutex_init(&watch->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&watch->wake, &monotonic);
    (void)pthread_cond_init(&watch->moved, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

enum fg_code fg_ring_watch_create(const struct fg_ring_watch_config *config,
                                  struct fg_ring_watch **ret_watch, struct fg_err *err)
{
    struct fg_ring_watch *watch;
    uint64_t seeds[3];

    if (config->member != NULL && check_member(config->member, err) != FG_OK)
        return err->code;
    if (getrandom(seeds, sizeof seeds, 0) != sizeof seeds)
        return fg_fail(err, FG_E_UNAVAILABLE, "no random numbers");
    watch = fg_new(struct fg_ring_watch);
    watch->config = *config;
    watch->member_wake_mono_ns = watch->widen_wake_mono_ns = INT64_MAX;
    watch->object = (struct fg_ring_object){
        .bucket = config->bucket,
        .wave = fg_bucket_wave_create(),
        .clock = config->clock,
        .timeout_ns = REQUEST_TIMEOUT_NS,
    };
    fg_ring_follow_init(&watch->follow, &(struct fg_ring_follow_config){
                                            .poll_ns = config->poll_ns,
                                            .backoff_min_ns = BACKOFF_MIN_NS,
                                            .backoff_max_ns = BACKOFF_MAX_NS,
                                            .seed = seeds[0],
                                        });
    fg_ring_widen_init(&watch->widen, &(struct fg_ring_widen_config){
                                          .backoff_min_ns = BACKOFF_MIN_NS,
                                          .backoff_max_ns = BACKOFF_MAX_NS,
                                          .denied_ns = DENIED_NS,
                                          .seed = seeds[2],
                                          .lead_ns = WIDEN_LEAD_NS,
                                      });
    if (config->member != NULL)
        init_member(watch, seeds[1]);
    init_threads(watch);
    watch->lost = fg_condition_create(config->conditions, "ring_lost");
    watch->unread = fg_condition_create(config->conditions, "ring_unread");
    watch->metrics = fg_metrics_register(config->registry, watch_metrics, FG_COUNT(watch_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, watch);
    *ret_watch = watch;
    return FG_OK;
}

enum fg_code fg_ring_watch_start(struct fg_ring_watch *watch, struct fg_err *err)
{
    int failed = pthread_create(&watch->thread, NULL, run, watch);

    if (failed != 0)
        return fg_fail_errno(err, failed, "thread of the ring");
    watch->started = true;
    return FG_OK;
}

void fg_ring_watch_stop(struct fg_ring_watch *watch)
{
    if (watch == NULL || !watch->started)
        return;
    (void)pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    (void)pthread_cond_signal(&watch->wake);
    (void)pthread_cond_broadcast(&watch->moved);
    (void)pthread_mutex_unlock(&watch->lock);
    fg_bucket_wave_cancel(watch->object.wave);
    (void)pthread_join(watch->thread, NULL);
    watch->started = false;
}

void fg_ring_watch_destroy(struct fg_ring_watch *watch)
{
    if (watch == NULL)
        return;
    fg_ring_watch_stop(watch);
    fg_bucket_wave_destroy(watch->object.wave);
    fg_condition_destroy(watch->lost);
    fg_condition_destroy(watch->unread);
    fg_ring_view_unref(watch->view);
    fg_ring_view_unref(watch->copy);
    (void)pthread_cond_destroy(&watch->wake);
    (void)pthread_cond_destroy(&watch->moved);
    (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
}
