#include "distributor/scrape/scrape_slots.h"

void dist_scrape_slots_init(struct dist_scrape_slots *slots, unsigned max)
{
    *slots = (struct dist_scrape_slots){.max = max, .failing_max = FG_MAX(max / 4, 1)};
}

static struct dist_scrape_slots_queue *queue_of(struct dist_scrape_slots *slots,
                                                const struct dist_scrape_slot *slot)
{
    return slot->counted_failing ? &slots->failing : &slots->healthy;
}

static void queue_add(struct dist_scrape_slots_queue *queue, struct dist_scrape_slot *slot)
{
    slot->before = queue->last;
    slot->after = NULL;
    *(queue->last == NULL ? &queue->first : &queue->last->after) = slot;
    queue->last = slot;
    queue->n++;
}

static void queue_remove(struct dist_scrape_slots_queue *queue, struct dist_scrape_slot *slot)
{
    *(slot->before == NULL ? &queue->first : &slot->before->after) = slot->after;
    *(slot->after == NULL ? &queue->last : &slot->after->before) = slot->before;
    queue->n--;
}

static struct dist_scrape_slot *next_in_queue(const struct dist_scrape_slots *slots)
{
    if (slots->taken == slots->max)
        return NULL;
    /* Healthy scrapes first: each takes its slot for a known time. */
    if (slots->healthy.first != NULL)
        return slots->healthy.first;
    return slots->failing_taken < slots->failing_max ? slots->failing.first : NULL;
}

static void serve(struct dist_scrape_slots *slots)
{
    struct dist_scrape_slot *slot;

    while ((slot = next_in_queue(slots)) != NULL) {
        queue_remove(queue_of(slots, slot), slot);
        slot->waits = false;
        slot->has = true;
        slots->taken++;
        slots->failing_taken += slot->counted_failing;
        fg_assert(slots->taken <= slots->max && slots->failing_taken <= slots->failing_max);
        /* Last: it may end the scrape at once and release the slot, which calls serve() again. */
        slot->on_slot(slot);
    }
}

void dist_scrape_slots_request(struct dist_scrape_slots *slots, struct dist_scrape_slot *slot)
{
    fg_assert(!slot->waits && !slot->has);
    slot->waits = true;
    /* Kept for the release: slot->failing changes with the outcome of the scrape. */
    slot->counted_failing = slot->failing;
    queue_add(queue_of(slots, slot), slot);
    serve(slots);
}

void dist_scrape_slots_release(struct dist_scrape_slots *slots, struct dist_scrape_slot *slot)
{
    if (slot->waits)
        queue_remove(queue_of(slots, slot), slot);
    if (slot->has) {
        fg_assert(slots->taken > 0 && slots->failing_taken >= slot->counted_failing);
        slots->taken--;
        slots->failing_taken -= slot->counted_failing;
    }
    slot->waits = slot->has = false;
    serve(slots);
}
