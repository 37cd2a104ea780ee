/* The server: routes, listening sockets, beginning and end. */
#include "common/net/http/impl.h"
#include "common/runtime/thread.h"

#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

struct fg_http_server *fg_http_server_create(const struct fg_http_config *config,
                                             const struct fg_http_lent *lent)
{
    struct fg_http_server *server = fg_new(struct fg_http_server);

    server->config = *config;
    server->config.pipeline_max = FG_MAX(config->pipeline_max, 1);
    /* Positions in a head are 32 bits wide. */
    server->config.head_max_bytes = FG_MIN(config->head_max_bytes, (uint64_t)INT32_MAX);
    if (config->connections_per_address_max == 0)
        server->config.connections_per_address_max = FG_MAX(config->connections_max / 2, 1);
    server->lent = *lent;
    fg_cond_init(&server->closed);
    fg_assert(pthread_mutex_init(&server->lock, NULL) == 0);
    return server;
}

void fg_http_server_destroy(struct fg_http_server *server)
{
    if (server == NULL)
        return;
    fg_assert(server->open_handles == 0); /* stop comes first */
    (void)pthread_cond_destroy(&server->closed);
    (void)pthread_mutex_destroy(&server->lock);
    free(server->routes);
    free(server->loops);
    free(server);
}

/* --- routes --- */

void fg_http_server_route(struct fg_http_server *server, const struct fg_http_route *route)
{
    fg_assert(server->n_loops == 0); /* the loops read the routes without a lock */
    fg_assert(route->path[0] == '/' && route->handler != NULL);
    fg_assert(route->kind >= FG_HTTP_PROBE && route->kind <= FG_HTTP_OPERATES);
    server->routes = fg_realloc(server->routes, (server->n_routes + 1) * sizeof *server->routes);
    fg_assert(route->kind == FG_HTTP_PROBE || route->scopes != 0);
    server->routes[server->n_routes] = *route;
    if (route->kind == FG_HTTP_PROBE)
        server->routes[server->n_routes].scopes = (unsigned)FG_SCOPE_OPEN;
    if (route->methods & FG_HTTP_GET)
        server->routes[server->n_routes].methods |= FG_HTTP_HEAD;
    server->n_routes++;
}

const struct fg_http_route *fg_http_server_routes(const struct fg_http_server *server,
                                                  size_t *ret_n)
{
    *ret_n = server->n_routes;
    return server->routes;
}

/* Returns how well the path fits a route: 0 not at all, more for a longer match, most for the
 * whole path. */
static size_t route_fit(const struct fg_http_route *route, struct fg_slice path)
{
    if (fg_slice_is(path, route->path))
        return SIZE_MAX;
    return route->prefix && fg_slice_starts(path, route->path) ? strlen(route->path) : 0;
}

enum fg_http_refusal fg_http_server_match(const struct fg_http_server *server,
                                          struct fg_http_request *req)
{
    const struct fg_http_route *found = NULL;
    size_t best = 0;

    for (size_t i = 0; i < server->n_routes; i++) {
        const struct fg_http_route *route = &server->routes[i];
        size_t fit = route_fit(route, req->path);

        if (fit == 0 || fit < best)
            continue;
        if (fit > best) {
            found = NULL;
            req->allow = 0;
            best = fit;
        }
        req->allow |= route->methods;
        if (found == NULL && (route->methods & req->method))
            found = route;
    }
    if (found == NULL) {
        req->stats_at = fg_http_stats_of(server->stats, SIZE_MAX, req->method);
        return best == 0 ? HTTP_NOT_FOUND : HTTP_BAD_METHOD;
    }
    req->route = found;
    req->stats_at = fg_http_stats_of(server->stats, (size_t)(found - server->routes), req->method);
    req->body_max_bytes = found->body_max_bytes;
    req->bodies = found->bodies != NULL ? found->bodies : server->lent.bodies;
    return HTTP_ACCEPTED;
}

/* --- a loop's part --- */

struct fg_http_loop *fg_http_loop_create(struct fg_http_server *server, struct fg_loop *loop)
{
    struct fg_http_loop *owner = fg_new(struct fg_http_loop);

    owner->server = server;
    owner->loop = loop;
    owner->config = server->config;
    owner->lent = server->lent;
    owner->loopback = server->loopback;
    owner->peers = fg_http_peers_create();
    owner->stats = server->stats;
    owner->clock = fg_clock_real();
    atomic_init(&owner->refs, 1);
    return owner;
}

void fg_http_loop_unref(struct fg_http_loop *owner)
{
    if (atomic_fetch_sub(&owner->refs, 1) > 1)
        return;
    while (owner->spare != NULL) {
        struct fg_http_request *next = owner->spare->next;

        fg_http_request_destroy(owner->spare);
        owner->spare = next;
    }
    fg_http_peers_destroy(owner->peers);
    free(owner);
}

