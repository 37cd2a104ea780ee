/*
 * Records which objects of the bucket are damaged, or missing although a manifest lists them. A
 * reader that continues without such an object reports it here. Operators get one log line per
 * object, the metric flamegrid_damaged_objects, and the condition objects_damaged with the names.
 * An object that was not reported for an hour is removed: it was restored, quarantined or replaced.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_BUCKET_DAMAGE_H
#define FG_COMMON_BUCKET_DAMAGE_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/run/condition.h"

struct fg_damage;

/* All borrowed. */
struct fg_damage *fg_damage_create(struct fg_conditions *conditions, struct fg_registry *registry,
                                   struct fg_clock *clock);
/* Frees it. Call it when no thread uses it or scrapes the registry. Accepts NULL. */
void fg_damage_destroy(struct fg_damage *damage);

/* Reports that the object could not be used, and why. damage NULL (tests and tools): does nothing.
 */
void fg_damage_met(struct fg_damage *damage, const char *object, const char *why);

/* Returns true if this error of reading an object means that the object is damaged or missing, and
 * not that the bucket is unavailable or the reader is out of memory. */
static inline bool fg_damage_is(enum fg_code code)
{
    return code == FG_E_CORRUPT || code == FG_E_NOT_FOUND;
}

#endif
