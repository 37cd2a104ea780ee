/*
 * Inside the HTTP interface to tenants, tokens and people (admin_api.h): what its files share.
 *
 *     admin_api.c      requests, routes, /api/whoami
 *     admin_tenants.c  /api/tenants, limits among them
 *     admin_tokens.c   /api/tokens
 *     admin_people.c   /api/bindings, /api/sessions
 *     admin_audit.c    /api/audit
 *
 * Thread: actions run on workers, and may wait for the bucket.
 */
#ifndef FG_COMMON_ACCESS_ADMIN_ADMIN_API_IMPL_H
#define FG_COMMON_ACCESS_ADMIN_ADMIN_API_IMPL_H

#include "common/access/admin/admin_api.h"
#include "common/base/json_writer.h"

enum {
    FG_ADMIN_BODY_MAX_BYTES = 1024 * 1024, /* a limit may be 64 KiB of rules */
    FG_ADMIN_WHO_MAX_BYTES = 256,          /* kind and id of the caller, for the registry; cut */
};

#define FG_ADMIN_DAY_NS (24 * FG_HOUR_NS)

/* A request on its way. */
struct fg_admin_call {
    struct fg_job job;
    struct fg_admin_api *api;
    struct fg_http_request *req;
    const struct fg_grant *grant;
    struct fg_access_registry *registry; /* that is known; a reference */
    struct fg_arena *arena;
    char who[FG_ADMIN_WHO_MAX_BYTES];
    struct fg_access_who audited;
    struct fg_audit_event event;
    int64_t now_ms;
    struct fg_slice id;   /* of the tenant, token or binding that the path names */
    struct fg_slice verb; /* behind its ':' or '/' */
    struct fg_slice made; /* the id of what was created, for the audit */
    struct fg_buf body;   /* the answer */
};

/* Answers a request: fills its body. Errors are the client's to read. */
typedef enum fg_code (*fg_admin_action)(struct fg_admin_call *call, struct fg_err *err);

/* ---- what callers may see and do ---- */

/* Returns whether the caller has the scope admin. */
bool fg_admin_is_admin(const struct fg_admin_call *call);
/* Returns whether the caller governs a tenant. */
bool fg_admin_governs(const struct fg_admin_call *call, const char *tenant);
/* Returns FG_E_DENIED: the caller may not do `what` ("create tenants"). */
enum fg_code fg_admin_denied(const struct fg_admin_call *call, const char *what,
                             struct fg_err *err);
/* Checks that the caller has the scope admin, which `what` needs. FG_E_DENIED. */
enum fg_code fg_admin_need_admin(const struct fg_admin_call *call, const char *what,
                                 struct fg_err *err) fg_must_check;

/* ---- requests and answers ---- */

/* Reads the parameter `tenant`, which asks for what is about one; empty: any. FG_E_DENIED: the
 * caller does not govern it. FG_E_INVALID: the request has several. */
enum fg_code fg_admin_read_tenant(struct fg_admin_call *call, struct fg_slice *ret_tenant,
                                  struct fg_err *err) fg_must_check;

/* Reads the body as a message, from JSON. It is in the arena. FG_E_INVALID says where it is wrong.
 */
enum fg_code fg_admin_read_body(struct fg_admin_call *call, const ProtobufCMessageDescriptor *type,
                                ProtobufCMessage **ret_message, struct fg_err *err) fg_must_check;
/* Reads a duration; text "": otherwise_ns. name: for the error. FG_E_INVALID. */
enum fg_code fg_admin_read_duration(const char *text, const char *name, int64_t otherwise_ns,
                                    int64_t *ret_ms, struct fg_err *err) fg_must_check;
/* Writes a member "scopes". */
void fg_admin_put_scopes(struct fg_json_writer *json, unsigned scopes);

/* Makes a change in the bucket and in what this process knows. Errors of fg_access_swap(). */
enum fg_code fg_admin_swap(struct fg_admin_call *call, fg_access_edit edit, void *arg,
                           struct fg_err *err) fg_must_check;

/* ---- actions ---- */

enum fg_code fg_admin_list_tenants(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_create_tenant(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_get_tenant(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_suspend_tenant(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_resume_tenant(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_delete_tenant(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_get_limits(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_set_limits(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_list_tokens(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_create_token(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_get_token(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_rotate_token(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_revoke_token(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_list_bindings(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_create_binding(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_delete_binding(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_revoke_sessions(struct fg_admin_call *call, struct fg_err *err);
enum fg_code fg_admin_list_audit(struct fg_admin_call *call, struct fg_err *err);

#endif
