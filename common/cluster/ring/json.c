/* The ring as JSON, for people and programs: one line for each member, revision and shard factor.
 */
#include "common/base/json_writer.h"
#include "common/cluster/ring/ring.h"

static void put_member(struct fg_json_writer *json, const struct fg_ring *ring, uint32_t number)
{
    const struct fg_ring_member *member = &ring->members[number];

    fg_json_newline(json);
    fg_json_begin_object(json, NULL);
    fg_json_put_text(json, "name", member->name);
    fg_json_put_text(json, "zone", fg_ring_zone(ring, number));
    fg_json_put_cstr(json, "state", fg_ring_state_name(fg_ring_state(ring, number)));
    fg_json_put_text(json, "address", member->address);
    fg_json_put_text(json, "http", member->http);
    /* High half first, as in the names of objects. */
    fg_buf_printf(fg_json_value(json, "store"), "\"%016llx%016llx\"",
                  (unsigned long long)member->store.hi, (unsigned long long)member->store.lo);
    fg_json_put_u64(json, "drained", member->drained);
    fg_json_put_u64(json, "lost", member->lost);
    fg_json_put_i64(json, "since_ns", member->since_wall_ns);
    if (fg_ring_is_paused(ring, number))
        fg_json_put_i64(json, "maintenance_since_ns", member->paused_wall_ns);
    fg_json_end(json);
}

/* "key":["name","name"] of all members of the revision, or of those that are not done. */
static void put_names(struct fg_json_writer *json, const char *key, const struct fg_ring *ring,
                      const struct fg_ring_revision *revision, bool all)
{
    fg_json_begin_array(json, key);
    for (uint32_t i = 0; i < revision->n_places; i++) {
        const struct fg_ring_member *member = &ring->members[revision->places[i].member];

        if (all || !fg_ring_is_done(member, revision->number))
            fg_json_put_text(json, NULL, member->name);
    }
    fg_json_end(json);
}

/* "key":[{"since_ns":1,"shard_factor":2}] */
static void put_steps(struct fg_json_writer *json, const char *key,
                      const struct fg_ring_steps *steps)
{
    fg_json_begin_array(json, key);
    for (uint32_t i = 0; i < steps->n; i++) {
        fg_json_begin_object(json, NULL);
        fg_json_put_i64(json, "since_ns", steps->items[i].since_ns);
        fg_json_put_u64(json, "shard_factor", steps->items[i].shard_factor);
        fg_json_end(json);
    }
    fg_json_end(json);
}

void fg_ring_json(const struct fg_ring *ring, struct fg_buf *out)
{
    struct fg_json_writer writer = fg_json_writer(out), *json = &writer;
    uint64_t newest = fg_ring_newest(ring);

    fg_json_begin_object(json, NULL);
    fg_json_put_u64(json, "revision", newest);
    fg_json_put_u64(json, "swaps", ring->swaps);
    fg_json_put_u64(json, "generation", ring->generation);
    fg_json_begin_array(json, "members");
    for (uint32_t i = 0; i < ring->n_members; i++)
        put_member(json, ring, i);
    fg_json_end(json);
    fg_json_newline(json);
    fg_json_begin_array(json, "revisions");
    for (uint32_t i = 0; i < ring->n_revisions; i++) {
        const struct fg_ring_revision *revision = &ring->revisions[i];

        fg_json_newline(json);
        fg_json_begin_object(json, NULL);
        fg_json_put_u64(json, "number", revision->number);
        fg_json_put_u64(json, "replicas", revision->replicas);
        put_names(json, "members", ring, revision, true);
        /* The newest revision takes writes, so nobody drains it. */
        if (revision->number != newest)
            put_names(json, "waits_for", ring, revision, false);
        fg_json_end(json);
    }
    fg_json_end(json);
    fg_json_newline(json);
    fg_json_begin_array(json, "shard_factors");
    for (uint32_t i = 0; i < ring->n_shard_factors; i++) {
        fg_json_newline(json);
        fg_json_begin_object(json, NULL);
        fg_json_put_text(json, "tenant", ring->shard_factors[i].tenant);
        put_steps(json, "steps", &ring->shard_factors[i].steps);
        fg_json_end(json);
    }
    fg_json_end(json);
    fg_json_newline(json);
    put_steps(json, "shard_factor_of_others", &ring->others);
    fg_json_put_u64(json, "shard_factor_floor", ring->floor);
    fg_json_put_u64(json, "maintenance_overrides", ring->overrides);
    fg_json_end(json);
    fg_buf_putc(out, '\n');
}
