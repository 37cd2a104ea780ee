/* Addresses of services of AWS. No I/O. */
#ifndef FG_COMMON_NET_AWS_ENDPOINT_H
#define FG_COMMON_NET_AWS_ENDPOINT_H

#include "common/base/buf.h"
#include "common/base/err.h"

enum { FG_AWS_ENDPOINT_BYTES = 300 };

/* Writes the address of a service in a region: "https://kms.eu-west-1.amazonaws.com". A region that
 * is too long is cut. */
void fg_aws_endpoint(const char *service, const char *region, char out[FG_AWS_ENDPOINT_BYTES]);

/* Splits "https://host:port/" into "https://" and "host:port". It leaves out a default port, as in
 * the header that libcurl would send. FG_E_INVALID: it has another form, or a path. */
enum fg_code fg_aws_endpoint_split(const char *endpoint, struct fg_slice *ret_scheme,
                                   struct fg_slice *ret_host, struct fg_err *err) fg_must_check;

#endif
