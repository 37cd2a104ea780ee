/*
 * Certificates and keys in PEM files, checked before they are used, with errors that name the
 * setting, the file and the reason.
 */
#ifndef FG_COMMON_NET_PEM_H
#define FG_COMMON_NET_PEM_H

#include "common/base/buf.h"
#include "common/base/err.h"

/* A file that a setting names. */
struct fg_pem_file {
    const char *setting, *path; /* borrowed */
    struct fg_buf content;      /* followed by a NUL that len does not count */
};

/* Reads the file into content, which need not be initialised. FG_E_INVALID: it cannot be read. */
enum fg_code fg_pem_read(struct fg_pem_file *file, struct fg_err *err) fg_must_check;
/* Wipes and frees the content, which may be a key. A zeroed struct is fine. */
void fg_pem_done(struct fg_pem_file *file);

/*
 * Checks a certificate chain and its key. *ret_end_s: when the first certificate expires, in
 * seconds since 1970. FG_E_INVALID: cert does not begin with a certificate or contains something
 * else; key is no key, is encrypted, or does not match the first certificate.
 */
enum fg_code fg_pem_check_pair(const struct fg_pem_file *cert, const struct fg_pem_file *key,
                               int64_t *ret_end_s, struct fg_err *err) fg_must_check;

/* Checks a file of CA certificates. FG_E_INVALID: it has no certificate, or a broken one. */
enum fg_code fg_pem_check_certs(const struct fg_pem_file *certs, struct fg_err *err) fg_must_check;

/* --- for modules that let OpenSSL read files --- */

/* Returns the oldest error of OpenSSL on this thread, which is the cause, and clears all of them.
 */
const char *fg_pem_why(void);

/* Refuses a password, as OpenSSL's pem_password_cb, which would otherwise ask on the terminal. Sets
 * *(bool *)asked. */
int fg_pem_no_password(char *buf, int size, int writing, void *asked);

#endif
