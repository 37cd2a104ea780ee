#include "deploy/canary/ledger.h"

#include "common/base/bits.h"
#include "common/base/hash.h"

enum {
    VALUE_BITS = 30,
    UNSEEN_MAX = 4096, /* acknowledged, in no answer yet; the visibility of more is not measured */
};

struct pending {
    uint64_t number;
    int64_t retry_mono_ns; /* INT64_MAX: it is being sent */
    uint32_t attempts;
};

struct unseen {
    uint64_t number;
    int64_t settled_mono_ns;
};

struct canary_ledger {
    struct canary_ledger_shape shape;
    uint64_t kept_max;
    uint64_t next;     /* the first number that was never issued */
    uint64_t kept;     /* the first number in `settled`; numbers before it are in `sums` */
    uint64_t *settled; /* a bit for each number of [kept, next), at number % kept_max */
    int64_t *sums;     /* [cells] of what is before kept */
    uint64_t n_settled;
    struct pending *pending;
    uint32_t n_pending, pending_max;
    struct unseen unseen[UNSEEN_MAX];
    uint32_t n_unseen;
};

/* ---- profiles ---- */

/* All of a profile follows from its number and the seed, so the ledger needs one bit for each
 * profile. */
struct canary_ledger_profile canary_ledger_profile(const struct canary_ledger_shape *shape,
                                                   uint64_t number)
{
    uint64_t turn = number / shape->services;
    uint32_t leaf = (uint32_t)(turn % shape->leaves);
    uint64_t drawn = fg_mix64(fg_mix64(number) ^ shape->seed);

    return (struct canary_ledger_profile){
        .number = number,
        /* At least 1: a profile without a value would be invisible. */
        .value = 1 + (drawn >> (64 - VALUE_BITS)),
        .service = (uint32_t)(number % shape->services),
        .pod = leaf % shape->pods,
        .leaf = leaf,
        /* In the middle of a millisecond: ranges begin and end on whole ones. */
        .time_ns =
            (shape->start_ms + (int64_t)number * shape->interval_ms) * FG_MS_NS + FG_MS_NS / 2,
    };
}

static uint32_t cell_of(const struct canary_ledger_shape *shape, uint64_t number)
{
    struct canary_ledger_profile profile = canary_ledger_profile(shape, number);

    return canary_ledger_cell(shape, profile.service, profile.leaf);
}

/* ---- life ---- */

struct canary_ledger *canary_ledger_create(const struct canary_ledger_shape *shape,
                                           uint64_t kept_max, uint32_t pending_max)
{
    struct canary_ledger *ledger = fg_new(struct canary_ledger);

    fg_assert(shape->services > 0 && shape->pods > 0 && shape->leaves > 0);
    fg_assert(shape->interval_ms > 0 && kept_max > 0 && kept_max % 64 == 0);
    ledger->shape = *shape;
    ledger->kept_max = kept_max;
    ledger->settled = fg_calloc(FG_BITS_WORDS(kept_max), sizeof *ledger->settled);
    ledger->sums = fg_calloc(canary_ledger_cells(shape), sizeof *ledger->sums);
    ledger->pending = fg_calloc(pending_max, sizeof *ledger->pending);
    ledger->pending_max = pending_max;
    return ledger;
}

void canary_ledger_destroy(struct canary_ledger *ledger)
{
    if (ledger == NULL)
        return;
    free(ledger->pending);
    free(ledger->sums);
    free(ledger->settled);
    free(ledger);
}

const struct canary_ledger_shape *canary_ledger_shape(const struct canary_ledger *ledger)
{
    return &ledger->shape;
}

bool canary_ledger_is_settled(const struct canary_ledger *ledger, uint64_t number)
{
    if (number < ledger->kept || number >= ledger->next)
        return false;
    return fg_bits_has(ledger->settled, number % ledger->kept_max);
}

static void add_to_sum(struct canary_ledger *ledger, uint64_t number)
{
    ledger->sums[cell_of(&ledger->shape, number)] +=
        (int64_t)canary_ledger_profile(&ledger->shape, number).value;
}

