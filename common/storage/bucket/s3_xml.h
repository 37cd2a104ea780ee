/*
 * A reader of the XML that object stores answer with: elements and text, bounded in depth and
 * blind to everything that S3 does not use. Attributes, comments and processing instructions are
 * passed over; a document type is an error, as no entities but the five of XML 1.0 and numbers are
 * known (so nothing can be made to grow).
 *
 * Own, and not libexpat's: the subset is small, and the bytes come from outside: fg_cur reads them.
 */
#ifndef FG_COMMON_STORAGE_BUCKET_S3_XML_H
#define FG_COMMON_STORAGE_BUCKET_S3_XML_H

#include "common/base/buf.h"
#include "common/base/cursor.h"

enum { S3_XML_DEPTH_MAX = 16 };

enum fg_s3_xml_event { S3_XML_OPEN, S3_XML_CLOSE, S3_XML_END, S3_XML_BAD };

struct fg_s3_xml {
    struct fg_cur cur;
    struct fg_slice path[S3_XML_DEPTH_MAX]; /* names of the open elements, without their prefixes */
    unsigned depth;
    bool closes_too; /* the element that was opened is an empty one, <a/> */
    bool closed;     /* the last element of the path was closed with the last event */
    bool begun;
    /* Text directly before this event, in the element that it is in: decoded, UTF-8. With CLOSE of
     * an element without children it is all of its text. */
    struct fg_buf text;
    struct fg_slice name; /* of the element that was opened or closed */
};

/* text_max_bytes: a longer text is bad. */
void fg_s3_xml_init(struct fg_s3_xml *xml, struct fg_slice in, size_t text_max_bytes);
void fg_s3_xml_done(struct fg_s3_xml *xml);

/* After END, which needs that every element was closed, or BAD it stays so. */
enum fg_s3_xml_event fg_s3_xml_next(struct fg_s3_xml *xml);

/* Is the element that was opened, or is about to be closed, `name` within `parent`? */
bool fg_s3_xml_is(const struct fg_s3_xml *xml, const char *parent, const char *name);

#endif
