/*
 * Which objects of the bucket this process cannot make sense of: damaged ones, and lost ones that a
 * manifest lists. Whoever reads an object says so here when it fails and goes on without it; an
 * operator gets one line in the log for each, flamegrid_damaged_objects, and the condition
 * objects_damaged with their names. What nobody has met for an hour is forgotten: it was put back,
 * given up, or is not in use any more.
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
/* Frees it; nobody calls any more, nor scrapes the registry. NULL is fine. */
void fg_damage_destroy(struct fg_damage *damage);

/* Says that the object of that name could not be used, and why. damage NULL (tests and tools):
 * nothing. */
void fg_damage_met(struct fg_damage *damage, const char *object, const char *why);

/* Does this result of reading an object mean that it is damaged or lost, and not that the bucket is
 * away or the reader has no room? */
static inline bool fg_damage_is(enum fg_code code)
{
    return code == FG_E_CORRUPT || code == FG_E_NOT_FOUND;
}

#endif
