#include "deploy/canary/journal.h"

#include "common/base/bits.h"
#include "common/base/hash.h"

enum {
    VALUE_BITS = 30,
    UNSEEN_MAX = 4096, /* acknowledged, in no answer yet; the visibility of more is not measured */
};

struct pending {
    uint64_t number;
    int64_t retry_mono_ns; /* INT64_MAX: it is being sent, or was acknowledged */
    uint32_t attempts;
    int64_t settled_mono_ns; /* it was acknowledged, and is settled then; 0: it was not */
};

struct unseen {
    uint64_t number;
    int64_t settled_mono_ns;
};

struct canary_journal {
    struct canary_journal_shape shape;
    uint64_t kept_max;
    uint64_t next;     /* the first number that was never issued */
    uint64_t kept;     /* the first number in `settled`; numbers before it are in `sums` */
    uint64_t *settled; /* a bit for each number of [kept, next), at number % kept_max */
    int64_t *sums;     /* [cells] of what is before kept */
    uint64_t n_settled;
    struct pending *pending;
    uint32_t n_pending, pending_max, n_on_their_way;
    struct unseen unseen[UNSEEN_MAX];
    uint32_t n_unseen;
};

/* ---- profiles ---- */

/* All of a profile follows from its number and the seed, so the journal needs one bit for each
 * profile. */
