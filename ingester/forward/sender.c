#include "common/base/str.h"
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "ingester/forward/sender_impl.h"

#include <stdlib.h>

enum {
    /* A build may wait for the disk while an answer is taken; and the bucket is read for a resend.
     */
    WORKERS = 3,
    ANSWER_MAX_BYTES = 4 * 1024 * 1024,
};

/* A span that turned from fresh to backlog between two looks is announced by nobody. */
static const int64_t LOOK_NS = 10 * FG_SECOND_NS;
/* After that long a target that had no forward.v1 is asked for it again: it may be a newer one. */
static const int64_t ASK_AGAIN_NS = FG_HOUR_NS;

/* ---- the end of a parcel (loop) ---- */

static void pump(struct forward_sender_target *target);
static void pump_others_first(const struct forward_sender_target *last);
static void build(struct forward_sending *sending);
static void stop_if_idle(struct ing_sender *sender);

int64_t ing_sender_now(const struct ing_sender *sender)
{
    return fg_mono_ns(sender->config.clock);
}

static int64_t retry_after_ns(const struct forward_sending *sending)
{
    uint64_t seconds;

    /* Seconds only: dates are allowed, but nobody sends them. */
    if (!fg_parse_u64(fg_trim(fg_client_header(&sending->request, "Retry-After")), &seconds))
        return 0;
    return (int64_t)FG_MIN(seconds, (uint64_t)(FG_HOUR_NS / FG_SECOND_NS)) * FG_SECOND_NS;
}

static void unlink_sending(struct forward_sending *sending)
{
    struct forward_sending **at = &sending->target->sendings;

    while (*at != sending)
        at = &(*at)->next;
    *at = sending->next;
}

void ing_sender_finish(struct forward_sending *sending)
{
    bool resends = sending->resends;
    const struct ing_parcel *parcel = sending->parcel;
    struct forward_sender_target *target = sending->target;
    struct ing_sender *sender = target->sender;

    ing_sender_core_end(&target->core, sending->lane,
                        &(struct ing_sender_core_outcome){
                            .result = sending->result,
                            .began_mono_ns = sending->began_mono_ns,
                            .took_ns = sending->took_ns,
                            .retry_after_ns = parcel == NULL ? 0 : parcel->retry_after_ns,
                        },
                        ing_sender_now(sender));
    if (parcel != NULL) {
        ing_sender_count(target, sending);
        ing_sender_tell_held(target, parcel);
    }
    ing_sender_tell(target, sending);
    ing_sender_show_error(target, sending);
    ing_sender_show(target);
    /* Nobody announces profiles that were put back, nor the end of a tenant's hold. */
    target->ready |= ing_sender_is_failure(sending->result) ||
                     ing_outbox_held_ns(sender->config.common.outbox, target->number) != INT64_MAX;
    if (sending->resends)
        ing_sender_finish_resend(sending);
    if (sending->parcel != NULL)
        ing_parcel_end(sending->parcel);
    ing_page_done(&sending->page);
    fg_client_clear(&sending->request);
    ing_sender_forget_secret(&sending->authorization);
    unlink_sending(sending);
    free(sending);
    sender->n_sendings--;
    if (sender->stopping)
        stop_if_idle(sender);
    else if (resends)
        pump_others_first(target);
    else
        pump(target);
}

void ing_sender_finish_with(struct forward_sending *sending, enum ing_sender_result result,
                            const struct fg_err *err)
{
    sending->result = result;
    if (err != NULL)
        sending->err = *err;
    ing_sender_finish(sending);
}

/* ---- the answer ---- */

void ing_sender_submit(struct forward_sending *sending,
                       enum fg_code (*run)(struct fg_job *, struct fg_err *),
                       void (*done)(struct fg_job *))
{
    struct ing_sender *sender = sending->target->sender;

    sending->job = (struct fg_job){.home = sender->loop, .run = run, .done = done};
    /* There is room for a job of each connection of each target. */
    fg_assert(fg_work_submit(sender->work, FG_LANE_BACKGROUND, &sending->job));
}

static enum fg_code run_answer(struct fg_job *job, struct fg_err *err)
{
    struct forward_sending *sending = fg_container(job, struct forward_sending, job);
    const struct fg_client_request *request = &sending->request;
    const struct ing_parcel_answer answer = {
        .came = request->code == FG_OK,
        .status = request->status,
        .body = fg_buf_slice(&request->answer),
        .is_proto = fg_slice_starts(fg_client_header(request, "Content-Type"), "application/proto"),
        .of_limit = fg_client_header(request, "RateLimit").ptr != NULL,
        .retry_after_ns = retry_after_ns(sending),
    };

