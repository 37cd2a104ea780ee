/* Parses what the XML responses of services of AWS, and of stores with their protocols, have in
 * common, and the response of STS. No I/O. */
#ifndef FG_COMMON_NET_AWS_ANSWER_H
#define FG_COMMON_NET_AWS_ANSWER_H

#include "common/base/err.h"
#include "common/net/aws/sign.h"

enum { FG_AWS_CODE_BYTES = 64 }; /* codes are one word, such as NoSuchKey */

/* <Error><Code>NoSuchKey</Code><Message>…</Message></Error>; STS puts it into an <ErrorResponse>.
 */
struct fg_aws_error {
    char code[FG_AWS_CODE_BYTES];           /* "": the response does not have this form */
    char message[FG_ERR_MSG_MAX_BYTES / 2]; /* without control characters */
};
/* Parses an error response. */
void fg_aws_read_error(struct fg_slice xml, struct fg_aws_error *ret_error);

/* Parses AssumeRoleWithWebIdentityResponse. The caller frees the keys (fg_aws_keys_done()).
 * FG_E_CORRUPT. */
enum fg_code fg_aws_read_role(struct fg_slice xml, struct fg_aws_keys *ret_keys,
                              int64_t *ret_end_wall_ns, struct fg_err *err) fg_must_check;

/* Parses "2024-01-31T12:00:00.000Z", with or without a fraction. Returns false for other text. */
bool fg_aws_read_time(struct fg_slice text, int64_t *ret_wall_ns) fg_must_check;

#endif
