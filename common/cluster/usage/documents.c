#include "common/cluster/usage/documents.h"

static int64_t deadline(const struct fg_usage_documents *documents)
{
    return fg_time_add(fg_mono_ns(documents->clock), documents->timeout_ns);
}

static enum fg_code name_of(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant, int32_t day,
                            uint64_t version, struct fg_err *err)
{
    struct fg_usage_name name = {.day = day, .version = version};

    if (tenant.len > FG_TENANT_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "a tenant name of %zu bytes", tenant.len);
    (void)snprintf(name.tenant, sizeof name.tenant, "%.*s", FG_S(tenant));
    return fg_name_usage(out, &name, err);
}

/* ---- listing ---- */

/* What all dates of [first, last] begin with. */
static void common_dates(int32_t first, int32_t last, char out[FG_USAGE_DATE_BYTES])
{
    static const size_t ends[] = {sizeof "2026-11-27" - 1, sizeof "2026-11-" - 1,
                                  sizeof "2026-" - 1};
    char other[FG_USAGE_DATE_BYTES];

    fg_usage_day_write(first, out);
    fg_usage_day_write(last, other);
    for (size_t i = 0; i < FG_COUNT(ends); i++)
        if (memcmp(out, other, ends[i]) == 0) {
            out[ends[i]] = '\0';
            return;
        }
    out[0] = '\0';
}

struct documents_listing {
    int32_t first, last;
    uint64_t below;
    struct fg_arena *arena;
    struct fg_usage_newest *newest;
    uint32_t count, cap;
    bool full;
};

/* Takes an entry. They come in the order of names, which is that of days and versions. */
static bool take_entry(const struct fg_bucket_entry *entry, void *arg)
{
    struct documents_listing *listing = arg;
    struct fg_usage_newest *last =
        listing->count == 0 ? NULL : &listing->newest[listing->count - 1];
    struct fg_usage_name name;

    if (!fg_name_parse_usage(fg_cstr(entry->name), &name) || name.day < listing->first ||
        name.day > listing->last || name.version >= listing->below)
        return true;
    if (last == NULL || last->day != name.day) {
        if (!fg_arena_grow(listing->arena, &listing->newest, listing->count, 1, &listing->cap,
                           sizeof *listing->newest)) {
            listing->full = true;
            return false;
        }
        last = &listing->newest[listing->count++];
    }
    fg_assert(last != NULL);
    *last = (struct fg_usage_newest){name.day, name.version};
    return true;
}

enum fg_code fg_usage_documents_list(const struct fg_usage_documents *documents,
                                     struct fg_slice tenant, int32_t first, int32_t last,
                                     uint64_t below, struct fg_arena *arena,
                                     struct fg_usage_newest **ret_newest, uint32_t *ret_count,
                                     struct fg_err *err)
{
    struct documents_listing listing = {
        .first = first, .last = last, .below = below, .arena = arena};
    char dates[FG_USAGE_DATE_BYTES], prefix[FG_NAME_MAX_BYTES];

    common_dates(first, last, dates);
    if (fg_name_usage_all(prefix, tenant, dates, err) != FG_OK ||
        fg_bucket_each_until(documents->bucket, prefix, false, deadline(documents), documents->stop,
                             take_entry, &listing, err) != FG_OK)
        return fg_wrap(err, "documents of usage");
    if (listing.full)
        return fg_fail(err, FG_E_LIMIT, "no room for a list of documents of usage");
    *ret_newest = listing.newest;
    *ret_count = listing.count;
    return FG_OK;
}

/* ---- one of them ---- */

enum fg_code fg_usage_documents_read(const struct fg_usage_documents *documents,
                                     struct fg_slice tenant, int32_t day, uint64_t version,
                                     struct fg_arena *arena, struct fg_usage_document *ret_document,
                                     struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request request = {.verb = FG_BUCKET_GET,
                                        .name = name,
                                        .content_max_bytes = FG_USAGE_DOCUMENT_MAX_BYTES,
                                        .deadline_mono_ns = deadline(documents)};
    enum fg_code code;

    if (name_of(name, tenant, day, version, err) != FG_OK)
        return err->code;
    code = fg_bucket_call_until(documents->bucket, &request, documents->stop);
    if (code == FG_OK)
        code = fg_usage_document_decode(fg_buf_slice(&request.body), tenant, day, version, arena,
                                        ret_document, err);
    else
        *err = request.err;
    fg_bucket_clear(&request);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", name);
}

enum fg_code fg_usage_documents_write(const struct fg_usage_documents *documents,
                                      const struct fg_usage_document *document, struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT,
                                        .name = name,
                                        .condition = FG_BUCKET_IF_ABSENT,
                                        .deadline_mono_ns = deadline(documents)};
    struct fg_buf bytes;
    enum fg_code code;

    if (name_of(name, document->tenant, document->sums.day, document->version, err) != FG_OK)
        return err->code;
    fg_buf_init(&bytes, FG_USAGE_DOCUMENT_MAX_BYTES);
    code = fg_usage_document_encode(document, &bytes, err);
    if (code == FG_OK) {
        request.content = fg_buf_slice(&bytes);
        code = fg_bucket_call_until(documents->bucket, &request, documents->stop);
        if (code == FG_E_PRECONDITION)
            code = FG_OK;
        else if (code != FG_OK)
            *err = request.err;
        fg_bucket_clear(&request);
    }
    fg_buf_done(&bytes);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", name);
}
