/*
 * Sources of a merge: the parts that one tenant has in some objects, with their bytes mapped. A
 * source is an object; a part is what it has of one service.
 *
 * Thread: one at a time.
 */
#ifndef FG_COMPACTOR_MERGE_SOURCE_H
#define FG_COMPACTOR_MERGE_SOURCE_H

#include "common/storage/block/reader.h"

struct cmp_merge_source {
    const char *name;                  /* of the object; for messages */
    const struct fg_block_part *parts; /* the tenant's, ascending by service */
    uint32_t n_parts;
    struct fg_slice bytes; /* of the object, from `offset` on: all that parts say but groups */
    uint64_t offset;
};

struct cmp_merge_part {
    const struct cmp_merge_source *source;
    const struct fg_block_part *part;
    struct fg_block_index index;
};

/* Opens a part: parses its series and page table. Errors have the object's name. */
enum fg_code cmp_merge_part_open(const struct cmp_merge_source *source, uint32_t number,
                                 struct fg_arena *arena, struct cmp_merge_part *ret_part,
                                 struct fg_err *err) fg_must_check;

/* Returns the bytes of a range of the object. */
struct fg_slice cmp_merge_part_range(const struct cmp_merge_part *part,
                                     struct fg_block_range range);

/* Returns the bytes of a page by kind and number. */
struct fg_slice cmp_merge_part_page(const struct cmp_merge_part *part, uint32_t kind,
                                    uint32_t page);

/* Returns the number of the page that holds the profile; there is one. */
uint32_t cmp_merge_part_page_of(const struct cmp_merge_part *part, uint32_t kind, uint32_t profile);

/* Puts the part in front of an error's text: "object segments/…, part shop: …". Returns its code.
 */
enum fg_code cmp_merge_part_wrap(const struct cmp_merge_part *part, struct fg_err *err);

/* A page of rows, with ids and sizes if they were asked for. */
struct cmp_merge_rows {
    struct fg_block_rows rows;
    const struct fg_id *ids;             /* [rows.count]; NULL: not asked for */
    const struct fg_profile_size *sizes; /* likewise; also NULL: all are unknown */
};

/*
 * Calls each() for every page of rows that has a time in [start, end], in order, until it fails.
 * Resets the arena for each page.
 */
struct cmp_merge_scan {
    int64_t start_ns, end_ns; /* inclusive */
    bool ids, sizes;          /* wanted as well */
    enum fg_code (*each)(void *arg, const struct cmp_merge_rows *rows, struct fg_err *err);
    void *arg;
};
enum fg_code cmp_merge_part_scan(const struct cmp_merge_part *part,
                                 const struct cmp_merge_scan *scan, struct fg_arena *arena,
                                 struct fg_err *err) fg_must_check;

#endif
