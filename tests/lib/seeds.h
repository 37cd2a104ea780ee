/*
 * How many seeds a random test tries. A run of all tests has to be short, so each test has few by
 * itself; whoever looks for rare faults sets FG_TEST_SEEDS and waits.
 */
#ifndef FG_TESTS_LIB_SEEDS_H
#define FG_TESTS_LIB_SEEDS_H

#include <stdint.h>

/* Returns FG_TEST_SEEDS of the environment, else this number. Call it before there are threads. */
uint64_t test_seeds(uint64_t otherwise);

#endif
