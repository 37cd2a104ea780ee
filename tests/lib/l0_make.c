#include "tests/lib/l0_make.h"

#include "common/cluster/manifest/l0.h"

void l0_make(struct fg_bucket *bucket)
{
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT, .name = FG_NAME_L0, .condition = FG_BUCKET_IF_ABSENT};
    struct fg_l0 none = fg_l0_none();
    struct fg_buf bytes;
    struct fg_err err;

    none.revision = 1;
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    fg_assert(fg_l0_encode(&none, &bytes, &err) == FG_OK);
    put.content = fg_buf_slice(&bytes);
    fg_assert(fg_bucket_call(bucket, &put) == FG_OK);
    fg_bucket_clear(&put);
    fg_buf_done(&bytes);
}
