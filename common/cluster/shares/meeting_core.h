/*
 * What processes of a cluster tell each other about limits that hold for all of them together.
 * Shell: ingester/meeting.h. A process at which they meet, an ingester, adds up what each of them
 * says of a tenant. Two kinds of numbers:
 *
 *   demand   bytes per second that a process is offered. It is forgotten when the process is silent
 *            for FG_MEETING_SILENT_NS
 *   count    bytes that a process has acknowledged in a period. It stays until the period ends,
 *            also when the process is gone: whoever comes instead of it counts from zero under
 *            another id
 *
 * Periods of a tenant are counted apart, and a sum is of the period that the process asks for:
 * while a new limit spreads, or at the end of a period, processes are in different ones.
 *
 * Counts are also a value that is stored, in an envelope (common/base/envelope.h), magic "FGLC":
 *
 *   list of records: varint-length tenant;  varint start, end of the period (seconds since 1970);
 *                    list of: 8 bytes id of a process, little-endian;  varint bytes
 *
 * Periods of one tenant are records of their own; older programs keep the one that begins last.
 *
 * Memory: bounded by FG_MEETING_TENANTS_MAX and FG_MEETING_PROCESSES_MAX. If a table is full, new
 * tenants and processes are not counted, so processes overestimate what is left.
 *
 * Thread: one at a time. No clock, no I/O.
 */
#ifndef FG_COMMON_CLUSTER_SHARES_MEETING_CORE_H
#define FG_COMMON_CLUSTER_SHARES_MEETING_CORE_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/time.h"
#include "common/model/tenant_quota.h"

enum {
    FG_MEETING_TENANTS_MAX = 65536,  /* as FG_QUOTA_TENANTS_MAX */
    FG_MEETING_PROCESSES_MAX = 1024, /* as a ring has members */
    FG_MEETING_COUNTS_MAX = 64, /* of a tenant; then those of processes that are gone become one */
    FG_MEETING_MAX_BYTES = 32 * 1024 * 1024, /* of the stored value */
    FG_MEETING_AHEAD_MAX_S = 60, /* a period is counted so long before it begins: clocks differ */
};

#define FG_MEETING_SILENT_NS (15 * FG_SECOND_NS) /* seven rounds of two seconds were missed */

struct fg_meeting;

/* Creates it. Never fails. */
struct fg_meeting *fg_meeting_create(void);
/* Frees it. Accepts NULL. */
void fg_meeting_destroy(struct fg_meeting *meeting);

/* What a process says of a tenant, or what all of them have said. */
struct fg_meeting_use {
    struct fg_slice tenant;
    double demand;             /* bytes per second; 0: none */
    uint32_t processes;        /* that have said such a demand; not read by fg_meeting_hear() */
    struct fg_quota_span span; /* end_s 0: no period */
    uint64_t bytes;            /* in it */
};

/* Notes that a process takes part. process: a random number other than 0, of each run another. */
void fg_meeting_join(struct fg_meeting *meeting, uint64_t process, int64_t now_mono_ns);

/*
 * Takes what a member process says of a tenant. A count replaces a smaller one of that process.
 * Ignores impossible values: a demand that is negative or not a number, an invalid name, a period
 * that has ended, or begins more than FG_MEETING_AHEAD_MAX_S in the future.
 */
void fg_meeting_hear(struct fg_meeting *meeting, uint64_t process, const struct fg_meeting_use *use,
                     int64_t now_mono_ns, int64_t now_wall_s);

/* Returns how many processes take part. */
uint32_t fg_meeting_processes(struct fg_meeting *meeting, int64_t now_mono_ns);

/* Adds up what was said of a tenant, in a period; end_s 0: in the one that was heard of last. The
 * span of the result has end_s 0 if nothing was said of it. The tenant's name is borrowed from the
 * caller. */
struct fg_meeting_use fg_meeting_sum(struct fg_meeting *meeting, struct fg_slice tenant,
                                     const struct fg_quota_span *span, int64_t now_mono_ns);

/* Returns how often counts have changed. */
uint64_t fg_meeting_changes(const struct fg_meeting *meeting);

/* Encodes the counts of periods that have not ended. FG_E_LIMIT: more than FG_MEETING_MAX_BYTES. */
enum fg_code fg_meeting_encode(const struct fg_meeting *meeting, int64_t now_wall_s,
                               struct fg_buf *out, struct fg_err *err) fg_must_check;

/* Takes in the counts of a value. FG_E_CORRUPT, FG_E_TOO_LARGE; FG_E_UNIMPLEMENTED: it is of a
 * newer version. Counts before the damage were taken in. */
enum fg_code fg_meeting_decode(struct fg_meeting *meeting, struct fg_slice in, int64_t now_wall_s,
                               struct fg_err *err) fg_must_check;

#endif
