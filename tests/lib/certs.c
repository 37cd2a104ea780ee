#include "tests/lib/certs.h"

#include "common/base/def.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

enum { DAY_S = 24 * 60 * 60 };

static void add_extension(const struct cert *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    fg_assert(extension != NULL && X509_add_ext(cert->x509, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static struct cert make(const char *name, const struct cert *issuer, int days, bool signs)
{
    static long serial;
    struct cert cert = {.x509 = X509_new(), .key = EVP_EC_gen("P-256")};
    X509_NAME *subject;
    char names[200];

    fg_assert(cert.x509 != NULL && cert.key != NULL);
    if (issuer == NULL)
        issuer = &cert;
    fg_assert(X509_set_version(cert.x509, X509_VERSION_3) == 1);
    fg_assert(ASN1_INTEGER_set(X509_get_serialNumber(cert.x509), ++serial) == 1);
    X509_gmtime_adj(X509_getm_notBefore(cert.x509), days < 0 ? (long)2 * days * DAY_S : -DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(cert.x509), (long)days * DAY_S);
    fg_assert(X509_set_pubkey(cert.x509, cert.key) == 1);
    subject = X509_get_subject_name(cert.x509);
    fg_assert(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const void *)name, -1, -1,
                                         0) == 1);
    fg_assert(X509_set_issuer_name(cert.x509, X509_get_subject_name(issuer->x509)) == 1);
    add_extension(&cert, NID_basic_constraints, signs ? "CA:TRUE" : "CA:FALSE");
    (void)snprintf(names, sizeof names, "DNS:localhost,IP:127.0.0.1%s%s",
                   strchr(name, '.') == NULL ? "" : ",DNS:", strchr(name, '.') == NULL ? "" : name);
    add_extension(&cert, NID_subject_alt_name, names);
    fg_assert(X509_sign(cert.x509, issuer->key, EVP_sha256()) > 0);
    return cert;
}

struct cert cert_make(const char *name, const struct cert *issuer, int days)
{
    return make(name, issuer, days, issuer == NULL);
}

struct cert cert_make_authority(const char *name, const struct cert *issuer, int days)
{
    return make(name, issuer, days, true);
}

void cert_free(struct cert *cert)
{
    X509_free(cert->x509);
    EVP_PKEY_free(cert->key);
    *cert = (struct cert){0};
}

void cert_write(const struct cert *cert, const char *cert_file, const char *key_file)
{
    FILE *file;

    if (cert_file != NULL) {
        file = fopen(cert_file, "we");
        fg_assert(file != NULL && PEM_write_X509(file, cert->x509) == 1 && fclose(file) == 0);
    }
    if (key_file != NULL) {
        file = fopen(key_file, "we");
        fg_assert(file != NULL &&
                  PEM_write_PrivateKey(file, cert->key, NULL, NULL, 0, NULL, NULL) == 1 &&
                  fclose(file) == 0);
    }
}
