/*
 * Lets one thread append to an array while others read what it has already. realloc() would free
 * the array under its readers; here an array that became too small is kept in a list until the
 * owner knows that no reader uses it.
 *
 * Why this is safe: the writer publishes the array's address and a count under a lock. A reader
 * reads only entries below that count, and these never change. The writer fills entries above the
 * count, in the same array or in a longer copy, so it never writes a byte that a reader reads.
 *
 * Memory: arrays double, so the old arrays together are no larger than the current one.
 * Thread: one thread at a time per list.
 */
#ifndef FG_COMMON_BASE_OUTGROWN_H
#define FG_COMMON_BASE_OUTGROWN_H

#include "common/base/def.h"

/* A list of old arrays. Zeroed: empty. */
struct fg_outgrown {
    struct fg_outgrown_array *arrays;
    size_t bytes; /* of these arrays */
};

/*
 * Returns an array of new_bytes that begins with the used_bytes of `array`, and puts `array` onto
 * the list. outgrown NULL: frees `array` like realloc(), if it has no other readers. Never fails.
 */
void *fg_outgrow(struct fg_outgrown *outgrown, void *array, size_t used_bytes, size_t new_bytes);

/* Moves all arrays of `from` to `into`; `from` is empty afterwards. */
void fg_outgrown_move(struct fg_outgrown *into, struct fg_outgrown *from);

/* Frees the arrays of the list; it is empty afterwards. */
void fg_outgrown_free(struct fg_outgrown *outgrown);

#endif
