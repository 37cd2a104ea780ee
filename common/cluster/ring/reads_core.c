#include "common/cluster/ring/reads_core.h"

void fg_ring_reads_init(struct fg_ring_reads *reads, const struct fg_ring_view *view,
                        uint16_t first, uint16_t last)
{
    fg_assert(first <= last);
    *reads = (struct fg_ring_reads){.view = view, .first = first, .last = last};
}

/* The owners of one shard under one revision. */
struct owners {
    uint32_t members[FG_RING_REPLICAS_MAX];
    unsigned n;
    unsigned need; /* so many of these have to answer, in addition to those that have drained */
};

/* The owners that can be asked. One that has drained counts as heard, since the snapshot has all
 * that it held; one that has lost what it held never answers for it (lost-is-no-answer). */
static struct owners owners_of(const struct fg_ring_reads *reads, uint32_t revision, uint16_t shard)
{
    const struct fg_ring_view *view = reads->view;
    const struct fg_ring_table *table = view->tables[revision];
    unsigned need = fg_ring_reads(table->replicas, table->n_owners);
    struct owners owners = {0};

    for (unsigned i = 0; i < table->n_owners; i++) {
        uint32_t number = fg_ring_view_owner(view, revision, shard, i);
        const struct fg_ring_member *member = &view->ring.members[number];

        if (member->lost > table->revision)
            continue;
        if (member->drained <= table->revision)
            owners.members[owners.n++] = number;
        else if (need > 0)
            need--;
    }
    owners.need = FG_MIN(need, owners.n);
    return owners;
}

/* Counts owners that are in one set and not in the other. */
static unsigned count(const struct owners *owners, const uint64_t *in, const uint64_t *out)
{
    unsigned n = 0;

    for (unsigned i = 0; i < owners->n; i++)
        n += fg_bits_has(in, owners->members[i]) && !fg_bits_has(out, owners->members[i]);
    return n;
}

/* Some shards under a revision, among them one for each list of owners that shards of the range
 * have, ascending. */
struct some_shards {
    const uint16_t *distinct; /* NULL: all from `first` on */
    uint32_t first, n;
};

static struct some_shards shards_of(const struct fg_ring_reads *reads, uint32_t revision)
{
    const struct fg_ring_table *table = reads->view->tables[revision];
    uint32_t n = (uint32_t)reads->last - reads->first + 1;

    return n == FG_RING_SHARDS
               ? (struct some_shards){.distinct = table->distinct, .n = table->n_distinct}
               : (struct some_shards){.first = reads->first, .n = n};
}

static uint16_t nth(const struct some_shards *shards, uint32_t n)
{
    return shards->distinct == NULL ? (uint16_t)(shards->first + n) : shards->distinct[n];
}

static const uint64_t nobody[FG_RING_READS_WORDS];

/* ---- asking ---- */

/* Asks more of the owners, beginning with `turn`, until enough are asked or none is left. */
static uint32_t ask_owners(struct fg_ring_reads *reads, const struct owners *owners, uint32_t turn,
                           uint32_t *members)
{
    unsigned sure = count(owners, reads->asked, reads->failed);
    uint32_t n = 0;

    for (unsigned i = 0; i < owners->n && sure < owners->need; i++) {
        uint32_t member = owners->members[(turn + i) % owners->n];

        if (fg_bits_has(reads->asked, member))
            continue;
        fg_bits_set(reads->asked, member);
        members[n++] = member;
        sure++;
    }
    return n;
}

uint32_t fg_ring_reads_ask(struct fg_ring_reads *reads, uint32_t turn,
                           uint32_t members[FG_RING_MEMBERS_MAX])
{
    uint32_t n = 0;

    for (uint32_t revision = 0; revision < reads->view->ring.n_revisions; revision++) {
        const struct some_shards shards = shards_of(reads, revision);

        for (uint32_t i = 0; i < shards.n; i++) {
            struct owners owners = owners_of(reads, revision, nth(&shards, i));

            n += ask_owners(reads, &owners, turn % FG_RING_REPLICAS_MAX, members + n);
        }
    }
    return n;
}

void fg_ring_reads_avoid(struct fg_ring_reads *reads, uint32_t member)
{
    /* As if it had failed already: others are asked in its place, and its answer is not waited
     * for. */
    fg_bits_set(reads->asked, member);
    fg_bits_set(reads->failed, member);
}

void fg_ring_reads_admit(struct fg_ring_reads *reads, uint32_t member)
{
    fg_assert(!fg_bits_has(reads->heard, member));
    fg_bits_clear(reads->asked, member);
    fg_bits_clear(reads->failed, member);
}

void fg_ring_reads_heard(struct fg_ring_reads *reads, uint32_t member)
{
    fg_bits_set(reads->heard, member);
}

void fg_ring_reads_failed(struct fg_ring_reads *reads, uint32_t member)
{
    fg_bits_set(reads->failed, member);
}

/* ---- whether it is enough ---- */

bool fg_ring_reads_is_enough(const struct fg_ring_reads *reads)
{
    for (uint32_t revision = 0; revision < reads->view->ring.n_revisions; revision++) {
        const struct some_shards shards = shards_of(reads, revision);

        for (uint32_t i = 0; i < shards.n; i++) {
            struct owners owners = owners_of(reads, revision, nth(&shards, i));

            if (count(&owners, reads->heard, nobody) < owners.need)
                return false;
        }
    }
    return true;
}

bool fg_ring_reads_is_hopeless(const struct fg_ring_reads *reads, uint16_t *ret_shard,
                               uint64_t *ret_revision)
{
    for (uint32_t revision = 0; revision < reads->view->ring.n_revisions; revision++) {
        const struct some_shards shards = shards_of(reads, revision);

        for (uint32_t i = 0; i < shards.n; i++) {
            struct owners owners = owners_of(reads, revision, nth(&shards, i));

            if (owners.n - count(&owners, reads->failed, reads->heard) < owners.need) {
                *ret_shard = nth(&shards, i);
                *ret_revision = reads->view->ring.revisions[revision].number;
                return true;
            }
        }
    }
    return false;
}

void fg_ring_reads_count(const struct fg_ring_reads *reads, uint16_t shard, uint64_t revision,
                         unsigned *ret_heard, unsigned *ret_need)
{
    *ret_heard = *ret_need = 0;
    for (uint32_t i = 0; i < reads->view->ring.n_revisions; i++)
        if (reads->view->ring.revisions[i].number == revision) {
            struct owners owners = owners_of(reads, i, shard);

            *ret_heard = count(&owners, reads->heard, nobody);
            *ret_need = owners.need;
        }
}