struct canary_journal_profile canary_journal_profile(const struct canary_journal_shape *shape,
                                                     uint64_t number)
{
    uint64_t turn = number / shape->services;
    uint32_t leaf = (uint32_t)(turn % shape->leaves);
    uint64_t drawn = fg_mix64(fg_mix64(number) ^ shape->seed);

    return (struct canary_journal_profile){
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

static uint32_t cell_of(const struct canary_journal_shape *shape, uint64_t number)
{
    struct canary_journal_profile profile = canary_journal_profile(shape, number);

    return canary_journal_cell(shape, profile.service, profile.leaf);
}

/* ---- life ---- */

struct canary_journal *canary_journal_create(const struct canary_journal_shape *shape,
                                             uint64_t kept_max, uint32_t pending_max)
{
    struct canary_journal *journal = fg_new(struct canary_journal);

    fg_assert(shape->services > 0 && shape->pods > 0 && shape->leaves > 0);
    fg_assert(shape->interval_ms > 0 && kept_max > 0 && kept_max % 64 == 0);
    journal->shape = *shape;
    journal->kept_max = kept_max;
    journal->settled = fg_calloc(FG_BITS_WORDS(kept_max), sizeof *journal->settled);
    journal->sums = fg_calloc(canary_journal_cells(shape), sizeof *journal->sums);
    journal->pending = fg_calloc(pending_max, sizeof *journal->pending);
    journal->pending_max = pending_max;
    return journal;
}

void canary_journal_destroy(struct canary_journal *journal)
{
    if (journal == NULL)
        return;
    free(journal->pending);
    free(journal->sums);
    free(journal->settled);
    free(journal);
}

const struct canary_journal_shape *canary_journal_shape(const struct canary_journal *journal)
{
    return &journal->shape;
}

bool canary_journal_is_settled(const struct canary_journal *journal, uint64_t number)
{
    if (number < journal->kept || number >= journal->next)
        return false;
    return fg_bits_has(journal->settled, number % journal->kept_max);
}

static void add_to_sum(struct canary_journal *journal, uint64_t number)
{
    journal->sums[cell_of(&journal->shape, number)] +=
        (int64_t)canary_journal_profile(&journal->shape, number).value;
}

/* Makes room in the bitmap for numbers up to `next`: the oldest become sums. */
static void fold(struct canary_journal *journal, uint64_t next)
{
    for (; journal->kept < journal->next && next - journal->kept > journal->kept_max;
         journal->kept++) {
        uint64_t at = journal->kept % journal->kept_max;

        if (fg_bits_has(journal->settled, at))
            add_to_sum(journal, journal->kept);
        fg_bits_clear(journal->settled, at);
    }
    if (next - journal->kept > journal->kept_max) /* the numbers in between were skipped */
        journal->kept = next - journal->kept_max;
    fg_assert(next - journal->kept <= journal->kept_max);
}

/* ---- sending ---- */

uint64_t canary_journal_next(const struct canary_journal *journal)
{
    return journal->next;
}

bool canary_journal_issue(struct canary_journal *journal, uint64_t number)
{
    fg_assert(number >= journal->next);
    if (journal->n_pending == journal->pending_max)
        return false;
    fold(journal, number + 1);
    journal->next = number + 1;
    journal->pending[journal->n_pending++] =
        (struct pending){.number = number, .retry_mono_ns = INT64_MAX};
    fg_assert(journal->kept < journal->next && journal->n_pending <= journal->pending_max);
    return true;
}

/* Returns the index of a pending profile. */
static uint32_t find_pending(const struct canary_journal *journal, uint64_t number)
{
    uint32_t at = 0;

    while (at < journal->n_pending && journal->pending[at].number != number)
        at++;
    fg_assert(at < journal->n_pending);
    return at;
}

static void settle_at(struct canary_journal *journal, uint32_t at, int64_t mono_ns)
{
    uint64_t number = journal->pending[at].number;

    /* Pending profiles are in no order. */
    journal->pending[at] = journal->pending[--journal->n_pending];
    journal->n_settled++;
    /* It was pending for so long that its place in the bitmap has gone. */
    if (number < journal->kept) {
        add_to_sum(journal, number);
        return;
    }
    fg_bits_set(journal->settled, number % journal->kept_max);
    if (journal->n_unseen < UNSEEN_MAX)
        journal->unseen[journal->n_unseen++] = (struct unseen){number, mono_ns};
}

void canary_journal_settle(struct canary_journal *journal, uint64_t number, int64_t mono_ns)
{
    settle_at(journal, find_pending(journal, number), mono_ns);
}

void canary_journal_settle_later(struct canary_journal *journal, uint64_t number,
                                 int64_t settled_mono_ns)
{
    journal->pending[find_pending(journal, number)].settled_mono_ns = settled_mono_ns;
    journal->n_on_their_way++;
}

void canary_journal_ripen(struct canary_journal *journal, int64_t mono_ns)
{
    for (uint32_t i = journal->n_pending; i-- > 0;) {
        int64_t settled_mono_ns = journal->pending[i].settled_mono_ns;

        if (settled_mono_ns == 0 || settled_mono_ns > mono_ns)
            continue;
        settle_at(journal, i, settled_mono_ns);
        journal->n_on_their_way--;
    }
}

void canary_journal_postpone(struct canary_journal *journal, uint64_t number, int64_t retry_mono_ns)
{
    struct pending *pending = &journal->pending[find_pending(journal, number)];

    pending->retry_mono_ns = retry_mono_ns;
    pending->attempts++;
}

bool canary_journal_retry(struct canary_journal *journal, int64_t mono_ns, uint64_t *ret_number,
                          uint32_t *ret_attempts)
{
    struct pending *due = NULL;

    for (uint32_t i = 0; i < journal->n_pending; i++) {
        struct pending *pending = &journal->pending[i];

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

uint32_t canary_journal_n_pending(const struct canary_journal *journal)
{
    return journal->n_pending;
}

uint32_t canary_journal_n_on_their_way(const struct canary_journal *journal)
{
    return journal->n_on_their_way;
}

uint64_t canary_journal_n_settled(const struct canary_journal *journal)
{
    return journal->n_settled;
}

/* ---- asking ---- */

/* Returns the first number whose time is not before the millisecond. */
static uint64_t number_at(const struct canary_journal_shape *shape, int64_t ms)
{
    if (ms <= shape->start_ms)
        return 0;
    return fg_time_grid(shape->start_ms, shape->interval_ms, ms);
}

static int64_t ms_of(const struct canary_journal_shape *shape, uint64_t number)
{
    return shape->start_ms + (int64_t)number * shape->interval_ms;
}

int64_t canary_journal_kept_ms(const struct canary_journal *journal)
{
    return ms_of(&journal->shape, journal->kept);
}

int64_t canary_journal_end_ms(const struct canary_journal *journal)
{
    return ms_of(&journal->shape, journal->next);
}

/* Returns true if the range has profiles of this service and leaf. */
static bool asks_for(const struct canary_journal_shape *shape,
                     const struct canary_journal_range *range, uint32_t service, uint32_t leaf)
{
    return (range->service == JOURNAL_NONE || range->service == service) &&
           (range->pod == JOURNAL_NONE || range->pod == leaf % shape->pods);
}

static void expect_kept(const struct canary_journal *journal,
                        struct canary_journal_expected *expected)
{
    const struct canary_journal_shape *shape = &journal->shape;

    for (uint64_t number = FG_MAX(expected->first, journal->kept); number < expected->end;
         number++) {
        struct canary_journal_profile profile;

        if (!canary_journal_is_settled(journal, number))
            continue;
        profile = canary_journal_profile(shape, number);
        if (asks_for(shape, &expected->range, profile.service, profile.leaf))
            expected->cells[canary_journal_cell(shape, profile.service, profile.leaf)] +=
                (int64_t)profile.value;
    }
}

static int by_cell(const void *a, const void *b)
{
    const struct canary_journal_maybe *left = a, *right = b;

    if (left->cell != right->cell)
        return left->cell < right->cell ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

/* Lists profiles that are pending: the server that is asked may have stored them or not. */
static void expect_maybes(const struct canary_journal *journal,
                          struct canary_journal_expected *expected)
{
    const struct canary_journal_shape *shape = &journal->shape;

    expected->maybes = fg_calloc(FG_MAX(journal->n_pending, 1), sizeof *expected->maybes);
    for (uint32_t i = 0; i < journal->n_pending; i++) {
        uint64_t number = journal->pending[i].number;
        uint32_t cell = cell_of(shape, number);

        if (number >= expected->first && number < expected->end &&
            asks_for(shape, &expected->range, cell / shape->leaves, cell % shape->leaves))
            expected->maybes[expected->n_maybes++] = (struct canary_journal_maybe){number, cell};
    }
    qsort(expected->maybes, expected->n_maybes, sizeof *expected->maybes, by_cell);
}

void canary_journal_expect(const struct canary_journal *journal,
                           const struct canary_journal_range *range,
                           struct canary_journal_expected *ret_expected)
{
    const struct canary_journal_shape *shape = &journal->shape;
    struct canary_journal_expected expected = {
        .range = *range,
        .first = number_at(&journal->shape, range->start_ms),
        .end = number_at(&journal->shape, range->end_ms),
        .cells = fg_calloc(canary_journal_cells(&journal->shape), sizeof *expected.cells),
        .n_settled = journal->n_settled,
    };

    fg_assert(expected.first == 0 || expected.first >= journal->kept);
    fg_assert(expected.end <= journal->next && expected.end >= journal->kept);
    for (uint32_t cell = 0; expected.first == 0 && cell < canary_journal_cells(shape); cell++)
        if (asks_for(shape, range, cell / shape->leaves, cell % shape->leaves))
            expected.cells[cell] = journal->sums[cell];
    expect_kept(journal, &expected);
    expect_maybes(journal, &expected);
    *ret_expected = expected;
}

void canary_journal_expected_done(struct canary_journal_expected *expected)
{
    free(expected->cells);
    free(expected->maybes);
}

void canary_journal_seen(struct canary_journal *journal,
                         const struct canary_journal_expected *expected, int64_t asked_mono_ns,
                         void (*each)(int64_t settled_mono_ns, void *arg), void *arg)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < journal->n_unseen; i++) {
        struct unseen unseen = journal->unseen[i];
        uint32_t cell = cell_of(&journal->shape, unseen.number);

        /* A query that began before the acknowledgement need not have seen the profile. */
        if (unseen.settled_mono_ns < asked_mono_ns && unseen.number >= expected->first &&
            unseen.number < expected->end &&
            asks_for(&journal->shape, &expected->range, cell / journal->shape.leaves,
                     cell % journal->shape.leaves))
            each(unseen.settled_mono_ns, arg);
        else
            journal->unseen[n++] = unseen;
    }
    journal->n_unseen = n;
}
