/*
 * A pull reader, on libexpat, of the XML that object stores answer with: elements and text, bounded
 * in depth. Attributes, comments and processing instructions are skipped; a document type is an
 * error, so that no entity can be defined and made to grow.
 */
#ifndef FG_COMMON_STORAGE_BUCKET_S3_XML_H
#define FG_COMMON_STORAGE_BUCKET_S3_XML_H

#include "common/base/buf.h"

#include <expat.h>

enum { S3_XML_DEPTH_MAX = 16, S3_XML_NAME_MAX_BYTES = 128 };

enum fg_s3_xml_event { S3_XML_OPEN, S3_XML_CLOSE, S3_XML_END, S3_XML_BAD };

struct fg_s3_xml {
    XML_Parser parser;
    struct fg_slice in;
    bool begun, bad;
    bool opens, closes; /* met by the parser and not returned yet */
    /* Names of the open elements, without their prefixes; the last one until its CLOSE was
     * returned and the next event is asked for. */
    char path[S3_XML_DEPTH_MAX][S3_XML_NAME_MAX_BYTES];
    unsigned depth;
    bool closed; /* the last event was the CLOSE of the last element of the path */
    /* Text directly before this event, in UTF-8. With the CLOSE of an element without children it
     * is all of its text. */
    struct fg_buf text;
};

/* Borrows `in` until done. text_max_bytes: a longer text is BAD. */
void fg_s3_xml_init(struct fg_s3_xml *xml, struct fg_slice in, size_t text_max_bytes);
void fg_s3_xml_done(struct fg_s3_xml *xml);

/* Returns the next event. END needs that every element was closed; END and BAD stay. */
enum fg_s3_xml_event fg_s3_xml_next(struct fg_s3_xml *xml);

/* Returns the name of the element that was opened or closed with the last event. */
struct fg_slice fg_s3_xml_name(const struct fg_s3_xml *xml);

/* Is the element that was opened, or closed, `name` within `parent`? */
bool fg_s3_xml_is(const struct fg_s3_xml *xml, const char *parent, const char *name);

#endif
