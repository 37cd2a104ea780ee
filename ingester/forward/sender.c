#include "ingester/forward/sender.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "common/runtime/work.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

enum {
    /* A build may wait for the disk while an answer is taken; and the bucket is read for a resend.
     */
    WORKERS = 3,
    ANSWER_MAX_BYTES = 4 * 1024 * 1024,
    HEADERS_MAX = 6,
    HEADER_MAX_BYTES = 2048, /* user of 256 bytes and password of 1024, in base64 */
    URL_MAX_BYTES = 4200,
    METRIC_NAME_MAX_BYTES = 320, /* a target's name, with every byte escaped */
};

static const int64_t CONNECT_TIMEOUT_NS = 5 * FG_SECOND_NS;
/* A span that turned from fresh to backlog between two looks is announced by nobody. */
static const int64_t LOOK_NS = 10 * FG_SECOND_NS;
/* After that long a target that had no forward.v1 is asked for it again: it may be a newer one. */
static const int64_t ASK_AGAIN_NS = FG_HOUR_NS;
/* A target that fails is named in the log once in so long. */
static const int64_t LOG_NS = 5 * FG_MINUTE_NS;
/* How long a page of a resend may take, since a stop waits for it; and how long a resend waits
 * after a page that could not be read. */
static const int64_t PAGE_TIMEOUT_NS = 20 * FG_SECOND_NS, PAGE_AGAIN_NS = 10 * FG_SECOND_NS;

/* clang-format off */
#define FORWARD_METRICS(M)                                                                         \
    M(GAUGE, FORWARD_PENDING, "flamegrid_forward_pending_profiles{target=\"%s\"}", "Profiles that wait for a target of forwarding, with those that are being sent") \
    M(GAUGE, FORWARD_PENDING_BYTES, "flamegrid_forward_pending_bytes{target=\"%s\"}", "Size on disk of profiles that wait for a target of forwarding") \
    M(GAUGE, FORWARD_QUEUE_MAX, "flamegrid_forward_queue_max_bytes{target=\"%s\"}", "The target's queue_max_bytes") \
    M(FRACTION, FORWARD_OLDEST, "flamegrid_forward_oldest_pending_seconds{target=\"%s\"}", "Time since the oldest pending profile was received; 0: none is pending") \
    M(GAUGE, FORWARD_DEAD, "flamegrid_forward_dead_profiles{target=\"%s\"}", "Profiles that a target refused for good, kept for 24 hours") \
    M(GAUGE, FORWARD_PAUSED, "flamegrid_forward_paused{target=\"%s\"}", "1 if an operator has paused the target, or the target refuses our credentials") \
    M(GAUGE, FORWARD_HELD, "flamegrid_forward_held_tenants{target=\"%s\"}", "Tenants whose profiles wait since the target refuses them (403) or they are beyond a limit of their own (429)") \
    M(GAUGE, FORWARD_CONNECTIONS, "flamegrid_forward_connections{target=\"%s\"}", "Requests to the target in progress") \
    M(COUNTER, FORWARD_FRESH, "flamegrid_forward_sent_profiles_total{target=\"%s\",lane=\"fresh\"}", "Profiles that a target has acknowledged, by lane: received in the last five minutes, backlog, or resent") \
    M(COUNTER, FORWARD_BACKLOG, "flamegrid_forward_sent_profiles_total{target=\"%s\",lane=\"backlog\"}", "Profiles that a target has acknowledged, by lane: received in the last five minutes, backlog, or resent") \
    M(COUNTER, FORWARD_RESENT, "flamegrid_forward_sent_profiles_total{target=\"%s\",lane=\"resend\"}", "Profiles that a target has acknowledged, by lane: received in the last five minutes, backlog, or resent") \
    M(GAUGE, FORWARD_RESENDING, "flamegrid_forward_resending{target=\"%s\"}", "1 while profiles of the past are resent to a target") \
    M(GAUGE, FORWARD_RESEND_TIME, "flamegrid_forward_resend_timestamp_seconds{target=\"%s\"}", "Time of the profiles that a resend is at; 0: none is under way") \
    M(COUNTER, FORWARD_RESEND_LOST, "flamegrid_forward_resend_lost_profiles_total{target=\"%s\"}", "Profiles that could not be resent, since only rollups are left of them") \
    M(COUNTER, FORWARD_RESEND_FAILED, "flamegrid_forward_resend_read_failures_total{target=\"%s\"}", "Reads of the bucket that failed for a resend, and are repeated") \
    M(COUNTER, FORWARD_BYTES, "flamegrid_forward_sent_bytes_total{target=\"%s\"}", "Bytes sent to a target, repeated requests included") \
    M(COUNTER, FORWARD_KNOWN, "flamegrid_forward_known_total{target=\"%s\"}", "Profiles that the target already had") \
    M(COUNTER, FORWARD_FILTERED, "flamegrid_forward_filtered_total{target=\"%s\"}", "Profiles that the target's selector or rules leave out") \
    M(COUNTER, FORWARD_RETRIED_BUSY, "flamegrid_forward_retries_total{target=\"%s\",reason=\"busy\"}", "Requests whose profiles are sent again, by reason") \
    M(COUNTER, FORWARD_RETRIED_AWAY, "flamegrid_forward_retries_total{target=\"%s\",reason=\"unavailable\"}", "Requests whose profiles are sent again, by reason") \
    M(COUNTER, FORWARD_RETRIED_DENIED, "flamegrid_forward_retries_total{target=\"%s\",reason=\"denied\"}", "Requests whose profiles are sent again, by reason") \
    M(COUNTER, FORWARD_RETRIED_UNREAD, "flamegrid_forward_retries_total{target=\"%s\",reason=\"unread\"}", "Requests whose profiles are sent again, by reason") \
    M(GAUGE, FORWARD_UNREAD, "flamegrid_forward_unread{target=\"%s\"}", "1 if this server cannot read what it has to send, or its own files of credentials: the target is not to blame") \
    M(COUNTER, FORWARD_TOKENS, "flamegrid_forward_token_requests_total{target=\"%s\",result=\"ok\"}", "Requests for tokens of OAuth 2, by result") \
    M(COUNTER, FORWARD_TOKENS_FAILED, "flamegrid_forward_token_requests_total{target=\"%s\",result=\"failed\"}", "Requests for tokens of OAuth 2, by result") \
    M(COUNTER, FORWARD_DROPPED_FULL, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"full\"}", "Profiles that will not be sent, by reason") \
    M(COUNTER, FORWARD_DROPPED_REFUSED, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"refused\"}", "Profiles that will not be sent, by reason") \
    M(COUNTER, FORWARD_DROPPED_EXPIRED, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"expired\"}", "Profiles that will not be sent, by reason") \
    M(COUNTER, FORWARD_DROPPED_GONE, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"gone\"}", "Profiles that will not be sent, by reason") \
    M(COUNTER, FORWARD_DROPPED_OPERATOR, "flamegrid_forward_dropped_profiles_total{target=\"%s\",reason=\"operator\"}", "Profiles that will not be sent, by reason") \
    M(HISTOGRAM, FORWARD_SECONDS, "flamegrid_forward_request_duration_seconds{target=\"%s\"}", "Duration of a request to a target")
