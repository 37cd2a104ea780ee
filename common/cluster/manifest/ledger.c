#include "common/cluster/manifest/ledger.h"

#include "common/base/envelope.h"

enum { DAY_MIN_BYTES = 1 + 8 };

bool fg_ledger_copy(struct fg_ledger *ret_copy, const struct fg_ledger *ledger,
                    struct fg_arena *arena)
{
    struct fg_ledger copy = *ledger;

    copy.open = fg_arena_new(arena, struct fg_usage_day, ledger->n_open);
    copy.cap_open = ledger->n_open;
    if (copy.open == NULL)
        return false;
    for (uint32_t i = 0; i < ledger->n_open; i++)
        if (!fg_usage_day_copy(&copy.open[i], &ledger->open[i], arena))
            return false;
    *ret_copy = copy; /* frozen sums do not change, so they are shared */
    return true;
}

struct fg_usage_day *fg_ledger_open(struct fg_ledger *ledger, int32_t day, struct fg_arena *arena)
{
    uint32_t at = ledger->n_open;

    while (at > 0 && ledger->open[at - 1].day >= day)
        at--;
    if (at < ledger->n_open && ledger->open[at].day == day)
        return &ledger->open[at];
    if (ledger->n_open == FG_LEDGER_DAYS_MAX)
        return &ledger->open[at == 0 ? 0 : at - 1];
    if (!fg_arena_grow(arena, &ledger->open, ledger->n_open, 1, &ledger->cap_open,
                       sizeof *ledger->open))
        return NULL;
    memmove(&ledger->open[at + 1], &ledger->open[at], (ledger->n_open - at) * sizeof *ledger->open);
    ledger->open[at] = (struct fg_usage_day){.day = day};
    ledger->n_open++;
    return &ledger->open[at];
}

bool fg_ledger_add(struct fg_ledger *ledger, const struct fg_usage_day *days, uint32_t n_days,
                   struct fg_arena *arena)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < ledger->n_open; i++)
        bytes += fg_usage_day_bytes(&ledger->open[i]);
    for (uint32_t i = 0; i < n_days; i++) {
        struct fg_usage_day *into = fg_ledger_open(ledger, days[i].day, arena);

        if (into == NULL)
            return false;
        bytes -= fg_usage_day_bytes(into); /* what the other days have */
        /* The row "" of each day fits beyond the limit: there are not many days. */
        if (!fg_usage_day_add_within(
                into, &days[i], FG_LEDGER_MAX_BYTES - FG_MIN(bytes, FG_LEDGER_MAX_BYTES), arena))
            return false;
        bytes += fg_usage_day_bytes(into);
    }
    return true;
}

bool fg_ledger_store(struct fg_ledger *ledger, uint64_t bytes, int64_t wall_ns,
                     struct fg_arena *arena)
{
    int64_t from_s = ledger->stored_wall_ns / FG_SECOND_NS, to_s = wall_ns / FG_SECOND_NS;

    /* Of a clock that was years off: no more than a ledger holds. */
    from_s = FG_MAX(from_s, to_s - (int64_t)FG_LEDGER_DAYS_MAX * FG_USAGE_DAY_S);
    if (ledger->stored_wall_ns == 0)
        ledger->next_day = fg_usage_day_of(wall_ns);
    if (ledger->stored_wall_ns != 0 && wall_ns <= ledger->stored_wall_ns)
        return true;
    /* Whole seconds of both ends: the spans add up whatever the times of swaps are. */
    for (int64_t at_s = from_s; ledger->stored_wall_ns != 0 && bytes > 0 && at_s < to_s;) {
        int64_t day = at_s / FG_USAGE_DAY_S;
        int64_t end_s = FG_MIN((day + 1) * FG_USAGE_DAY_S, to_s);
        struct fg_usage_day *into = fg_ledger_open(ledger, (int32_t)day, arena);

        if (into == NULL)
            return false;
        fg_usage_stored_add(&into->stored, bytes, (uint64_t)(end_s - at_s));
        at_s = end_s;
    }
    ledger->stored_wall_ns = wall_ns;
    return true;
}

/* ---- freezes ---- */

/* Returns the last day that has ended for so long at this time. */
static int32_t last_ended(int64_t wall_ns, int64_t delay_ns)
{
    return fg_usage_day_of(fg_time_add(wall_ns, -delay_ns)) - 1;
}

