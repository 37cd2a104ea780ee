#include "common/storage/bucket/s3_answer.h"

#include "common/base/str.h"
#include "common/net/aws/xml.h"
#include "common/storage/bucket/impl.h"

enum { TEXT_MAX_BYTES = 16 * 1024 }; /* session tokens have one or two thousand, and grow */

/* ---- small things ---- */

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

/* ---- single fields ---- */

enum fg_code fg_s3_read_field(struct fg_slice in, const char *document, const char *name, char *out,
                              size_t size, struct fg_err *err)
{
    struct fg_aws_xml xml;
    enum fg_aws_xml_event event = FG_AWS_XML_BAD;
    bool found = false;

    fg_aws_xml_init(&xml, in, TEXT_MAX_BYTES);
    while ((event = fg_aws_xml_next(&xml)) == FG_AWS_XML_OPEN || event == FG_AWS_XML_CLOSE)
        if (event == FG_AWS_XML_CLOSE && xml.depth == 2 && fg_aws_xml_is(&xml, document, name) &&
            xml.text.len > 0 && xml.text.len < size) {
            fg_aws_xml_copy(&xml, out, size);
            found = true;
        }
    fg_aws_xml_done(&xml);
    return event == FG_AWS_XML_END && found ? FG_OK : garbled(err, document);
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
    struct fg_aws_xml xml;
    struct fg_slice prefix;
    struct fg_bucket_request *request;
    char name[FG_BUCKET_NAME_MAX_BYTES + 1]; /* of the entry that is read; "": not one of ours */
    uint64_t size_bytes;
    int64_t modified_wall_ns;
    bool encoded, truncated, bad;
};

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

    /* Leaves out objects of others, whose names ours never have. */
    char object[FG_BUCKET_NAME_MAX_BYTES + 1];
    size_t len = strlen(list->name);

    memcpy(object, list->name, len + 1);
    if (len > 0 && object[len - 1] == '/') /* a folder */
        object[len - 1] = '\0';
    if (fg_bucket_name_fault(object) != NULL)
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

/* Several of them say nothing, and need more memory than a page has. */
static void take_token(struct s3_answer_list *list)
{
    list->bad |= list->request->next != NULL;
    if (!list->bad)
        fg_bucket_list_next(list->request, fg_buf_slice(&list->xml.text));
}

static void take_closed(struct s3_answer_list *list)
{
    struct fg_aws_xml *xml = &list->xml;

    if (fg_aws_xml_is(xml, "Contents", "Key") || fg_aws_xml_is(xml, "CommonPrefixes", "Prefix"))
        take_name(list);
    else if (fg_aws_xml_is(xml, "Contents", "Size"))
        list->bad |= !fg_parse_u64(fg_buf_slice(&xml->text), &list->size_bytes);
    else if (fg_aws_xml_is(xml, "Contents", "LastModified"))
        list->bad |= !fg_aws_read_time(fg_buf_slice(&xml->text), &list->modified_wall_ns);
    else if (fg_aws_xml_is(xml, "ListBucketResult", "Contents"))
        add_entry(list, false);
    else if (fg_aws_xml_is(xml, "ListBucketResult", "CommonPrefixes"))
        add_entry(list, true);
    else if (fg_aws_xml_is(xml, "ListBucketResult", "IsTruncated"))
        list->truncated = fg_slice_is(fg_buf_slice(&xml->text), "true");
    else if (fg_aws_xml_is(xml, "ListBucketResult", "NextContinuationToken") && xml->text.len > 0)
        take_token(list);
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
    enum fg_aws_xml_event event = FG_AWS_XML_BAD;

    fg_aws_xml_init(&list.xml, in, TEXT_MAX_BYTES);
    while (!list.bad &&
           ((event = fg_aws_xml_next(&list.xml)) == FG_AWS_XML_OPEN || event == FG_AWS_XML_CLOSE)) {
        if (event == FG_AWS_XML_OPEN && list.xml.depth == 1)
            list.bad = !fg_slice_is(fg_aws_xml_name(&list.xml), "ListBucketResult");
        else if (event == FG_AWS_XML_CLOSE)
            take_closed(&list);
    }
    fg_aws_xml_done(&list.xml);
    /* A page with more after it that does not say where to continue is an error: as the last
     * page it would hide objects. */
    if (list.bad || event != FG_AWS_XML_END || (list.truncated && request->next == NULL))
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
    struct fg_aws_xml xml;
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
    struct fg_aws_xml *xml = &uploads->xml;

    if (fg_aws_xml_is(xml, "Upload", "Key"))
        uploads->upload.key = keep(uploads, uploads->encoded);
    else if (fg_aws_xml_is(xml, "Upload", "UploadId"))
        uploads->upload.id = keep(uploads, false);
    else if (fg_aws_xml_is(xml, "Upload", "Initiated"))
        uploads->bad |=
            !fg_aws_read_time(fg_buf_slice(&xml->text), &uploads->upload.initiated_wall_ns);
    else if (fg_aws_xml_is(xml, document, "Upload"))
        take_upload(uploads);
    else if (fg_aws_xml_is(xml, document, "IsTruncated"))
        uploads->truncated = fg_slice_is(fg_buf_slice(&xml->text), "true");
    else if (fg_aws_xml_is(xml, document, "NextKeyMarker"))
        uploads->result->next_key = keep(uploads, uploads->encoded);
    else if (fg_aws_xml_is(xml, document, "NextUploadIdMarker"))
        uploads->result->next_id = keep(uploads, false);
}

enum fg_code fg_s3_read_uploads(struct fg_slice in, struct fg_s3_uploads *ret_uploads,
                                struct fg_err *err)
{
    struct uploads uploads = {.result = ret_uploads,
                              .encoded = is_encoded(in, "ListMultipartUploadsResult")};
    enum fg_aws_xml_event event = FG_AWS_XML_BAD;

    ret_uploads->n = 0;
    ret_uploads->next_key = ret_uploads->next_id = NULL;
    ret_uploads->items = fg_arena_new(ret_uploads->arena, struct fg_s3_upload, FG_BUCKET_PAGE_MAX);
    uploads.bad = ret_uploads->items == NULL;
    fg_aws_xml_init(&uploads.xml, in, TEXT_MAX_BYTES);
    while (!uploads.bad && ((event = fg_aws_xml_next(&uploads.xml)) == FG_AWS_XML_OPEN ||
                            event == FG_AWS_XML_CLOSE)) {
        if (event == FG_AWS_XML_OPEN && uploads.xml.depth == 1)
            uploads.bad = !fg_slice_is(fg_aws_xml_name(&uploads.xml), "ListMultipartUploadsResult");
        else if (event == FG_AWS_XML_CLOSE)
            take_closed_upload(&uploads);
    }
    fg_aws_xml_done(&uploads.xml);
    if (uploads.bad || event != FG_AWS_XML_END ||
        (uploads.truncated && ret_uploads->next_key == NULL))
        return garbled(err, "ListMultipartUploadsResult");
    if (!uploads.truncated)
        ret_uploads->next_key = ret_uploads->next_id = NULL;
    return FG_OK;
}
