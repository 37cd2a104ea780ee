#include "common/access/issuer/issuer_core.h"

static const int64_t KEEP_NS = 10 * FG_MINUTE_NS;
static const int64_t SERVE_NS = 24 * FG_HOUR_NS;
static const int64_t UNKNOWN_KID_NS = FG_MINUTE_NS; /* strangers can name any kid */
static const int64_t RETRY_MIN_NS = 5 * FG_SECOND_NS;
static const int64_t RETRY_MAX_NS = FG_MINUTE_NS;

struct fg_issuer_core fg_issuer_core(int64_t now_mono_ns)
{
    return (struct fg_issuer_core){.due_mono_ns = now_mono_ns};
}

int64_t fg_issuer_core_due(const struct fg_issuer_core *core)
{
    return core->fetching ? INT64_MAX : core->due_mono_ns;
}

void fg_issuer_core_begin(struct fg_issuer_core *core, int64_t now_mono_ns)
{
    fg_assert(!core->fetching);
    core->fetching = true;
    core->begun_mono_ns = now_mono_ns;
}

static int64_t retry_ns(unsigned failures)
{
    return failures > 4 ? RETRY_MAX_NS : FG_MIN(RETRY_MIN_NS << (failures - 1), RETRY_MAX_NS);
}

void fg_issuer_core_end(struct fg_issuer_core *core, bool succeeded, int64_t now_mono_ns)
{
    fg_assert(core->fetching);
    core->fetching = false;
    if (succeeded) {
        core->known = true;
        core->failures = 0;
        core->succeeded_mono_ns = core->begun_mono_ns;
        core->due_mono_ns = now_mono_ns + KEEP_NS;
    } else {
        core->failures++;
        core->due_mono_ns = now_mono_ns + retry_ns(core->failures);
    }
}

bool fg_issuer_core_want(struct fg_issuer_core *core, int64_t now_mono_ns)
{
    if (core->fetching || core->due_mono_ns <= now_mono_ns)
        return true;
    if (now_mono_ns - core->begun_mono_ns < UNKNOWN_KID_NS)
        return false;
    core->due_mono_ns = now_mono_ns;
    return true;
}

bool fg_issuer_core_serves(const struct fg_issuer_core *core, int64_t now_mono_ns)
{
    return core->known && now_mono_ns - core->succeeded_mono_ns < SERVE_NS;
}
