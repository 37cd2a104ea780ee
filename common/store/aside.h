/*
 * Sets a damaged store aside, so that a new one can begin in its folder: all of RocksDB's files go
 * into DIR/lost-<time>, where they can be looked at, or deleted. Other files stay.
 *
 * While they move they are in DIR/lost.moving; a start that finds it goes on where a crash came
 * between.
 */
#ifndef FG_COMMON_STORE_ASIDE_H
#define FG_COMMON_STORE_ASIDE_H

#include "common/base/err.h"

/* Sets the store in `dir` aside. FG_E_NO_SPACE, FG_E_DENIED, FG_E_UNAVAILABLE: the disk. */
enum fg_code fg_aside_move(const char *dir, struct fg_err *err) fg_must_check;

/* Ends what a crash has interrupted; nothing to do is FG_OK. */
enum fg_code fg_aside_finish(const char *dir, struct fg_err *err) fg_must_check;

#endif
