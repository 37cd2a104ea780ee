/*
 * A store that keeps what was written when the write returned, in memory. A write that failed is
 * kept apart until the store is healed or starts again: then all of it is there or nothing, as
 * after an fsync that failed.
 */
#include "tests/lib/store_doubles.h"
#include "tests/lib/threads.h"
#include "tests/sim/shells/faults.h"

struct sim_disk {
    struct fg_store store;
    struct fg_store *inner;
    const struct faults *faults;
    bool sick;                  /* until it is healed */
    struct fg_store_batch torn; /* of the write that failed first */
    uint64_t failed;
};

static struct sim_disk *disk_of(struct fg_store *store)
{
    return fg_container(store, struct sim_disk, store);
}

static bool fails(const struct sim_disk *disk)
{
    return disk->faults->store_fails || disk->faults->store_full;
}

static enum fg_code fail_write(struct sim_disk *disk, struct fg_err *err)
{
    disk->failed++;
    return disk->faults->store_full ? fg_fail(err, FG_E_NO_SPACE, "the disk is full")
                                    : fg_fail(err, FG_E_UNAVAILABLE, "the disk fails");
}

static void apply(struct sim_disk *disk, struct fg_store_batch *batch)
{
    struct fg_err err;

    threads_pin();
    fg_assert(fg_store_write(disk->inner, batch, &err) == FG_OK);
    threads_unpin();
}

static void take_time(const struct sim_disk *disk)
{
    int64_t most_ns = disk->faults->write_max_ns == 0 ? 5 * FG_MS_NS : disk->faults->write_max_ns;
    int64_t end_ns = threads_now_ns() + (int64_t)threads_draw((uint64_t)most_ns);

    threads_sleep(FG_MIN(end_ns - threads_now_ns(), 10 * FG_MS_NS));
    while (threads_now_ns() < end_ns && disk->faults->write_max_ns > 0) /* it may get better */
        threads_sleep(FG_MIN(end_ns - threads_now_ns(), 100 * FG_MS_NS));
}

static enum fg_code disk_write(struct fg_store *store, struct fg_store_batch *batch,
                               struct fg_err *err)
{
    struct sim_disk *disk = disk_of(store);

    if (!disk->sick)
        fg_store_batch_append(&disk->torn, batch); /* for a kill in the middle of it */
    take_time(disk);
    if (disk->sick || fails(disk)) {
        disk->sick = true;
        return fail_write(disk, err);
    }
    fg_store_batch_clear(&disk->torn);
    apply(disk, batch);
    take_time(disk);
    return FG_OK;
}

/* What was half done is all done or not at all. */
static void settle(struct sim_disk *disk)
{
    if (disk->torn.count > 0 && threads_draw(2) == 0)
        apply(disk, &disk->torn);
    fg_store_batch_clear(&disk->torn);
}

static enum fg_code disk_heal(struct fg_store *store, struct fg_err *err)
{
    struct sim_disk *disk = disk_of(store);

    take_time(disk);
    if (disk->sick)
        settle(
            disk); /* it is opened read-only first, which succeeds on a disk that takes no write */
    if (fails(disk))
        return fail_write(disk, err);
    disk->sick = false;
    return FG_OK;
}

static enum fg_code fail_read(struct sim_disk *disk, struct fg_err *err)
{
    disk->failed++;
    return fg_fail(err, FG_E_UNAVAILABLE, "the disk cannot be read");
}

static enum fg_code disk_get(struct fg_store *store, unsigned family, struct fg_slice key,
                             struct fg_buf *out, bool *ret_found, struct fg_err *err)
{
    struct sim_disk *disk = disk_of(store);

    if (disk->faults->store_unreadable)
        return fail_read(disk, err);
    return fg_store_get(disk->inner, family, key, out, ret_found, err);
}

static enum fg_code disk_contains(struct fg_store *store, unsigned family, struct fg_slice key,
                                  bool *ret_found, struct fg_err *err)
{
    struct sim_disk *disk = disk_of(store);

    if (disk->faults->store_unreadable)
        return fail_read(disk, err);
    return fg_store_contains(disk->inner, family, key, ret_found, err);
}

static struct fg_store_iter *disk_iter(struct fg_store *store, unsigned family,
                                       struct fg_slice from, struct fg_slice to)
{
    struct sim_disk *disk = disk_of(store);
    struct fg_err err;

    if (!disk->faults->store_unreadable)
        return fg_store_iter_create(disk->inner, family, from, to);
    (void)fail_read(disk, &err);
    return fg_store_iter_failed(&err);
}

static uint64_t disk_bytes(struct fg_store *store)
{
    (void)store;
    return 0;
}

static void disk_close(struct fg_store *store)
{
    (void)store; /* sim_disk_destroy() */
}

struct sim_disk *sim_disk_create(unsigned families, const struct faults *faults)
{
    static const struct fg_store_ops ops = {disk_write,    disk_heal,  disk_get,
                                            disk_contains, disk_iter,  disk_bytes,
                                            disk_bytes,    disk_close, NULL};
    struct sim_disk *disk = fg_new(struct sim_disk);

    disk->store.ops = &ops;
    disk->inner = fg_store_memory(families);
    disk->faults = faults;
    fg_store_batch_init(&disk->torn);
    return disk;
}

struct fg_store *sim_disk_store(struct sim_disk *disk)
{
    return &disk->store;
}

struct fg_store *sim_disk_inner(struct sim_disk *disk)
{
    return disk->inner;
}

void sim_disk_restart(struct sim_disk *disk)
{
    settle(disk);
    disk->sick = false;
}

void sim_disk_destroy(struct sim_disk *disk)
{
    fg_store_batch_done(&disk->torn);
    fg_store_close(disk->inner);
    free(disk);
}

uint64_t sim_disk_failed(const struct sim_disk *disk)
{
    return disk->failed;
}
