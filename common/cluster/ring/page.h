/* The ring for people: as a page, and as text for a terminal. Its JSON is fg_ring_json(). */
#ifndef FG_COMMON_CLUSTER_RING_PAGE_H
#define FG_COMMON_CLUSTER_RING_PAGE_H

#include "common/cluster/ring/view.h"

/*
 * Writes a self-contained HTML page: members with the number of shards they own, then revisions
 * with the members that they wait for.
 */
void fg_ring_write_html(const struct fg_ring_view *view, struct fg_buf *out);

/* Writes the same as columns of text. The ring's texts have no control characters
 * (fg_member_name_fault() and others), so the output is safe for a terminal. */
void fg_ring_write_text(const struct fg_ring_view *view, struct fg_buf *out);

#endif
