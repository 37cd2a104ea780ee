/*
 * Sets and lists of profile ids, and the ids that an object holds.
 *
 * Thread: one that may block.
 */
#ifndef FG_DEPLOY_CLI_BUCKET_IDS_H
#define FG_DEPLOY_CLI_BUCKET_IDS_H

#include "common/storage/block/reader.h"
#include "common/storage/bucket/bucket.h"

/* A set. Zeroed: empty. Takes at most 32 bytes per id. */
struct cli_id_set {
    struct fg_id *slots; /* zero: free */
    size_t cap, n;
    bool has_zero;
};

/* Adds an id. Returns true if the set did not have it. */
bool cli_id_set_add(struct cli_id_set *set, struct fg_id id);
bool cli_id_set_has(const struct cli_id_set *set, struct fg_id id);
void cli_id_set_done(struct cli_id_set *set);

struct cli_id_list {
    struct fg_id *ids;
    size_t n, cap;
};

void cli_id_list_add(struct cli_id_list *list, struct fg_id id);
/* Sorts it in the order of struct merge_without. */
void cli_id_list_sort(struct cli_id_list *list);
void cli_id_list_done(struct cli_id_list *list);

/* An object that is read in ranges. */
struct cli_ids_object {
    struct fg_bucket *bucket;
    const char *name;
    uint64_t bytes, directory_offset;
};

/* Reads the directory into the arena. FG_E_NOT_FOUND, FG_E_CORRUPT; else the bucket could not be
 * read. */
enum fg_code cli_ids_directory(const struct cli_ids_object *object, struct fg_arena *arena,
                               struct fg_block_directory *ret_directory,
                               struct fg_err *err) fg_must_check;

/* Appends the ids of the part's profiles, unordered. Errors as above. */
enum fg_code cli_ids_part(const struct cli_ids_object *object, const struct fg_block_part *part,
                          struct cli_id_list *list, struct fg_err *err) fg_must_check;

/* Reads the groups of the part into the arena. Errors as above. */
enum fg_code cli_ids_groups(const struct cli_ids_object *object, const struct fg_block_part *part,
                            struct fg_arena *arena, struct fg_block_group **ret_groups,
                            struct fg_err *err) fg_must_check;

#endif
