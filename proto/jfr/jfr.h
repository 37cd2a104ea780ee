/*
 * JFR recordings (JDK Flight Recorder and async-profiler, distributor/API.md#jfr) into batches: one
 * for each kind of profile that has samples.
 *
 *   event                            __name__     sample types
 *   jdk.ExecutionSample              process_cpu  cpu: unless the thread sleeps
 *                                    wall         wall: if the setting "event" is "wall"
 *   profiler.WallClockSample         wall         wall
 *                                    process_cpu  cpu: if the thread runs and the setting is "wall"
 *   jdk.ObjectAllocationInNewTLAB    memory       alloc_in_new_tlab_objects, ..._bytes
 *   jdk.ObjectAllocationOutsideTLAB  memory       alloc_outside_tlab_objects, ..._bytes
 *   jdk.ObjectAllocationSample       memory       alloc_sample_objects, ..._bytes
 *   jdk.JavaMonitorEnter             mutex        contentions, delay
 *   jdk.ThreadPark                   block        contentions, delay
 *   profiler.LiveObject              memory       live
 *   profiler.Malloc                  memory       malloc_objects, malloc_bytes
 *
 * A delay is what the recording has: ticks of its clock, as Pyroscope takes them. The profilers of
 * today count nanoseconds; older ones count cycles. Profiles from before and after an update
 * of the server have the same numbers.
 *
 * The setting "event" is the label jfr_event of all profiles, the last of the recording. Whether it
 * is "wall" matters for the events that follow it, and for those of its chunk that stand before the
 * first: profilers write settings first, but threads write their buffers when they like.
 *
 * A sample without a stack counts for the empty stack, so that totals are what was measured. Frames
 * whose method or class is not in the recording are left out.
 *
 * FG_E_DECODE: what cannot be read, with the byte; FG_E_INVALID: limits and labels; FG_E_TOO_LARGE:
 * the arena's limit, or strings that add up to far more than the recording. Work is in proportion
 * to its size.
 */
#ifndef FG_PROTO_JFR_JFR_H
#define FG_PROTO_JFR_JFR_H

#include "proto/jfr/request.h"

/*
 * in: uncompressed, any number of chunks; empty: no profiles. The sink gets its batches when all of
 * the recording was read and found good. Function names live in the arena, label values of the
 * snapshot in the request's bytes.
 */
enum fg_code fg_jfr_decode(struct fg_slice in, const struct fg_jfr_request *request,
                           struct fg_arena *arena, fg_batch_sink sink, void *arg,
                           struct fg_decode_counts *counts, struct fg_err *err) fg_must_check;

#endif
