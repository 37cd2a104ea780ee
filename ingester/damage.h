/*
 * Counts damage that a start finds in the head's store: a record that cannot be read, or that names
 * a record that is missing. The start continues:
 *
 *   repaired    the record is rebuilt from others, and nothing is lost
 *   set aside   the record stays in the store and is not used; its number is not given again
 *
 * Each finding is a line in the log; the sums are metrics, and records that were set aside raise a
 * condition (common/runtime/condition.h). README.md, "Damage", lists the cases.
 *
 * Thread: the one that starts the ingester.
 */
#ifndef FG_INGESTER_DAMAGE_H
#define FG_INGESTER_DAMAGE_H

#include "common/base/slice.h"

enum { DAMAGE_TEXT_MAX_BYTES = 256 }; /* one line for the log and /ready */

struct ing_damage {
    uint64_t repaired, set_aside;      /* records */
    char first[DAMAGE_TEXT_MAX_BYTES]; /* the first record that was set aside; "": none */
};

/* Counts and logs a record that was repaired. The text names the record and the fault. */
void ing_damage_repaired(struct ing_damage *damage, const char *format, ...) fg_printf(2, 3);

/* Counts and logs a record that was set aside, likewise. */
void ing_damage_set_aside(struct ing_damage *damage, const char *format, ...) fg_printf(2, 3);

#endif
