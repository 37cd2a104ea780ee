/*
 * An upload brings batches: mostly one, one for each kind of event (JFR), for each series (Push),
 * for each service (OTLP), or for each shard of a service.
 *
 *   loop            worker                      ingesters        loop
 *   READ   ----->   DECODE -+--- batch -------->  durable  ---->  COLLECT ----> ANSWER
 *                    ^      '--- batch -------->  durable  ---->    |  |
 *                    |                                              |  |
 *                    +--- definitions lack -------------------------'  |
 *                   AGAIN: the same bytes  <------ PAUSE --------------'
 *                                      the ring has changed, or too few can be reached
 *
 * Nothing of the decoded form outlives the worker: what is kept while the ingesters work is the
 * request itself, whose bytes are counted already, and the encoded batches. So an upload whose
 * definitions were lacking is decoded once more, which happens when a service is new to an
 * ingester and hardly ever after. Pauses are the loop's, so that no worker waits.
 */
#include "distributor/upload.h"

#include "common/access/access.h"
#include "common/base/radix.h"
#include "common/base/time.h"
#include "common/cluster/ring/shard.h"
#include "common/runtime/foreground.h"
#include "common/runtime/log.h"
#include "distributor/upload_impl.h"

enum {
    UPLOAD_MAGIC = 0x75706c64, /* "upld" */
    ATTEMPTS_MAX = 4,  /* with an ingester that lacks definitions; the second sends all of them */
    ITEMS_MAX = 16384, /* batches of one upload; the profiler of a node sends a few hundred */
    FORWARDS_QUEUED_MAX =
        16,           /* as many as four servers with four connections each have in flight */
    LANE_COST_NS = 2, /* of a byte: a job's own cost, FLOW_JOB_COST, is about 0.1 ms */
};

/* Pauses before another round; DRAWN: plus up to so much, so that uploads do not retry together. */
static const int64_t RING_PAUSE_NS = 10 * FG_MS_NS;  /* the first ring is being read */
static const int64_t STALE_PAUSE_NS = 10 * FG_MS_NS; /* the ring is being read meanwhile */
static const int64_t EARLY_PAUSE_NS = 10 * FG_MS_NS, EARLY_DRAWN_NS = 90 * FG_MS_NS;
static const int64_t UNRESPONSIVE_PAUSE_NS = 100 * FG_MS_NS, UNRESPONSIVE_DRAWN_NS = 400 * FG_MS_NS;

static const int64_t EXPIRED_LOG_NS = FG_MINUTE_NS; /* between two lines */

struct dist_upload_item {
    struct dist_delivery *delivery;
    struct dist_encoded_batch *encoded;  /* as it was sent last */
    struct dist_upload_account *account; /* of the tenant of its profiles */
    uint64_t raw_bytes;                  /* of its profiles */
    uint32_t tag;                        /* of the upload when it was added */
    bool incomplete;                     /* its batch has undefined stacks */
    bool done;                           /* no round follows */
};

/* ---- items ---- */

static void item_end(struct dist_upload_item *item)
{
    /* Sends in flight go on without the upload, as stragglers; they hold the encoded batch by
     * themselves. */
    dist_delivery_leave(fg_take(item->delivery));
    dist_encoded_batch_unref(fg_take(item->encoded));
    item->done = true;
}

/* ---- the end (loop) ---- */

static void count_refusal(struct distributor *distributor, enum fg_code code)
{
    unsigned metric = DIST_REFUSED_INVALID;

    /* A refusal that passes by itself is counted apart from faults of clients and of the cluster:
     * operators act on the latter two. */
    if (code == FG_E_LIMIT)
        metric = DIST_REFUSED_BUSY;
    else if (fg_code_http(code) >= 500)
        metric = DIST_REFUSED_OTHER;
    fg_metric_add(distributor->metrics, metric, 1);
}

/* Expired profiles are stored and deleted by the next compaction; a header tells the sender. */
static void tell_expired(const struct dist_upload *upload)
{
    struct distributor *distributor = upload->distributor;
    int64_t now_ns = fg_mono_ns(distributor->clock);
    int64_t told_ns = atomic_load(&distributor->expired_mono_ns);
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)upload->counts.expired);
    if (upload->req != NULL)
        fg_http_add_header(upload->req, "X-Flamegrid-Expired", text);
    if ((told_ns == 0 || now_ns - told_ns >= EXPIRED_LOG_NS) &&
        atomic_compare_exchange_strong(&distributor->expired_mono_ns, &told_ns, now_ns))
        fg_log_warn("stored profiles are older than limits.retention_period and will be deleted",
                    fg_lb("tenant", upload->tenant), fg_lb("sender", upload->sender),
                    fg_lu("profiles", upload->counts.expired));
}

