#include "tests/lib/ring_bucket.h"

#include "common/cluster/ring/object.h"

void ring_bucket_change(struct fg_bucket *bucket, const struct fg_ring_change *change)
{
    struct fg_bucket_wave *wave = fg_bucket_wave_create();
    const struct fg_ring_object object = {
        .bucket = bucket, .wave = wave, .clock = fg_clock_real(), .timeout_ns = FG_MINUTE_NS};
    fg_auto(fg_ring_view) *view = NULL;
    struct fg_err err;

    if (fg_ring_object_change(&object, change, &view, &err) != FG_OK)
        fg_assert_failed(err.msg, __FILE__, __LINE__);
    fg_bucket_wave_destroy(wave);
}

void ring_bucket_join(struct fg_bucket *bucket, const char *name, const char *address,
                      struct fg_id store, unsigned replicas)
{
    ring_bucket_change(bucket, &(struct fg_ring_change){.kind = FG_RING_JOIN,
                                                        .name = fg_cstr(name),
                                                        .zone = fg_cstr(name),
                                                        .address = fg_cstr(address),
                                                        .store = store,
                                                        .replicas = replicas,
                                                        .wall_ns = 1});
}

struct fg_ring_watch *ring_bucket_watch(struct fg_bucket *bucket, struct fg_registry *registry)
{
    struct fg_ring_watch *watch;
    struct fg_err err;

    if (fg_ring_watch_create(&(struct fg_ring_watch_config){.bucket = bucket,
                                                            .clock = fg_clock_real(),
                                                            .registry = registry,
                                                            .poll_ns = FG_MINUTE_NS},
                             &watch, &err) != FG_OK ||
        fg_ring_watch_start(watch, &err) != FG_OK)
        fg_assert_failed(err.msg, __FILE__, __LINE__);
    return watch;
}
