#include "common/storage/bucket/s3_xml.h"

#include "common/base/str.h"

enum { NAME_MAX_BYTES = 128, ENTITY_MAX_BYTES = 10 };

void fg_s3_xml_init(struct fg_s3_xml *xml, struct fg_slice in, size_t text_max_bytes)
{
    *xml = (struct fg_s3_xml){.cur = fg_cur(in)};
    fg_buf_init(&xml->text, text_max_bytes);
}

void fg_s3_xml_done(struct fg_s3_xml *xml)
{
    fg_buf_done(&xml->text);
}

static struct fg_slice rest_of(const struct fg_s3_xml *xml)
{
    return fg_bytes(xml->cur.ptr, xml->cur.left);
}

static enum fg_s3_xml_event bad(struct fg_s3_xml *xml)
{
    fg_cur_fail(&xml->cur);
    xml->closes_too = false;
    return S3_XML_BAD;
}

/* What comes before the text, which is read too; bad when there is none. */
static struct fg_slice take_until(struct fg_s3_xml *xml, const char *end)
{
    size_t at = fg_slice_search(rest_of(xml), end);
    struct fg_slice taken;

    if (at == SIZE_MAX) {
        fg_cur_fail(&xml->cur);
        return fg_bytes(NULL, 0);
    }
    taken = fg_cur_take(&xml->cur, at);
    (void)fg_cur_take(&xml->cur, strlen(end));
    return taken;
}

/* ---- text ---- */

static bool put_number(struct fg_s3_xml *xml, struct fg_slice digits)
{
    uint8_t utf8[FG_UTF8_RUNE_MAX_BYTES], hex[4] = {0};
    bool is_hex = fg_slice_starts(digits, "x");
    uint64_t rune = 0;

    if (is_hex) {
        struct fg_slice rest = fg_slice_sub(digits, 1, digits.len);
        char padded[9] = "00000000";

        if (rest.len == 0 || rest.len > 8)
            return false;
        memcpy(padded + 8 - rest.len, rest.ptr, rest.len);
        if (!fg_parse_hex(fg_bytes(padded, 8), hex, sizeof hex))
            return false;
        rune = (uint64_t)hex[0] << 24 | (uint64_t)hex[1] << 16 | (uint64_t)hex[2] << 8 | hex[3];
    } else if (digits.len == 0 || digits.ptr[0] < '0' || !fg_parse_u64(digits, &rune)) {
        return false;
    }
    if (rune == 0 || rune > 0x10ffff || (rune >= 0xd800 && rune < 0xe000))
        return false;
    fg_buf_append(&xml->text, utf8, fg_utf8_put((uint32_t)rune, utf8));
    return true;
}

static bool put_entity(struct fg_s3_xml *xml, struct fg_slice name)
{
    static const struct {
        const char *name;
        uint8_t byte;
    } known[] = {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};

    for (size_t i = 0; i < FG_COUNT(known); i++)
        if (fg_slice_is(name, known[i].name)) {
            fg_buf_putc(&xml->text, known[i].byte);
            return true;
        }
    return fg_slice_starts(name, "#") && put_number(xml, fg_slice_sub(name, 1, name.len));
}

/* A run of characters up to the next '<'. */
static void read_characters(struct fg_s3_xml *xml)
{
    struct fg_slice run =
        fg_cur_take(&xml->cur, FG_MIN(fg_slice_find(rest_of(xml), '<'), (uint64_t)xml->cur.left));

    while (run.len > 0) {
        struct fg_slice plain = fg_slice_sub(run, 0, fg_slice_find(run, '&'));
        size_t end;

        fg_buf_put(&xml->text, plain);
        run = fg_slice_sub(run, plain.len, run.len);
        if (run.len == 0)
            return;
        end = fg_slice_find(fg_slice_sub(run, 0, ENTITY_MAX_BYTES + 2), ';');
        if (end == SIZE_MAX || !put_entity(xml, fg_slice_sub(run, 1, end - 1))) {
            fg_cur_fail(&xml->cur);
            return;
        }
        run = fg_slice_sub(run, end + 1, run.len);
    }
}

/* ---- tags ---- */

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static bool ends_name(uint8_t byte)
{
    return is_blank(byte) || byte == '/' || byte == '>' || byte == '=' || byte == '<';
}

/* Without its prefix ("s3:Key" is "Key"). */
static struct fg_slice read_name(struct fg_s3_xml *xml)
{
    struct fg_slice rest = rest_of(xml), name;
    size_t len = 0, colon;

    while (len < rest.len && !ends_name(rest.ptr[len]))
        len++;
    name = fg_cur_take(&xml->cur, len);
    colon = fg_slice_find(name, ':');
    if (colon != SIZE_MAX)
        name = fg_slice_sub(name, colon + 1, name.len);
    if (name.len == 0 || name.len > NAME_MAX_BYTES)
        fg_cur_fail(&xml->cur);
    return name;
}

static uint8_t peek(const struct fg_s3_xml *xml)
{
    return xml->cur.left == 0 ? '\0' : xml->cur.ptr[0];
}

