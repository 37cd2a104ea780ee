#include "common/program/presence.h"

#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

enum {
    STEPS_BETWEEN_REMOVALS = 12, /* an hour */
    REMOVED_MAX = 100,           /* objects in one step */
    LIST_ARENA_BYTES = 4 * 1024 * 1024,
};

static const int64_t WRITE_NS = 5 * FG_MINUTE_NS;
static const int64_t GONE_MS = 15 * FG_MINUTE_NS / FG_MS_NS; /* two writes may fail */
static const int64_t REMOVE_MS = 24 * (FG_HOUR_NS / FG_MS_NS);
static const int64_t REQUEST_TIMEOUT_NS = 20 * FG_SECOND_NS;
static const int64_t LEAVE_TIMEOUT_NS = 2 * FG_SECOND_NS; /* the process wants to end */

struct fg_presence {
    struct fg_bucket *bucket;
    struct fg_clock *clock;
    struct fg_presence_name name;
    char object[FG_NAME_PRESENCE_MAX_BYTES];
    struct fg_buf content;
    struct fg_bucket_stop *stop;
    struct fg_ticker *ticker; /* NULL: not started, or stopped */

    /* The ticker's own. */
    unsigned steps;
    bool failed; /* the last step, and the log has said so */
};

/* ---- the list ---- */

struct presence_listing {
    struct fg_present *present;
    uint32_t n;
};

static bool take_entry(const struct fg_bucket_entry *entry, void *arg)
{
    struct presence_listing *listing = arg;
    struct fg_present *present = &listing->present[listing->n];

    if (!fg_name_parse_presence(fg_cstr(entry->name), &present->name))
        return true; /* of a newer version */
    present->seen_ms = entry->modified_wall_ns / FG_MS_NS;
    return ++listing->n < FG_PRESENCE_LIST_MAX;
}

static enum fg_code list_all(struct fg_bucket *bucket, const char *prefix, int64_t deadline_mono_ns,
                             struct fg_bucket_stop *stop, struct fg_arena *arena,
                             struct presence_listing *ret_listing, struct fg_err *err)
{
    struct presence_listing listing = {
        .present = fg_arena_new(arena, struct fg_present, FG_PRESENCE_LIST_MAX)};

    if (listing.present == NULL)
        return fg_fail(err, FG_E_LIMIT, "the list of processes does not fit into memory");
    if (fg_bucket_each_until(bucket, prefix, false, deadline_mono_ns, stop, take_entry, &listing,
                             err) != FG_OK)
        return fg_wrap(err, "list of processes");
    *ret_listing = listing;
    return FG_OK;
}

static int64_t newest_ms(const struct presence_listing *listing)
{
    int64_t newest = INT64_MIN;

    for (uint32_t i = 0; i < listing->n; i++)
        newest = FG_MAX(newest, listing->present[i].seen_ms);
    return newest;
}

static bool is_same_process(const struct fg_present *a, const struct fg_present *b)
{
    return strcmp(a->name.role, b->name.role) == 0 && strcmp(a->name.name, b->name.name) == 0;
}

/* Names are listed in byte order, so the starts of a process are neighbours. */
enum fg_code fg_presence_list(struct fg_bucket *bucket, int64_t deadline_mono_ns,
                              struct fg_arena *arena, struct fg_present **ret_present,
                              uint32_t *ret_count, struct fg_err *err)
{
    struct presence_listing listing = {.n = 0};
    int64_t newest;
    uint32_t n = 0;

    if (list_all(bucket, FG_NAME_MEMBERS, deadline_mono_ns, NULL, arena, &listing, err) != FG_OK)
        return err->code;
    newest = newest_ms(&listing);
    for (uint32_t i = 0; i < listing.n; i++) {
        const struct fg_present present = listing.present[i];

        if (newest - present.seen_ms > GONE_MS)
            continue;
        if (n == 0 || !is_same_process(&listing.present[n - 1], &present))
            listing.present[n++] = present;
        else if (present.name.started_ms > listing.present[n - 1].name.started_ms)
            listing.present[n - 1] = present;
    }
    *ret_present = listing.present;
    *ret_count = n;
    return FG_OK;
}

static enum fg_code read_object(struct fg_bucket *bucket, const char *object,
                                int64_t deadline_mono_ns, struct fg_buf *out, struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = object,
                                    .content_max_bytes = FG_PRESENCE_CONTENT_MAX_BYTES,
                                    .deadline_mono_ns = deadline_mono_ns};
    enum fg_code code = fg_bucket_call(bucket, &get);

    if (code == FG_OK)
        fg_buf_put(out, fg_buf_slice(&get.body));
    else
        *err = get.err;
    fg_bucket_clear(&get);
    return code;
}

