/*
 *          tick             slot             status 200            stored
 *   REST ---------> QUEUED --------> FETCH ---------------> STORE ---------> REST
 *                                      |                     |  ^
 *                                      | any other outcome   |  | after a pause
 *                                      v                     v  |
 *                                    REST                   PAUSE
 *
 * A tick in any state but REST is a missed scrape. PAUSE: the ingesters cannot store the profile
 * now; it is sent again a few times.
 *
 * Ticks come at fixed times, whatever the state is. A slot is held from FETCH to REST, so that the
 * number of profiles in memory is bounded.
 *
 * Exactly once: a profile that is sent again has the same content and time, and so the same id. The
 * growth of a cumulative profile is counted again in the next scrape only if it is certain that no
 * ingester stored it at any try: what one owner has is in the answers to queries, although the
 * others refused it. If that is uncertain, it is lost rather than counted twice.
 */
#include "distributor/scrape/scrape_loop.h"

#include "common/base/str.h"
#include "common/runtime/log.h"
#include "distributor/labels.h"
#include "distributor/upload.h"
#include "proto/pprof/pprof.h"

enum {
    STORE_TRIES_MAX = 4,          /* over 3.5 s, see STORE_PAUSE_NS of the manager */
    ANSWER_SHOWN_MAX_BYTES = 160, /* of an error page of a target, in our log */
};

enum state { REST, QUEUED, FETCH, STORE, PAUSE, GONE };

/* A scrape in progress. It exists from FETCH to REST only, because it is large and most scrape
 * loops rest. */
struct flight {
    struct dist_scrape_loop *scrape;
    struct fg_client_request request;
    int64_t begun_mono_ns, fetched_wall_ns;
    /* Of STORE: used by the loop and a worker in turn. */
    struct dist_upload upload;
    unsigned tries;
    bool maybe_stored; /* at one of the tries */
    struct dist_delta_result result;
};

struct dist_scrape_loop {
    struct dist_scrape_context *context;
    struct dist_target *target;
    const struct dist_endpoint *endpoint;
    enum state state;
    bool ending, trusted;
    uv_timer_t tick, pause;
    unsigned open_timers;
    struct dist_scrape_slot slot;
    struct flight *flight;
    struct dist_delta *before; /* of the last scrape */

    enum dist_scrape_health health;
    int64_t last_wall_ns, last_duration_ns;
    uint64_t last_bytes;
    char *error;
};

int64_t dist_scrape_loop_first_ns(uint64_t hash, int64_t interval_ns, int64_t wall_ns)
{
    /* The hash is the moment in the interval: equal for all distributors, so that a target that
     * moves to another one keeps its times. */
    int64_t moment = (int64_t)(hash % (uint64_t)interval_ns);
    int64_t now = wall_ns % interval_ns;

    return (moment - now + interval_ns) % interval_ns;
}

struct dist_scrape_loop_state dist_scrape_loop_state(const struct dist_scrape_loop *scrape)
{
    return (struct dist_scrape_loop_state){
        .endpoint = scrape->endpoint,
        .health = scrape->health,
        .last_wall_ns = scrape->last_wall_ns,
        .last_duration_ns = scrape->last_duration_ns,
        .last_bytes = scrape->last_bytes,
        .error = scrape->error,
    };
}

/* ---- the end of one scrape ---- */

