/*
 * A document: what a tenant used on a day, as it is billed. An object of its own for each version,
 * written once and never changed or deleted by any program. A version has the whole day, so the
 * newest one counts; the others say what was known before.
 *
 * In an envelope (common/base/envelope.h), magic "FGUD":
 *   varint length, tenant; varint version, version before it (0: none), revision; the day
 *   (fg_usage_day_put())
 * The same value gives the same bytes.
 *
 * A day may get corrections without end, each with the services of a whole ledger. So the rows of a
 * document are bounded, too: what further services use counts for the service "".
 *
 * Thread: any; no state.
 */
#ifndef FG_COMMON_CLUSTER_USAGE_DOCUMENT_H
#define FG_COMMON_CLUSTER_USAGE_DOCUMENT_H

#include "common/model/usage_day.h"

enum {
    FG_USAGE_DOCUMENT_ROWS_MAX_BYTES = 16 * 1024 * 1024, /* fg_usage_day_bytes(); of four ledgers */
    FG_USAGE_DOCUMENT_MAX_BYTES = 64 * 1024 * 1024,      /* those rows take half of it at most */
    FG_USAGE_DOCUMENT_ARENA_BYTES = 256 * 1024 * 1024,   /* enough for one of that size */
};

struct fg_usage_document {
    struct fg_slice tenant;
    uint64_t version;  /* when its sums became final; seconds since 1970 */
    uint64_t before;   /* the version that this one adds to; 0: none */
    uint64_t revision; /* so many versions there are of the day, with this one */
    struct fg_usage_day sums;
};

/* Makes the version that adds `more` to the one before, within the limit of rows; before NULL: the
 * first. Borrows names. FG_E_LIMIT: the arena is full. */
enum fg_code fg_usage_document_next(const struct fg_usage_document *before, struct fg_slice tenant,
                                    uint64_t version, const struct fg_usage_day *more,
                                    struct fg_arena *arena, struct fg_usage_document *ret_document,
                                    struct fg_err *err) fg_must_check;

/* Encodes it. FG_E_LIMIT: it is too large. */
enum fg_code fg_usage_document_encode(const struct fg_usage_document *document, struct fg_buf *out,
                                      struct fg_err *err) fg_must_check;

/* Decodes one into the arena; it does not point into `in`. FG_E_CORRUPT: it is damaged, or not of
 * this tenant, day and version. FG_E_UNIMPLEMENTED: it is of a newer version. */
enum fg_code fg_usage_document_decode(struct fg_slice in, struct fg_slice tenant, int32_t day,
                                      uint64_t version, struct fg_arena *arena,
                                      struct fg_usage_document *ret_document,
                                      struct fg_err *err) fg_must_check;

#endif