static void skip_blanks(struct fg_s3_xml *xml)
{
    while (xml->cur.left > 0 && is_blank(peek(xml)))
        (void)fg_cur_u8(&xml->cur);
}

/* name="value" */
static void skip_attribute(struct fg_s3_xml *xml)
{
    char quote[2] = "";

    (void)read_name(xml);
    skip_blanks(xml);
    if (fg_cur_u8(&xml->cur) != '=')
        fg_cur_fail(&xml->cur);
    skip_blanks(xml);
    quote[0] = (char)fg_cur_u8(&xml->cur);
    if (quote[0] != '"' && quote[0] != '\'')
        fg_cur_fail(&xml->cur);
    (void)take_until(xml, quote);
}

static enum fg_s3_xml_event open_tag(struct fg_s3_xml *xml)
{
    struct fg_slice name = read_name(xml);

    for (skip_blanks(xml); xml->cur.left > 0 && peek(xml) != '>' && peek(xml) != '/';
         skip_blanks(xml))
        skip_attribute(xml);
    xml->closes_too = peek(xml) == '/';
    if (xml->closes_too)
        (void)fg_cur_u8(&xml->cur);
    /* One element is the document; it holds all the others. */
    if (fg_cur_u8(&xml->cur) != '>' || xml->cur.bad || xml->depth == S3_XML_DEPTH_MAX ||
        (xml->depth == 0 && xml->begun))
        return bad(xml);
    xml->begun = true;
    xml->path[xml->depth++] = name;
    xml->name = name;
    return S3_XML_OPEN;
}

static enum fg_s3_xml_event close_tag(struct fg_s3_xml *xml)
{
    struct fg_slice name = read_name(xml);

    skip_blanks(xml);
    if (fg_cur_u8(&xml->cur) != '>' || xml->cur.bad || xml->depth == 0 ||
        !fg_slice_eq(name, xml->path[xml->depth - 1]))
        return bad(xml);
    xml->name = name;
    return S3_XML_CLOSE;
}

/* ---- outside ---- */

static void read_marked(struct fg_s3_xml *xml)
{
    struct fg_slice rest = rest_of(xml);

    if (fg_slice_starts(rest, "<!--")) {
        (void)fg_cur_take(&xml->cur, 4);
        (void)take_until(xml, "-->");
    } else if (fg_slice_starts(rest, "<![CDATA[") && xml->depth > 0) {
        (void)fg_cur_take(&xml->cur, 9);
        fg_buf_put(&xml->text, take_until(xml, "]]>"));
    } else if (fg_slice_starts(rest, "<?")) {
        (void)take_until(xml, "?>");
    } else {
        fg_cur_fail(&xml->cur);
    }
}

static bool is_blank_text(const struct fg_buf *text)
{
    return fg_trim(fg_buf_slice(text)).len == 0;
}

/* What stands between elements, up to the next tag or the end. */
static void read_text(struct fg_s3_xml *xml)
{
    fg_buf_clear(&xml->text);
    if (!xml->begun && fg_slice_starts(rest_of(xml), "\xef\xbb\xbf"))
        (void)fg_cur_take(&xml->cur, 3); /* a byte order mark */
    while (xml->cur.left > 0) {
        struct fg_slice rest = rest_of(xml);

        if (rest.ptr[0] != '<')
            read_characters(xml);
        else if (fg_slice_starts(rest, "<!") || fg_slice_starts(rest, "<?"))
            read_marked(xml);
        else
            break;
        if (xml->text.full || (xml->depth == 0 && !is_blank_text(&xml->text)))
            fg_cur_fail(&xml->cur);
    }
    if (!fg_utf8_valid(fg_buf_slice(&xml->text)))
        fg_cur_fail(&xml->cur);
}

static enum fg_s3_xml_event close_with(struct fg_s3_xml *xml, enum fg_s3_xml_event event)
{
    xml->closed = event == S3_XML_CLOSE;
    return event;
}

enum fg_s3_xml_event fg_s3_xml_next(struct fg_s3_xml *xml)
{
    if (xml->closed) {
        xml->closed = false;
        xml->depth--;
    }
    if (xml->closes_too) {
        xml->closes_too = false;
        fg_buf_clear(&xml->text);
        return close_with(xml, S3_XML_CLOSE);
    }
    read_text(xml);
    if (xml->cur.bad)
        return S3_XML_BAD;
    if (xml->cur.left == 0)
        return xml->begun && xml->depth == 0 ? S3_XML_END : bad(xml);
    (void)fg_cur_u8(&xml->cur); /* '<' */
    if (peek(xml) != '/')
        return open_tag(xml);
    (void)fg_cur_u8(&xml->cur);
    return close_with(xml, close_tag(xml));
}

bool fg_s3_xml_is(const struct fg_s3_xml *xml, const char *parent, const char *name)
{
    return xml->depth >= 2 && fg_slice_is(xml->path[xml->depth - 1], name) &&
           fg_slice_is(xml->path[xml->depth - 2], parent);
}
