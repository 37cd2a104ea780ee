/*
 * Reads what another server forwards, before anything of it is sent on: bytes to checked batches.
 * Pure.
 *
 * Thread: one at a time. Memory: in the arena.
 */
#ifndef FG_DISTRIBUTOR_FORWARD_READ_H
#define FG_DISTRIBUTOR_FORWARD_READ_H

#include "proto/builder/builder.h"
#include "proto/forward.h"
#include "proto/forward_v1.pb-c.h"

/*
 * Checks version, number of batches and the way of a request, and copies the ids of the stores that
 * it has passed. own_store: this server's, NULL: not known. FG_E_PRECONDITION: of another version.
 * FG_E_INVALID: it has been here, or at too many servers; or the fault.
 */
enum fg_code dist_forward_check(const Forward__V1__PushRequest *request,
                                const struct fg_id *own_store,
                                uint8_t ret_via[FG_FORWARD_VIA_MAX * FG_ID_BYTES],
                                struct fg_err *err) fg_must_check;

/* Checks that the batches are the whole payload: either all have their part of it, or none.
 * FG_E_INVALID. */
enum fg_code dist_forward_check_parts(const Forward__V1__PushRequest *request, size_t payload_bytes,
                                      struct fg_err *err) fg_must_check;

/*
 * Reads a batch and checks that its stacks are those that their ids name. names: NULL: it is of a
 * message of version 1. FG_E_INVALID: the fault. FG_E_TOO_LARGE: the arena is full. FG_E_NOT_FOUND:
 * it has to come with whole ids. With FG_OK fg_wire_batch_done() frees *ret_wire, from which
 * *ret_batch borrows.
 */
enum fg_code dist_forward_read_batch(struct fg_slice bytes, const Forward__V1__Batch *head,
                                     const struct fg_stack_names *names,
                                     const struct fg_decode_limits *limits, struct fg_arena *arena,
                                     struct fg_wire_batch *ret_wire, struct fg_batch *ret_batch,
                                     struct fg_err *err) fg_must_check;

/* Checks that duration and sums of a profile can be stored, as decoders see to. FG_E_INVALID. */
enum fg_code dist_forward_check_values(const struct fg_profile *profile, uint32_t n_types,
                                       struct fg_err *err) fg_must_check;

#endif
