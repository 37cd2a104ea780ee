#include "compactor/completion_core.h"

#include <stdio.h>

enum fg_code cmp_ingesters_of(const struct fg_ring *ring, struct fg_arena *arena,
                              struct cmp_ingesters *ret_ingesters, struct fg_err *err)
{
    struct cmp_ingester_store *items =
        fg_arena_new(arena, struct cmp_ingester_store, ring->n_members);
    struct cmp_ingesters ingesters = {
        .items = items, .generation = ring->generation, .known = ring->n_revisions > 0};

    if (items == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u members", ring->n_members);
    for (uint32_t i = 0; i < ring->n_members; i++)
        /* A member that is gone has drained or was given up by an operator; it never answers, so
         * it must not be waited for. */
        if (fg_ring_state(ring, i) != FG_RING_GONE)
            items[ingesters.n++] =
                (struct cmp_ingester_store){ring->members[i].store, ring->members[i].name};
    *ret_ingesters = ingesters;
    return FG_OK;
}

/* A store that never entered the L0 manifest has not answered: it may hold what it has not
 * committed yet. */
static bool is_clean(const struct fg_l0 *l0, struct fg_id store, uint64_t number)
{
    const struct fg_l0_writer *writer = fg_l0_writer(l0, store);

    return writer != NULL && writer->clean >= number;
}

void cmp_completion_waits_for(const struct cmp_ingesters *ingesters, const struct fg_l0 *l0,
                              uint64_t number, char text[COMPLETION_TEXT_MAX_BYTES])
{
    struct fg_slice first = {NULL, 0};
    uint32_t n = 0;

    for (uint32_t i = 0; i < ingesters->n; i++)
        if (!is_clean(l0, ingesters->items[i].id, number) && n++ == 0)
            first = ingesters->items[i].name;
    text[0] = '\0';
    if (!ingesters->known)
        (void)snprintf(text, COMPLETION_TEXT_MAX_BYTES,
                       "ingesters: the list of ingesters is not known yet");
    else if (n == 1)
        (void)snprintf(text, COMPLETION_TEXT_MAX_BYTES, "%.*s", FG_S(first));
    else if (n > 1)
        (void)snprintf(text, COMPLETION_TEXT_MAX_BYTES, "%.*s and %u more", FG_S(first), n - 1);
}

bool cmp_completion_is_clean(const struct cmp_ingesters *ingesters, const struct fg_l0 *l0,
                             uint64_t number)
{
    if (!ingesters->known)
        return false;
    for (uint32_t i = 0; i < ingesters->n; i++)
        if (!is_clean(l0, ingesters->items[i].id, number))
            return false;
    /* Members that left have committed up to the ring's generation. An L0 manifest of before may
     * lack their last segments, in which deleted profiles may be. */
    return l0->generation >= ingesters->generation;
}

struct cmp_completion cmp_completion_next(const struct fg_blocks_tombstone *tombstone,
                                          const struct fg_l0 *l0,
                                          const struct cmp_ingesters *ingesters, uint64_t number)
{
    struct cmp_completion next = {.step = COMPLETION_ASK,
                                  .await = {.tombstone = tombstone->id,
                                            .before = tombstone->awaits,
                                            .awaits = number,
                                            .awaits_profiles = tombstone->profiles}};

    if (!ingesters->known)
        return (struct cmp_completion){.step = COMPLETION_WAIT};
    /* Nobody was asked yet, or in a manifest that was lost since (a restored bucket). */
    if (tombstone->awaits == 0 || tombstone->awaits > l0->asked)
        return next;
    if (!cmp_completion_is_clean(ingesters, l0, tombstone->awaits))
        return (struct cmp_completion){.step = COMPLETION_WAIT};
    /* The count of removed profiles has not moved since the number was asked: a quiet time. Else
     * `quiet` starts from 0 again. */
    if (tombstone->profiles == tombstone->awaits_profiles)
        next.await.quiet = tombstone->quiet + 1;
    if (next.await.quiet >= COMPLETION_QUIET)
        next.step = COMPLETION_END;
    /* A deletion must not end while the count of its profiles still moves. */
    fg_assert(next.step != COMPLETION_END || (next.await.quiet == tombstone->quiet + 1 &&
                                              tombstone->profiles == tombstone->awaits_profiles));
    return next;
}
