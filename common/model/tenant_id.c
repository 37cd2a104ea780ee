#include "common/model/tenant_id.h"

#include "common/base/str.h"

static bool is_allowed(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!-_.*'()", c) != NULL);
}

enum fg_code fg_tenant_check(struct fg_slice id, struct fg_err *err)
{
    if (id.len == 0)
        return fg_fail(err, FG_E_INVALID, "tenant ID is empty");
    if (id.len > FG_TENANT_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "tenant ID is too long: max %d characters",
                       FG_TENANT_MAX_BYTES);
    /* They would become path elements in a bucket that is a directory. */
    if (fg_slice_is(id, ".") || fg_slice_is(id, ".."))
        return fg_fail(err, FG_E_INVALID, "tenant ID is '.' or '..'");
    for (size_t i = 0; i < id.len; i++)
        if (!is_allowed(id.ptr[i]))
            return fg_fail(err, FG_E_INVALID,
                           "tenant ID '%.*s' contains unsupported character '%c'", FG_S(id),
                           id.ptr[i] >= ' ' && id.ptr[i] < 0x7f ? id.ptr[i] : '?');
    return FG_OK;
}

/* Inserts an id at its place in the order, unless it is there already. With the order, "a|b" and
 * "b|a" are the same question. */
static enum fg_code add_id(struct fg_tenant_ids *ids, struct fg_slice id, struct fg_err *err)
{
    size_t at = 0;

    while (at < ids->n && fg_slice_cmp(ids->ids[at], id) < 0)
        at++;
    if (at < ids->n && fg_slice_eq(ids->ids[at], id))
        return FG_OK;
    if (ids->n == FG_TENANT_IDS_MAX)
        return fg_fail(err, FG_E_INVALID, "more than %d tenants at a time", FG_TENANT_IDS_MAX);
    memmove(&ids->ids[at + 1], &ids->ids[at], (ids->n - at) * sizeof ids->ids[0]);
    ids->ids[at] = id;
    ids->n++;
    return FG_OK;
}

enum fg_code fg_tenant_ids_parse(struct fg_slice header, struct fg_tenant_ids *ret_ids,
                                 struct fg_err *err)
{
    struct fg_slice rest = header;

    ret_ids->n = 0;
    while (rest.len > 0) {
        size_t bar = fg_slice_find(rest, '|');
        struct fg_slice id = fg_slice_sub(rest, 0, bar);

        id = fg_trim(fg_slice_sub(id, 0, fg_slice_find(id, ':')));
        rest = bar == SIZE_MAX ? FG_LIT("") : fg_slice_sub(rest, bar + 1, rest.len);
        /* Empty names between bars are passed over, unless there is no other. */
        if (id.len > 0 && (fg_tenant_check(id, err) != FG_OK || add_id(ret_ids, id, err) != FG_OK))
            return err->code;
    }
    return ret_ids->n > 0 ? FG_OK : fg_fail(err, FG_E_NO_TENANT, "no org id");
}