/* Threads of a low priority let it pass (foreground.h) while it is on its loop or worker: not while
 * it waits for ingesters, nor in a pause. */
static bool is_foreground(const struct dist_upload *upload)
{
    return !upload->forwards;
}

static void answer(struct dist_upload *upload)
{
    struct distributor *distributor = upload->distributor;
    char lost[24]; /* digits of a 64-bit number */

    dist_upload_count_stored(upload);
    if (upload->req != NULL)
        dist_upload_tell_limits(upload);
    if (upload->err.code == FG_OK && upload->counts.expired > 0)
        tell_expired(upload);
    /* The rest of their profiles is stored; a header shows the agent's fault. */
    if (upload->err.code == FG_OK && upload->counts.decode.samples_dangling > 0 &&
        upload->req != NULL) {
        (void)snprintf(lost, sizeof lost, "%llu",
                       (unsigned long long)upload->counts.decode.samples_dangling);
        fg_http_add_header(upload->req, "X-Flamegrid-Samples-Lost", lost);
    }
    fg_ring_view_unref(upload->ring);
    /* OTLP says in an answer without an error which part was refused. */
    if (upload->err.code != FG_OK)
        count_refusal(distributor, upload->err.code);
    else if (upload->splits && dist_upload_refusing_account(upload) != NULL)
        count_refusal(distributor, FG_E_LIMIT);
    dist_upload_close_accounts(upload);
    for (uint32_t i = 0; i < upload->n_items; i++) {
        item_end(upload->items[i]);
        free(upload->items[i]);
    }
    free(upload->items);
    free(upload->ids);
    fg_map_done(&upload->id_map);
    /* respond() frees the upload. A message that came later would find the magic gone. */
    upload->magic = 0;
    upload->interface->respond(upload);
}

static void keep_error(struct dist_upload *upload, const struct fg_err *err)
{
    upload->failed++;
    /* The client gets the first error. Uploads have one status, although some of their batches may
     * be stored: a client that retries is safe, because profiles have ids. */
    if (upload->err.code == FG_OK)
        upload->err = *err;
}

static void settle(struct dist_upload *upload, const struct dist_upload_item *item,
                   const struct dist_delivery_result *result)
{
    if (upload->interface->settled != NULL)
        upload->interface->settled(upload, item->tag, result);
}

static void item_refused(struct dist_upload *upload, struct dist_upload_item *item, unsigned metric,
                         const struct dist_delivery_result *result)
{
    fg_metric_add(upload->distributor->metrics, metric, 1);
    keep_error(upload, &result->err);
    settle(upload, item, result);
    item_end(item);
}

static void item_fail(struct dist_upload *upload, struct dist_upload_item *item, unsigned metric,
                      const struct fg_err *err)
{
    item_refused(upload, item, metric,
                 &(struct dist_delivery_result){.state = DELIVERY_REFUSED, .err = *err});
}

static void item_stored(struct dist_upload *upload, struct dist_upload_item *item,
                        const struct dist_delivery_result *result)
{
    struct fg_metrics *metrics = upload->distributor->metrics;

    fg_metric_add(metrics, DIST_ACKNOWLEDGED, 1);
    fg_metric_add(metrics, DIST_PROFILES, result->stored + result->duplicates);
    fg_metric_add(metrics, DIST_DUPLICATES, result->duplicates);
    if (result->stored > 0)
        item->account->stored_bytes +=
            item->raw_bytes * result->stored / (result->stored + result->duplicates);
    settle(upload, item, result);
    item_end(item);
}

static void item_lacks(struct dist_upload *upload, struct dist_upload_item *item,
                       const struct dist_delivery_result *result)
{
    fg_metric_add(upload->distributor->metrics, DIST_REDEFINED, 1);
    if (item->incomplete) {
        /* Only the sender can define them. What an owner has stored meanwhile does not count for
         * ingestion_limit: it may count as stored once more when the batch comes again, and a
         * tenant may get a little more than its limit, but never less. */
        settle(upload, item, result);
        item_end(item);
        return;
    }
    /* Decode again: the encoded batch has no definitions. Bounded, because an ingester whose
     * dictionary always lacks some would make an endless loop. */
    if (upload->attempt < ATTEMPTS_MAX)
        upload->lacks = true;
    else
        item_fail(upload, item, DIST_REFUSED, &result->err);
}

/* ---- rounds (loop) ---- */

static int64_t drawn_ns(const struct dist_upload *upload, int64_t least_ns, int64_t more_ns)
{
    /* Not secret, only different for each upload. */
    uint64_t number = (uint64_t)fg_mono_ns(fg_clock_real()) ^ (uint64_t)(uintptr_t)upload;

    return least_ns + (int64_t)(fg_mix64(number) % (uint64_t)more_ns);
}

