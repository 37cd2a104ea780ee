/*
 * The code of this process: which addresses are code, and the names of their functions, from the
 * files that it was loaded from. The table of symbols of a file is read when its first name is
 * asked for. A stripped file is looked up by its build id in /usr/lib/debug, where packages with
 * debug information put theirs, and else has the names that it exports.
 *
 * Thread: one at a time.
 */
#ifndef FG_COMMON_SELF_PROFILE_PROCESS_SYMBOLS_H
#define FG_COMMON_SELF_PROFILE_PROCESS_SYMBOLS_H

#include "common/base/buf.h"

struct fg_process_symbols;

struct fg_process_symbols *fg_process_symbols_create(void);
/* NULL is fine. */
void fg_process_symbols_destroy(struct fg_process_symbols *symbols);

/* Looks for modules that were loaded since the last time. */
void fg_process_symbols_refresh(struct fg_process_symbols *symbols);

/* Finds the function that an address lies in. Returns false if there is no code. *ret_id stands for
 * the function, or for the rest of its module if that has no name for it. */
bool fg_process_symbols_find(struct fg_process_symbols *symbols, uintptr_t pc, uint64_t *ret_id);

/* Appends the name of a function: of C++ without its parameters, and of a module in brackets. */
void fg_process_symbols_name(const struct fg_process_symbols *symbols, uint64_t id,
                             struct fg_buf *out);

#endif
