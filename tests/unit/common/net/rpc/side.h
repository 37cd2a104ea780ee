/*
 * A process that calls or is called, for tests of TLS and secrets: its files in a folder of the
 * test's, its settings, and what is made of them. One thread; failures fail the test.
 */
#ifndef FG_TESTS_UNIT_COMMON_NET_RPC_SIDE_H
#define FG_TESTS_UNIT_COMMON_NET_RPC_SIDE_H

#include "common/net/rpc/rpc.h"
#include "tests/lib/certs.h"

enum { SIDE_CERT, SIDE_KEY, SIDE_CA, SIDE_SECRET, SIDE_FILES };
enum { SIDE_PATH_BYTES = 128 };

struct side {
    char files[SIDE_FILES][SIDE_PATH_BYTES]; /* PEM files, and the secret */
    struct fg_rpc_settings settings;
    struct fg_rpc *rpc; /* NULL until side_open(); freed by the test */
};

/* Names the files, sets settings without TLS and secret. Writes nothing. */
void side_init(struct side *side, const char *folder, const char *name);

/* Writes a certificate for a name, its key, and the authority to trust. days: until it ends;
 * negative: it has ended. */
void side_write_cert(const struct side *side, const char *name, const struct cert *issuer,
                     const struct cert *trusted, int days);

/* Resets the settings to those of side_init(), with the certificate files. */
void side_use_cert(struct side *side);

/* Resets the settings to those of side_init(), with the secret file. */
void side_use_secret(struct side *side);

/* Overwrites a file. */
void side_write_text(const char *path, const char *text);

/* Makes rpc of the settings. registry may be NULL. */
void side_open(struct side *side, struct fg_registry *registry);

#endif
