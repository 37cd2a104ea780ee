#include "compactor/merge/choose.h"

bool cmp_merge_naming_init(struct cmp_merge_naming *naming, const struct fg_deletions *deletions,
                           struct fg_arena *arena)
{
    *naming = (struct cmp_merge_naming){.deletions = deletions, .series = FG_MAP_NONE};
    naming->items = fg_arena_new(arena, struct fg_deletion *, deletions->count);
    return naming->items != NULL;
}

struct fg_deletion *cmp_merge_naming_find(struct cmp_merge_naming *naming,
                                          const struct cmp_merge_part *part, uint32_t series,
                                          int64_t time_ns)
{
    if (naming->deletions->count == 0)
        return NULL;
    /* Rows of a series are next to each other, so the selectors are matched once for each series
     * and not for each profile. */
    if (naming->series != series) {
        naming->series = series;
        naming->count = 0;
        for (uint32_t i = 0; i < naming->deletions->count; i++) {
            struct fg_deletion *deletion = &naming->deletions->items[i];

            if (fg_selector_matches(&deletion->selector, &part->index.series[series].labels))
                naming->items[naming->count++] = deletion;
        }
    }
    for (uint32_t i = 0; i < naming->count; i++)
        if (fg_deletion_meets(naming->items[i], time_ns, time_ns))
            return naming->items[i];
    return NULL;
}

bool cmp_merge_chosen_any(const struct cmp_merge_choice *choice, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        /* Skips eight profiles at a time if none of their byte's bits is set. */
        if ((i & 7) == 0 && first + count - i >= 8 && choice->bits[i >> 3] == 0)
            i += 7;
        else if (cmp_merge_chosen(choice, i))
            return true;
    }
    return false;
}

static int by_id(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

bool cmp_merge_is_without(const struct cmp_merge_without *without, struct fg_id id)
{
    /* The ids are sorted (choose.h). */
    return without->count > 0 &&
           bsearch(&id, without->ids, without->count, sizeof id, by_id) != NULL;
}

struct merge_choosing {
    const struct cmp_merge_part *part;
    const struct cmp_merge_span *span;
    const struct cmp_merge_without *without;
    struct cmp_merge_naming naming;
    struct cmp_merge_choice choice;
};

static enum fg_code choose_rows(void *arg, const struct cmp_merge_rows *page, struct fg_err *err)
{
    struct merge_choosing *choosing = arg;
    const struct fg_block_rows *rows = &page->rows;

    (void)err;
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t profile = rows->first + i;

        /* The survey decides in the same way: if the two ever differed, the tallies of the job
         * would not agree. */
        if (!cmp_merge_span_has(choosing->span, rows->times_ns[i], rows->shards[i]) ||
            (page->ids != NULL && cmp_merge_is_without(choosing->without, page->ids[i])) ||
            cmp_merge_naming_find(&choosing->naming, choosing->part, rows->series[i],
                                  rows->times_ns[i]) != NULL)
            continue;
        choosing->choice.bits[profile >> 3] |= (uint8_t)(1u << (profile & 7));
        choosing->choice.count++;
    }
    return FG_OK;
}

enum fg_code cmp_merge_choose(const struct cmp_merge_part *part, const struct cmp_merge_span *span,
                              const struct fg_deletions *deletions,
                              const struct cmp_merge_without *without, struct fg_arena *arena,
                              struct fg_arena *scratch, struct cmp_merge_choice *ret_choice,
                              struct fg_err *err)
{
    struct merge_choosing choosing = {.part = part, .span = span, .without = without};
    const struct cmp_merge_scan scan = {.start_ns = cmp_merge_span_from_ns(span),
                                        .end_ns = span->end_ns,
                                        .ids = without->count > 0,
                                        .each = choose_rows,
                                        .arg = &choosing};

    choosing.choice.bits = fg_arena_new(arena, uint8_t, part->part->n_profiles / 8 + 1);
    if (choosing.choice.bits == NULL || !cmp_merge_naming_init(&choosing.naming, deletions, arena))
        return fg_fail(err, FG_E_LIMIT, "no room for the rows of %s", part->source->name);
    if (cmp_merge_part_scan(part, &scan, scratch, err) != FG_OK)
        return err->code;
    *ret_choice = choosing.choice;
    return FG_OK;
}
