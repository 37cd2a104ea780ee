/*
 * The slow and obvious stack tree: a list of collapsed stacks with their values, searched from the
 * front. And random stacks, to feed it and the real one with the same.
 */
#ifndef FG_TESTS_LIB_SLOW_STACKS_H
#define FG_TESTS_LIB_SLOW_STACKS_H

#include "common/model/tree.h"

enum { SLOW_STACKS_MAX = 400, SLOW_DEPTH_MAX = 8 };

struct slow_stack {
    char text[64]; /* "a;b;c" */
    int64_t value;
};

struct slow_stacks {
    struct slow_stack items[SLOW_STACKS_MAX];
    size_t count;
};

/* The next number of a sequence; *random is the seed at first. */
uint64_t slow_random(uint64_t *random);

void slow_add(struct slow_stacks *stacks, const char *text, int64_t value);

/* "a;b;c 3" lines in byte order, stacks without a value left out; what fg_flame_write_folded()
 * gives. */
void slow_write(const struct slow_stacks *stacks, struct fg_buf *out);

/* A random stack with a random value, to both; frames are single letters. */
void slow_add_random(struct slow_stacks *stacks, struct fg_tree *tree, uint64_t *random);

/* Adds a stack "a;b;c" of names. */
void slow_tree_add(struct fg_tree *tree, const char *text, int64_t value);

#endif
