#include "common/net/multipart.h"

#include "common/base/str.h"

#include <stdio.h>

/* --- header values (RFC 9110, 5.6.6) --- */

/* Cuts off the part up to the byte, or all; the byte itself is dropped. */
static struct fg_slice cut(struct fg_slice *rest, uint8_t byte)
{
    size_t at = FG_MIN(fg_slice_find(*rest, byte), rest->len);
    struct fg_slice front = fg_slice_sub(*rest, 0, at);

    *rest = fg_slice_sub(*rest, at + 1, rest->len);
    return front;
}

/* rest begins behind a quote; gives what is inside, and false when the second quote is missing. */
static bool cut_quoted(struct fg_slice *rest, struct fg_slice *ret_inside)
{
    for (size_t i = 0; i < rest->len; i++) {
        if (rest->ptr[i] == '\\') {
            i++;
        } else if (rest->ptr[i] == '"') {
            *ret_inside = fg_slice_sub(*rest, 0, i);
            *rest = fg_slice_sub(*rest, i + 1, rest->len);
            return true;
        }
    }
    return false;
}

struct fg_slice fg_header_param(struct fg_slice value, const char *name)
{
    struct fg_slice rest = value, found;

    (void)cut(&rest, ';');
    while (rest.len > 0) {
        size_t end = 0; /* of the word. One walk: who sends only ';' must not cost the square */
        struct fg_slice key;

        while (end < rest.len && rest.ptr[end] != '=' && rest.ptr[end] != ';')
            end++;
        if (end == rest.len)
            break;
        if (rest.ptr[end] == ';') { /* without a value */
            (void)cut(&rest, ';');
            continue;
        }
        key = fg_trim(cut(&rest, '='));
        if (rest.len > 0 && rest.ptr[0] == '"') {
            rest = fg_slice_sub(rest, 1, rest.len);
            if (!cut_quoted(&rest, &found) || fg_trim(cut(&rest, ';')).len > 0)
                break;
        } else {
            found = fg_trim(cut(&rest, ';'));
        }
        if (fg_slice_is_nocase(key, name))
            return found;
    }
    return fg_bytes(NULL, 0);
}

/* --- boundaries --- */

/* RFC 2046, 5.1.1: bchars, not ending in a blank. */
static bool boundary_valid(struct fg_slice boundary)
{
    if (boundary.len == 0 || boundary.len > FG_MULTIPART_BOUNDARY_MAX_BYTES ||
        boundary.ptr[boundary.len - 1] == ' ')
        return false;
    for (size_t i = 0; i < boundary.len; i++) {
        uint8_t c = boundary.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');

        if (!alnum && (c == '\0' || strchr("'()+_,-./:=? ", c) == NULL))
            return false;
    }
    return true;
}

/*
 * `after` begins behind "--boundary": true when that was a boundary line and not merely its
 * beginning. Sets rest behind the line, and last.
 */
static bool boundary_line(struct fg_multipart *form, struct fg_slice after)
{
    bool last = fg_slice_starts(after, "--");
    size_t blanks = last ? 2 : 0;

    while (blanks < after.len && (after.ptr[blanks] == ' ' || after.ptr[blanks] == '\t'))
        blanks++;
    after = fg_slice_sub(after, blanks, after.len);
    if (fg_slice_starts(after, "\r\n"))
        after = fg_slice_sub(after, 2, after.len);
    else if (fg_slice_starts(after, "\n"))
        after = fg_slice_sub(after, 1, after.len);
    else if (!last || after.len > 0)
        return false;
    form->rest = after;
    form->last = last;
    return true;
}

/* Finds the next boundary line and gives what is before it. */
static bool next_boundary(struct fg_multipart *form, struct fg_slice *ret_before)
{
    struct fg_slice in = form->rest;
    size_t from = 0;

    for (;;) {
        size_t at = fg_slice_search(fg_slice_sub(in, from, in.len), form->delimiter);
        size_t end;

        if (at == SIZE_MAX)
            return false;
        at += from;
        from = at + 1;
        if (at > 0 && in.ptr[at - 1] != '\n')
            continue; /* not at the beginning of a line */
        if (!boundary_line(form, fg_slice_sub(in, at + strlen(form->delimiter), in.len)))
            continue;
        end = at > 0 ? at - 1 : 0;
        if (end > 0 && in.ptr[end - 1] == '\r')
            end--;
        *ret_before = fg_slice_sub(in, 0, end);
        return true;
    }
}

