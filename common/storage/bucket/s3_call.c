/* Calls to the store: signing, tries, the budget of them, and what an answer means. */
#include "common/base/str.h"
#include "common/storage/bucket/s3_impl.h"

#include <errno.h>

enum {
    CALL_ARENA_BYTES = 2 * 1024 * 1024, /* keys of others and continuation tokens are long */
    BYTES_PER_SECOND = 256 * 1024,      /* the least that a try is given time for */
    RETRIES_MAX = 100,                  /* saved up for a bad moment */
    RETRIES_PER_S = 2,
    BACKOFF_DOUBLINGS = 6,
};

static const double RETRIES_PER_SUCCESS = 0.1; /* so that they add a tenth to the load at most */

static const char UNSIGNED[] = "UNSIGNED-PAYLOAD"; /* it is covered by TLS and Content-MD5 */

static int64_t now_mono_ns(void)
{
    return fg_mono_ns(fg_clock_real());
}

/* ---- the list of calls, and their times ---- */

static void list_add(struct fg_s3 *s3, struct fg_s3_call *call)
{
    call->before = s3->last;
    call->after = NULL;
    if (s3->last != NULL)
        s3->last->after = call;
    else
        s3->first = call;
    s3->last = call;
    s3->n_calls++;
}

static void list_remove(struct fg_s3 *s3, struct fg_s3_call *call)
{
    if (call->before != NULL)
        call->before->after = call->after;
    else
        s3->first = call->after;
    if (call->after != NULL)
        call->after->before = call->before;
    else
        s3->last = call->before;
    s3->n_calls--;
}

static void on_timer(uv_timer_t *timer);

void fg_s3_wake_at(struct fg_s3 *s3, int64_t mono_ns)
{
    int64_t left_ns = mono_ns - now_mono_ns();

    if (mono_ns >= s3->timer_mono_ns)
        return;
    s3->timer_mono_ns = mono_ns;
    fg_assert(uv_timer_start(&s3->timer, on_timer,
                             left_ns <= 0 ? 0 : (uint64_t)(left_ns / FG_MS_NS) + 1, 0) == 0);
}

/* ---- the end of a call ---- */

static void end_call(struct fg_s3_call *call)
{
    /* Out of the list before done(), which may free the call. */
    list_remove(call->s3, call);
    fg_arena_destroy(call->arena);
    call->arena = NULL;
    call->done(call);
}

static enum fg_code fail(struct fg_s3_call *call, enum fg_code code, const char *what)
{
    call->code = fg_fail(&call->err, code, "%s", what);
    return code;
}

/* Ends a call whatever it is doing. If a request was sent, the store may have carried it out. */
static void give_up(struct fg_s3_call *call, enum fg_code code, const char *what)
{
    if (call->state == S3_CALL_RUNNING) {
        fg_client_cancel(&call->http);
        call->unsure |= call->http.sent;
    }
    (void)fail(call, code, what);
    end_call(call);
}

static bool is_late(const struct fg_s3_call *call, int64_t now_ns)
{
    return call->deadline_mono_ns != 0 && now_ns >= call->deadline_mono_ns;
}

/* ---- a try ---- */

/* All that is needed for one try, in the arena: names, keys and headers are bounded. */
static void prepare(struct fg_s3_call *call)
{
    struct fg_s3 *s3 = call->s3;
    const struct fg_aws_request request = {
        .method = call->method,
        .path = call->path,
        .query = call->query,
        .host = s3->host,
        .region = s3->config.region,
        .service = "s3",
        .headers = call->headers,
        .n_headers = call->n_headers,
        .payload_hash = UNSIGNED,
    };

    /* Signed again for each try: a signature is valid for 15 minutes, and keys may have changed.
     * The clock is that of the store if ours is wrong. */
    call->http.headers = fg_aws_request_headers(&request, &s3->auth.credentials.keys,
                                                fg_wall_ns(fg_s3_clock(s3)), call->arena);
    call->http.url = fg_arena_printf(call->arena, "%s%s%s%s", s3->origin, call->path,
                                     call->query[0] == '\0' ? "" : "?", call->query);
    fg_assert(call->http.url != NULL);
    call->generation = s3->auth.credentials.generation;
}

