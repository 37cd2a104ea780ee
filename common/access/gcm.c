#include "common/access/gcm.h"

#include <openssl/err.h>
#include <openssl/evp.h>

static EVP_CIPHER_CTX *begin(const uint8_t *key, const uint8_t *nonce, struct fg_slice known,
                             int encrypt)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n;

    fg_assert(ctx != NULL); /* memory is gone */
    fg_assert(EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce, encrypt) == 1 &&
              EVP_CipherUpdate(ctx, NULL, &n, known.ptr, (int)known.len) == 1);
    return ctx;
}

void fg_gcm_seal(const uint8_t key[FG_GCM_KEY_BYTES], const uint8_t nonce[FG_GCM_NONCE_BYTES],
                 struct fg_slice known, uint8_t *bytes, size_t len, uint8_t tag[FG_GCM_TAG_BYTES])
{
    EVP_CIPHER_CTX *ctx = begin(key, nonce, known, 1);
    int n;

    fg_assert(EVP_CipherUpdate(ctx, bytes, &n, bytes, (int)len) == 1 &&
              EVP_CipherFinal_ex(ctx, bytes + len, &n) == 1 &&
              EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, FG_GCM_TAG_BYTES, tag) == 1);
    EVP_CIPHER_CTX_free(ctx);
}

bool fg_gcm_open(const uint8_t key[FG_GCM_KEY_BYTES], const uint8_t nonce[FG_GCM_NONCE_BYTES],
                 struct fg_slice known, uint8_t *bytes, size_t len,
                 const uint8_t tag[FG_GCM_TAG_BYTES])
{
    EVP_CIPHER_CTX *ctx = begin(key, nonce, known, 0);
    uint8_t wanted[FG_GCM_TAG_BYTES];
    bool ok;
    int n;

    memcpy(wanted, tag, sizeof wanted); /* OpenSSL takes it as one that it may write to */
    ok = EVP_CipherUpdate(ctx, bytes, &n, bytes, (int)len) == 1 &&
         EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, FG_GCM_TAG_BYTES, wanted) == 1 &&
         EVP_CipherFinal_ex(ctx, bytes + len, &n) == 1;
    EVP_CIPHER_CTX_free(ctx);
    ERR_clear_error(); /* or whoever uses OpenSSL next on this thread takes it for its own */
    return ok;
}
