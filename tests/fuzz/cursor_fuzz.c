/*
 * The first bytes choose how the rest is read. Whatever they choose, the cursor stays inside the
 * input, never goes back, and an error is for good.
 */
#include "common/base/cursor.h"

static void step(struct fg_cur *cur, uint8_t op)
{
    struct fg_slice taken = {NULL, 0};

    switch (op % 12) {
    case 0:
        (void)fg_cur_u8(cur);
        break;
    case 1:
        (void)fg_cur_varint(cur);
        break;
    case 2:
        (void)fg_cur_zigzag(cur);
        break;
    case 3:
        taken = fg_cur_lenbytes(cur);
        break;
    case 4:
        taken = fg_cur_take(cur, op / 12);
        break;
    case 5:
        (void)fg_cur_le32(cur);
        break;
    case 6:
        (void)fg_cur_be64(cur);
        break;
    case 7:
        (void)fg_cur_be16(cur);
        break;
    case 8:
        fg_assert(fg_cur_count(cur, 3) <= cur->left / 3);
        break;
    case 10:
        (void)fg_cur_varint9(cur);
        break;
    case 11:
        fg_cur_skip_varint9(cur, op / 12);
        break;
    default:
        fg_pb_skip(cur, fg_cur_varint(cur));
        break;
    }
    /* Touches every byte, so that the sanitizer sees one that is not ours. */
    for (size_t i = 0; i < taken.len; i++)
        fg_assert(fg_slice_find(taken, taken.ptr[i]) <= i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n_ops = FG_MIN(size, 16);
    struct fg_cur cur = fg_cur(fg_bytes(data + n_ops, size - n_ops));

    for (size_t i = 0; i < 4 * n_ops; i++) {
        size_t left = cur.left;
        bool bad = cur.bad;

        step(&cur, data[i % n_ops]);
        fg_assert(cur.left <= left);
        fg_assert(!bad || (cur.bad && cur.left == 0));
    }
    return 0;
}
