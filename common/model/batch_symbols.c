#include "common/model/batch_symbols.h"

/* The number of one of the batch's functions in the table of symbols. */
static uint32_t define_function(const struct fg_batch *batch, uint32_t number,
                                struct fg_symbols *symbols)
{
    const struct fg_batch_function *function = &batch->functions[number];

    return fg_symbols_function(symbols, &(struct fg_function){
                                            fg_symbols_string(symbols, function->name),
                                            fg_symbols_string(symbols, function->system_name),
                                            fg_symbols_string(symbols, function->filename),
                                            function->start_line,
                                        });
}

static uint32_t define_mapping(const struct fg_batch *batch, uint32_t number,
                               struct fg_symbols *symbols)
{
    const struct fg_batch_mapping *mapping;

    if (number == FG_NO_MAPPING)
        return FG_NO_MAPPING;
    mapping = &batch->mappings[number];
    return fg_symbols_mapping(symbols, &(struct fg_mapping){
                                           mapping->start,
                                           mapping->limit,
                                           mapping->offset,
                                           fg_symbols_string(symbols, mapping->filename),
                                           fg_symbols_string(symbols, mapping->build_id),
                                           mapping->flags,
                                       });
}

uint32_t fg_batch_symbols_location(const struct fg_batch *batch, uint32_t number,
                                   struct fg_symbols *symbols)
{
    const struct fg_batch_location *from = &batch->locations[number];
    struct fg_line few[16];
    struct fg_line *lines = few;
    uint32_t defined;

    if (from->n_lines > FG_COUNT(few))
        lines = fg_calloc(from->n_lines, sizeof *lines);
    for (uint32_t i = 0; i < from->n_lines; i++) {
        const struct fg_line *line = &batch->lines[from->first_line + i];

        lines[i] = (struct fg_line){define_function(batch, line->function, symbols), line->line};
    }
    defined = fg_symbols_location(symbols,
                                  &(struct fg_location){
                                      .address = from->address,
                                      .mapping = define_mapping(batch, from->mapping, symbols),
                                      .n_lines = from->n_lines,
                                      .folded = from->folded,
                                  },
                                  lines);
    if (lines != few)
        free(lines);
    return defined;
}
