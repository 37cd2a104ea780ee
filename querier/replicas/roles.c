#include "querier/replicas/roles.h"

/* Returns its place in the list; adds it if it is not there. */
static unsigned place_of(struct qry_roles *roles, uint32_t member)
{
    unsigned i = 0;

    /* Linear: a handful of members. */
    while (i < roles->n && roles->members[i] != member)
        i++;
    if (i == roles->n) {
        fg_assert(roles->n < ROLES_MAX);
        roles->members[roles->n++] = member;
    }
    return i;
}

void qry_roles_of(const struct fg_ring_view *view, uint16_t shard,
                  const uint64_t among[FG_RING_READS_WORDS], struct qry_roles *ret_roles)
{
    unsigned times[ROLES_MAX] = {0}, best = 0;

    ret_roles->n = 0;
    /* From the newest revision, whose order decides among equals. */
    for (uint32_t r = view->ring.n_revisions; r-- > 0;)
        for (unsigned i = 0; i < view->tables[r]->n_owners; i++) {
            uint32_t member = fg_ring_view_owner(view, r, shard, i);

            /* A member that has drained a revision has nothing of it any more (reads_core.h). */
            if (fg_bits_has(among, member) &&
                !fg_ring_is_done(&view->ring.members[member], view->tables[r]->revision))
                times[place_of(ret_roles, member)]++;
        }
    for (unsigned i = 1; i < ret_roles->n; i++)
        /* Greater, not equal: among equals the one of the newest revision stays. */
        if (times[i] > times[best])
            best = i;
    if (ret_roles->n > 0) {
        uint32_t member = ret_roles->members[best];

        ret_roles->members[best] = ret_roles->members[0];
        ret_roles->members[0] = member;
    }
}
