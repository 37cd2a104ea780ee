/*
 * A faulty disk for a test that links faulty_disk.c: the test sets rules with a call instead of a
 * file. faulty_disk.c describes the rules.
 */
#ifndef FG_TESTS_LIB_FAULTY_DISK_H
#define FG_TESTS_LIB_FAULTY_DISK_H

/* Applies the rules to `path` (absolute, without links) and everything below it. Descriptors that
 * are already open are not affected. */
void faulty_disk_set(const char *path);

/* Replaces the rules, which count calls from now on; "": nothing fails. */
void faulty_disk_rules(const char *rules);

/* Returns the number of calls that failed or waited since faulty_disk_set(). */
unsigned long faulty_disk_hits(void);

#endif
