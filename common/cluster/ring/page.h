/* The ring for people: as a page, and as text for a terminal. Its JSON is fg_ring_json(). */
#ifndef FG_COMMON_CLUSTER_RING_PAGE_H
#define FG_COMMON_CLUSTER_RING_PAGE_H

#include "common/cluster/ring/view.h"

/*
 * Members with how many shards they own, then revisions with those they wait for. HTML with a style
 * sheet of its own and nothing from elsewhere.
 */
void fg_ring_write_html(const struct fg_ring_view *view, struct fg_buf *out);

/* The same in columns. What is in a ring cannot harm a terminal (fg_member_name_fault() and
 * others).
 */
void fg_ring_write_text(const struct fg_ring_view *view, struct fg_buf *out);

#endif
