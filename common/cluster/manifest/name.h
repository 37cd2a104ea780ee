/*
 * Names of objects in the bucket; made and read back here and nowhere else.
 *
 *   manifests/l0                              the L0 manifest (l0.h)
 *   manifests/ring                            the ring (common/cluster/ring/ring.h)
 *   manifests/compactors                      which compactors there are
 *                                             (common/cluster/membership/membership_core.h)
 *   members/<role>/<name>/<started>_<version>_<revision>
 *                                             a process that runs, and its settings
 *                                             (common/program/presence.h)
 *   segments/<writer>/<cut>-<nonce>           what an ingester committed; hexadecimal
 *   tenants/<tenant>/manifest                 a tenant's manifest (blocks.h)
 *   tenants/<tenant>/blocks/<id>              what the compactor made; hexadecimal
 *   tenants/<tenant>/settings                 settings of apps (querier/tenant_settings.h)
 *   tenants/<tenant>/adhoc/<id>-<time>-<crc>-<file>
 *                                             a file that somebody looks at
 *                                             (querier/adhoc/adhoc_store.h)
 *   rules/scraped                             tenants whose recording rules are evaluated
 *                                             (querier/rules/scraped_tenants.h)
 *   usage/days/<tenant>/<day>/<version>       what a tenant used on a day; 2026-11-27, ten digits
 *                                             (common/cluster/usage/document.h)
 *   usage/queries/<day>/<process>-<number>    what queries of all tenants took; hexadecimal
 *                                             (common/cluster/usage/query_counts.h)
 *
 * A tenant's name is checked (common/model/tenant_id.h) before it becomes part of a path: what it
 * may have is what S3 and file systems take as it is. Only a dot at its beginning is written "=2e",
 * so that nothing is hidden; '=' is not allowed in tenants' names.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_NAME_H
#define FG_COMMON_CLUSTER_MANIFEST_NAME_H

#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/cluster/membership/name.h"
#include "common/cluster/ring/ring.h"
#include "common/model/tenant_id.h"
#include "common/model/usage_day.h"

enum {
    FG_NAME_MAX_BYTES =
        sizeof "tenants/=2e/blocks/" + (size_t)FG_TENANT_MAX_BYTES + (size_t)2 * FG_ID_BYTES
};

#define FG_NAME_L0         "manifests/l0"
#define FG_NAME_COMPACTORS "manifests/compactors"
#define FG_NAME_SCRAPED    "rules/scraped"
#define FG_NAME_SEGMENTS   "segments/" /* to list what is there */
#define FG_NAME_TENANTS    "tenants/"

/*
 * The identity of a segment. writer: the store that wrote it; an empty disk is another store. cut:
 * counts up in the store. nonce: different for each upload, so that an object left by a crash is
 * never taken for a later one.
 */
struct fg_segment_id {
    struct fg_id writer;
    uint64_t cut, nonce;
};

static inline int fg_segment_id_cmp(const struct fg_segment_id *a, const struct fg_segment_id *b)
{
    int order = fg_id_cmp(a->writer, b->writer);

    if (order != 0)
        return order;
    if (a->cut != b->cut)
        return a->cut < b->cut ? -1 : 1;
    return (a->nonce > b->nonce) - (a->nonce < b->nonce);
}

/* Writes the name of a segment. */
void fg_name_segment(char out[FG_NAME_MAX_BYTES], const struct fg_segment_id *id);

/* Write the name of a tenant's manifest, or of one of its blocks. FG_E_INVALID: tenant is not a
 * valid name. */
enum fg_code fg_name_blocks(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                            struct fg_err *err) fg_must_check;
enum fg_code fg_name_block(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant, struct fg_id block,
                           struct fg_err *err) fg_must_check;

/* Write the name of a tenant's object of settings (querier/tenant_settings.h), or of recording
 * rules (querier/rules/rule_store.h). fg_name_parse() does not know them: nothing but their owner
 * touches them. FG_E_INVALID: as above. */
enum fg_code fg_name_settings(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                              struct fg_err *err) fg_must_check;
enum fg_code fg_name_rules(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                           struct fg_err *err) fg_must_check;

/* Writes what the names of all objects of a tenant below tenants/ begin with. FG_E_INVALID: as
 * above. */
enum fg_code fg_name_tenant_all(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                                struct fg_err *err) fg_must_check;

/*
 * The name of a file that somebody uploaded to look at it, which says all that is known about it.
 * fg_name_parse() does not know such names either.
 */
enum {
    FG_ADHOC_ID_CHARS = 26, /* 128 bits, 5 in each */
    FG_ADHOC_FILE_MAX_BYTES = 100,
    FG_NAME_ADHOC_MAX_BYTES = sizeof "tenants/=2e/adhoc/---" + (size_t)FG_TENANT_MAX_BYTES +
                              FG_ADHOC_ID_CHARS + (size_t)16 + 8 + FG_ADHOC_FILE_MAX_BYTES
};

struct fg_adhoc_name {
    char tenant[FG_TENANT_MAX_BYTES + 1];
    char id[FG_ADHOC_ID_CHARS + 1]; /* Crockford's base 32 */
    int64_t uploaded_ms;            /* since 1970, not negative */
    uint32_t crc;                   /* crc32c of the content */
    char file[FG_ADHOC_FILE_MAX_BYTES + 1];
};

/* Returns whether the text can be an id: 26 characters that stand for 128 bits. */
bool fg_adhoc_id_is_valid(struct fg_slice text);

/* Writes an id of 128 bits. */
void fg_adhoc_id_write(struct fg_id bits, char out[FG_ADHOC_ID_CHARS + 1]);

