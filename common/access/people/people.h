/*
 * Identifies callers that have no token of this server: by a JSON Web Token of an issuer, or by the
 * cookie of a session. Joins the issuers, the log-in, the keys of sessions, and the bindings of
 * settings and registry.
 *
 * Thread: fg_people_identify() on the loop of the request; the rest from the owner's.
 */
#ifndef FG_COMMON_ACCESS_PEOPLE_PEOPLE_H
#define FG_COMMON_ACCESS_PEOPLE_PEOPLE_H

#include "common/access/guard/decide.h"
#include "common/access/guard/settings.h"
#include "common/access/people/oidc.h"

struct fg_people;

struct fg_people_config {
    const struct fg_access_settings *settings;    /* borrowed */
    const struct fg_access_login_settings *login; /* borrowed */
    struct fg_clock *clock;
    struct fg_audit *audit;           /* NULL: nobody records log-ins */
    struct fg_attempts *attempts;     /* borrowed */
    struct fg_registry *registry;     /* of metrics */
    struct fg_conditions *conditions; /* NULL: none */
    /* Returns the registry of access with a reference, NULL: none is known. */
    struct fg_access_registry *(*known)(void *arg);
    void *arg;
};

/* Creates them. *ret_people is NULL if the settings have no issuer. FG_E_INVALID: a setting is
 * wrong.
 */
enum fg_code fg_people_create(const struct fg_people_config *config, struct fg_people **ret_people,
                              struct fg_err *err) fg_must_check;
void fg_people_destroy(struct fg_people *people); /* accepts NULL */

/* Starts the threads. The bucket is borrowed until fg_people_stop(). people NULL: does nothing. */
enum fg_code fg_people_start(struct fg_people *people, struct fg_bucket *bucket,
                             struct fg_err *err) fg_must_check;
/* Ends them, after the servers have stopped. Does nothing if they were not started. */
void fg_people_stop(struct fg_people *people);

/* Adds the routes of the log-in, if there is one. people NULL: does nothing. */
void fg_people_routes(struct fg_people *people, struct fg_http_server *server);

/* Who sent a request. */
struct fg_person {
    struct fg_access_identity identity;
    struct fg_identity *verified; /* of a JSON Web Token: a reference; NULL: a session's */
    struct fg_session session;    /* if `verified` is NULL; in the arena of the request */
};

/*
 * Finds out who sent a request, by its Authorization or else by its session. scopes: that the route
 * demands. A session whose request changes something needs its csrf value. FG_E_NOT_FOUND: the
 * request has neither. FG_E_NO_TENANT: what it has is not valid; *err is for the log. FG_E_DENIED:
 * no csrf value. FG_E_UNAVAILABLE: keys are not known. FG_E_LIMIT: too many roles, or no memory.
 */
enum fg_code fg_people_identify(struct fg_people *people, struct fg_http_request *req,
                                const struct fg_access_registry *registry, unsigned scopes,
                                struct fg_person *ret_person, struct fg_err *err) fg_must_check;

/* Sends the browser that opens a page to the log-in, if there is one and it has no session. Returns
 * whether it has, which answers the request. On the loop of the request. people NULL: false. */
bool fg_people_log_in(struct fg_people *people, struct fg_http_request *req) fg_must_check;

/* Returns whether tokens of an issuer are taken. Any thread. people NULL: false. */
bool fg_people_have_issuer(const struct fg_people *people, struct fg_slice issuer);

/* Returns the path where people log in, or NULL: there is no log-in. Accepts NULL. */
const char *fg_people_log_in_path(const struct fg_people *people);

/* Adds to an answer 401 where a program learns which issuer's tokens are taken (RFC 9728, 5.1), if
 * there is a log-in. people NULL: does nothing. */
void fg_people_challenge(struct fg_people *people, struct fg_http_request *req);

/* Gives back what a person refers to. A zeroed one is fine. */
void fg_person_done(struct fg_person *person);

#endif