static unsigned status_of(struct fg_slice head)
{
    size_t blank = fg_slice_find(head, ' ');
    uint64_t status = 0;

    if (blank == SIZE_MAX || !fg_parse_u64(fg_slice_sub(head, blank + 1, 3), &status))
        return 0;
    return (unsigned)status;
}

static bool on_chunk(struct fg_client_request *http, struct fg_slice chunk)
{
    struct fg_s3_call *call = fg_container(http, struct fg_s3_call, http);
    struct fg_slice length = fg_client_header(http, "Content-Length");
    uint64_t bytes = 0;

    /* A store that ignores Range would send the whole object, up to gigabytes: ended at the
     * first chunk. */
    call->misfit = call->ranged && status_of(fg_buf_slice(&http->head)) != 206;
    if (call->misfit || call->into == NULL)
        return !call->misfit;
    /* Known before the body: no byte of an object that is too large is read. */
    if (fg_parse_u64(length, &bytes) && bytes > call->into->max_bytes)
        call->into->full = true;
    fg_buf_put(call->into, chunk);
    return !call->into->full;
}

static void on_http_done(struct fg_client_request *http);

/* Leaves a call without keys to those who look for them. If STS has just given none, it is asked
 * again after a pause; a bucket that closes does not ask any more. */
static void wait_for_keys(struct fg_s3_call *call)
{
    struct fg_s3 *s3 = call->s3;

    call->state = S3_CALL_NO_KEYS;
    if (s3->auth.looking)
        return;
    if (s3->closing)
        give_up(call, FG_E_CANCELED, "the bucket is being closed");
    else
        fg_s3_wake_at(s3, s3->auth.credentials.pause_end_mono_ns);
}

static void attempt(struct fg_s3_call *call)
{
    struct fg_s3 *s3 = call->s3;

    if (!fg_s3_auth_ready(s3)) {
        wait_for_keys(call);
        return;
    }
    fg_arena_reset(call->arena);
    prepare(call);
    /* A try before may have left half an answer. */
    if (call->into != NULL)
        fg_buf_clear(call->into);
    call->misfit = false;
    call->tries++;
    call->state = S3_CALL_RUNNING;
    call->sent_mono_ns = now_mono_ns();
    fg_bucket_meter_call(&s3->meter, call->class);
    if (call->tries > 1)
        fg_bucket_meter_retry(&s3->meter);
    call->http.method = call->method;
    call->http.body = call->body;
    call->http.once = call->once;
    call->http.tls = &s3->tls;
    call->http.connect_timeout_ns = s3->config.connect_timeout_ns;

    /* More time for large bodies, at the least speed that is tolerated. The timer keeps the
     * caller's deadline, because missing it is another failure. */
    size_t bytes = call->body.len + (call->into == NULL ? 0 : call->into->max_bytes);

    call->http.timeout_ns =
        call->s3->config.timeout_ns +
        (int64_t)(FG_MIN(bytes, (size_t)INT32_MAX) / BYTES_PER_SECOND) * FG_SECOND_NS;
    call->http.body_max_bytes = S3_ERROR_MAX_BYTES;
    call->http.on_chunk = on_chunk;
    call->http.done = on_http_done;
    fg_client_send(s3->client, &call->http);
}

/* ---- what came of it ---- */

/* FINAL: the answer counts. AGAIN: the store did nothing. AGAIN_UNSURE: it may have. NEW_KEYS:
 * once more, with credentials that were just fetched. */
enum verdict { FINAL, AGAIN, AGAIN_UNSURE, NEW_KEYS };

