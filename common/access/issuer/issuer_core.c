#include "common/access/issuer/issuer_core.h"

static const int64_t KEEP_NS = 10 * FG_MINUTE_NS;
static const int64_t SERVE_NS = 24 * FG_HOUR_NS;
static const int64_t NEW_KID_NS = 10 * FG_SECOND_NS; /* the header says why not less or more */
static const int64_t REFUSED_KID_NS = FG_MINUTE_NS;
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
        core->due_mono_ns =
            now_mono_ns + (core->failures > 4
                               ? RETRY_MAX_NS
                               : FG_MIN(RETRY_MIN_NS << (core->failures - 1), RETRY_MAX_NS));
    }
}

/* Returns when the kid was seen first, which may be now. If its row is full, it takes the place of
 * the oldest. */
static int64_t first_seen(struct fg_issuer_core *core, uint64_t kid, int64_t now_mono_ns)
{
    struct fg_issuer_kid *row = core->kids[kid % FG_ISSUER_KID_ROWS], *place = &row[0];

    for (size_t i = 0; i < FG_ISSUER_KIDS_OF_ROW; i++) {
        if (row[i].taken && row[i].hash == kid)
            return row[i].seen_mono_ns;
        if (place->taken && (!row[i].taken || row[i].seen_mono_ns < place->seen_mono_ns))
            place = &row[i];
    }
    *place = (struct fg_issuer_kid){.hash = kid, .seen_mono_ns = now_mono_ns, .taken = true};
    return now_mono_ns;
}

bool fg_issuer_core_want(struct fg_issuer_core *core, uint64_t kid, int64_t now_mono_ns)
{
    bool refused = first_seen(core, kid, now_mono_ns) < core->succeeded_mono_ns && core->known;
    int64_t next_mono_ns = core->begun_mono_ns + (refused ? REFUSED_KID_NS : NEW_KID_NS);

    /* An issuer that fails is not asked more often because of kids. */
    if (!core->fetching && core->failures == 0)
        core->due_mono_ns = FG_MIN(core->due_mono_ns, FG_MAX(next_mono_ns, now_mono_ns));
    return !refused;
}

void fg_issuer_core_withdraw(struct fg_issuer_core *core, uint64_t kid)
{
    /* As if it had been seen before that fetch, as it was. */
    (void)first_seen(core, kid, core->succeeded_mono_ns - 1);
}

bool fg_issuer_core_serves(const struct fg_issuer_core *core, int64_t now_mono_ns)
{
    return core->known && now_mono_ns - core->succeeded_mono_ns < SERVE_NS;
}
