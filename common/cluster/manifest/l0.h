/*
 * The L0 manifest: one object for all ingesters. It lists the live segments and the generation at
 * which each entered. Every commit makes the next generation, so a generation names its segment.
 *
 * A value and its names live in the arena that it was made in. Values never change: a change makes
 * a new value, which borrows from the old one and is written with a condition on the old one's
 * etag.
 *
 * Invariants of a value that was decoded or made here:
 *   - segments are sorted by generation, none twice; floor and all generations are <= generation
 *   - a segment that has left the list had a generation <= floor
 *   - a writer's cuts enter in order; writers[] has the last one, with its generation
 *   - no writer is clean of a greater number than was asked
 *   - late_filter has the group of every profile in a segment, live or gone
 *   - tenants are sorted by name, writers by id
 *   - a tenant's manifest covers the tenant's `retired`
 *
 * Thread: any; no state.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_L0_H
#define FG_COMMON_CLUSTER_MANIFEST_L0_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/cluster/manifest/late_filter.h"
#include "common/cluster/manifest/name.h"
#include "common/model/usage.h"

enum {
    FG_L0_SEGMENTS_MAX = 16384, /* a day of 100 ingesters, if no compactor runs */
    FG_L0_PARTS_MAX = 1 << 20,  /* tenants of all segments, summed */
    FG_L0_TENANTS_MAX = 65536,  /* as the registry of access and the limits can tell apart */
    FG_L0_WRITERS_MAX = 4096,   /* four times the members of a ring */
    FG_L0_GONE_MAX = 65536,     /* four times the live segments */
    FG_MANIFEST_MAX_BYTES = 32 * 1024 * 1024,    /* of an object, either kind of manifest */
    FG_MANIFEST_ARENA_BYTES = 128 * 1024 * 1024, /* enough for a manifest of that size */
};

/* What a segment holds of a tenant. Times are of the profiles, inclusive. */
struct fg_l0_part {
    uint32_t tenant; /* number in tenants[] */
    int64_t t_min_ns, t_max_ns;
    uint64_t profiles;
    struct fg_usage usage; /* of at most `profiles` */
};

struct fg_l0_segment {
    uint64_t generation;
    struct fg_segment_id id;
    int64_t entered_wall_ns; /* by the writer's clock */
    uint64_t bytes;
    uint64_t directory_offset, directory_bytes;
    uint64_t profiles;
    struct fg_id digest; /* sum of the profiles' ids */
    int64_t t_min_ns, t_max_ns;
    struct fg_l0_part *parts; /* [n_parts], by tenant */
    uint32_t n_parts;
    struct fg_slice later; /* fields of newer versions, kept as they are */
};

struct fg_l0_writer {
    struct fg_id id;
    uint64_t cut;        /* all cuts up to this one are committed, or had nothing left to commit */
    uint64_t generation; /* at which it entered */
    /* The head of this store has nothing left that it received before it saw an L0 manifest with
     * `asked` >= this; 0: it has said nothing. (end-when-clean) */
    uint64_t clean;
    struct fg_slice later;
};

/* A segment that has left the list; its object is deleted after a grace period. */
struct fg_l0_gone {
    struct fg_segment_id id;
    int64_t since_wall_ns;
    struct fg_slice later;
};

struct fg_l0_tenant {
    struct fg_slice name;
    /* The greatest generation of a segment with data of the tenant that has left the list. This
     * data is in the tenant's blocks alone. So a tenant's manifest that is missing or does not
     * cover this generation is lost or from a backup (fg_blocks_check()). 0: none. */
    uint64_t retired;
};

struct fg_l0 {
    uint64_t revision;   /* counts swaps, so that no two manifests have the same bytes and etag */
    uint64_t generation; /* of the segment that entered last; 0: none yet */
    uint64_t floor;      /* the greatest generation that left */
    uint64_t asked;      /* raised to ask writers to become clean; never falls */
    struct fg_l0_tenant *tenants; /* [n_tenants], by name; tenants never leave */
    uint32_t n_tenants;
    struct fg_l0_segment *segments;
    uint32_t n_segments;
    struct fg_l0_writer *writers;
    uint32_t n_writers;
    struct fg_l0_gone *gone;
    uint32_t n_gone;
    struct fg_late_filter late_filter;
    struct fg_slice later;
};

/* Returns the empty manifest. */
struct fg_l0 fg_l0_none(void);

/*
 * Decodes a manifest into the arena and checks what always holds of it. *ret_l0 does not point into
 * `in`. FG_E_CORRUPT; FG_E_UNIMPLEMENTED: it is of a newer version; FG_E_LIMIT: the arena is full.
 */
