#include "common/cluster/manifest/name.h"

#include "common/base/str.h"

#include <inttypes.h>

/* Fixed widths, so that names sort as their numbers do. */
enum { HEX64 = 16, HEX_ID = 2 * FG_ID_BYTES };

void fg_name_segment(char out[FG_NAME_MAX_BYTES], const struct fg_segment_id *id)
{
    (void)snprintf(out, FG_NAME_MAX_BYTES,
                   FG_NAME_SEGMENTS "%016" PRIx64 "%016" PRIx64 "/%016" PRIx64 "-%016" PRIx64,
                   id->writer.hi, id->writer.lo, id->cut, id->nonce);
}

/* "tenants/<tenant>", without what follows. */
static enum fg_code tenant_folder(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                                  struct fg_err *err)
{
    /* A directory bucket and many tools hide names that begin with '.', or refuse "." and "..".
     * '=' is in no tenant's name, so that no two share a folder. */
    bool dot = tenant.len > 0 && tenant.ptr[0] == '.';
    struct fg_slice rest = fg_slice_sub(tenant, dot ? 1 : 0, tenant.len);

    if (fg_tenant_check(tenant, err) != FG_OK)
        return err->code;
    (void)snprintf(out, FG_NAME_MAX_BYTES, FG_NAME_TENANTS "%s%.*s", dot ? "=2e" : "", FG_S(rest));
    return FG_OK;
}

/* "tenants/<tenant>/<object>" */
static enum fg_code tenant_object(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                                  const char *object, struct fg_err *err)
{
    char folder[FG_NAME_MAX_BYTES];

    if (tenant_folder(folder, tenant, err) != FG_OK)
        return err->code;
    (void)snprintf(out, FG_NAME_MAX_BYTES, "%.*s/%s", FG_S(fg_cstr(folder)), object);
    return FG_OK;
}

enum fg_code fg_name_blocks(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant, struct fg_err *err)
{
    return tenant_object(out, tenant, "manifest", err);
}

enum fg_code fg_name_settings(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                              struct fg_err *err)
{
    return tenant_object(out, tenant, "settings", err);
}

enum fg_code fg_name_rules(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant, struct fg_err *err)
{
    return tenant_object(out, tenant, "rules", err);
}

enum fg_code fg_name_block(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant, struct fg_id block,
                           struct fg_err *err)
{
    char folder[FG_NAME_MAX_BYTES];

    if (tenant_folder(folder, tenant, err) != FG_OK)
        return err->code;
    (void)snprintf(out, FG_NAME_MAX_BYTES, "%.*s/blocks/%016" PRIx64 "%016" PRIx64,
                   FG_S(fg_cstr(folder)), block.hi, block.lo);
    return FG_OK;
}

/* ---- reading them ---- */

/* Takes the text before the separator off the front; all of it if there is no separator. */
static struct fg_slice take(struct fg_slice *rest, char separator)
{
    size_t at = fg_slice_find(*rest, (uint8_t)separator);
    struct fg_slice part = fg_slice_sub(*rest, 0, at);

    *rest = at == SIZE_MAX ? fg_bytes(NULL, 0) : fg_slice_sub(*rest, at + 1, rest->len);
    return part;
}

static bool parse_u64(struct fg_slice text, uint64_t *ret_value)
{
    uint8_t bytes[8];
    uint64_t value = 0;

    if (text.len != HEX64 || !fg_parse_hex(text, bytes, sizeof bytes))
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        value = value << 8 | bytes[i];
    *ret_value = value;
    return true;
}

static bool parse_id(struct fg_slice text, struct fg_id *ret_id)
{
    return text.len == HEX_ID && parse_u64(fg_slice_sub(text, 0, HEX64), &ret_id->hi) &&
           parse_u64(fg_slice_sub(text, HEX64, HEX64), &ret_id->lo);
}

