/*
 * Names that a JVM makes up anew in each run, and of which each would be a function of its own:
 * generated classes and libraries unpacked into temporary files (distributor/API.md#jfr).
 */
#ifndef FG_PROTO_JFR_NAMES_H
#define FG_PROTO_JFR_NAMES_H

#include "common/base/buf.h"

/* Changes the symbol that stands in `text` from `from` to the end into what all its likes are
 * called. */
void fg_jfr_name_clean(struct fg_buf *text, size_t from);

#endif