enum fg_code fg_l0_decode(struct fg_slice in, struct fg_arena *arena, struct fg_l0 *ret_l0,
                          struct fg_err *err) fg_must_check;

/* Encodes a manifest; the same value gives the same bytes. FG_E_LIMIT: out is full. */
enum fg_code fg_l0_encode(const struct fg_l0 *l0, struct fg_buf *out,
                          struct fg_err *err) fg_must_check;

/* Writes a manifest as JSON, one line for each segment, tenant and writer. */
void fg_l0_json(const struct fg_l0 *l0, struct fg_buf *out);

/* Find a tenant by name, a writer by id, a segment by generation. FG_L0_NO_TENANT, or NULL: it is
 * not there. */
enum { FG_L0_NO_TENANT = UINT32_MAX };
uint32_t fg_l0_tenant(const struct fg_l0 *l0, struct fg_slice tenant);
const struct fg_l0_writer *fg_l0_writer(const struct fg_l0 *l0, struct fg_id id);
const struct fg_l0_segment *fg_l0_segment(const struct fg_l0 *l0, uint64_t generation);
/* Finds a tenant's part of a segment. NULL: the segment has nothing of the tenant. */
const struct fg_l0_part *fg_l0_part(const struct fg_l0_segment *segment, uint32_t tenant);

/* Returns true if the manifest lists the segment, as live or as gone. */
bool fg_l0_knows(const struct fg_l0 *l0, const struct fg_segment_id *id);

/* ---- changes ---- */

struct fg_l0_new_part {
    struct fg_slice tenant;
    int64_t t_min_ns, t_max_ns;
    uint64_t profiles;
    struct fg_usage usage;
};

/* A segment that was uploaded. */
struct fg_l0_new {
    struct fg_segment_id id;
    uint64_t bytes;
    uint64_t directory_offset, directory_bytes;
    uint64_t profiles;
    struct fg_id digest;
    int64_t t_min_ns, t_max_ns;
    const struct fg_l0_new_part *parts; /* in any order; each tenant once */
    uint32_t n_parts;
    struct fg_late_filter groups; /* of its profiles */
    uint64_t clean;               /* of the writer: struct fg_l0_writer */
};

/*
 * Commits a segment at the next generation, and removes it from gone[] if it is there. window_now:
 * the current window by the writer's clock. The writer's `clean` never falls. FG_E_EXISTS: this cut
 * or a later one of the writer is committed already. FG_E_LIMIT: the manifest would be too large;
 * older segments have to be compacted first.
 */
enum fg_code fg_l0_commit(const struct fg_l0 *l0, const struct fg_l0_new *segment, int64_t wall_ns,
                          uint32_t window_now, struct fg_arena *arena, struct fg_l0 *ret_l0,
                          struct fg_err *err) fg_must_check;

/* Asks all writers to become clean of a number; the caller remembers the number. *ret_changed
 * false: that number or a greater one was asked already. */
void fg_l0_ask(const struct fg_l0 *l0, uint64_t asked, struct fg_l0 *ret_l0, bool *ret_changed);

/* Records what a writer is clean of, without a commit. A writer without an entry gets one with cut
 * 0, which says nothing about its cuts. *ret_changed false: it was recorded already. FG_E_LIMIT. */
enum fg_code fg_l0_clean(const struct fg_l0 *l0, struct fg_id writer, uint64_t clean,
                         struct fg_arena *arena, struct fg_l0 *ret_l0, bool *ret_changed,
                         struct fg_err *err) fg_must_check;

/*
 * Removes segments, by generation; every tenant in them must cover them. Ignores those that have
 * left already; *ret_changed false: all of them. If there are too many writers, removes those
 * without live segments that have been silent longest: they compare by ids when they come back.
 * FG_E_LIMIT.
 */
enum fg_code fg_l0_retire(const struct fg_l0 *l0, const uint64_t *generations, uint32_t count,
                          int64_t wall_ns, struct fg_arena *arena, struct fg_l0 *ret_l0,
                          bool *ret_changed, struct fg_err *err) fg_must_check;

/* Removes segments whose objects were deleted from gone[]. FG_E_LIMIT: the arena is full. */
enum fg_code fg_l0_deleted(const struct fg_l0 *l0, const struct fg_segment_id *ids, uint32_t count,
                           struct fg_arena *arena, struct fg_l0 *ret_l0, bool *ret_changed,
                           struct fg_err *err) fg_must_check;

#endif
