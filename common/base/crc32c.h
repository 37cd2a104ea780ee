/*
 * CRC-32C (Castagnoli; RFC 3720, B.4) is the checksum of all stored data. It finds every burst of
 * up to 32 bits and all but one in 2^32 other faults. It uses the processor's instruction if there
 * is one.
 */
#ifndef FG_COMMON_BASE_CRC32C_H
#define FG_COMMON_BASE_CRC32C_H

#include "common/base/slice.h"

/* Returns the checksum of the bytes; that of no bytes is 0. */
uint32_t fg_crc32c(struct fg_slice bytes);

/* Returns the checksum of data followed by `bytes`, given the checksum of the data alone. */
uint32_t fg_crc32c_more(uint32_t crc, struct fg_slice bytes);

/* Does the same without the instruction, for processors that lack it and for the test. */
uint32_t fg_crc32c_table(uint32_t crc, struct fg_slice bytes);

#endif
