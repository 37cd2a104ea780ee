#include "common/model/frame_name.h"

/* Returns what follows the last slash, or all of it if nothing does. */
static struct fg_slice base_name(struct fg_slice path)
{
    for (size_t i = path.len; i > 0; i--)
        if (path.ptr[i - 1] == '/')
            /* A path that ends with a slash has no last part: it is shown as it is. */
            return i == path.len ? path : fg_slice_sub(path, i, path.len);
    return path;
}

static struct fg_slice address_name(const struct fg_symbols *symbols,
                                    const struct fg_location *location, struct fg_buf *scratch)
{
    struct fg_slice file = FG_LIT("");
    uint64_t address = location->address;

    /* Without an address there is nothing to show: either the sender named the line with an empty
     * text, or it sent no line. */
    if (address == 0)
        return location->n_lines > 0 ? FG_LIT("") : FG_LIT(FG_FRAME_UNKNOWN);
    if (location->mapping != FG_NO_MAPPING) {
        const struct fg_mapping *mapping = &symbols->mappings[location->mapping];

        file = fg_symbols_text(symbols, mapping->filename);
        if (file.len > 0) {
            bool inside =
                address >= mapping->start && (mapping->limit == 0 || address < mapping->limit);

            /* Untrusted numbers: the sum wraps around at 64 bits. */
            address = inside ? address - mapping->start + mapping->offset : address;
        }
    }
    fg_buf_clear(scratch);
    if (file.len > 0) {
        fg_buf_put(scratch, base_name(file));
        fg_buf_putc(scratch, '+');
    }
    fg_buf_printf(scratch, "0x%llx", (unsigned long long)address);
    return fg_buf_slice(scratch);
}

struct fg_slice fg_frame_name(const struct fg_symbols *symbols, uint32_t location, uint32_t frame,
                              struct fg_buf *scratch)
{
    const struct fg_location *at = &symbols->locations[location];

    fg_assert(location < symbols->n_locations && frame < fg_frame_count(at));
    if (at->n_lines > 0) {
        const struct fg_line *line = &symbols->lines[at->first_line + frame];
        uint32_t name = fg_function_name(&symbols->functions[line->function]);

        if (name != 0)
            return fg_symbols_text(symbols, name);
    }
    return address_name(symbols, at, scratch);
}