static int64_t deadline_of(const struct dist_upload *upload)
{
    return upload->begun_mono_ns + upload->distributor->settings->push_timeout_ns;
}

/* Schedules another round after a pause, or fails the item if the time is over. */
static void pause_for(struct dist_upload *upload, struct dist_upload_item *item,
                      const struct dist_delivery_result *result, int64_t *pause_ns)
{
    const struct distributor *distributor = upload->distributor;
    int64_t until_ns = deadline_of(upload), wish_ns;
    unsigned metric;

    /* Stale and early rounds end with the ring's change, so they may take all of push_timeout;
     * peers that are away get push_retry only, so that agents learn of it in time. */
    if (result->state == DELIVERY_STALE) {
        wish_ns = STALE_PAUSE_NS;
        metric = DIST_RETRIED_STALE;
        upload->awaited = FG_MAX(upload->awaited, result->revision);
    } else if (result->state == DELIVERY_EARLY) {
        wish_ns = drawn_ns(upload, EARLY_PAUSE_NS, EARLY_DRAWN_NS);
        metric = DIST_RETRIED_EARLY;
    } else {
        wish_ns = drawn_ns(upload, UNRESPONSIVE_PAUSE_NS, UNRESPONSIVE_DRAWN_NS);
        metric = DIST_RETRIED_UNRESPONSIVE;
        until_ns = FG_MIN(until_ns, upload->begun_mono_ns + distributor->settings->push_retry_ns);
    }
    /* Answer now if no round could follow the pause, instead of letting the client wait for
     * nothing. */
    if (fg_mono_ns(distributor->clock) + wish_ns >= until_ns) {
        item_fail(upload, item, DIST_QUORUM_MISSED, &result->err);
        return;
    }
    fg_metric_add(distributor->metrics, metric, 1);
    /* One pause for all batches: the longest that any of them wants. */
    *pause_ns = FG_MAX(*pause_ns, wish_ns);
}

static void take_over(struct dist_upload *upload, struct dist_upload_item *item, int64_t *pause_ns)
{
    struct dist_delivery_result result;

    dist_delivery_result(item->delivery, &result);
    /* After every round: a later one no longer knows the owners under an older revision, nor what
     * became of a send before the last. */
    upload->maybe_stored |= result.maybe_stored;
    switch (result.state) {
    case DELIVERY_STORED:
        item_stored(upload, item, &result);
        return;
    case DELIVERY_REFUSED:
        item->account->use.retry_after_s =
            FG_MAX(item->account->use.retry_after_s, result.retry_after_s);
        item_refused(upload, item, DIST_REFUSED, &result);
        return;
    case DELIVERY_LACKS:
        item_lacks(upload, item, &result);
        return;
    case DELIVERY_STALE:
    case DELIVERY_EARLY:
    case DELIVERY_UNRESPONSIVE:
        pause_for(upload, item, &result, pause_ns);
        return;
    }
}

static void decode(struct dist_upload *upload);
static void send_again(struct dist_upload *upload);

static void go_on(struct dist_upload *upload)
{
    if (upload->lacks)
        decode(upload);
    else
        send_again(upload);
}

static void on_pause_closed(uv_handle_t *handle)
{
    go_on(fg_container(handle, struct dist_upload, pause));
}

static void on_pause_over(uv_timer_t *timer)
{
    struct dist_upload *upload = fg_container(timer, struct dist_upload, pause);
    struct distributor *distributor = upload->distributor;
    bool known = dist_owners_are_loaded(distributor->owners) &&
                 dist_owners_have_revision(distributor->owners, upload->awaited);

    /* At the deadline go on without the ring: the next round fails with the reason. */
    if (!known && fg_mono_ns(distributor->clock) < deadline_of(upload))
        return; /* the timer comes again */
    /* The timer lies in the upload, which the next round may free: go on when libuv has let go of
     * it. */
    uv_close((uv_handle_t *)timer, on_pause_closed);
}

static void start_pause(struct dist_upload *upload, int64_t pause_ns)
{
    uint64_t pause_ms = (uint64_t)(pause_ns / FG_MS_NS);

    fg_assert(uv_timer_init(fg_loop_uv(upload->home), &upload->pause) == 0);
    /* Repeats, to look for the awaited ring again. */
    fg_assert(uv_timer_start(&upload->pause, on_pause_over, pause_ms, pause_ms) == 0);
}

