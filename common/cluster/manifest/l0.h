/*
 * The L0 manifest: one object for all ingesters. It lists the live segments and the generation at
 * which each entered; every commit makes the next generation, so a generation names its segment.
 *
 * A value lives in the arena it was made in, and names in it too. Values are never changed: what
 * changes the manifest (below) makes a new value that borrows from the old one, to be written with
 * a condition on the old one's etag.
 *
 * What always holds of a value that was read or made here (fg_l0_check):
 *   - segments are sorted by generation, none twice, floor and all of them <= generation
 *   - no segment that ever was in the list had a generation > floor and is gone from it
 *   - a writer's cuts enter in order; writers[] says the last, with its generation
 *   - no writer is clean of more than was asked
 *   - the group of every profile in a segment, live or gone, is in late_filter
 *   - tenants are sorted by name, writers by id
 *   - a tenant's manifest covers `retired` of the tenant
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
    FG_L0_SEGMENTS_MAX = 16384,
    FG_L0_PARTS_MAX = 1 << 20, /* tenants of all segments, summed */
    FG_L0_TENANTS_MAX = 65536,
    FG_L0_WRITERS_MAX = 4096,
    FG_L0_GONE_MAX = 65536,
    FG_MANIFEST_MAX_BYTES = 32 * 1024 * 1024,    /* of an object, either kind of manifest */
    FG_MANIFEST_ARENA_BYTES = 128 * 1024 * 1024, /* enough for any that is not larger */
};

/* What a segment holds of a tenant. Times are those of the profiles, inclusive. */
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
    struct fg_slice later; /* fields of a newer version: kept, not understood */
};

struct fg_l0_writer {
    struct fg_id id;
    uint64_t cut; /* all cuts up to this one are committed, or there was nothing left of them */
    uint64_t generation; /* of this one */
    /* No round of this store holds anything that it received before it saw an L0 manifest with
     * `asked` >= this; 0: nothing is said. (end-when-clean) */
    uint64_t clean;
    struct fg_slice later;
};

/* A segment that nobody lists any more; its object is deleted after a grace period. */
struct fg_l0_gone {
    struct fg_segment_id id;
    int64_t since_wall_ns;
    struct fg_slice later;
};

struct fg_l0_tenant {
    struct fg_slice name;
    /* The greatest generation of a segment with data of the tenant that has left the list: from
     * then on this data is in the tenant's blocks alone. So a manifest of the tenant that does not
     * cover this generation, or is not there, is lost or from a backup (fg_blocks_check()). 0:
     * none. */
    uint64_t retired;
};

struct fg_l0 {
    uint64_t revision; /* counts swaps: no two manifests have the same bytes, so neither an etag */
    uint64_t generation; /* of the segment that entered last; 0: none yet */
    uint64_t floor;      /* the greatest generation that left */
    uint64_t asked;      /* only grows: who waits for writers to be clean raises it; 0: never */
    struct fg_l0_tenant *tenants; /* [n_tenants], by name: all there ever were */
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

/* What there is before the first swap, when there is no object. */
struct fg_l0 fg_l0_none(void);

/*
 * Reads; checks everything that is said above. Nothing of it points into `in` afterwards.
 * FG_E_CORRUPT; FG_E_UNIMPLEMENTED: of a version that cannot be read by this program; FG_E_LIMIT.
 */
enum fg_code fg_l0_decode(struct fg_slice in, struct fg_arena *arena, struct fg_l0 *ret_l0,
                          struct fg_err *err) fg_must_check;

/* The same value gives the same bytes. FG_E_LIMIT: out is full. */
enum fg_code fg_l0_encode(const struct fg_l0 *l0, struct fg_buf *out,
                          struct fg_err *err) fg_must_check;

/* For people, one line for each segment, tenant, writer. */
void fg_l0_json(const struct fg_l0 *l0, struct fg_buf *out);

/* By name, id, generation; NULL or FG_L0_NO_TENANT when it is not there. */
enum { FG_L0_NO_TENANT = UINT32_MAX };
uint32_t fg_l0_tenant(const struct fg_l0 *l0, struct fg_slice tenant);
const struct fg_l0_writer *fg_l0_writer(const struct fg_l0 *l0, struct fg_id id);
const struct fg_l0_segment *fg_l0_segment(const struct fg_l0 *l0, uint64_t generation);
/* Of a tenant by number; NULL: it has nothing in the segment. */
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
 * The segment enters, at the next generation; it is not gone then, if it was. window_now: that of
 * the writer's clock. What the writer is clean of never gets less. FG_E_EXISTS: this cut, or a
 * later one of the writer, is committed already. FG_E_LIMIT: the manifest would be too large; older
 * segments have to be compacted first.
 */
enum fg_code fg_l0_commit(const struct fg_l0 *l0, const struct fg_l0_new *segment, int64_t wall_ns,
                          uint32_t window_now, struct fg_arena *arena, struct fg_l0 *ret_l0,
                          struct fg_err *err) fg_must_check;

/* Somebody waits until all writers are clean of that number; which one it is, and for what, is
 * theirs to remember. *ret_changed false: so much was asked already. */
void fg_l0_ask(const struct fg_l0 *l0, uint64_t asked, struct fg_l0 *ret_l0, bool *ret_changed);

/* The writer is clean of so much, without a commit. One that has no entry gets one, of cut 0: so
 * nothing is said of its cuts. *ret_changed false: that much was said already. FG_E_LIMIT. */
enum fg_code fg_l0_clean(const struct fg_l0 *l0, struct fg_id writer, uint64_t clean,
                         struct fg_arena *arena, struct fg_l0 *ret_l0, bool *ret_changed,
                         struct fg_err *err) fg_must_check;

/*
 * These segments leave, by generation: every tenant in them has to cover them. Nothing happens with
 * what left already; *ret_changed: something did. Writers of whom nothing is live and who have been
 * silent longest go when there are too many: they settle by ids when they come back.
 */
enum fg_code fg_l0_retire(const struct fg_l0 *l0, const uint64_t *generations, uint32_t count,
                          int64_t wall_ns, struct fg_arena *arena, struct fg_l0 *ret_l0,
                          bool *ret_changed, struct fg_err *err) fg_must_check;

/* The objects of these were deleted: they leave gone[]. */
enum fg_code fg_l0_deleted(const struct fg_l0 *l0, const struct fg_segment_id *ids, uint32_t count,
                           struct fg_arena *arena, struct fg_l0 *ret_l0, bool *ret_changed,
                           struct fg_err *err) fg_must_check;

#endif
