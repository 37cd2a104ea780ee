#include "common/storage/bucket/s3_answer.h"

#include "common/base/str.h"
#include "common/storage/bucket/impl.h"
#include "common/storage/bucket/s3_xml.h"

enum { TEXT_MAX_BYTES = 16 * 1024 }; /* session tokens have one or two thousand, and grow */

/* ---- small things ---- */

/* The text, cut to what fits; control characters become blanks. */
static void copy_text(const struct fg_buf *text, char *out, size_t size)
{
    size_t len = FG_MIN(text->len, size - 1);

    for (size_t i = 0; i < len; i++)
        out[i] = (char)(text->ptr[i] < 0x20 || text->ptr[i] == 0x7f ? ' ' : text->ptr[i]);
    out[len] = '\0';
}

static char *text_dup(const struct fg_buf *text)
{
    char *copy = fg_malloc(text->len + 1);

    if (text->len > 0)
        memcpy(copy, text->ptr, text->len);
    copy[text->len] = '\0';
    return copy;
}

/* Decodes %XX, and '+' as a space, which is encoding-type=url. Returns false for invalid text. */
static bool decode_url(struct fg_buf *text)
{
    size_t to = 0;

    for (size_t from = 0; from < text->len; from++) {
        uint8_t byte = text->ptr[from];

        if (byte == '%') {
            if (!fg_parse_hex(fg_slice_sub(fg_buf_slice(text), from + 1, 2), &byte, 1))
                return false;
            from += 2;
        } else if (byte == '+') {
            byte = ' ';
        }
        text->ptr[to++] = byte;
    }
    text->len = to;
    return true;
}

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

bool fg_s3_read_time(struct fg_slice text, int64_t *ret_wall_ns)
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

/* An etag goes into headers of later requests. One that could break a header counts as none. */
void fg_s3_read_etag(struct fg_slice text, struct fg_bucket_etag *ret_etag)
{
    ret_etag->text[0] = '\0';
    if (text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"')
        text = fg_slice_sub(text, 1, text.len - 2);
    if (text.len >= sizeof ret_etag->text)
        return;
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= 0x20 || text.ptr[i] >= 0x7f)
            return;
    if (text.len > 0)
        memcpy(ret_etag->text, text.ptr, text.len);
    ret_etag->text[text.len] = '\0';
}

static enum fg_code garbled(struct fg_err *err, const char *what)
{
    return fg_fail(err, FG_E_CORRUPT, "the response is not a %s, or is truncated", what);
}

/* ---- errors and single fields ---- */

void fg_s3_read_error(struct fg_slice in, struct fg_s3_error *ret_error)
{
    struct fg_s3_xml xml;
    enum fg_s3_xml_event event = S3_XML_BAD;

    ret_error->code[0] = ret_error->message[0] = '\0';
    fg_s3_xml_init(&xml, in, TEXT_MAX_BYTES);
    while ((event = fg_s3_xml_next(&xml)) == S3_XML_OPEN || event == S3_XML_CLOSE) {
        if (event == S3_XML_CLOSE && fg_s3_xml_is(&xml, "Error", "Code"))
            copy_text(&xml.text, ret_error->code, sizeof ret_error->code);
        if (event == S3_XML_CLOSE && fg_s3_xml_is(&xml, "Error", "Message"))
            copy_text(&xml.text, ret_error->message, sizeof ret_error->message);
    }
    fg_s3_xml_done(&xml);
}

enum fg_code fg_s3_read_field(struct fg_slice in, const char *document, const char *name, char *out,
                              size_t size, struct fg_err *err)
{
    struct fg_s3_xml xml;
    enum fg_s3_xml_event event = S3_XML_BAD;
    bool found = false;

    fg_s3_xml_init(&xml, in, TEXT_MAX_BYTES);
    while ((event = fg_s3_xml_next(&xml)) == S3_XML_OPEN || event == S3_XML_CLOSE)
        if (event == S3_XML_CLOSE && xml.depth == 2 && fg_s3_xml_is(&xml, document, name) &&
            xml.text.len > 0 && xml.text.len < size) {
            copy_text(&xml.text, out, size);
            found = true;
        }
    fg_s3_xml_done(&xml);
    return event == S3_XML_END && found ? FG_OK : garbled(err, document);
}

/* ---- lists ---- */

/* Stores that do not support encoding-type=url omit this element. It may come after the names
 * that it is about, hence a pass of its own. */
static bool is_encoded(struct fg_slice in, const char *document)
{
    char type[8];
    struct fg_err err;

    return fg_s3_read_field(in, document, "EncodingType", type, sizeof type, &err) == FG_OK &&
           strcmp(type, "url") == 0;
}

struct s3_answer_list {
    struct fg_s3_xml xml;
    struct fg_slice prefix;
    struct fg_bucket_request *request;
    char name[FG_BUCKET_NAME_MAX_BYTES + 1]; /* of the entry that is read; "": not one of ours */
    uint64_t size_bytes;
    int64_t modified_wall_ns;
    bool encoded, truncated, bad;
};

