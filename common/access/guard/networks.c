#include "common/access/guard/networks.h"

#include "common/base/str.h"

#include <arpa/inet.h>

enum { V4_AT = 12, V4_BITS = 32, V6_BITS = 128 };

static bool read_address(struct fg_slice text, uint8_t out[16], bool *ret_v4)
{
    static const uint8_t mapped[V4_AT] = {[10] = 0xff, [11] = 0xff};
    char copy[INET6_ADDRSTRLEN];

    if (text.len >= sizeof copy || memchr(text.ptr, '\0', text.len) != NULL)
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    memcpy(out, mapped, V4_AT);
    *ret_v4 = inet_pton(AF_INET, copy, out + V4_AT) == 1;
    return *ret_v4 || inet_pton(AF_INET6, copy, out) == 1;
}

static bool read_network(struct fg_slice text, struct fg_network *network)
{
    size_t slash = fg_slice_find(text, '/');
    uint64_t bits = 0;
    bool v4;

    if (text.len == 0 || !read_address(fg_slice_sub(text, 0, slash), network->address, &v4))
        return false;
    network->bits = V6_BITS;
    if (slash == SIZE_MAX)
        return true;
    if (!fg_parse_u64(fg_slice_sub(text, slash + 1, SIZE_MAX), &bits) ||
        bits > (v4 ? V4_BITS : V6_BITS))
        return false;
    network->bits = (unsigned)bits + (v4 ? V6_BITS - V4_BITS : 0);
    return true;
}

enum fg_code fg_networks_read(struct fg_slice text, struct fg_networks *ret_networks,
                              struct fg_err *err)
{
    ret_networks->n = 0;
    text = fg_trim(text);
    while (text.len > 0) {
        size_t comma = FG_MIN(fg_slice_find(text, ','), text.len);
        struct fg_slice item = fg_trim(fg_slice_sub(text, 0, comma));
        struct fg_network *network = &ret_networks->items[ret_networks->n];

        if (ret_networks->n == FG_NETWORKS_MAX)
            return fg_fail(err, FG_E_INVALID, "more than %d networks", FG_NETWORKS_MAX);
        if (!read_network(item, network))
            return fg_fail(err, FG_E_INVALID, "\"%.*s\" is not a network like 10.0.0.0/8",
                           FG_S(fg_slice_sub(item, 0, 100)));
        for (unsigned bit = network->bits; bit < V6_BITS; bit++)
            if (network->address[bit / 8] & (0x80U >> bit % 8))
                return fg_fail(err, FG_E_INVALID, "\"%.*s\" has bits behind its prefix",
                               FG_S(item));
        ret_networks->n++;
        text = fg_slice_sub(text, comma + 1, SIZE_MAX);
    }
    return FG_OK;
}

static bool is_in(const struct fg_network *network, const uint8_t address[16])
{
    unsigned whole = network->bits / 8, rest = network->bits % 8;

    if (memcmp(network->address, address, whole) != 0)
        return false;
    return rest == 0 || ((network->address[whole] ^ address[whole]) >> (8 - rest)) == 0;
}

bool fg_networks_have(const struct fg_networks *networks, struct fg_slice address)
{
    uint8_t bytes[16];
    bool v4;

    if (networks->n == 0 || !read_address(address, bytes, &v4))
        return false;
    for (size_t i = 0; i < networks->n; i++)
        if (is_in(&networks->items[i], bytes))
            return true;
    return false;
}
