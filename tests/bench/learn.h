/* Files of pprof, packed or not, into what profiles are resampled from (resample.h). Whatever
 * cannot be read ends the program. */
#ifndef FG_TESTS_BENCH_LEARN_H
#define FG_TESTS_BENCH_LEARN_H

#include "tests/bench/resample.h"

/* The profile of a file; body holds the bytes it refers to. */
void learn_decode(const char *path, struct fg_arena *arena, struct fg_buf *body,
                  struct fg_batch *ret_batch);

/* All of them into the list of real stacks. */
void learn_files(struct resample *resample, char *const *paths, int count);

#endif