static void note_health(struct dist_scrape_loop *scrape, enum dist_scrape_health health,
                        const char *error)
{
    bool changed = scrape->health != health;

    free(scrape->error);
    scrape->error = NULL;
    if (error != NULL) {
        size_t size = strlen(error) + 1;

        scrape->error = fg_malloc(size);
        memcpy(scrape->error, error, size);
    }
    /* Changes only: a target that stays down would fill the log. */
    if (changed && health == SCRAPE_HEALTH_DOWN)
        fg_log_warn("scrape failed", fg_ls("profile", scrape->endpoint->kind->name),
                    fg_ls("target", scrape->target->address), fg_ls("err", error));
    else if (changed && scrape->health == SCRAPE_HEALTH_DOWN)
        fg_log_info("scrape recovered", fg_ls("profile", scrape->endpoint->kind->name),
                    fg_ls("target", scrape->target->address));
    scrape->health = health;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct dist_scrape_loop *scrape = handle->data;
    struct dist_scrape_context *context = scrape->context;

    /* Memory of a timer belongs to libuv until its close callback. */
    if (--scrape->open_timers > 0)
        return;
    dist_target_unref(scrape->target);
    dist_delta_destroy(scrape->before);
    free(scrape->error);
    free(scrape);
    if (--context->n_scrapes == 0)
        context->on_gone(context);
}

static void show_slots(const struct dist_scrape_context *context)
{
    const struct dist_scrape_slots *slots = &context->slots;

    fg_metric_set(context->metrics, SCRAPE_RUNNING, slots->taken);
    fg_metric_set(context->metrics, SCRAPE_WAITING, slots->healthy.n + slots->failing.n);
}

/* Ends the scrape: gives its memory and its slot back. */
static void rest(struct dist_scrape_loop *scrape)
{
    struct flight *flight = fg_take(scrape->flight);

    if (flight != NULL) {
        fg_client_clear(&flight->request);
        dist_delta_destroy(flight->result.seen);
        free(flight);
    }
    scrape->state = REST;
    /* After the memory is given back: the slot goes to the next scrape at once. */
    dist_scrape_slots_release(&scrape->context->slots, &scrape->slot);
    show_slots(scrape->context);
    if (scrape->ending) {
        scrape->state = GONE;
        uv_close((uv_handle_t *)&scrape->tick, on_timer_closed);
        uv_close((uv_handle_t *)&scrape->pause, on_timer_closed);
    }
}

static void finish(struct dist_scrape_loop *scrape, enum scrape_metric result, const char *error)
{
    fg_metric_add(scrape->context->metrics, result, 1);
    note_health(scrape, error == NULL ? SCRAPE_HEALTH_UP : SCRAPE_HEALTH_DOWN, error);
    rest(scrape);
}

/* ---- storing: on a worker ---- */

static enum fg_code inflate(struct dist_upload *upload, struct dist_workspace *space,
                            struct fg_slice *profile, struct fg_err *err)
{
    uint64_t max = upload->limits->values.max_profile_size_bytes;

    if (dist_workspace_inflate(space, fg_coding_sniff(*profile), max, profile, err) != FG_OK)
        return err->code == FG_E_TOO_LARGE
                   ? fg_fail(err, FG_E_TOO_LARGE,
                             "uncompressed profile exceeds limit of %llu bytes "
                             "(limits.max_profile_size_bytes)",
                             (unsigned long long)max)
                   : err->code;
    upload->counts.inflated_bytes += profile->len;
    dist_upload_measure(upload, 1, 1, profile->len);
    return dist_upload_admit(upload, profile->len, err);
}

/* Returns a hash of the settings that decide which labels and stacks come out of the same profile.
 */
static uint64_t rules_of(const struct dist_upload *upload)
{
    const struct fg_limit_settings *limits = &upload->limits->values;
    struct fg_buf text;
    uint64_t hash;

    fg_buf_init(&text, SIZE_MAX);
    fg_buf_lenbytes(&text, fg_cstr(limits->ingestion_relabeling_rules));
    fg_buf_lenbytes(&text, fg_cstr(limits->sample_type_relabeling_rules));
    fg_buf_le32(&text, limits->ingestion_relabeling_default_rules_position);
    fg_buf_le64(&text, limits->max_profile_stacktrace_depth);
    fg_buf_le64(&text, limits->max_profile_symbol_value_length);
    hash = fg_hash64(fg_buf_slice(&text));
    fg_buf_done(&text);
    return hash;
}

