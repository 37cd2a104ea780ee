/*
 * Remembers the senders of older OTLP versions, so that each is logged at most once an hour.
 *
 * Memory: fixed. If more senders than it has room for use an older version within an hour, the
 * others are not logged until there is room again; the metric counts them all.
 *
 * Thread: any; locked inside, for the time of one walk over the table.
 */
#ifndef FG_DISTRIBUTOR_OTLP_SENDERS_H
#define FG_DISTRIBUTOR_OTLP_SENDERS_H

#include "common/base/slice.h"

enum { DIST_OTLP_SENDERS_MAX = 1024 }; /* 16 KiB; a host has one eBPF agent or collector */

struct dist_otlp_senders;

/* Never fails. Destroy with dist_otlp_senders_destroy(), which accepts NULL. */
struct dist_otlp_senders *dist_otlp_senders_create(void);
void dist_otlp_senders_destroy(struct dist_otlp_senders *senders);

/*
 * Returns true if this sender of this tenant has to be logged now, and remembers it for an hour.
 * now_mono_ns: monotonic time.
 */
bool dist_otlp_senders_admit(struct dist_otlp_senders *senders, struct fg_slice tenant,
                             struct fg_slice address, int64_t now_mono_ns);

#endif
