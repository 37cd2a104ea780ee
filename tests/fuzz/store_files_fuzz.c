/* Files in a store's folder that are no tables: a log of RocksDB, read up to the first damage, and
 * a mark. */
#include "common/storage/store/log_scan.h"
#include "common/storage/store/mark.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice in = fg_bytes(data, size);
    struct fg_log_scan scan = {0};
    struct fg_mark mark;

    for (size_t at = 0; at < size; at += FG_LOG_BLOCK_BYTES) {
        fg_log_scan_block(&scan, fg_slice_sub(in, at, FG_LOG_BLOCK_BYTES));
        fg_assert(scan.end <= scan.at && scan.at <= size);
    }
    fg_assert(scan.at == size);
    fg_assert(fg_log_scan_verdict(&scan) != FG_LOG_WHOLE || scan.end == size);
    if (fg_mark_decode(in, &mark)) {
        struct fg_buf again;

        fg_buf_init(&again, FG_MARK_SLOT_BYTES);
        fg_mark_encode(&mark, &again);
        fg_assert(fg_mark_decode(fg_buf_slice(&again), &mark));
        fg_buf_done(&again);
    }
    return 0;
}
