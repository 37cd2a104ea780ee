#include "compactor/ending.h"

#include <stdio.h>

enum fg_code cmp_ending_stores_of(const struct fg_ring *ring, struct fg_arena *arena,
                                  struct cmp_ending_stores *ret_stores, struct fg_err *err)
{
    struct cmp_ending_store *items = fg_arena_new(arena, struct cmp_ending_store, ring->n_members);
    struct cmp_ending_stores stores = {
        .items = items, .generation = ring->generation, .known = ring->n_revisions > 0};

    if (items == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u members", ring->n_members);
    for (uint32_t i = 0; i < ring->n_members; i++)
        if (fg_ring_state(ring, i) != FG_RING_GONE)
            items[stores.n++] =
                (struct cmp_ending_store){ring->members[i].store, ring->members[i].name};
    *ret_stores = stores;
    return FG_OK;
}

static bool is_clean(const struct fg_l0 *l0, struct fg_id store, uint64_t number)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, store);

    return writer != NULL && writer->clean >= number;
}

void cmp_ending_waits_for(const struct cmp_ending_stores *stores, const struct fg_l0 *l0,
                          uint64_t number, char text[ENDING_TEXT_MAX_BYTES])
{
    struct fg_slice first = {NULL, 0};
    uint32_t n = 0;

    for (uint32_t i = 0; i < stores->n; i++)
        if (!is_clean(l0, stores->items[i].id, number) && n++ == 0)
            first = stores->items[i].name;
    text[0] = '\0';
    if (!stores->known)
        (void)snprintf(text, ENDING_TEXT_MAX_BYTES,
                       "ingesters: the list of ingesters is not known yet");
    else if (n == 1)
        (void)snprintf(text, ENDING_TEXT_MAX_BYTES, "%.*s", FG_S(first));
    else if (n > 1)
        (void)snprintf(text, ENDING_TEXT_MAX_BYTES, "%.*s and %u more", FG_S(first), n - 1);
}

static bool all_clean(const struct cmp_ending_stores *stores, const struct fg_l0 *l0,
                      uint64_t number)
{
    for (uint32_t i = 0; i < stores->n; i++)
        if (!is_clean(l0, stores->items[i].id, number))
            return false;
    return l0->generation >= stores->generation;
}

struct cmp_ending cmp_ending_next(const struct fg_blocks_tombstone *tombstone,
                                  const struct fg_l0 *l0, const struct cmp_ending_stores *stores,
                                  uint64_t number)
{
    struct cmp_ending next = {.step = ENDING_ASK,
                              .await = {.tombstone = tombstone->id,
                                        .before = tombstone->awaits,
                                        .awaits = number,
                                        .awaits_profiles = tombstone->profiles}};

    if (!stores->known)
        return (struct cmp_ending){.step = ENDING_WAIT};
    /* Nobody was asked, or in a manifest that is not there any more: a bucket that was put back. */
    if (tombstone->awaits == 0 || tombstone->awaits > l0->asked)
        return next;
    if (!all_clean(stores, l0, tombstone->awaits))
        return (struct cmp_ending){.step = ENDING_WAIT};
    if (tombstone->profiles == tombstone->awaits_profiles)
        next.await.quiet = tombstone->quiet + 1;
    if (next.await.quiet >= ENDING_QUIET)
        next.step = ENDING_END;
    return next;
}
