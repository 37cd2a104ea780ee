/*
 * Decides which files of a store the disk will not give any more. A read that fails with EIO says
 * that a sector is lost, or that a cable, a controller or a network was away for a moment. Only
 * time tells the two apart, so the error of a read is
 *
 *   FG_E_UNAVAILABLE   at first: the reader tries again, or fails
 *   FG_E_CORRUPT       once the same file could not be read for `patience`: what the file holds
 *                      there is lost, as if a checksum were wrong
 *
 * Whether a file can be read is not believed from the error, which may be one of a write, but
 * tried: the file is read through, past the page cache, when it first fails and before it is given
 * up.
 *
 * A disk that fails as a whole loses nothing, so no file is given up unless the rest of the disk
 * works: a new file next to it can be written, synced and read, and at most FG_UNREAD_FILES_MAX
 * files of the store cannot be read, apart from those that an earlier start gave up. Otherwise the
 * error stays FG_E_UNAVAILABLE, however long it lasts, and says why.
 *
 * No file that is given up is deleted, since most of it can still be read:
 *
 *   DIR/unread/000012.sst   a second name (a hard link) of a table: what cannot be read of it is
 *                           deleted from the store, and sooner or later RocksDB removes the table.
 *                           By this name a later start knows that its reads failed long enough.
 *   DIR/unread/MARK, .../IDENTITY   moved there: the store can be opened without them
 *
 * Logs, the MANIFEST and CURRENT stay where they are: without them there is no start until an
 * operator has decided (fg_store_config.accept_loss).
 *
 * Operators get a line in the log for each file, the metric flamegrid_store_unread_files and the
 * condition head_unread.
 *
 * Thread: any. One lock, which only readers take that have failed; they may wait for the disk.
 */
#ifndef FG_COMMON_STORAGE_STORE_UNREAD_H
#define FG_COMMON_STORAGE_STORE_UNREAD_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/runtime/condition.h"

struct fg_unread;

/* A bad place of a disk is in one file, or in two. */
enum { FG_UNREAD_FILES_MAX = 3 };

/* Long enough for a disk that is reset or a path that is changed, which take some ten seconds. */
#define FG_UNREAD_PATIENCE_NS (30 * FG_SECOND_NS)

struct fg_unread_config {
    const char *dir;     /* of the store, copied */
    int64_t patience_ns; /* FG_UNREAD_PATIENCE_NS; tests choose less */
    /* Borrowed. */
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* NULL: none */
    struct fg_clock *clock;
};

/* Creates it; reads and writes nothing. It outlives all openings of the store. */
struct fg_unread *fg_unread_create(const struct fg_unread_config *config);
/* Frees it. Accepts NULL. */
void fg_unread_destroy(struct fg_unread *unread);

/* Makes the error of a call FG_E_CORRUPT if it came from reading a file that is given up, now or
 * before. Leaves all other errors alone, among them those of writes. Returns the code. unread NULL
 * (tests and tools): EIO never means damage. */
enum fg_code fg_unread_judge(struct fg_unread *unread, struct fg_err *err);

/* Forgets all files: the store was set aside, and a new one begins with names that it had. unread
 * NULL: does nothing. */
void fg_unread_forget(struct fg_unread *unread);

#endif
