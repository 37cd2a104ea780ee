#include "common/access/admin/admin_api_impl.h"
#include "common/access/audit/audit_search.h"
#include "common/base/str.h"
#include "common/base/timespec.h"

enum {
    AUDIT_RECORDS = 1000,
    AUDIT_MAX_BYTES = 32 * 1024 * 1024,
};

#define AUDIT_TIMEOUT_NS (60 * FG_SECOND_NS)

/* Returns whether the tenant was there at that time, and not an earlier one of its name, which was
 * deleted: that was somebody else's. */
static bool was_there(const struct fg_admin_call *call, const char *id, int64_t ms)
{
    const Access__Tenant *tenant = fg_access_find_tenant(call->registry, fg_cstr(id));

    return tenant != NULL && tenant->created_ms <= ms;
}

/* A record about several tenants names them all, so only who governs all of them may see it. What
 * is about no tenant is for admins. */
static bool may_see(void *arg, int64_t ms, struct fg_slice tenants)
{
    const struct fg_admin_call *call = arg;

    if (fg_admin_is_admin(call) || tenants.len == 0)
        return fg_admin_is_admin(call);
    while (tenants.len > 0) {
        size_t end = FG_MIN(fg_slice_find(tenants, '|'), tenants.len);
        char tenant[FG_TENANT_MAX_BYTES + 1];

        (void)snprintf(tenant, sizeof tenant, "%.*s", FG_S(fg_slice_sub(tenants, 0, end)));
        if (end > FG_TENANT_MAX_BYTES || !fg_admin_governs(call, tenant) ||
            !was_there(call, tenant, ms))
            return false;
        tenants = fg_slice_sub(tenants, end + 1, SIZE_MAX);
    }
    return true;
}

static bool is_unwanted(void *arg)
{
    const struct fg_admin_call *call = arg;

    return fg_http_gone(call->req);
}

static enum fg_code read_time(struct fg_admin_call *call, const char *name, int64_t otherwise_ms,
                              int64_t *ret_ms, struct fg_err *err)
{
    struct fg_slice text = fg_http_param(call->req, name);
    int64_t ns;

    *ret_ms = otherwise_ms;
    if (text.len == 0)
        return FG_OK;
    if (!fg_timespec_parse(text, call->now_ms * FG_MS_NS, &ns))
        return fg_fail(err, FG_E_INVALID, "%s is not a time, such as now-1d or 1700000000: %.*s",
                       name, FG_S(fg_slice_sub(text, 0, FG_TENANT_MAX_BYTES)));
    *ret_ms = ns / FG_MS_NS;
    return FG_OK;
}

static enum fg_code read_audit_params(struct fg_admin_call *call, struct fg_audit_wanted *wanted,
                                      struct fg_err *err)
{
    struct fg_slice limit = fg_http_param(call->req, "limit");
    uint64_t n = AUDIT_RECORDS;

    if (fg_admin_read_tenant(call, &wanted->tenant, err) != FG_OK ||
        read_time(call, "from", call->now_ms - FG_ADMIN_DAY_NS / FG_MS_NS, &wanted->from_ms, err) !=
            FG_OK ||
        read_time(call, "to", call->now_ms, &wanted->to_ms, err) != FG_OK)
        return err->code;
    if (limit.len > 0 && (!fg_parse_u64(limit, &n) || n < 1 || n > FG_AUDIT_SEARCH_MAX_RECORDS))
        return fg_fail(err, FG_E_INVALID, "limit has to be from 1 to %d",
                       FG_AUDIT_SEARCH_MAX_RECORDS);
    wanted->limit = n;
    wanted->who = fg_http_param(call->req, "who");
    wanted->kind = fg_http_param(call->req, "kind");
    wanted->may_see = may_see;
    wanted->is_unwanted = is_unwanted;
    wanted->arg = call;
    return FG_OK;
}

enum fg_code fg_admin_list_audit(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    fg_auto(fg_arena) *arena = fg_arena_create(AUDIT_MAX_BYTES);
    int64_t deadline_ns = fg_mono_ns(fg_clock_real()) + AUDIT_TIMEOUT_NS;
    struct fg_audit_wanted wanted = {.from_ms = 0};
    struct fg_audit_found found;

    if (read_audit_params(call, &wanted, err) != FG_OK)
        return err->code;
    if (fg_audit_search(call->api->bucket, &wanted, deadline_ns, arena, &found, err) != FG_OK) {
        if (err->code == FG_E_DENIED || err->code == FG_E_NOT_FOUND)
            err->code = FG_E_UNAVAILABLE; /* of the bucket, which is no fault of the client */
        return err->code;
    }
    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "records");
    for (size_t i = 0; i < found.n; i++) {
        fg_json_newline(&json);
        fg_buf_put(fg_json_value(&json, NULL), found.lines[i]);
    }
    fg_json_end(&json);
    if (found.next_ms != 0)
        fg_json_put_i64(&json, "nextMs", found.next_ms);
    if (found.n_unreadable > 0) {
        fg_json_begin_array(&json, "unreadable");
        for (size_t i = 0; i < FG_MIN(found.n_unreadable, (size_t)FG_AUDIT_SEARCH_NAMES_MAX); i++)
            fg_json_put_cstr(&json, NULL, found.unreadable[i]);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    return FG_OK;
}
