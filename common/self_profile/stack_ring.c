#include "common/self_profile/stack_ring.h"

void fg_stack_ring_init(struct fg_stack_ring *ring)
{
    for (uint64_t i = 0; i < FG_STACK_RING_SLOTS; i++)
        atomic_store_explicit(&ring->slots[i].turn, i, memory_order_relaxed);
}

bool fg_stack_ring_put(struct fg_stack_ring *ring, uint32_t tag, uint32_t count,
                       const struct fg_unwind_map *map, const struct fg_stack_registers *registers)
{
    uint64_t position = atomic_load_explicit(&ring->head, memory_order_relaxed);
    struct fg_stack_slot *slot;

    for (;;) {
        uint64_t turn;

        slot = &ring->slots[position % FG_STACK_RING_SLOTS];
        turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
        if (turn < position) { /* not taken since the last time around */
            atomic_fetch_add_explicit(&ring->dropped, count, memory_order_relaxed);
            return false;
        }
        if (turn > position) /* another handler was first */
            position = atomic_load_explicit(&ring->head, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&ring->head, &position, position + 1,
                                                       memory_order_relaxed, memory_order_relaxed))
            break;
    }
    slot->tag = tag;
    slot->count = count;
    slot->depth = fg_stack_walk(map, registers, slot->pcs);
    atomic_store_explicit(&slot->turn, position + 1, memory_order_release);
    return true;
}

const struct fg_stack_slot *fg_stack_ring_take(struct fg_stack_ring *ring)
{
    const struct fg_stack_slot *slot = &ring->slots[ring->tail % FG_STACK_RING_SLOTS];

    return atomic_load_explicit(&slot->turn, memory_order_acquire) == ring->tail + 1 ? slot : NULL;
}

void fg_stack_ring_release(struct fg_stack_ring *ring)
{
    struct fg_stack_slot *slot = &ring->slots[ring->tail % FG_STACK_RING_SLOTS];

    atomic_store_explicit(&slot->turn, ring->tail + FG_STACK_RING_SLOTS, memory_order_release);
    ring->tail++;
}