/* clang-format on */
FG_METRICS_ENUM(forward_metric, FORWARD_METRICS)
FG_METRICS_TABLE(forward_metrics, FORWARD_METRICS)

/* The token of a target that uses OAuth 2. The loop's, except for the job. */
struct forward_token {
    struct fg_buf header;  /* "Authorization: Bearer ...", with a NUL */
    int64_t until_mono_ns; /* it is used until then; 0: there is none */
    bool fetching;         /* parcels wait for it */
    bool in_request;       /* else a job has it */
    struct fg_job job;     /* reads the secret */
    struct fg_buf login;   /* "Authorization: Basic ...", likewise */
    const char *headers[4];
    struct fg_client_request request;
};

struct forward_sender_target {
    struct ing_sender *sender;
    unsigned number;
    const struct ing_forward_target *conf;
    uint64_t cache_key;

    /* The loop's. */
    struct ing_sender_core core;
    uv_timer_t timer;
    bool ready;          /* something waits */
    int64_t due_mono_ns; /* what waits since a while is taken then */
    struct forward_sending *sendings;
    bool pushes;               /* the target has no forward.v1 */
    int64_t ask_again_mono_ns; /* then, for it */
    int64_t logged_mono_ns;
    int64_t denied_logged_mono_ns; /* that it refuses a tenant */
    int64_t resend_mono_ns;        /* not before then */
    struct forward_token token;
    int64_t read_logged_mono_ns;   /* that a page could not be read */
    struct ing_page_reader reader; /* one job at a time has it */
    char url[2][URL_MAX_BYTES];    /* of forward.v1 and push.v1 */

    struct fg_msg msg; /* from on_ready() to the loop */
    _Atomic bool posted;

    struct fg_metrics *metrics;
    struct fg_metric_def *defs;
    char (*names)[METRIC_NAME_MAX_BYTES];

    pthread_mutex_t lock;             /* of what pages show, below */
    char error[FG_ERR_MSG_MAX_BYTES]; /* "": the last request succeeded */
    int64_t error_wall_ns;
    bool shows_push, shows_denied, shows_unread;
    unsigned shows_running;
};

/* A parcel on its way. */
struct forward_sending {
    struct forward_sending *next;
    struct forward_sender_target *target;
    struct ing_parcel *parcel; /* NULL: the page is being read */
    bool resends;              /* a page; lane is OUTBOX_BACKLOG */
    struct ing_resend from;    /* of the page */
    struct ing_page page;      /* until the parcel has it */
    enum ing_outbox_lane lane;
    int64_t began_mono_ns, sent_mono_ns;
    struct fg_job job;
    bool more, unknown;
    bool in_request;             /* else a job has it, or: */
    bool waits;                  /* for a token */
    bool refetched;              /* the target has refused a token before */
    struct fg_buf authorization; /* the header with the token of the request */
    enum ing_sender_result result;
    struct fg_err err;
    struct fg_client_request request;
    char headers[HEADERS_MAX][HEADER_MAX_BYTES];
    const char *header_list[HEADERS_MAX + 2]; /* with the token's */
};

struct ing_sender {
    struct ing_sender_config config;
    struct fg_loop *loop;
    struct fg_work *work;
    struct fg_client *client;
    struct forward_sender_target *targets;
    unsigned n_targets, n_sendings, n_timers;
    bool resending; /* a page is on its way */
    bool stopping;
    atomic_bool stops; /* the same for jobs */
    sem_t stopped;
};

static void forget_secret(struct fg_buf *secret)
{
    if (secret->ptr != NULL)
        OPENSSL_cleanse(secret->ptr, secret->cap);
    fg_buf_done(secret);
}

static int64_t now_mono(const struct ing_sender *sender)
{
    return fg_mono_ns(sender->config.clock);
}

/* ---- what pages show ---- */

