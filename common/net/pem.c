#include "common/net/pem.h"

#include "common/runtime/config.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pemerr.h>
#include <openssl/x509.h>
#include <time.h>

enum { FILE_MAX_BYTES = 1024 * 1024 }; /* all of the world's authorities are a fifth of it */

const char *fg_pem_why(void)
{
    unsigned long code = ERR_get_error();
    const char *text = ERR_reason_error_string(code);

    ERR_clear_error();
    if (ERR_SYSTEM_ERROR(code))
        text = strerrordesc_np(ERR_GET_REASON(code));
    else if (ERR_GET_LIB(code) == ERR_LIB_OSSL_DECODER ||
             (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE))
        text = "no usable PEM object in the file"; /* else "unsupported" */
    return text == NULL ? "unknown error" : text;
}

int fg_pem_no_password(char *buf, int size, int writing, void *asked)
{
    (void)buf;
    (void)size;
    (void)writing;
    *(bool *)asked = true;
    return -1;
}

enum fg_code fg_pem_read(struct fg_pem_file *file, struct fg_err *err)
{
    fg_buf_init(&file->content, FILE_MAX_BYTES);
    if (fg_conf_read_file(file->path, &file->content, err) != FG_OK) {
        fg_pem_done(file);
        err->code = FG_E_INVALID;
        return fg_wrap(err, "%s", file->setting);
    }
    if (file->content.full) {
        fg_pem_done(file);
        return fg_fail(err, FG_E_INVALID, "%s \"%s\": larger than %d bytes", file->setting,
                       file->path, FILE_MAX_BYTES);
    }
    fg_buf_putc(&file->content, 0);
    file->content.len--;
    return FG_OK;
}

void fg_pem_done(struct fg_pem_file *file)
{
    if (file->content.cap > 0)
        OPENSSL_cleanse(file->content.ptr, file->content.cap);
    fg_buf_done(&file->content);
}

static enum fg_code fail(struct fg_err *err, const struct fg_pem_file *file)
{
    return fg_fail(err, FG_E_INVALID, "%s \"%s\": %s", file->setting, file->path, fg_pem_why());
}

static BIO *open_bio(const struct fg_pem_file *file)
{
    BIO *bio = BIO_new_mem_buf(file->content.ptr, (int)file->content.len); /* at most a megabyte */

    fg_assert(bio != NULL);
    return bio;
}

/* Every one of them; *ret_first is the caller's to free. */
static enum fg_code read_certs(const struct fg_pem_file *file, X509 **ret_first, struct fg_err *err)
{
    BIO *bio = open_bio(file);
    X509 *first, *next;
    bool all;

    ERR_clear_error();
    first = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    while (first != NULL && (next = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL)
        X509_free(next);
    BIO_free(bio);
    all = ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_PEM &&
          ERR_GET_REASON(ERR_peek_error()) == PEM_R_NO_START_LINE; /* the end of the file */
    if (first == NULL || !all) {
        X509_free(first);
        return fail(err, file);
    }
    ERR_clear_error();
    *ret_first = first;
    return FG_OK;
}

static enum fg_code read_key(const struct fg_pem_file *file, EVP_PKEY **ret_key, struct fg_err *err)
{
    BIO *bio = open_bio(file);
    bool encrypted = false;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, fg_pem_no_password, &encrypted);

    BIO_free(bio);
    if (encrypted) {
        EVP_PKEY_free(key);
        ERR_clear_error();
        return fg_fail(err, FG_E_INVALID, "%s \"%s\": the key is encrypted", file->setting,
                       file->path);
    }
    if (key == NULL)
        return fail(err, file);
    *ret_key = key;
    return FG_OK;
}

enum fg_code fg_pem_check_pair(const struct fg_pem_file *cert, const struct fg_pem_file *key,
                               int64_t *ret_end_s, struct fg_err *err)
{
    X509 *first = NULL;
    EVP_PKEY *own = NULL;
    enum fg_code code = read_certs(cert, &first, err);

    if (code == FG_OK)
        code = read_key(key, &own, err);
    if (code == FG_OK && X509_check_private_key(first, own) != 1)
        code = fail(err, key);
    if (code == FG_OK) {
        struct tm tm;

        *ret_end_s =
            ASN1_TIME_to_tm(X509_get0_notAfter(first), &tm) == 1 ? (int64_t)timegm(&tm) : 0;
    }
    EVP_PKEY_free(own);
    X509_free(first);
    return code;
}

enum fg_code fg_pem_check_certs(const struct fg_pem_file *certs, struct fg_err *err)
{
    X509 *first;

    if (read_certs(certs, &first, err) != FG_OK)
        return err->code;
    X509_free(first);
    return FG_OK;
}