enum fg_code fg_multipart_init(struct fg_multipart *form, struct fg_slice content_type,
                               struct fg_slice body, struct fg_err *err)
{
    struct fg_slice rest = content_type, boundary, preamble;

    *form = (struct fg_multipart){.rest = body};
    if (!fg_slice_is_nocase(fg_trim(cut(&rest, ';')), "multipart/form-data"))
        return fg_fail(err, FG_E_INVALID, "request Content-Type isn't multipart/form-data");
    boundary = fg_header_param(content_type, "boundary");
    if (!boundary_valid(boundary))
        return fg_fail(err, FG_E_INVALID, "no multipart boundary param in Content-Type");
    (void)snprintf(form->delimiter, sizeof form->delimiter, "--%.*s", FG_S(boundary));
    if (!next_boundary(form, &preamble))
        return fg_fail(err, FG_E_INVALID, "multipart: boundary not found in the body");
    return FG_OK;
}

/* --- parts --- */

/* A line without its end; false when there is no line end. */
static bool cut_line(struct fg_slice *rest, struct fg_slice *ret_line)
{
    size_t at = fg_slice_find(*rest, '\n');

    if (at == SIZE_MAX)
        return false;
    *ret_line = fg_slice_sub(*rest, 0, at > 0 && rest->ptr[at - 1] == '\r' ? at - 1 : at);
    *rest = fg_slice_sub(*rest, at + 1, rest->len);
    return true;
}

static enum fg_code part_header(struct fg_multipart_part *part, struct fg_slice line,
                                struct fg_err *err)
{
    struct fg_slice value = line, name, kind, rest;

    if (fg_slice_find(line, ':') == SIZE_MAX || line.ptr[0] == ' ' || line.ptr[0] == '\t')
        return fg_fail(err, FG_E_INVALID, "multipart: malformed header of a part");
    name = fg_trim(cut(&value, ':'));
    value = fg_trim(value);
    if (fg_slice_is_nocase(name, "Content-Type"))
        part->content_type = value;
    if (!fg_slice_is_nocase(name, "Content-Disposition"))
        return FG_OK;
    if (part->name.ptr != NULL)
        return fg_fail(err, FG_E_INVALID, "multipart: part with two dispositions");
    rest = value;
    kind = fg_trim(cut(&rest, ';'));
    if (!fg_slice_is_nocase(kind, "form-data"))
        return FG_OK;
    part->name = fg_header_param(value, "name");
    part->filename = fg_header_param(value, "filename");
    if (part->filename.ptr == NULL)
        part->filename = fg_header_param(value, "filename*");
    part->is_file = part->filename.ptr != NULL;
    return FG_OK;
}

/* Reads the headers off the front of rest, with the empty line after them. */
static enum fg_code part_headers(struct fg_multipart_part *part, struct fg_slice *rest,
                                 struct fg_err *err)
{
    size_t before = rest->len;
    struct fg_slice line;

    for (;;) {
        if (!cut_line(rest, &line))
            return fg_fail(err, FG_E_INVALID, "multipart: headers of a part cut short");
        if (before - rest->len > FG_MULTIPART_HEAD_MAX_BYTES)
            return fg_fail(err, FG_E_LIMIT, "multipart: headers of a part exceed %d bytes",
                           FG_MULTIPART_HEAD_MAX_BYTES);
        if (line.len == 0)
            return FG_OK;
        if (part_header(part, line, err) != FG_OK)
            return err->code;
        /* The line end of an empty line without data behind it counts to the boundary. */
        if (rest->len == 0)
            return FG_OK;
    }
}

enum fg_code fg_multipart_next(struct fg_multipart *form, struct fg_multipart_part *ret_part,
                               struct fg_err *err)
{
    struct fg_multipart_part part = {0};

    if (form->last) {
        form->ended = true;
        return FG_OK;
    }
    if (++form->n_parts > FG_MULTIPART_PARTS_MAX)
        return fg_fail(err, FG_E_LIMIT, "multipart: more than %d parts", FG_MULTIPART_PARTS_MAX);
    if (!next_boundary(form, &part.data))
        return fg_fail(err, FG_E_INVALID, "multipart: unexpected end of the body");
    if (part_headers(&part, &part.data, err) != FG_OK)
        return err->code;
    *ret_part = part;
    return FG_OK;
}
