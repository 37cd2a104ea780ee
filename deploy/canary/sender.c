#include "common/runtime/log.h"
#include "deploy/canary/impl.h"

static const int64_t PAUSE_MIN_NS = 250 * FG_MS_NS;
static const int64_t PAUSE_MAX_NS = 5 * FG_SECOND_NS;
static const int64_t LOOK_NS = 50 * FG_MS_NS;          /* between looks for profiles to repeat */
static const int64_t BEHIND_MAX_NS = 5 * FG_SECOND_NS; /* profiles that are later are skipped */

/* A profile that a sender has taken. */
struct canary_sending {
    uint64_t number;
    uint32_t attempts; /* before this one */
};

/* ---- the next profile ---- */

static bool issue(struct canary *canary, struct canary_sending *ret_sending)
{
    int64_t since_ns = canary_now_ns() - canary->start_mono_ns;
    int64_t interval_ns = canary->config.interval_ms * FG_MS_NS;
    uint64_t next = canary_journal_next(canary->journal), number = next;
    uint64_t due = (uint64_t)(since_ns / interval_ns);

    /* Skips ahead if senders are far behind: a backlog would say nothing about the present. */
    if (due > next && (int64_t)(due - next) * interval_ns > BEHIND_MAX_NS)
        number = due;
    if (canary->held || (int64_t)number * interval_ns > since_ns ||
        !canary_journal_issue(canary->journal, number))
        return false;
    fg_metric_add(canary->metrics, CANARY_PUSHED, 1);
    fg_metric_add(canary->metrics, CANARY_SKIPPED, number - next);
    *ret_sending = (struct canary_sending){number, 0};
    return true;
}

/* Takes the next profile. Profiles to repeat come before new ones, so that the number of
 * unacknowledged ones stays small. */
static bool next_sending(struct canary *canary, struct canary_sending *ret_sending)
{
    bool found = false;

    (void)pthread_mutex_lock(&canary->lock);
    while (!canary->stopped && !found) {
        canary_journal_ripen(canary->journal, canary_now_ns());
        found = canary_journal_retry(canary->journal, canary_now_ns(), &ret_sending->number,
                                     &ret_sending->attempts) ||
                issue(canary, ret_sending);
        if (!found)
            canary_wait(canary,
                        canary_now_ns() + FG_MIN(LOOK_NS, canary->config.interval_ms * FG_MS_NS));
    }
    fg_metric_set(canary->metrics, CANARY_PENDING, canary_journal_n_pending(canary->journal));
    (void)pthread_mutex_unlock(&canary->lock);
    return found;
}

/* ---- sending ---- */

/* Posts a profile. FG_OK: it is acknowledged. */
static enum fg_code post(struct canary *canary, struct cli_client *client,
                         const struct canary_journal_profile *profile, uint64_t *ret_retry_after_s,
                         struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    struct fg_buf path, body;
    enum fg_code code;

    fg_buf_init(&path, SIZE_MAX);
    fg_buf_init(&body, SIZE_MAX);
    canary_content_path(profile, canary->run, &path);
    /* The same bytes each time: a repetition has the same id, and counts once. */
    canary_content_write(profile, &body);
    code = cli_client_post(client, (const char *)path.ptr, "application/octet-stream",
                           fg_buf_slice(&body), &reply, err);
    if (code != FG_OK) {
        fg_metric_add(canary->metrics, CANARY_UNANSWERED, 1);
    } else if (reply.status / 100 != 2) {
        fg_metric_add(canary->metrics, CANARY_REFUSED, 1);
        code = cli_client_check(&reply, err);
    }
    *ret_retry_after_s = reply.retry_after_s;
    cli_client_reply_done(&reply);
    fg_buf_done(&body);
    fg_buf_done(&path);
    return code;
}

static void acknowledged(struct canary *canary, const struct canary_sending *sending,
                         int64_t sent_ns)
{
    fg_metric_add(canary->metrics, CANARY_ACKNOWLEDGED, 1);
    fg_metric_observe_ns(canary->metrics, CANARY_PUSH_SECONDS, canary_now_ns() - sent_ns);
    (void)pthread_mutex_lock(&canary->lock);
    if (canary->config.lag_ns == 0)
        canary_journal_settle(canary->journal, sending->number, canary_now_ns());
    else
        canary_journal_settle_later(canary->journal, sending->number,
                                    fg_time_add(canary_now_ns(), canary->config.lag_ns));
    /* For canary_settle(), and for senders if the journal was full. */
    (void)pthread_cond_broadcast(&canary->woken);
    (void)pthread_mutex_unlock(&canary->lock);
}

static void send_one(struct canary *canary, struct cli_client *client,
                     const struct canary_sending *sending)
{
    struct canary_journal_profile profile =
        canary_journal_profile(canary_journal_shape(canary->journal), sending->number);
    int64_t sent_ns = canary_now_ns(), pause_ns;
    uint64_t retry_after_s, left_out;
    struct fg_err err;

    if (post(canary, client, &profile, &retry_after_s, &err) == FG_OK) {
        acknowledged(canary, sending, sent_ns);
        return;
    }
    canary_explain_denied(&err);
    if (canary_may_complain(&canary->not_acknowledged, err.code, &left_out))
        fg_log_warn("profile not acknowledged, will retry", fg_lu("number", sending->number),
                    fg_lu("attempt", sending->attempts + 1), fg_lu("left_out", left_out),
                    fg_ls("err", err.msg));
    pause_ns = FG_MAX(PAUSE_MIN_NS << FG_MIN(sending->attempts, 8u),
                      (int64_t)FG_MIN(retry_after_s, 60u) * FG_SECOND_NS);
    (void)pthread_mutex_lock(&canary->lock);
    canary_journal_postpone(canary->journal, sending->number,
                            canary_now_ns() + FG_MIN(pause_ns, PAUSE_MAX_NS));
    (void)pthread_mutex_unlock(&canary->lock);
}

void *canary_send_loop(void *arg)
{
    struct canary *canary = arg;
    struct canary_sending sending;
    struct cli_client *client;
    struct fg_err err;

    if (cli_client_create(&canary->config.push, &client, &err) != FG_OK)
        return NULL; /* canary_start() has checked the URL */
    while (next_sending(canary, &sending))
        send_one(canary, client, &sending);
    cli_client_destroy(client);
    return NULL;
}
