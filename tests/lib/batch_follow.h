/* For fuzzers: the way of a batch after decoding. */
#ifndef FG_TESTS_LIB_BATCH_FOLLOW_H
#define FG_TESTS_LIB_BATCH_FOLLOW_H

#include "common/model/batch.h"

/* Gives ids, and takes the batch over the wire with all its stacks: asserts that it arrives. */
void batch_follow(struct fg_batch *batch, struct fg_arena *arena);

#endif
