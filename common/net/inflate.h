/*
 * Decompression of whole bodies, with a bound: what inflates to more than max_bytes costs no more
 * than max_bytes of memory and a little more than the time for them. Whatever a header claims about
 * the size is the sender's word; it is a hint and nothing more.
 *
 * Thread: any, and workers only, as it takes its time. The decompressors' contexts are kept per
 * thread.
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
 * What a Content-Encoding header says: an empty one and "identity" are none, "x-gzip" is gzip.
 * FG_E_UNIMPLEMENTED for others, also for several codings on top of each other.
 */
enum fg_code fg_coding_parse(struct fg_slice header, enum fg_coding *ret_coding,
                             struct fg_err *err) fg_must_check;

/* gzip or zstd by its first bytes, else identity: for profiles that may come either way. */
enum fg_coding fg_coding_sniff(struct fg_slice bytes);

/*
 * Replaces what is in `out` (initialised; its memory is used again, its own limit is not looked
 * at). IDENTITY copies. FG_E_TOO_LARGE: more than max_bytes; FG_E_DECODE: damaged, cut short, or
 * followed by something else. On failure what is in `out` means nothing.
 */
enum fg_code fg_inflate(struct fg_slice in, enum fg_coding coding, size_t max_bytes,
                        struct fg_buf *out, struct fg_err *err) fg_must_check;

#endif
