/* Certificates for tests, made on the spot: P-256 keys, names and ages as wanted. */
#ifndef FG_TESTS_LIB_CERTS_H
#define FG_TESTS_LIB_CERTS_H

#include <openssl/x509.h>

struct cert {
    X509 *x509;
    EVP_PKEY *key;
};

/* It is for localhost and 127.0.0.1, and for its name if that has a dot.
 * issuer NULL: it is self-signed and may sign others. days: validity from now; negative: expired.
 */
struct cert cert_make(const char *name, const struct cert *issuer, int days);
/* Makes an intermediate authority: signed by the issuer, and may sign others. */
struct cert cert_make_authority(const char *name, const struct cert *issuer, int days);
void cert_free(struct cert *cert);

/* As PEM; NULL: not that one. */
void cert_write(const struct cert *cert, const char *cert_file, const char *key_file);

#endif
