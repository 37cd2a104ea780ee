/*
 * Reads RocksDB's log format (its write-ahead logs and its MANIFEST) as far as is needed to tell a
 * log that a crash has torn from one that was damaged.
 *
 *   a log: blocks of 32 KiB, the last one shorter
 *   a block: fragments; what is left at its end (less than 7 bytes) is zero
 *   a fragment: le32 crc32c of type and bytes, masked; le16 length; u8 type; bytes
 *   type: 1 a whole record; 2 the first, 3 a middle, 4 the last fragment of one
 *
 * We sync after every record, so a crash leaves at most one record in pieces, and nothing behind
 * it. A record behind one that cannot be read means that the latter was acknowledged: damage.
 *
 * A record of a write-ahead log is a batch: le64 sequence number of its first operation, le32
 * number of operations, the operations. Where a write has failed and the process lived on, we know
 * which was the last that did not, and take what is behind it for torn as well.
 *
 * RocksDB, db/log_format.h, format without recycled logs (we do not recycle), and
 * db/write_batch.cc.
 */
#ifndef FG_COMMON_STORE_LOG_SCAN_H
#define FG_COMMON_STORE_LOG_SCAN_H

#include "common/base/slice.h"

enum { FG_LOG_BLOCK_BYTES = 32 * 1024 };

enum fg_log_verdict {
    FG_LOG_WHOLE,   /* ends with a whole record, or is empty */
    FG_LOG_TORN,    /* whole up to `end`, and then pieces of one record or none */
    FG_LOG_DAMAGED, /* records follow what cannot be read, which is at `end` */
};

/* Zeroed at the start, but for sequence_max. */
struct fg_log_scan {
    uint64_t
        sequence_max; /* a record that begins later was not acknowledged; 0: any may have been */
    uint64_t at;      /* bytes fed */
    uint64_t end;     /* behind the last whole record before anything that cannot be read */
    bool in_record;   /* its first fragment was there, its last was not */
    bool bad;         /* something could not be read */
    bool bad_record_over; /* and the record it was in has ended since */
    bool damaged;
};

/* The next block: of FG_LOG_BLOCK_BYTES, but for the last one. */
void fg_log_scan_block(struct fg_log_scan *scan, struct fg_slice block);

/* After the last block. */
enum fg_log_verdict fg_log_scan_verdict(const struct fg_log_scan *scan);

#endif
