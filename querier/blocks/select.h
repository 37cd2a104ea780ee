/*
 * SELECT: values are summed in a dense array for each part, by rank, while pages come in. Nothing
 * is hashed on the way. What becomes of the sums is somebody else's: a tree, or a crown. Pages, and
 * then parts, are tasks of the question's task group.
 */
#ifndef FG_QUERIER_BLOCKS_SELECT_H
#define FG_QUERIER_BLOCKS_SELECT_H

#include "querier/blocks/impl.h"

struct qry_thing;

struct qry_select_taker {
    /* Takes the crowns that reader->parts[0, n_found) name; NULL: only full nodes will do. full:
     * they will but of what is alone. */
    enum fg_code (*take_crowns)(void *arg, struct qry_reader *reader, struct fg_err *err);
    bool full;
    const struct qry_thing *stacks; /* what ranks mean: qry_thing_tree or qry_thing_names */
    /* Any thread, of several parts at a time: makes what take() wants of a part that has values.
     * They are in part->sums, the stacks in part->tree_entry. */
    enum fg_code (*make)(void *arg, const struct qry_part *part, struct fg_arena *arena,
                         void **ret_made, struct fg_err *err);
    /* The question's thread: takes what was made, part after part in their order. */
    enum fg_code (*take)(void *arg, void *made, struct fg_err *err);
    void (*drop)(void *made); /* frees what is not in the arena; NULL: there is no such thing */
    void *arg;
};

/* All that was selected, a part after another. The question has a snapshot. Adds to *sample_bytes
 * what is stored of samples in the range. */
enum fg_code qry_select_sums(struct qry_question *question, const struct qry_selection *selection,
                             const struct qry_stacks *stacks, const struct qry_select_taker *taker,
                             uint64_t *sample_bytes, struct fg_err *err) fg_must_check;

#endif
