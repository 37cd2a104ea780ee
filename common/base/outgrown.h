/*
 * Lets one thread append to an array while others read what it has already. realloc() would free
 * the array under its readers; here an array that is outgrown is kept in a list until the owner
 * knows that nobody reads it any more.
 *
 * Why that is sound: entries below a count that was published (under a lock, with the address of
 * the array) never change, and a reader looks at no others. The writer fills entries above it, in
 * the same array or in a longer copy. So no byte is written that somebody reads.
 *
 * Memory: arrays double, so all that one array has outgrown is no more than the array is now.
 * Thread: a list is of one thread at a time.
 */
#ifndef FG_COMMON_BASE_OUTGROWN_H
#define FG_COMMON_BASE_OUTGROWN_H

#include "common/base/def.h"

/* Arrays that were outgrown. Zeroed: none. */
struct fg_outgrown {
    struct fg_outgrown_array *arrays;
    size_t bytes; /* of these arrays */
};

/*
 * Returns an array of new_bytes that begins with the used_bytes of `array`, and puts `array` onto
 * the list. outgrown NULL: as realloc(), for arrays that nobody else reads. Never fails.
 */
void *fg_outgrow(struct fg_outgrown *outgrown, void *array, size_t used_bytes, size_t new_bytes);

/* Moves all that is in `from` to `into`; `from` is empty afterwards. */
void fg_outgrown_move(struct fg_outgrown *into, struct fg_outgrown *from);

/* Frees the arrays of the list, which is empty afterwards. */
void fg_outgrown_free(struct fg_outgrown *outgrown);

#endif
