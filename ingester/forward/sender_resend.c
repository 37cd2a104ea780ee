#include "common/base/time.h"
#include "common/runtime/log.h"
#include "ingester/forward/sender_impl.h"

/* How long a page may take, since a stop waits for it; and how long a resend waits after a page
 * that could not be read. */
static const int64_t PAGE_TIMEOUT_NS = 20 * FG_SECOND_NS, PAGE_AGAIN_NS = 10 * FG_SECOND_NS;

static enum fg_code run_read(struct fg_job *job, struct fg_err *err)
{
    struct forward_sending *sending = fg_container(job, struct forward_sending, job);
    struct ing_sender *sender = sending->target->sender;

    return ing_page_read(&sending->target->reader, sender->config.past, &sending->from,
                         fg_wall_ns(sender->config.clock),
                         fg_time_add(ing_sender_now(sender), PAGE_TIMEOUT_NS), &sender->stops,
                         &sending->page, err);
}

/* The bucket cannot be read: that says nothing about the target. */
static void fail_page(struct forward_sending *sending)
{
    struct forward_sender_target *target = sending->target;
    int64_t now_ns = ing_sender_now(target->sender);

    fg_metric_add(target->metrics, FORWARD_RESEND_FAILED, 1);
    if (target->read_logged_mono_ns == 0 || now_ns - target->read_logged_mono_ns >= SENDER_LOG_NS) {
        target->read_logged_mono_ns = now_ns;
        fg_log_warn("profiles that are to be resent cannot be read, will retry",
                    fg_ls("target", target->conf->settings.name),
                    fg_ls("err", sending->job.err.msg));
    }
    target->resend_mono_ns = fg_time_add(now_ns, PAGE_AGAIN_NS);
    ing_sender_finish(sending);
}

static void tell_done(const struct forward_sending *sending)
{
    const struct ing_resend *after = &sending->page.after;

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
        ing_sender_finish(sending);
        return;
    }
    if (job->code != FG_OK) {
        fail_page(sending);
        return;
    }
    fg_metric_add(target->metrics, FORWARD_RESEND_LOST,
                  sending->page.after.lost - sending->page.before.lost);
    if (sending->page.n > 0) {
        ing_sender_start_parcel(sending, ing_parcel_create_of_page(&sender->config.common,
                                                                   target->conf, &target->peer,
                                                                   target->number, &sending->page));
        return;
    }
    if (ing_outbox_note_resend(sender->config.common.outbox, target->number, &sending->page.before,
                               &sending->page.after))
        tell_done(sending);
    ing_sender_finish(sending);
}

/* Reads the next page of a resend. Returns false if there is none, or it is not its turn. */
bool ing_sender_resend(struct forward_sender_target *target)
{
    struct ing_sender *sender = target->sender;
    struct forward_sending *sending;
    struct ing_resend from;

    if (sender->config.past == NULL || sender->resending ||
        ing_sender_now(sender) < target->resend_mono_ns ||
        !ing_outbox_get_resending(sender->config.common.outbox, target->number, &from))
        return false;
    sender->resending = true;
    sending = ing_sender_begin(target, OUTBOX_BACKLOG);
    sending->resends = true;
    sending->from = from;
    ing_sender_submit(sending, run_read, on_read);
    return true;
}

/* The next page may be read, of any target. */
void ing_sender_finish_resend(const struct forward_sending *sending)
{
    struct ing_sender *sender = sending->target->sender;

    sender->resending = false;
    for (unsigned i = 0; i < sender->n_targets; i++)
        sender->targets[i].ready = true;
}
