/*
 * Memory for keys: it is never swapped out, is in no core dump and in no child, and is overwritten
 * before it is freed.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_STORAGE_SEAL_LOCKED_H
#define FG_COMMON_STORAGE_SEAL_LOCKED_H

#include "common/base/def.h"

/* Allocates zeroed memory, in whole pages of the system. *ret_locked: it will not be swapped out.
 * False if the process may not lock so much (RLIMIT_MEMLOCK); the rest holds all the same. */
void *fg_locked_alloc(size_t bytes, bool *ret_locked);
/* Overwrites and frees it. bytes: as for its allocation. Accepts NULL. */
void fg_locked_free(void *memory, size_t bytes);

#endif
