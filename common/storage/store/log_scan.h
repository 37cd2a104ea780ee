/*
 * Reads RocksDB's log format (write-ahead logs and the MANIFEST) and decides whether a log was torn
 * by a crash or damaged.
 *
 *   a log: blocks of 32 KiB, the last one shorter
 *   a block: fragments; a rest of less than 7 bytes is zero
 *   a fragment: le32 crc32c of type and bytes, masked; le16 length; u8 type; bytes
 *   type: 1 a whole record; 2 the first, 3 a middle, 4 the last fragment of one
 *
 * The store syncs after every record, so a crash leaves at most one incomplete record, at the end.
 * If a readable record follows an unreadable one, the unreadable one had been acknowledged: the log
 * is damaged.
 *
 * A record of a write-ahead log is a batch: le64 sequence number of its first operation, le32
 * number of operations, the operations. If a write failed and the process went on, sequence_max
 * tells the last successful one, and records after it count as torn, too.
 *
 * RocksDB, db/log_format.h, format without recycled logs (we do not recycle), and
 * db/write_batch.cc.
 */
#ifndef FG_COMMON_STORAGE_STORE_LOG_SCAN_H
#define FG_COMMON_STORAGE_STORE_LOG_SCAN_H

#include "common/base/slice.h"

enum { FG_LOG_BLOCK_BYTES = 32 * 1024 };

enum fg_log_verdict {
    FG_LOG_WHOLE,   /* ends with a complete record, or is empty */
    FG_LOG_TORN,    /* complete up to `end`, then at most one incomplete record */
    FG_LOG_DAMAGED, /* unreadable at `end`, and records follow */
};

/* The caller sets sequence_max and zeroes the rest. */
struct fg_log_scan {
    uint64_t
        sequence_max; /* a record that begins later was not acknowledged; 0: any may have been */
    uint64_t at;      /* bytes fed */
    uint64_t end;     /* end of the last complete record before anything unreadable */
    bool in_record;   /* its first fragment was there, its last was not */
    bool bad;         /* something could not be read */
    bool bad_record_over; /* and the record it was in has ended since */
    bool damaged;
};

/* Scans the next block. All blocks but the last have FG_LOG_BLOCK_BYTES. */
void fg_log_scan_block(struct fg_log_scan *scan, struct fg_slice block);

/* Returns the verdict after the last block. */
enum fg_log_verdict fg_log_scan_verdict(const struct fg_log_scan *scan);

#endif
