#include "common/base/time.h"
#include "distributor/upload_impl.h"

#include <endian.h>
#include <time.h>

enum { BATCH_KEY_BYTES = FG_ID_BYTES + sizeof(uint32_t) };

/* A year after 1970, since a clock that was never set runs for a while. */
static const int64_t BROKEN_BEFORE_NS = INT64_C(365) * 24 * FG_HOUR_NS;

/* ---- times ---- */

/* "2100-01-01 00:00:00 +0000 UTC", as Pyroscope shows times. */
static void print_time(char *out, size_t size, int64_t time_ns)
{
    time_t seconds = (time_t)(time_ns / FG_SECOND_NS);
    struct tm tm;

    if (gmtime_r(&seconds, &tm) == NULL)
        tm = (struct tm){0};
    (void)snprintf(out, size, "%04d-%02d-%02d %02d:%02d:%02d +0000 UTC", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static enum fg_code outside_window(const struct fg_profile *profile, int64_t oldest_ns,
                                   int64_t newest_ns, struct fg_err *err)
{
    char time[64], oldest[64], newest[64];
    struct fg_buf labels;

    print_time(time, sizeof time, profile->time_ns);
    print_time(oldest, sizeof oldest, oldest_ns);
    print_time(newest, sizeof newest, newest_ns);
    fg_buf_init(&labels, FG_ERR_MSG_MAX_BYTES / 2);
    fg_labels_write(&profile->labels, &labels);
    (void)fg_fail(
        err, FG_E_INVALID,
        "profile with labels '%.*s' is outside of ingestion window (profile timestamp: %s, "
        "the ingestion window starts at %s and ends at %s; limits.reject_older_than, "
        "limits.reject_newer_than)",
        FG_S(fg_buf_slice(&labels)), time, oldest, newest);
    fg_buf_done(&labels);
    return err->code;
}

/* A clock that was never set, or microseconds instead of nanoseconds. */
static bool is_broken(int64_t time_ns)
{
    return time_ns < BROKEN_BEFORE_NS;
}

/* Counted once: later attempts see the same profiles. */
static void count_expired(struct dist_upload *upload, const struct fg_profile *profile)
{
    int64_t kept_ns = fg_limits_longest_kept_ns(&upload->limits->values);

    if (kept_ns > 0 && upload->attempt == 1 && profile->time_ns < upload->now_ns - kept_ns)
        upload->counts.expired++;
}

static enum fg_code check_time(struct dist_upload *upload, struct fg_profile *profile,
                               struct fg_err *err)
{
    const struct fg_limit_settings *limits = &upload->limits->values;
    int64_t oldest_ns = INT64_MIN, newest_ns = INT64_MAX;

    if (is_broken(profile->time_ns)) {
        /* Agents on machines without a clock send 1970. Their profiles are of now, or nobody would
         * ever find them. */
        profile->time_ns = upload->now_ns;
        upload->counts.decode.times_repaired++;
        return FG_OK;
    }
    count_expired(upload, profile);
    if (limits->reject_older_than_ns > 0)
        oldest_ns = upload->now_ns - limits->reject_older_than_ns;
    if (limits->reject_newer_than_ns > 0)
        newest_ns = fg_time_add(upload->now_ns, limits->reject_newer_than_ns);
    return profile->time_ns < oldest_ns || profile->time_ns > newest_ns
               ? outside_window(profile, oldest_ns, newest_ns, err)
               : FG_OK;
}

enum fg_code dist_upload_check_time(struct dist_upload *upload, const struct fg_profile *profile,
                                    struct fg_err *err)
{
    int64_t newer_ns = upload->limits->values.reject_newer_than_ns;
    int64_t newest_ns = newer_ns > 0 ? fg_time_add(upload->now_ns, newer_ns) : INT64_MAX;

    count_expired(upload, profile);
    return is_broken(profile->time_ns) || profile->time_ns > newest_ns
               ? outside_window(profile, BROKEN_BEFORE_NS, newest_ns, err)
               : FG_OK;
}

enum fg_code dist_upload_check_times(struct dist_upload *upload, struct fg_batch *batch,
                                     struct fg_err *err)
{
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        if (check_time(upload, &batch->profiles[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- ids ---- */

/* Returns a number that no other batch of the upload has whose profiles go to the same tenant. If
 * the upload is sent again, it must be the same: also if a tenant whose part was refused may send
 * meanwhile, whose items would shift those that follow. */
static uint32_t number_of(const struct dist_upload *upload)
{
    return upload->splits ? upload->n_batches - 1 : upload->next_item;
}

/*
 * Returns the key of the next batch. A client's key is of its request, so each batch gets a key of
 * its own: the hash of the client's key, which may be as long as a header, and the batch's number.
 */
static struct fg_slice key_of(const struct dist_upload *upload, uint8_t bytes[BATCH_KEY_BYTES])
{
    /* Little-endian on every machine: a retry may reach another distributor and has to get the same
     * ids. */
    uint32_t number = htole32(number_of(upload));

    if (upload->idempotency_key.len == 0)
        return FG_LIT("");
    fg_id_put(bytes, upload->key);
    memcpy(bytes + FG_ID_BYTES, &number, sizeof number);
    return fg_bytes(bytes, BATCH_KEY_BYTES);
}

static bool id_is_taken(const struct dist_upload *upload, struct fg_id id)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&upload->id_map, fg_id_table(id), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&upload->id_map, &walk))
        if (fg_id_eq(upload->ids[i], id))
            return true;
    return false;
}

void dist_upload_identify(struct dist_upload *upload, struct fg_batch *batch, bool has_time)
{
    /* Two hosts may send the same text for the same ten seconds: these are two profiles. */
    struct fg_slice origin = has_time ? FG_LIT("") : upload->sender;
    uint8_t key[BATCH_KEY_BYTES];
    char number[300];
    bool taken = false;

    fg_batch_identify(batch, upload->tenant, origin, key_of(upload, key));
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        taken |= id_is_taken(upload, batch->profiles[i].id);
    /* Two equal profiles in one upload are two events, so they need two ids: the number of the
     * batch tells them apart, also when the client sends the upload again. */
    if (taken) {
        (void)snprintf(number, sizeof number, "%.*s#%u", FG_S(fg_slice_sub(origin, 0, 200)),
                       number_of(upload));
        fg_batch_identify(batch, upload->tenant, fg_cstr(number), FG_LIT(""));
    }
    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        if (upload->n_ids == upload->cap_ids) {
            upload->cap_ids = FG_MAX(4, upload->cap_ids * 2);
            upload->ids = fg_realloc(upload->ids, upload->cap_ids * sizeof *upload->ids);
        }
        fg_map_add(&upload->id_map, fg_id_table(batch->profiles[i].id), upload->n_ids);
        upload->ids[upload->n_ids++] = batch->profiles[i].id;
    }
}

/* ---- sizes ---- */

/* Profiles of a batch have similar stacks, so the number of samples says how large each is. */
enum fg_code dist_upload_set_sizes(const struct dist_upload *upload, struct fg_batch *batch,
                                   struct fg_err *err)
{
    struct fg_arena *arena = upload->space->arena;
    const struct fg_batch_share *share = &batch->share;
    uint64_t wire_bytes = upload->wire_bytes, raw_bytes = upload->raw_bytes;
    struct fg_profile_size *sizes = fg_arena_new(arena, struct fg_profile_size, batch->n_profiles);
    uint64_t *weights = fg_arena_new(arena, uint64_t, batch->n_profiles);

    if (sizes == NULL || weights == NULL)
        return fg_fail(err, FG_E_TOO_LARGE, "upload needs more memory than decoding may use");
    if (share->of > 0) {
        wire_bytes = fg_usage_share(wire_bytes, share->from, share->to, share->of);
        raw_bytes = fg_usage_share(raw_bytes, share->from, share->to, share->of);
    }
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        weights[i] = batch->profiles[i].n_samples;
    fg_profile_sizes_share(wire_bytes, raw_bytes, weights, batch->n_profiles, sizes);
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        batch->profiles[i].size = sizes[i];
    return FG_OK;
}
