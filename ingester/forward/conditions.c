#include "ingester/forward/conditions.h"

#include "common/base/time.h"
#include "common/runtime/ticker.h"

enum { NAMES_MAX_BYTES = 512 }; /* in a sentence; more names are cut */

#define LOOK_NS (10 * FG_SECOND_NS)

/* A target at the time of a look. */
struct forward_seen {
    struct ing_outbox_numbers numbers;
    bool denied, unread;
    int64_t now_wall_ns;
};

static bool is_denied(const struct forward_seen *seen)
{
    return seen->denied;
}

static bool is_filling(const struct forward_seen *seen)
{
    return seen->numbers.pending_bytes > seen->numbers.queue_max_bytes / 5 * 4;
}

static bool is_late(const struct forward_seen *seen)
{
    return seen->numbers.oldest_wall_ns != 0 &&
           seen->now_wall_ns - seen->numbers.oldest_wall_ns > FORWARD_LATE_NS;
}

static bool is_paused(const struct forward_seen *seen)
{
    return seen->numbers.paused;
}

static bool is_unread(const struct forward_seen *seen)
{
    return seen->unread;
}

/* A sentence has the names of the targets before the rest. */
static const struct {
    const char *name;
    bool (*holds)(const struct forward_seen *seen);
    const char *rest;
} rules[] = {
    {"forward_denied", is_denied,
     "refuses the credentials of this server and is asked again every minute: flamegrid forward ls "
     "shows why. It wants a valid password or certificate, or a token with the scope forward, in "
     "the files that forward.targets names"},
    {"forward_filling", is_filling,
     "more than 80 % of queue_max_bytes is pending: once it is full, the oldest profiles are "
     "dropped, or pushes get 429 (when_full). Bring the target back, or raise queue_max_bytes if "
     "the disk has room"},
    {"forward_late", is_late,
     "profiles have waited for more than 10 minutes: flamegrid forward ls shows the error of the "
     "last request"},
    {"forward_paused", is_paused,
     "an operator has paused it, and what comes is pending: flamegrid forward resume ends that"},
    {"forward_unread", is_unread,
     "this server cannot read what it has to send, or a file of credentials that the settings of "
     "the target name, or has no memory for the answers; flamegrid forward ls shows the error"},
};

struct ing_forward_conditions {
    struct ing_forward_conditions_config config;
    struct fg_condition *conditions[FG_COUNT(rules)];
    struct fg_ticker *ticker;
};

void ing_forward_conditions_look(struct ing_forward_conditions *conditions)
{
    const struct ing_forward_conditions_config *config = &conditions->config;
    struct forward_seen seen[OUTBOX_TARGETS_MAX];
    unsigned n = ing_outbox_count(config->outbox);

    for (unsigned i = 0; i < n; i++)
        seen[i] = (struct forward_seen){
            .numbers = ing_outbox_numbers(config->outbox, i),
            .denied = config->denied(config->arg, i),
            .unread = config->unread(config->arg, i),
            .now_wall_ns = fg_wall_ns(config->clock),
        };
    for (size_t rule = 0; rule < FG_COUNT(rules); rule++) {
        struct fg_buf names;

        fg_buf_init(&names, NAMES_MAX_BYTES);
        for (unsigned i = 0; i < n; i++)
            if (rules[rule].holds(&seen[i]))
                fg_buf_printf(&names, "%s%s", names.len > 0 ? ", " : "",
                              ing_outbox_name(config->outbox, i));
        if (names.len > 0)
            fg_condition_raise(conditions->conditions[rule], "%.*s: %s", FG_S(fg_buf_slice(&names)),
                               rules[rule].rest);
        else
            fg_condition_clear(conditions->conditions[rule]);
        fg_buf_done(&names);
    }
}

static void tick(void *arg)
{
    ing_forward_conditions_look(arg);
}

enum fg_code ing_forward_conditions_create(const struct ing_forward_conditions_config *config,
                                           struct ing_forward_conditions **ret_conditions,
                                           struct fg_err *err)
{
    struct ing_forward_conditions *conditions = fg_new(struct ing_forward_conditions);

    conditions->config = *config;
    for (size_t i = 0; i < FG_COUNT(rules); i++)
        conditions->conditions[i] = fg_condition_create(config->conditions, rules[i].name);
    ing_forward_conditions_look(conditions);
    if (fg_ticker_create(
            &(struct fg_ticker_config){
                .name = "forward-look", .period_ns = LOOK_NS, .tick = tick, .arg = conditions},
            &conditions->ticker, err) != FG_OK) {
        ing_forward_conditions_destroy(conditions);
        return err->code;
    }
    *ret_conditions = conditions;
    return FG_OK;
}

void ing_forward_conditions_destroy(struct ing_forward_conditions *conditions)
{
    if (conditions == NULL)
        return;
    fg_ticker_destroy(conditions->ticker);
    for (size_t i = 0; i < FG_COUNT(rules); i++)
        fg_condition_destroy(conditions->conditions[i]);
    free(conditions);
}
