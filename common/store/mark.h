/*
 * What of RocksDB's files is known to be durable, noted in a file beside them, so that the next
 * start can tell what a crash leaves from what was damaged: RocksDB takes a MANIFEST or a log that
 * was cut short for one that ends there, and drops, without a word, what it does not know of any
 * more.
 *
 *   MARK    two slots of 4 KiB, written in turns; the newer one counts
 *     0   magic "FGmk"
 *     4   crc32c of what follows, up to the end of the last log
 *     8   le64 number of the mark, ascending
 *     16  le64 number of the MANIFEST, le64 its size
 *     32  le64 n, number of logs
 *     40  n times: le64 number of the log, le64 its size; ascending
 *
 * A mark says only what has been synced, so one that is old or lost finds less, and none refuses
 * what a crash may leave. It is synced itself only when the MANIFEST has changed: it is for damage
 * that comes later.
 */
#ifndef FG_COMMON_STORE_MARK_H
#define FG_COMMON_STORE_MARK_H

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
    struct fg_mark_log logs[FG_MARK_LOGS_MAX]; /* the newest where there are more */
};

/* Appends a slot, padded to its size. */
void fg_mark_encode(const struct fg_mark *mark, struct fg_buf *out);

/* Reads a slot. false: it is none, or torn. */
bool fg_mark_decode(struct fg_slice slot, struct fg_mark *ret_mark) fg_must_check;

/*
 * Checks the folder of a RocksDB that is not open for writing, or whose log takes no more writes.
 * Cuts off what a crash has left of a record at the end of the last log: RocksDB takes it for
 * damage once something newer was flushed. FG_E_CORRUPT names what is damaged; then nothing was
 * changed. FG_E_UNAVAILABLE, FG_E_DENIED: what the disk says.
 */
enum fg_code fg_mark_check(const char *dir, uint64_t sequence_max,
                           struct fg_err *err) fg_must_check;

/* Writes marks of one folder. */
struct fg_marker;

/* dir: copied. Nothing is read or written yet. */
struct fg_marker *fg_marker_create(const char *dir);
void fg_marker_destroy(struct fg_marker *marker); /* NULL is fine */

/* Notes how the folder stands, all of whose logs are synced. Errors are the disk's; the mark of
 * before stays then. */
enum fg_code fg_marker_note(struct fg_marker *marker, struct fg_err *err) fg_must_check;

#endif
