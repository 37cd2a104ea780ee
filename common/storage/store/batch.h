/*
 * How the operations of a batch are read back; for the stores only.
 *
 * An operation: u8 kind, u8 family, varint-length key, and for puts a varint-length value, for
 * range deletes the varint-length end of the range.
 */
#ifndef FG_COMMON_STORAGE_STORE_BATCH_H
#define FG_COMMON_STORAGE_STORE_BATCH_H

#include "common/base/cursor.h"
#include "common/storage/store/store.h"

enum fg_store_kind { FG_STORE_PUT = 1, FG_STORE_DELETE = 2, FG_STORE_DELETE_RANGE = 3 };

struct fg_store_op {
    enum fg_store_kind kind;
    unsigned family;
    struct fg_slice key;   /* of a range: its first */
    struct fg_slice value; /* of a range: its end, not in it */
};

/* The operation at cur, which started at the batch's ops. Batches are made by us, so anything that
 * does not parse is an assertion. */
struct fg_store_op fg_store_batch_read(struct fg_cur *cur, unsigned n_families);

#endif
