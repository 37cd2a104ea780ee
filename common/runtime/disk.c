#include "common/runtime/disk.h"

#include "common/base/time.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/statvfs.h>

enum { PATH_MAX_BYTES = 4096, NAME_MAX_BYTES = 64 };

/* A disk fills up within seconds at full speed; the reserve has to last until the next look. */
static const int64_t LOOK_NS = FG_SECOND_NS;
static const uint64_t RESERVE_MAX_BYTES = UINT64_C(1) << 30; /* flushes and segments under way */

/* clang-format off */
#define DISK_METRICS(M)                                                                            \
    M(GAUGE, DISK_FREE,    "flamegrid_disk_free_bytes{disk=\"%s\"}", "Free space of the disk in bytes") \
    M(GAUGE, DISK_SIZE,    "flamegrid_disk_size_bytes{disk=\"%s\"}", "Size of the disk in bytes")  \
    M(GAUGE, DISK_RESERVE, "flamegrid_disk_reserve_bytes{disk=\"%s\"}", "Free space in bytes below which the service refuses new data") \
    M(GAUGE, DISK_STATE,   "flamegrid_disk_state{disk=\"%s\"}", "State of the disk: 0 ok; 1 low, caches shrink; 2 full, new data is refused")
/* clang-format on */
FG_METRICS_ENUM(disk_metric, DISK_METRICS)
FG_METRICS_TABLE(templates, DISK_METRICS)

struct fg_disk {
    char path[PATH_MAX_BYTES];
    char names[disk_metric_count][NAME_MAX_BYTES];
    struct fg_metric_def defs[disk_metric_count];
    struct fg_registry *registry;
    struct fg_metrics *metrics;
    uint64_t reserve_bytes;
    struct fg_ticker *ticker;
    _Atomic uint64_t free_bytes, size_bytes;
    _Atomic unsigned state;
};

/* ---- deciding ---- */

uint64_t fg_disk_reserve_of(uint64_t size_bytes)
{
    return FG_MIN(size_bytes / 20, RESERVE_MAX_BYTES);
}

/* The state is LOW with less free than this. A quarter of the reserve more is needed to leave a
 * state, so that it does not change with each deleted file. */
static uint64_t low_of(enum fg_disk_state before, uint64_t reserve_bytes)
{
    return 2 * reserve_bytes + (before == FG_DISK_OK ? 0 : reserve_bytes / 4);
}

enum fg_disk_state fg_disk_next(enum fg_disk_state before, uint64_t free_bytes,
                                uint64_t reserve_bytes)
{
    uint64_t full = reserve_bytes + (before == FG_DISK_FULL ? reserve_bytes / 4 : 0);

    if (free_bytes < full)
        return FG_DISK_FULL;
    return free_bytes < low_of(before, reserve_bytes) ? FG_DISK_LOW : FG_DISK_OK;
}

/* ---- looking ---- */

enum fg_code fg_disk_measure(const char *path, struct fg_disk_room *ret_room, struct fg_err *err)
{
    struct statvfs info;

    if (statvfs(path, &info) != 0)
        return fg_fail_errno(err, errno, "disk of %s", path);
    *ret_room = (struct fg_disk_room){(uint64_t)info.f_bavail * info.f_frsize,
                                      (uint64_t)info.f_blocks * info.f_frsize};
    return FG_OK;
}

static void say_change(const struct fg_disk *disk, enum fg_disk_state before,
                       enum fg_disk_state state)
{
    const struct fg_disk_room room = fg_disk_room(disk);

    if (state == before)
        return;
    if (state == FG_DISK_FULL)
        fg_log_error("disk full, refusing new data until space is free",
                     fg_ls("folder", disk->path), fg_lu("free_bytes", room.free_bytes),
                     fg_lu("reserve_bytes", disk->reserve_bytes));
    else if (state == FG_DISK_OK || before == FG_DISK_FULL)
        fg_log_info("disk has free space again", fg_ls("folder", disk->path),
                    fg_lu("free_bytes", room.free_bytes));
    else
        fg_log_warn("disk space low, shrinking caches and pausing compaction",
                    fg_ls("folder", disk->path), fg_lu("free_bytes", room.free_bytes),
                    fg_lu("refused_below_bytes", disk->reserve_bytes));
}

enum fg_code fg_disk_check(const char *path, uint64_t bytes, uint64_t keep_bytes, const char *what,
                           struct fg_err *err)
{
    struct fg_disk_room room = {0};

    if (fg_disk_measure(path, &room, err) != FG_OK)
        return err->code;
    if (room.free_bytes >= keep_bytes && room.free_bytes - keep_bytes >= bytes)
        return FG_OK;
    return fg_fail(
        err, FG_E_NO_SPACE,
        "%s of %llu bytes does not fit: the disk has %llu bytes free, and %llu are reserved", what,
        (unsigned long long)bytes, (unsigned long long)room.free_bytes,
        (unsigned long long)keep_bytes);
}

