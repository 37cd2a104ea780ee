#include "common/program/program.h"
#include "common/runtime/stop.h"

static const int64_t AWAIT_ATTEMPT_NS = 30 * FG_SECOND_NS;
static const int64_t AWAIT_PAUSE_MIN_NS = FG_SECOND_NS / 4, AWAIT_PAUSE_MAX_NS = 10 * FG_SECOND_NS;

enum fg_code fg_program_await(struct fg_program *program, enum fg_program_awaited awaited,
                              enum fg_code (*attempt)(void *arg, int64_t deadline_mono_ns,
                                                      struct fg_err *err),
                              void *arg, struct fg_err *err)
{
    static const struct {
        const char *condition, *what;
    } names[] = {[FG_PROGRAM_BUCKET] = {"bucket_away", "the bucket"},
                 [FG_PROGRAM_KEYS] = {"keys_away", "what encrypts the key of the head"},
                 [FG_PROGRAM_DISK] = {"disk_away", "the disk of the head"}};
    const char *what = names[awaited].what;
    struct fg_condition *away = fg_condition_create(program->conditions, names[awaited].condition);
    int64_t pause_ns = AWAIT_PAUSE_MIN_NS;
    enum fg_code code;

    for (;;) {
        code = attempt(arg, fg_mono_ns(program->clock) + AWAIT_ATTEMPT_NS, err);
        /* Everything else (wrong credentials, a store that fails the startup check) does not
         * pass by waiting. */
        if (code != FG_E_UNAVAILABLE && code != FG_E_DEADLINE)
            break;
        fg_condition_raise(away, "%s does not respond, the service starts when it does: %s", what,
                           err->msg);
        program->stop_signal = fg_stop_wait_for(pause_ns);
        if (program->stop_signal != 0) {
            code = fg_fail(err, FG_E_CANCELED, "the service stopped before %s responded", what);
            break;
        }
        pause_ns = FG_MIN(2 * pause_ns, AWAIT_PAUSE_MAX_NS);
    }
    fg_condition_clear(away);
    fg_condition_destroy(away);
    return code;
}

static enum fg_code check_bucket(void *bucket, int64_t deadline_mono_ns, struct fg_err *err)
{
    return fg_bucket_startup_check(bucket, deadline_mono_ns, err);
}

enum fg_code fg_program_check_bucket(struct fg_program *program, struct fg_bucket *bucket,
                                     struct fg_err *err)
{
    return fg_program_await(program, FG_PROGRAM_BUCKET, check_bucket, bucket, err);
}
