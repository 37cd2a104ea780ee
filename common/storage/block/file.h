/*
 * A sink for the block writer that is a local file: the way of a segment or block to the bucket.
 * Nothing is synced; what becomes durable is the object that is made of it.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_FILE_H
#define FG_COMMON_STORAGE_BLOCK_FILE_H

#include "common/storage/block/writer.h"

struct fg_block_file;

/* A new file, or an old one made empty. FG_E_NO_SPACE, FG_E_UNAVAILABLE. */
enum fg_code fg_block_file_create(const char *path, struct fg_block_file **ret_file,
                                  struct fg_err *err) fg_must_check;

/* Valid as long as the file. */
struct fg_block_sink fg_block_file_sink(struct fg_block_file *file);

/* Writes what is left. FG_E_NO_SPACE, FG_E_UNAVAILABLE. */
enum fg_code fg_block_file_finish(struct fg_block_file *file, struct fg_err *err) fg_must_check;

/* Closes it; without a finish that went well it is removed. NULL is fine. */
void fg_block_file_destroy(struct fg_block_file *file);
FG_AUTO(fg_block_file, fg_block_file_destroy)

#endif
