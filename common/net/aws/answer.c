#include "common/net/aws/answer.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/net/aws/xml.h"

#include <openssl/crypto.h>

enum { TEXT_MAX_BYTES = 16 * 1024 }; /* session tokens have one or two thousand, and grow */

/* ---- times ---- */

static bool read_part(struct fg_slice text, size_t from, size_t len, int64_t min, int64_t max,
                      int64_t *ret_value)
{
    struct fg_slice digits = fg_slice_sub(text, from, len);
    uint64_t value;

    if (digits.len != len || !fg_parse_u64(digits, &value) || (int64_t)value < min ||
        (int64_t)value > max)
        return false;
    *ret_value = (int64_t)value;
    return true;
}

/* Returns the days since 1970 of a date of the Gregorian calendar. Years begin in March here, so
 * that the leap day is the last one. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month <= 2 ? year - 1 : year, m = (month + 9) % 12;

    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 306 + 5) / 10 + day - 1 - 719468;
}

bool fg_aws_read_time(struct fg_slice text, int64_t *ret_wall_ns)
{
    int64_t year, month, day, hour, minute, second, fraction_ns = 0;
    struct fg_slice rest;

    if (!read_part(text, 0, 4, 1970, 2260, &year) || !read_part(text, 5, 2, 1, 12, &month) ||
        !read_part(text, 8, 2, 1, 31, &day) || !read_part(text, 11, 2, 0, 23, &hour) ||
        !read_part(text, 14, 2, 0, 59, &minute) || !read_part(text, 17, 2, 0, 60, &second))
        return false;
    if (text.ptr[4] != '-' || text.ptr[7] != '-' || text.ptr[10] != 'T' || text.ptr[13] != ':' ||
        text.ptr[16] != ':')
        return false;
    rest = fg_slice_sub(text, 19, text.len);
    if (fg_slice_starts(rest, ".")) {
        int64_t unit_ns = FG_SECOND_NS / 10;

        rest = fg_slice_sub(rest, 1, rest.len);
        for (; rest.len > 0 && rest.ptr[0] >= '0' && rest.ptr[0] <= '9';
             rest = fg_slice_sub(rest, 1, rest.len)) {
            fraction_ns += (rest.ptr[0] - '0') * unit_ns;
            unit_ns /= 10;
        }
    }
    if (!fg_slice_is(rest, "Z"))
        return false;
    *ret_wall_ns =
        (((days_of(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * FG_SECOND_NS +
        fraction_ns;
    return true;
}

/* ---- errors ---- */

void fg_aws_read_error(struct fg_slice in, struct fg_aws_error *ret_error)
{
    struct fg_aws_xml xml;
    enum fg_aws_xml_event event = FG_AWS_XML_BAD;

    ret_error->code[0] = ret_error->message[0] = '\0';
    fg_aws_xml_init(&xml, in, TEXT_MAX_BYTES);
    while ((event = fg_aws_xml_next(&xml)) == FG_AWS_XML_OPEN || event == FG_AWS_XML_CLOSE) {
        if (event == FG_AWS_XML_CLOSE && fg_aws_xml_is(&xml, "Error", "Code"))
            fg_aws_xml_copy(&xml, ret_error->code, sizeof ret_error->code);
        if (event == FG_AWS_XML_CLOSE && fg_aws_xml_is(&xml, "Error", "Message"))
            fg_aws_xml_copy(&xml, ret_error->message, sizeof ret_error->message);
    }
    fg_aws_xml_done(&xml);
}

/* ---- keys of a role ---- */

/* A text that is there twice may be a secret, too. */
static void set_text(char **to, const struct fg_buf *text)
{
    if (*to != NULL)
        OPENSSL_cleanse(*to, strlen(*to));
    free(*to);

    char *copy = fg_malloc(text->len + 1);

    if (text->len > 0)
        memcpy(copy, text->ptr, text->len);
    copy[text->len] = '\0';
    *to = copy;
}

static bool fits_header(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= 0x20 || *text >= 0x7f)
            return false;
    return true;
}

enum fg_code fg_aws_read_role(struct fg_slice in, struct fg_aws_keys *ret_keys,
                              int64_t *ret_end_wall_ns, struct fg_err *err)
{
    struct fg_aws_keys keys = {0};
    enum fg_aws_xml_event event = FG_AWS_XML_BAD;
    struct fg_aws_xml xml;
    bool timed = false;

    fg_aws_xml_init(&xml, in, TEXT_MAX_BYTES);
    /* All at once: a buffer that grows leaves copies of secrets behind. */
    fg_assert(fg_buf_reserve(&xml.text, TEXT_MAX_BYTES));
    while ((event = fg_aws_xml_next(&xml)) == FG_AWS_XML_OPEN || event == FG_AWS_XML_CLOSE) {
        if (event == FG_AWS_XML_OPEN)
            continue;
        if (fg_aws_xml_is(&xml, "Credentials", "AccessKeyId"))
            set_text(&keys.access, &xml.text);
        else if (fg_aws_xml_is(&xml, "Credentials", "SecretAccessKey"))
            set_text(&keys.secret, &xml.text);
        else if (fg_aws_xml_is(&xml, "Credentials", "SessionToken"))
            set_text(&keys.token, &xml.text);
        else if (fg_aws_xml_is(&xml, "Credentials", "Expiration"))
            timed = fg_aws_read_time(fg_buf_slice(&xml.text), ret_end_wall_ns);
    }
    OPENSSL_cleanse(xml.text.ptr, xml.text.cap);
    fg_aws_xml_done(&xml);
    if (event == FG_AWS_XML_END && timed && keys.access != NULL && keys.secret != NULL &&
        keys.token != NULL && fits_header(keys.access) && fits_header(keys.token)) {
        *ret_keys = keys;
        return FG_OK;
    }
    fg_aws_keys_done(&keys);
    return fg_fail(err, FG_E_CORRUPT,
                   "the response is not an AssumeRoleWithWebIdentityResponse, or is truncated");
}
