/*
 * The corpus of real and malformed profiles: in $FG_SHARED, else next to the repository, else the
 * part of it that is ours, in tests/data.
 */
#ifndef FG_TESTS_LIB_CORPUS_H
#define FG_TESTS_LIB_CORPUS_H

#include "common/base/buf.h"

const char *corpus_folder(void);

/* The bytes of a file, by its name in the corpus; false: there is none. */
bool corpus_read(const char *name, struct fg_buf *out);

/* Unpacks it, from any coding. false: it cannot be unpacked, or is too large. */
bool corpus_unpack(const struct fg_buf *in, struct fg_buf *out);

/* A line of manifest.tsv; borrowed from it. */
struct corpus_row {
    struct fg_slice file, format, types, totals, expect;
    bool has_totals; /* they are numbers: one for each sample type */
};

/* Takes a line off the text; false at its end. */
bool corpus_next_row(struct fg_slice *text, struct corpus_row *ret_row);

/* The stacks that the oracle wrote down of a file, its type or event ("" where a file has but one);
 * false: it wrote none. */
bool corpus_expected(struct fg_slice file, const char *type, struct fg_buf *out);

/* Folded text, of several batches perhaps, with equal stacks summed and in byte order. */
void corpus_merge(struct fg_slice text, struct fg_buf *out);

/* Takes what is before the byte off the text; all of it when there is none. */
struct fg_slice corpus_take(struct fg_slice *text, uint8_t end);

#endif
