/* What a bucket costs and how it does, in the registry's metrics; one meter for each registry. */
#ifndef FG_COMMON_STORAGE_BUCKET_METER_H
#define FG_COMMON_STORAGE_BUCKET_METER_H

#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

/* How object stores bill: what changes or lists is class A, about ten times as dear as what reads,
 * class B; deleting is free. */
enum fg_bucket_class { FG_BUCKET_CLASS_A, FG_BUCKET_CLASS_B, FG_BUCKET_CLASS_FREE };

struct fg_bucket_meter {
    struct fg_metrics *metrics; /* NULL: nothing is counted */
};

/* registry NULL: a meter that counts nothing. */
void fg_bucket_meter_init(struct fg_bucket_meter *meter, struct fg_registry *registry);

/* A request has ended: its verb, result, duration and bytes of objects. */
void fg_bucket_meter_request(const struct fg_bucket_meter *meter,
                             const struct fg_bucket_request *request);

/* Something was asked of the store. A directory counts what S3 would. */
void fg_bucket_meter_call(const struct fg_bucket_meter *meter, enum fg_bucket_class class);

void fg_bucket_meter_retry(const struct fg_bucket_meter *meter);

enum fg_bucket_class fg_bucket_class_of(enum fg_bucket_verb verb);

#endif