static bool parse_segment(struct fg_slice rest, struct fg_segment_id *ret_id)
{
    struct fg_slice writer = take(&rest, '/');
    struct fg_slice cut = take(&rest, '-');

    return parse_id(writer, &ret_id->writer) && parse_u64(cut, &ret_id->cut) &&
           parse_u64(rest, &ret_id->nonce);
}

static bool parse_tenant(struct fg_slice text, char out[FG_TENANT_MAX_BYTES + 1])
{
    bool dot = fg_slice_starts(text, "=2e");
    struct fg_slice rest = fg_slice_sub(text, dot ? strlen("=2e") : 0, text.len);
    struct fg_err err;

    /* Before snprintf(), which would cut the name and make it that of another tenant. */
    if (rest.len + dot > FG_TENANT_MAX_BYTES)
        return false;
    (void)snprintf(out, FG_TENANT_MAX_BYTES + 1, "%s%.*s", dot ? "." : "", FG_S(rest));
    return fg_tenant_check(fg_cstr(out), &err) == FG_OK;
}

static bool parse_manifest(struct fg_slice rest, enum fg_name_kind *ret_kind)
{
    if (fg_slice_is(rest, "l0"))
        *ret_kind = FG_NAME_IS_L0;
    else if (fg_slice_is(rest, "ring"))
        *ret_kind = FG_NAME_IS_RING;
    else if (fg_slice_is(rest, "compactors"))
        *ret_kind = FG_NAME_IS_COMPACTORS;
    else
        return false;
    return true;
}

/* Parses `rest`. Accepts more than the names that are made; fg_name_parse() compares. */
static bool parse(struct fg_slice rest, struct fg_name *ret_name)
{
    struct fg_slice root = take(&rest, '/');

    if (fg_slice_is(root, "manifests")) {
        return parse_manifest(rest, &ret_name->kind);
    }
    if (fg_slice_is(root, "segments")) {
        ret_name->kind = FG_NAME_IS_SEGMENT;
        return parse_segment(rest, &ret_name->segment);
    }
    if (!fg_slice_is(root, "tenants") || !parse_tenant(take(&rest, '/'), ret_name->tenant))
        return false;
    if (fg_slice_is(rest, "manifest")) {
        ret_name->kind = FG_NAME_IS_BLOCKS;
        return true;
    }
    ret_name->kind = FG_NAME_IS_BLOCK;
    return fg_slice_is(take(&rest, '/'), "blocks") && parse_id(rest, &ret_name->block);
}

static enum fg_code make(char out[FG_NAME_MAX_BYTES], const struct fg_name *name,
                         struct fg_err *err)
{
    switch (name->kind) {
    case FG_NAME_IS_L0:
        (void)snprintf(out, FG_NAME_MAX_BYTES, "%s", FG_NAME_L0);
        return FG_OK;
    case FG_NAME_IS_RING:
        (void)snprintf(out, FG_NAME_MAX_BYTES, "%s", FG_RING_NAME);
        return FG_OK;
    case FG_NAME_IS_COMPACTORS:
        (void)snprintf(out, FG_NAME_MAX_BYTES, "%s", FG_NAME_COMPACTORS);
        return FG_OK;
    case FG_NAME_IS_SEGMENT:
        fg_name_segment(out, &name->segment);
        return FG_OK;
    case FG_NAME_IS_BLOCKS:
        return fg_name_blocks(out, fg_cstr(name->tenant), err);
    case FG_NAME_IS_BLOCK:
        break;
    }
    return fg_name_block(out, fg_cstr(name->tenant), name->block, err);
}

bool fg_name_parse(struct fg_slice name, struct fg_name *ret_name)
{
    struct fg_name parsed = {0};
    char again[FG_NAME_MAX_BYTES];
    struct fg_err err;

    /* Each thing has one name. Another spelling, such as capital digits, is a foreign object and
     * must not be deleted as an orphan. */
    if (!parse(name, &parsed) || make(again, &parsed, &err) != FG_OK ||
        !fg_slice_eq(name, fg_cstr(again)))
        return false;
    *ret_name = parsed;
    return true;
}
