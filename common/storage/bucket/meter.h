/* Counts the requests of a bucket and their cost in metrics. One meter per registry. */
#ifndef FG_COMMON_STORAGE_BUCKET_METER_H
#define FG_COMMON_STORAGE_BUCKET_METER_H

#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

/* The classes by which object stores bill: writes and lists are class A, which costs about ten
 * times as much as reads, class B. Deletes are free. */
enum fg_bucket_class { FG_BUCKET_CLASS_A, FG_BUCKET_CLASS_B, FG_BUCKET_CLASS_FREE };

struct fg_bucket_meter {
    struct fg_metrics *metrics; /* NULL: nothing is counted */
};

/* Makes a meter. registry NULL: it counts nothing. */
void fg_bucket_meter_init(struct fg_bucket_meter *meter, struct fg_registry *registry);

/* Counts a request that has ended: verb, result, duration and bytes of objects. */
void fg_bucket_meter_request(const struct fg_bucket_meter *meter,
                             const struct fg_bucket_request *request);

/* Counts a request to the store. A directory counts what S3 would bill. */
void fg_bucket_meter_call(const struct fg_bucket_meter *meter, enum fg_bucket_class class);

/* Counts a retry. */
void fg_bucket_meter_retry(const struct fg_bucket_meter *meter);

/* Returns the class of an operation. */
enum fg_bucket_class fg_bucket_class_of(enum fg_bucket_verb verb);

#endif
