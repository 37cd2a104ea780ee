/*
 * Which profiles of a part are in the range: spans of rows, either whole or as the pages of section
 * IDX say.
 *
 * No I/O. Thread: the query's; qry_rows_spans() any.
 */
#ifndef FG_QUERIER_BLOCKS_ROWS_H
#define FG_QUERIER_BLOCKS_ROWS_H

#include "querier/blocks/reader.h"

struct qry_fetch_item;
struct qry_fetch_list;

/* Returns the first span with profiles in [first, first + count), and in *ret_end the one behind
 * the last. */
uint32_t qry_rows_spans(const struct qry_part *part, uint32_t first, uint32_t count,
                        uint32_t *ret_end);

/* Marks the pages of a section that the spans need; cut_only: those of cut spans. In the reader's
 * arena; NULL: it is full. */
bool *qry_rows_marks(const struct qry_reader *reader, const struct qry_part *part, uint32_t kind,
                     bool cut_only);

/* Phases of a fetch of rows and samples: pages of samples come when all rows are there. */
enum { QRY_ROWS_PHASE = 0, QRY_SAMPLES_PHASE = 1 };

/* Lists what samples of a part's spans need: its stacks, in the given phase, and the pages that
 * qry_rows_marks() marks. Lists nothing for a part without spans. FG_E_LIMIT: the arena is full. */
enum fg_code qry_rows_list_samples(struct qry_reader *reader, struct qry_part *part,
                                   unsigned stacks_phase, struct qry_fetch_list *list,
                                   struct fg_err *err) fg_must_check;

/* Reads a page of IDX: notes which profiles of cut spans are in the range. FG_E_CORRUPT. */
enum fg_code qry_rows_take(struct qry_reader *reader, struct qry_part *part, uint32_t page,
                           struct fg_slice bytes, struct fg_err *err) fg_must_check;

/* Narrows the spans to exactly the profiles to be read. All pages that cut spans need were taken.
 * Does nothing the second time. FG_E_CORRUPT. */
enum fg_code qry_rows_settle(struct qry_part *part, struct fg_err *err) fg_must_check;

/* Returns true if a page of rows is read faster than another thread could help with it. */
bool qry_rows_are_few(const struct qry_fetch_item *item);

#endif
