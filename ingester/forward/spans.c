#include "ingester/forward/spans.h"

#include "common/base/search.h"

#include <stdlib.h>
#include <string.h>

/* Received times in a span differ by at most so much. */
#define SPAN_MAX_NS FG_MINUTE_NS
/* A clock that was set back gives times in the future: they are no longer fresh, and not held up.
 */
#define AHEAD_MAX_NS FG_MINUTE_NS
/* A span of several held tenants is not read again sooner. */
#define SEVERAL_MIN_NS (5 * FG_SECOND_NS)

void ing_spans_done(struct ing_spans *spans)
{
    free(spans->items);
    *spans = (struct ing_spans){0};
}

/* ---- the array ---- */

/* Moves the spans that are not removed to the front. */
static void compact(struct ing_spans *spans)
{
    uint32_t kept = 0;

    for (uint32_t i = spans->start; i < spans->end; i++)
        if (spans->items[i].state != SPAN_REMOVED)
            spans->items[kept++] = spans->items[i];
    spans->start = 0;
    spans->end = kept;
    spans->n_removed = 0;
}

static struct ing_span *append(struct ing_spans *spans)
{
    if (spans->end == spans->cap) {
        /* Only if that frees half of it, so that each span is moved a few times at most. */
        if (spans->n_removed + spans->start >= spans->cap / 2 && spans->cap > 0) {
            compact(spans);
        } else {
            spans->cap = FG_MAX(16, spans->cap * 2);
            spans->items = fg_realloc(spans->items, spans->cap * sizeof *spans->items);
        }
    }
    return &spans->items[spans->end++];
}

/* Returns the place of the first span that ends at or after this number. */
static uint32_t place_of(const struct ing_spans *spans, uint64_t seq)
{
    return fg_lower_bound(i, spans->start, spans->end, spans->items[i].last < seq);
}

static bool is_waiting(const struct ing_span *span)
{
    return span->state == SPAN_OPEN || span->state == SPAN_WAITING;
}

/* ---- adding ---- */

static bool fits(const struct ing_span *span, const struct ing_span *more)
{
    int64_t oldest_ns = FG_MIN(span->oldest_wall_ns, more->oldest_wall_ns);
    int64_t newest_ns = FG_MAX(span->newest_wall_ns, more->newest_wall_ns);

    return span->of_tenant == more->of_tenant &&
           span->count + more->count <= OUTBOX_SPAN_ENTRIES_MAX &&
           span->bytes + more->bytes <= OUTBOX_SPAN_MAX_BYTES &&
           fg_time_add(oldest_ns, SPAN_MAX_NS) >= newest_ns;
}

/* Makes one span of two that follow each other. */
static void join(struct ing_span *span, const struct ing_span *more)
{
    span->last = more->last;
    span->count += more->count;
    span->bytes += more->bytes;
    span->oldest_wall_ns = FG_MIN(span->oldest_wall_ns, more->oldest_wall_ns);
    span->newest_wall_ns = FG_MAX(span->newest_wall_ns, more->newest_wall_ns);
    span->held_until_s = FG_MIN(span->held_until_s, more->held_until_s);
}

void ing_spans_add(struct ing_spans *spans, uint64_t seq, uint64_t bytes, int64_t received_wall_ns)
{
    const struct ing_span entry = {.first = seq,
                                   .last = seq,
                                   .bytes = bytes,
                                   .oldest_wall_ns = received_wall_ns,
                                   .newest_wall_ns = received_wall_ns,
                                   .count = 1,
                                   .state = SPAN_OPEN};
    struct ing_span *last = spans->end > spans->start ? &spans->items[spans->end - 1] : NULL;

    fg_assert(last == NULL || last->last < seq);
    if (last != NULL && last->state == SPAN_OPEN && fits(last, &entry)) {
        join(last, &entry);
    } else {
        if (last != NULL && last->state == SPAN_OPEN)
            last->state = SPAN_WAITING;
        *append(spans) = entry;
    }
    spans->count++;
    spans->bytes += bytes;
}

/* ---- taking ---- */

static bool is_fresh(const struct ing_span *span, int64_t wall_ns)
{
    return fg_time_add(span->newest_wall_ns, OUTBOX_FRESH_NS) >= wall_ns &&
           span->newest_wall_ns <= fg_time_add(wall_ns, AHEAD_MAX_NS);
}

static struct ing_span *first_waiting(struct ing_spans *spans)
{
    for (uint32_t i = spans->start; i < spans->end; i++)
        if (is_waiting(&spans->items[i]))
            return &spans->items[i];
    return NULL;
}

/* ---- holds ---- */

/* Returns the place of a tenant among the holds; their number: it has none. */
static uint32_t find_hold(const struct ing_spans *spans, uint32_t tenant)
{
    uint32_t i = 0;

    while (i < spans->n_holds && spans->holds[i].tenant != tenant)
        i++;
    return i;
}