/* Of all, and not of this name alone: only the others' times say what is too old. */
enum fg_code fg_presence_read(struct fg_bucket *bucket, struct fg_slice role, struct fg_slice name,
                              int64_t deadline_mono_ns, struct fg_buf *out, struct fg_err *err)
{
    char object[FG_NAME_PRESENCE_MAX_BYTES];
    fg_auto(fg_arena) *arena = fg_arena_create(LIST_ARENA_BYTES);
    struct fg_present *present = NULL;
    uint32_t n = 0;

    if (fg_name_presence_all(object, role, &name, err) != FG_OK ||
        fg_presence_list(bucket, deadline_mono_ns, arena, &present, &n, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < n; i++)
        if (fg_slice_is(role, present[i].name.role) && fg_slice_is(name, present[i].name.name))
            return fg_name_presence(object, &present[i].name, err) != FG_OK
                       ? err->code
                       : read_object(bucket, object, deadline_mono_ns, out, err);
    return fg_fail(err, FG_E_NOT_FOUND,
                   "no %.*s called %.*s has been seen for a quarter of an hour", FG_S(role),
                   FG_S(name));
}

/* ---- the object ---- */

static enum fg_code send_request(struct fg_presence *presence, enum fg_bucket_verb verb,
                                 const char *object, int64_t timeout_ns,
                                 struct fg_bucket_stop *stop, struct fg_err *err)
{
    struct fg_bucket_request request = {
        .verb = verb,
        .name = object,
        .content =
            verb == FG_BUCKET_PUT ? fg_buf_slice(&presence->content) : (struct fg_slice){.len = 0},
        .deadline_mono_ns = fg_mono_ns(presence->clock) + timeout_ns};
    enum fg_code code = fg_bucket_call_until(presence->bucket, &request, stop);

    if (code != FG_OK)
        *err = request.err;
    fg_bucket_clear(&request);
    return code;
}

/* What processes left behind that did not end in order. */
static enum fg_code remove_old(struct fg_presence *presence, struct fg_err *err)
{
    char object[FG_NAME_PRESENCE_MAX_BYTES];
    fg_auto(fg_arena) *arena = fg_arena_create(LIST_ARENA_BYTES);
    unsigned removed = 0;
    struct presence_listing listing = {.n = 0};
    int64_t newest;

    if (fg_name_presence_all(object, fg_cstr(presence->name.role), NULL, err) != FG_OK ||
        list_all(presence->bucket, object, fg_mono_ns(presence->clock) + REQUEST_TIMEOUT_NS,
                 presence->stop, arena, &listing, err) != FG_OK)
        return err->code;
    newest = newest_ms(&listing);
    for (uint32_t i = 0; i < listing.n && removed < REMOVED_MAX; i++) {
        if (newest - listing.present[i].seen_ms <= REMOVE_MS)
            continue;
        if (fg_name_presence(object, &listing.present[i].name, err) != FG_OK ||
            send_request(presence, FG_BUCKET_DELETE, object, REQUEST_TIMEOUT_NS, presence->stop,
                         err) != FG_OK)
            return err->code;
        removed++;
    }
    return FG_OK;
}

enum fg_code fg_presence_step(struct fg_presence *presence, struct fg_err *err)
{
    if (send_request(presence, FG_BUCKET_PUT, presence->object, REQUEST_TIMEOUT_NS, presence->stop,
                     err) != FG_OK)
        return err->code;
    return presence->steps++ % STEPS_BETWEEN_REMOVALS == 0 ? remove_old(presence, err) : FG_OK;
}

static void tick(void *arg)
{
    struct fg_presence *presence = arg;
    struct fg_err err;
    bool failed = fg_presence_step(presence, &err) != FG_OK && err.code != FG_E_CANCELED;

    if (failed && !presence->failed)
        fg_log_warn("presence not written, the status page does not show this process or shows old "
                    "ones, will retry",
                    fg_ls("err", err.msg));
    presence->failed = failed;
}

/* ---- beginning and end ---- */

enum fg_code fg_presence_create(struct fg_bucket *bucket, struct fg_clock *clock,
                                const struct fg_presence_name *name, struct fg_slice content,
                                struct fg_presence **ret_presence, struct fg_err *err)
{
    char object[FG_NAME_PRESENCE_MAX_BYTES];
    struct fg_presence *presence;

    if (fg_name_presence(object, name, err) != FG_OK)
        return err->code;
    presence = fg_new(struct fg_presence);
    presence->bucket = bucket;
    presence->clock = clock;
    presence->name = *name;
    memcpy(presence->object, object, sizeof object);
    fg_buf_init(&presence->content, FG_PRESENCE_CONTENT_MAX_BYTES);
    fg_buf_put(&presence->content, content);
    presence->stop = fg_bucket_stop_create();
    *ret_presence = presence;
    return FG_OK;
}

enum fg_code fg_presence_start(struct fg_presence *presence, struct fg_err *err)
{
    const struct fg_ticker_config ticker = {
        .name = "presence", .period_ns = WRITE_NS, .tick = tick, .arg = presence};

    if (fg_ticker_create(&ticker, &presence->ticker, err) != FG_OK)
        return err->code;
    fg_ticker_wake(presence->ticker);
    return FG_OK;
}

void fg_presence_stop(struct fg_presence *presence)
{
    struct fg_err err;

    if (presence == NULL || presence->ticker == NULL)
        return;
    fg_bucket_stop_all(presence->stop);
    /* First the ticker, which must not write the object again. */
    fg_ticker_destroy(fg_take(presence->ticker));
    if (send_request(presence, FG_BUCKET_DELETE, presence->object, LEAVE_TIMEOUT_NS, NULL, &err) !=
        FG_OK)
        fg_log_info("presence not removed, the status page shows this process until it expires",
                    fg_ls("err", err.msg));
}

void fg_presence_destroy(struct fg_presence *presence)
{
    if (presence == NULL)
        return;
    fg_assert(presence->ticker == NULL);
    fg_bucket_stop_destroy(presence->stop);
    fg_buf_done(&presence->content);
    free(presence);
}