static void show(struct forward_sender_target *target)
{
    (void)pthread_mutex_lock(&target->lock);
    target->shows_push = target->pushes;
    target->shows_denied = target->core.denied;
    target->shows_running = target->core.running;
    (void)pthread_mutex_unlock(&target->lock);
}

static bool is_failure(enum ing_sender_result result)
{
    return result != SENDER_UNASKED && result != SENDER_TAKEN;
}

static void tell(struct forward_sender_target *target, const struct forward_sending *sending)
{
    static const char *const waits[] = {
        [SENDER_UNREAD] = "forwarding waits: what is to be sent cannot be read here",
        [SENDER_BUSY] = "forwarding waits for the target",
        [SENDER_AWAY] = "forwarding waits for the target",
        [SENDER_DENIED] = "forwarding waits: the target refuses our credentials",
    };
    int64_t now_ns = now_mono(target->sender);

    if (sending->result == SENDER_UNASKED)
        return;
    if (sending->result == SENDER_TAKEN) {
        if (target->logged_mono_ns != 0)
            fg_log_info("forwarding goes on", fg_ls("target", target->conf->settings.name));
        target->logged_mono_ns = 0;
        return;
    }
    if (target->logged_mono_ns != 0 && now_ns - target->logged_mono_ns < LOG_NS)
        return;
    target->logged_mono_ns = now_ns;
    fg_log_warn(waits[sending->result], fg_ls("target", target->conf->settings.name),
                fg_ls("err", sending->err.msg));
}

static void show_error(struct forward_sender_target *target, const struct forward_sending *sending)
{
    const char *error = "";

    if (sending->result == SENDER_UNASKED)
        return;
    if (is_failure(sending->result))
        error = sending->err.msg;
    else if (sending->parcel != NULL && sending->parcel->n_denied + sending->parcel->n_limited > 0)
        error = sending->parcel->denied.msg;
    (void)pthread_mutex_lock(&target->lock);
    target->shows_unread = sending->result == SENDER_UNREAD;
    (void)snprintf(target->error, sizeof target->error, "%s", error);
    target->error_wall_ns = error[0] == '\0' ? 0 : fg_wall_ns(target->sender->config.clock);
    (void)pthread_mutex_unlock(&target->lock);
}

static void tell_denied(struct forward_sender_target *target, const struct ing_parcel *parcel)
{
    int64_t now_ns = now_mono(target->sender);

    if (parcel->n_denied == 0 ||
        (target->denied_logged_mono_ns != 0 && now_ns - target->denied_logged_mono_ns < LOG_NS))
        return;
    target->denied_logged_mono_ns = now_ns;
    fg_log_warn("forwarding of a tenant waits: the target refuses it",
                fg_ls("target", target->conf->settings.name), fg_ls("err", parcel->denied.msg));
}

/* ---- the end of a parcel (loop) ---- */

static void pump(struct forward_sender_target *target);
static void build(struct forward_sending *sending);
static void stop_if_idle(struct ing_sender *sender);