static enum fg_code take_growth(struct flight *flight, struct fg_batch *batch,
                                struct dist_workspace *space, struct fg_err *err)
{
    const struct dist_scrape_loop *scrape = flight->scrape;
    const struct dist_delta_scrape seen = {
        .kind = scrape->endpoint->kind,
        .time_ns = flight->fetched_wall_ns,
        .rules = rules_of(&flight->upload),
        .budget = &scrape->context->deltas,
    };

    /* Ingesters that lack definitions make the upload decode twice. */
    dist_delta_destroy(fg_take(flight->result.seen));
    return dist_delta_apply(scrape->before, &seen, batch, space->arena, &flight->result, err);
}

static enum fg_code decode(struct dist_upload *upload, struct dist_workspace *space,
                           struct fg_err *err)
{
    struct flight *flight = fg_container(upload, struct flight, upload);
    const struct dist_endpoint *endpoint = flight->scrape->endpoint;
    struct fg_pprof_request request = {
        .upload = {.time_ns = flight->fetched_wall_ns,
                   .limits = upload->decode_limits,
                   .rules = &upload->rules},
    };
    struct fg_slice profile = upload->body;
    struct fg_pprof_info info;
    struct fg_batch batch;

    if (dist_series_labels(&endpoint->labels, &upload->limits->values, space->arena,
                           &request.upload.labels, err) != FG_OK ||
        inflate(upload, space, &profile, err) != FG_OK ||
        fg_pprof_decode(profile, &request, space->arena, &batch, &info, &upload->counts.decode,
                        err) != FG_OK ||
        (endpoint->cumulative && take_growth(flight, &batch, space, err) != FG_OK))
        return err->code;
    return dist_upload_add(upload, &batch, info.has_time, err);
}

/* ---- storing: on the loop ---- */

static void store(struct flight *flight);

static void on_pause_over(uv_timer_t *timer)
{
    struct dist_scrape_loop *scrape = timer->data;

    fg_assert(scrape->state == PAUSE);
    fg_metric_add(scrape->context->metrics, SCRAPE_RETRIES, 1);
    /* fetched_wall_ns stays, so that a profile without a time of its own keeps its id. */
    store(scrape->flight);
}

/* Keeps the cumulative values of this scrape: the next one is compared with them. */
static void advance(struct dist_scrape_loop *scrape)
{
    struct dist_delta_result *result = &scrape->flight->result;

    if (!scrape->endpoint->cumulative)
        return;
    dist_delta_destroy(scrape->before);
    scrape->before = fg_take(result->seen);
    fg_metric_add(scrape->context->metrics, SCRAPE_RESETS, result->reset);
    fg_metric_add(scrape->context->metrics, SCRAPE_FORGOTTEN, result->forgotten);
    if (result->forgotten)
        fg_log_warn("cumulative values not kept: scrape.delta_max_bytes exhausted",
                    fg_ls("profile", scrape->endpoint->kind->name),
                    fg_ls("target", scrape->target->address));
}

/* Returns true if the profile was stored, or may have been although the upload failed. */
static bool is_maybe_stored(const struct dist_upload *upload)
{
    switch (upload->err.code) {
    case FG_OK:
    case FG_E_DEADLINE:
    case FG_E_UNAVAILABLE:
    case FG_E_CANCELED:
    case FG_E_UNKNOWN:
    case FG_E_INTERNAL:
        return true;
    default:
        return upload->maybe_stored;
    }
}

static void on_stored(struct dist_upload *upload)
{
    struct flight *flight = fg_container(upload, struct flight, upload);
    struct dist_scrape_loop *scrape = flight->scrape;
    enum fg_code code = upload->err.code;
    int64_t pause_ns;

    flight->maybe_stored |= is_maybe_stored(upload);
    if (code != FG_OK && fg_code_retry(code) && !scrape->ending &&
        flight->tries < STORE_TRIES_MAX) {
        fg_assert(flight->tries >= 1);
        /* Twice as long each time. */
        pause_ns = scrape->context->pause_ns << (flight->tries - 1);
        scrape->state = PAUSE;
        fg_assert(
            uv_timer_start(&scrape->pause, on_pause_over, (uint64_t)(pause_ns / FG_MS_NS), 0) == 0);
        return;
    }
    /* Else the profile was refused: keep the values of the scrape before, so that the next scrape
     * brings this growth, too. */
    if (flight->maybe_stored)
        advance(scrape);
    if (code == FG_OK)
        finish(scrape, SCRAPE_OK, NULL);
    else
        finish(scrape, fg_code_retry(code) ? SCRAPE_NOT_STORED : SCRAPE_INVALID, upload->err.msg);
}

