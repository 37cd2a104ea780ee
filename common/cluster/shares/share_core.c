#include "common/cluster/shares/share_core.h"

void fg_share_core_init(struct fg_share_core *core)
{
    *core = (struct fg_share_core){.processes = 1};
}

void fg_share_core_begin(struct fg_share_core *core)
{
    core->heard = core->answers = 0;
}

void fg_share_core_hear(struct fg_share_core *core, uint32_t processes)
{
    core->answers++;
    core->heard = FG_MAX(core->heard, processes);
}

uint32_t fg_share_core_end(struct fg_share_core *core, int64_t now_mono_ns)
{
    bool fewer = core->answers > 0 && now_mono_ns - core->since_mono_ns >= FG_SHARE_FEWER_NS;

    if (core->heard >= core->processes || fewer) {
        core->processes = FG_MAX(core->heard, 1);
        core->since_mono_ns = now_mono_ns;
    }
    fg_assert(core->processes > 0); /* rates are divided by it */
    return core->processes;
}

void fg_share_take_demand(struct fg_rate_demand *demand, const struct fg_meeting_use *use)
{
    demand->bytes_per_s = FG_MAX(demand->bytes_per_s, use->demand);
    demand->processes = FG_MAX(demand->processes, use->processes);
}

void fg_share_take_count(struct fg_quota_count *count, const struct fg_meeting_use *use)
{
    if (use->span.start_s == count->span.start_s && use->span.end_s == count->span.end_s)
        count->all = FG_MAX(count->all, use->bytes);
}
