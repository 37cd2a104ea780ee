/*
 * Decodes the operations of a batch, for implementations of the store.
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
    struct fg_slice key;   /* of a range: its first key */
    struct fg_slice value; /* of a range: its end, exclusive */
};

/* Reads the next operation from a cursor over the ops of a batch. Asserts that it is valid, since
 * batches are made by this process. */
struct fg_store_op fg_store_batch_read(struct fg_cur *cur, unsigned n_families);

#endif