/* Makes room in the bitmap for numbers up to `next`: the oldest become sums. */
static void fold(struct canary_ledger *ledger, uint64_t next)
{
    for (; ledger->kept < ledger->next && next - ledger->kept > ledger->kept_max; ledger->kept++) {
        uint64_t at = ledger->kept % ledger->kept_max;

        if (fg_bits_has(ledger->settled, at))
            add_to_sum(ledger, ledger->kept);
        fg_bits_clear(ledger->settled, at);
    }
    if (next - ledger->kept > ledger->kept_max) /* the numbers in between were skipped */
        ledger->kept = next - ledger->kept_max;
    fg_assert(next - ledger->kept <= ledger->kept_max);
}

/* ---- sending ---- */

uint64_t canary_ledger_next(const struct canary_ledger *ledger)
{
    return ledger->next;
}

bool canary_ledger_issue(struct canary_ledger *ledger, uint64_t number)
{
    fg_assert(number >= ledger->next);
    if (ledger->n_pending == ledger->pending_max)
        return false;
    fold(ledger, number + 1);
    ledger->next = number + 1;
    ledger->pending[ledger->n_pending++] = (struct pending){number, INT64_MAX, 0};
    fg_assert(ledger->kept < ledger->next && ledger->n_pending <= ledger->pending_max);
    return true;
}

/* Returns the index of a pending profile. */
static uint32_t find_pending(const struct canary_ledger *ledger, uint64_t number)
{
    uint32_t at = 0;

    while (at < ledger->n_pending && ledger->pending[at].number != number)
        at++;
    fg_assert(at < ledger->n_pending);
    return at;
}

void canary_ledger_settle(struct canary_ledger *ledger, uint64_t number, int64_t mono_ns)
{
    uint32_t at = find_pending(ledger, number);

    /* Pending profiles are in no order. */
    ledger->pending[at] = ledger->pending[--ledger->n_pending];
    ledger->n_settled++;
    /* It was pending for so long that its place in the bitmap has gone. */
    if (number < ledger->kept) {
        add_to_sum(ledger, number);
        return;
    }
    fg_bits_set(ledger->settled, number % ledger->kept_max);
    if (ledger->n_unseen < UNSEEN_MAX)
        ledger->unseen[ledger->n_unseen++] = (struct unseen){number, mono_ns};
}

void canary_ledger_postpone(struct canary_ledger *ledger, uint64_t number, int64_t retry_mono_ns)
{
    struct pending *pending = &ledger->pending[find_pending(ledger, number)];

    pending->retry_mono_ns = retry_mono_ns;
    pending->attempts++;
}

bool canary_ledger_retry(struct canary_ledger *ledger, int64_t mono_ns, uint64_t *ret_number,
                         uint32_t *ret_attempts)
{
    struct pending *due = NULL;

    for (uint32_t i = 0; i < ledger->n_pending; i++) {
        struct pending *pending = &ledger->pending[i];

        if (pending->retry_mono_ns <= mono_ns &&
            (due == NULL || pending->retry_mono_ns < due->retry_mono_ns))
            due = pending;
    }
    if (due == NULL)
        return false;
    due->retry_mono_ns = INT64_MAX;
    *ret_number = due->number;
    *ret_attempts = due->attempts;
    return true;
}

uint32_t canary_ledger_n_pending(const struct canary_ledger *ledger)
{
    return ledger->n_pending;
}

uint64_t canary_ledger_n_settled(const struct canary_ledger *ledger)
{
    return ledger->n_settled;
}

/* ---- asking ---- */

/* Returns the first number whose time is not before the millisecond. */
static uint64_t number_at(const struct canary_ledger_shape *shape, int64_t ms)
{
    if (ms <= shape->start_ms)
        return 0;
    return fg_time_grid(shape->start_ms, shape->interval_ms, ms);
}

static int64_t ms_of(const struct canary_ledger_shape *shape, uint64_t number)
{
    return shape->start_ms + (int64_t)number * shape->interval_ms;
}

int64_t canary_ledger_kept_ms(const struct canary_ledger *ledger)
{
    return ms_of(&ledger->shape, ledger->kept);
}

int64_t canary_ledger_end_ms(const struct canary_ledger *ledger)
{
    return ms_of(&ledger->shape, ledger->next);
}

