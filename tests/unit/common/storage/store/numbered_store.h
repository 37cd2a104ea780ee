/*
 * A RocksDB store in a folder of its own, and writes with numbers to it: write nr puts the key
 * "%08u" of nr into both families in one batch, so a test can count which writes are there. One
 * thread; asserts unless a function returns an error.
 */
#ifndef FG_TESTS_UNIT_COMMON_STORAGE_STORE_NUMBERED_STORE_H
#define FG_TESTS_UNIT_COMMON_STORAGE_STORE_NUMBERED_STORE_H

#include "common/storage/store/store.h"

enum { NUMBERED_FAMILIES = 2, NUMBERED_PADDING_BYTES = 20000, NUMBERED_PATH_BYTES = 256 };

extern char numbered_dir[64];
extern const char *const numbered_families[NUMBERED_FAMILIES];
extern struct fg_store_config numbered_config; /* flushes after some dozen writes of that padding */

/* Makes the folder; a set-up of cmocka's. */
int numbered_set_up(void **state);

/* Deletes the folder; a tear-down of cmocka's. */
int numbered_tear_down(void **state);

/* Opens the store in the folder; codes as of fg_store_open(). */
enum fg_code numbered_try_open(struct fg_store **ret_store, struct fg_err *err) fg_must_check;

/* Opens the store, or fails the test. */
struct fg_store *numbered_open(void);

/* Writes the key into key[] and returns it. */
struct fg_slice numbered_key(uint32_t nr, char key[16]);

/* Writes nr, with a value of that many bytes, which do not compress, in the second family. At most
 * 64 KiB. */
enum fg_code numbered_write(struct fg_store *store, uint32_t nr, size_t padding,
                            struct fg_err *err);

/* Returns true if the family has the key of nr. */
bool numbered_has(struct fg_store *store, unsigned family, uint32_t nr);

/* Asserts that 0 to n-1 are there, by key and by iterator, and nothing else but n, if its write
 * failed: it may be there after a restart. Returns how many there are, the same number in both
 * families. */
uint32_t numbered_expect(struct fg_store *store, uint32_t n);

/* Finds the first or last file of the folder by name. There is one. */
void numbered_find_file(const char *prefix, const char *suffix, bool last,
                        char path[NUMBERED_PATH_BYTES]);

/* Finds the first table of the second family, whose values are large, or of the first one. */
void numbered_find_table(bool large, char path[NUMBERED_PATH_BYTES]);

#endif
