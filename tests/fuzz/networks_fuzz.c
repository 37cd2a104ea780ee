/* A list of networks up to the first line end, and an address behind it. Every network of a list
 * has its own address, and the list of all has every IPv6 address. */
#include "common/access/guard/networks.h"

#include <arpa/inet.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice text = fg_bytes(data, size), address;
    size_t end = FG_MIN(fg_slice_find(text, '\n'), text.len);
    struct fg_networks networks, all;
    char own[INET6_ADDRSTRLEN];
    struct fg_err err;

    address = fg_slice_sub(text, end + 1, SIZE_MAX);
    if (fg_networks_read(fg_slice_sub(text, 0, end), &networks, &err) != FG_OK)
        return 0;
    fg_assert(networks.n <= FG_NETWORKS_MAX);
    for (size_t i = 0; i < networks.n; i++) {
        fg_assert(inet_ntop(AF_INET6, networks.items[i].address, own, sizeof own) != NULL);
        fg_assert(fg_networks_have(&networks, fg_cstr(own)));
    }
    fg_assert(fg_networks_read(FG_LIT("::/0"), &all, &err) == FG_OK);
    if (fg_networks_have(&networks, address))
        fg_assert(fg_networks_have(&all, address));
    return 0;
}
