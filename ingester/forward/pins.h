/*
 * Which groups of the head have profiles that are still to be sent: their chunks must not be
 * evicted (ing_outbox_pins()).
 *
 * For each group and target it knows the least and the greatest number of an entry that names the
 * group. The group is pinned while the spans of the target have an entry in between. So nothing has
 * to be counted down when entries go, in whatever order they do; a group may stay a little longer
 * than it must. It is by group and not by chunk, since a comparison with the bucket moves profiles
 * to other chunks of their group (ingester/segments/compare.h).
 *
 * Pure.
 */
#ifndef FG_INGESTER_FORWARD_PINS_H
#define FG_INGESTER_FORWARD_PINS_H

#include "common/base/map.h"
#include "ingester/forward/spans.h"
#include "ingester/keys.h"

struct ing_pin {
    struct ing_head_group_key group;
    unsigned target;
    uint64_t first, last; /* numbers of entries */
};

/* A zeroed one is empty. */
struct ing_pins {
    struct ing_pin *items;
    uint32_t n, cap;   /* n: with those of which nothing is pending, until a sweep */
    struct fg_map map; /* from the group to places in items */
};

/* Frees the memory. */
void ing_pins_done(struct ing_pins *pins);

/* Notes that an entry of a target names a profile of the group. spans: [target], as below. */
void ing_pins_add(struct ing_pins *pins, const struct ing_head_group_key *group, unsigned target,
                  uint64_t seq, const struct ing_spans *const *spans);

/* Leaves of the pins of a target what a look through its entries below `until` has found (`found`,
 * pins of that target alone): which groups they name. Entries from `until` on came meanwhile, and
 * count as before. Takes time for each pin. */
void ing_pins_narrow(struct ing_pins *pins, unsigned target, const struct ing_pins *found,
                     uint64_t until);

/* Forgets pins of which nothing is pending: pins->n is exact then. Takes time for each pin. */
void ing_pins_sweep(struct ing_pins *pins, const struct ing_spans *const *spans);

/* Returns true if a span of a target may have an entry that names the group. spans: [target]. */
bool ing_pins_has(const struct ing_pins *pins, const struct ing_head_group_key *group,
                  const struct ing_spans *const *spans);

#endif
