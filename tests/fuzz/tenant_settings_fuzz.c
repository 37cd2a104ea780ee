/* The object with a tenant's settings, its checksum made right: reading it, and a change. */
#include "common/base/crc32c.h"
#include "querier/tenant_settings.h"
#include "tests/lib/bucket_doubles.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fg_auto(fg_arena) *arena = fg_arena_create(16 << 20);
    fg_auto(fg_bucket) *bucket = fg_bucket_memory();
    struct qry_tenant_settings settings = {
        .bucket = bucket, .tenant = FG_LIT("acme"), .arena = arena};
    Settings__V1__GetSettingsResponse all;
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = "tenants/acme/settings"};
    struct fg_buf bytes;
    struct fg_err err;

    fg_buf_init(&bytes, SIZE_MAX);
    fg_buf_le32(&bytes, fg_crc32c(fg_bytes(data, size)));
    fg_buf_append(&bytes, data, size);
    put.content = fg_buf_slice(&bytes);
    fg_assert(fg_bucket_call(bucket, &put) == FG_OK);
    fg_bucket_clear(&put);
    fg_buf_done(&bytes);
    if (qry_tenant_settings_read(&settings, &all, &err) == FG_OK)
        fg_assert(qry_tenant_settings_delete(&settings, "a", &err) == FG_OK ||
                  err.code == FG_E_LIMIT || err.code == FG_E_INVALID);
    else
        fg_assert(err.code == FG_E_CORRUPT || err.code == FG_E_LIMIT);
    return 0;
}
