/*
 * Decides whether a caller may call a route. The kind of the route decides (enum fg_http_kind).
 *
 * A web page of any site can make its visitor's browser send requests to 127.0.0.1 or into a
 * private network. Three checks stop that:
 *
 *  - The browser sends Origin and Sec-Fetch-Site, which the page can neither omit nor forge. A
 *    request that changes something is refused if they name another site. Agents and commands send
 *    neither.
 *  - The page cannot add a header of its own to a request for another site unless that site allows
 *    it (CORS), and we never do. So requests that act for an operator need one, X-Flamegrid-Action.
 *  - The page's own name may point to 127.0.0.1 (DNS rebinding), and then the browser takes us for
 *    the page's own site. But Host still has the page's name, so a server that only this machine
 *    can reach allows only names of this machine.
 */
#include "common/net/http/impl.h"

#include <arpa/inet.h>

static const char action_header[] = "X-Flamegrid-Action";

/* --- names --- */

/* Returns whether the list ("name, other") has the name, or "*". */
static bool is_listed(const char *list, struct fg_slice name)
{
    struct fg_slice rest = fg_cstr(list == NULL ? "" : list);

    while (rest.len > 0) {
        size_t end = FG_MIN(fg_slice_find(rest, ','), rest.len);
        struct fg_slice item = fg_trim(fg_slice_sub(rest, 0, end));

        if (fg_slice_is(item, "*") || (item.len > 0 && fg_slice_eq_nocase(item, name)))
            return true;
        rest = fg_slice_sub(rest, end + 1, rest.len);
    }
    return false;
}

/* Returns the host of "host:port", "[::1]:port" or "host", without brackets. */
static struct fg_slice host_of(struct fg_slice authority)
{
    size_t end;

    if (fg_slice_starts(authority, "[")) {
        end = fg_slice_find(authority, ']');
        return end == SIZE_MAX ? authority : fg_slice_sub(authority, 1, end - 1);
    }
    end = FG_MIN(fg_slice_find(authority, ':'), authority.len);
    return fg_slice_sub(authority, 0, end);
}

/* Returns whether the host is an IP address, and whether that is a loopback address. */
static bool is_address(struct fg_slice host, bool *ret_loopback)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    char text[INET6_ADDRSTRLEN];

    if (host.len >= sizeof text)
        return false;
    (void)snprintf(text, sizeof text, "%.*s", FG_S(host));
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
        *ret_loopback = fg_http_is_loopback((const struct sockaddr *)&four);
        return true;
    }
    if (inet_pton(AF_INET6, text, &six.sin6_addr) == 1) {
        *ret_loopback = fg_http_is_loopback((const struct sockaddr *)&six);
        return true;
    }
    return false;
}

bool fg_http_is_loopback(const struct sockaddr *addr)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;

    if (addr->sa_family == AF_INET) {
        memcpy(&four, addr, sizeof four);
        return ntohl(four.sin_addr.s_addr) >> 24 == 127;
    }
    if (addr->sa_family != AF_INET6)
        return false;
    memcpy(&six, addr, sizeof six);
    return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr) && six.sin6_addr.s6_addr[12] == 127);
}

bool fg_http_is_loopback_host(struct fg_slice authority)
{
    struct fg_slice host = host_of(authority);
    bool loopback = false;

    /* RFC 6761, 6.3: names below localhost are loopback names, too. */
    if (fg_slice_ends(host, "."))
        host.len--;
    return fg_slice_is_nocase(host, "localhost") ||
           (host.len > 10 &&
            fg_slice_is_nocase(fg_slice_sub(host, host.len - 10, host.len), ".localhost")) ||
           (is_address(host, &loopback) && loopback);
}

/* --- the checks --- */

static bool host_is_allowed(const struct fg_http_request *req)
{
    const struct fg_http_loop *owner = req->conn->owner;
    const char *list = owner->config.allowed_hosts;
    bool listed = list != NULL && list[0] != '\0', loopback;

    if (req->authority.ptr == NULL || (!owner->loopback && !listed)) /* browsers always send Host */
        return true;
    if (fg_http_is_loopback_host(req->authority) || is_listed(list, host_of(req->authority)))
        return true;
    /* An address cannot be rebound like a name, and scrapes ask for pods by their address. */
    return !owner->loopback && is_address(host_of(req->authority), &loopback);
}

/* Removes the port if it is the default of the scheme. */
static struct fg_slice without_default_port(struct fg_slice authority, bool https)
{
    const char *port = https ? ":443" : ":80";

    if (fg_slice_ends(authority, port))
        authority.len -= strlen(port);
    return authority;
}

/* Returns whether the origin ("https://host:port") is the site that was asked. The scheme may
 * differ, because a proxy in front of us may end TLS. */
static bool is_own_origin(const struct fg_http_request *req, struct fg_slice origin)
{
    bool https = fg_slice_starts(origin, "https://");
    size_t skip = https ? strlen("https://") : strlen("http://");

    if (!https && !fg_slice_starts(origin, "http://"))
        return false; /* "null", for example */
    return fg_slice_eq_nocase(without_default_port(fg_slice_sub(origin, skip, origin.len), https),
                              without_default_port(req->authority, https));
}

/* Returns whether the request may change something, judged by the page that sent it. "same-site" is
 * refused: it is another port or name of the same domain, so possibly somebody else's program. */
static bool site_is_allowed(const struct fg_http_request *req)
{
    struct fg_slice origin = fg_http_header(req, "Origin");
    struct fg_slice site = fg_http_header(req, "Sec-Fetch-Site");

    if (origin.ptr != NULL && is_listed(req->conn->owner->config.allowed_origins, origin))
        return true;
    if (site.ptr != NULL)
        return fg_slice_is(site, "same-origin") || fg_slice_is(site, "none");
    return origin.ptr == NULL || is_own_origin(req, origin);
}

enum fg_http_refusal fg_http_doors_check(const struct fg_http_request *req, enum fg_http_kind kind)
{
    /* RFC 9110, 9.2.1: safe methods change nothing. */
    const unsigned safe = FG_HTTP_GET | FG_HTTP_HEAD | FG_HTTP_OPTIONS;

    if (kind == FG_HTTP_PROBE)
        return HTTP_ACCEPTED;
    if (req->conn->uncertified)
        return HTTP_NO_CERTIFICATE;
    if (!host_is_allowed(req))
        return HTTP_FORBIDDEN_HOST;
    if (kind == FG_HTTP_READS || (req->method & safe))
        return HTTP_ACCEPTED;
    if (!site_is_allowed(req))
        return HTTP_CROSS_SITE;
    if (kind == FG_HTTP_OPERATES && fg_http_header(req, action_header).len == 0)
        return HTTP_NO_ACTION;
    return HTTP_ACCEPTED;
}
