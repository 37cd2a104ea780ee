#include "common/cluster/usage/document.h"

#include "common/base/envelope.h"

static const struct fg_envelope envelope = {"document of usage", "FGUD", 1,
                                            FG_USAGE_DOCUMENT_MAX_BYTES};

enum fg_code fg_usage_document_next(const struct fg_usage_document *before, struct fg_slice tenant,
                                    uint64_t version, const struct fg_usage_day *more,
                                    struct fg_arena *arena, struct fg_usage_document *ret_document,
                                    struct fg_err *err)
{
    struct fg_usage_document next = {
        .tenant = tenant, .version = version, .revision = 1, .sums.day = more->day};

    if (before != NULL) {
        fg_assert(before->version < version && before->sums.day == more->day);
        next.before = before->version;
        next.revision = before->revision + 1;
        if (!fg_usage_day_copy(&next.sums, &before->sums, arena))
            return fg_fail(err, FG_E_LIMIT, "no room for a document of usage");
    }
    if (!fg_usage_day_add_within(&next.sums, more, FG_USAGE_DOCUMENT_ROWS_MAX_BYTES, arena))
        return fg_fail(err, FG_E_LIMIT, "no room for a document of usage");
    *ret_document = next;
    return FG_OK;
}

enum fg_code fg_usage_document_encode(const struct fg_usage_document *document, struct fg_buf *out,
                                      struct fg_err *err)
{
    size_t start = out->len;

    fg_envelope_begin(&envelope, out);
    fg_buf_lenbytes(out, document->tenant);
    fg_buf_varint(out, document->version);
    fg_buf_varint(out, document->before);
    fg_buf_varint(out, document->revision);
    fg_usage_day_put(out, &document->sums);
    return fg_envelope_end(&envelope, out, start, err);
}

enum fg_code fg_usage_document_decode(struct fg_slice in, struct fg_slice tenant, int32_t day,
                                      uint64_t version, struct fg_arena *arena,
                                      struct fg_usage_document *ret_document, struct fg_err *err)
{
    struct fg_usage_document document = {.tenant = fg_arena_copy(arena, tenant)};
    struct fg_slice name;
    struct fg_cur cur;

    if (fg_envelope_open(&envelope, in, &cur, err) != FG_OK)
        return err->code;
    name = fg_cur_lenbytes(&cur);
    document.version = fg_cur_varint(&cur);
    document.before = fg_cur_varint(&cur);
    document.revision = fg_cur_varint(&cur);
    document.sums = fg_usage_day_get(&cur, arena);
    if (cur.bad || document.tenant.ptr == NULL)
        return fg_fail(err, FG_E_CORRUPT, "the fields of a document of usage are broken");
    if (!fg_slice_eq(name, tenant) || document.sums.day != day || document.version != version ||
        document.before >= version || document.revision == 0 ||
        (document.before == 0) != (document.revision == 1))
        return fg_fail(err, FG_E_CORRUPT, "a document of usage belongs to another name");
    *ret_document = document;
    return FG_OK;
}
