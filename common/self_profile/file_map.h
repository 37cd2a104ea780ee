/*
 * Files as memory, to read modules of this process.
 */
#ifndef FG_COMMON_SELF_PROFILE_FILE_MAP_H
#define FG_COMMON_SELF_PROFILE_FILE_MAP_H

#include "common/base/slice.h"

/* Maps a file for reading; empty: it cannot be read. Ends with fg_file_unmap(). */
struct fg_slice fg_file_map(const char *path);
/* An empty slice is fine. */
void fg_file_unmap(struct fg_slice file);

#endif
