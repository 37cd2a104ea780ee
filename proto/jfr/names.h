/*
 * Normalizes names that a JVM generates in each run, each of which would become a function of its
 * own: generated classes and libraries unpacked into temporary files (distributor/API.md#jfr).
 */
#ifndef FG_PROTO_JFR_NAMES_H
#define FG_PROTO_JFR_NAMES_H

#include "common/base/buf.h"

/* Normalizes the symbol in `text` from `from` to its end. */
void fg_jfr_name_clean(struct fg_buf *text, size_t from);

#endif
