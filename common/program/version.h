/* Version of the programs, set by the build. */
#ifndef FG_COMMON_PROGRAM_VERSION_H
#define FG_COMMON_PROGRAM_VERSION_H

/* Returns "0.1.0". */
const char *fg_program_version(void);

/* Returns the short hash of the commit, "a1b2c3d"; "" outside a checkout. */
const char *fg_program_revision(void);

#endif
