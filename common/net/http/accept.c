/* What a client wants most, by weights of the headers Accept and Accept-Encoding (RFC
 * 9110, 12.4.2). */
#include "common/net/http/impl.h"

/* Cuts the part up to `at` off; *rest: what follows it. */
static struct fg_slice cut(struct fg_slice text, uint8_t at, struct fg_slice *rest)
{
    size_t end = FG_MIN(fg_slice_find(text, at), text.len);

    *rest = fg_slice_sub(text, end + 1, text.len);
    return fg_trim(fg_slice_sub(text, 0, end));
}

unsigned fg_http_weight(struct fg_slice params)
{
    while (params.len > 0) {
        struct fg_slice value, name = cut(cut(params, ';', &params), '=', &value);
        double q;

        if (!fg_slice_is_nocase(name, "q"))
            continue;
        if (!fg_parse_f64(fg_trim(value), &q) || q <= 0)
            return 0;
        return q >= 1 ? 1000 : (unsigned)(q * 1000);
    }
    return 1000;
}

unsigned fg_http_accept_weight(const struct fg_http_request *req, const char *type)
{
    struct fg_slice accept = fg_http_header(req, "Accept");

    while (accept.len > 0) {
        struct fg_slice params, range = cut(cut(accept, ',', &accept), ';', &params);

        if (fg_slice_is_nocase(range, type))
            return fg_http_weight(params);
    }
    return 0;
}