    sending->err = request->err; /* replaced where an answer came */
    sending->result = ing_parcel_answer(sending->parcel, &answer, &sending->unknown, &sending->err);
    if (ing_sender_is_own_fault(request->code))
        sending->result = SENDER_UNREAD;
    (void)err;
    return FG_OK;
}

/* The target has no forward.v1. If it may be any server, the parcel goes on by push.v1. */
static void on_unknown(struct forward_sending *sending)
{
    if (sending->target->conf->settings.protocol != FORWARD_AUTO) {
        ing_sender_finish(sending);
        return;
    }
    sending->parcel->push = true;
    build(sending);
}

/* Notes that a target without forward.v1 takes push.v1. Not before: a proxy whose server restarts
 * knows neither, and then an hour of push.v1 would give up what counts each profile once. */
static void note_push(struct forward_sending *sending)
{
    struct forward_sender_target *target = sending->target;

    if (!sending->parcel->push || target->conf->settings.protocol != FORWARD_AUTO)
        return;
    if (target->pushes)
        return;
    fg_log_info("the target has no forward.v1, forwarding by push.v1",
                fg_ls("target", target->conf->settings.name));
    target->pushes = true;
    target->ask_again_mono_ns = fg_time_add(ing_sender_now(target->sender), ASK_AGAIN_NS);
}

static void on_answered(struct fg_job *job)
{
    struct forward_sending *sending = fg_container(job, struct forward_sending, job);
    bool stopping = sending->target->sender->stopping;

    if (!sending->unknown && sending->result == SENDER_TAKEN)
        note_push(sending);
    if (!stopping && sending->unknown)
        on_unknown(sending);
    else if (!stopping && sending->result == SENDER_TAKEN)
        build(sending);
    else
        ing_sender_finish(sending);
}

/* ---- the request (loop) ---- */

/* The target refuses a token that should be good: another one may be, once. */
static bool is_stale_token(const struct forward_sending *sending)
{
    const struct forward_sender_target *target = sending->target;

    return target->conf->uses_oauth2 && sending->request.code == FG_OK &&
           sending->request.status == 401 && !sending->refetched && !target->sender->stopping;
}

static void on_answer(struct fg_client_request *request)
{
    struct forward_sending *sending = fg_container(request, struct forward_sending, request);
    struct forward_sender_target *target = sending->target;

    sending->in_request = false;
    if (is_stale_token(sending)) {
        sending->refetched = true;
        target->token.until_mono_ns = 0;
        ing_sender_send(sending);
        return;
    }
    sending->took_ns = ing_sender_now(target->sender) - sending->sent_mono_ns;
    fg_metric_observe_ns(target->metrics, FORWARD_SECONDS, sending->took_ns);
    ing_sender_submit(sending, run_answer, on_answered);
}

static void add_header(struct forward_sending *sending, size_t *n, const char *name,
                       struct fg_slice value)
{
    (void)snprintf(sending->headers[*n], SENDER_HEADER_MAX_BYTES, "%s: %.*s", name, FG_S(value));
    sending->header_list[*n] = sending->headers[*n];
    (*n)++;
}

static void put_headers(struct forward_sending *sending)
{
    const struct ing_parcel *parcel = sending->parcel;
    size_t n = 0;

    if (sending->target->conf->uses_oauth2) {
        /* A copy: the target may get another token meanwhile. */
        ing_sender_forget_secret(&sending->authorization);
        fg_buf_init(&sending->authorization, SIZE_MAX);
        fg_buf_put(&sending->authorization, fg_buf_slice(&sending->target->token.header));
    }

    add_header(sending, &n, "Content-Type", FG_LIT("application/proto"));
    add_header(sending, &n, "Connect-Protocol-Version", FG_LIT("1"));
    add_header(sending, &n, "Expect", FG_LIT("")); /* no 100-continue: most requests are stored */
    if (parcel->tenant.len > 0)
        add_header(sending, &n, "X-Scope-OrgID", parcel->tenant);
    if (parcel->login.len > 0) {
        struct fg_buf value;

        fg_buf_init(&value, SENDER_HEADER_MAX_BYTES);
        fg_buf_printf(&value, "Basic %.*s", FG_S(fg_buf_slice(&parcel->login)));
        add_header(sending, &n, "Authorization", fg_buf_slice(&value));
        fg_buf_done(&value);
    }
    if (sending->authorization.len > 0)
        sending->header_list[n++] = (const char *)sending->authorization.ptr;
    sending->header_list[n] = NULL;
}

