/*
 * CRC-32C (Castagnoli; RFC 3720, B.4): the checksum of what we store. Finds every burst of up to 32
 * bits and all but one of 2^32 other faults. By the processor's instruction where it has one.
 */
#ifndef FG_COMMON_BASE_CRC32C_H
#define FG_COMMON_BASE_CRC32C_H

#include "common/base/slice.h"

uint32_t fg_crc32c(struct fg_slice bytes);

/* The checksum of what had this one so far, with bytes behind it; of nothing it is 0. */
uint32_t fg_crc32c_more(uint32_t crc, struct fg_slice bytes);

/* The same without the instruction; for its test, and for processors that lack it. */
uint32_t fg_crc32c_table(uint32_t crc, struct fg_slice bytes);

#endif
