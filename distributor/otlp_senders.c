#include "distributor/otlp_senders.h"

#include "common/base/hash.h"
#include "common/base/time.h"

#include <pthread.h>
#include <stdlib.h>

static const int64_t QUIET_NS = FG_HOUR_NS; /* between two lines about one sender */

struct otlp_sender {
    uint64_t hash; /* of tenant and address */
    int64_t logged_mono_ns;
};

struct dist_otlp_senders {
    pthread_mutex_t lock;                              /* of the ring; held for one look-up */
    struct otlp_sender senders[DIST_OTLP_SENDERS_MAX]; /* in the order in which they were logged */
    uint32_t first, count;                             /* a ring */
};

struct dist_otlp_senders *dist_otlp_senders_create(void)
{
    struct dist_otlp_senders *senders = fg_new(struct dist_otlp_senders);

    (void)pthread_mutex_init(&senders->lock, NULL);
    return senders;
}

void dist_otlp_senders_destroy(struct dist_otlp_senders *senders)
{
    if (senders == NULL)
        return;
    (void)pthread_mutex_destroy(&senders->lock);
    free(senders);
}

bool dist_otlp_senders_admit(struct dist_otlp_senders *senders, struct fg_slice tenant,
                             struct fg_slice address, int64_t now_mono_ns)
{
    uint64_t hash = fg_mix64(fg_hash64_table(tenant)) ^ fg_hash64_table(address);
    bool known = false, admitted;

    (void)pthread_mutex_lock(&senders->lock);
    /* All entries are kept equally long, so the oldest one is always first. */
    while (senders->count > 0 &&
           now_mono_ns - senders->senders[senders->first].logged_mono_ns >= QUIET_NS) {
        senders->first = (senders->first + 1) % DIST_OTLP_SENDERS_MAX;
        senders->count--;
    }
    for (uint32_t i = 0; i < senders->count && !known; i++)
        known = senders->senders[(senders->first + i) % DIST_OTLP_SENDERS_MAX].hash == hash;
    /* While the table is full, no further sender is logged: clients choose the tenant, so a table
     * that grew, or evicted, would let them fill memory or the log. */
    admitted = !known && senders->count < DIST_OTLP_SENDERS_MAX;
    if (admitted)
        senders->senders[(senders->first + senders->count++) % DIST_OTLP_SENDERS_MAX] =
            (struct otlp_sender){hash, now_mono_ns};
    (void)pthread_mutex_unlock(&senders->lock);
    return admitted;
}