static void store(struct flight *flight)
{
    static const struct dist_upload_interface interface = {.decode = decode, .respond = on_stored};
    const struct dist_scrape_context *context = flight->scrape->context;

    flight->scrape->state = STORE;
    flight->tries++;
    /* From zero for each try: dist_upload_start() expects it. */
    flight->upload = (struct dist_upload){
        .interface = &interface,
        .distributor = context->distributor,
        .home = context->loop,
        .body = fg_buf_slice(&flight->request.answer),
        .asked_tenant = context->tenant,
        .sender = fg_cstr(flight->scrape->target->address),
        .awaits_all = flight->scrape->endpoint->cumulative, /* nobody waits for the answer */
    };
    dist_upload_start(&flight->upload);
}

/* ---- fetching ---- */

static enum scrape_metric failure_of(enum fg_code code)
{
    switch (code) {
    case FG_E_DEADLINE:
        return SCRAPE_TIMEOUT;
    case FG_E_TOO_LARGE:
    case FG_E_INVALID:
        return SCRAPE_INVALID;
    case FG_E_LIMIT:
        return SCRAPE_NO_MEMORY;
    default:
        return SCRAPE_UNREACHABLE;
    }
}

/* Puts the first line of the body of an unsuccessful response into the error. */
static void say_status(const struct fg_client_request *request, struct fg_err *err)
{
    struct fg_slice text = fg_trim(fg_buf_slice(&request->answer));
    struct fg_slice line = fg_slice_sub(text, 0, fg_slice_find(text, '\n'));
    char shown[ANSWER_SHOWN_MAX_BYTES + 1];
    size_t len = FG_MIN(line.len, (size_t)ANSWER_SHOWN_MAX_BYTES);

    if (len > 0)
        memcpy(shown, line.ptr, len);
    shown[len] = '\0';
    for (size_t i = 0; i < len; i++)
        /* The target's text goes to logs and pages. Bytes above 0x7f are negative where char is
         * signed, and are replaced as well. */
        if (shown[i] < ' ' || shown[i] == 0x7f)
            shown[i] = '.';
    (void)fg_fail(err, FG_E_UNAVAILABLE, "the target responds with status %u%s%s", request->status,
                  len > 0 ? ": " : "", shown);
}

static void note_fetch(struct flight *flight, bool good)
{
    struct dist_scrape_loop *scrape = flight->scrape;
    struct dist_scrape_context *context = scrape->context;

    flight->fetched_wall_ns = fg_wall_ns(context->clock);
    scrape->last_duration_ns = fg_mono_ns(context->clock) - flight->begun_mono_ns;
    scrape->last_bytes = flight->request.answer.len;
    /* By the fetch alone: trouble of the ingesters is no reason to give the target fewer slots. */
    scrape->slot.failing = !good;
    fg_metric_observe_ns(context->metrics, SCRAPE_SECONDS, scrape->last_duration_ns);
    fg_metric_add(context->metrics, SCRAPE_BYTES, scrape->last_bytes);
}

static void on_fetched(struct fg_client_request *request)
{
    struct flight *flight = fg_container(request, struct flight, request);
    struct dist_scrape_loop *scrape = flight->scrape;
    struct fg_err err;

    fg_assert(scrape->state == FETCH);
    note_fetch(flight, request->code == FG_OK && request->status == 200);
    if (request->code != FG_OK) {
        finish(scrape, failure_of(request->code), request->err.msg);
    } else if (request->status != 200) {
        say_status(request, &err);
        finish(scrape, SCRAPE_STATUS, err.msg);
    } else if (request->answer.len == 0) {
        finish(scrape, SCRAPE_INVALID, "the target responds with an empty body");
    } else {
        store(flight);
    }
}

