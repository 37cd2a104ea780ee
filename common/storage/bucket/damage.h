/*
 * Records which objects of the bucket this process cannot use: objects that are damaged, objects
 * that are missing although a manifest lists them, and objects that need a newer program (another
 * version of the format, or encryption). A reader that continues without such an object reports it
 * here. Operators get one log line per object, the metrics flamegrid_damaged_objects and
 * flamegrid_unreadable_objects, and the conditions objects_damaged and objects_unreadable with the
 * names. An object that was not reported for an hour is removed: it was restored, quarantined or
 * replaced.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_STORAGE_BUCKET_DAMAGE_H
#define FG_COMMON_STORAGE_BUCKET_DAMAGE_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/runtime/condition.h"

struct fg_damage;

/* All borrowed. */
struct fg_damage *fg_damage_create(struct fg_conditions *conditions, struct fg_registry *registry,
                                   struct fg_clock *clock);
/* Frees it. Call it when no thread uses it or scrapes the registry. Accepts NULL. */
void fg_damage_destroy(struct fg_damage *damage);

/* Reports that the object could not be used, with which error (fg_damage_unusable()), and why.
 * damage NULL (tests and tools): does nothing. */
void fg_damage_met(struct fg_damage *damage, const char *object, enum fg_code code,
                   const char *why);

/* Returns true if this error of reading an object means that the object is damaged or missing, and
 * not that the bucket is unavailable or the reader is out of memory. */
static inline bool fg_damage_is(enum fg_code code)
{
    return code == FG_E_CORRUPT || code == FG_E_NOT_FOUND;
}

/* Returns whether reading an object again would not help: it is damaged or lost, or this program
 * cannot read what is whole. Nothing that gives objects up may go by this. */
static inline bool fg_damage_unusable(enum fg_code code)
{
    return fg_damage_is(code) || code == FG_E_UNIMPLEMENTED;
}

#endif
