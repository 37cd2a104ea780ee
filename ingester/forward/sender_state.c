#include "common/base/str.h"
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "ingester/forward/sender_impl.h"

FG_METRICS_TABLE(forward_metrics, FORWARD_METRICS)

/* ---- metrics ---- */

/* The rows of the table, with the target's name. */
void ing_sender_register_metrics(struct forward_sender_target *target, struct fg_registry *registry)
{
    struct fg_buf escaped;
    const char *format;

    fg_buf_init(&escaped, SENDER_METRIC_NAME_MAX_BYTES);
    /* A quote in the name would end the label of the metric. */
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

bool ing_sender_is_failure(enum ing_sender_result result)
{
    return result != SENDER_UNASKED && result != SENDER_TAKEN;
}

bool ing_sender_is_own_fault(enum fg_code code)
{
    return code == FG_E_INVALID || code == FG_E_LIMIT;
}

void ing_sender_count(const struct forward_sender_target *target,
                      const struct forward_sending *sending)
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
    /* Rounds that the target refuses for one tenant do not fail the parcel, so they are counted
     * apart from its result. */
    fg_metric_add(target->metrics, FORWARD_RETRIED_DENIED, parcel->n_denied);
    fg_metric_add(target->metrics, FORWARD_RETRIED_BUSY, parcel->n_limited);
    if (ing_sender_is_failure(sending->result))
        fg_metric_add(target->metrics, retries[sending->result], 1);
}

static void set_resend(const struct forward_sender_target *target,
                       const struct ing_outbox_numbers *numbers)
{
    const struct ing_resend *resend = &numbers->resend;
    bool goes_on = resend->state == RESEND_COMMITS || resend->state == RESEND_READS;
    int64_t at_ns = FG_MAX(resend->time_ns, resend->from_ns);

    fg_metric_set(target->metrics, FORWARD_RESENDING, goes_on);
    fg_metric_set(target->metrics, FORWARD_RESEND_HELD, numbers->resend_held_tenants);
    fg_metric_set(target->metrics, FORWARD_RESEND_TIME,
                  goes_on && at_ns > 0 ? at_ns / FG_SECOND_NS : 0);
}

void ing_sender_on_scrape(void *arg)
{
    struct ing_sender *sender = arg;
    static const unsigned dropped[OUTBOX_REASONS] = {
        [OUTBOX_BY_FULL] = FORWARD_DROPPED_FULL,
        [OUTBOX_BY_REFUSED] = FORWARD_DROPPED_REFUSED,
        [OUTBOX_BY_EXPIRED] = FORWARD_DROPPED_EXPIRED,
        [OUTBOX_BY_GONE] = FORWARD_DROPPED_GONE,
        [OUTBOX_BY_OPERATOR] = FORWARD_DROPPED_OPERATOR,
        [OUTBOX_BY_DELETED] = FORWARD_DROPPED_DELETED,
    };
    int64_t now_ns = fg_wall_ns(sender->config.clock);

    for (unsigned i = 0; i < sender->n_targets; i++) {
        struct forward_sender_target *target = &sender->targets[i];
        struct ing_outbox_numbers numbers =
            ing_outbox_numbers(sender->config.common.outbox, target->number);

        /* The numbers were taken under the lock of the outbox, which is never held together with
         * ours. */
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
        fg_metric_set_total(target->metrics, FORWARD_REFUSED_PUSHES, numbers.refused_pushes);
        set_resend(target, &numbers);
        (void)pthread_mutex_lock(&target->lock);
        fg_metric_set(target->metrics, FORWARD_PAUSED, numbers.paused || target->shows_denied);
        fg_metric_set(target->metrics, FORWARD_UNREAD, target->shows_unread);
        fg_metric_set(target->metrics, FORWARD_CONNECTIONS, target->shows_running);
        (void)pthread_mutex_unlock(&target->lock);
    }
}

/* ---- the log ---- */

