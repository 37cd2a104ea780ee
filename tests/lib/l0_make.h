/* The L0 manifest of a bucket that an ingester has begun to use and committed nothing to. */
#ifndef FG_TESTS_LIB_L0_MAKE_H
#define FG_TESTS_LIB_L0_MAKE_H

#include "common/storage/bucket/bucket.h"

void l0_make(struct fg_bucket *bucket);

#endif
