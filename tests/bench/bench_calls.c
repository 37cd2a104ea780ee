/*
 * What calls between services cost, in the clear, in TLS with certificates and with a secret: a
 * caller and a server in this process, one call at a time, each with a payload of that size that
 * comes back.
 *
 *     bench_calls BYTES...
 *
 * Prints a row for each size and transport: calls a second, and the processor time of both sides
 * for a megabyte that is sent or received.
 */
#include "common/base/time.h"
#include "common/net/rpc/rpc.h"
#include "tests/lib/certs.h"
#include "tests/lib/rpc_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 128 };

static char cert_file[PATH_BYTES], key_file[PATH_BYTES], secret_file[PATH_BYTES];

static const int64_t RUN_NS = 2 * FG_SECOND_NS;

struct pair {
    struct fg_rpc *rpc;
    struct fg_rpc_server *server;
    struct fg_peer *peer;
};

static int64_t processor_ns(void)
{
    struct timespec at;

    fg_assert(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at) == 0);
    return at.tv_sec * FG_SECOND_NS + at.tv_nsec;
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code == FG_OK)
        return;
    (void)fprintf(stderr, "bench_calls: %s\n", err->msg);
    exit(1);
}

/* One certificate for both sides, which is its own authority. */
static struct fg_rpc *open_tls(const char *folder)
{
    static struct fg_rpc_settings settings = {.tls_cert_file = cert_file,
                                              .tls_key_file = key_file,
                                              .tls_ca_file = cert_file,
                                              .threads = 2,
                                              .answers_max_bytes = 64 << 20};
    struct cert cert = cert_make("bench", NULL, 10);
    struct fg_rpc *rpc;
    struct fg_err err;

    (void)snprintf(cert_file, sizeof cert_file, "%s/cert.pem", folder);
    (void)snprintf(key_file, sizeof key_file, "%s/key.pem", folder);
    cert_write(&cert, cert_file, key_file);
    cert_free(&cert);
    must(fg_rpc_create(&settings, NULL, &rpc, &err), &err);
    return rpc;
}

static struct fg_rpc *open_secret(const char *folder)
{
    static struct fg_rpc_settings settings = {
        .secret_file = secret_file, .threads = 2, .answers_max_bytes = 64 << 20};
    struct fg_rpc *rpc;
    struct fg_err err;
    FILE *file;

    (void)snprintf(secret_file, sizeof secret_file, "%s/secret", folder);
    file = fopen(secret_file, "we");
    fg_assert(file != NULL && fputs("a secret of the benchmark, 32 characters\n", file) >= 0 &&
              fclose(file) == 0);
    must(fg_rpc_create(&settings, NULL, &rpc, &err), &err);
    return rpc;
}

static struct pair open_pair(struct fg_rpc *rpc, const char *scheme)
{
    struct pair pair = {.rpc = rpc, .server = fg_rpc_server_create(rpc, 4)};
    char url[RPC_RUN_URL_BYTES];
    struct fg_err err;

    rpc_run_url(scheme, url);
    fg_rpc_server_handle(pair.server, FG_RPC_PUSH, rpc_run_echo, NULL);
    must(fg_rpc_server_start(pair.server, url, &err), &err);
    must(fg_peer_dial(rpc, url, 4, &pair.peer, &err), &err);
    rpc_run_connected(pair.peer);
    return pair;
}

static void call(const struct pair *pair, struct fg_slice payload)
{
    struct fg_call call = rpc_run_call(FG_RPC_PUSH, 60 * FG_SECOND_NS);

    call.payload = payload;
    fg_assert(fg_peer_call(pair->peer, &call) == FG_OK && call.reply_payload.len == payload.len);
    fg_call_done(pair->peer, &call);
}

static void measure(const struct pair *pair, const char *name, struct fg_slice payload)
{
    int64_t begin_ns, end_ns, used_ns;
    double mb;
    int calls = 0;

    call(pair, payload);
    begin_ns = end_ns = fg_mono_ns(fg_clock_real());
    used_ns = processor_ns();
    while (end_ns - begin_ns < RUN_NS) {
        call(pair, payload);
        calls++;
        end_ns = fg_mono_ns(fg_clock_real());
    }
    used_ns = processor_ns() - used_ns;
    mb = 2.0 * calls * (double)payload.len / 1e6; /* there and back */
    printf("| %zu | %s | %.0f | %.3f | %.3f |\n", payload.len, name,
           calls * 1e9 / (double)(end_ns - begin_ns), (double)used_ns / 1e6 / calls,
           (double)used_ns / 1e6 / mb);
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/fg_bench_calls.XXXXXX";
    struct fg_rpc *rpc, *with_secret;
    struct pair clear, tls, secret;

    if (argc < 2) {
        (void)fprintf(stderr, "bench_calls BYTES...\n");
        return 2;
    }
    fg_assert(mkdtemp(folder) != NULL);
    rpc = open_tls(folder);
    with_secret = open_secret(folder);
    clear = open_pair(NULL, "tcp");
    tls = open_pair(rpc, "tls+tcp");
    secret = open_pair(with_secret, "tls+tcp");
    printf("| bytes | | calls/s | CPU ms a call | CPU ms a MB |\n|---|---|---|---|---|\n");
    for (int i = 1; i < argc; i++) {
        size_t len = strtoul(argv[i], NULL, 10);
        uint8_t *bytes = fg_malloc(len + 1);

        for (size_t j = 0; j < len; j++)
            bytes[j] = (uint8_t)(j * 31 >> 3);
        measure(&clear, "tcp", fg_bytes(bytes, len));
        measure(&tls, "tls+tcp", fg_bytes(bytes, len));
        measure(&secret, "tls+tcp, secret", fg_bytes(bytes, len));
        free(bytes);
    }
    fg_peer_destroy(clear.peer);
    fg_peer_destroy(tls.peer);
    fg_peer_destroy(secret.peer);
    fg_rpc_server_destroy(clear.server);
    fg_rpc_server_destroy(tls.server);
    fg_rpc_server_destroy(secret.server);
    fg_rpc_destroy(with_secret);
    fg_rpc_destroy(rpc);
    fg_assert(unlink(cert_file) == 0 && unlink(key_file) == 0 && unlink(secret_file) == 0 &&
              rmdir(folder) == 0);
    return 0;
}