/* Objects that others have put into the bucket, with names that ours never have, are left out. */
static bool is_ours(const char *name)
{
    char object[FG_BUCKET_NAME_MAX_BYTES + 1];
    size_t len = strlen(name);

    memcpy(object, name, len + 1);
    if (len > 0 && object[len - 1] == '/') /* a folder */
        object[len - 1] = '\0';
    return fg_bucket_name_fault(object) == NULL;
}

static void take_name(struct s3_answer_list *list)
{
    struct fg_slice text;

    list->name[0] = '\0';
    if (list->encoded && !decode_url(&list->xml.text)) {
        list->bad = true;
        return;
    }
    text = fg_buf_slice(&list->xml.text);
    if (!fg_slice_eq(fg_slice_sub(text, 0, list->prefix.len), list->prefix))
        return;
    text = fg_slice_sub(text, list->prefix.len, text.len);
    if (text.len >= sizeof list->name || fg_slice_find(text, '\0') != SIZE_MAX)
        return;
    memcpy(list->name, text.ptr, text.len);
    list->name[text.len] = '\0';
    if (!is_ours(list->name))
        list->name[0] = '\0';
}

static void add_entry(struct s3_answer_list *list, bool folder)
{
    bool ends = fg_slice_ends(fg_cstr(list->name), "/");
    struct fg_bucket_entry *entry;

    if (list->name[0] == '\0' || ends != folder)
        return; /* others' markers of folders, say */
    if (list->request->n_entries == FG_BUCKET_PAGE_MAX) {
        list->bad = true;
        return;
    }
    entry = fg_bucket_list_add(list->request, fg_cstr(list->name), folder);
    if (!folder) {
        entry->size_bytes = list->size_bytes;
        entry->modified_wall_ns = list->modified_wall_ns;
    }
    list->name[0] = '\0';
}

static void take_closed(struct s3_answer_list *list)
{
    struct fg_s3_xml *xml = &list->xml;

    if (fg_s3_xml_is(xml, "Contents", "Key") || fg_s3_xml_is(xml, "CommonPrefixes", "Prefix"))
        take_name(list);
    else if (fg_s3_xml_is(xml, "Contents", "Size"))
        list->bad |= !fg_parse_u64(fg_buf_slice(&xml->text), &list->size_bytes);
    else if (fg_s3_xml_is(xml, "Contents", "LastModified"))
        list->bad |= !fg_s3_read_time(fg_buf_slice(&xml->text), &list->modified_wall_ns);
    else if (fg_s3_xml_is(xml, "ListBucketResult", "Contents"))
        add_entry(list, false);
    else if (fg_s3_xml_is(xml, "ListBucketResult", "CommonPrefixes"))
        add_entry(list, true);
    else if (fg_s3_xml_is(xml, "ListBucketResult", "IsTruncated"))
        list->truncated = fg_slice_is(fg_buf_slice(&xml->text), "true");
    else if (fg_s3_xml_is(xml, "ListBucketResult", "NextContinuationToken") && xml->text.len > 0)
        fg_bucket_list_next(list->request, fg_buf_slice(&xml->text));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct fg_bucket_entry *)a)->name,
                  ((const struct fg_bucket_entry *)b)->name);
}

enum fg_code fg_s3_read_list(struct fg_slice in, struct fg_slice prefix,
                             struct fg_bucket_request *request, struct fg_err *err)
{
    struct s3_answer_list list = {
        .prefix = prefix, .request = request, .encoded = is_encoded(in, "ListBucketResult")};
    enum fg_s3_xml_event event = S3_XML_BAD;

    fg_s3_xml_init(&list.xml, in, TEXT_MAX_BYTES);
    while (!list.bad &&
           ((event = fg_s3_xml_next(&list.xml)) == S3_XML_OPEN || event == S3_XML_CLOSE)) {
        if (event == S3_XML_OPEN && list.xml.depth == 1)
            list.bad = !fg_slice_is(fg_s3_xml_name(&list.xml), "ListBucketResult");
        else if (event == S3_XML_CLOSE)
            take_closed(&list);
    }
    fg_s3_xml_done(&list.xml);
    /* A page with more after it that does not say where to continue is an error: as the last
     * page it would hide objects. */
    if (list.bad || event != S3_XML_END || (list.truncated && request->next == NULL))
        return garbled(err, "ListBucketResult");
    if (!list.truncated)
        request->next = NULL;
    /* The store sends objects and folders one after the other, each sorted; we merge them. */
    if (request->n_entries > 0)
        qsort(request->entries, request->n_entries, sizeof *request->entries, by_name);
    return FG_OK;
}

/* ---- unfinished uploads ---- */

struct uploads {
    struct fg_s3_xml xml;
    struct fg_s3_uploads *result;
    struct fg_s3_upload upload; /* that is read */
    bool encoded, truncated, bad;
};

static const char *keep(struct uploads *uploads, bool encoded)
{
    const char *text = NULL;

    if (!encoded || decode_url(&uploads->xml.text))
        text = fg_arena_text(uploads->result->arena, fg_buf_slice(&uploads->xml.text));
    uploads->bad |= text == NULL;
    return text;
}