static void on_ended(struct fg_msg *msg)
{
    struct dist_upload *upload = fg_container(msg, struct dist_upload, ended);
    const bool foreground = is_foreground(upload);
    int64_t pause_ns = 0;
    bool is_done = true;

    fg_assert(upload->magic == UPLOAD_MAGIC && atomic_load(&upload->under_way) == 0);
    upload->lacks = false;
    upload->awaited = 0;
    for (uint32_t i = 0; i < upload->n_items; i++) {
        if (!upload->items[i]->done)
            take_over(upload, upload->items[i], &pause_ns);
        is_done = is_done && upload->items[i]->done;
    }
    if (is_done)
        answer(upload);
    else if (pause_ns > 0)
        start_pause(upload, pause_ns);
    else
        go_on(upload);
    if (foreground)
        fg_foreground_end();
}

/* Any thread. Counts one batch or the decoding as finished; the last one passes the upload to its
 * loop. */
static void finish_one(struct dist_upload *upload)
{
    uint32_t before = atomic_fetch_sub(&upload->under_way, 1);

    fg_assert(before > 0);
    if (before != 1)
        return;
    if (is_foreground(upload))
        fg_foreground_begin(); /* until the end of on_ended() */
    upload->ended.run = on_ended;
    fg_loop_post(upload->home, &upload->ended);
}

/* Transport's thread, or the worker. */
static void on_round(void *arg)
{
    finish_one(arg);
}

/* ---- batches (worker) ---- */

static struct fg_slice service_of(const struct fg_profile *profile)
{
    return fg_labels_get(&profile->labels, FG_LABEL_SERVICE);
}

static uint64_t raw_bytes_of(const struct fg_batch *batch)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < batch->n_profiles; i++)
        bytes += batch->profiles[i].size.raw_bytes;
    return bytes;
}

/* A batch of one shard. */
struct upload_part {
    struct fg_batch batch;
    struct fg_slice service;
    uint16_t shard;
};

static enum fg_code encode(const struct dist_upload *upload, const struct upload_part *part,
                           struct dist_upload_item *item, struct fg_err *err)
{
    struct dist_workspace *space = upload->space;
    bool *define = fg_arena_new(space->arena, bool, part->batch.n_stacks);

    if (define == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "upload needs more memory than decoding may use");
    dist_delivery_define(item->delivery, &part->batch, define);
    /* Definitions were lacking twice: send all of them. */
    if (upload->attempt > 2)
        memset(define, true, part->batch.n_stacks);
    item->incomplete = part->batch.n_undefined > 0;
    for (uint32_t i = 0; item->incomplete && i < part->batch.n_stacks; i++)
        define[i] = define[i] && part->batch.stacks[i].depth != FG_STACK_UNDEFINED;
    /* Encoded into the workspace's buffer first, because the size is not known before; the copy
     * that is kept has no slack. */
    fg_buf_clear(&space->wire);
    fg_batch_encode(&part->batch, define, &space->wire);
    item->raw_bytes = raw_bytes_of(&part->batch);
    if (space->wire.full)
        return fg_fail(err, FG_E_TOO_LARGE, "the upload exceeds the message size limit");
    dist_encoded_batch_unref(fg_take(item->encoded));
    item->encoded = dist_encoded_batch_create(upload->tenant, part->service, upload->via,
                                              &part->batch, define, fg_buf_slice(&space->wire));
    return FG_OK;
}

static void send_item(struct dist_upload *upload, struct dist_upload_item *item)
{
    /* push_timeout counts from here: reading and decoding are the upload's own time. */
    if (upload->begun_mono_ns == 0)
        upload->begun_mono_ns = fg_mono_ns(upload->distributor->clock);
    /* Before the send: its round may end, and be counted down, before dist_delivery_send() returns.
     */
    (void)atomic_fetch_add(&upload->under_way, 1);
    dist_delivery_send(item->delivery, item->encoded, deadline_of(upload));
}

static enum fg_code send_part(struct dist_upload *upload, const struct upload_part *part,
                              struct fg_err *err)
{
    uint32_t number = upload->next_item++;
    struct dist_upload_item *item;

    fg_foreground_let_pass();
    if (number >= ITEMS_MAX)
        return fg_fail(err, FG_E_TOO_LARGE, "upload of more than %d series", ITEMS_MAX);
    fg_assert(number <= upload->n_items); /* numbers are given in order */
    if (number == upload->cap_items) {
        upload->cap_items = FG_MAX(4, upload->cap_items * 2);
        upload->items =
            fg_realloc(upload->items, upload->cap_items * sizeof(struct dist_upload_item *));
    }
    if (number == upload->n_items)
        upload->items[upload->n_items++] = fg_new(struct dist_upload_item);
    item = upload->items[number];
    item->tag = upload->tag;
    item->account = upload->payer;
    /* A later attempt passes here with the same batches: this one was stored, or has failed. */
    if (item->done)
        return FG_OK;
    if (item->delivery == NULL)
        item->delivery =
            dist_delivery_create(&upload->distributor->deliveries, part->shard,
                                 fg_definition_cache_service_key(upload->tenant, part->service),
                                 upload->awaits_all, on_round, upload);
    if (dist_delivery_begin(item->delivery, err) != FG_OK) {
        item_fail(upload, item, DIST_QUORUM_MISSED, err);
        return FG_OK; /* it is noted, and the others go on */
    }
    if (encode(upload, part, item, err) != FG_OK) {
        item_fail(upload, item, DIST_REFUSED, err);
        return FG_OK;
    }
    send_item(upload, item);
    return FG_OK;
}