void ing_sender_send(struct forward_sending *sending)
{
    struct forward_sender_target *target = sending->target;
    const struct ing_target_settings *settings = &target->conf->settings;
    struct ing_sender *sender = target->sender;

    if (ing_sender_waits_for_token(sending))
        return;
    put_headers(sending);
    fg_client_clear(&sending->request);
    sending->request = (struct fg_client_request){
        .method = "POST",
        .url = target->url[sending->parcel->push],
        .headers = sending->header_list,
        .body = fg_buf_slice(&sending->parcel->body),
        .tls = &target->conf->tls,
        .token_file = settings->token_file[0] == '\0' ? NULL : settings->token_file,
        .connect_timeout_ns = FG_MIN(SENDER_CONNECT_TIMEOUT_NS, settings->timeout_ns),
        .timeout_ns = settings->timeout_ns,
        .body_max_bytes = ANSWER_MAX_BYTES,
        .done = on_answer,
    };
    sending->sent_mono_ns = ing_sender_now(sender);
    fg_metric_add(target->metrics, FORWARD_BYTES, sending->parcel->body.len);
    ing_sender_core_sent(&target->core, sending->parcel->body.len, sending->sent_mono_ns);
    sending->in_request = true;
    fg_client_send(sender->client, &sending->request);
}

/* ---- a round ---- */

static enum fg_code run_build(struct fg_job *job, struct fg_err *err)
{
    struct forward_sending *sending = fg_container(job, struct forward_sending, job);

    return ing_parcel_build(sending->parcel, &sending->more, err);
}

static void on_built(struct fg_job *job)
{
    struct forward_sending *sending = fg_container(job, struct forward_sending, job);

    if (job->code != FG_OK)
        ing_sender_finish_with(sending, SENDER_UNREAD, &job->err);
    else if (sending->target->sender->stopping || !sending->more)
        ing_sender_finish(sending); /* with what the last answer was, if there was one */
    else
        ing_sender_send(sending);
}

static void build(struct forward_sending *sending)
{
    ing_sender_submit(sending, run_build, on_built);
}

/* ---- spans (loop) ---- */

struct forward_sending *ing_sender_begin(struct forward_sender_target *target,
                                         enum ing_outbox_lane lane)
{
    struct ing_sender *sender = target->sender;
    struct forward_sending *sending = fg_new(struct forward_sending);

    sending->target = target;
    sending->lane = lane;
    sending->began_mono_ns = ing_sender_now(sender);
    sending->next = target->sendings;
    target->sendings = sending;
    sender->n_sendings++;
    ing_sender_core_begin(&target->core, lane);
    ing_sender_show(target);
    return sending;
}

void ing_sender_start_parcel(struct forward_sending *sending, struct ing_parcel *parcel)
{
    struct forward_sender_target *target = sending->target;

    sending->parcel = parcel;
    if (target->pushes && target->conf->settings.protocol == FORWARD_AUTO &&
        sending->began_mono_ns >= target->ask_again_mono_ns)
        target->pushes = false;
    parcel->push = target->pushes;
    build(sending);
}

static bool take(struct forward_sender_target *target, struct ing_outbox_span *span,
                 enum ing_outbox_lane *lane)
{
    struct ing_outbox *outbox = target->sender->config.common.outbox;

    *lane = ing_sender_core_lane(&target->core);
    if (ing_outbox_take(outbox, target->number, *lane, span))
        return true;
    *lane = *lane == OUTBOX_FRESH ? OUTBOX_BACKLOG : OUTBOX_FRESH;
    return ing_outbox_take(outbox, target->number, *lane, span);
}

static void on_timer(uv_timer_t *timer)
{
    struct forward_sender_target *target = fg_container(timer, struct forward_sender_target, timer);

    target->ready = true;
    pump(target);
}

static void wake_at(struct forward_sender_target *target, int64_t mono_ns)
{
    int64_t wait_ns = FG_MAX(mono_ns - ing_sender_now(target->sender), INT64_C(0));

    /* A millisecond more: a timer that comes early would come again at once. */
    fg_assert(uv_timer_start(&target->timer, on_timer, (uint64_t)(wait_ns / FG_MS_NS) + 1, 0) == 0);
}

/* Nothing is there to be taken, until on_ready(), or until a tenant is held no longer. */
static void wait_for_more(struct forward_sender_target *target)
{
    int64_t held_ns = ing_outbox_held_ns(target->sender->config.common.outbox, target->number);

    target->ready = false;
    wake_at(target, fg_time_add(ing_sender_now(target->sender), FG_MIN(held_ns, LOOK_NS)));
}

