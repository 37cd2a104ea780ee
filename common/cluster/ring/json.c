/* The ring for people and programs: one line for each member, revision and shard factor. */
#include "common/base/str.h"
#include "common/cluster/ring/ring.h"

static void put_text(struct fg_buf *out, const char *key, struct fg_slice text)
{
    fg_buf_printf(out, "\"%s\":\"", key);
    fg_buf_json(out, text);
    fg_buf_puts(out, "\",");
}

static void put_number(struct fg_buf *out, const char *key, uint64_t number)
{
    fg_buf_printf(out, "\"%s\":%llu,", key, (unsigned long long)number);
}

static void put_member(struct fg_buf *out, const struct fg_ring *ring, uint32_t number)
{
    const struct fg_ring_member *member = &ring->members[number];

    fg_buf_puts(out, number == 0 ? "\n {" : ",\n {");
    put_text(out, "name", member->name);
    put_text(out, "zone", fg_ring_zone(ring, number));
    put_text(out, "state", fg_cstr(fg_ring_state_name(fg_ring_state(ring, number))));
    put_text(out, "address", member->address);
    put_text(out, "http", member->http);
    /* High half first, as in the names of objects. */
    fg_buf_printf(out, "\"store\":\"%016llx%016llx\",", (unsigned long long)member->store.hi,
                  (unsigned long long)member->store.lo);
    put_number(out, "drained", member->drained);
    put_number(out, "lost", member->lost);
    fg_buf_printf(out, "\"since_ns\":%lld}", (long long)member->since_wall_ns);
}

/* "key":["name","name"] of all or of those who are not done. */
static void put_names(struct fg_buf *out, const char *key, const struct fg_ring *ring,
                      const struct fg_ring_revision *revision, bool all)
{
    const char *between = "";

    fg_buf_printf(out, "\"%s\":[", key);
    for (uint32_t i = 0; i < revision->n_places; i++) {
        const struct fg_ring_member *member = &ring->members[revision->places[i].member];

        if (!all && fg_ring_is_done(member, revision->number))
            continue;
        fg_buf_puts(out, between);
        fg_buf_putc(out, '"');
        fg_buf_json(out, member->name);
        fg_buf_putc(out, '"');
        between = ",";
    }
    fg_buf_putc(out, ']');
}

/* "key":[{"since_ns":1,"shard factor":2}] */
static void put_steps(struct fg_buf *out, const char *key, const struct fg_ring_steps *steps)
{
    fg_buf_printf(out, "\"%s\":[", key);
    for (uint32_t i = 0; i < steps->n; i++)
        fg_buf_printf(out, "%s{\"since_ns\":%lld,\"spread\":%u}", i == 0 ? "" : ",",
                      (long long)steps->items[i].since_ns, steps->items[i].shard_factor);
    fg_buf_putc(out, ']');
}

static void put_shard_factors(struct fg_buf *out, const struct fg_ring *ring)
{
    fg_buf_puts(out, "],\n\"spreads\":[");
    for (uint32_t i = 0; i < ring->n_shard_factors; i++) {
        fg_buf_puts(out, i == 0 ? "\n {" : ",\n {");
        put_text(out, "tenant", ring->shard_factors[i].tenant);
        put_steps(out, "steps", &ring->shard_factors[i].steps);
        fg_buf_putc(out, '}');
    }
    fg_buf_puts(out, "],\n");
    put_steps(out, "spread_of_others", &ring->others);
    fg_buf_printf(out, ",\"spread_floor\":%u}\n", ring->floor);
}

void fg_ring_json(const struct fg_ring *ring, struct fg_buf *out)
{
    uint64_t newest = fg_ring_newest(ring);

    fg_buf_putc(out, '{');
    put_number(out, "revision", newest);
    put_number(out, "swaps", ring->swaps);
    put_number(out, "generation", ring->generation);
    fg_buf_puts(out, "\"members\":[");
    for (uint32_t i = 0; i < ring->n_members; i++)
        put_member(out, ring, i);
    fg_buf_puts(out, "],\n\"revisions\":[");
    for (uint32_t i = 0; i < ring->n_revisions; i++) {
        const struct fg_ring_revision *revision = &ring->revisions[i];

        fg_buf_puts(out, i == 0 ? "\n {" : ",\n {");
        put_number(out, "number", revision->number);
        put_number(out, "replicas", revision->replicas);
        put_names(out, "members", ring, revision, true);
        if (revision->number != newest) {
            fg_buf_putc(out, ',');
            put_names(out, "waits_for", ring, revision, false);
        }
        fg_buf_putc(out, '}');
    }
    put_shard_factors(out, ring);
}