static void take_upload(struct uploads *uploads)
{
    struct fg_s3_uploads *result = uploads->result;

    if (uploads->upload.key == NULL || uploads->upload.id == NULL ||
        result->n == FG_BUCKET_PAGE_MAX) {
        uploads->bad = true;
        return;
    }
    result->items[result->n++] = uploads->upload;
    uploads->upload = (struct fg_s3_upload){NULL, NULL, 0};
}

static void take_closed_upload(struct uploads *uploads)
{
    static const char document[] = "ListMultipartUploadsResult";
    struct fg_s3_xml *xml = &uploads->xml;

    if (fg_s3_xml_is(xml, "Upload", "Key"))
        uploads->upload.key = keep(uploads, uploads->encoded);
    else if (fg_s3_xml_is(xml, "Upload", "UploadId"))
        uploads->upload.id = keep(uploads, false);
    else if (fg_s3_xml_is(xml, "Upload", "Initiated"))
        uploads->bad |=
            !fg_s3_read_time(fg_buf_slice(&xml->text), &uploads->upload.initiated_wall_ns);
    else if (fg_s3_xml_is(xml, document, "Upload"))
        take_upload(uploads);
    else if (fg_s3_xml_is(xml, document, "IsTruncated"))
        uploads->truncated = fg_slice_is(fg_buf_slice(&xml->text), "true");
    else if (fg_s3_xml_is(xml, document, "NextKeyMarker"))
        uploads->result->next_key = keep(uploads, uploads->encoded);
    else if (fg_s3_xml_is(xml, document, "NextUploadIdMarker"))
        uploads->result->next_id = keep(uploads, false);
}

enum fg_code fg_s3_read_uploads(struct fg_slice in, struct fg_s3_uploads *ret_uploads,
                                struct fg_err *err)
{
    struct uploads uploads = {.result = ret_uploads,
                              .encoded = is_encoded(in, "ListMultipartUploadsResult")};
    enum fg_s3_xml_event event = S3_XML_BAD;

    ret_uploads->n = 0;
    ret_uploads->next_key = ret_uploads->next_id = NULL;
    ret_uploads->items = fg_arena_new(ret_uploads->arena, struct fg_s3_upload, FG_BUCKET_PAGE_MAX);
    uploads.bad = ret_uploads->items == NULL;
    fg_s3_xml_init(&uploads.xml, in, TEXT_MAX_BYTES);
    while (!uploads.bad &&
           ((event = fg_s3_xml_next(&uploads.xml)) == S3_XML_OPEN || event == S3_XML_CLOSE)) {
        if (event == S3_XML_OPEN && uploads.xml.depth == 1)
            uploads.bad = !fg_slice_is(fg_s3_xml_name(&uploads.xml), "ListMultipartUploadsResult");
        else if (event == S3_XML_CLOSE)
            take_closed_upload(&uploads);
    }
    fg_s3_xml_done(&uploads.xml);
    if (uploads.bad || event != S3_XML_END || (uploads.truncated && ret_uploads->next_key == NULL))
        return garbled(err, "ListMultipartUploadsResult");
    if (!uploads.truncated)
        ret_uploads->next_key = ret_uploads->next_id = NULL;
    return FG_OK;
}

/* ---- STS ---- */

static void set_text(char **to, const struct fg_buf *text)
{
    free(*to);
    *to = text_dup(text);
}

static bool fits_header(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= 0x20 || *text >= 0x7f)
            return false;
    return true;
}

enum fg_code fg_s3_read_role(struct fg_slice in, struct fg_s3_keys *ret_keys,
                             int64_t *ret_end_wall_ns, struct fg_err *err)
{
    struct fg_s3_keys keys = {0};
    enum fg_s3_xml_event event = S3_XML_BAD;
    struct fg_s3_xml xml;
    bool timed = false;

    fg_s3_xml_init(&xml, in, TEXT_MAX_BYTES);
    while ((event = fg_s3_xml_next(&xml)) == S3_XML_OPEN || event == S3_XML_CLOSE) {
        if (event == S3_XML_OPEN)
            continue;
        if (fg_s3_xml_is(&xml, "Credentials", "AccessKeyId"))
            set_text(&keys.access, &xml.text);
        else if (fg_s3_xml_is(&xml, "Credentials", "SecretAccessKey"))
            set_text(&keys.secret, &xml.text);
        else if (fg_s3_xml_is(&xml, "Credentials", "SessionToken"))
            set_text(&keys.token, &xml.text);
        else if (fg_s3_xml_is(&xml, "Credentials", "Expiration"))
            timed = fg_s3_read_time(fg_buf_slice(&xml.text), ret_end_wall_ns);
    }
    fg_s3_xml_done(&xml);
    if (event == S3_XML_END && timed && keys.access != NULL && keys.secret != NULL &&
        keys.token != NULL && fits_header(keys.access) && fits_header(keys.token)) {
        *ret_keys = keys;
        return FG_OK;
    }
    free(keys.access);
    free(keys.secret);
    free(keys.token);
    return garbled(err, "AssumeRoleWithWebIdentityResponse");
}
