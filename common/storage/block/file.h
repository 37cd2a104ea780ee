/*
 * A sink for the block writer that writes a local file, from which the segment or block is uploaded
 * to the bucket. It does not sync: the object becomes durable, not the file.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_FILE_H
#define FG_COMMON_STORAGE_BLOCK_FILE_H

#include "common/storage/block/writer.h"

struct fg_block_file;

/* Creates a file, or truncates an existing one. FG_E_NO_SPACE, FG_E_UNAVAILABLE. */
enum fg_code fg_block_file_create(const char *path, struct fg_block_file **ret_file,
                                  struct fg_err *err) fg_must_check;

/* Returns the sink, valid as long as the file. */
struct fg_block_sink fg_block_file_sink(struct fg_block_file *file);

/* Writes buffered bytes. FG_E_NO_SPACE, FG_E_UNAVAILABLE. */
enum fg_code fg_block_file_finish(struct fg_block_file *file, struct fg_err *err) fg_must_check;

/* Closes the file. Removes it unless fg_block_file_finish() has succeeded. Accepts NULL. */
void fg_block_file_destroy(struct fg_block_file *file);
FG_AUTO(fg_block_file, fg_block_file_destroy)

#endif