static struct flight *flight_create(struct dist_scrape_loop *scrape)
{
    const struct dist_scrape_context *context = scrape->context;
    struct flight *flight = fg_new(struct flight);

    flight->scrape = scrape;
    flight->request = (struct fg_client_request){
        .url = scrape->endpoint->url,
        .tls = scrape->trusted ? &context->tls : &context->tls_for_all,
        .token_file = scrape->trusted ? context->token_file : NULL,
        .connect_timeout_ns = context->connect_timeout_ns,
        .timeout_ns = scrape->endpoint->timeout_ns,
        .body_max_bytes = context->body_max_bytes,
        .done = on_fetched,
    };
    flight->begun_mono_ns = fg_mono_ns(context->clock);
    return flight;
}

static void on_slot(struct dist_scrape_slot *slot)
{
    struct dist_scrape_loop *scrape = fg_container(slot, struct dist_scrape_loop, slot);
    struct dist_scrape_context *context = scrape->context;

    fg_assert(scrape->state == QUEUED && scrape->flight == NULL);
    scrape->state = FETCH;
    scrape->last_wall_ns = fg_wall_ns(context->clock);
    scrape->flight = flight_create(scrape);
    fg_client_send(context->client, &scrape->flight->request);
}

static void on_tick(uv_timer_t *timer)
{
    struct dist_scrape_loop *scrape = timer->data;

    if (scrape->state != REST) {
        fg_metric_add(scrape->context->metrics, SCRAPE_MISSED, 1);
        return;
    }
    scrape->state = QUEUED; /* before the request, which may call on_slot() */
    dist_scrape_slots_request(&scrape->context->slots, &scrape->slot);
    show_slots(scrape->context);
}

/* ---- life ---- */

struct dist_scrape_loop *dist_scrape_loop_start(struct dist_scrape_context *context,
                                                struct dist_target *target,
                                                const struct dist_endpoint *endpoint, bool trusted)
{
    struct dist_scrape_loop *scrape = fg_new(struct dist_scrape_loop);
    uv_loop_t *uv = fg_loop_uv(context->loop);
    int64_t first_ns;

    scrape->context = context;
    scrape->target = dist_target_ref(target);
    scrape->endpoint = endpoint;
    scrape->trusted = trusted;
    scrape->slot.on_slot = on_slot;
    fg_assert(uv_timer_init(uv, &scrape->tick) == 0 && uv_timer_init(uv, &scrape->pause) == 0);
    scrape->tick.data = scrape->pause.data = scrape;
    scrape->open_timers = 2;
    context->n_scrapes++;
    /* At a time of its own within the interval, so that targets are not scraped all at once. */
    first_ns =
        dist_scrape_loop_first_ns(target->hash ^ fg_mix64(fg_hash64(fg_cstr(endpoint->kind->name))),
                                  target->interval_ns, fg_wall_ns(context->clock));
    fg_assert(uv_timer_start(&scrape->tick, on_tick, (uint64_t)(first_ns / FG_MS_NS),
                             (uint64_t)(target->interval_ns / FG_MS_NS)) == 0);
    return scrape;
}

void dist_scrape_loop_stop(struct dist_scrape_loop *scrape)
{
    fg_assert(!scrape->ending);
    scrape->ending = true;
    fg_assert(uv_timer_stop(&scrape->tick) == 0);
    if (scrape->state == STORE)
        return; /* a worker may have the upload; on_stored() goes on */
    if (scrape->state == FETCH)
        /* on_fetched() is not called for a cancelled request. */
        fg_client_cancel(&scrape->flight->request);
    rest(scrape);
}
