/*
 * Sets a damaged store aside, so that a new one can be created in its folder: moves RocksDB's files
 * to DIR/lost-<time>, where an operator can examine or delete them. Other files stay.
 *
 * The files go to DIR/lost.moving first, which is renamed at the end. A start that finds
 * DIR/lost.moving was interrupted by a crash, and completes the move.
 */
#ifndef FG_COMMON_STORAGE_STORE_ASIDE_H
#define FG_COMMON_STORAGE_STORE_ASIDE_H

#include "common/base/err.h"

/* Moves the files of the store in `dir` aside. FG_E_NO_SPACE, FG_E_DENIED, FG_E_UNAVAILABLE: the
 * disk. */
enum fg_code fg_aside_move(const char *dir, struct fg_err *err) fg_must_check;

/* Completes a move that a crash interrupted. FG_OK also if there is none. */
enum fg_code fg_aside_finish(const char *dir, struct fg_err *err) fg_must_check;

#endif
