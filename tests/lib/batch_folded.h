/*
 * A batch as folded stacks, to compare it with what other tools say of the same profile: function
 * name, else system name, else the location's address; inlined lines are frames of their own.
 */
#ifndef FG_TESTS_LIB_BATCH_FOLDED_H
#define FG_TESTS_LIB_BATCH_FOLDED_H

#include "common/model/batch.h"

/* "a;b;c 3" lines in byte order, of one type, sums over all the profiles; no zero sums. */
void batch_folded(const struct fg_batch *batch, uint32_t type, struct fg_buf *out);

/* The same of one profile. */
void profile_folded(const struct fg_batch *batch, const struct fg_profile *profile, uint32_t type,
                    struct fg_buf *out);

/*
 * All there is to a batch: of each profile its labels, its times and the period's type, for each
 * sample type its name and stacks, then span, trace and first value of each sample that has them.
 *
 *   {__name__="process_cpu", service_name="shop"} at 5 for 10 period cpu/nanoseconds 100
 *   cpu/nanoseconds
 *   main;work 30
 *   span 1 trace 2 30
 */
void batch_describe(const struct fg_batch *batch, struct fg_buf *out);

/* Sum of one type over all the profiles, modulo 2^64. */
int64_t batch_total(const struct fg_batch *batch, uint32_t type);

#endif
