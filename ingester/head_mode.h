/*
 * What becomes of the profiles in a head: those of a server go into segments, and those of an agent
 * only to targets of forwarding. A folder may be used by one and then by the other, so the store
 * says which it was, and nothing is lost in between:
 *
 *   a server's head, now an agent's    refused while it has profiles that no segment has: the agent
 *                                      would delete them once they are sent
 *   an agent's head, now a server's    all that it still has becomes unchecked: it is compared with
 *                                      the bucket, and goes into a segment if that lacks it
 *
 *   META "agent" -> empty: the head is an agent's
 *
 * Thread: that of the start.
 */
#ifndef FG_INGESTER_HEAD_MODE_H
#define FG_INGESTER_HEAD_MODE_H

#include "ingester/head_chunks.h"

/* Makes the head that of an agent or of a server. FG_E_PRECONDITION: it has profiles of a server
 * that are in no segment; the sentence says what to do. Errors of the store. */
enum fg_code ing_head_mode_set(struct fg_store *store, struct ing_head_chunks *chunks, bool agent,
                               struct fg_err *err) fg_must_check;

#endif
