#include "common/cluster/manifest/object.h"

#include "common/cluster/manifest/name.h"
#include "common/storage/bucket/kept.h"

static enum fg_code make_name(char name[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                              struct fg_err *err)
{
    if (tenant.len > 0)
        return fg_name_blocks(name, tenant, err);
    memcpy(name, FG_NAME_L0, sizeof FG_NAME_L0);
    return FG_OK;
}

/* Copies the etag: the manifest that it is of may be freed while the request is under way. */
static void set_etag(struct fg_bucket_request *request, struct fg_slice etag)
{
    fg_assert(etag.len > 0 && etag.len < sizeof request->if_etag.text);
    memcpy(request->if_etag.text, etag.ptr, etag.len);
    request->if_etag.text[etag.len] = '\0';
}

enum fg_code fg_manifest_read_init(struct fg_manifest_read *read, struct fg_slice tenant,
                                   struct fg_slice known_etag, int64_t deadline_mono_ns,
                                   struct fg_err *err)
{
    *read = (struct fg_manifest_read){.tenant = tenant};
    if (make_name(read->name, tenant, err) != FG_OK)
        return err->code;
    read->request.verb = FG_BUCKET_GET;
    read->request.name = read->name;
    read->request.content_max_bytes = FG_MANIFEST_MAX_BYTES;
    read->request.deadline_mono_ns = deadline_mono_ns;
    /* A conditional read costs the bucket no transfer and us no decoding while nothing has
     * changed. */
    if (known_etag.len > 0) {
        read->request.condition = FG_BUCKET_IF_CHANGED;
        set_etag(&read->request, known_etag);
    }
    return FG_OK;
}

enum fg_code fg_manifest_read_take(struct fg_manifest_read *read, struct fg_manifest **ret_manifest,
                                   struct fg_err *err)
{
    const struct fg_bucket_request *request = &read->request;
    bool is_l0 = read->tenant.len == 0, there = request->code == FG_OK;
    struct fg_slice bytes = there ? fg_buf_slice(&request->body) : fg_bytes(NULL, 0);
    struct fg_slice etag = there ? fg_cstr(request->etag.text) : fg_bytes(NULL, 0);
    enum fg_code code;

    if (!there && request->code != FG_E_NOT_FOUND) {
        *err = request->err;
        return err->code;
    }
    /* A tenant without a manifest has no blocks. The L0 manifest is never missing in a bucket
     * that was used: an empty one in its place would hide all segments. */
    if (!there && is_l0)
        return fg_manifest_l0_missing(err);
    if (there && request->unchanged) {
        fg_assert(request->condition == FG_BUCKET_IF_CHANGED);
        *ret_manifest = NULL;
        return FG_OK;
    }
    /* An object without content and etag would look like a missing one. */
    if (there && bytes.len == 0)
        code = fg_fail(err, FG_E_CORRUPT, "is empty");
    else
        code = is_l0 ? fg_manifest_l0(bytes, etag, ret_manifest, err)
                     : fg_manifest_blocks(bytes, etag, read->tenant, ret_manifest, err);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", read->name);
}

void fg_manifest_read_done(struct fg_manifest_read *read)
{
    fg_bucket_clear(&read->request);
}

enum fg_code fg_manifest_refresh(struct fg_bucket *bucket, struct fg_bucket_stop *stop,
                                 struct fg_slice tenant, int64_t deadline_mono_ns,
                                 struct fg_manifest **manifest, struct fg_err *err)
{
    struct fg_slice known = *manifest == NULL ? fg_bytes(NULL, 0) : (*manifest)->etag;
    struct fg_manifest *found = NULL;
    struct fg_manifest_read read;
    enum fg_code code;

    if (fg_manifest_read_init(&read, tenant, known, deadline_mono_ns, err) != FG_OK)
        return err->code;
    (void)fg_bucket_call_until(bucket, &read.request, stop);
    code = fg_manifest_read_take(&read, &found, err);
    fg_manifest_read_done(&read);
    /* Unchanged (304): the caller keeps the decoded manifest. */
    if (code == FG_OK && found != NULL) {
        fg_manifest_unref(*manifest);
        *manifest = found;
    }
    return code;
}

enum fg_code fg_manifest_swap(struct fg_bucket *bucket, struct fg_bucket_stop *stop,
                              struct fg_slice tenant, struct fg_slice etag, struct fg_slice bytes,
                              int64_t deadline_mono_ns, struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT,
                                    .name = name,
                                    .content = bytes,
                                    .condition = FG_BUCKET_IF_ABSENT,
                                    .deadline_mono_ns = deadline_mono_ns};
    enum fg_code code;

    if (make_name(name, tenant, err) != FG_OK)
        return err->code;
    /* Compare-and-swap: without an etag only a first write is allowed, so two writers never
     * overwrite each other. */
    if (etag.len > 0) {
        put.condition = FG_BUCKET_IF_MATCH;
        set_etag(&put, etag);
    }
    code = fg_bucket_call_until(bucket, &put, stop);
    if (code != FG_OK)
        *err = put.err;
    else
        /* Without waiting: the copy for `bucket rebuild` must not slow a commit down or fail it. */
        fg_kept_offer(fg_bucket_base(bucket)->kept, name, bytes);
    fg_bucket_clear(&put);
    return code;
}