/* Takes and sends what may be sent now. */
static void pump(struct forward_sender_target *target)
{
    struct ing_outbox_span span;
    enum ing_outbox_lane lane;
    int64_t when_ns;

    while (target->ready && !target->sender->stopping) {
        int64_t now_ns = ing_sender_now(target->sender);

        if (now_ns < target->due_mono_ns) {
            wake_at(target, target->due_mono_ns);
            return;
        }
        if (!ing_sender_core_may_begin(&target->core, now_ns, &when_ns)) {
            if (when_ns != INT64_MAX)
                wake_at(target, when_ns);
            return;
        }
        if (take(target, &span, &lane))
            ing_sender_start_parcel(ing_sender_begin(target, lane),
                                    ing_parcel_create(&target->sender->config.common, target->conf,
                                                      &target->peer, &span));
        else if (!ing_sender_resend(target))
            wait_for_more(target);
    }
}

/* Pumps all targets after a page of one: it comes last, so that resends to several take turns. */
static void pump_others_first(const struct forward_sender_target *last)
{
    struct ing_sender *sender = last->sender;
    size_t place = (size_t)(last - sender->targets);

    for (unsigned i = 1; i <= sender->n_targets; i++)
        pump(&sender->targets[(place + i) % sender->n_targets]);
}

static void on_ready_msg(struct fg_msg *msg)
{
    struct forward_sender_target *target = fg_container(msg, struct forward_sender_target, msg);

    atomic_store(&target->posted, false);
    if (!target->ready)
        target->due_mono_ns =
            fg_time_add(ing_sender_now(target->sender), target->sender->config.collect_ns);
    target->ready = true;
    pump(target);
}

/* A thread of the ingester. */
static void on_ready(void *arg, unsigned number)
{
    struct ing_sender *sender = arg;
    struct forward_sender_target *target = &sender->targets[number];

    if (atomic_exchange(&target->posted, true))
        return;
    target->msg.run = on_ready_msg;
    fg_loop_post(sender->loop, &target->msg);
}

/* ---- life ---- */

static void open_target(struct ing_sender *sender, unsigned number)
{
    struct forward_sender_target *target = &sender->targets[number];
    const struct ing_forward_target *conf = &sender->config.targets->items[number];
    struct fg_slice url = fg_cstr(conf->settings.url);

    while (url.len > 0 && url.ptr[url.len - 1] == '/')
        url.len--;
    target->sender = sender;
    target->number = number;
    target->conf = conf;
    target->peer.cache_key = fg_mix64(fg_hash64(fg_cstr(conf->settings.name)));
    target->pushes = conf->settings.protocol == FORWARD_PUSH;
    target->ask_again_mono_ns = INT64_MAX;
    (void)snprintf(target->url[0], SENDER_URL_MAX_BYTES, "%.*s/forward.v1.ForwardService/Push",
                   FG_S(url));
    (void)snprintf(target->url[1], SENDER_URL_MAX_BYTES, "%.*s/push.v1.PusherService/Push",
                   FG_S(url));
    ing_sender_core_init(&target->core,
                         &(struct ing_sender_core_config){
                             .connections = (unsigned)conf->settings.connections,
                             .fresh_share = conf->settings.fresh_share,
                             .rate_max_bytes = conf->settings.rate_max_bytes,
                         },
                         target->peer.cache_key ^ (uint64_t)fg_mono_ns(fg_clock_real()));
    (void)pthread_mutex_init(&target->lock, NULL);
    ing_sender_register_metrics(target, sender->config.registry);
}

struct ing_sender *ing_sender_create(const struct ing_sender_config *config)
{
    struct ing_sender *sender = fg_new(struct ing_sender);

    sender->config = *config;
    sender->config.common.definition_cache =
        fg_definition_cache_create((size_t)config->definition_cache_max);
    sender->loop = fg_loop_create("forward");
    (void)sem_init(&sender->stopped, 0, 0);
    sender->n_targets = config->targets->n;
    sender->targets = fg_calloc(sender->n_targets, sizeof *sender->targets);
    for (unsigned i = 0; i < sender->n_targets; i++)
        open_target(sender, i);
    fg_registry_on_scrape(config->registry, ing_sender_on_scrape, sender);
    return sender;
}

