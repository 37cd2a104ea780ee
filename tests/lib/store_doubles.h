/*
 * Stores for tests: one in memory, and one that passes calls on to another and fails as told.
 *
 * Thread: as common/storage/store/store.h.
 */
#ifndef FG_TESTS_LIB_STORE_DOUBLES_H
#define FG_TESTS_LIB_STORE_DOUBLES_H

#include "common/storage/store/store.h"

#include <stdatomic.h>

struct fg_store *fg_store_memory(unsigned n_families);

/* A store in memory with what another one has now. */
struct fg_store *fg_store_memory_copy(struct fg_store *of, unsigned n_families);

/* Passes on to `inner` (borrowed). The fail_at-th write counted from when it was set with writes =
 * 0 fails and leaves nothing, or with fail_late is done and reported as failed (see
 * fg_store_write()). */
struct fg_store_faulty {
    struct fg_store store;
    struct fg_store *inner;
    uint64_t writes, fail_at; /* 1, 2, …; 0: never */
    bool fail_late;
    bool fail_full;  /* and the disk is full from then on */
    bool fail_reads; /* iterators too */
    /* An iterator of any family that comes to this key stands nowhere, with FG_E_CORRUPT, until it
     * is moved elsewhere; empty: none does. */
    struct fg_slice damaged;
    size_t max_bytes; /* a larger batch is refused with FG_E_LIMIT; 0: none is */
    /* While it is set each write fails with FG_E_NO_SPACE, and so does healing; afterwards writes
     * go on failing until it was healed, as RocksDB's do. */
    atomic_bool full;
    atomic_uint healed; /* times */
    bool sick;          /* not healed yet; the writer's */
};
void fg_store_faulty_init(struct fg_store_faulty *faulty, struct fg_store *inner);

/* Makes an iterator that stands nowhere because of this error. */
struct fg_store_iter *fg_store_iter_failed(const struct fg_err *err);

#endif
