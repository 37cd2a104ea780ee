/*
 * Names of objects in the bucket; made and read back here and nowhere else.
 *
 *   manifests/l0                              the L0 manifest (l0.h)
 *   manifests/ring                            the ring (common/cluster/ring/ring.h)
 *   manifests/compactors                      which compactors there are
 *                                             (common/cluster/membership/membership_core.h)
 *   segments/<writer>/<cut>-<nonce>           what an ingester committed; hexadecimal
 *   tenants/<tenant>/manifest                 a tenant's manifest (blocks.h)
 *   tenants/<tenant>/blocks/<id>              what the compactor made; hexadecimal
 *
 * A tenant's name is checked (common/model/tenant_id.h) before it becomes part of a path: what it
 * may have is what S3 and file systems take as it is. Only a dot at its beginning is written "=2e",
 * so that nothing is hidden; '=' is not allowed in tenants' names.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_NAME_H
#define FG_COMMON_CLUSTER_MANIFEST_NAME_H

#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/cluster/ring/ring.h"
#include "common/model/tenant_id.h"

enum {
    FG_NAME_MAX_BYTES =
        sizeof "tenants/=2e/blocks/" + (size_t)FG_TENANT_MAX_BYTES + (size_t)2 * FG_ID_BYTES
};

#define FG_NAME_L0         "manifests/l0"
#define FG_NAME_COMPACTORS "manifests/compactors"
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
 * rules (querier/rules/store.h). fg_name_parse() does not know them: nothing but their owner
 * touches them. FG_E_INVALID: as above. */
enum fg_code fg_name_settings(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                              struct fg_err *err) fg_must_check;
enum fg_code fg_name_rules(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant,
                           struct fg_err *err) fg_must_check;

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
