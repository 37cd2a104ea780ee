/*
 * The files of a disk cache. An entry, little-endian:
 *
 *   0   magic "FGdc"
 *   4   crc32c of bytes 8 to 47
 *   8   id of the object, 16 bytes
 *   24  u64 offset in it
 *   32  u64 length
 *   40  crc32c of the content
 *   44  u32 0
 *   48  the content
 *
 * Entries follow each other without gaps. A scan begins at the start of the file and ends at the
 * first bytes that are not an entry, for example those that a crash left.
 */
#ifndef FG_COMMON_STORAGE_CACHE_DISK_FILES_H
#define FG_COMMON_STORAGE_CACHE_DISK_FILES_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/hash.h"

enum { DISK_ENTRY_BYTES = 48, DISK_FILES_MAX = 128 };

/* Names a range of bytes of an object. */
struct fg_disk_key {
    struct fg_id object; /* hash of its name */
    uint64_t offset, len;
};

struct fg_disk_entry {
    struct fg_disk_key key;
    uint32_t crc;
};

/* Encodes the head of an entry. */
void fg_disk_entry_write(const struct fg_disk_entry *entry, uint8_t out[DISK_ENTRY_BYTES]);

/* Decodes the head of an entry from the bytes at position `at` of a file. Returns false if they are
 * not an entry, or if the entry exceeds the file. */
bool fg_disk_entry_read(struct fg_slice bytes, uint64_t at, uint64_t file_bytes,
                        struct fg_disk_entry *ret_entry) fg_must_check;

struct fg_disk_file {
    uint64_t number; /* ascending; in the name */
    uint64_t bytes;
    int fd;
    unsigned refs;  /* the owner's */
    uint32_t first; /* the owner's */
};

/* Opens the cache files of a folder, ascending by number, and leaves all other files alone. If the
 * array has no room for all, the oldest ones are removed. */
enum fg_code fg_disk_files_open(const char *folder, struct fg_disk_file *files[DISK_FILES_MAX],
                                unsigned *ret_n, struct fg_err *err) fg_must_check;

/* Creates an empty file. Returns NULL if the system does not allow it. */
struct fg_disk_file *fg_disk_file_create(const char *folder, uint64_t number) fg_must_check;
/* Closes the file and frees the struct. */
void fg_disk_file_close(struct fg_disk_file *file);
/* Removes the file from the folder; it may stay open. */
void fg_disk_file_remove(const char *folder, const struct fg_disk_file *file);

/* Appends an entry. Returns false on failure; the file is unchanged then. */
bool fg_disk_file_append(struct fg_disk_file *file, const struct fg_disk_entry *entry,
                         struct fg_slice content) fg_must_check;

/* Reads the content of the entry at `at` into `into`, replacing its content. Returns false if the
 * entry is not that of the key or is damaged. */
bool fg_disk_file_read(const struct fg_disk_file *file, uint64_t at, const struct fg_disk_key *key,
                       struct fg_buf *into) fg_must_check;

/* Reads the head of the entry at *at and moves *at behind the entry. Returns false if there are no
 * more. */
bool fg_disk_file_next(const struct fg_disk_file *file, uint64_t *at,
                       struct fg_disk_entry *ret_entry) fg_must_check;

/* Truncates the file to `bytes`. */
void fg_disk_file_cut(struct fg_disk_file *file, uint64_t bytes);

#endif
