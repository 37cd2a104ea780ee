/* A stored profile is read or corrupt; what is read stays in its bounds. */
#include "ingester/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ing_record_columns columns = {0};
    struct ing_record record;
    struct fg_err err;

    if (ing_record_open(fg_bytes(data, size), &record, &err) == FG_OK)
        for (uint32_t t = 0; t <= record.n_types; t++) {
            uint64_t total;

            (void)!ing_record_total(&record, t, &total, &err);
            (void)!ing_record_read(&record, t, false, &columns, &err); /* the columns up to t */
            if (ing_record_read(&record, t, true, &columns, &err) != FG_OK) {
                fg_assert(err.code == FG_E_CORRUPT);
                continue;
            }
            for (uint32_t i = 1; i < record.n_samples; i++)
                fg_assert(columns.nodes[i - 1] <= columns.nodes[i]);
            for (uint32_t i = 0; i < columns.n_links; i++)
                fg_assert(columns.links[i].sample < record.n_samples);
            fg_assert(columns.size.known ||
                      (columns.size.wire_bytes == 0 && columns.size.raw_bytes == 0));
        }
    else
        fg_assert(err.code == FG_E_CORRUPT);
    ing_record_columns_done(&columns);
    return 0;
}