bool ing_spans_hold(struct ing_spans *spans, uint32_t tenant, int64_t until_mono_ns)
{
    uint32_t place = find_hold(spans, tenant);

    if (place == OUTBOX_HOLDS_MAX)
        return false;
    spans->holds[place] = (struct ing_hold){tenant, until_mono_ns};
    spans->n_holds += place == spans->n_holds;
    return true;
}

int64_t ing_spans_release(struct ing_spans *spans, int64_t mono_ns)
{
    int64_t next_mono_ns = INT64_MAX;
    uint32_t kept = 0;

    spans->now_mono_ns = mono_ns;
    for (uint32_t i = 0; i < spans->n_holds; i++) {
        if (spans->holds[i].until_mono_ns <= mono_ns)
            continue;
        next_mono_ns = FG_MIN(next_mono_ns, spans->holds[i].until_mono_ns);
        spans->holds[kept++] = spans->holds[i];
    }
    spans->n_holds = kept;
    return next_mono_ns;
}

bool ing_spans_holds(const struct ing_spans *spans, uint32_t tenant)
{
    return find_hold(spans, tenant) < spans->n_holds;
}

void ing_spans_note_held(const struct ing_spans *spans, uint32_t tenant, struct ing_span *left)
{
    uint32_t place = find_hold(spans, tenant);
    int64_t until_mono_ns = place < spans->n_holds ? spans->holds[place].until_mono_ns : 0;
    /* Rounded up, so that the hold is over then. */
    uint32_t until_s =
        (uint32_t)(FG_MAX(until_mono_ns, spans->now_mono_ns + SEVERAL_MIN_NS) / FG_SECOND_NS + 1);

    if (left->count == 0) {
        left->of_tenant = tenant + 1;
        left->held_until_s = until_s;
    } else if (left->of_tenant != 0) {
        if (left->of_tenant != tenant + 1)
            left->of_tenant = OUTBOX_SEVERAL;
        left->held_until_s = FG_MIN(left->held_until_s, until_s);
    }
}

/* ---- which is next ---- */

static bool is_held(const struct ing_spans *spans, const struct ing_span *span)
{
    if (span->of_tenant == OUTBOX_SEVERAL)
        return spans->now_mono_ns / FG_SECOND_NS < span->held_until_s;
    return span->of_tenant != 0 && ing_spans_holds(spans, span->of_tenant - 1);
}

static bool may_be_taken(const struct ing_spans *spans, const struct ing_span *span)
{
    return is_waiting(span) && !is_held(spans, span);
}

static struct ing_span *first_to_take(struct ing_spans *spans)
{
    for (uint32_t i = spans->start; i < spans->end; i++)
        if (may_be_taken(spans, &spans->items[i]))
            return &spans->items[i];
    return NULL;
}

static struct ing_span *last_to_take(struct ing_spans *spans)
{
    for (uint32_t i = spans->end; i > spans->start; i--)
        if (may_be_taken(spans, &spans->items[i - 1]))
            return &spans->items[i - 1];
    return NULL;
}

static const struct ing_span *take(struct ing_spans *spans, struct ing_span *span)
{
    span->state = SPAN_TAKEN;
    spans->taken_count += span->count;
    spans->taken_bytes += span->bytes;
    return span;
}

const struct ing_span *ing_spans_take(struct ing_spans *spans, enum ing_outbox_lane lane,
                                      int64_t wall_ns)
{
    struct ing_span *last = last_to_take(spans), *span = last;

    if (last == NULL)
        return NULL;
    if (lane == OUTBOX_FRESH && !is_fresh(last, wall_ns))
        return NULL;
    if (lane == OUTBOX_BACKLOG) {
        span = first_to_take(spans);
        /* Times ascend unless the clock was set; then a last span that is not fresh must not wait
         * behind a first one that is. */
        if (is_fresh(span, wall_ns))
            span = last;
        if (is_fresh(span, wall_ns))
            return NULL;
    }
    return take(spans, span);
}

const struct ing_span *ing_spans_take_from(struct ing_spans *spans, uint64_t from, bool *ret_busy)
{
    uint32_t i = place_of(spans, from);

    while (i < spans->end && spans->items[i].state == SPAN_REMOVED)
        i++;
    *ret_busy = i < spans->end && !is_waiting(&spans->items[i]);
    return i == spans->end || *ret_busy ? NULL : take(spans, &spans->items[i]);
}

struct ing_span *ing_spans_find(struct ing_spans *spans, uint64_t first)
{
    struct ing_span *span = &spans->items[place_of(spans, first)];

    fg_assert(span < spans->items + spans->end && span->first == first &&
              (span->state == SPAN_TAKEN || span->state == SPAN_ENDING));
    return span;
}

void ing_spans_end(struct ing_spans *spans, struct ing_span *span)
{
    (void)spans;
    fg_assert(span->state == SPAN_TAKEN);
    span->state = SPAN_ENDING;
}

