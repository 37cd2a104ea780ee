/*
 * A pull parser for the XML responses of object stores, based on libexpat: elements and text, with
 * limited depth. It skips attributes, comments and processing instructions. A document type is an
 * error, so that no entities can be defined that expand without limit.
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
    bool opens, closes; /* parsed but not returned */
    /* Names of the open elements without prefixes. The last one stays until the event after its
     * CLOSE is requested. */
    char path[S3_XML_DEPTH_MAX][S3_XML_NAME_MAX_BYTES];
    unsigned depth;
    bool closed; /* the last event was the CLOSE of the last element of the path */
    /* Text directly before this event, in UTF-8. With the CLOSE of an element without children it
     * is all of its text. */
    struct fg_buf text;
};

/* Begins to parse `in`, which is borrowed. A text longer than text_max_bytes is BAD. */
void fg_s3_xml_init(struct fg_s3_xml *xml, struct fg_slice in, size_t text_max_bytes);
/* Frees the parser. */
void fg_s3_xml_done(struct fg_s3_xml *xml);

/* Returns the next event. END comes only after all elements were closed. END and BAD repeat. */
enum fg_s3_xml_event fg_s3_xml_next(struct fg_s3_xml *xml);

/* Returns the name of the element that was opened or closed with the last event. */
struct fg_slice fg_s3_xml_name(const struct fg_s3_xml *xml);

/* Returns whether the element that was opened or closed is `name` in `parent`. */
bool fg_s3_xml_is(const struct fg_s3_xml *xml, const char *parent, const char *name);

#endif