static void count(const struct forward_sender_target *target, const struct forward_sending *sending)
{
    static const unsigned retries[] = {
        [SENDER_UNREAD] = FORWARD_RETRIED_UNREAD,
        [SENDER_BUSY] = FORWARD_RETRIED_BUSY,
        [SENDER_AWAY] = FORWARD_RETRIED_AWAY,
        [SENDER_DENIED] = FORWARD_RETRIED_DENIED,
    };
    const struct ing_parcel *parcel = sending->parcel;
    unsigned lane = sending->lane == OUTBOX_FRESH ? FORWARD_FRESH : FORWARD_BACKLOG;

    fg_metric_add(target->metrics, sending->resends ? FORWARD_RESENT : lane,
                  parcel->n_stored + parcel->n_known);
    fg_metric_add(target->metrics, FORWARD_KNOWN, parcel->n_known);
    fg_metric_add(target->metrics, FORWARD_FILTERED, parcel->n_filtered);
    fg_metric_add(target->metrics, FORWARD_RETRIED_DENIED, parcel->n_denied);
    fg_metric_add(target->metrics, FORWARD_RETRIED_BUSY, parcel->n_limited);
    if (is_failure(sending->result))
        fg_metric_add(target->metrics, retries[sending->result], 1);
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

/* The next page may be read, of any target. */
static void finish_resend(const struct forward_sending *sending)
{
    struct ing_sender *sender = sending->target->sender;

    sender->resending = false;
    /* Its tenant is held: others may be, too, and none comes before its turn. */
    if (sending->parcel != NULL && sending->parcel->held_ns > 0)
        sending->target->resend_mono_ns = fg_time_add(now_mono(sender), sending->parcel->held_ns);
    for (unsigned i = 0; i < sender->n_targets; i++)
        sender->targets[i].ready = true;
}

static void pump_all(struct ing_sender *sender)
{
    for (unsigned i = 0; i < sender->n_targets; i++)
        pump(&sender->targets[i]);
}

static void finish(struct forward_sending *sending)
{
    bool resends = sending->resends;
    struct forward_sender_target *target = sending->target;
    struct ing_sender *sender = target->sender;

    ing_sender_core_end(&target->core, sending->lane, sending->result, sending->began_mono_ns,
                        retry_after_ns(sending), now_mono(sender));
    if (sending->parcel != NULL) {
        count(target, sending);
        tell_denied(target, sending->parcel);
    }
    tell(target, sending);
    show_error(target, sending);
    show(target);
    /* Nobody announces profiles that were put back, nor the end of a tenant's hold. */
    target->ready |= is_failure(sending->result) ||
                     ing_outbox_held_ns(sender->config.common.outbox, target->number) != INT64_MAX;
    if (sending->resends)
        finish_resend(sending);
    if (sending->parcel != NULL)
        ing_parcel_end(sending->parcel);
    ing_page_done(&sending->page);
    fg_client_clear(&sending->request);
    forget_secret(&sending->authorization);
    unlink_sending(sending);
    free(sending);
    sender->n_sendings--;
    if (sender->stopping)
        stop_if_idle(sender);
    else if (resends)
        pump_all(sender);
    else
        pump(target);
}

static void finish_with(struct forward_sending *sending, enum ing_sender_result result,
                        const struct fg_err *err)
{
    sending->result = result;
    if (err != NULL)
        sending->err = *err;
    finish(sending);
}

/* ---- the answer ---- */

static enum fg_code run_answer(struct fg_job *job, struct fg_err *err)
{
    struct forward_sending *sending = fg_container(job, struct forward_sending, job);
    const struct fg_client_request *request = &sending->request;
    const struct ing_parcel_answer answer = {
        .came = request->code == FG_OK,
        .status = request->status,
        .body = fg_buf_slice(&request->answer),
        .of_limit = fg_client_header(request, "RateLimit").ptr != NULL,
        .retry_after_ns = retry_after_ns(sending),
    };

    sending->err = request->err; /* replaced where an answer came */
    sending->result = ing_parcel_answer(sending->parcel, &answer, &sending->unknown, &sending->err);
    if (request->code == FG_E_INVALID) /* a file of the settings cannot be read */
        sending->result = SENDER_UNREAD;
    (void)err;
    return FG_OK;
}

/* The target has no forward.v1. If it may be any server, the parcel goes on by push.v1. */
static void on_unknown(struct forward_sending *sending)
{
    if (sending->target->conf->settings.protocol != FORWARD_AUTO) {
        finish(sending);
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
    target->ask_again_mono_ns = fg_time_add(now_mono(target->sender), ASK_AGAIN_NS);
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
        finish(sending);
}

static void submit(struct forward_sending *sending,
                   enum fg_code (*run)(struct fg_job *, struct fg_err *),
                   void (*done)(struct fg_job *))
{
    struct ing_sender *sender = sending->target->sender;

    sending->job = (struct fg_job){.home = sender->loop, .run = run, .done = done};
    /* There is room for a job of each connection of each target. */
    fg_assert(fg_work_submit(sender->work, FG_LANE_BACKGROUND, &sending->job));
}

/* ---- the request (loop) ---- */

static void send_parcel(struct forward_sending *sending);

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
        send_parcel(sending);
        return;
    }
    fg_metric_observe_ns(target->metrics, FORWARD_SECONDS,
                         now_mono(target->sender) - sending->sent_mono_ns);
    submit(sending, run_answer, on_answered);
}

static void add_header(struct forward_sending *sending, size_t *n, const char *name,
                       struct fg_slice value)
{
    (void)snprintf(sending->headers[*n], HEADER_MAX_BYTES, "%s: %.*s", name, FG_S(value));
    sending->header_list[*n] = sending->headers[*n];
    (*n)++;
}

static void put_headers(struct forward_sending *sending)
{
    const struct ing_parcel *parcel = sending->parcel;
    size_t n = 0;

    if (sending->target->conf->uses_oauth2) {
        /* A copy: the target may get another token meanwhile. */
        forget_secret(&sending->authorization);
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

        fg_buf_init(&value, HEADER_MAX_BYTES);
        fg_buf_printf(&value, "Basic %.*s", FG_S(fg_buf_slice(&parcel->login)));
        add_header(sending, &n, "Authorization", fg_buf_slice(&value));
        fg_buf_done(&value);
    }
    if (sending->authorization.len > 0)
        sending->header_list[n++] = (const char *)sending->authorization.ptr;
    sending->header_list[n] = NULL;
}

/* ---- tokens (loop) ---- */

/* Calls each(sending, arg) for all that wait for the token. */
static void end_waits(struct forward_sender_target *target,
                      void (*each)(struct forward_sending *sending, void *arg), void *arg)
{
    struct forward_sending *next;

    target->token.fetching = false;
    for (struct forward_sending *sending = target->sendings; sending != NULL; sending = next) {
        next = sending->next;
        if (!sending->waits)
            continue;
        sending->waits = false;
        each(sending, arg);
    }
}

static void go_on(struct forward_sending *sending, void *arg)
{
    (void)arg;
    send_parcel(sending);
}

/* Why there is no token. */
struct token_failure {
    enum ing_sender_result result;
    struct fg_err err;
};

static void give_up(struct forward_sending *sending, void *arg)
{
    const struct token_failure *failure = arg;

    finish_with(sending, failure->result, &failure->err);
}

static void fail_token(struct forward_sender_target *target, enum ing_sender_result result,
                       const struct fg_err *err)
{
    struct token_failure failure = {result, *err};

    fg_metric_add(target->metrics, FORWARD_TOKENS_FAILED, 1);
    (void)fg_wrap(&failure.err, "token of OAuth 2");
    end_waits(target, give_up, &failure);
}

