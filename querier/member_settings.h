/*
 * Answers GET /api/settings for a cluster: with the settings of this querier and the names of all
 * members, or with those of a member. Ingesters are asked; distributors, compactors and queriers
 * take no calls, so what they said in the bucket is read (common/program/presence.h). Each member
 * masks its own secrets.
 *
 * Thread: a loop; a worker waits for the member or the bucket, at most two seconds.
 */
#ifndef FG_QUERIER_MEMBER_SETTINGS_H
#define FG_QUERIER_MEMBER_SETTINGS_H

#include "common/net/http.h"
#include "common/program/program_routes.h"
#include "common/storage/bucket/bucket.h"

struct querier;

/* Everything is borrowed and outlives the servers. */
struct qry_member_settings {
    struct querier *querier;
    struct fg_bucket *bucket;
    const struct fg_program_routes *routes; /* of this querier */
};

/* members: a struct qry_member_settings. Answers the request, whose caller is known to be an admin.
 * member: "": this querier; "ingester-1": of the ring; "compactor/NAME": of a role. 404: there is
 * no such member; 501: it is older than this call; 503 or 504: it does not answer, with its name.
 * For struct fg_program_routes. */
void qry_member_settings_answer(void *members, struct fg_slice member, struct fg_http_request *req);

#endif