/* Codes of S3's errors, and of stores that speak like it. */
static const struct {
    const char *code;
    enum fg_code as;
    enum verdict verdict;
} known[] = {
    {"NoSuchBucket", FG_E_INVALID, FINAL},
    {"NoSuchUpload", FG_E_ABORTED, FINAL},
    {"InvalidPart", FG_E_ABORTED, FINAL},
    {"InvalidPartOrder", FG_E_INTERNAL, FINAL},
    {"PreconditionFailed", FG_E_PRECONDITION, FINAL},
    {"NoSuchKey", FG_E_NOT_FOUND, FINAL},
    {"InvalidRange", FG_E_INVALID, FINAL},
    {"NotImplemented", FG_E_UNIMPLEMENTED, FINAL},
    {"EntityTooLarge", FG_E_INVALID, FINAL},
    {"QuotaExceeded", FG_E_NO_SPACE, FINAL},
    {"XMinioStorageFull", FG_E_NO_SPACE, FINAL},
    {"XMinioAdminBucketQuotaExceeded", FG_E_NO_SPACE, FINAL},
    {"InvalidAccessKeyId", FG_E_DENIED, NEW_KEYS},
    {"ExpiredToken", FG_E_DENIED, NEW_KEYS},
    {"InvalidToken", FG_E_DENIED, NEW_KEYS},
    {"TokenRefreshRequired", FG_E_DENIED, NEW_KEYS},
    {"SlowDown", FG_E_UNAVAILABLE, AGAIN},
    {"SlowDownWrite", FG_E_UNAVAILABLE, AGAIN},
    {"SlowDownRead", FG_E_UNAVAILABLE, AGAIN},
    {"RequestTimeout", FG_E_UNAVAILABLE, AGAIN},
    {"RequestTimeTooSkewed", FG_E_UNAVAILABLE, AGAIN}, /* by then we know what time it is */
    {"BadDigest", FG_E_CORRUPT, AGAIN},
    {"IncompleteBody", FG_E_UNAVAILABLE, AGAIN},
    {"ConditionalRequestConflict", FG_E_UNAVAILABLE, AGAIN},
    {"OperationAborted", FG_E_UNAVAILABLE, AGAIN},
    {"TemporaryRedirect", FG_E_UNAVAILABLE, AGAIN},
    {"InternalError", FG_E_UNAVAILABLE, AGAIN_UNSURE},
    {"ServiceUnavailable", FG_E_UNAVAILABLE, AGAIN_UNSURE},
};

static enum fg_code code_of_status(unsigned status, enum verdict *ret_verdict)
{
    *ret_verdict = FINAL;
    switch (status) {
    case 401:
    case 403:
        return FG_E_DENIED;
    case 404:
        return FG_E_NOT_FOUND;
    case 408:
    case 409:
    case 425:
    case 429:
        *ret_verdict = AGAIN;
        return FG_E_UNAVAILABLE;
    case 412:
        return FG_E_PRECONDITION;
    case 501:
        return FG_E_UNIMPLEMENTED;
    case 507:
        return FG_E_NO_SPACE;
    default:
        break;
    }
    if (status < 500)
        return FG_E_INVALID;
    /* A gateway says so of requests that went on to the store. */
    *ret_verdict = AGAIN_UNSURE;
    return FG_E_UNAVAILABLE;
}

/* By the error's code where we know it, else by the status. Sets the call's failure. */
static enum verdict judge_error(struct fg_s3_call *call)
{
    const struct fg_aws_error *error = &call->error;
    enum verdict verdict;
    enum fg_code code = code_of_status(call->status, &verdict);

    for (size_t i = 0; i < FG_COUNT(known); i++)
        if (strcmp(error->code, known[i].code) == 0) {
            code = known[i].as;
            verdict = known[i].verdict;
        }
    call->code = fg_fail(&call->err, code, "%s responded %u%s%s%s%s", call->s3->origin,
                         call->status, error->code[0] == '\0' ? "" : " ", error->code,
                         error->message[0] == '\0' ? "" : ": ", error->message);
    return verdict;
}

static enum verdict judge_success(struct fg_s3_call *call)
{
    call->code = FG_OK;
    if (call->check == NULL || call->check(call, &call->error) == FG_OK)
        return FINAL;
    if (call->error.code[0] != '\0') {
        call->status = 500; /* which it would have been, had it been known in time */
        return judge_error(call);
    }
    (void)fail(call, FG_E_UNAVAILABLE, "the response cannot be read");
    return AGAIN_UNSURE;
}

/* There was no complete answer. */
static enum verdict judge_fault(struct fg_s3_call *call)
{
    const struct fg_client_request *http = &call->http;

    call->code = http->code;
    call->err = http->err;
    if (call->misfit) {
        (void)fail(call, FG_E_UNIMPLEMENTED,
                   "the store ignores the requested range and returns the whole object");
        return FINAL;
    }
    if (call->into != NULL && call->into->full) {
        call->code = fg_fail(&call->err, FG_E_TOO_LARGE, "the object has more than %zu bytes",
                             call->into->max_bytes);
        return FINAL;
    }
    if (http->code != FG_E_UNAVAILABLE && http->code != FG_E_DEADLINE)
        return FINAL;
    call->code = call->err.code = FG_E_UNAVAILABLE; /* it was a try's deadline, not the caller's */
    return http->sent ? AGAIN_UNSURE : AGAIN;
}

