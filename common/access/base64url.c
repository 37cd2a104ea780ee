#include "common/access/base64url.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* The six bits of a character; -1: it has none. */
static int digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '-')
        return 62;
    return c == '_' ? 63 : -1;
}

bool fg_base64url_parse(struct fg_slice text, uint8_t *out)
{
    unsigned bits = 0, n_bits = 0;
    size_t n = 0;

    if (text.len % 4 == 1) /* six bits do not make a byte */
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int six = digit(text.ptr[i]);

        if (six < 0)
            return false;
        bits = (bits << 6 | (unsigned)six) & 0xffffff;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[n++] = (uint8_t)(bits >> n_bits);
        }
    }
    return (bits & ((1U << n_bits) - 1)) == 0;
}

struct fg_slice fg_base64url_decode(struct fg_slice text, struct fg_arena *arena)
{
    size_t size = fg_base64url_size(text.len);
    uint8_t *out = fg_arena_alloc(arena, size);

    if (out == NULL || !fg_base64url_parse(text, out))
        return fg_bytes(NULL, 0);
    return fg_bytes(out, size);
}

void fg_base64url_put(struct fg_buf *out, struct fg_slice bytes)
{
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t n = FG_MIN(bytes.len - i, (size_t)3);
        uint32_t bits = 0;

        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < n ? bytes.ptr[i + k] : 0U);
        for (size_t k = 0; k <= n; k++)
            fg_buf_putc(out, (uint8_t)alphabet[bits >> (18 - 6 * k) & 63]);
    }
}
