#include "common/storage/store/log_scan.h"

#include "common/base/crc32c.h"
#include "common/base/cursor.h"

enum { HEADER_BYTES = 7, TYPE_AT = 6 };
enum { TYPE_FULL = 1, TYPE_FIRST, TYPE_MIDDLE, TYPE_LAST };

/* RocksDB stores masked checksums, so that a log inside of a log has no valid checksum by chance
 * (util/crc32c.h). */
static uint32_t unmask(uint32_t masked)
{
    uint32_t rotated = masked - 0xa282ead8U;

    return rotated >> 17 | rotated << 15;
}

/* Returns true if the record that begins with these bytes may have been acknowledged. */
static bool is_known(const struct fg_log_scan *scan, struct fg_slice bytes)
{
    /* A record is a write batch, which begins with its sequence number (8 bytes). */
    struct fg_cur cur = fg_cur(bytes);

    return scan->sequence_max == 0 || fg_cur_le64(&cur) <= scan->sequence_max;
}

static void take_fragment(struct fg_log_scan *scan, uint8_t type, struct fg_slice bytes,
                          uint64_t end)
{
    /* Types: FULL is a record by itself; FIRST, MIDDLE… and LAST make up one that spans
     * fragments. */
    bool starts = type == TYPE_FULL || type == TYPE_FIRST;
    bool ends = type == TYPE_FULL || type == TYPE_LAST;

    /* After unreadable bytes only the rest of the same record may follow. */
    if (scan->bad && (starts || scan->bad_record_over))
        scan->damaged = true;
    if (scan->bad) {
        scan->bad_record_over |= ends;
        return;
    }
    if (starts && !is_known(scan, bytes)) {
        scan->bad = true;
        scan->bad_record_over = ends;
        return;
    }
    if (starts ==
        scan->in_record) { /* a record begins in another one, or a fragment continues none */
        scan->bad = true;
        scan->damaged |= starts;
        return;
    }
    scan->in_record = !ends;
    if (ends)
        scan->end = end;
}

/* What the header at the start of `rest` says. */
struct fragment {
    size_t len; /* with the header */
    uint8_t type;
    bool fits;     /* into `rest` */
    bool readable; /* type and checksum are right */
};

static struct fragment read_fragment(struct fg_slice rest)
{
    struct fg_cur cur = fg_cur(rest);
    uint32_t crc = unmask(fg_cur_le32(&cur));
    struct fragment fragment = {.len = fg_cur_u8(&cur)};

    fragment.len |= (size_t)fg_cur_u8(&cur) << 8;
    fragment.len += HEADER_BYTES;
    fragment.type = fg_cur_u8(&cur);
    fragment.fits = !cur.bad && fragment.len <= rest.len;
    fragment.readable = fragment.fits && fragment.type >= TYPE_FULL && fragment.type <= TYPE_LAST &&
                        crc == fg_crc32c(fg_slice_sub(rest, TYPE_AT, fragment.len - TYPE_AT));
    return fragment;
}

static bool is_zero(struct fg_slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        if (bytes.ptr[i] != 0)
            return false;
    return true;
}

void fg_log_scan_block(struct fg_log_scan *scan, struct fg_slice block)
{
    size_t at = 0;

    fg_assert(block.len > 0 && block.len <= FG_LOG_BLOCK_BYTES);
    while (block.len - at >= HEADER_BYTES) {
        struct fragment fragment = read_fragment(fg_slice_sub(block, at, block.len - at));

        scan->bad |= !fragment.readable;
        /* Its length may be wrong: on with the next block, as RocksDB does, unless there is a
         * fragment right behind it. */
        if (!fragment.fits)
            break;
        at += fragment.len;
        if (fragment.readable)
            take_fragment(scan, fragment.type,
                          fg_slice_sub(block, at - fragment.len + HEADER_BYTES, SIZE_MAX),
                          scan->at + at);
        else if (!read_fragment(fg_slice_sub(block, at, block.len - at)).readable)
            break;
    }
    if (!scan->bad) { /* the trailer, which a short block does not have */
        struct fg_slice rest = fg_slice_sub(block, at, block.len - at);

        scan->bad = rest.len > 0 && (block.len < FG_LOG_BLOCK_BYTES || !is_zero(rest));
    }
    scan->at += block.len;
}

enum fg_log_verdict fg_log_scan_verdict(const struct fg_log_scan *scan)
{
    if (scan->damaged)
        return FG_LOG_DAMAGED;
    return scan->bad || scan->in_record ? FG_LOG_TORN : FG_LOG_WHOLE;
}
