#include "common/cluster/ring/owners.h"

#include "common/cluster/membership/rendezvous.h"

#include <stdatomic.h>
#include <stdlib.h>

/* A member's hash, by which it draws, and its zone as a number. */
struct owners_candidate {
    uint64_t hash;
    uint16_t zone;
};

struct drawn {
    uint64_t score;
    uint16_t place, zone;
};

/* The highest scores so far, in descending order. */
struct podium {
    struct drawn best[FG_RING_REPLICAS_MAX];
    unsigned n, max;
};

/* Moves an entry up to its place in the order. `from`: the place that it replaces. */
static void climb(struct podium *podium, unsigned from, struct drawn drawn)
{
    while (from > 0 && podium->best[from - 1].score < drawn.score) {
        podium->best[from] = podium->best[from - 1];
        from--;
    }
    podium->best[from] = drawn;
}

static bool is_full_of_higher(const struct podium *podium, uint64_t score)
{
    return podium->n == podium->max && score <= podium->best[podium->n - 1].score;
}

/* Adds an entry, and drops the last one if there is no room. */
static void offer(struct podium *podium, struct drawn drawn)
{
    if (podium->n < podium->max)
        podium->n++;
    climb(podium, podium->n - 1, drawn);
}

/* Adds an entry, but only one for each zone. Of equal scores the one that was offered first
 * stays. */
static void offer_zone(struct podium *podium, struct drawn drawn)
{
    for (unsigned i = 0; i < podium->n; i++) {
        if (podium->best[i].zone != drawn.zone)
            continue;
        if (podium->best[i].score < drawn.score)
            climb(podium, i, drawn);
        return;
    }
    offer(podium, drawn);
}

static bool is_on(const struct podium *podium, uint16_t place)
{
    for (unsigned i = 0; i < podium->n; i++)
        if (podium->best[i].place == place)
            return true;
    return false;
}

/* The candidates of a revision, and in how many zones they are. */
struct owners_field {
    struct owners_candidate *candidates;
    uint32_t n, n_zones;
};

/* Adds the highest of those that are not on the podium yet, whatever their zone. */
static void fill(const struct owners_field *field, uint64_t key, struct podium *podium)
{
    struct podium rest = {.max = FG_RING_REPLICAS_MAX - podium->n};

    for (uint32_t i = 0; i < field->n; i++) {
        uint64_t score = fg_rendezvous_draw(field->candidates[i].hash, key);

        if (!is_full_of_higher(&rest, score) && !is_on(podium, (uint16_t)i))
            offer(&rest, (struct drawn){score, (uint16_t)i, 0});
    }
    for (unsigned i = 0; i < rest.n; i++)
        podium->best[podium->n++] = rest.best[i];
}

/* The owners of a shard: `replicas` of them, or as many as there are. */
static void rank(const struct owners_field *field, unsigned replicas, uint32_t shard,
                 uint16_t owners[FG_RING_REPLICAS_MAX])
{
    struct podium podium = {.max = FG_MIN(replicas, field->n_zones)};
    uint64_t key = fg_rendezvous_key(shard + 1); /* a key of 0 would stay 0 */

    for (uint32_t i = 0; i < field->n; i++) {
        uint64_t score = fg_rendezvous_draw(field->candidates[i].hash, key);

        if (!is_full_of_higher(&podium, score))
            offer_zone(&podium, (struct drawn){score, (uint16_t)i, field->candidates[i].zone});
    }
    /* Too few zones: the other replicas are in zones that have one already. */
    if (field->n_zones < replicas)
        fill(field, key, &podium);
    for (unsigned i = 0; i < FG_MIN(podium.n, replicas); i++)
        owners[i] = podium.best[i].place;
}

/* Numbers a zone by its first place in the revision. */
static uint16_t zone_of(const struct fg_ring_revision *revision, uint32_t place)
{
    for (uint32_t i = 0; i < place; i++)
        if (fg_slice_eq(revision->places[i].zone, revision->places[place].zone))
            return (uint16_t)i;
    return (uint16_t)place;
}

static struct owners_field make_field(const struct fg_ring *ring,
                                      const struct fg_ring_revision *revision)
{
    struct owners_field field = {.n = revision->n_places};

    field.candidates = fg_calloc(FG_MAX(field.n, 1), sizeof *field.candidates);
    for (uint32_t i = 0; i < field.n; i++) {
        uint16_t zone = zone_of(revision, i);

        field.candidates[i] = (struct owners_candidate){
            fg_hash64(ring->members[revision->places[i].member].name), zone};
        field.n_zones += zone == i;
    }
    return field;
}

/* The owners of a shard as one number. */
static uint64_t tuple_of(const struct fg_ring_table *table, uint32_t shard)
{
    uint64_t tuple = 0;

    _Static_assert(FG_RING_REPLICAS_MAX * 16 <= 64, "each owner has its bits");
    for (unsigned i = 0; i < table->n_owners; i++)
        tuple = tuple << 16 | table->owners[shard][i];
    return tuple;
}

static void find_distinct(struct fg_ring_table *table)
{
    enum { SLOTS = 2 * FG_RING_SHARDS };
    /* Open addressing: a shard and 1, or 0 for an empty slot. */
    uint32_t *first_of = fg_calloc(SLOTS, sizeof *first_of);

    for (uint32_t shard = 0; shard < FG_RING_SHARDS; shard++) {
        uint64_t tuple = tuple_of(table, shard);
        uint32_t slot = fg_mix64(tuple) % SLOTS;

        while (first_of[slot] != 0 && tuple_of(table, first_of[slot] - 1) != tuple)
            slot = (slot + 1) % SLOTS;
        if (first_of[slot] != 0)
            continue;
        first_of[slot] = shard + 1;
        table->distinct[table->n_distinct++] = (uint16_t)shard;
    }
    free(first_of);
}

struct fg_ring_table *fg_ring_table_create(const struct fg_ring *ring,
                                           const struct fg_ring_revision *revision)
{
    struct fg_ring_table *table = fg_new(struct fg_ring_table);
    struct owners_field field = make_field(ring, revision);

    atomic_init(&table->refs, 1);
    table->revision = revision->number;
    table->replicas = revision->replicas;
    table->n_owners = FG_MIN(revision->replicas, revision->n_places);
    for (uint32_t shard = 0; shard < FG_RING_SHARDS; shard++)
        rank(&field, revision->replicas, shard, table->owners[shard]);
    free(field.candidates);
    find_distinct(table);
    return table;
}

struct fg_ring_table *fg_ring_table_ref(struct fg_ring_table *table)
{
    (void)atomic_fetch_add(&table->refs, 1);
    return table;
}

void fg_ring_table_unref(struct fg_ring_table *table)
{
    if (table != NULL && atomic_fetch_sub(&table->refs, 1) == 1)
        free(table);
}
