/*
 * Changes of what people may do in the registry of access, in the manner of registry.h: bindings
 * (bindings.h), and the end of sessions.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_ACCESS_PEOPLE_PEOPLE_CHANGE_H
#define FG_COMMON_ACCESS_PEOPLE_PEOPLE_CHANGE_H

#include "common/access/registry/registry.h"

enum {
    FG_BINDING_ID_CHARS = 16,
    FG_SUBJECT_MAX_BYTES = 1024,
    FG_REVOKED_SESSIONS_MAX = 4096,    /* an entry goes after a day, with the sessions */
    FG_BINDING_TEXTS_MAX_BYTES = 4096, /* of one binding */
};

/* Writes the id of a binding, a hash of what it says. */
void fg_binding_id(const Access__Binding *binding, char out[FG_BINDING_ID_CHARS + 1]);

/* Adds a binding. `wanted` has its issuer, claim, value, tenants and role, which are copied; the
 * rest is filled in. FG_E_INVALID: as of fg_binding_check(), and its texts exceed
 * FG_BINDING_TEXTS_MAX_BYTES. FG_E_LIMIT: there are too many, also of the tenant
 * (fg_access_check_share()). */
enum fg_code fg_access_bind(const struct fg_access_change *change, const Access__Binding *wanted,
                            struct fg_err *err) fg_must_check;

/* Removes a binding. FG_E_NOT_FOUND: there is none with this id. */
enum fg_code fg_access_unbind(const struct fg_access_change *change, struct fg_slice id,
                              struct fg_err *err) fg_must_check;

/* Ends all sessions of a person that began until now. Forgets what it was told of sessions that
 * have ended by themselves. FG_E_INVALID: the subject is empty or too long. FG_E_LIMIT: those of
 * too many people were ended. */
enum fg_code fg_access_revoke_sessions(const struct fg_access_change *change,
                                       struct fg_slice subject, struct fg_err *err) fg_must_check;

#endif
