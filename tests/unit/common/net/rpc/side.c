#include "tests/unit/common/net/rpc/side.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/*
 * nng 1.11 forgets a connection when its dialer is closed in the middle of the handshake: a
 * callback starts the next step on an operation that was closed meanwhile, and nobody hears of it
 * again. These tests close dialers that never get through. By the folder nng was built from.
 */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:pynng";
}

static void reset_settings(struct side *side)
{
    side->settings = (struct fg_rpc_settings){.threads = 2, .answers_max_bytes = 64 << 20};
}

void side_init(struct side *side, const char *folder, const char *name)
{
    static const char *const names[SIDE_FILES] = {"cert.pem", "key.pem", "ca.pem", "secret"};

    for (size_t i = 0; i < SIDE_FILES; i++)
        (void)snprintf(side->files[i], SIDE_PATH_BYTES, "%s/%s-%s", folder, name, names[i]);
    reset_settings(side);
}

void side_write_cert(const struct side *side, const char *name, const struct cert *issuer,
                     const struct cert *trusted, int days)
{
    struct cert cert = cert_make(name, issuer, days);

    cert_write(&cert, side->files[SIDE_CERT], side->files[SIDE_KEY]);
    cert_write(trusted, side->files[SIDE_CA], NULL);
    cert_free(&cert);
}

void side_use_cert(struct side *side)
{
    reset_settings(side);
    side->settings.tls_cert_file = side->files[SIDE_CERT];
    side->settings.tls_key_file = side->files[SIDE_KEY];
    side->settings.tls_ca_file = side->files[SIDE_CA];
}

void side_use_secret(struct side *side)
{
    reset_settings(side);
    side->settings.secret_file = side->files[SIDE_SECRET];
}

void side_write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    fg_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

void side_open(struct side *side, struct fg_registry *registry)
{
    struct fg_err err;

    if (fg_rpc_create(&side->settings, registry, &side->rpc, &err) != FG_OK)
        fail_msg("%s", err.msg);
}