/* Returns true if the range has profiles of this service and leaf. */
static bool asks_for(const struct canary_ledger_shape *shape,
                     const struct canary_ledger_range *range, uint32_t service, uint32_t leaf)
{
    return (range->service == LEDGER_NONE || range->service == service) &&
           (range->pod == LEDGER_NONE || range->pod == leaf % shape->pods);
}

static void expect_sums(const struct canary_ledger *ledger, struct canary_ledger_expected *expected)
{
    const struct canary_ledger_shape *shape = &ledger->shape;

    for (uint32_t cell = 0; cell < canary_ledger_cells(shape); cell++)
        if (asks_for(shape, &expected->range, cell / shape->leaves, cell % shape->leaves))
            expected->cells[cell] = ledger->sums[cell];
}

static void expect_kept(const struct canary_ledger *ledger, struct canary_ledger_expected *expected)
{
    const struct canary_ledger_shape *shape = &ledger->shape;

    for (uint64_t number = FG_MAX(expected->first, ledger->kept); number < expected->end;
         number++) {
        struct canary_ledger_profile profile;

        if (!canary_ledger_is_settled(ledger, number))
            continue;
        profile = canary_ledger_profile(shape, number);
        if (asks_for(shape, &expected->range, profile.service, profile.leaf))
            expected->cells[canary_ledger_cell(shape, profile.service, profile.leaf)] +=
                (int64_t)profile.value;
    }
}

static int by_cell(const void *a, const void *b)
{
    const struct canary_ledger_maybe *left = a, *right = b;

    if (left->cell != right->cell)
        return left->cell < right->cell ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

/* Lists profiles without an acknowledgement: the server may have stored them or not. */
static void expect_maybes(const struct canary_ledger *ledger,
                          struct canary_ledger_expected *expected)
{
    const struct canary_ledger_shape *shape = &ledger->shape;

    expected->maybes = fg_calloc(FG_MAX(ledger->n_pending, 1), sizeof *expected->maybes);
    for (uint32_t i = 0; i < ledger->n_pending; i++) {
        uint64_t number = ledger->pending[i].number;
        uint32_t cell = cell_of(shape, number);

        if (number >= expected->first && number < expected->end &&
            asks_for(shape, &expected->range, cell / shape->leaves, cell % shape->leaves))
            expected->maybes[expected->n_maybes++] = (struct canary_ledger_maybe){number, cell};
    }
    qsort(expected->maybes, expected->n_maybes, sizeof *expected->maybes, by_cell);
}

void canary_ledger_expect(const struct canary_ledger *ledger,
                          const struct canary_ledger_range *range,
                          struct canary_ledger_expected *ret_expected)
{
    struct canary_ledger_expected expected = {
        .range = *range,
        .first = number_at(&ledger->shape, range->start_ms),
        .end = number_at(&ledger->shape, range->end_ms),
        .cells = fg_calloc(canary_ledger_cells(&ledger->shape), sizeof *expected.cells),
        .n_settled = ledger->n_settled,
    };

    fg_assert(expected.first == 0 || expected.first >= ledger->kept);
    fg_assert(expected.end <= ledger->next && expected.end >= ledger->kept);
    if (expected.first == 0)
        expect_sums(ledger, &expected);
    expect_kept(ledger, &expected);
    expect_maybes(ledger, &expected);
    *ret_expected = expected;
}

void canary_ledger_expected_done(struct canary_ledger_expected *expected)
{
    free(expected->cells);
    free(expected->maybes);
}

void canary_ledger_seen(struct canary_ledger *ledger, const struct canary_ledger_expected *expected,
                        int64_t asked_mono_ns, void (*each)(int64_t settled_mono_ns, void *arg),
                        void *arg)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < ledger->n_unseen; i++) {
        struct unseen unseen = ledger->unseen[i];
        uint32_t cell = cell_of(&ledger->shape, unseen.number);

        /* A query that began before the acknowledgement need not have seen the profile. */
        if (unseen.settled_mono_ns < asked_mono_ns && unseen.number >= expected->first &&
            unseen.number < expected->end &&
            asks_for(&ledger->shape, &expected->range, cell / ledger->shape.leaves,
                     cell % ledger->shape.leaves))
            each(unseen.settled_mono_ns, arg);
        else
            ledger->unseen[n++] = unseen;
    }
    ledger->n_unseen = n;
}
