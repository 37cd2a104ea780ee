#include "ingester/keys.h"

#include "common/base/id_codec.h"

const char *const ing_head_families[HEAD_FAMILIES] = {"default",  "series", "dict",       "rounds",
                                                      "profiles", "outbox", "outbox_dead"};

/* Signed numbers in the order of their bytes. */
static uint64_t flip_sign(int64_t value)
{
    return (uint64_t)value ^ (UINT64_C(1) << 63);
}

uint32_t ing_head_window(int64_t time_ns, int64_t duration_ns)
{
    /* Bounded, so the times of a window are bounded, too (keys.h). */
    int64_t counted = FG_MAX(FG_MIN(duration_ns, HEAD_DURATION_MAX_NS), 0);
    int64_t window = fg_time_add(time_ns, counted) / HEAD_WINDOW_NS;

    return window < 0 ? 0 : window > UINT32_MAX ? UINT32_MAX : (uint32_t)window;
}

int64_t ing_head_window_first_ns(uint32_t window)
{
    /* It takes all times before 1970. */
    if (window == 0)
        return INT64_MIN;
    return FG_MIN(window, INT64_MAX / HEAD_WINDOW_NS) * HEAD_WINDOW_NS - HEAD_DURATION_MAX_NS;
}

int64_t ing_head_window_end_ns(uint32_t window)
{
    return window >= INT64_MAX / HEAD_WINDOW_NS ? INT64_MAX
                                                : ((int64_t)window + 1) * HEAD_WINDOW_NS;
}

bool ing_head_same_group(const struct ing_head_group_key *a, const struct ing_head_group_key *b)
{
    return a->tenant == b->tenant && a->shard == b->shard && a->window == b->window;
}

bool ing_head_same_chunk(const struct ing_head_chunk_key *a, const struct ing_head_chunk_key *b)
{
    return ing_head_same_group(&a->group, &b->group) && a->number == b->number;
}

int ing_head_group_cmp(const struct ing_head_group_key *a, const struct ing_head_group_key *b)
{
    if (a->tenant != b->tenant)
        return a->tenant < b->tenant ? -1 : 1;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    return (a->window > b->window) - (a->window < b->window);
}

int ing_head_chunk_cmp(const struct ing_head_chunk_key *a, const struct ing_head_chunk_key *b)
{
    int order = ing_head_group_cmp(&a->group, &b->group);

    return order != 0 ? order : (a->number > b->number) - (a->number < b->number);
}

void ing_head_put_chunk_key(struct fg_buf *out, const struct ing_head_chunk_key *key)
{
    fg_buf_be32(out, key->group.tenant);
    fg_buf_be16(out, key->group.shard);
    fg_buf_be32(out, key->group.window);
    fg_buf_be32(out, key->number);
}

void ing_head_put_series_seek(struct fg_buf *out, const struct ing_head_chunk_key *chunk,
                              uint32_t series, int64_t time_ns)
{
    ing_head_put_chunk_key(out, chunk);
    fg_buf_be32(out, series);
    fg_buf_be64(out, flip_sign(time_ns));
}

void ing_head_put_profile_key(struct fg_buf *out, const struct ing_head_profile_key *key)
{
    ing_head_put_series_seek(out, &key->chunk, key->series, key->time_ns);
    fg_buf_id(out, key->id);
}

static struct ing_head_chunk_key get_chunk(struct fg_cur *cur)
{
    struct ing_head_chunk_key key;

    key.group.tenant = fg_cur_be32(cur);
    key.group.shard = fg_cur_be16(cur);
    key.group.window = fg_cur_be32(cur);
    key.number = fg_cur_be32(cur);
    return key;
}

bool ing_head_get_chunk_key(struct fg_slice in, struct ing_head_chunk_key *ret_key)
{
    struct fg_cur cur = fg_cur(in);

    *ret_key = get_chunk(&cur);
    return fg_cur_end(&cur);
}

bool ing_head_get_profile_key(struct fg_slice in, struct ing_head_profile_key *ret_key)
{
    struct fg_cur cur = fg_cur(in);

    /* Checked once, so the reads below cannot fail. */
    if (in.len != HEAD_PROFILE_KEY_BYTES)
        return false;
    ret_key->chunk = get_chunk(&cur);
    ret_key->series = fg_cur_be32(&cur);
    ret_key->time_ns = (int64_t)flip_sign((int64_t)fg_cur_be64(&cur));
    ret_key->id = fg_cur_id(&cur);
    return true;
}

bool ing_head_next_prefix(struct fg_buf *prefix)
{
    while (prefix->len > 0 && prefix->ptr[prefix->len - 1] == UINT8_MAX)
        prefix->len--;
    if (prefix->len == 0)
        return false;
    prefix->ptr[prefix->len - 1]++;
    return true;
}
