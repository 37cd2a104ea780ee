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

enum fg_code fg_name_tenant_all(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                                struct fg_err *err)
{
    return tenant_object(out, tenant, "", err);
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
static struct fg_slice take_part(struct fg_slice *rest, char separator)
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
    struct fg_slice writer = take_part(&rest, '/');
    struct fg_slice cut = take_part(&rest, '-');

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
    struct fg_slice root = take_part(&rest, '/');

    if (fg_slice_is(root, "manifests")) {
        return parse_manifest(rest, &ret_name->kind);
    }
    if (fg_slice_is(root, "segments")) {
        ret_name->kind = FG_NAME_IS_SEGMENT;
        return parse_segment(rest, &ret_name->segment);
    }
    if (!fg_slice_is(root, "tenants") || !parse_tenant(take_part(&rest, '/'), ret_name->tenant))
        return false;
    if (fg_slice_is(rest, "manifest")) {
        ret_name->kind = FG_NAME_IS_BLOCKS;
        return true;
    }
    ret_name->kind = FG_NAME_IS_BLOCK;
    return fg_slice_is(take_part(&rest, '/'), "blocks") && parse_id(rest, &ret_name->block);
}

static enum fg_code make_name(char out[FG_NAME_MAX_BYTES], const struct fg_name *name,
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
    if (!parse(name, &parsed) || make_name(again, &parsed, &err) != FG_OK ||
        !fg_slice_eq(name, fg_cstr(again)))
        return false;
    *ret_name = parsed;
    return true;
}

/* ---- files that somebody looks at ---- */

#define ADHOC_FOLDER "adhoc"

/* Crockford's, which leaves out I, L, O and U. */
static const char base32[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

bool fg_adhoc_id_is_valid(struct fg_slice text)
{
    /* 26 digits hold 130 bits: the first one has 3. */
    if (text.len != FG_ADHOC_ID_CHARS || text.ptr[0] > '7')
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '\0' || strchr(base32, text.ptr[i]) == NULL)
            return false;
    return true;
}

void fg_adhoc_id_write(struct fg_id bits, char out[FG_ADHOC_ID_CHARS + 1])
{
    for (size_t i = FG_ADHOC_ID_CHARS; i-- > 0;) {
        out[i] = base32[bits.lo & 31];
        bits.lo = bits.lo >> 5 | bits.hi << 59;
        bits.hi >>= 5;
    }
    out[FG_ADHOC_ID_CHARS] = '\0';
}

static bool is_plain(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' || byte == '-';
}

void fg_adhoc_file_write(struct fg_slice name, char out[FG_ADHOC_FILE_MAX_BYTES + 1])
{
    if (name.len == 0)
        name = FG_LIT("profile");
    if (name.len > FG_ADHOC_FILE_MAX_BYTES)
        name = fg_slice_sub(name, name.len - FG_ADHOC_FILE_MAX_BYTES, FG_ADHOC_FILE_MAX_BYTES);
    fg_assert(name.ptr != NULL); /* it is not empty */
    for (size_t i = 0; i < name.len; i++)
        out[i] = (char)(is_plain(name.ptr[i]) ? name.ptr[i] : '_');
    out[name.len] = '\0';
}

enum fg_code fg_name_adhoc_all(char out[FG_NAME_ADHOC_MAX_BYTES], struct fg_slice tenant,
                               struct fg_err *err)
{
    char folder[FG_NAME_MAX_BYTES];

    if (tenant_folder(folder, tenant, err) != FG_OK)
        return err->code;
    (void)snprintf(out, FG_NAME_ADHOC_MAX_BYTES, "%s/" ADHOC_FOLDER "/", folder);
    return FG_OK;
}

enum fg_code fg_name_adhoc(char out[FG_NAME_ADHOC_MAX_BYTES], const struct fg_adhoc_name *name,
                           struct fg_err *err)
{
    char all[FG_NAME_ADHOC_MAX_BYTES];
    int len;

    if (fg_name_adhoc_all(all, fg_cstr(name->tenant), err) != FG_OK)
        return err->code;
    len = snprintf(out, FG_NAME_ADHOC_MAX_BYTES, "%s%s-%016" PRIx64 "-%08" PRIx32 "-%s", all,
                   name->id, (uint64_t)name->uploaded_ms, name->crc, name->file);
    fg_assert(len > 0 && (size_t)len < FG_NAME_ADHOC_MAX_BYTES);
    return FG_OK;
}

