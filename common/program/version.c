#include "common/program/version.h"

/* The build defines both; these are for tools that compile the file alone. */
#ifndef FG_VERSION
#define FG_VERSION "unknown"
#endif
#ifndef FG_REVISION
#define FG_REVISION ""
#endif

const char *fg_program_version(void)
{
    return FG_VERSION;
}

const char *fg_program_revision(void)
{
    return FG_REVISION;
}
