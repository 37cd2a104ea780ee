/*
 * What a start finds in the head's store that does not fit together: a record that cannot be read,
 * or that names another one which is not there. The start goes on:
 *
 *   repaired    the record is made again from others, and nothing is lost
 *   set aside   the record stays in the store and is not used; its number is not given again
 *
 * Each finding is a line in the log; the sums are metrics, and what was set aside is a condition
 * (common/runtime/condition.h) of the ingester. README.md, "Damage", lists the cases.
 *
 * Thread: one, that of the start.
 */
#ifndef FG_INGESTER_DAMAGE_H
#define FG_INGESTER_DAMAGE_H

#include "common/base/slice.h"

enum { DAMAGE_TEXT_MAX_BYTES = 256 };

struct ing_damage {
    uint64_t repaired, set_aside;      /* records */
    char first[DAMAGE_TEXT_MAX_BYTES]; /* what was set aside first; "" while nothing was */
};

/* Count a finding and log it. The text says which record and what is wrong with it. */
void ing_damage_repaired(struct ing_damage *damage, const char *format, ...) fg_printf(2, 3);
void ing_damage_set_aside(struct ing_damage *damage, const char *format, ...) fg_printf(2, 3);

#endif