/* Takes a span out of the sums. */
static void subtract(struct ing_spans *spans, const struct ing_span *span)
{
    fg_assert(spans->count >= span->count && spans->bytes >= span->bytes);
    spans->count -= span->count;
    spans->bytes -= span->bytes;
    if (is_waiting(span))
        return;
    fg_assert(spans->taken_count >= span->count && spans->taken_bytes >= span->bytes);
    spans->taken_count -= span->count;
    spans->taken_bytes -= span->bytes;
}

/* Takes a span out of the array, whose sums do not have it any more. */
static void forget(struct ing_spans *spans, struct ing_span *span)
{
    span->state = SPAN_REMOVED;
    spans->n_removed++;
    while (spans->start < spans->end && spans->items[spans->start].state == SPAN_REMOVED) {
        spans->start++;
        spans->n_removed--;
    }
    while (spans->start < spans->end && spans->items[spans->end - 1].state == SPAN_REMOVED) {
        spans->end--;
        spans->n_removed--;
    }
    if (spans->start == spans->end)
        spans->start = spans->end = 0;
    /* Those in the middle: each search passes them. */
    if (spans->n_removed > (spans->end - spans->start) / 2)
        compact(spans);
}

void ing_spans_put_back(struct ing_spans *spans, struct ing_span *span, const struct ing_span *left)
{
    struct ing_span *before = span > spans->items + spans->start ? span - 1 : NULL;

    fg_assert(!is_waiting(span) && span->state != SPAN_REMOVED && left->count > 0 &&
              left->first >= span->first && left->last <= span->last);
    subtract(spans, span);
    *span = *left;
    span->state = SPAN_WAITING;
    span->dropped = false;
    spans->count += span->count;
    spans->bytes += span->bytes;
    if (before != NULL && before->state == SPAN_WAITING && fits(before, span)) {
        join(before, span);
        forget(spans, span);
    }
}

void ing_spans_remove(struct ing_spans *spans, struct ing_span *span)
{
    fg_assert(span->state != SPAN_REMOVED);
    subtract(spans, span);
    forget(spans, span);
}

bool ing_spans_drop_first(struct ing_spans *spans, struct ing_span *ret_span)
{
    struct ing_span *span = first_waiting(spans);

    if (span == NULL)
        return false;
    *ret_span = *span;
    ing_spans_remove(spans, span);
    return true;
}

void ing_spans_drop_taken(struct ing_spans *spans)
{
    for (uint32_t i = spans->start; i < spans->end; i++)
        if (spans->items[i].state == SPAN_TAKEN || spans->items[i].state == SPAN_ENDING)
            spans->items[i].dropped = true;
}

/* ---- asking ---- */

bool ing_spans_meet(const struct ing_spans *spans, uint64_t first, uint64_t last)
{
    for (uint32_t i = place_of(spans, first); i < spans->end && spans->items[i].first <= last; i++)
        if (spans->items[i].state != SPAN_REMOVED)
            return true;
    return false;
}

uint64_t ing_spans_until(const struct ing_spans *spans)
{
    return spans->end > spans->start ? spans->items[spans->end - 1].last + 1 : 0;
}

int64_t ing_spans_oldest_wall_ns(const struct ing_spans *spans)
{
    return spans->end > spans->start ? spans->items[spans->start].oldest_wall_ns : 0;
}

uint32_t ing_spans_count(const struct ing_spans *spans)
{
    return spans->end - spans->start - spans->n_removed;
}

void ing_spans_check(const struct ing_spans *spans)
{
    uint64_t count = 0, bytes = 0, taken_count = 0, taken_bytes = 0;
    const struct ing_span *before = NULL;
    uint32_t n_removed = 0;

    fg_assert(spans->start <= spans->end && spans->end <= spans->cap);
    for (uint32_t i = spans->start; i < spans->end; i++) {
        const struct ing_span *span = &spans->items[i];

        fg_assert(span->first <= span->last);
        /* One that became part of the one before it has numbers of that one. */
        fg_assert(i == spans->start || span[-1].last <= span->last);
        fg_assert(span->state != SPAN_OPEN || i == spans->end - 1);
        n_removed += span->state == SPAN_REMOVED;
        if (span->state == SPAN_REMOVED)
            continue;
        fg_assert(before == NULL || before->last < span->first);
        before = span;
        fg_assert(span->count > 0 && span->count <= OUTBOX_SPAN_ENTRIES_MAX);
        fg_assert(span->count == 1 || span->bytes <= OUTBOX_SPAN_MAX_BYTES);
        count += span->count;
        bytes += span->bytes;
        if (!is_waiting(span)) {
            taken_count += span->count;
            taken_bytes += span->bytes;
        }
    }
    fg_assert(n_removed == spans->n_removed);
    fg_assert(spans->start == spans->end || (spans->items[spans->start].state != SPAN_REMOVED &&
                                             spans->items[spans->end - 1].state != SPAN_REMOVED));
    fg_assert(count == spans->count && bytes == spans->bytes);
    fg_assert(taken_count == spans->taken_count && taken_bytes == spans->taken_bytes);
}
