/*
 * Names of tenants, as in the header X-Scope-OrgID
 * (deploy/operations/tenants.md#names-of-tenants): letters, digits and ! - _ . * ' ( ), at most 150
 * bytes, and neither "." nor "..", since they become parts of paths. Several names separated by '|'
 * read the data of all of them. A ':' in a name and the text after it are ignored.
 */
#ifndef FG_COMMON_MODEL_TENANT_ID_H
#define FG_COMMON_MODEL_TENANT_ID_H

#include "common/base/err.h"
#include "common/base/slice.h"

enum { FG_TENANT_MAX_BYTES = 150, FG_TENANT_IDS_MAX = 32 };
#define FG_TENANT_HEADER "X-Scope-OrgID"
#define FG_TENANT_ONLY   "anonymous" /* of a server without tenancy */

/* Checks a name. FG_E_INVALID has the fault; an empty name is one. */
enum fg_code fg_tenant_check(struct fg_slice id, struct fg_err *err) fg_must_check;

/* Names of tenants, at least one, sorted, each once. Borrowed. */
struct fg_tenant_ids {
    struct fg_slice ids[FG_TENANT_IDS_MAX];
    size_t n;
};

/* Parses the header. FG_E_NO_TENANT: "no org id". FG_E_INVALID has the fault of a name. */
enum fg_code fg_tenant_ids_parse(struct fg_slice header, struct fg_tenant_ids *ret_ids,
                                 struct fg_err *err) fg_must_check;

#endif
