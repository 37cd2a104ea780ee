/* Whatever a file of the disk cache holds: what is read of it is inside, and written it is the
 * same. */
#include "common/storage/cache/disk_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice file = fg_bytes(data, size);
    uint8_t again[DISK_ENTRY_BYTES];
    struct fg_disk_entry entry;
    uint64_t at = 0;

    while (fg_disk_entry_read(fg_slice_sub(file, (size_t)at, DISK_ENTRY_BYTES), at, size, &entry)) {
        fg_assert(entry.key.len <= size && at + DISK_ENTRY_BYTES <= size - entry.key.len);
        fg_disk_entry_write(&entry, again);
        /* Except for four bytes that are 0 now, and the checksum that depends on them. */
        fg_assert(memcmp(again + 8, data + at + 8, DISK_ENTRY_BYTES - 8 - 4) == 0);
        at += DISK_ENTRY_BYTES + entry.key.len;
    }
    return 0;
}