/* Sorts the profiles by their shards. The shard factor is that of the time of the profile: queries
 * look for it in the shards that the ring had for that time. */
static void shard_profiles(const struct dist_upload *upload, const struct fg_batch *batch,
                           struct fg_keyed *by_shard, struct fg_keyed *scratch)
{
    struct fg_slice service = service_of(&batch->profiles[0]);

    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        struct fg_id labels = fg_labels_hash(&batch->profiles[i].labels);
        unsigned shard_factor = fg_ring_shard_factor_at(&upload->ring->ring, upload->tenant,
                                                        batch->profiles[i].time_ns);

        by_shard[i] =
            (struct fg_keyed){fg_shard_of(upload->tenant, service, labels, shard_factor), i};
    }
    fg_radix_sort(by_shard, scratch, batch->n_profiles);
}

/* Sends a batch of one service with a shard factor, divided by shards. */
static enum fg_code send_shards(struct dist_upload *upload, const struct fg_batch *batch,
                                struct fg_err *err)
{
    struct fg_arena *arena = upload->space->arena;
    struct upload_part part = {.batch = *batch, .service = service_of(&batch->profiles[0])};
    uint32_t n = batch->n_profiles, n_before = 0;
    struct fg_keyed *by_shard = fg_arena_new(arena, struct fg_keyed, n);
    struct fg_keyed *scratch = fg_arena_new(arena, struct fg_keyed, n);
    struct fg_profile *profiles = fg_arena_new(arena, struct fg_profile, n);

