/*
 * Limits how many requests with wrong credentials an address may send: a token bucket for each
 * address (IPv6: for each /64), in a table of fixed size. When the table is full, the fullest
 * bucket of a few makes room, which is the one that loses least. Requests with right credentials
 * are never counted, so a stranger cannot lock anybody out.
 *
 * Thread: any; it has a lock.
 */
#ifndef FG_COMMON_ACCESS_GUARD_ATTEMPTS_H
#define FG_COMMON_ACCESS_GUARD_ATTEMPTS_H

#include "common/base/slice.h"

struct fg_attempts;

/* Creates it. per_minute: that an address may send; as many at once. */
struct fg_attempts *fg_attempts_create(unsigned per_minute, uint64_t seed);
/* Frees it. Accepts NULL. */
void fg_attempts_destroy(struct fg_attempts *attempts);

/* Returns whether the address has attempts left, without counting one. peer: as text. */
bool fg_attempts_are_left(struct fg_attempts *attempts, struct fg_slice peer, int64_t now_mono_ns);

/* Counts one. Returns false if it had none left. */
bool fg_attempts_take(struct fg_attempts *attempts, struct fg_slice peer, int64_t now_mono_ns);

#endif
