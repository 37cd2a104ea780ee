/*
 * The faulty disk inside of a test that is linked with faulty_disk.c, in place of a preloaded one:
 * rules come by a call, not by a file. What rules are is in faulty_disk.c.
 */
#ifndef FG_TESTS_LIB_FAULTY_DISK_H
#define FG_TESTS_LIB_FAULTY_DISK_H

/* From now on what is at `path` (whole, without links) and below it goes by the rules. Descriptors
 * that are open already stay as they are. */
void faulty_disk_set(const char *path);

/* In place of those of before; "": nothing fails. They count calls from now. */
void faulty_disk_rules(const char *rules);

/* Calls that have failed or waited since faulty_disk_set(). */
unsigned long faulty_disk_hits(void);

#endif
