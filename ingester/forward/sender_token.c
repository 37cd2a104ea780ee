#include "common/base/time.h"
#include "ingester/forward/sender_impl.h"

#include <openssl/crypto.h>

void ing_sender_forget_secret(struct fg_buf *secret)
{
    if (secret->ptr != NULL)
        OPENSSL_cleanse(secret->ptr, secret->cap);
    fg_buf_done(secret);
}

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
    ing_sender_send(sending);
}

/* Why there is no token. */
struct token_failure {
    enum ing_sender_result result;
    struct fg_err err;
};

static void give_up(struct forward_sending *sending, void *arg)
{
    const struct token_failure *failure = arg;

    ing_sender_finish_with(sending, failure->result, &failure->err);
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
    enum ing_sender_result failure =
        ing_sender_is_own_fault(request->code) ? SENDER_UNREAD : SENDER_AWAY;
    int64_t lifetime_ns = 0;
    struct fg_err err = request->err;
    enum fg_code code = request->code;

    token->in_request = false;
    ing_sender_forget_secret(&token->login);
    ing_sender_forget_secret(&token->header);
    fg_buf_init(&token->header, SIZE_MAX);
    if (code == FG_OK)
        code = ing_oauth2_answer(request->status, fg_buf_slice(&request->answer), &token->header,
                                 &lifetime_ns, &err);
    if (request->answer.ptr != NULL)
        OPENSSL_cleanse(request->answer.ptr, request->answer.cap);
    fg_client_clear(request);
    if (code != FG_OK) {
        fail_token(target, code == FG_E_DENIED ? SENDER_DENIED : failure, &err);
        return;
    }
    fg_metric_add(target->metrics, FORWARD_TOKENS, 1);
    /* A tenth before its end, so that none expires on its way. */
    token->until_mono_ns = fg_time_add(ing_sender_now(target->sender), lifetime_ns / 10 * 9);
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
        .connect_timeout_ns = FG_MIN(SENDER_CONNECT_TIMEOUT_NS, settings->timeout_ns),
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
    ing_sender_forget_secret(&token->login);
    fg_buf_init(&token->login, SIZE_MAX);
    token->job = (struct fg_job){.home = sender->loop, .run = run_secret, .done = on_secret};
    /* There is room for one of each target. */
    fg_assert(fg_work_submit(sender->work, FG_LANE_BACKGROUND, &token->job));
}

/* Returns true if the parcel has to wait for a token. */
bool ing_sender_waits_for_token(struct forward_sending *sending)
{
    struct forward_sender_target *target = sending->target;

    if (!target->conf->uses_oauth2 || ing_sender_now(target->sender) < target->token.until_mono_ns)
        return false;
    sending->waits = true;
    if (!target->token.fetching)
        fetch_token(target);
    return true;
}

/* The sender stops: what waits for a token is given back. */
void ing_sender_stop_token(struct forward_sender_target *target)
{
    struct token_failure stopped = {SENDER_UNASKED, {.code = FG_OK}};

    if (!target->token.in_request) /* or the job is about to find that we stop */
        return;
    fg_client_cancel(&target->token.request);
    fg_client_clear(&target->token.request);
    target->token.in_request = false;
    end_waits(target, give_up, &stopped);
}
