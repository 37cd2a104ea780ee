/*
 * Certificates and keys in PEM files, checked before they are used, with errors that name the
 * setting, the file and the reason.
 */
#ifndef FG_COMMON_NET_PEM_H
#define FG_COMMON_NET_PEM_H

#include "common/base/buf.h"
#include "common/base/err.h"

/* A file whose name is a setting's value. */
struct fg_pem_file {
    const char *setting, *path; /* borrowed */
    struct fg_buf content;      /* and a NUL, which its length does not count */
};

/* file's content is not initialised. FG_E_INVALID: it cannot be read. */
enum fg_code fg_pem_read(struct fg_pem_file *file, struct fg_err *err) fg_must_check;
/* Wipes and frees the content: it may be a key. Of a zeroed struct as well. */
void fg_pem_done(struct fg_pem_file *file);

/*
 * FG_E_INVALID: cert does not begin with a certificate or has something else in it; key is none, is
 * encrypted, or is not that of the first certificate. *ret_end_s: when that one ends, in seconds
 * since 1970.
 */
enum fg_code fg_pem_check_pair(const struct fg_pem_file *cert, const struct fg_pem_file *key,
                               int64_t *ret_end_s, struct fg_err *err) fg_must_check;

/* FG_E_INVALID: there is no certificate in it, or a broken one. */
enum fg_code fg_pem_check_certs(const struct fg_pem_file *certs, struct fg_err *err) fg_must_check;

/* --- for those who let OpenSSL read files by itself --- */

/* The oldest error of OpenSSL's in this thread, which is what it began with; all are forgotten. */
const char *fg_pem_why(void);

/* OpenSSL's pem_password_cb, which would otherwise ask on the terminal; *(bool *)asked tells. */
int fg_pem_no_password(char *buf, int size, int writing, void *asked);

#endif
