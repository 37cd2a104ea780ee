/*
 * The ids of stacks that other servers have forwarded here. They name a stack by a part of its id
 * from then on (common/model/batch.h, fg_batch_encode_short()), and a batch that names one that is
 * not here comes once more with whole ids. So an entry may be lost at any time, and a wrong one is
 * found by the sum that a batch has.
 *
 * Memory: 16 bytes an id, of which nothing is touched before there is one.
 * Thread: any; locked inside.
 */
#ifndef FG_DISTRIBUTOR_STACK_NAMES_H
#define FG_DISTRIBUTOR_STACK_NAMES_H

#include "common/model/batch.h"

struct dist_stack_names;

/* Creates it for about so many ids. Never fails. */
struct dist_stack_names *dist_stack_names_create(uint64_t ids_max);
void dist_stack_names_destroy(struct dist_stack_names *names); /* NULL is fine */

/* Returns a number of the tenant: what others forward is not found under it. */
uint64_t dist_stack_names_key(struct fg_slice tenant);

/* Remembers the ids of all stacks of a batch. */
void dist_stack_names_add(struct dist_stack_names *names, uint64_t key,
                          const struct fg_wire_stack *stacks, uint32_t n);

/* Sets ids[i] to the id whose lowest bytes are shorts[i]. Returns false if one is not there. */
bool dist_stack_names_find(struct dist_stack_names *names, uint64_t key, const uint64_t *shorts,
                           uint32_t n, struct fg_id *ids);

#endif
