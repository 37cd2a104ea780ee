/*
 * Children of derived blocks. A derived block has rollups made from those of its children, so its
 * children's profiles are in its sums, each once. While its rollups can answer, the children stay
 * closed: neither their directories nor their rollups are read. A derived block within another one
 * (a week within 28 days) is closed, too. If the larger one cannot answer, it is opened first, and
 * the blocks only if it cannot answer either.
 *
 * The parent has to have all services of the query: a service that only one child has is in no
 * parent. So a part of a service in the parent covers that service; the parent covers every service
 * if it has as many profiles as its children together, by the manifest. If something in the parent
 * cannot be used (a deletion), it covers nothing.
 *
 * Thread: the query's.
 */
#ifndef FG_QUERIER_BLOCKS_CHILDREN_H
#define FG_QUERIER_BLOCKS_CHILDREN_H

#include "querier/blocks/reader.h"

/* Opens the closed children that no parent covers: derived ones, or the others if there are none.
 * Returns true if there were any; read them with qry_reader_extend(). Needs part->rollups
 * (qry_rollups_find()). */
bool qry_children_open_uncovered(struct qry_reader *reader);

/* Opens the children of a tenant that a plan lacks, or closed derived blocks that were made of
 * them. FG_E_CORRUPT: they are not in the manifest. */
enum fg_code qry_children_open(struct qry_reader *reader, uint32_t tenant,
                               const struct fg_plan *plan, struct fg_err *err) fg_must_check;

/* Returns true if any child is closed. */
bool qry_children_any_closed(const struct qry_reader *reader);

/* Estimates how many bytes the closed children store of the query's services. */
uint64_t qry_children_bytes(struct qry_reader *reader);

#endif