static unsigned connections_of(const struct ing_sender *sender)
{
    unsigned n = 0;

    for (unsigned i = 0; i < sender->n_targets; i++)
        n += sender->targets[i].core.config.connections;
    return n;
}

static void start_all(void *arg)
{
    struct ing_sender *sender = arg;

    sender->client = fg_client_create(&(struct fg_client_config){
        .loop = sender->loop,
        .running_max = connections_of(sender) + sender->n_targets, /* tokens */
        .waiting_max = 0,
        .budget = sender->config.bodies,
    });
    for (unsigned i = 0; i < sender->n_targets; i++) {
        fg_assert(uv_timer_init(fg_loop_uv(sender->loop), &sender->targets[i].timer) == 0);
        sender->n_timers++;
    }
}

/* Asks for what waited before the start. */
static void look_all(void *arg)
{
    struct ing_sender *sender = arg;

    for (unsigned i = 0; i < sender->n_targets; i++) {
        sender->targets[i].ready = true;
        pump(&sender->targets[i]);
    }
}

enum fg_code ing_sender_start(struct ing_sender *sender, struct fg_err *err)
{
    struct fg_lane_config lanes[FG_LANES] = {0};

    if (sender == NULL)
        return FG_OK;
    lanes[FG_LANE_BACKGROUND] = (struct fg_lane_config){
        .threads = WORKERS, .queue_max = 2 * connections_of(sender) + sender->n_targets};
    if (fg_work_create("fwd", lanes, &sender->work, err) != FG_OK ||
        fg_loop_start(sender->loop, err) != FG_OK)
        return err->code;
    fg_loop_call(sender->loop, start_all, sender);
    ing_outbox_on_ready(sender->config.common.outbox, on_ready, sender);
    fg_loop_call(sender->loop, look_all, sender);
    return FG_OK;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct ing_sender *sender = fg_container(handle, struct forward_sender_target, timer)->sender;

    if (--sender->n_timers == 0)
        (void)sem_post(&sender->stopped);
}

static void stop_if_idle(struct ing_sender *sender)
{
    if (sender->n_sendings > 0)
        return;
    fg_client_close(sender->client);
    for (unsigned i = 0; i < sender->n_targets; i++)
        uv_close((uv_handle_t *)&sender->targets[i].timer, on_timer_closed);
}

static void stop_all(void *arg)
{
    struct ing_sender *sender = arg;

    sender->stopping = true;
    atomic_store(&sender->stops, true);
    if (sender->n_sendings == 0) {
        stop_if_idle(sender);
        return;
    }
    for (unsigned i = 0; i < sender->n_targets; i++) {
        struct forward_sending *next;

        /* A request ends now; a job ends by itself, and then finds that we stop. */
        for (struct forward_sending *sending = sender->targets[i].sendings; sending != NULL;
             sending = next) {
            next = sending->next;
            if (!sending->in_request)
                continue;
            fg_client_cancel(&sending->request);
            (void)fg_fail(&sending->err, FG_E_CANCELED, "the server stops");
            ing_sender_finish_with(sending, SENDER_AWAY, NULL);
        }
        ing_sender_stop_token(&sender->targets[i]);
    }
}

void ing_sender_stop(struct ing_sender *sender)
{
    if (sender == NULL || sender->client == NULL)
        return;
    ing_outbox_on_ready(sender->config.common.outbox, NULL, NULL);
    fg_loop_call(sender->loop, stop_all, sender);
    while (sem_wait(&sender->stopped) != 0)
        continue;
    fg_work_destroy(fg_take(sender->work));
    fg_loop_stop(sender->loop);
    fg_client_destroy(fg_take(sender->client));
}

const struct ing_past *ing_sender_past(const struct ing_sender *sender)
{
    return sender->config.past;
}

void ing_sender_destroy(struct ing_sender *sender)
{
    if (sender == NULL)
        return;
    fg_registry_off_scrape(sender->config.registry, sender);
    for (unsigned i = 0; i < sender->n_targets; i++) {
        struct forward_sender_target *target = &sender->targets[i];

        fg_metrics_unregister(sender->config.registry, target->metrics);
        ing_sender_forget_secret(&target->token.header);
        ing_sender_forget_secret(&target->token.login);
        free(target->defs);
        free(target->names);
        (void)pthread_mutex_destroy(&target->lock);
    }
    free(sender->targets);
    fg_work_destroy(sender->work); /* if the start failed half-way */
    fg_loop_destroy(sender->loop);
    fg_definition_cache_destroy(sender->config.common.definition_cache);
    (void)sem_destroy(&sender->stopped);
    free(sender);
}
