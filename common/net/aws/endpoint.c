#include "common/net/aws/endpoint.h"

#include "common/base/str.h"

void fg_aws_endpoint(const char *service, const char *region, char out[FG_AWS_ENDPOINT_BYTES])
{
    bool china = fg_slice_starts(fg_cstr(region), "cn-"); /* a partition with a domain of its own */

    (void)snprintf(out, FG_AWS_ENDPOINT_BYTES, "https://%.20s.%.200s.amazonaws.com%s", service,
                   region, china ? ".cn" : "");
}

enum fg_code fg_aws_endpoint_split(const char *endpoint, struct fg_slice *ret_scheme,
                                   struct fg_slice *ret_host, struct fg_err *err)
{
    struct fg_slice text = fg_cstr(endpoint), host;
    bool tls = fg_slice_starts(text, "https://");

    if (!tls && !fg_slice_starts(text, "http://"))
        return fg_fail(err, FG_E_INVALID, "endpoint %s: needs https:// (or http://)", endpoint);
    *ret_scheme = fg_slice_sub(text, 0, tls ? 8 : 7);
    host = fg_slice_sub(text, ret_scheme->len, text.len);
    if (fg_slice_ends(host, "/"))
        host.len--;
    if (fg_slice_ends(host, tls ? ":443" : ":80"))
        host.len -= tls ? 4 : 3;
    for (size_t i = 0; i < host.len; i++)
        if (strchr("/?#@ \\\"", host.ptr[i]) != NULL || host.ptr[i] < 0x20 || host.ptr[i] >= 0x7f)
            return fg_fail(err, FG_E_INVALID, "endpoint %s: scheme, host and port only", endpoint);
    if (host.len == 0)
        return fg_fail(err, FG_E_INVALID, "endpoint %s: has no host", endpoint);
    *ret_host = host;
    return FG_OK;
}
