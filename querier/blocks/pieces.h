/*
 * A piece of a flame graph: what the parts add up to that lie in the range as a whole. The cache
 * keeps it under a key of all that it depends on: these parts, what is read of them, and the
 * selection. So what is asked again, by another viewer or by a page that refreshes, adds up only
 * the parts at both ends of the range and what ingesters hold. A new segment, or one that is left
 * behind by the range, makes another piece.
 *
 * Parts that a deletion touches are in no piece.
 *
 * Of queries that need the same piece at the same time one makes it, and the others wait for it, as
 * long as their clients do and for at most half of the time that each has left. If the one that
 * makes it fails, or its client goes away, one of the others makes it. A query makes one piece at a
 * time and waits for none meanwhile, so no two wait for each other.
 *
 * Thread: the query's; pieces never change.
 */
#ifndef FG_QUERIER_BLOCKS_PIECES_H
#define FG_QUERIER_BLOCKS_PIECES_H

#include "common/storage/rollup/crown_layer.h"
#include "querier/blocks/reader.h"

enum { QRY_PIECE_PARTS_MIN = 2 }; /* one part is read as fast as its key is made */

struct qry_piece {
    struct fg_crown_layer *layer; /* NULL: the parts have nothing */
    bool negatives;
    /* What reading it added to the numbers of its query. */
    uint64_t profiles, series, bytes, planned_bytes, cache_hits;
};

/* Marks the parts of the piece, which the reader's plan has chosen, and moves them before the
 * others that are read. Returns how many of these there are; *ret_n: with those of crowns only. */
uint32_t qry_piece_mark(struct qry_reader *reader, uint32_t *ret_n);

/* Opens the piece of the marked parts, and waits while another query makes it. full: all nodes are
 * kept. *ret_piece NULL: the caller makes it, and gives it to *ret_entry with qry_piece_keep() or
 * fails that; *ret_entry NULL: it waited too long, and keeps what it makes for itself. The caller
 * releases the entry in each case. FG_E_CANCELED, FG_E_DEADLINE: while it waited. */
enum fg_code qry_piece_open(const struct qry_reader *reader, bool full,
                            struct fg_cache_entry **ret_entry, const struct qry_piece **ret_piece,
                            struct fg_err *err) fg_must_check;

/* Gives a piece, with its layer, to queries that wait for it, and to the cache unless it is too
 * large for that. */
void qry_piece_keep(const struct qry_reader *reader, bool full, struct fg_cache_entry *entry,
                    const struct qry_piece *piece);

#endif
