/*
 * Whether the program has the hooks of malloc() and of locks (hooks.c), without which there are no
 * profiles of heap and locks.
 */
#ifndef FG_COMMON_SELF_PROFILE_HOOKS_H
#define FG_COMMON_SELF_PROFILE_HOOKS_H

#include <stdbool.h>

/* Its address is NULL if it has not. */
extern const bool fg_hooks_are_linked __attribute__((weak));

#endif
