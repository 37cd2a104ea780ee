/* Lines of text formats. */
#ifndef FG_PROTO_LINES_H
#define FG_PROTO_LINES_H

#include "common/base/slice.h"

/* Takes the next line off the text, without its end, which is LF or CRLF. */
static inline struct fg_slice fg_line_next(struct fg_slice *text)
{
    size_t end = fg_slice_find(*text, '\n');
    struct fg_slice line = fg_slice_sub(*text, 0, end);

    *text = end == SIZE_MAX ? fg_slice_sub(*text, text->len, 0)
                            : fg_slice_sub(*text, end + 1, text->len);
    if (line.ptr != NULL && line.len > 0 && line.ptr[line.len - 1] == '\r')
        line.len--;
    return line;
}

#endif