/* Writes what becomes of the name of a file: other characters than letters, digits, '_', '.' and
 * '-' become '_', and of a long name the end stays, which tells the format. "profile" if it is
 * empty. */
void fg_adhoc_file_write(struct fg_slice name, char out[FG_ADHOC_FILE_MAX_BYTES + 1]);

/* Returns whether a file has expired. retention_ns: of the tenant; 0: files are kept forever. */
static inline bool fg_adhoc_has_expired(const struct fg_adhoc_name *name, int64_t retention_ns,
                                        int64_t now_ms)
{
    return retention_ns > 0 && now_ms >= fg_time_add(name->uploaded_ms, retention_ns / FG_MS_NS);
}

/* Writes the name of a file, or what the names of a tenant's files begin with. FG_E_INVALID: tenant
 * is not a valid name. */
enum fg_code fg_name_adhoc(char out[FG_NAME_ADHOC_MAX_BYTES], const struct fg_adhoc_name *name,
                           struct fg_err *err) fg_must_check;
enum fg_code fg_name_adhoc_all(char out[FG_NAME_ADHOC_MAX_BYTES], struct fg_slice tenant,
                               struct fg_err *err) fg_must_check;

/* Parses the name of a file. Returns false if fg_name_adhoc() does not make such a name. */
bool fg_name_parse_adhoc(struct fg_slice name, struct fg_adhoc_name *ret_name) fg_must_check;

/* The name of a document of usage. fg_name_parse() does not know such names either. */
struct fg_usage_name {
    char tenant[FG_TENANT_MAX_BYTES + 1];
    int32_t day;
    uint64_t version; /* <= FG_USAGE_VERSION_MAX */
};

/* Write the name of a document, or what the names of all of a tenant begin with; `dates` narrows
 * that: the beginning of a date, such as "2026-11". FG_E_INVALID: tenant is not a valid name. */
enum fg_code fg_name_usage(char out[FG_NAME_MAX_BYTES], const struct fg_usage_name *name,
                           struct fg_err *err) fg_must_check;
enum fg_code fg_name_usage_all(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                               const char *dates, struct fg_err *err) fg_must_check;

/* Parses the name of a document. Returns false if fg_name_usage() does not make such a name. */
bool fg_name_parse_usage(struct fg_slice name, struct fg_usage_name *ret_name) fg_must_check;

/* The name of an object with what queries took. */
struct fg_query_counts_name {
    int32_t day; /* for which it counts */
    uint64_t process, number;
};

#define FG_NAME_QUERY_COUNTS "usage/queries/" /* to list what is there */

/* Write the name of such an object, or what those of a day begin with. */
void fg_name_query_counts(char out[FG_NAME_MAX_BYTES], const struct fg_query_counts_name *name);
void fg_name_query_counts_all(char out[FG_NAME_MAX_BYTES], int32_t day);

/* Parses such a name. Returns false if fg_name_query_counts() does not make it. */
bool fg_name_parse_query_counts(struct fg_slice name,
                                struct fg_query_counts_name *ret_name) fg_must_check;

/* The name of what a process of a cluster says of itself. */
enum {
    FG_PRESENCE_ROLE_MAX_BYTES = 31,
    FG_PRESENCE_VERSION_MAX_BYTES = 63,
    FG_NAME_PRESENCE_MAX_BYTES = sizeof "members///__" + (size_t)FG_PRESENCE_ROLE_MAX_BYTES +
                                 FG_MEMBER_NAME_MAX_BYTES + (size_t)20 +
                                 (size_t)2 * FG_PRESENCE_VERSION_MAX_BYTES
};

struct fg_presence_name {
    char role[FG_PRESENCE_ROLE_MAX_BYTES + 1];        /* "distributor" */
    char name[FG_MEMBER_NAME_MAX_BYTES + 1];          /* unique in its role */
    int64_t started_ms;                               /* since 1970, not negative */
    char version[FG_PRESENCE_VERSION_MAX_BYTES + 1];  /* without '_' */
    char revision[FG_PRESENCE_VERSION_MAX_BYTES + 1]; /* "": unknown */
};

#define FG_NAME_MEMBERS "members/" /* to list what is there */

/* Write such a name, or what those of a role begin with, or of one of its processes: name NULL:
 * all. FG_E_INVALID: role, name, version or revision has characters other than letters, digits and
 * -._ or is too long. */
enum fg_code fg_name_presence(char out[FG_NAME_PRESENCE_MAX_BYTES],
                              const struct fg_presence_name *name,
                              struct fg_err *err) fg_must_check;
enum fg_code fg_name_presence_all(char out[FG_NAME_PRESENCE_MAX_BYTES], struct fg_slice role,
                                  const struct fg_slice *name, struct fg_err *err) fg_must_check;

/* Parses such a name. Returns false if fg_name_presence() does not make it. */
bool fg_name_parse_presence(struct fg_slice name, struct fg_presence_name *ret_name) fg_must_check;

enum fg_name_kind {
    FG_NAME_IS_L0,
    FG_NAME_IS_RING,
    FG_NAME_IS_COMPACTORS,
    FG_NAME_IS_SEGMENT,
    FG_NAME_IS_BLOCKS, /* a tenant's manifest */
    FG_NAME_IS_BLOCK,
};

struct fg_name {
    enum fg_name_kind kind;
    struct fg_segment_id segment;
    char tenant[FG_TENANT_MAX_BYTES + 1];
    struct fg_id block;
};

/* Parses an object's name. Returns false if the functions above do not make such a name. */
bool fg_name_parse(struct fg_slice name, struct fg_name *ret_name) fg_must_check;

#endif
