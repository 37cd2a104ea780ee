/* A section gives rows that ascend, whatever it says. The first bytes are where it is loaded. */
#include "common/base/cursor.h"
#include "common/self_profile/unwind_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_cur cur = fg_cur(fg_bytes(data, size));
    uint64_t address = fg_cur_le32(&cur), low = fg_cur_le32(&cur);
    struct fg_unwind_rows rows;

    if (cur.bad)
        return 0;
    fg_unwind_rows_read(fg_bytes(cur.ptr, cur.left), address, low, &rows);
    for (uint32_t i = 0; i < rows.count; i++) {
        fg_assert(i == 0 || rows.items[i - 1].address < rows.items[i].address);
        fg_assert(fg_unwind_rows_find(&rows, rows.items[i].address) == &rows.items[i]);
    }
    fg_unwind_rows_done(&rows);
    return 0;
}