/* Publishes a measurement and the state that follows from it. */
static void publish(struct fg_disk *disk, const struct fg_disk_room *room, enum fg_disk_state state)
{
    atomic_store(&disk->free_bytes, room->free_bytes);
    atomic_store(&disk->size_bytes, room->size_bytes);
    atomic_store(&disk->state, state);
    if (disk->metrics == NULL)
        return;
    fg_metric_set(disk->metrics, DISK_FREE, (int64_t)room->free_bytes);
    fg_metric_set(disk->metrics, DISK_SIZE, (int64_t)room->size_bytes);
    fg_metric_set(disk->metrics, DISK_RESERVE, (int64_t)disk->reserve_bytes);
    fg_metric_set(disk->metrics, DISK_STATE, (int64_t)state);
}

static void measure(void *arg)
{
    struct fg_disk *disk = arg;
    enum fg_disk_state before = fg_disk_state(disk), state;
    struct fg_disk_room room = {0};
    struct fg_err err;

    /* The last state stays: a disk that cannot be asked has not become empty. */
    if (fg_disk_measure(disk->path, &room, &err) != FG_OK) {
        fg_log_warn("free space of the disk cannot be read", fg_ls("err", err.msg));
        return;
    }
    state = fg_disk_next(before, room.free_bytes, disk->reserve_bytes);
    publish(disk, &room, state);
    say_change(disk, before, state);
}

/* ---- life ---- */

static void register_metrics(struct fg_disk *disk, const struct fg_disk_config *config)
{
    disk->registry = config->registry;
    if (disk->registry == NULL)
        return;
    for (unsigned i = 0; i < disk_metric_count; i++) {
        size_t at = fg_slice_search(fg_cstr(templates[i].name), "%s");

        disk->defs[i] = templates[i];
        (void)snprintf(disk->names[i], sizeof disk->names[i], "%.*s%s\"}", (int)at,
                       templates[i].name, config->role);
        disk->defs[i].name = disk->names[i];
    }
    disk->metrics = fg_metrics_register(disk->registry, disk->defs, disk_metric_count);
}

enum fg_code fg_disk_watch(const struct fg_disk_config *config, struct fg_disk **ret_disk,
                           struct fg_err *err)
{
    struct fg_disk_room room = {0};
    struct fg_disk *disk;

    if (strlen(config->path) >= PATH_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "disk: the path is too long");
    if (fg_disk_measure(config->path, &room, err) != FG_OK)
        return err->code;
    disk = fg_new(struct fg_disk);
    (void)snprintf(disk->path, sizeof disk->path, "%s", config->path);
    disk->reserve_bytes =
        config->reserve_bytes > 0 ? config->reserve_bytes : fg_disk_reserve_of(room.size_bytes);
    register_metrics(disk, config);
    /* Measured once before the ticker runs: the caller sees the right state from the start. */
    publish(disk, &room, fg_disk_next(FG_DISK_OK, room.free_bytes, disk->reserve_bytes));
    say_change(disk, FG_DISK_OK, fg_disk_state(disk));
    if (fg_ticker_create(&(struct fg_ticker_config){"disk", LOOK_NS, measure, disk}, &disk->ticker,
                         err) != FG_OK) {
        fg_disk_unwatch(disk);
        return err->code;
    }
    *ret_disk = disk;
    return FG_OK;
}

void fg_disk_unwatch(struct fg_disk *disk)
{
    if (disk == NULL)
        return;
    fg_ticker_destroy(disk->ticker);
    if (disk->metrics != NULL)
        fg_metrics_unregister(disk->registry, disk->metrics);
    free(disk);
}

/* ---- what others ask ---- */

enum fg_disk_state fg_disk_state(const struct fg_disk *disk)
{
    return disk == NULL ? FG_DISK_OK : (enum fg_disk_state)atomic_load(&disk->state);
}

struct fg_disk_room fg_disk_room(const struct fg_disk *disk)
{
    return (struct fg_disk_room){atomic_load(&disk->free_bytes), atomic_load(&disk->size_bytes)};
}

uint64_t fg_disk_reserve(const struct fg_disk *disk)
{
    return disk == NULL ? 0 : disk->reserve_bytes;
}

enum fg_code fg_disk_fits(const struct fg_disk *disk, uint64_t bytes, uint64_t keep_bytes,
                          const char *what, struct fg_err *err)
{
    return disk == NULL ? FG_OK : fg_disk_check(disk->path, bytes, keep_bytes, what, err);
}

uint64_t fg_disk_lacks(const struct fg_disk *disk)
{
    struct fg_disk_room room = {0};
    struct fg_err err;
    uint64_t enough;

    if (fg_disk_state(disk) == FG_DISK_OK || fg_disk_measure(disk->path, &room, &err) != FG_OK)
        return 0;
    /* Measured now and not as of the last tick: the caller deletes file after file until this is
     * 0. */
    enough = low_of(FG_DISK_LOW, disk->reserve_bytes);
    return enough > room.free_bytes ? enough - room.free_bytes : 0;
}

void fg_disk_describe(const struct fg_disk *disk, struct fg_buf *out)
{
    const struct fg_disk_room room = fg_disk_room(disk);

    fg_buf_printf(out, "%llu MiB of %llu MiB are free, %llu MiB are reserved",
                  (unsigned long long)(room.free_bytes >> 20),
                  (unsigned long long)(room.size_bytes >> 20),
                  (unsigned long long)(disk->reserve_bytes >> 20));
}
