#include "querier/blocks/roster.h"

#include "common/base/map.h"

/* Returns what tells series of one class from others: the posting of __name__, by its number. */
static uint32_t name_of(const struct fg_block_series_row *row)
{
    size_t at;

    return fg_labels_find(&row->labels, FG_LIT(FG_LABEL_NAME), &at) ? row->postings[at]
                                                                    : UINT32_MAX;
}

static uint32_t class_of(struct qry_roster *roster, struct fg_map *map,
                         const struct fg_block_series_row *row)
{
    /* An address may be hashed, since the map ends with qry_roster_make(). */
    uint64_t hash =
        fg_mix64((uint64_t)(uintptr_t)row->schema ^ fg_mix64(row->seen)) ^ fg_mix64(name_of(row));
    struct fg_map_walk walk;

    /* Schemas by address: at worst two equal ones make two classes with the same answers. */
    for (uint32_t i = fg_map_first(map, hash, &walk); i != FG_MAP_NONE; i = fg_map_next(map, &walk))
        if (roster->classes[i].seen == row->seen && roster->classes[i].row->schema == row->schema &&
            name_of(roster->classes[i].row) == name_of(row))
            return i;
    /* Doubling from 8: classes are few (roster.h). */
    if (roster->n_classes == roster->cap_classes) {
        roster->cap_classes = FG_MAX(8, roster->cap_classes * 2);
        roster->classes =
            fg_realloc(roster->classes, roster->cap_classes * sizeof *roster->classes);
    }
    fg_map_add(map, hash, roster->n_classes);
    roster->classes[roster->n_classes] = (struct qry_roster_class){row, row->seen};
    return roster->n_classes++;
}

struct qry_roster *qry_roster_make(const struct fg_block_index *index)
{
    struct qry_roster *roster = fg_new(struct qry_roster);
    struct fg_map map;

    fg_map_init(&map);
    roster->prints = fg_malloc(FG_MAX(index->n_series, 1) * sizeof *roster->prints);
    roster->class_of = fg_malloc(FG_MAX(index->n_series, 1) * sizeof *roster->class_of);
    for (uint32_t i = 0; i < index->n_series; i++) {
        /* Hashed once: the roster lives as long as its index (cached_objects.h). */
        roster->prints[i] = fg_labels_hash(&index->series[i].labels);
        roster->class_of[i] = class_of(roster, &map, &index->series[i]);
    }
    fg_map_done(&map);
    return roster;
}

void qry_roster_destroy(struct qry_roster *roster)
{
    if (roster == NULL)
        return;
    free(roster->prints);
    free(roster->class_of);
    free(roster->classes);
    free(roster);
}

size_t qry_roster_bytes(const struct fg_block_index *index)
{
    return sizeof(struct qry_roster) + index->n_series * (sizeof(struct fg_id) + sizeof(uint32_t));
}
