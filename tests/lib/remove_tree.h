#ifndef FG_TESTS_LIB_REMOVE_TREE_H
#define FG_TESTS_LIB_REMOVE_TREE_H

/* Deletes a folder with all that is in it, and follows no links. Returns 0, or -1 if something
 * could not be deleted. Any thread. */
int remove_tree(const char *folder);

#endif
