/*
 * The mark: a file that notes how much of RocksDB's files is known to be durable, so that the next
 * start can tell the traces of a crash from damage. RocksDB cannot: it reads a MANIFEST or log that
 * was cut short as one that ends there, and silently deletes the files that it then does not know.
 *
 *   MARK    two slots of 4 KiB, written in turns; the newer one counts
 *     0   magic "FGmk"
 *     4   crc32c of what follows, up to the end of the last log
 *     8   le64 number of the mark, ascending
 *     16  le64 number of the MANIFEST, le64 its size
 *     32  le64 n, number of logs
 *     40  n times: le64 number of the log, le64 its size; ascending
 *
 * A mark states only what has been synced. So an old or missing mark detects less damage, and no
 * mark refuses a store that a crash left. The mark itself is synced only when the MANIFEST has
 * changed, because it serves to detect damage that happens later.
 */
#ifndef FG_COMMON_STORAGE_STORE_MARK_H
#define FG_COMMON_STORAGE_STORE_MARK_H

#include "common/base/buf.h"
#include "common/base/err.h"

enum { FG_MARK_SLOT_BYTES = 4096, FG_MARK_LOGS_MAX = 250 };

struct fg_mark_log {
    uint64_t number, size;
};

struct fg_mark {
    uint64_t number; /* 0: there is none */
    uint64_t manifest, manifest_size;
    uint32_t n_logs;
    struct fg_mark_log logs[FG_MARK_LOGS_MAX]; /* the newest ones, if there are more */
};

/* Appends a slot, padded to its size. */
void fg_mark_encode(const struct fg_mark *mark, struct fg_buf *out);

/* Decodes a slot. Returns false if it is empty or torn. */
bool fg_mark_decode(struct fg_slice slot, struct fg_mark *ret_mark) fg_must_check;

/*
 * Checks the folder of a RocksDB that is not open for writing, or whose log takes no more writes.
 * Truncates an incomplete record at the end of the last log: RocksDB would treat it as damage once
 * newer data was flushed. FG_E_CORRUPT: the error names the damage, and nothing was changed.
 * FG_E_UNAVAILABLE, FG_E_DENIED: a system call failed.
 */
enum fg_code fg_mark_check(const char *dir, uint64_t sequence_max,
                           struct fg_err *err) fg_must_check;

/* Writes marks of one folder. */
struct fg_marker;

/* Creates a marker for the folder, which is copied. Reads and writes nothing. */
struct fg_marker *fg_marker_create(const char *dir);
/* Frees the marker. Accepts NULL. */
void fg_marker_destroy(struct fg_marker *marker);

/* Writes a mark of the folder's present state. All logs must be synced. After an
 * error of the disk the previous mark stays. */
enum fg_code fg_marker_note(struct fg_marker *marker, struct fg_err *err) fg_must_check;

#endif