static void on_token(struct fg_client_request *request)
{
    struct forward_token *token = fg_container(request, struct forward_token, request);
    struct forward_sender_target *target = fg_container(token, struct forward_sender_target, token);
    int64_t lifetime_ns = 0;
    struct fg_err err = request->err;
    enum fg_code code = request->code;

    token->in_request = false;
    forget_secret(&token->login);
    forget_secret(&token->header);
    fg_buf_init(&token->header, SIZE_MAX);
    if (code == FG_OK)
        code = ing_oauth2_answer(request->status, fg_buf_slice(&request->answer), &token->header,
                                 &lifetime_ns, &err);
    if (request->answer.ptr != NULL)
        OPENSSL_cleanse(request->answer.ptr, request->answer.cap);
    fg_client_clear(request);
    if (code != FG_OK) {
        fail_token(target, code == FG_E_DENIED ? SENDER_DENIED : SENDER_AWAY, &err);
        return;
    }
    fg_metric_add(target->metrics, FORWARD_TOKENS, 1);
    /* A tenth before its end, so that none expires on its way. */
    token->until_mono_ns = fg_time_add(now_mono(target->sender), lifetime_ns / 10 * 9);
    end_waits(target, go_on, NULL);
}

static enum fg_code run_secret(struct fg_job *job, struct fg_err *err)
{
    struct forward_token *token = fg_container(job, struct forward_token, job);
    const struct forward_sender_target *target =
        fg_container(token, struct forward_sender_target, token);

    return ing_oauth2_authorization(&target->conf->oauth2, &token->login, err);
}

static void on_secret(struct fg_job *job)
{
    struct forward_token *token = fg_container(job, struct forward_token, job);
    struct forward_sender_target *target = fg_container(token, struct forward_sender_target, token);
    const struct ing_target_settings *settings = &target->conf->settings;
    struct token_failure stopped = {SENDER_UNASKED, {.code = FG_OK}};

    if (target->sender->stopping) {
        end_waits(target, give_up, &stopped);
        return;
    }
    if (job->code != FG_OK) {
        fail_token(target, SENDER_UNREAD, &job->err);
        return;
    }
    token->headers[0] = "Accept: application/json";
    token->headers[1] = "Content-Type: application/x-www-form-urlencoded";
    token->headers[2] = (const char *)token->login.ptr;
    token->headers[3] = NULL;
    token->request = (struct fg_client_request){
        .method = "POST",
        .url = target->conf->oauth2.token_url,
        .headers = token->headers,
        .body = fg_buf_slice(&target->conf->oauth2.form),
        .tls = &target->conf->tls,
        .connect_timeout_ns = FG_MIN(CONNECT_TIMEOUT_NS, settings->timeout_ns),
        .timeout_ns = settings->timeout_ns,
        .body_max_bytes = OAUTH2_ANSWER_MAX_BYTES,
        .done = on_token,
    };
    token->in_request = true;
    fg_client_send(target->sender->client, &token->request);
}

static void fetch_token(struct forward_sender_target *target)
{
    struct forward_token *token = &target->token;
    struct ing_sender *sender = target->sender;

    token->fetching = true;
    forget_secret(&token->login);
    fg_buf_init(&token->login, SIZE_MAX);
    token->job = (struct fg_job){.home = sender->loop, .run = run_secret, .done = on_secret};
    /* There is room for one of each target. */
    fg_assert(fg_work_submit(sender->work, FG_LANE_BACKGROUND, &token->job));
}

/* Returns true if the parcel has to wait for a token. */
static bool waits_for_token(struct forward_sending *sending)
{
    struct forward_sender_target *target = sending->target;

    if (!target->conf->uses_oauth2 || now_mono(target->sender) < target->token.until_mono_ns)
        return false;
    sending->waits = true;
    if (!target->token.fetching)
        fetch_token(target);
    return true;
}

/* The sender stops: what waits for a token is given back. */
static void stop_token(struct forward_sender_target *target)
{
    struct token_failure stopped = {SENDER_UNASKED, {.code = FG_OK}};

    if (!target->token.in_request) /* or the job is about to find that we stop */
        return;
    fg_client_cancel(&target->token.request);
    fg_client_clear(&target->token.request);
    target->token.in_request = false;
    end_waits(target, give_up, &stopped);
}

static void send_parcel(struct forward_sending *sending)
{
    struct forward_sender_target *target = sending->target;
    const struct ing_target_settings *settings = &target->conf->settings;
    struct ing_sender *sender = target->sender;

    if (waits_for_token(sending))
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
        .connect_timeout_ns = FG_MIN(CONNECT_TIMEOUT_NS, settings->timeout_ns),
        .timeout_ns = settings->timeout_ns,
        .body_max_bytes = ANSWER_MAX_BYTES,
        .done = on_answer,
    };
    sending->sent_mono_ns = now_mono(sender);
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
        finish_with(sending, SENDER_UNREAD, &job->err);
    else if (sending->target->sender->stopping || !sending->more)
        finish(sending); /* with what the last answer was, if there was one */
    else
        send_parcel(sending);
}

static void build(struct forward_sending *sending)
{
    submit(sending, run_build, on_built);
}

/* ---- spans and pages (loop) ---- */

static struct forward_sending *begin_sending(struct forward_sender_target *target,
                                             enum ing_outbox_lane lane)
{
    struct ing_sender *sender = target->sender;
    struct forward_sending *sending = fg_new(struct forward_sending);

    sending->target = target;
    sending->lane = lane;
    sending->began_mono_ns = now_mono(sender);
    sending->next = target->sendings;
    target->sendings = sending;
    sender->n_sendings++;
    ing_sender_core_begin(&target->core, lane);
    show(target);
    return sending;
}