void fg_http_server_handles(struct fg_http_server *server, int by)
{
    pthread_mutex_lock(&server->lock);
    server->open_handles += (unsigned)by;
    if (server->open_handles == 0)
        pthread_cond_broadcast(&server->closed);
    pthread_mutex_unlock(&server->lock);
}

/* --- addresses --- */

enum { HOST_MAX_BYTES = 256 }; /* RFC 1035 2.3.4: a name has at most 255 */

struct http_address {
    struct sockaddr_storage addr;
    socklen_t len;
};

/* Splits "HOST:PORT". The host may be in brackets or empty. */
static enum fg_code split_listen(const char *listen, char *host, size_t host_size,
                                 const char **ret_port, struct fg_err *err)
{
    const char *colon = strrchr(listen, ':');
    struct fg_slice name;
    uint64_t port;

    if (colon == NULL || !fg_parse_u64(fg_cstr(colon + 1), &port) || port > UINT16_MAX)
        return fg_fail(err, FG_E_INVALID, "listen address \"%s\": not HOST:PORT", listen);
    name = fg_bytes(listen, (size_t)(colon - listen));
    if (fg_slice_starts(name, "[") && fg_slice_ends(name, "]"))
        name = fg_slice_sub(name, 1, name.len - 2);
    if (name.len >= host_size)
        return fg_fail(err, FG_E_INVALID, "listen address \"%s\": host too long", listen);
    (void)snprintf(host, host_size, "%.*s", FG_S(name));
    *ret_port = colon + 1;
    return FG_OK;
}

static void address_of_all(const char *port, bool ipv6, struct http_address *ret_address)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    uint64_t number = 0;

    fg_assert(fg_parse_u64(fg_cstr(port), &number));
    six.sin6_port = four.sin_port = htons((uint16_t)number);
    ret_address->len = ipv6 ? sizeof six : sizeof four;
    memset(&ret_address->addr, 0, sizeof ret_address->addr);
    if (ipv6)
        memcpy(&ret_address->addr, &six, sizeof six);
    else
        memcpy(&ret_address->addr, &four, sizeof four);
}

/* True if there is IPv6 on this machine. Containers often have none. */
static bool have_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct http_address any;
    bool ok;

    if (fd < 0)
        return false;
    address_of_all("0", true, &any);
    ok = bind(fd, (struct sockaddr *)&any.addr, any.len) == 0;
    (void)close(fd);
    return ok;
}

/* Finds the address of a host. Returns why there is none; NULL: it was found. */
static const char *look_up(const char *host, const char *port, struct http_address *ret_address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    int failed = getaddrinfo(host, port, &hints, &found);

    if (failed != 0)
        return gai_strerror(failed);
    memset(&ret_address->addr, 0, sizeof ret_address->addr);
    memcpy(&ret_address->addr, found->ai_addr, found->ai_addrlen);
    ret_address->len = found->ai_addrlen;
    freeaddrinfo(found);
    return NULL;
}

static enum fg_code resolve(const char *listen, struct http_address *ret_address,
                            struct fg_err *err)
{
    char host[HOST_MAX_BYTES] = "";
    const char *port = ""; /* gcc does not see that err->code is a failure below */
    const char *fault;

    if (split_listen(listen, host, sizeof host, &port, err) != FG_OK)
        return err->code;
    if (host[0] == '\0') {
        address_of_all(port, have_ipv6(), ret_address);
        return FG_OK;
    }
    fault = look_up(host, port, ret_address);
    return fault == NULL ? FG_OK
                         : fg_fail(err, FG_E_INVALID, "listen address \"%s\": %s", listen, fault);
}

enum fg_code fg_http_check_listen(const char *setting, const char *listen, struct fg_err *err)
{
    struct http_address address;
    char host[HOST_MAX_BYTES] = "";
    const char *port = "", *fault;
    uint64_t number;

    if (split_listen(listen, host, sizeof host, &port, err) != FG_OK) {
        bool is_port = fg_parse_u64(fg_cstr(listen), &number) && number <= UINT16_MAX;

        return fg_fail(err, FG_E_INVALID, "%s is %s: it has to be HOST:PORT, such as 127.0.0.1:%s",
                       setting, listen, is_port ? listen : "4040");
    }
    fault = host[0] == '\0' ? NULL : look_up(host, port, &address);
    return fault == NULL ? FG_OK
                         : fg_fail(err, FG_E_INVALID, "%s is %s: the host %s has no address: %s",
                                   setting, listen, host, fault);
}

static enum fg_code fail_listen(struct fg_err *err, int errnum, const char *listen)
{
    enum fg_code code = errnum == EACCES || errnum == EPERM ? FG_E_DENIED : FG_E_UNAVAILABLE;

    return fg_fail(err, code, "listen on \"%s\": %s", listen, strerrordesc_np(errnum));
}

/* Binds a socket. share: with the sockets of our other loops. Returns the socket, or -1 and
 * errno. */
