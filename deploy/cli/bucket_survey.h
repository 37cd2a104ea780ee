/*
 * Reads the state of a bucket for the tools that repair it: a list of all segments and blocks, the
 * ring, the L0 manifest, and the manifest of every tenant that the L0 manifest or an object names.
 * A missing or undecodable manifest is a state here, not an error.
 *
 * The order of reads is the list, the ring, the L0 manifest, the tenants' manifests. So a listed
 * object that no manifest knows was not committed when the list was read, and a segment that left
 * the L0 manifest in between is covered by the tenant's manifest.
 *
 * Thread: one that may block.
 */
#ifndef FG_DEPLOY_CLI_BUCKET_SURVEY_H
#define FG_DEPLOY_CLI_BUCKET_SURVEY_H

#include "common/cluster/manifest/manifest.h"
#include "common/storage/bucket/bucket.h"

/* The object of a manifest or of the ring. */
struct cli_survey_object {
    enum fg_code code;           /* FG_OK, FG_E_NOT_FOUND, or why it cannot be decoded */
    struct fg_err err;           /* unless FG_OK */
    struct fg_buf bytes;         /* of the object */
    struct fg_bucket_etag etag;  /* "": there is no object */
    struct fg_manifest *content; /* decoded; of manifests only, if code is FG_OK */
};

/* A segment or block in the list. */
struct cli_survey_entry {
    struct fg_name name;
    uint64_t bytes;
    int64_t modified_wall_ns;
};

struct cli_survey_tenant {
    char name[FG_TENANT_MAX_BYTES + 1];
    struct cli_survey_object manifest;
    const struct cli_survey_entry *blocks; /* [n_blocks], by id */
    size_t n_blocks;
};

struct cli_survey {
    struct fg_bucket *bucket;
    struct cli_survey_entry *segments; /* by writer and cut */
    size_t n_segments;
    struct cli_survey_entry *blocks; /* of all tenants */
    size_t n_blocks;
    struct cli_survey_object l0, ring_object;
    struct fg_arena *ring_arena;
    struct fg_ring ring;               /* empty unless ring_object.code is FG_OK */
    bool ring_was_kept;                /* there is a copy of a ring: the bucket is of a cluster */
    struct cli_survey_tenant *tenants; /* by name */
    size_t n_tenants;
};

/* Reads everything; free it with cli_survey_done(). Any error: the bucket could not be read. */
enum fg_code cli_survey_read(struct fg_bucket *bucket, struct cli_survey *ret_survey,
                             struct fg_err *err) fg_must_check;
void cli_survey_done(struct cli_survey *survey); /* zeroed is fine */

/* Read the L0 manifest, or the manifest of a tenant, into *object, whose old content is freed. */
enum fg_code cli_survey_read_l0(struct fg_bucket *bucket, struct cli_survey_object *object,
                                struct fg_err *err) fg_must_check;
enum fg_code cli_survey_read_blocks(struct fg_bucket *bucket, struct fg_slice tenant,
                                    struct cli_survey_object *object,
                                    struct fg_err *err) fg_must_check;
void cli_survey_object_done(struct cli_survey_object *object);

/* Returns the tenant of that name, or NULL. */
struct cli_survey_tenant *cli_survey_tenant(const struct cli_survey *survey, struct fg_slice name);

/* Reads a whole object into body, which it initialises also if it fails. FG_E_NOT_FOUND: there is
 * no such object. */
enum fg_code cli_survey_get(struct fg_bucket *bucket, const char *name, struct fg_buf *body,
                            struct fg_err *err) fg_must_check;

/* Returns the deadline for one request that is sent now. */
int64_t cli_survey_deadline(void);

#endif
