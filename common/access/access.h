/*
 * Access of a process: knows the registry in the bucket, and is the guard of the HTTP servers.
 *
 * A thread looks at the registry every access.poll. While the bucket is away the last known
 * registry is used, after a restart that of a copy on disk; after access.stale_max only pushes go
 * on, because losing profiles would help nobody. The same registry is used while the one in the
 * bucket is damaged, gone or older. Nothing is believed that was not read from the bucket: a change
 * (fg_access_swap()) takes effect when it is read again.
 *
 * Thread: the guard on any loop; the rest from any thread that may wait, unless said otherwise.
 */
#ifndef FG_COMMON_ACCESS_ACCESS_H
#define FG_COMMON_ACCESS_ACCESS_H

#include "common/access/audit/audit.h"
#include "common/access/guard/decide.h"
#include "common/access/guard/settings.h"
#include "common/access/people/sealed_cookie.h"
#include "common/access/registry/registry_object.h"
#include "common/access/registry/token_uses.h"
#include "common/base/time.h"
#include "common/model/tenant_limits.h"
#include "common/net/http.h"
#include "common/runtime/condition.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

struct fg_access;
struct fg_encryption_settings;
struct fg_key_store;

struct fg_access_config {
    const struct fg_access_settings *settings;    /* borrowed */
    const struct fg_access_login_settings *login; /* borrowed; NULL: neither issuers nor log-in */
    const char *listen;                           /* the address of the server for clients */
    struct fg_clock *clock;
    struct fg_tenants *tenants;       /* gets the limits of the registry; NULL: nobody does */
    struct fg_audit *audit;           /* records refused requests; NULL: nobody does */
    struct fg_registry *registry;     /* of metrics */
    struct fg_conditions *conditions; /* NULL: none */
    const struct fg_encryption_settings *encryption; /* of the bucket; borrowed. NULL: none */
};

/* Creates it without a registry. FG_E_INVALID: a setting is wrong, or the server would be open to
 * others although nobody said so. */
enum fg_code fg_access_create(const struct fg_access_config *config, struct fg_access **ret_access,
                              struct fg_err *err) fg_must_check;

/* Frees it, after the servers have stopped. Accepts NULL. */
void fg_access_destroy(struct fg_access *access);

/* Starts to follow the registry in the bucket, which is borrowed until fg_access_unfollow(), and
 * gives the bucket the keys of tenants (key_store.h). Does not wait for it. */
enum fg_code fg_access_follow(struct fg_access *access, struct fg_bucket *bucket,
                              struct fg_err *err) fg_must_check;
/* Ends that. Requests under way are cancelled. Does nothing if it was not begun. */
void fg_access_unfollow(struct fg_access *access);

/* Adds the routes of the log-in to a server for people, if the settings have one. Before it starts.
 */
void fg_access_routes(struct fg_access *access, struct fg_http_server *server);

/* Returns the session of a person's request, NULL if it has none. Any thread, until the request is
 * answered. */
const struct fg_session *fg_access_session(const struct fg_http_request *req);

/* Returns whether only this machine can reach the address ("HOST:PORT"). */
bool fg_access_is_local(const char *listen);

/* Returns true and appends the reason if requests cannot be decided yet. Any thread. */
bool fg_access_is_unready(struct fg_access *access, struct fg_buf *why);

/* Return the guards of the servers for clients and for operators. They live as long as `access`. */
const struct fg_http_guard *fg_access_guard(struct fg_access *access);
const struct fg_http_guard *fg_access_operators_guard(struct fg_access *access);

/* Returns what the caller of a request may do. A request that no guard has seen may do everything.
 * Any thread, until the request is answered. */
const struct fg_grant *fg_access_grant(const struct fg_http_request *req);

/* Fills in who sent a request, from where, and what it was, for the audit: an event of that kind.
 * Texts are borrowed from the request and from *who. Any thread, until the request is answered. */
struct fg_access_who {
    char text[FG_ACCESS_NAME_MAX_BYTES + 32];
};
struct fg_audit_event fg_access_audit_event(const struct fg_http_request *req,
                                            enum fg_audit_kind kind, struct fg_access_who *who);

/* Return the tenants, or the tenant, of a request, as of fg_grant_tenants(). FG_E_DENIED, too: it
 * has several parameters `tenant`. The thread that the request is with, since they decode the
 * parameter into its arena. */
enum fg_code fg_access_tenants(struct fg_http_request *req, bool several,
                               struct fg_tenant_ids *ret_ids, struct fg_err *err) fg_must_check;
enum fg_code fg_access_tenant(struct fg_http_request *req, bool several, struct fg_slice *ret_id,
                              struct fg_err *err) fg_must_check;

/* Returns the registry that is known, with a reference of its own; NULL: none was read yet. It is
 * empty if there is none in the bucket. Any thread. */
struct fg_access_registry *fg_access_registry(struct fg_access *access);

/* Returns whether the data of the tenant has to go, or has gone, according to the registry that is
 * known. Accepts NULL. Any thread. */
bool fg_access_has_deleted(struct fg_access *access, struct fg_slice tenant);

/* Reads when tokens were used last (token_uses.h), between fg_access_follow() and
 * fg_access_unfollow(): what all processes have written, and what this one has seen. Waits for the
 * bucket. Errors of fg_message_object_read(). */
enum fg_code fg_access_uses(struct fg_access *access, struct fg_arena *arena,
                            const Access__TokenUses **ret_uses, struct fg_err *err) fg_must_check;

/* Returns the keys of tenants, between fg_access_follow() and fg_access_unfollow(); NULL: the
 * settings have no encryption. */
struct fg_key_store *fg_access_keys(struct fg_access *access);

/* Returns whether tokens of an issuer are taken. Any thread. */
bool fg_access_has_issuer(const struct fg_access *access, struct fg_slice issuer);

/* Returns the mode, which is not UNSET. Any thread. */
enum fg_access_mode fg_access_mode(const struct fg_access *access);

/* Looks at the bucket at once, on the thread that polls. Any thread. */
void fg_access_wake(struct fg_access *access);

/* Does the same, and waits until it is done, for a few seconds at most: after a change of one's
 * own. Any thread that may wait. */
void fg_access_refresh(struct fg_access *access);

/* Looks at the bucket now, as the thread does; for tests. */
void fg_access_look(struct fg_access *access);

/* Makes a token of random numbers. id: of one that gets a new secret; NULL: a new one. The caller
 * wipes the text when it was shown. FG_E_INTERNAL: there are no random numbers. */
enum fg_code fg_access_make_secret(const char *id, char ret_text[FG_TOKEN_CHARS + 1],
                                   struct fg_token *ret_token, struct fg_err *err) fg_must_check;

#endif