static bool parse_u32(struct fg_slice text, uint32_t *ret_value)
{
    uint8_t bytes[4];

    if (text.len != 2 * sizeof bytes || !fg_parse_hex(text, bytes, sizeof bytes))
        return false;
    *ret_value =
        (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return true;
}

bool fg_name_parse_adhoc(struct fg_slice name, struct fg_adhoc_name *ret_name)
{
    struct fg_adhoc_name parsed = {0};
    char again[FG_NAME_ADHOC_MAX_BYTES];
    struct fg_slice rest = name, id;
    struct fg_err err;
    uint64_t uploaded;

    if (!fg_slice_is(take_part(&rest, '/'), "tenants") ||
        !parse_tenant(take_part(&rest, '/'), parsed.tenant) ||
        !fg_slice_is(take_part(&rest, '/'), ADHOC_FOLDER))
        return false;
    /* An id has no '-', so the first one ends it. The name of the file comes last and may have
     * some. */
    id = take_part(&rest, '-');
    if (!fg_adhoc_id_is_valid(id) || !parse_u64(take_part(&rest, '-'), &uploaded) ||
        uploaded > INT64_MAX || !parse_u32(take_part(&rest, '-'), &parsed.crc) || rest.len == 0)
        return false;
    (void)snprintf(parsed.id, sizeof parsed.id, "%.*s", FG_S(id));
    parsed.uploaded_ms = (int64_t)uploaded;
    /* Text that this changes is no name that we make: the comparison below finds it. */
    fg_adhoc_file_write(rest, parsed.file);
    if (fg_name_adhoc(again, &parsed, &err) != FG_OK || !fg_slice_eq(name, fg_cstr(again)))
        return false;
    *ret_name = parsed;
    return true;
}

/* ---- usage ---- */

#define USAGE_DAYS "usage/days"

enum fg_code fg_name_usage_all(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                               const char *dates, struct fg_err *err)
{
    char folder[FG_NAME_MAX_BYTES];

    if (tenant_folder(folder, tenant, err) != FG_OK)
        return err->code;
    /* The folder is that of the tenant below tenants/, with a dot at its beginning written in the
     * same way. */
    (void)snprintf(out, FG_NAME_MAX_BYTES, USAGE_DAYS "/%.*s/%s",
                   FG_S(fg_cstr(folder + strlen(FG_NAME_TENANTS))), dates);
    return FG_OK;
}

enum fg_code fg_name_usage(char out[FG_NAME_MAX_BYTES], const struct fg_usage_name *name,
                           struct fg_err *err)
{
    char date[FG_USAGE_DATE_BYTES];
    char rest[sizeof date + 24];

    fg_assert(name->version <= FG_USAGE_VERSION_MAX);
    fg_usage_day_write(name->day, date);
    (void)snprintf(rest, sizeof rest, "%s/%010" PRIu64, date, name->version);
    return fg_name_usage_all(out, fg_cstr(name->tenant), rest, err);
}

/* Parses ten digits, which are at most FG_USAGE_VERSION_MAX: a foreign name must not reach the
 * assertion of fg_name_usage(). */
static bool parse_decimal(struct fg_slice text, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (text.len != 10)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *ret_value = value;
    return true;
}

bool fg_name_parse_usage(struct fg_slice name, struct fg_usage_name *ret_name)
{
    struct fg_usage_name parsed = {.day = 0};
    char again[FG_NAME_MAX_BYTES];
    struct fg_slice rest = name;
    struct fg_err err;

    if (!fg_slice_is(take_part(&rest, '/'), "usage") ||
        !fg_slice_is(take_part(&rest, '/'), "days") ||
        !parse_tenant(take_part(&rest, '/'), parsed.tenant) ||
        !fg_usage_day_parse(take_part(&rest, '/'), &parsed.day) ||
        !parse_decimal(rest, &parsed.version) || fg_name_usage(again, &parsed, &err) != FG_OK ||
        !fg_slice_eq(name, fg_cstr(again)))
        return false;
    *ret_name = parsed;
    return true;
}

void fg_name_query_counts_all(char out[FG_NAME_MAX_BYTES], int32_t day)
{
    char date[FG_USAGE_DATE_BYTES];

    fg_usage_day_write(day, date);
    (void)snprintf(out, FG_NAME_MAX_BYTES, FG_NAME_QUERY_COUNTS "%s/", date);
}

void fg_name_query_counts(char out[FG_NAME_MAX_BYTES], const struct fg_query_counts_name *name)
{
    char date[FG_USAGE_DATE_BYTES];

    fg_usage_day_write(name->day, date);
    (void)snprintf(out, FG_NAME_MAX_BYTES, FG_NAME_QUERY_COUNTS "%s/%016" PRIx64 "-%016" PRIx64,
                   date, name->process, name->number);
}

bool fg_name_parse_query_counts(struct fg_slice name, struct fg_query_counts_name *ret_name)
{
    struct fg_query_counts_name parsed = {.day = 0};
    char again[FG_NAME_MAX_BYTES];
    struct fg_slice rest = name;

    if (!fg_slice_is(take_part(&rest, '/'), "usage") ||
        !fg_slice_is(take_part(&rest, '/'), "queries") ||
        !fg_usage_day_parse(take_part(&rest, '/'), &parsed.day) ||
        !parse_u64(take_part(&rest, '-'), &parsed.process) || !parse_u64(rest, &parsed.number))
        return false;
    fg_name_query_counts(again, &parsed);
    if (!fg_slice_eq(name, fg_cstr(again)))
        return false;
    *ret_name = parsed;
    return true;
}

/* The rules are those of zones, since an unknown revision is empty. */
static enum fg_code check_part(const char *what, struct fg_slice text, size_t max_bytes,
                               struct fg_err *err)
{
    const char *fault = fg_member_zone_fault(text);

    if (fault == NULL && text.len > max_bytes)
        fault = "is too long";
    return fault == NULL ? FG_OK : fg_fail(err, FG_E_INVALID, "%s of a process %s", what, fault);
}

enum fg_code fg_name_presence_all(char out[FG_NAME_PRESENCE_MAX_BYTES], struct fg_slice role,
                                  const struct fg_slice *name, struct fg_err *err)
{
    if (check_part("the role", role, FG_PRESENCE_ROLE_MAX_BYTES, err) != FG_OK ||
        (name != NULL && check_part("the name", *name, FG_MEMBER_NAME_MAX_BYTES, err) != FG_OK))
        return err->code;
    if (role.len == 0 || (name != NULL && name->len == 0))
        return fg_fail(err, FG_E_INVALID, "role or name of a process is empty");
    if (name == NULL)
        (void)snprintf(out, FG_NAME_PRESENCE_MAX_BYTES, FG_NAME_MEMBERS "%.*s/", FG_S(role));
    else
        (void)snprintf(out, FG_NAME_PRESENCE_MAX_BYTES, FG_NAME_MEMBERS "%.*s/%.*s/", FG_S(role),
                       FG_S(*name));
    return FG_OK;
}

enum fg_code fg_name_presence(char out[FG_NAME_PRESENCE_MAX_BYTES],
                              const struct fg_presence_name *name, struct fg_err *err)
{
    struct fg_slice own = fg_cstr(name->name), version = fg_cstr(name->version);
    size_t len;

    fg_assert(name->started_ms >= 0);
    if (fg_name_presence_all(out, fg_cstr(name->role), &own, err) != FG_OK ||
        check_part("the version", version, FG_PRESENCE_VERSION_MAX_BYTES, err) != FG_OK ||
        check_part("the revision", fg_cstr(name->revision), FG_PRESENCE_VERSION_MAX_BYTES, err) !=
            FG_OK)
        return err->code;
    /* A parser takes the first '_' for the end of the version. The revision comes last and may have
     * some. */
    if (fg_slice_find(version, '_') != SIZE_MAX)
        return fg_fail(err, FG_E_INVALID, "the version of a process contains _");
    len = strlen(out);
    (void)snprintf(out + len, FG_NAME_PRESENCE_MAX_BYTES - len, "%" PRId64 "_%s_%s",
                   name->started_ms, name->version, name->revision);
    return FG_OK;
}

static bool copy_part(struct fg_slice text, char *out, size_t max_bytes)
{
    if (text.len > max_bytes)
        return false;
    (void)snprintf(out, max_bytes + 1, "%.*s", FG_S(text));
    return true;
}

bool fg_name_parse_presence(struct fg_slice name, struct fg_presence_name *ret_name)
{
    struct fg_presence_name parsed = {.started_ms = 0};
    char again[FG_NAME_PRESENCE_MAX_BYTES];
    struct fg_slice rest = name;
    uint64_t started_ms;
    struct fg_err err;

    /* The time is checked here, since fg_name_presence() asserts that it is not negative. */
    if (!fg_slice_is(take_part(&rest, '/'), "members") ||
        !copy_part(take_part(&rest, '/'), parsed.role, FG_PRESENCE_ROLE_MAX_BYTES) ||
        !copy_part(take_part(&rest, '/'), parsed.name, FG_MEMBER_NAME_MAX_BYTES) ||
        !fg_parse_u64(take_part(&rest, '_'), &started_ms) || started_ms > INT64_MAX ||
        !copy_part(take_part(&rest, '_'), parsed.version, FG_PRESENCE_VERSION_MAX_BYTES) ||
        !copy_part(rest, parsed.revision, FG_PRESENCE_VERSION_MAX_BYTES))
        return false;
    parsed.started_ms = (int64_t)started_ms;
    if (fg_name_presence(again, &parsed, &err) != FG_OK || !fg_slice_eq(name, fg_cstr(again)))
        return false;
    *ret_name = parsed;
    return true;
}