static void start_parcel(struct forward_sending *sending, struct ing_parcel *parcel)
{
    struct forward_sender_target *target = sending->target;

    sending->parcel = parcel;
    if (target->pushes && target->conf->settings.protocol == FORWARD_AUTO &&
        sending->began_mono_ns >= target->ask_again_mono_ns)
        target->pushes = false;
    parcel->push = target->pushes;
    build(sending);
}

static enum fg_code run_read(struct fg_job *job, struct fg_err *err)
{
    struct forward_sending *sending = fg_container(job, struct forward_sending, job);
    struct ing_sender *sender = sending->target->sender;

    return ing_page_read(&sending->target->reader, sender->config.past, &sending->from,
                         fg_wall_ns(sender->config.clock),
                         fg_time_add(now_mono(sender), PAGE_TIMEOUT_NS), &sender->stops,
                         &sending->page, err);
}

/* The bucket cannot be read: that says nothing about the target. */
static void fail_page(struct forward_sending *sending)
{
    struct forward_sender_target *target = sending->target;
    int64_t now_ns = now_mono(target->sender);

    fg_metric_add(target->metrics, FORWARD_RESEND_FAILED, 1);
    if (target->read_logged_mono_ns == 0 || now_ns - target->read_logged_mono_ns >= LOG_NS) {
        target->read_logged_mono_ns = now_ns;
        fg_log_warn("profiles that are to be resent cannot be read, will retry",
                    fg_ls("target", target->conf->settings.name),
                    fg_ls("err", sending->job.err.msg));
    }
    target->resend_mono_ns = fg_time_add(now_ns, PAGE_AGAIN_NS);
    finish(sending);
}

static void tell_resend(const struct forward_sending *sending)
{
    const struct ing_resend *after = &sending->page.after;

    if (after->state == RESEND_DONE)
        fg_log_info("everything was resent", fg_ls("target", sending->target->conf->settings.name),
                    fg_lu("profiles", after->sent), fg_lu("known", after->known),
                    fg_lu("refused", after->refused), fg_lu("lost", after->lost));
}

static void on_read(struct fg_job *job)
{
    struct forward_sending *sending = fg_container(job, struct forward_sending, job);
    struct forward_sender_target *target = sending->target;
    struct ing_sender *sender = target->sender;

    if (sender->stopping) {
        finish(sending);
        return;
    }
    if (job->code != FG_OK) {
        fail_page(sending);
        return;
    }
    fg_metric_add(target->metrics, FORWARD_RESEND_LOST,
                  sending->page.after.lost - sending->page.before.lost);
    if (sending->page.n > 0) {
        start_parcel(sending,
                     ing_parcel_create_of_page(&sender->config.common, target->conf,
                                               target->cache_key, target->number, &sending->page));
        return;
    }
    ing_outbox_note_resend(sender->config.common.outbox, target->number, &sending->page.before,
                           &sending->page.after);
    tell_resend(sending);
    finish(sending);
}

/* Reads the next page of a resend. Returns false if there is none, or it is not its turn. */
static bool resend(struct forward_sender_target *target)
{
    struct ing_sender *sender = target->sender;
    struct forward_sending *sending;
    struct ing_resend from;

    if (sender->config.past == NULL || sender->resending ||
        now_mono(sender) < target->resend_mono_ns ||
        !ing_outbox_get_resending(sender->config.common.outbox, target->number, &from))
        return false;
    sender->resending = true;
    sending = begin_sending(target, OUTBOX_BACKLOG);
    sending->resends = true;
    sending->from = from;
    submit(sending, run_read, on_read);
    return true;
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
    int64_t wait_ns = FG_MAX(mono_ns - now_mono(target->sender), INT64_C(0));

    /* A millisecond more: a timer that comes early would come again at once. */
    fg_assert(uv_timer_start(&target->timer, on_timer, (uint64_t)(wait_ns / FG_MS_NS) + 1, 0) == 0);
}

/* Nothing is there to be taken, until on_ready(), or until a tenant is held no longer. */
static void wait_for_more(struct forward_sender_target *target)
{
    int64_t held_ns = ing_outbox_held_ns(target->sender->config.common.outbox, target->number);

    target->ready = false;
    wake_at(target, fg_time_add(now_mono(target->sender), FG_MIN(held_ns, LOOK_NS)));
}

/* Takes and sends what may be sent now. */
static void pump(struct forward_sender_target *target)
{
    struct ing_outbox_span span;
    enum ing_outbox_lane lane;
    int64_t when_ns;

    while (target->ready && !target->sender->stopping) {
        int64_t now_ns = now_mono(target->sender);

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
            start_parcel(begin_sending(target, lane),
                         ing_parcel_create(&target->sender->config.common, target->conf,
                                           target->cache_key, &span));
        else if (!resend(target))
            wait_for_more(target);
    }
}

