#include "ingester/forward/sender_core.h"

#include "common/base/hash.h"

#include <math.h>

static const int64_t PAUSE_MIN_NS = FG_SECOND_NS / 5, PAUSE_MAX_NS = 30 * FG_SECOND_NS;
static const int64_t DENIED_PAUSE_NS = FG_MINUTE_NS;
static const int64_t UNREAD_PAUSE_NS = 5 * FG_SECOND_NS;
/* A target cannot make us wait longer than this: its clock or its arithmetic may be wrong. */
static const int64_t RETRY_AFTER_MAX_NS = 10 * FG_MINUTE_NS;

/* A response is slow if it takes this much longer than SLOW_FACTOR times the fastest one, which is
 * measured again after FASTEST_FOR_NS. */
static const int64_t SLOW_NS = FG_SECOND_NS / 20, FASTEST_FOR_NS = FG_MINUTE_NS;
enum { SLOW_FACTOR = 2 };

void ing_sender_core_init(struct ing_sender_core *core, const struct ing_sender_core_config *config,
                          uint64_t seed)
{
    *core = (struct ing_sender_core){.config = *config, .random = seed, .allowed = 1};
}

bool ing_sender_core_may_begin(const struct ing_sender_core *core, int64_t now_mono_ns,
                               int64_t *ret_mono_ns)
{
    /* After a failure a single request finds out whether it is over. */
    unsigned most = core->failures > 0 ? 1 : (unsigned)core->allowed;

    *ret_mono_ns = core->running >= most ? INT64_MAX : core->not_before_mono_ns;
    return core->running < most && now_mono_ns >= core->not_before_mono_ns;
}

enum ing_outbox_lane ing_sender_core_lane(const struct ing_sender_core *core)
{
    double share = core->config.fresh_share * floor(core->allowed);
    double drawn = (double)(core->random >> 11) * 0x1p-53;

    /* The part of a share beyond whole connections is a chance: rounded up, a share of 0.9 of
     * four connections would leave none to the backlog. */
    return (double)core->running_fresh + drawn < share ? OUTBOX_FRESH : OUTBOX_BACKLOG;
}

static double draw(struct ing_sender_core *core)
{
    core->random = fg_mix64(core->random + UINT64_C(0x9e3779b97f4a7c15));
    return (double)(core->random >> 11) * 0x1p-53;
}

void ing_sender_core_begin(struct ing_sender_core *core, enum ing_outbox_lane lane)
{
    core->running++;
    core->running_fresh += lane == OUTBOX_FRESH;
    (void)draw(core); /* for the next lane */
}

void ing_sender_core_sent(struct ing_sender_core *core, uint64_t bytes, int64_t now_mono_ns)
{
    double seconds;

    if (core->config.rate_max_bytes == 0)
        return;
    seconds = (double)bytes / (double)core->config.rate_max_bytes;
    core->not_before_mono_ns = fg_time_add(FG_MAX(core->not_before_mono_ns, now_mono_ns),
                                           (int64_t)(FG_MIN(seconds, 3600.0) * 1e9));
}

static void pause_until(struct ing_sender_core *core, int64_t until_mono_ns)
{
    core->not_before_mono_ns = FG_MAX(core->not_before_mono_ns, until_mono_ns);
}

/* Requests of the backlog are of about one size, so their times can be compared. */
static bool is_slow(struct ing_sender_core *core, int64_t took_ns, int64_t now_mono_ns)
{
    if (core->fastest_ns == 0 || took_ns <= core->fastest_ns ||
        now_mono_ns - core->fastest_mono_ns > FASTEST_FOR_NS) {
        core->fastest_ns = took_ns;
        core->fastest_mono_ns = now_mono_ns;
    }
    return took_ns > SLOW_FACTOR * core->fastest_ns + SLOW_NS;
}

static void take_good(struct ing_sender_core *core, enum ing_outbox_lane lane, int64_t took_ns,
                      int64_t now_mono_ns)
{
    core->failures = 0;
    if (lane == OUTBOX_BACKLOG && took_ns > 0 && is_slow(core, took_ns, now_mono_ns))
        core->allowed = FG_MAX(core->allowed * 3 / 4, 1.0);
    else
        core->allowed = FG_MIN(core->allowed + 1 / core->allowed, (double)core->config.connections);
}

void ing_sender_core_end(struct ing_sender_core *core, enum ing_outbox_lane lane,
                         const struct ing_sender_core_outcome *outcome, int64_t now_mono_ns)
{
    enum ing_sender_result result = outcome->result;
    /* As long as the target asks for, if it does, and a drawn part of our own, so that senders do
     * not come back together. */
    int64_t pause_ns = result == SENDER_DENIED
                           ? DENIED_PAUSE_NS
                           : FG_MIN(outcome->retry_after_ns, RETRY_AFTER_MAX_NS);
    int64_t most_ns, drawn_ns;

    fg_assert(core->running > 0 && (lane != OUTBOX_FRESH || core->running_fresh > 0));
    core->running--;
    core->running_fresh -= lane == OUTBOX_FRESH;
    if (result == SENDER_UNREAD)
        pause_until(core, fg_time_add(now_mono_ns, UNREAD_PAUSE_NS));
    if (result == SENDER_UNASKED || result == SENDER_UNREAD)
        return;
    core->denied = result == SENDER_DENIED;
    if (result == SENDER_TAKEN) {
        take_good(core, lane, outcome->took_ns, now_mono_ns);
        return;
    }
    /* Requests that were under way together fail together: one fault, one step back. What each of
     * them asks for holds all the same. */
    if (outcome->began_mono_ns >= core->failed_mono_ns) {
        core->failures++;
        core->failed_mono_ns = now_mono_ns;
        core->allowed = FG_MAX(core->allowed / 2, 1.0);
        most_ns = FG_MIN(PAUSE_MIN_NS << FG_MIN(core->failures - 1, 10U), PAUSE_MAX_NS);
        drawn_ns = (int64_t)(draw(core) * (double)most_ns);
        pause_ns += FG_MAX(drawn_ns, PAUSE_MIN_NS / 2);
    }
    pause_until(core, fg_time_add(now_mono_ns, pause_ns));
}
