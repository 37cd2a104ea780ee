/*
 * The files that this process is made of, as the loader knows them.
 */
#ifndef FG_COMMON_SELF_PROFILE_PROCESS_MODULES_H
#define FG_COMMON_SELF_PROFILE_PROCESS_MODULES_H

#include "common/base/def.h"

struct fg_process_module {
    const char *path;    /* borrowed during the call */
    uintptr_t low, high; /* of code */
    uintptr_t bias;      /* addresses in memory less those of the file */
};

/* Calls each() for all modules that have code. The loader loads and unloads none meanwhile. */
void fg_process_modules_each(void (*each)(void *arg, const struct fg_process_module *module),
                             void *arg);

#endif