static void on_ready_msg(struct fg_msg *msg)
{
    struct forward_sender_target *target = fg_container(msg, struct forward_sender_target, msg);

    atomic_store(&target->posted, false);
    if (!target->ready)
        target->due_mono_ns =
            fg_time_add(now_mono(target->sender), target->sender->config.collect_ns);
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

/* ---- metrics ---- */

static void set_resend(const struct forward_sender_target *target, const struct ing_resend *resend)
{
    bool goes_on = resend->state == RESEND_COMMITS || resend->state == RESEND_READS;
    int64_t at_ns = FG_MAX(resend->time_ns, resend->from_ns);

    fg_metric_set(target->metrics, FORWARD_RESENDING, goes_on);
    fg_metric_set(target->metrics, FORWARD_RESEND_TIME,
                  goes_on && at_ns > 0 ? at_ns / FG_SECOND_NS : 0);
}

static void on_scrape(void *arg)
{
    struct ing_sender *sender = arg;
    static const unsigned dropped[OUTBOX_REASONS] = {
        [OUTBOX_BY_FULL] = FORWARD_DROPPED_FULL,
        [OUTBOX_BY_REFUSED] = FORWARD_DROPPED_REFUSED,
        [OUTBOX_BY_EXPIRED] = FORWARD_DROPPED_EXPIRED,
        [OUTBOX_BY_GONE] = FORWARD_DROPPED_GONE,
        [OUTBOX_BY_OPERATOR] = FORWARD_DROPPED_OPERATOR,
    };
    int64_t now_ns = fg_wall_ns(sender->config.clock);

    for (unsigned i = 0; i < sender->n_targets; i++) {
        struct forward_sender_target *target = &sender->targets[i];
        struct ing_outbox_numbers numbers =
            ing_outbox_numbers(sender->config.common.outbox, target->number);

        fg_metric_set(target->metrics, FORWARD_PENDING, (int64_t)numbers.pending_profiles);
        fg_metric_set(target->metrics, FORWARD_PENDING_BYTES, (int64_t)numbers.pending_bytes);
        fg_metric_set(target->metrics, FORWARD_QUEUE_MAX, (int64_t)numbers.queue_max_bytes);
        fg_metric_set_fraction(
            target->metrics, FORWARD_OLDEST,
            numbers.oldest_wall_ns == 0 ? 0 : FG_MAX(now_ns - numbers.oldest_wall_ns, INT64_C(0)));
        fg_metric_set(target->metrics, FORWARD_HELD, numbers.held_tenants);
        fg_metric_set(target->metrics, FORWARD_DEAD, (int64_t)numbers.dead);
        for (unsigned reason = 0; reason < OUTBOX_REASONS; reason++)
            fg_metric_set_total(target->metrics, dropped[reason], numbers.dropped[reason]);
        set_resend(target, &numbers.resend);
        (void)pthread_mutex_lock(&target->lock);
        fg_metric_set(target->metrics, FORWARD_PAUSED, numbers.paused || target->shows_denied);
        fg_metric_set(target->metrics, FORWARD_UNREAD, target->shows_unread);
        fg_metric_set(target->metrics, FORWARD_CONNECTIONS, target->shows_running);
        (void)pthread_mutex_unlock(&target->lock);
    }
}

/* The rows of the table, with the target's name. */
static void register_metrics(struct forward_sender_target *target, struct fg_registry *registry)
{
    struct fg_buf escaped;
    const char *format;

    fg_buf_init(&escaped, METRIC_NAME_MAX_BYTES);
    fg_buf_json(&escaped, fg_cstr(target->conf->settings.name));
    target->defs = fg_calloc(FG_COUNT(forward_metrics), sizeof *target->defs);
    target->names = fg_calloc(FG_COUNT(forward_metrics), sizeof *target->names);
    for (size_t i = 0; i < FG_COUNT(forward_metrics); i++) {
        size_t at = fg_slice_search(fg_cstr(forward_metrics[i].name), "%s");

        format = forward_metrics[i].name;
        (void)snprintf(target->names[i], sizeof target->names[i], "%.*s%.*s%s", (int)at, format,
                       FG_S(fg_buf_slice(&escaped)), format + at + 2);
        target->defs[i] = forward_metrics[i];
        target->defs[i].name = target->names[i];
    }
    fg_buf_done(&escaped);
    target->metrics = fg_metrics_register(registry, target->defs, FG_COUNT(forward_metrics));
}

/* ---- pages ---- */

/* Describes the resend in progress, or the last one. */
static void write_resend(const struct ing_resend *resend, struct fg_json_writer *out)
{
    static const char *const states[] = {
        [RESEND_COMMITS] = "committing", [RESEND_READS] = "sending", [RESEND_DONE] = "done"};

    if (resend->state == RESEND_NONE)
        return;
    fg_json_begin_object(out, "resend");
    fg_json_put_cstr(out, "state", states[resend->state]);
    fg_json_put_i64(out, "fromMs", resend->from_ns / FG_MS_NS);
    fg_json_put_i64(out, "untilMs", resend->until_ns / FG_MS_NS);
    fg_json_put_i64(out, "begunMs", resend->begun_wall_ns / FG_MS_NS);
    if (resend->state == RESEND_DONE)
        fg_json_put_i64(out, "endedMs", resend->ended_wall_ns / FG_MS_NS);
    if (resend->state == RESEND_READS && resend->tenant[0] != '\0') {
        fg_json_put_cstr(out, "tenant", resend->tenant);
        fg_json_put_i64(out, "atMs", FG_MAX(resend->time_ns, resend->from_ns) / FG_MS_NS);
    }
    fg_json_put_u64(out, "sentProfiles", resend->sent);
    fg_json_put_u64(out, "knownProfiles", resend->known);
    fg_json_put_u64(out, "filteredProfiles", resend->filtered);
    fg_json_put_u64(out, "refusedProfiles", resend->refused);
    fg_json_put_u64(out, "lostProfiles", resend->lost);
    fg_json_put_bool(out, "incomplete", resend->incomplete);
    fg_json_end(out);
}

static void write_numbers(const struct ing_outbox_numbers *numbers, int64_t now_ns,
                          struct fg_json_writer *out)
{
    int64_t age_ns =
        numbers->oldest_wall_ns == 0 ? 0 : FG_MAX(now_ns - numbers->oldest_wall_ns, INT64_C(0));

    fg_json_put_u64(out, "pendingProfiles", numbers->pending_profiles);
    fg_json_put_u64(out, "pendingBytes", numbers->pending_bytes);
    fg_json_put_u64(out, "queueMaxBytes", numbers->queue_max_bytes);
    fg_json_put_fixed(out, "oldestPendingSeconds", (double)age_ns / 1e9, 1);
    fg_json_put_u64(out, "deadProfiles", numbers->dead);
    fg_json_put_u64(out, "heldTenants", numbers->held_tenants);
    fg_json_put_u64(out, "refusedPushes", numbers->refused_pushes);
    fg_json_begin_object(out, "droppedProfiles");
    for (unsigned i = 0; i < OUTBOX_REASONS; i++)
        fg_json_put_u64(out, ing_outbox_reasons[i], numbers->dropped[i]);
    fg_json_end(out);
    write_resend(&numbers->resend, out);
}

bool ing_sender_can_resend(const struct ing_sender *sender)
{
    return sender->config.past != NULL;
}

bool ing_sender_is_denied(struct ing_sender *sender, unsigned target)
{
    bool denied;

    (void)pthread_mutex_lock(&sender->targets[target].lock);
    denied = sender->targets[target].shows_denied;
    (void)pthread_mutex_unlock(&sender->targets[target].lock);
    return denied;
}

bool ing_sender_is_unread(struct ing_sender *sender, unsigned target)
{
    bool unread;

    (void)pthread_mutex_lock(&sender->targets[target].lock);
    unread = sender->targets[target].shows_unread;
    (void)pthread_mutex_unlock(&sender->targets[target].lock);
    return unread;
}

/* In a word: what comes first of what keeps profiles from being sent. Locked. */
static const char *state_of(const struct forward_sender_target *target, bool paused)
{
    if (paused)
        return "paused";
    if (target->shows_denied)
        return "denied";
    return target->error[0] == '\0' ? "ok" : "retrying";
}

static void write_state(struct forward_sender_target *target, bool paused,
                        struct fg_json_writer *out)
{
    (void)pthread_mutex_lock(&target->lock);
    fg_json_put_cstr(out, "state", state_of(target, paused));
    fg_json_put_cstr(out, "protocol", target->shows_push ? "push" : "flamegrid");
    fg_json_put_u64(out, "connections", target->shows_running);
    fg_json_put_cstr(out, "error", target->error);
    if (target->error_wall_ns != 0)
        fg_json_put_i64(out, "errorTimeMs", target->error_wall_ns / FG_MS_NS);
    (void)pthread_mutex_unlock(&target->lock);
}

void ing_sender_write(struct ing_sender *sender, struct fg_json_writer *out)
{
    int64_t now_ns = fg_wall_ns(sender->config.clock);

    for (unsigned i = 0; i < sender->n_targets; i++) {
        struct forward_sender_target *target = &sender->targets[i];
        const struct ing_outbox_numbers numbers =
            ing_outbox_numbers(sender->config.common.outbox, target->number);
        struct fg_buf url;

        fg_json_begin_object(out, NULL);
        fg_json_put_cstr(out, "name", target->conf->settings.name);
        fg_buf_init(&url, URL_MAX_BYTES);
        fg_client_show_url(target->conf->settings.url, &url);
        fg_json_put_text(out, "url", fg_buf_slice(&url));
        fg_buf_done(&url);
        write_state(target, numbers.paused, out);
        write_numbers(&numbers, now_ns, out);
        /* Acknowledged ones: the outbox also counts those done that selector and rules left out. */
        fg_json_put_u64(out, "sentProfiles",
                        fg_metric_get(target->metrics, FORWARD_FRESH) +
                            fg_metric_get(target->metrics, FORWARD_BACKLOG) +
                            fg_metric_get(target->metrics, FORWARD_RESENT));
        fg_json_end(out);
    }
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
    target->cache_key = fg_mix64(fg_hash64(fg_cstr(conf->settings.name)));
    target->pushes = conf->settings.protocol == FORWARD_PUSH;
    target->ask_again_mono_ns = INT64_MAX;
    (void)snprintf(target->url[0], URL_MAX_BYTES, "%.*s/forward.v1.ForwardService/Push", FG_S(url));
    (void)snprintf(target->url[1], URL_MAX_BYTES, "%.*s/push.v1.PusherService/Push", FG_S(url));
    ing_sender_core_init(&target->core,
                         &(struct ing_sender_core_config){
                             .connections = (unsigned)conf->settings.connections,
                             .fresh_share = conf->settings.fresh_share,
                             .rate_max_bytes = conf->settings.rate_max_bytes,
                         },
                         target->cache_key ^ (uint64_t)fg_mono_ns(fg_clock_real()));
    (void)pthread_mutex_init(&target->lock, NULL);
    register_metrics(target, sender->config.registry);
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
    fg_registry_on_scrape(config->registry, on_scrape, sender);
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
            finish_with(sending, SENDER_AWAY, NULL);
        }
        stop_token(&sender->targets[i]);
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

void ing_sender_destroy(struct ing_sender *sender)
{
    if (sender == NULL)
        return;
    fg_registry_off_scrape(sender->config.registry, sender);
    for (unsigned i = 0; i < sender->n_targets; i++) {
        struct forward_sender_target *target = &sender->targets[i];

        fg_metrics_unregister(sender->config.registry, target->metrics);
        forget_secret(&target->token.header);
        forget_secret(&target->token.login);
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
