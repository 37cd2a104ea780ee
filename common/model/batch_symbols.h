/*
 * Locations of a batch (batch.h) in a symbol table.
 *
 * Thread: one at a time.
 */
#ifndef FG_COMMON_MODEL_BATCH_SYMBOLS_H
#define FG_COMMON_MODEL_BATCH_SYMBOLS_H

#include "common/model/batch.h"

/* Adds a location of the batch with its functions and its mapping, and returns its number in the
 * table. Content that the table has already gets the number that it has there. */
uint32_t fg_batch_symbols_location(const struct fg_batch *batch, uint32_t number,
                                   struct fg_symbols *symbols);

#endif
