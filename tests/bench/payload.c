#include "tests/bench/payload.h"

#include "common/base/cursor.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum {
    PROFILE_MAX_BYTES = 64 << 20,
    PATH_MAX_BYTES = 1024,
    KEY_TIME_NANOS = 9 << 3, /* field 9, a varint */
    CHUNK_BYTES = 64 << 10,
    GZIP_WINDOW_BITS = 15 + 16, /* zlib's way of asking for gzip */
};

static enum fg_code read_gzip(const char *path, struct fg_buf *out, struct fg_err *err)
{
    uint8_t chunk[CHUNK_BYTES];
    gzFile file = gzopen(path, "rb");
    int n;

    if (file == NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "%s cannot be opened", path);
    while ((n = gzread(file, chunk, sizeof chunk)) > 0)
        fg_buf_append(out, chunk, (size_t)n);
    (void)gzclose(file);
    if (n < 0 || out->full)
        return fg_fail(err, FG_E_DECODE, "%s is no gzip file of at most %d bytes", path,
                       (int)PROFILE_MAX_BYTES);
    return FG_OK;
}

/* The profile's fields without the time: each is copied as it is. */
static enum fg_code drop_time(struct fg_slice profile, struct fg_buf *out, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(profile);

    while (fg_cur_more(&cur)) {
        const uint8_t *start = cur.ptr;
        const uint64_t key = fg_cur_varint(&cur);

        fg_pb_skip(&cur, key);
        if (!cur.bad && key != KEY_TIME_NANOS)
            fg_buf_append(out, start, (size_t)(cur.ptr - start));
    }
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "not a profile");
    return FG_OK;
}

/* As Go's runtime/pprof does it: fast. */
static void compress_gzip(struct fg_slice in, struct payload *ret_payload)
{
    z_stream stream = {0};
    const int rc =
        deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW_BITS, 8, Z_DEFAULT_STRATEGY);
    size_t cap;

    fg_assert(rc == Z_OK);
    cap = deflateBound(&stream, in.len);
    ret_payload->gzip = malloc(cap);
    fg_assert(ret_payload->gzip != NULL);
    stream.next_in = (uint8_t *)(uintptr_t)in.ptr; /* zlib does not write there */
    stream.avail_in = (uInt)in.len;
    stream.next_out = ret_payload->gzip;
    stream.avail_out = (uInt)cap;
    fg_assert(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    ret_payload->len = stream.total_out;
    (void)deflateEnd(&stream);
}

static enum fg_code load_file(const char *path, struct payload *ret_payload, struct fg_err *err)
{
    struct fg_buf raw, timeless;
    enum fg_code code;

    fg_buf_init(&raw, PROFILE_MAX_BYTES);
    fg_buf_init(&timeless, PROFILE_MAX_BYTES);
    code = read_gzip(path, &raw, err);
    if (code == FG_OK)
        code = drop_time(fg_buf_slice(&raw), &timeless, err);
    if (code == FG_OK)
        compress_gzip(fg_buf_slice(&timeless), ret_payload);
    fg_buf_done(&raw);
    fg_buf_done(&timeless);
    return code;
}

static bool is_wanted(const struct payload_choice *choice, const char *name, const char *path)
{
    static const char suffix[] = ".pb.gz";
    const size_t len = strlen(name);
    struct stat st;

    if (len < sizeof suffix || strcmp(name + len - (sizeof suffix - 1), suffix) != 0)
        return false;
    if (choice->match != NULL && strstr(name, choice->match) == NULL)
        return false;
    return stat(path, &st) == 0 && (size_t)st.st_size >= choice->min_bytes &&
           (size_t)st.st_size <= choice->max_bytes;
}

/* Files come in order of their names, so those of a program come one after the other. */
static void count_program(struct payloads *payloads, const char *name, const char *last_name)
{
    const size_t len = strcspn(name, "-");
    const bool is_new =
        last_name == NULL || strcspn(last_name, "-") != len || strncmp(name, last_name, len) != 0;

    if (is_new)
        payloads->programs[payloads->n_programs++] = (struct payload_program){payloads->n, 0};
    payloads->programs[payloads->n_programs - 1].n++;
}

static enum fg_code load_entries(const struct payload_choice *choice, struct dirent **entries,
                                 size_t n_entries, struct payloads *payloads, struct fg_err *err)
{
    const char *last_name = NULL;

    for (size_t i = 0; i < n_entries; i++) {
        char path[PATH_MAX_BYTES];
        struct payload *payload = &payloads->items[payloads->n];

        (void)snprintf(path, sizeof path, "%s/%s", choice->folder, entries[i]->d_name);
        if (!is_wanted(choice, entries[i]->d_name, path))
            continue;
        if (load_file(path, payload, err) != FG_OK)
            return fg_wrap(err, "%s", path);
        count_program(payloads, entries[i]->d_name, last_name);
        last_name = entries[i]->d_name;
        payloads->n++;
        payloads->bytes += payload->len;
    }
    if (payloads->n == 0)
        return fg_fail(err, FG_E_NOT_FOUND, "%s has no profile that fits", choice->folder);
    return FG_OK;
}

enum fg_code payloads_load(const struct payload_choice *choice, struct payloads *ret_payloads,
                           struct fg_err *err)
{
    struct dirent **entries;
    const int n = scandir(choice->folder, &entries, NULL, alphasort);
    enum fg_code code;

    if (n < 0)
        return fg_fail(err, FG_E_NOT_FOUND, "%s is no folder", choice->folder);
    *ret_payloads = (struct payloads){
        .items = calloc((size_t)n + 1, sizeof *ret_payloads->items),
        .programs = calloc((size_t)n + 1, sizeof *ret_payloads->programs),
    };
    fg_assert(ret_payloads->items != NULL && ret_payloads->programs != NULL);
    code = load_entries(choice, entries, (size_t)n, ret_payloads, err);
    for (int i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
    if (code != FG_OK)
        payloads_free(ret_payloads);
    return code;
}

void payloads_free(struct payloads *payloads)
{
    for (size_t i = 0; i < payloads->n; i++)
        free(payloads->items[i].gzip);
    free(payloads->items);
    free(payloads->programs);
    *payloads = (struct payloads){0};
}

/*
 *     1f 8b 08 00 00000000 00 ff      header, nothing optional
 *     01 LEN ~LEN (16 bits, le)       one stored block, the last
 *     48 varint                       time_nanos
 *     CRC32 LEN (32 bits, le)
 */
size_t payload_time(int64_t time_ns, uint8_t out[PAYLOAD_TIME_MAX_BYTES])
{
    static const uint8_t header[] = {0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0xff, 0x01};
    uint8_t field[11] = {KEY_TIME_NANOS};
    uint64_t rest = (uint64_t)time_ns;
    size_t len = 1, at = sizeof header;
    uint32_t crc;

    do {
        field[len++] = (uint8_t)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
        rest >>= 7;
    } while (rest > 0);
    crc = (uint32_t)crc32(0, field, (uInt)len);

    memcpy(out, header, sizeof header);
    out[at++] = (uint8_t)len;
    out[at++] = 0;
    out[at++] = (uint8_t)~len;
    out[at++] = 0xff;
    memcpy(out + at, field, len);
    at += len;
    for (unsigned shift = 0; shift < 32; shift += 8)
        out[at++] = (uint8_t)(crc >> shift);
    for (unsigned shift = 0; shift < 32; shift += 8)
        out[at++] = (uint8_t)(len >> shift);
    return at;
}
