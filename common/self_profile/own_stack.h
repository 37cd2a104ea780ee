/*
 * The stack of the calling thread. Thread: any; safe in handlers of signals.
 */
#ifndef FG_COMMON_SELF_PROFILE_OWN_STACK_H
#define FG_COMMON_SELF_PROFILE_OWN_STACK_H

#include "common/self_profile/unwind_map.h"

/* Returns the end of the thread's stack. Everything from its stack pointer to here can be read. */
uintptr_t fg_own_stack_high(void);

/* Fills pcs[FG_STACK_DEPTH_MAX] with the return addresses of the calling function and those above
 * it, and returns how many there are. */
#define fg_own_stack(pcs)                                                                          \
    fg_stack_walk(fg_unwind_map(),                                                                 \
                  &(struct fg_stack_registers){.fp = (uintptr_t)__builtin_frame_address(0),        \
                                               .sp = (uintptr_t)__builtin_frame_address(0),        \
                                               .high = fg_own_stack_high()},                       \
                  (pcs))

#endif