static int bind_socket(const struct http_address *address, bool share)
{
    int on = 1, off = 0;
    int fd = socket(address->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int errnum;

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        (!share || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) &&
        (address->addr.ss_family != AF_INET6 ||
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
        bind(fd, (const struct sockaddr *)&address->addr, address->len) == 0)
        return fd;
    errnum = errno;
    (void)close(fd);
    errno = errnum;
    return -1;
}

/* Learns the port if the kernel chose it. */
static unsigned learn_port(int fd, struct http_address *address)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;

    address->len = sizeof address->addr;
    fg_assert(getsockname(fd, (struct sockaddr *)&address->addr, &address->len) == 0);
    if (address->addr.ss_family == AF_INET6) {
        memcpy(&six, &address->addr, sizeof six);
        return ntohs(six.sin6_port);
    }
    memcpy(&four, &address->addr, sizeof four);
    return ntohs(four.sin_port);
}

/*
 * Sockets that share a port may belong to two programs of one user: without this look, a second
 * flamegrid would start and take half of the connections of the first.
 */
static bool address_is_free(const struct http_address *address)
{
    int fd = bind_socket(address, false);

    if (fd < 0)
        return false;
    (void)close(fd);
    return true;
}

/* --- start and stop --- */

struct listen_call {
    struct fg_http_loop *owner;
    int fd, status;
};

static void call_listen(void *arg)
{
    struct listen_call *call = arg;

    fg_http_loop_listen(call->owner, call->fd, &call->status);
}

static void call_drain(void *arg)
{
    fg_http_loop_drain(arg);
}

static void call_cut(void *arg)
{
    fg_http_loop_cut(arg);
}

static enum fg_code listen_on_loop(struct fg_http_server *server, struct http_address *address,
                                   struct fg_loop *loop, const char *listen, struct fg_err *err)
{
    struct listen_call call = {.fd = bind_socket(address, true)};

    if (call.fd < 0)
        return fail_listen(err, errno, listen);
    server->port = learn_port(call.fd, address);
    call.owner = fg_http_loop_create(server, loop);
    server->loops[server->n_loops++] = call.owner;
    fg_loop_call(loop, call_listen, &call);
    if (call.status != 0)
        return fail_listen(err, -call.status, listen); /* libuv's numbers are errno's, negated */
    return FG_OK;
}

enum fg_code fg_http_server_start(struct fg_http_server *server, const char *listen,
                                  struct fg_loop *const *loops, size_t n_loops, struct fg_err *err)
{
    struct http_address address = {0};

    fg_assert(server->n_loops == 0 && n_loops > 0);
    if (resolve(listen, &address, err) != FG_OK)
        return err->code;
    if (!address_is_free(&address))
        return fail_listen(err, errno, listen);
    server->loopback = fg_http_is_loopback((const struct sockaddr *)&address.addr);
    if (server->loopback && server->config.cleartext_on_loopback)
        server->config.tls = NULL;
    if (server->stats == NULL)
        server->stats =
            fg_http_stats_create(server->lent.registry, server->routes, server->n_routes);
    free(server->loops);
    server->loops = fg_calloc(n_loops, sizeof(struct fg_http_loop *));
    for (size_t i = 0; i < n_loops; i++) {
        if (listen_on_loop(server, &address, loops[i], listen, err) != FG_OK) {
            fg_http_server_stop(server);
            return err->code;
        }
    }
    return FG_OK;
}

unsigned fg_http_server_port(const struct fg_http_server *server)
{
    return server->port;
}

/* Waits until all handles are closed. timeout_ns < 0: as long as it takes. */
static void wait_closed(struct fg_http_server *server, int64_t timeout_ns)
{
    struct timespec until;
    int status = 0;

    fg_assert(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_sec += timeout_ns / FG_SECOND_NS;
    until.tv_nsec += timeout_ns % FG_SECOND_NS;
    if (until.tv_nsec >= FG_SECOND_NS) {
        until.tv_sec++;
        until.tv_nsec -= FG_SECOND_NS;
    }
    pthread_mutex_lock(&server->lock);
    while (server->open_handles > 0 && status == 0)
        status = timeout_ns < 0 ? pthread_cond_wait(&server->closed, &server->lock)
                                : pthread_cond_timedwait(&server->closed, &server->lock, &until);
    pthread_mutex_unlock(&server->lock);
}

void fg_http_server_stop(struct fg_http_server *server)
{
    for (size_t i = 0; i < server->n_loops; i++)
        fg_loop_call(server->loops[i]->loop, call_drain, server->loops[i]);
    wait_closed(server, server->config.drain_ns);
    for (size_t i = 0; i < server->n_loops; i++)
        fg_loop_call(server->loops[i]->loop, call_cut, server->loops[i]);
    wait_closed(server, -1);
    for (size_t i = 0; i < server->n_loops; i++)
        fg_http_loop_unref(server->loops[i]);
    server->n_loops = 0;
}
