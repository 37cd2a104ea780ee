/* What object stores answer. The first byte says which of the readers is meant. */
#include "common/base/str.h"
#include "common/storage/bucket/s3_answer.h"

static void read_list(struct fg_slice in)
{
    struct fg_bucket_request request = {.page_max = FG_BUCKET_PAGE_MAX, .name = ""};
    struct fg_err err;

    if (fg_s3_read_list(in, FG_LIT("p/"), &request, &err) == FG_OK)
        for (size_t i = 0; i < request.n_entries; i++) {
            fg_assert(fg_utf8_valid(fg_cstr(request.entries[i].name)));
            fg_assert(request.entries[i].folder ||
                      fg_bucket_name_fault(request.entries[i].name) == NULL);
        }
    fg_bucket_clear(&request);
}

static void read_uploads(struct fg_slice in)
{
    struct fg_s3_uploads uploads = {.arena = fg_arena_create(4 << 20)};
    struct fg_err err;

    if (fg_s3_read_uploads(in, &uploads, &err) == FG_OK)
        for (size_t i = 0; i < uploads.n; i++)
            fg_assert(uploads.items[i].key != NULL && uploads.items[i].id != NULL);
    fg_arena_destroy(uploads.arena);
}

static void read_role(struct fg_slice in)
{
    struct fg_aws_keys keys;
    struct fg_err err;
    int64_t end_ns;

    if (fg_aws_read_role(in, &keys, &end_ns, &err) == FG_OK) {
        free(keys.access);
        free(keys.secret);
        free(keys.token);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice in = fg_slice_sub(fg_bytes(data, size), 1, size);
    struct fg_aws_error error;
    char id[S3_ID_BYTES];
    struct fg_err err;

    if (size == 0)
        return 0;
    switch (data[0]) {
    case 'l':
        read_list(in);
        break;
    case 'u':
        read_uploads(in);
        break;
    case 'r':
        read_role(in);
        break;
    case 'f':
        if (fg_s3_read_field(in, "InitiateMultipartUploadResult", "UploadId", id, sizeof id,
                             &err) == FG_OK)
            fg_assert(strlen(id) < sizeof id);
        break;
    default:
        fg_aws_read_error(in, &error);
        break;
    }
    return 0;
}
