/*
 * Networks by their addresses: "10.0.0.0/8, 192.0.2.7, fd00::/8" (RFC 4632, RFC 4291, 2.3).
 *
 * Thread: any, once read.
 */
#ifndef FG_COMMON_ACCESS_GUARD_NETWORKS_H
#define FG_COMMON_ACCESS_GUARD_NETWORKS_H

#include "common/base/err.h"
#include "common/base/slice.h"

enum { FG_NETWORKS_MAX = 64 }; /* compared one after another with each request */

struct fg_networks {
    struct fg_network {
        uint8_t address[16]; /* IPv4 as IPv6 (::ffff:a.b.c.d) */
        unsigned bits;
    } items[FG_NETWORKS_MAX];
    size_t n;
};

/* Reads a list; an empty one has no networks. FG_E_INVALID names the item that is wrong. */
enum fg_code fg_networks_read(struct fg_slice text, struct fg_networks *ret_networks,
                              struct fg_err *err) fg_must_check;

/* Returns whether the address, as text, is in one of them. */
bool fg_networks_have(const struct fg_networks *networks, struct fg_slice address);

#endif
