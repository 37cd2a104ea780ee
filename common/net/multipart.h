/*
 * multipart/form-data (RFC 7578) in a complete body. Nothing is copied and
 * nothing is allocated: parts are slices of the body, read one after another.
 *
 *     struct fg_multipart form;
 *     if (fg_multipart_init(&form, fg_http_header(req, "Content-Type"), body, &err) != FG_OK) ...
 *     while (fg_multipart_next(&form, &part, &err) == FG_OK && !form.ended) ...
 *
 * Strict where two readers could disagree, else tolerant like Go's mime/multipart: text before the
 * first boundary and after the last is skipped, bare LF ends a line too.
 */
#ifndef FG_COMMON_NET_MULTIPART_H
#define FG_COMMON_NET_MULTIPART_H

#include "common/base/err.h"
#include "common/base/slice.h"

enum {
    FG_MULTIPART_BOUNDARY_MAX_BYTES = 70,   /* RFC 2046, 5.1.1 */
    FG_MULTIPART_PARTS_MAX = 64,            /* agents send up to five */
    FG_MULTIPART_HEAD_MAX_BYTES = 8 * 1024, /* of one part */
};

/* Lives as long as the body does. */
struct fg_multipart_part {
    struct fg_slice name; /* of the form's field; escapes are kept */
    struct fg_slice filename;
    bool is_file;                 /* it has a filename, perhaps an empty one */
    struct fg_slice content_type; /* ptr NULL: none */
    struct fg_slice data;
};

struct fg_multipart {
    struct fg_slice rest; /* after the boundary line of the next part */
    char delimiter[2 + FG_MULTIPART_BOUNDARY_MAX_BYTES + 1]; /* "--boundary" */
    unsigned n_parts;
    bool last;  /* the boundary read was the closing one */
    bool ended; /* fg_multipart_next() has reported the end */
};

/* Starts reading a form. FG_E_INVALID: it is not multipart/form-data, or the header or the body has
 * no usable boundary. */
enum fg_code fg_multipart_init(struct fg_multipart *form, struct fg_slice content_type,
                               struct fg_slice body, struct fg_err *err) fg_must_check;

/*
 * Reads the next part; after the last one returns FG_OK and sets form->ended. FG_E_INVALID:
 * malformed or truncated; FG_E_LIMIT: too many parts, or the headers of a part are too long.
 */
enum fg_code fg_multipart_next(struct fg_multipart *form, struct fg_multipart_part *ret_part,
                               struct fg_err *err) fg_must_check;

/*
 * Returns a parameter of a header value such as  form-data; name="a;b"  without its quotes. ptr
 * NULL: it is missing, or the value is malformed before it. A quoted pair (\") stays two bytes.
 */
struct fg_slice fg_header_param(struct fg_slice value, const char *name);

#endif
