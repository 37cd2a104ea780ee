#include "common/net/aws/xml.h"

#include "common/base/str.h"

#include <limits.h>

/* ---- what the parser meets: it stops at each element, and the next call lets it go on ---- */

static void stop(struct fg_aws_xml *xml, bool bad)
{
    xml->bad |= bad;
    (void)XML_StopParser(xml->parser, bad ? XML_FALSE : XML_TRUE);
}

static void XMLCALL on_open(void *arg, const char *name, const char **attributes)
{
    struct fg_aws_xml *xml = arg;
    const char *colon = strrchr(name, ':');
    const char *local = colon == NULL ? name : colon + 1;

    (void)attributes;
    if (xml->depth == FG_AWS_XML_DEPTH_MAX || strlen(local) >= FG_AWS_XML_NAME_MAX_BYTES) {
        stop(xml, true);
        return;
    }
    (void)snprintf(xml->path[xml->depth++], FG_AWS_XML_NAME_MAX_BYTES, "%s", local);
    xml->opens = true;
    stop(xml, false);
}

/* An empty element closes before the parser stops for its opening. */
static void XMLCALL on_close(void *arg, const char *name)
{
    struct fg_aws_xml *xml = arg;

    (void)name;
    xml->closes = true;
    if (!xml->opens)
        stop(xml, false);
}

static void XMLCALL on_text(void *arg, const char *text, int len)
{
    struct fg_aws_xml *xml = arg;

    fg_buf_append(&xml->text, text, (size_t)len);
    if (xml->text.full)
        stop(xml, true);
}

static void XMLCALL on_doctype(void *arg, const char *name, const char *system_id,
                               const char *public_id, int has_internal_subset)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal_subset;
    stop(arg, true);
}

/* ---- reading ---- */

void fg_aws_xml_init(struct fg_aws_xml *xml, struct fg_slice in, size_t text_max_bytes)
{
    /* A store that takes long sends blanks meanwhile, before a declaration that has to come first.
     */
    *xml = (struct fg_aws_xml){.in = fg_trim(in)};
    fg_buf_init(&xml->text, text_max_bytes);
    xml->parser = XML_ParserCreate(NULL);
    fg_assert(xml->parser != NULL);
    XML_SetUserData(xml->parser, xml);
    XML_SetElementHandler(xml->parser, on_open, on_close);
    XML_SetCharacterDataHandler(xml->parser, on_text);
    XML_SetStartDoctypeDeclHandler(xml->parser, on_doctype);
}

void fg_aws_xml_done(struct fg_aws_xml *xml)
{
    XML_ParserFree(xml->parser);
    fg_buf_done(&xml->text);
}

/* Runs the parser up to the next element. Returns false at the end, or if the document is bad. */
static bool parse_to_element(struct fg_aws_xml *xml)
{
    XML_ParsingStatus status;
    enum XML_Status code;

    if (xml->in.len > INT_MAX)
        xml->bad = true;
    if (xml->bad)
        return false;
    if (xml->begun) {
        XML_GetParsingStatus(xml->parser, &status);
        if (status.parsing != XML_SUSPENDED)
            return false;
        code = XML_ResumeParser(xml->parser);
    } else {
        xml->begun = true;
        code = XML_Parse(xml->parser, (const char *)xml->in.ptr, (int)xml->in.len, XML_TRUE);
    }
    xml->bad |= code == XML_STATUS_ERROR;
    return !xml->bad && (xml->opens || xml->closes);
}

enum fg_aws_xml_event fg_aws_xml_next(struct fg_aws_xml *xml)
{
    if (xml->closed)
        xml->depth--;
    xml->closed = false;
    fg_buf_clear(&xml->text);
    if (!xml->opens && !xml->closes && !parse_to_element(xml))
        return xml->bad ? FG_AWS_XML_BAD : FG_AWS_XML_END;
    if (xml->opens) {
        xml->opens = false;
        return FG_AWS_XML_OPEN;
    }
    xml->closes = false;
    xml->closed = true;
    return FG_AWS_XML_CLOSE;
}

struct fg_slice fg_aws_xml_name(const struct fg_aws_xml *xml)
{
    return xml->depth == 0 ? fg_bytes(NULL, 0) : fg_cstr(xml->path[xml->depth - 1]);
}

bool fg_aws_xml_is(const struct fg_aws_xml *xml, const char *parent, const char *name)
{
    return xml->depth >= 2 && strcmp(xml->path[xml->depth - 2], parent) == 0 &&
           strcmp(xml->path[xml->depth - 1], name) == 0;
}

void fg_aws_xml_copy(const struct fg_aws_xml *xml, char *out, size_t size)
{
    size_t len = FG_MIN(xml->text.len, size - 1);

    for (size_t i = 0; i < len; i++)
        out[i] =
            (char)(xml->text.ptr[i] < 0x20 || xml->text.ptr[i] == 0x7f ? ' ' : xml->text.ptr[i]);
    out[len] = '\0';
}