/* True if the days that a freeze would take out now fill half of the ledger. Days that have not
 * ended do not count: a freeze leaves them, so the next swap would find the ledger as full as
 * before. */
static bool is_half_full(const struct fg_ledger *ledger)
{
    uint32_t n = 0;
    uint64_t bytes = 0;

    while (n < ledger->n_open && ledger->open[n].day < ledger->next_day)
        bytes += fg_usage_day_bytes(&ledger->open[n++]);
    return n > FG_LEDGER_DAYS_MAX / 2 || bytes > FG_LEDGER_MAX_BYTES / 2;
}

bool fg_ledger_is_due(const struct fg_ledger *ledger, int64_t wall_ns)
{
    if (ledger->n_frozen > 0 || ledger->stored_wall_ns == 0)
        return false;
    return last_ended(wall_ns, FG_LEDGER_FREEZE_DELAY_NS) >= ledger->next_day ||
           is_half_full(ledger);
}

int32_t fg_ledger_last_day(const struct fg_ledger *ledger, int64_t wall_ns)
{
    return FG_MAX(ledger->next_day - 1, last_ended(wall_ns, FG_LEDGER_FREEZE_DELAY_NS));
}

uint64_t fg_ledger_next_version(const struct fg_ledger *ledger, int64_t wall_ns)
{
    return FG_MAX(ledger->version + 1, (uint64_t)FG_MAX(wall_ns, 0) / FG_SECOND_NS);
}

bool fg_ledger_freeze(struct fg_ledger *ledger, int32_t last, uint64_t version,
                      struct fg_arena *arena)
{
    struct fg_usage_day *frozen = fg_arena_new(arena, struct fg_usage_day, ledger->n_open);
    uint32_t n = 0, kept = 0;

    fg_assert(ledger->n_frozen == 0 && version > ledger->version);
    if (frozen == NULL)
        return false;
    for (uint32_t i = 0; i < ledger->n_open; i++) {
        if (ledger->open[i].day > last)
            ledger->open[kept++] = ledger->open[i];
        else if (!fg_usage_day_is_empty(&ledger->open[i]))
            frozen[n++] = ledger->open[i];
    }
    ledger->n_open = kept;
    ledger->frozen = frozen;
    ledger->n_frozen = n;
    ledger->next_day = FG_MAX(ledger->next_day, last + 1);
    ledger->version = version;
    return true;
}

/* ---- bytes ---- */

static void put_days(struct fg_buf *out, const struct fg_usage_day *days, uint32_t n)
{
    fg_buf_varint(out, n);
    for (uint32_t i = 0; i < n; i++)
        fg_usage_day_put(out, &days[i]);
}

void fg_ledger_put(struct fg_buf *out, const struct fg_ledger *ledger)
{
    fg_buf_zigzag(out, ledger->stored_wall_ns);
    fg_buf_zigzag(out, ledger->next_day);
    fg_buf_varint(out, ledger->version);
    put_days(out, ledger->open, ledger->n_open);
    put_days(out, ledger->frozen, ledger->n_frozen);
}

static struct fg_usage_day *get_days(struct fg_cur *cur, struct fg_arena *arena, uint32_t *ret_n)
{
    struct fg_usage_day *days =
        fg_envelope_list(cur, arena, DAY_MIN_BYTES, FG_LEDGER_DAYS_MAX, sizeof *days, ret_n);

    for (uint32_t i = 0; i < *ret_n && !cur->bad; i++) {
        days[i] = fg_usage_day_get(cur, arena);
        if (i > 0 && days[i - 1].day >= days[i].day)
            fg_cur_fail(cur);
    }
    return days;
}

struct fg_ledger fg_ledger_get(struct fg_cur *cur, struct fg_arena *arena)
{
    struct fg_ledger ledger = {.stored_wall_ns = fg_cur_zigzag(cur)};
    int64_t next_day = fg_cur_zigzag(cur);

    ledger.next_day = (int32_t)next_day;
    ledger.version = fg_cur_varint(cur);
    ledger.open = get_days(cur, arena, &ledger.n_open);
    ledger.cap_open = ledger.n_open;
    ledger.frozen = get_days(cur, arena, &ledger.n_frozen);
    if (next_day != ledger.next_day || ledger.version >= FG_USAGE_VERSION_MAX ||
        (ledger.version == 0 && ledger.n_frozen > 0))
        fg_cur_fail(cur);
    return cur->bad ? (struct fg_ledger){0} : ledger;
}