void ing_sender_tell(struct forward_sender_target *target, const struct forward_sending *sending)
{
    static const char *const waits[] = {
        [SENDER_UNREAD] = "forwarding waits: this server is at fault, not the target",
        [SENDER_BUSY] = "forwarding waits for the target",
        [SENDER_AWAY] = "forwarding waits for the target",
        [SENDER_DENIED] = "forwarding waits: the target refuses our credentials",
    };
    int64_t now_ns = ing_sender_now(target->sender);

    /* No answer was needed: that is neither a wait nor its end. */
    if (sending->result == SENDER_UNASKED)
        return;
    if (sending->result == SENDER_TAKEN) {
        if (target->logged_mono_ns != 0)
            fg_log_info("forwarding goes on", fg_ls("target", target->conf->settings.name));
        target->logged_mono_ns = 0;
        return;
    }
    /* A fault that lasts is logged again after SENDER_LOG_NS, with the cause that it has then. */
    if (target->logged_mono_ns != 0 && now_ns - target->logged_mono_ns < SENDER_LOG_NS)
        return;
    target->logged_mono_ns = now_ns;
    fg_log_warn(waits[sending->result], fg_ls("target", target->conf->settings.name),
                fg_ls("err", sending->err.msg));
}

/* logged_mono_ns: of the last such line. */
static void tell_held(const struct forward_sender_target *target, const struct ing_parcel *parcel,
                      const char *message, int64_t *logged_mono_ns)
{
    int64_t now_ns = ing_sender_now(target->sender);

    if (*logged_mono_ns != 0 && now_ns - *logged_mono_ns < SENDER_LOG_NS)
        return;
    *logged_mono_ns = now_ns;
    fg_log_warn(message, fg_lb("tenant", parcel->held_tenant),
                fg_ls("target", target->conf->settings.name), fg_ls("err", parcel->held.msg));
}

void ing_sender_tell_held(struct forward_sender_target *target, const struct ing_parcel *parcel)
{
    if (parcel->n_denied > 0)
        tell_held(target, parcel, "forwarding of a tenant waits: the target refuses it",
                  &target->denied_logged_mono_ns);
    if (parcel->n_limited > 0)
        tell_held(target, parcel,
                  "forwarding of a tenant waits: it is beyond a limit of its own at the target",
                  &target->limited_logged_mono_ns);
}

/* ---- what pages show ---- */

/* Copies what scrapes and pages show: the core is the loop's alone, and they run on other
 * threads. */
void ing_sender_show(struct forward_sender_target *target)
{
    (void)pthread_mutex_lock(&target->lock);
    target->shows_push = target->pushes;
    target->shows_denied = target->core.denied;
    target->shows_running = target->core.running;
    (void)pthread_mutex_unlock(&target->lock);
}

void ing_sender_show_error(struct forward_sender_target *target,
                           const struct forward_sending *sending)
{
    const char *error = "";

    if (sending->result == SENDER_UNASKED)
        return;
    if (ing_sender_is_failure(sending->result))
        error = sending->err.msg;
    /* The parcel has succeeded, but the target refuses or limits one of its tenants. */
    else if (sending->parcel != NULL && sending->parcel->n_denied + sending->parcel->n_limited > 0)
        error = sending->parcel->held.msg;
    (void)pthread_mutex_lock(&target->lock);
    /* Apart from other failures: the fault is here, and an operator does not have to look at the
     * target. */
    target->shows_unread = sending->result == SENDER_UNREAD;
    (void)snprintf(target->error, sizeof target->error, "%s", error);
    target->error_wall_ns = error[0] == '\0' ? 0 : fg_wall_ns(target->sender->config.clock);
    (void)pthread_mutex_unlock(&target->lock);
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

/* Describes the resend in progress, or the last one. */
static void write_resend(const struct ing_outbox_numbers *numbers, struct fg_json_writer *out)
{
    const struct ing_resend *resend = &numbers->resend;
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
        fg_json_put_u64(out, "heldTenants", numbers->resend_held_tenants);
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
    write_resend(numbers, out);
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
        fg_buf_init(&url, SENDER_URL_MAX_BYTES);
        /* Without user and password, which the URL may have. */
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
