/* Forwards the log of RocksDB to ours; for rocksdb.c only. */
#ifndef FG_COMMON_STORAGE_STORE_ROCKSDB_LOG_H
#define FG_COMMON_STORAGE_STORE_ROCKSDB_LOG_H

#include <rocksdb/c.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FG_ROCKSDB_LINE_MAX_BYTES = 1024 }; /* longer lines are cut */

/*
 * Makes a logger for rocksdb_options_set_info_log(), which takes a reference of its own. on_line
 * gets each warning and error, on the thread that reports it: one of RocksDB or of a caller.
 */
rocksdb_logger_t *fg_rocksdb_logger_create(void (*on_line)(const char *text));
void fg_rocksdb_logger_destroy(rocksdb_logger_t *logger);

#ifdef __cplusplus
}
#endif
#endif