static enum verdict judge(struct fg_s3_call *call)
{
    const struct fg_client_request *http = &call->http;

    call->error = (struct fg_aws_error){.code = ""};
    call->status = http->code == FG_OK ? http->status : 0;
    if (http->code != FG_OK)
        return judge_fault(call);
    if (http->status / 100 == 2 || http->status == 304)
        return judge_success(call);
    fg_aws_read_error(fg_buf_slice(&http->answer), &call->error);
    return judge_error(call);
}

/* ---- the next try ---- */

/* Takes a retry from the budget of the process. Retries cost a store that is in trouble as much
 * as first requests do; without a budget they would multiply its load. */
static bool take_retry(struct fg_s3 *s3)
{
    int64_t now_ns = now_mono_ns();

    s3->retries_left += (double)(now_ns - s3->retries_mono_ns) * RETRIES_PER_S / FG_SECOND_NS;
    s3->retries_left = FG_MIN(s3->retries_left, (double)RETRIES_MAX);
    s3->retries_mono_ns = now_ns;
    if (s3->retries_left < 1)
        return false;
    s3->retries_left -= 1;
    return true;
}

/* Full jitter: anything from 0 to the pause, so that calls that failed together do not come back
 * together. */
static int64_t backoff_ns(struct fg_s3_call *call)
{
    int64_t most_ns = call->s3->config.backoff_ns << FG_MIN(call->tries - 1, BACKOFF_DOUBLINGS);
    uint64_t drawn = fg_mix64(fg_hash_seed() + call->s3->draws++);

    return most_ns <= 0 ? 0 : (int64_t)(drawn % (uint64_t)most_ns);
}

static void sleep_or_end(struct fg_s3_call *call)
{
    unsigned tries_max = call->tries_max != 0 ? call->tries_max : call->s3->config.tries_max;
    int64_t wake_ns = now_mono_ns() + backoff_ns(call);

    /* A pause that ends after the deadline is not begun: the caller learns of the failure now. */
    if (call->tries >= tries_max || is_late(call, wake_ns)) {
        end_call(call);
    } else if (!take_retry(call->s3)) {
        (void)fg_wrap(&call->err, "after %u attempts, and the retry budget is exhausted",
                      call->tries);
        end_call(call);
    } else {
        call->state = S3_CALL_ASLEEP;
        call->wake_mono_ns = wake_ns;
        fg_s3_wake_at(call->s3, wake_ns);
    }
}

