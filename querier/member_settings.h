/*
 * Asks an ingester of the ring for its settings in force, for GET /api/settings?member=NAME: the
 * page shows admins those of all members. Secrets are masked by the member itself. Distributors and
 * compactors are not asked: nobody can call them.
 *
 * Thread: a loop; a worker waits for the member, at most two seconds.
 */
#ifndef FG_QUERIER_MEMBER_SETTINGS_H
#define FG_QUERIER_MEMBER_SETTINGS_H

#include "common/base/json_writer.h"
#include "common/net/http.h"

/* Puts the array "members": the names of the ingesters in the ring. querier: the struct querier.
 * For struct fg_admin. */
void qry_put_members(void *querier, struct fg_json_writer *json);

/* querier: the struct querier. Answers the request, whose caller is known to be an admin, with what
 * the member says. 404: the ring has no such member; 501: it is older than this call; 503 or 504:
 * it does not answer, with its name. For struct fg_admin. */
void qry_member_settings(void *querier, struct fg_slice member, struct fg_http_request *req);

#endif
