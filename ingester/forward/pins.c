#include "ingester/forward/pins.h"

#include <stdlib.h>

enum { PINS_MIN = 64 };

void ing_pins_done(struct ing_pins *pins)
{
    free(pins->items);
    fg_map_done(&pins->map);
    *pins = (struct ing_pins){0};
}

static uint64_t hash_of(const struct ing_head_group_key *group)
{
    return fg_mix64(fg_mix64((uint64_t)group->tenant << 32 | group->window) ^ group->shard);
}

static bool is_live(const struct ing_pin *pin, const struct ing_spans *const *spans)
{
    return ing_spans_meet(spans[pin->target], pin->first, pin->last);
}

void ing_pins_sweep(struct ing_pins *pins, const struct ing_spans *const *spans)
{
    uint32_t kept = 0;

    fg_map_clear(&pins->map);
    for (uint32_t i = 0; i < pins->n; i++)
        if (is_live(&pins->items[i], spans)) {
            pins->items[kept] = pins->items[i];
            fg_map_add(&pins->map, hash_of(&pins->items[kept].group), kept);
            kept++;
        }
    pins->n = kept;
}

/* Makes room for one more. The array grows if half of it is needed, so sweeps are rare. */
static void make_room(struct ing_pins *pins, const struct ing_spans *const *spans)
{
    ing_pins_sweep(pins, spans);
    if (pins->n <= pins->cap / 2 && pins->cap > 0)
        return;
    pins->cap = FG_MAX(PINS_MIN, 2 * pins->cap);
    pins->items = fg_realloc(pins->items, pins->cap * sizeof *pins->items);
}

static struct ing_pin *find(const struct ing_pins *pins, const struct ing_head_group_key *group,
                            unsigned target)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&pins->map, hash_of(group), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&pins->map, &walk))
        if (pins->items[i].target == target && ing_head_same_group(&pins->items[i].group, group))
            return &pins->items[i];
    return NULL;
}

void ing_pins_add(struct ing_pins *pins, const struct ing_head_group_key *group, unsigned target,
                  uint64_t seq, const struct ing_spans *const *spans)
{
    struct ing_pin *pin = find(pins, group, target);

    if (pin != NULL) {
        if (!is_live(pin, spans)) /* what it was about is gone */
            pin->first = seq;
        pin->last = seq;
        return;
    }
    if (pins->n == pins->cap)
        make_room(pins, spans);
    pins->items[pins->n] = (struct ing_pin){*group, target, seq, seq};
    fg_map_add(&pins->map, hash_of(group), pins->n++);
}

void ing_pins_narrow(struct ing_pins *pins, unsigned target, const struct ing_pins *found,
                     uint64_t until)
{
    uint32_t kept = 0;

    fg_map_clear(&pins->map);
    for (uint32_t i = 0; i < pins->n; i++) {
        struct ing_pin pin = pins->items[i];

        if (pin.target == target) {
            const struct ing_pin *there = find(found, &pin.group, target);
            bool grows = pin.last >= until;

            if (there == NULL && !grows)
                continue;
            pin.first = FG_MAX(pin.first, there == NULL ? until : there->first);
            pin.last = grows ? pin.last : there->last;
        }
        pins->items[kept] = pin;
        fg_map_add(&pins->map, hash_of(&pin.group), kept++);
    }
    pins->n = kept;
}

bool ing_pins_has(const struct ing_pins *pins, const struct ing_head_group_key *group,
                  const struct ing_spans *const *spans)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&pins->map, hash_of(group), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&pins->map, &walk))
        if (ing_head_same_group(&pins->items[i].group, group) && is_live(&pins->items[i], spans))
            return true;
    return false;
}