static void on_http_done(struct fg_client_request *http)
{
    struct fg_s3_call *call = fg_container(http, struct fg_s3_call, http);
    struct fg_s3 *s3 = call->s3;
    /* Notes the store's time, also from refusals: a signature may be refused because our clock is
     * wrong. */
    int64_t wall_ns = call->http.code == FG_OK ? fg_s3_time_of(call, "Date") : 0;

    if (wall_ns > 0)
        fg_cluster_clock_heard(call->s3->config.clock, wall_ns, call->sent_mono_ns);
    switch (judge(call)) {
    case FINAL:
        if (call->status != 0)
            s3->retries_left = FG_MIN(s3->retries_left + RETRIES_PER_SUCCESS, (double)RETRIES_MAX);
        end_call(call);
        break;
    case NEW_KEYS:
        /* Once for each call: keys that are refused again will not get better. */
        if (!call->renewed && fg_aws_credentials_renew(&s3->auth.credentials, call->generation)) {
            call->renewed = true;
            attempt(call);
        } else {
            end_call(call);
        }
        break;
    case AGAIN_UNSURE:
        call->unsure = true;
        sleep_or_end(call);
        break;
    case AGAIN:
        sleep_or_end(call);
        break;
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct fg_s3 *s3 = timer->data;
    struct fg_s3_call *next;
    int64_t now_ns = now_mono_ns();

    s3->timer_mono_ns = INT64_MAX;
    (void)fg_s3_auth_ready(s3); /* so that new keys are there before the old ones end */
    for (struct fg_s3_call *call = s3->first; call != NULL; call = next) {
        next = call->after;
        if (is_late(call, now_ns))
            give_up(call, FG_E_DEADLINE, "not completed before the deadline");
        else if (call->state == S3_CALL_ASLEEP && call->wake_mono_ns <= now_ns)
            attempt(call);
        else if (call->state == S3_CALL_ASLEEP)
            fg_s3_wake_at(s3, call->wake_mono_ns);
        else if (call->state == S3_CALL_NO_KEYS)
            wait_for_keys(call);
    }
    /* Only now: the first walk may have ended some calls, and their done() may have started
     * others. */
    for (struct fg_s3_call *call = s3->first; call != NULL; call = call->after)
        if (call->deadline_mono_ns != 0)
            fg_s3_wake_at(s3, call->deadline_mono_ns);
}

/* ---- outside ---- */

static void on_start(struct fg_msg *msg)
{
    struct fg_s3_call *call = fg_container(msg, struct fg_s3_call, msg);
    struct fg_s3 *s3 = call->s3;

    call->arena = fg_arena_create(CALL_ARENA_BYTES);
    list_add(s3, call);
    /* Cancelled before it was in the list, where fg_s3_calls_cancel() looks for it. */
    if (call->cancelled != NULL && atomic_load(call->cancelled)) {
        give_up(call, FG_E_CANCELED, "cancelled");
    } else if (is_late(call, now_mono_ns())) {
        give_up(call, FG_E_DEADLINE, "not completed before the deadline");
    } else if (s3->n_calls > s3->config.requests_max + s3->config.waiting_max) {
        give_up(call, FG_E_LIMIT, "too many requests are waiting");
    } else {
        if (call->deadline_mono_ns != 0)
            fg_s3_wake_at(s3, call->deadline_mono_ns);
        attempt(call);
    }
}

void fg_s3_call_header(struct fg_s3_call *call, const char *name, const char *value)
{
    fg_assert(call->n_headers < FG_COUNT(call->headers));
    call->headers[call->n_headers++] = (struct fg_aws_header){name, value};
}

void fg_s3_call_start(struct fg_s3_call *call)
{
    call->msg.run = on_start;
    fg_loop_post(call->s3->loop, &call->msg);
}

static void wake_waiter(struct fg_s3_call *call)
{
    fg_assert(sem_post(&call->ended) == 0);
}

void fg_s3_call_begin(struct fg_s3_call *call)
{
    fg_assert(sem_init(&call->ended, 0, 0) == 0);
    call->done = wake_waiter;
    fg_s3_call_start(call);
}

enum fg_code fg_s3_call_wait(struct fg_s3_call *call)
{
    while (sem_wait(&call->ended) != 0)
        fg_assert(errno == EINTR);
    (void)sem_destroy(&call->ended);
    return call->code;
}

enum fg_code fg_s3_call_run(struct fg_s3_call *call)
{
    fg_s3_call_begin(call);
    return fg_s3_call_wait(call);
}

void fg_s3_calls_cancel(struct fg_s3 *s3, uint64_t serial)
{
    struct fg_s3_call *next;

    for (struct fg_s3_call *call = s3->first; call != NULL; call = next) {
        next = call->after;
        if (call->serial == serial)
            give_up(call, FG_E_CANCELED, "cancelled");
    }
}

void fg_s3_calls_with_keys(struct fg_s3 *s3, bool usable)
{
    struct fg_s3_call *next;

    for (struct fg_s3_call *call = s3->first; call != NULL; call = next) {
        next = call->after;
        if (call->state != S3_CALL_NO_KEYS)
            continue;
        if (usable)
            attempt(call);
        else
            give_up(call, s3->auth.credentials.err.code, s3->auth.credentials.err.msg);
    }
}

void fg_s3_call_clear(struct fg_s3_call *call)
{
    fg_client_clear(&call->http);
}

void fg_s3_calls_init(struct fg_s3 *s3)
{
    fg_assert(uv_timer_init(fg_loop_uv(s3->loop), &s3->timer) == 0);
    s3->timer.data = s3;
    s3->timer_mono_ns = INT64_MAX;
    s3->retries_left = RETRIES_MAX;
    s3->retries_mono_ns = now_mono_ns();
}

void fg_s3_calls_done(struct fg_s3 *s3)
{
    fg_assert(s3->n_calls == 0);
    uv_close((uv_handle_t *)&s3->timer, NULL);
}
