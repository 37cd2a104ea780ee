#include "common/base/base64url.h"

#include "common/base/str.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Returns whether the bits of the last character that belong to no byte are zero. */
static bool ends_clean(struct fg_slice text)
{
    const char *last;
    unsigned unused = text.len % 4 == 2 ? 0xf : text.len % 4 == 3 ? 0x3 : 0;

    if (unused == 0)
        return true;
    last = strchr(alphabet, text.ptr[text.len - 1]);
    return last != NULL && ((unsigned)(last - alphabet) & unused) == 0;
}

bool fg_base64url_parse(struct fg_slice text, uint8_t *out)
{
    size_t len;

    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '\0' || strchr(alphabet, text.ptr[i]) == NULL)
            return false;
    return fg_parse_base64(text, out, &len) && ends_clean(text);
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
