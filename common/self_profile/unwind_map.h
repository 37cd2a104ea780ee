/*
 * The unwind tables of this process (unwind_rows.h), made of the files of its modules when
 * self-profiling starts: about 2 MiB. They stay until the process ends, since a handler may be
 * using them. Modules that are loaded later (of the name service) have none.
 */
#ifndef FG_COMMON_SELF_PROFILE_UNWIND_MAP_H
#define FG_COMMON_SELF_PROFILE_UNWIND_MAP_H

#include "common/self_profile/stack_walk.h"

/* Makes the tables, once; takes about 50 ms of processor time. On processors without tables it does
 * nothing. */
void fg_unwind_map_make(void);

/* Returns the tables; NULL: there are none. Any thread, also in handlers of signals. */
const struct fg_unwind_map *fg_unwind_map(void);

#endif
