/*
 * Decompresses whole bodies with a bound: input that inflates to more than max_bytes costs at most
 * max_bytes of memory and little more than the time for them. Sizes in headers come from the sender
 * and are only hints.
 *
 * Thread: workers, because it takes time. Each thread keeps its decompressors.
 */
#ifndef FG_COMMON_NET_INFLATE_H
#define FG_COMMON_NET_INFLATE_H

#include "common/base/buf.h"
#include "common/base/err.h"

enum fg_coding {
    FG_CODING_IDENTITY,
    FG_CODING_GZIP,    /* RFC 1952, one or more members */
    FG_CODING_DEFLATE, /* RFC 1950 (zlib), as RFC 9110 8.4.1.2 has it */
    FG_CODING_ZSTD,    /* RFC 8878, one or more frames, windows up to 8 MiB */
};

/*
 * Parses a Content-Encoding header: "" and "identity" are IDENTITY, "x-gzip" is GZIP.
 * FG_E_UNIMPLEMENTED: any other coding, and several codings.
 */
enum fg_code fg_coding_parse(struct fg_slice header, enum fg_coding *ret_coding,
                             struct fg_err *err) fg_must_check;

/* Returns GZIP or ZSTD according to the first bytes, else IDENTITY. */
enum fg_coding fg_coding_sniff(struct fg_slice bytes);

/*
 * Decompresses `in` into `out`, which is initialised; its content is replaced, its memory reused,
 * its own limit ignored. IDENTITY copies. FG_E_TOO_LARGE: more than max_bytes; FG_E_DECODE:
 * damaged, truncated, or followed by other bytes. After a failure the content of `out` is
 * undefined, and its length says how much was decompressed at least: all of the limit if that was
 * exceeded.
 */
enum fg_code fg_inflate(struct fg_slice in, enum fg_coding coding, size_t max_bytes,
                        struct fg_buf *out, struct fg_err *err) fg_must_check;

#endif
