#include "ingester/keys.h"

const char *const head_families[HEAD_FAMILIES] = {"default", "series", "dict", "groups",
                                                  "profiles"};

/* Signed numbers in the order of their bytes. */
static uint64_t flip_sign(int64_t value)
{
    return (uint64_t)value ^ (UINT64_C(1) << 63);
}

uint32_t head_window(int64_t until_ns)
{
    int64_t window = until_ns / HEAD_WINDOW_NS;

    return window < 0 ? 0 : window > UINT32_MAX ? UINT32_MAX : (uint32_t)window;
}

void head_put_group_key(struct fg_buf *out, const struct head_group_key *key)
{
    fg_buf_be32(out, key->tenant);
    fg_buf_be16(out, key->shard);
    fg_buf_be32(out, key->window);
}

void head_put_series_seek(struct fg_buf *out, const struct head_group_key *group, uint32_t series,
                          int64_t time_ns)
{
    head_put_group_key(out, group);
    fg_buf_be32(out, series);
    fg_buf_be64(out, flip_sign(time_ns));
}

void head_put_profile_key(struct fg_buf *out, const struct head_profile_key *key)
{
    uint8_t id[FG_ID_BYTES];

    head_put_series_seek(out, &key->group, key->series, key->time_ns);
    fg_id_put(id, key->id);
    fg_buf_append(out, id, sizeof id);
}

static struct head_group_key get_group(struct fg_cur *cur)
{
    struct head_group_key key;

    key.tenant = fg_cur_be32(cur);
    key.shard = fg_cur_be16(cur);
    key.window = fg_cur_be32(cur);
    return key;
}

bool head_get_group_key(struct fg_slice in, struct head_group_key *ret_key)
{
    struct fg_cur cur = fg_cur(in);

    *ret_key = get_group(&cur);
    return fg_cur_end(&cur);
}

bool head_get_profile_key(struct fg_slice in, struct head_profile_key *ret_key)
{
    struct fg_cur cur = fg_cur(in);
    struct fg_slice id;

    if (in.len != HEAD_PROFILE_KEY_BYTES)
        return false;
    ret_key->group = get_group(&cur);
    ret_key->series = fg_cur_be32(&cur);
    ret_key->time_ns = (int64_t)flip_sign((int64_t)fg_cur_be64(&cur));
    id = fg_cur_take(&cur, FG_ID_BYTES);
    ret_key->id = fg_id_get(id.ptr);
    return true;
}
