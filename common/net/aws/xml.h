/*
 * A pull parser for the XML responses of S3 and STS, based on libexpat: elements and text, with
 * limited depth. It skips attributes, comments and processing instructions. A document type is an
 * error, so that no entities can be defined that expand without limit.
 */
#ifndef FG_COMMON_NET_AWS_XML_H
#define FG_COMMON_NET_AWS_XML_H

#include "common/base/buf.h"

#include <expat.h>

enum { FG_AWS_XML_DEPTH_MAX = 16, FG_AWS_XML_NAME_MAX_BYTES = 128 };

enum fg_aws_xml_event { FG_AWS_XML_OPEN, FG_AWS_XML_CLOSE, FG_AWS_XML_END, FG_AWS_XML_BAD };

struct fg_aws_xml {
    XML_Parser parser;
    struct fg_slice in;
    bool begun, bad;
    bool opens, closes; /* parsed but not returned */
    /* Names of the open elements without prefixes. The last one stays until the event after its
     * CLOSE is requested. */
    char path[FG_AWS_XML_DEPTH_MAX][FG_AWS_XML_NAME_MAX_BYTES];
    unsigned depth;
    bool closed; /* the last event was the CLOSE of the last element of the path */
    /* Text directly before this event, in UTF-8. With the CLOSE of an element without children it
     * is all of its text. */
    struct fg_buf text;
};

/* Begins to parse `in`, which is borrowed. A text longer than text_max_bytes is BAD. */
void fg_aws_xml_init(struct fg_aws_xml *xml, struct fg_slice in, size_t text_max_bytes);
/* Frees the parser. */
void fg_aws_xml_done(struct fg_aws_xml *xml);

/* Returns the next event. END comes only after all elements were closed. END and BAD repeat. */
enum fg_aws_xml_event fg_aws_xml_next(struct fg_aws_xml *xml);

/* Returns the name of the element that was opened or closed with the last event. */
struct fg_slice fg_aws_xml_name(const struct fg_aws_xml *xml);

/* Returns whether the element that was opened or closed is `name` in `parent`. */
bool fg_aws_xml_is(const struct fg_aws_xml *xml, const char *parent, const char *name);

/* Copies the text before the last event, cut to what fits. Control characters become blanks. */
void fg_aws_xml_copy(const struct fg_aws_xml *xml, char *out, size_t size);

#endif