    if (by_shard == NULL || scratch == NULL || profiles == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "upload needs more memory than decoding may use");
    shard_profiles(upload, batch, by_shard, scratch);
    for (uint32_t i = 0; i < n; i++) {
        profiles[i] = batch->profiles[by_shard[i].index];
        /* A batch ends with the last profile of its shard. */
        if (i + 1 < n && by_shard[i + 1].key == by_shard[i].key)
            continue;
        part.shard = (uint16_t)by_shard[i].key;
        part.batch.profiles = &profiles[n_before];
        part.batch.n_profiles = i + 1 - n_before;
        n_before = i + 1;
        if (send_part(upload, &part, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Sends a batch of one service. */
static enum fg_code send_service(struct dist_upload *upload, const struct fg_batch *batch,
                                 struct fg_err *err)
{
    struct upload_part part = {.batch = *batch, .service = service_of(&batch->profiles[0])};

    /* A tenant without a shard factor, as most are: the service is one shard, and nothing has to be
     * sorted. */
    if (upload->ring != NULL &&
        fg_ring_shard_factor_at(&upload->ring->ring, upload->tenant, INT64_MAX) > 0)
        return send_shards(upload, batch, err);
    part.shard = fg_shard_first(upload->tenant, part.service, 0);
    return send_part(upload, &part, err);
}

static void swap_profiles(struct fg_profile *profiles, uint32_t i, uint32_t j)
{
    struct fg_profile other = profiles[i];

    profiles[i] = profiles[j];
    profiles[j] = other;
}

static enum fg_code send_all(struct dist_upload *upload, const struct fg_batch *batch,
                             struct fg_err *err)
{
    struct fg_batch part = *batch;
    uint32_t left = batch->n_profiles;

    if (upload->ring == NULL && dist_owners_ring(upload->distributor->owners, upload->tenant,
                                                 (unsigned)upload->limits->values.shard_factor,
                                                 &upload->ring, err) != FG_OK)
        return err->code;
    while (left > 0) {
        struct fg_slice service = service_of(&part.profiles[0]);

        /* Moves the profiles of the first one's service to the front. */
        part.n_profiles = 1;
        for (uint32_t i = 1; i < left; i++)
            if (fg_slice_eq(service_of(&part.profiles[i]), service))
                swap_profiles(part.profiles, i, part.n_profiles++);
        if (send_service(upload, &part, err) != FG_OK)
            return err->code;
        left -= part.n_profiles;
        part.profiles += part.n_profiles;
    }
    return FG_OK;
}

/* ---- profiles (worker) ---- */

void dist_upload_measure(struct dist_upload *upload, uint64_t part_bytes, uint64_t whole_bytes,
                         uint64_t raw_bytes)
{
    upload->wire_bytes =
        whole_bytes == 0 ? 0 : fg_usage_share(upload->body.len, 0, part_bytes, whole_bytes);
    upload->raw_bytes = raw_bytes;
}

/* Moves the profiles of one tenant to the front and returns their number. Says in refusal, if it
 * says nothing yet, why profiles stay that belong to no tenant of the token. */
static uint32_t gather_tenant(const struct dist_upload *upload, struct fg_profile *profiles,
                              uint32_t n, struct fg_slice *ret_tenant, struct fg_err *refusal)
{
    const struct fg_grant *grant = fg_access_grant(upload->req);
    uint32_t front = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct fg_slice tenant;
        struct fg_err err;

        if (fg_grant_tenant_of(grant, upload->asked_tenant, &profiles[i].labels, &tenant, &err) !=
            FG_OK) {
            if (refusal->code == FG_OK)
                *refusal = err;
            continue;
        }
        if (front == 0)
            *ret_tenant = tenant;
        if (fg_slice_eq(tenant, *ret_tenant))
            swap_profiles(profiles, i, front++);
    }
    return front;
}

/* Where the ids of profiles come from. */
enum id_source { ID_OF_CONTENT_AND_SENDER, ID_OF_CONTENT, ID_GIVEN };

static void identify(struct dist_upload *upload, struct fg_batch *batch, enum id_source source)
{
    if (source != ID_GIVEN)
        dist_upload_identify(upload, batch, source == ID_OF_CONTENT);
}

/* Sends a batch whose profiles may be of several tenants, tenant by tenant. A node sends what all
 * of its pods do: those that belong to no tenant, or to one that is beyond its limits, do not keep
 * the others from theirs. */
static enum fg_code send_tenants(struct dist_upload *upload, const struct fg_batch *batch,
                                 enum id_source source, struct fg_err *err)
{
    struct fg_err refusal = {.code = FG_OK}, limit;
    struct fg_batch part = *batch;
    uint32_t left = batch->n_profiles;

    while ((part.n_profiles =
                gather_tenant(upload, part.profiles, left, &upload->tenant, &refusal)) > 0) {
        upload->payer = dist_upload_account_of(upload, upload->tenant);
        if (dist_upload_pay(upload, upload->payer, raw_bytes_of(&part), &limit) == FG_OK) {
            identify(upload, &part, source);
            if (send_all(upload, &part, err) != FG_OK)
                return err->code;
        } else if (refusal.code == FG_OK) {
            (void)fg_wrap(&limit, "tenant \"%.*s\"", FG_S(upload->tenant));
            refusal = limit;
        }
        left -= part.n_profiles;
        part.profiles += part.n_profiles;
    }
    if (refusal.code != FG_OK)
        *err = refusal;
    return refusal.code;
}

static enum fg_code send_profiles(struct dist_upload *upload, struct fg_batch *batch,
                                  enum id_source source, struct fg_err *err)
{
    if (upload->splits)
        return send_tenants(upload, batch, source, err);
    identify(upload, batch, source);
    return send_all(upload, batch, err);
}

enum fg_code dist_upload_add(struct dist_upload *upload, struct fg_batch *batch, bool has_time,
                             struct fg_err *err)
{
    upload->n_batches++;
    if (dist_upload_set_sizes(upload, batch, err) != FG_OK ||
        dist_upload_check_times(upload, batch, err) != FG_OK)
        return err->code;
    /* After the check, since an id is made of the repaired time as well. */
    return send_profiles(upload, batch, has_time ? ID_OF_CONTENT : ID_OF_CONTENT_AND_SENDER, err);
}

enum fg_code dist_upload_forward(struct dist_upload *upload, struct fg_batch *batch,
                                 struct fg_err *err)
{
    return batch->n_profiles == 0 ? FG_OK : send_profiles(upload, batch, ID_GIVEN, err);
}

enum fg_code dist_upload_sink(struct fg_batch *batch, void *upload, struct fg_err *err)
{
    enum fg_code code = dist_upload_add(upload, batch, false, err);

    if (code != FG_E_DENIED && code != FG_E_LIMIT)
        return code;
    dist_upload_note(upload, err);
    return FG_OK;
}

enum fg_code dist_upload_admit(struct dist_upload *upload, uint64_t bytes, struct fg_err *err)
{
    return upload->splits ? FG_OK : dist_upload_pay(upload, &upload->account, bytes, err);
}

void dist_upload_note(struct dist_upload *upload, const struct fg_err *err)
{
    if (upload->attempt == 1) /* later attempts find the same faults again */
        keep_error(upload, err);
}

/* ---- decode (worker) ---- */

static void count_cuts(struct distributor *distributor, const struct dist_ingest_counts *counts)
{
    fg_metric_add(distributor->metrics, DIST_INFLATED, counts->inflated_bytes);
    if (counts->decode.stacks_cut > 0)
        fg_metric_add(distributor->metrics, DIST_STACKS_CUT, counts->decode.stacks_cut);
    if (counts->decode.stacks_completed > 0)
        fg_metric_add(distributor->metrics, DIST_STACKS_COMPLETED, counts->decode.stacks_completed);
    if (counts->decode.symbols_cut > 0)
        fg_metric_add(distributor->metrics, DIST_SYMBOLS_CUT, counts->decode.symbols_cut);
    if (counts->decode.samples_dropped > 0)
        fg_metric_add(distributor->metrics, DIST_SAMPLES_DROPPED, counts->decode.samples_dropped);
    if (counts->decode.samples_dangling > 0)
        fg_metric_add(distributor->metrics, DIST_SAMPLES_DANGLING, counts->decode.samples_dangling);
    if (counts->decode.times_repaired > 0)
        fg_metric_add(distributor->metrics, DIST_CLOCKS, counts->decode.times_repaired);
    if (counts->expired > 0)
        fg_metric_add(distributor->metrics, DIST_EXPIRED, counts->expired);
    if (counts->decode.profiles_dropped > 0)
        fg_metric_add(distributor->metrics, DIST_DROPPED, counts->decode.profiles_dropped);
    if (counts->decode.types_dropped > 0)
        fg_metric_add(distributor->metrics, DIST_TYPES_DROPPED, counts->decode.types_dropped);
}

static enum fg_lane lane_of(const struct dist_upload *upload)
{
    return upload->forwards ? FG_LANE_BULK : FG_LANE_INGEST;
}

static enum fg_code decode_upload(struct fg_job *job, struct fg_err *err)
{
    struct dist_upload *upload = fg_container(job, struct dist_upload, job);
    struct distributor *distributor = upload->distributor;
    int64_t start = fg_mono_ns(distributor->clock), took_ns;
    struct dist_ingest_counts before = upload->counts;
    uint64_t vain_bytes;
    enum fg_code code;

    upload->space = dist_workspace_take(&distributor->workspaces);
    code = upload->interface->decode(upload, upload->space, err);
    vain_bytes = upload->space->vain_bytes;
    /* Now, not at the end of the upload: while ingesters work, an upload holds no workspace, so
     * that there are no more of them than workers. */
    dist_workspace_give(&distributor->workspaces, upload->space);
    took_ns = fg_mono_ns(distributor->clock) - start;
    /* By time, since what is refused costs as well: a file that does not end before the limit. */
    fg_work_charge(distributor->work, lane_of(upload), job,
                   (uint64_t)FG_MAX(took_ns, INT64_C(0)) / LANE_COST_NS);
    if (upload->attempt == 1) {
        count_cuts(distributor, &upload->counts);
        /* Bytes that were decompressed in vain: otherwise files that never end would cost their
         * sender nothing. */
        if (vain_bytes > 0)
            fg_rates_charge(upload->rates, upload->asked_tenant, &upload->account.rate_limit,
                            vain_bytes, fg_mono_ns(distributor->clock));
    } else {
        upload->counts = before; /* the same bytes again */
    }
    fg_metric_observe_ns(distributor->metrics, DIST_DECODE_SECONDS, took_ns);
    return code;
}

/* On the worker, which does not touch the upload afterwards. */
static void done(struct fg_job *job)
{
    struct dist_upload *upload = fg_container(job, struct dist_upload, job);
    const bool foreground = is_foreground(upload);

    if (job->code != FG_OK)
        dist_upload_note(upload, &job->err);
    finish_one(upload);
    if (foreground)
        fg_foreground_end();
}

/* Sends the same bytes to the owners that do not have them yet. */
static enum fg_code run_again(struct fg_job *job, struct fg_err *err)
{
    struct dist_upload *upload = fg_container(job, struct dist_upload, job);

    for (uint32_t i = 0; i < upload->n_items; i++) {
        struct dist_upload_item *item = upload->items[i];

        if (item->done)
            continue;
        if (dist_delivery_begin(item->delivery, err) == FG_OK)
            send_item(upload, item);
        else
            item_fail(upload, item, DIST_QUORUM_MISSED, err);
    }
    return FG_OK;
}

/* ---- read (loop) ---- */

/*
 * With several tenants each is a flow of the lane, so that none waits behind all uploads of
 * another. Forwarded uploads have a lane of their own, with threads of a low priority and a short
 * queue for each tenant: a server that catches up waits for itself, and live agents find workers
 * and processors.
 */
static bool queue(struct dist_upload *upload)
{
    const struct distributor *distributor = upload->distributor;
    enum fg_lane lane = lane_of(upload);
    struct fg_flow flow = {.id = fg_hash64_table(upload->asked_tenant)};

    if (upload->forwards)
        flow.queued_max = FORWARDS_QUEUED_MAX;
    else if (!fg_tenants_are_several(distributor->tenants))
        return fg_work_submit(distributor->work, lane, &upload->job);
    return fg_work_submit_flow(distributor->work, lane, &flow, &upload->job) == FG_SUBMIT_QUEUED;
}

static void submit(struct dist_upload *upload,
                   enum fg_code (*work)(struct fg_job *, struct fg_err *))
{
    const bool foreground = is_foreground(upload);

    if (foreground)
        fg_foreground_begin(); /* until done() */
    /* For the job itself: rounds that end while it still decodes do not end the upload. */
    upload->under_way = 1;
    upload->job.run = work;
    upload->job.done = done;
    if (queue(upload))
        return;
    (void)fg_fail(&upload->err, FG_E_LIMIT, "too many uploads at a time, try again");
    answer(upload);
    if (foreground)
        fg_foreground_end();
}

static void send_again(struct dist_upload *upload)
{
    submit(upload, run_again);
}

static void decode(struct dist_upload *upload)
{
    upload->attempt++;
    /* Batches and ids are counted from the start: the same bytes give the same batches with the
     * same numbers and ids, so those that are stored already are found. */
    upload->next_item = upload->n_batches = 0;
    for (struct dist_upload_account *account = &upload->account; account != NULL;
         account = account->next_account)
        account->next = 0;
    upload->tenant = upload->asked_tenant;
    upload->n_ids = 0;
    fg_map_clear(&upload->id_map);
    upload->rules.work = FG_RELABEL_WORK_MAX;
    submit(upload, decode_upload);
}

static enum fg_code check_body(const struct dist_upload *upload, struct fg_err *err)
{
    /* Checked on the loop, before the upload takes a worker. */
    struct fg_limits *limits = fg_tenants_limits(upload->distributor->tenants, upload->tenant);
    double max = limits->values.ingestion_body_limit_mb * 1024 * 1024;

    fg_limits_unref(limits);
    return max > 0 && (double)upload->body.len > max
               ? fg_fail(err, FG_E_TOO_LARGE,
                         "request body too large: %zu bytes, limit %.0f "
                         "(limits.ingestion_body_limit_mb)",
                         upload->body.len, max)
               : FG_OK;
}

enum fg_code dist_upload_from(struct dist_upload *upload, struct fg_http_request *req,
                              struct fg_err *err)
{
    upload->req = req;
    upload->home = fg_http_loop(req);
    upload->body = fg_http_body(req);
    upload->sender = fg_http_peer(req);
    upload->idempotency_key = fg_http_header(req, "Idempotency-Key");
    if (fg_access_tenant(req, fg_tenants_are_several(upload->distributor->tenants),
                         &upload->asked_tenant, err) != FG_OK)
        return err->code;
    upload->tenant = upload->asked_tenant;
    return check_body(upload, err);
}

void dist_upload_start(struct dist_upload *upload)
{
    struct distributor *distributor = upload->distributor;

    upload->magic = UPLOAD_MAGIC;
    upload->tenant = upload->asked_tenant;
    upload->now_ns = fg_wall_ns(distributor->clock);
    upload->key = fg_hash128(upload->idempotency_key);
    dist_upload_open_accounts(upload);
    upload->payer = &upload->account;
    upload->limits = upload->account.limits;
    upload->rates = upload->forwards ? distributor->forward_rates : distributor->rates;
    upload->decode_limits = fg_decode_limits_of(&upload->limits->values);
    upload->rules.labels = upload->limits->rules;
    upload->rules.types = upload->limits->type_rules;
    if (upload->req != NULL) {
        upload->rules.demanded = fg_access_grant(upload->req)->matchers;
        upload->splits = fg_tenants_are_several(distributor->tenants) &&
                         fg_grant_splits(fg_access_grant(upload->req));
    }
    fg_metric_add(distributor->metrics, DIST_UPLOADS, 1);
    fg_metric_add(distributor->metrics, DIST_BYTES, upload->body.len);
    if (fg_rates_in_debt(upload->rates, upload->asked_tenant, &upload->account.rate_limit,
                         upload->body.len, fg_mono_ns(distributor->clock),
                         &upload->account.use.debt_ns, &upload->err) != FG_OK) {
        answer(upload);
        return;
    }
    if (dist_owners_are_loaded(distributor->owners)) {
        decode(upload);
        return;
    }
    /* The upload came while the program started: waits for the first ring. lacks: go_on() decodes
     * after the pause, since there are no batches yet that could be sent. */
    upload->begun_mono_ns = fg_mono_ns(distributor->clock);
    upload->lacks = true;
    start_pause(upload, RING_PAUSE_NS);
}
