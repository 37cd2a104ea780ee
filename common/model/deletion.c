#include "common/model/deletion.h"

#include <stdlib.h>

/* ---- adding ---- */

enum fg_code fg_deletions_add(struct fg_deletions *deletions, const struct fg_deletion *deletion,
                              struct fg_arena *arena, struct fg_err *err)
{
    uint32_t n_regexes = deletions->n_regexes;
    size_t bytes = deletions->bytes;
    const struct fg_selector *selector = &deletion->selector;

    for (size_t i = 0; i < selector->n_matchers; i++) {
        n_regexes += selector->matchers[i].regex != NULL;
        bytes += selector->matchers[i].name.len + selector->matchers[i].value.len;
    }
    if (deletion->start_ns > deletion->end_ns)
        return fg_fail(err, FG_E_INVALID, "the deletion ends before it starts");
    if (deletions->count == FG_DELETIONS_MAX)
        return fg_fail(err, FG_E_LIMIT, "more than %d deletions at a time", FG_DELETIONS_MAX);
    if (n_regexes > FG_DELETIONS_REGEX_MAX)
        return fg_fail(err, FG_E_LIMIT, "more than %d regular expressions in deletions at a time",
                       FG_DELETIONS_REGEX_MAX);
    if (bytes > FG_DELETIONS_MAX_BYTES)
        return fg_fail(err, FG_E_LIMIT, "selectors of deletions of more than %d bytes at a time",
                       FG_DELETIONS_MAX_BYTES);
    if (!fg_arena_grow(arena, &deletions->items, deletions->count, 1, &deletions->cap,
                       sizeof *deletions->items))
        return fg_fail(err, FG_E_LIMIT, "no room for %u deletions", deletions->count + 1);
    /* From here on nothing fails: a refused deletion has changed nothing, and its selector is
     * still the caller's. */
    deletions->items[deletions->count++] = *deletion;
    deletions->n_regexes = n_regexes;
    deletions->bytes = bytes;
    return FG_OK;
}

void fg_deletions_done(struct fg_deletions *deletions)
{
    for (uint32_t i = 0; i < deletions->count; i++)
        fg_selector_done(&deletions->items[i].selector);
    *deletions = (struct fg_deletions){0};
}

/* ---- looking ---- */

bool fg_deletion_meets(const struct fg_deletion *deletion, int64_t t_min_ns, int64_t t_max_ns)
{
    return t_min_ns <= deletion->end_ns && t_max_ns >= deletion->start_ns;
}

bool fg_deletion_contains(const struct fg_deletion *deletion, int64_t t_min_ns, int64_t t_max_ns)
{
    return t_min_ns >= deletion->start_ns && t_max_ns <= deletion->end_ns;
}

bool fg_deletion_may_name(const struct fg_deletion *deletion, struct fg_slice service)
{
    return fg_selector_may_match_service(&deletion->selector, service);
}

bool fg_deletions_touch(const struct fg_deletions *deletions, struct fg_slice service,
                        int64_t t_min_ns, int64_t t_max_ns)
{
    for (uint32_t i = 0; i < deletions->count; i++)
        if (fg_deletion_meets(&deletions->items[i], t_min_ns, t_max_ns) &&
            (service.ptr == NULL || fg_deletion_may_name(&deletions->items[i], service)))
            return true;
    return false;
}

/* ---- what is left ---- */

bool fg_left_clip(const struct fg_left *left, int64_t *t_min_ns, int64_t *t_max_ns)
{
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;

    for (uint32_t i = 0; i < left->count; i++) {
        int64_t from_ns = FG_MAX(left->spans[i].start_ns, *t_min_ns);
        int64_t to_ns = FG_MIN(left->spans[i].end_ns, *t_max_ns);

        if (from_ns > to_ns)
            continue;
        first_ns = FG_MIN(first_ns, from_ns);
        last_ns = FG_MAX(last_ns, to_ns);
    }
    if (first_ns > last_ns)
        return false;
    *t_min_ns = first_ns;
    *t_max_ns = last_ns;
    return true;
}

void fg_leaving_init(struct fg_leaving *leaving, const struct fg_deletions *deletions,
                     struct fg_time_span whole, struct fg_arena *arena)
{
    *leaving = (struct fg_leaving){.deletions = deletions, .whole = whole, .arena = arena};
}

static int by_start(const void *left, const void *right)
{
    const struct fg_time_span *a = left, *b = right;

    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* Writes the spans of the whole that are not in `taken`, which is sorted by start. Taken spans
 * may overlap and contain each other. Returns the number of spans, at most n + 1. */
static uint32_t between(struct fg_time_span whole, const struct fg_time_span *taken, uint32_t n,
                        struct fg_time_span *out)
{
    int64_t from_ns = whole.start_ns;
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (taken[i].start_ns > from_ns)
            out[count++] = (struct fg_time_span){from_ns, taken[i].start_ns - 1};
        /* Behind this, the end is below another time, so that adding 1 does not overflow. */
        if (taken[i].end_ns >= whole.end_ns)
            return count;
        from_ns = FG_MAX(from_ns, taken[i].end_ns + 1);
    }
    out[count++] = (struct fg_time_span){from_ns, whole.end_ns};
    return count;
}

enum fg_code fg_leaving_of(struct fg_leaving *leaving, const struct fg_labels *labels,
                           struct fg_left *ret_left, struct fg_err *err)
{
    struct fg_time_span taken[FG_DELETIONS_MAX];
    uint64_t named[FG_COUNT(leaving->named)] = {0};
    uint32_t n = 0;

    for (uint32_t i = 0; i < leaving->deletions->count; i++) {
        const struct fg_deletion *deletion = &leaving->deletions->items[i];

        if (!fg_deletion_meets(deletion, leaving->whole.start_ns, leaving->whole.end_ns))
            continue;
        /* labels NULL asks for all series: only a deletion without matchers removes from all. */
        if (labels == NULL ? deletion->selector.n_matchers > 0
                           : !fg_selector_matches(&deletion->selector, labels))
            continue;
        fg_bits_set(named, i);
        taken[n++] = (struct fg_time_span){deletion->start_ns, deletion->end_ns};
    }
    /* A tenant has few sets of deletions that meet the same series, and neighbouring series
     * mostly have the same one. */
    if (!leaving->found || memcmp(named, leaving->named, sizeof named) != 0) {
        struct fg_time_span *spans =
            fg_arena_new(leaving->arena, struct fg_time_span, (size_t)n + 1);

        if (spans == NULL)
            return fg_fail(err, FG_E_LIMIT, "no memory for the remainder of %u deletions", n);
        qsort(taken, n, sizeof *taken, by_start);
        leaving->left = (struct fg_left){spans, between(leaving->whole, taken, n, spans)};
        leaving->found = true;
        memcpy(leaving->named, named, sizeof named);
    }
    *ret_left = leaving->left;
    return FG_OK;
}
