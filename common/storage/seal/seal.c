#include "common/storage/seal/seal.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <pthread.h>

enum { HASH_BYTES = 32, BLOCK_BYTES = 64 /* of SHA-256 */, EXPANDS_MAX = 255 };

static const char cipher_name[] = "AES-256-GCM";

/* Fetched once: OpenSSL looks an algorithm up under a lock each time it is named. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_CIPHER *gcm;
static EVP_MD *sha256;

/*
 * The functions of OpenSSL's provider by which EVP_CIPHER_CTX does its work (provider-cipher(7)).
 * They are called directly for the values of a head, of which a query opens thousands, each of some
 * hundred bytes: EVP asks the provider for the length of a nonce and makes parameters for each
 * value, which takes 90 ns more (tests/bench/README.md).
 */
static struct {
    void *provider;
    OSSL_FUNC_cipher_newctx_fn *create;
    OSSL_FUNC_cipher_freectx_fn *destroy;
    OSSL_FUNC_cipher_encrypt_init_fn *begin_encrypt;
    OSSL_FUNC_cipher_decrypt_init_fn *begin_decrypt;
    OSSL_FUNC_cipher_update_fn *update;
    OSSL_FUNC_cipher_final_fn *end;
    OSSL_FUNC_cipher_get_ctx_params_fn *get;
    OSSL_FUNC_cipher_set_ctx_params_fn *set;
} direct;

/* Returns true if a name is among those of an algorithm, which are separated by colons. */
static bool has_name(const OSSL_ALGORITHM *algorithm, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = algorithm->algorithm_names; at != NULL; at = strchr(at, ':')) {
        at += *at == ':';
        if (strncmp(at, name, len) == 0 && (at[len] == ':' || at[len] == '\0'))
            return true;
    }
    return false;
}

static void find_direct(const OSSL_PROVIDER *provider)
{
    int no_cache;
    const OSSL_ALGORITHM *found =
        OSSL_PROVIDER_query_operation(provider, OSSL_OP_CIPHER, &no_cache);

    while (found != NULL && found->algorithm_names != NULL && !has_name(found, cipher_name))
        found++;
    fg_assert(found != NULL && found->algorithm_names != NULL);
    direct.provider = OSSL_PROVIDER_get0_provider_ctx(provider);
    for (const OSSL_DISPATCH *function = found->implementation; function->function_id != 0;
         function++)
        switch (function->function_id) {
        case OSSL_FUNC_CIPHER_NEWCTX:
            direct.create = OSSL_FUNC_cipher_newctx(function);
            break;
        case OSSL_FUNC_CIPHER_FREECTX:
            direct.destroy = OSSL_FUNC_cipher_freectx(function);
            break;
        case OSSL_FUNC_CIPHER_ENCRYPT_INIT:
            direct.begin_encrypt = OSSL_FUNC_cipher_encrypt_init(function);
            break;
        case OSSL_FUNC_CIPHER_DECRYPT_INIT:
            direct.begin_decrypt = OSSL_FUNC_cipher_decrypt_init(function);
            break;
        case OSSL_FUNC_CIPHER_UPDATE:
            direct.update = OSSL_FUNC_cipher_update(function);
            break;
        case OSSL_FUNC_CIPHER_FINAL:
            direct.end = OSSL_FUNC_cipher_final(function);
            break;
        case OSSL_FUNC_CIPHER_GET_CTX_PARAMS:
            direct.get = OSSL_FUNC_cipher_get_ctx_params(function);
            break;
        case OSSL_FUNC_CIPHER_SET_CTX_PARAMS:
            direct.set = OSSL_FUNC_cipher_set_ctx_params(function);
            break;
        default:
            break;
        }
    fg_assert(direct.create != NULL && direct.destroy != NULL && direct.begin_encrypt != NULL &&
              direct.begin_decrypt != NULL && direct.update != NULL && direct.end != NULL &&
              direct.get != NULL && direct.set != NULL);
}

static void fetch(void)
{
    gcm = EVP_CIPHER_fetch(NULL, cipher_name, NULL);
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    fg_assert(gcm != NULL && sha256 != NULL);
    find_direct(EVP_CIPHER_get0_provider(gcm));
}

void fg_seal_wipe(struct fg_seal_key *key)
{
    OPENSSL_cleanse(key, sizeof *key);
}

/* ---- HMAC-SHA256 and HKDF ---- */

/* One HMAC (RFC 2104) on its way. */
struct hmac {
    EVP_MD_CTX *hash;
    uint8_t outer[BLOCK_BYTES];
};

static void hmac_add(struct hmac *hmac, struct fg_slice bytes)
{
    if (bytes.len > 0)
        fg_assert(EVP_DigestUpdate(hmac->hash, bytes.ptr, bytes.len) == 1);
}

static void hmac_begin(struct hmac *hmac, const struct fg_seal_key *key)
{
    uint8_t inner[BLOCK_BYTES];

    memset(inner, 0x36, sizeof inner);
    memset(hmac->outer, 0x5c, sizeof hmac->outer);
    for (size_t i = 0; i < sizeof key->bytes; i++) {
        inner[i] ^= key->bytes[i];
        hmac->outer[i] ^= key->bytes[i];
    }
    hmac->hash = EVP_MD_CTX_new();
    fg_assert(hmac->hash != NULL && EVP_DigestInit_ex2(hmac->hash, sha256, NULL) == 1);
    hmac_add(hmac, fg_bytes(inner, sizeof inner));
    OPENSSL_cleanse(inner, sizeof inner);
}

static void hmac_end(struct hmac *hmac, uint8_t out[HASH_BYTES])
{
    fg_assert(EVP_DigestFinal_ex(hmac->hash, out, NULL) == 1);
    fg_assert(EVP_DigestInit_ex2(hmac->hash, sha256, NULL) == 1);
    hmac_add(hmac, fg_bytes(hmac->outer, sizeof hmac->outer));
    hmac_add(hmac, fg_bytes(out, HASH_BYTES));
    fg_assert(EVP_DigestFinal_ex(hmac->hash, out, NULL) == 1);
    EVP_MD_CTX_free(hmac->hash);
    OPENSSL_cleanse(hmac->outer, sizeof hmac->outer);
}

/* T(i) = HMAC(key, T(i - 1), info, i) */
void fg_seal_expand(const struct fg_seal_key *key, struct fg_slice info, uint8_t *out, size_t len)
{
    uint8_t last[HASH_BYTES];

    fg_assert(len <= (size_t)EXPANDS_MAX * HASH_BYTES);
    (void)pthread_once(&once, fetch);
    for (uint8_t i = 1; len > 0; i++) {
        size_t part = FG_MIN(len, sizeof last);
        struct hmac hmac;

        hmac_begin(&hmac, key);
        if (i > 1)
            hmac_add(&hmac, fg_bytes(last, sizeof last));
        hmac_add(&hmac, info);
        hmac_add(&hmac, fg_bytes(&i, 1));
        hmac_end(&hmac, last);
        memcpy(out, last, part);
        out += part;
        len -= part;
    }
    OPENSSL_cleanse(last, sizeof last);
}

/* ---- AES-256-GCM ---- */

static void gcm_associate(EVP_CIPHER_CTX *cipher, struct fg_slice bytes)
{
    int len;

    if (bytes.len > 0)
        fg_assert(EVP_CipherUpdate(cipher, NULL, &len, bytes.ptr, (int)bytes.len) == 1);
}

static EVP_CIPHER_CTX *gcm_begin(const struct fg_seal_key *key,
                                 const uint8_t nonce[FG_SEAL_NONCE_BYTES], int encrypt)
{
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();

    (void)pthread_once(&once, fetch);
    fg_assert(cipher != NULL &&
              EVP_CipherInit_ex2(cipher, gcm, key->bytes, nonce, encrypt, NULL) == 1);
    return cipher;
}

static void gcm_encrypt(EVP_CIPHER_CTX *cipher, struct fg_slice content, uint8_t *out,
                        uint8_t ret_tag[FG_SEAL_TAG_BYTES])
{
    int len = 0;

    fg_assert(content.len <= INT32_MAX);
    if (content.len > 0)
        fg_assert(EVP_CipherUpdate(cipher, out, &len, content.ptr, (int)content.len) == 1);
    fg_assert(EVP_CipherFinal_ex(cipher, out + len, &len) == 1);
    fg_assert(EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, FG_SEAL_TAG_BYTES, ret_tag) == 1);
}

static bool gcm_decrypt(EVP_CIPHER_CTX *cipher, struct fg_slice ciphertext,
                        const uint8_t tag[FG_SEAL_TAG_BYTES], uint8_t *out)
{
    uint8_t said[FG_SEAL_TAG_BYTES];
    int len = 0;
    bool good;

    fg_assert(ciphertext.len <= INT32_MAX);
    memcpy(said, tag, sizeof said); /* OpenSSL's argument is not const */
    if (ciphertext.len > 0)
        fg_assert(EVP_CipherUpdate(cipher, out, &len, ciphertext.ptr, (int)ciphertext.len) == 1);
    fg_assert(EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, FG_SEAL_TAG_BYTES, said) == 1);
    good = EVP_CipherFinal_ex(cipher, out + len, &len) == 1;
    if (!good && ciphertext.len > 0)
        memset(out, 0, ciphertext.len);
    return good;
}

void fg_seal_gcm(const struct fg_seal_key *key, const uint8_t nonce[FG_SEAL_NONCE_BYTES],
                 struct fg_slice associated, struct fg_slice content, uint8_t *out,
                 uint8_t ret_tag[FG_SEAL_TAG_BYTES])
{
    EVP_CIPHER_CTX *cipher = gcm_begin(key, nonce, 1);

    gcm_associate(cipher, associated);
    gcm_encrypt(cipher, content, out, ret_tag);
    EVP_CIPHER_CTX_free(cipher);
}

bool fg_seal_gcm_open(const struct fg_seal_key *key, const uint8_t nonce[FG_SEAL_NONCE_BYTES],
                      struct fg_slice associated, struct fg_slice ciphertext,
                      const uint8_t tag[FG_SEAL_TAG_BYTES], uint8_t *out)
{
    EVP_CIPHER_CTX *cipher = gcm_begin(key, nonce, 0);
    bool good;

    gcm_associate(cipher, associated);
    good = gcm_decrypt(cipher, ciphertext, tag, out);
    EVP_CIPHER_CTX_free(cipher);
    return good;
}

/* ---- AES-256-GCM of many texts with one key ---- */

struct fg_seal_cipher {
    void *context; /* of the provider; has the key */
};

struct fg_seal_cipher *fg_seal_cipher_create(const struct fg_seal_key *key, bool encrypt)
{
    struct fg_seal_cipher *cipher = fg_new(struct fg_seal_cipher);
    int begun;

    (void)pthread_once(&once, fetch);
    cipher->context = direct.create(direct.provider);
    fg_assert(cipher->context != NULL);
    begun =
        encrypt
            ? direct.begin_encrypt(cipher->context, key->bytes, sizeof key->bytes, NULL, 0, NULL)
            : direct.begin_decrypt(cipher->context, key->bytes, sizeof key->bytes, NULL, 0, NULL);
    fg_assert(begun == 1);
    return cipher;
}

void fg_seal_cipher_destroy(struct fg_seal_cipher *cipher)
{
    if (cipher == NULL)
        return;
    direct.destroy(cipher->context); /* which overwrites the key */
    free(cipher);
}

/* out NULL: the bytes are authenticated only. */
static void direct_add(void *context, struct fg_slice bytes, uint8_t *out)
{
    size_t len;

    if (bytes.len > 0)
        fg_assert(direct.update(context, out, &len, bytes.len, bytes.ptr, bytes.len) == 1);
}

void fg_seal_cipher_seal(struct fg_seal_cipher *cipher, const uint8_t nonce[FG_SEAL_NONCE_BYTES],
                         struct fg_slice associated, struct fg_slice content, uint8_t *out,
                         uint8_t ret_tag[FG_SEAL_TAG_BYTES])
{
    OSSL_PARAM tag[] = {
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, ret_tag, FG_SEAL_TAG_BYTES),
        OSSL_PARAM_construct_end()};
    size_t len;

    fg_assert(direct.begin_encrypt(cipher->context, NULL, 0, nonce, FG_SEAL_NONCE_BYTES, NULL) ==
              1);
    direct_add(cipher->context, associated, NULL);
    direct_add(cipher->context, content, out);
    fg_assert(direct.end(cipher->context, out + content.len, &len, 0) == 1);
    fg_assert(direct.get(cipher->context, tag) == 1);
}

bool fg_seal_cipher_open(struct fg_seal_cipher *cipher, const uint8_t nonce[FG_SEAL_NONCE_BYTES],
                         struct fg_slice associated, struct fg_slice ciphertext,
                         const uint8_t tag[FG_SEAL_TAG_BYTES], uint8_t *out)
{
    uint8_t said[FG_SEAL_TAG_BYTES]; /* OpenSSL's argument is not const */
    OSSL_PARAM said_tag[] = {
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, said, sizeof said),
        OSSL_PARAM_construct_end()};
    size_t len;

    memcpy(said, tag, sizeof said);
    fg_assert(
        direct.begin_decrypt(cipher->context, NULL, 0, nonce, FG_SEAL_NONCE_BYTES, said_tag) == 1);
    direct_add(cipher->context, associated, NULL);
    direct_add(cipher->context, ciphertext, out);
    if (direct.end(cipher->context, out + ciphertext.len, &len, 0) == 1)
        return true;
    if (ciphertext.len > 0)
        memset(out, 0, ciphertext.len);
    return false;
}

/* ---- pages ---- */

enum { PLACE_BYTES = 4 + 4 + 4 + 8 + 16 + 4 + 4, PLACE_MAGIC = 0x31504746 /* "FGP1" */ };

static void put_le(uint8_t *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

/*
 * The place as bytes: "FGP1", le32 key, le32 kind, le64 number, digest 16 bytes, le32 lengths of
 * tenant and service. Tenant and service follow: the lengths before them make the end of one and
 * the beginning of the other certain.
 */
static void place_head(const struct fg_seal_place *place, uint8_t out[PLACE_BYTES])
{
    put_le(out, PLACE_MAGIC, 4);
    put_le(out + 4, place->key, 4);
    put_le(out + 8, place->kind, 4);
    put_le(out + 12, place->number, 8);
    fg_id_put(out + 20, place->digest);
    put_le(out + 36, place->tenant.len, 4);
    put_le(out + 40, place->service.len, 4);
}

static void make_iv(const struct fg_seal_key *key, const uint8_t head[PLACE_BYTES],
                    const struct fg_seal_place *place, struct fg_slice content,
                    uint8_t iv[FG_SEAL_IV_BYTES])
{
    struct fg_seal_key iv_key;
    uint8_t hash[HASH_BYTES];
    struct hmac hmac;

    fg_seal_expand(key, FG_LIT("flamegrid iv"), iv_key.bytes, sizeof iv_key.bytes);
    hmac_begin(&hmac, &iv_key);
    hmac_add(&hmac, fg_bytes(head, PLACE_BYTES));
    hmac_add(&hmac, place->tenant);
    hmac_add(&hmac, place->service);
    hmac_add(&hmac, content);
    hmac_end(&hmac, hash);
    memcpy(iv, hash, FG_SEAL_IV_BYTES);
    fg_seal_wipe(&iv_key);
}

/* Begins a page: its own key, its nonce, its place. */
static EVP_CIPHER_CTX *page_begin(const struct fg_seal_key *key, const uint8_t head[PLACE_BYTES],
                                  const struct fg_seal_place *place,
                                  const uint8_t iv[FG_SEAL_IV_BYTES], int encrypt)
{
    enum {
        LABEL_BYTES = sizeof "flamegrid page" - 1,
        SALT_BYTES = FG_SEAL_IV_BYTES - FG_SEAL_NONCE_BYTES
    };
    const struct fg_slice label = FG_LIT("flamegrid page");
    uint8_t info[LABEL_BYTES + SALT_BYTES];
    struct fg_seal_key page_key;
    EVP_CIPHER_CTX *cipher;

    memcpy(info, label.ptr, label.len);
    memcpy(info + LABEL_BYTES, iv, SALT_BYTES);
    fg_seal_expand(key, fg_bytes(info, sizeof info), page_key.bytes, sizeof page_key.bytes);
    cipher = gcm_begin(&page_key, iv + SALT_BYTES, encrypt);
    fg_seal_wipe(&page_key);
    gcm_associate(cipher, fg_bytes(head, PLACE_BYTES));
    gcm_associate(cipher, place->tenant);
    gcm_associate(cipher, place->service);
    return cipher;
}

void fg_seal_page(const struct fg_seal_key *key, const struct fg_seal_place *place,
                  struct fg_slice content, uint8_t *out)
{
    uint8_t head[PLACE_BYTES];
    EVP_CIPHER_CTX *cipher;

    place_head(place, head);
    make_iv(key, head, place, content, out);
    cipher = page_begin(key, head, place, out, 1);
    gcm_encrypt(cipher, content, out + FG_SEAL_IV_BYTES, out + FG_SEAL_IV_BYTES + content.len);
    EVP_CIPHER_CTX_free(cipher);
}

enum fg_code fg_seal_open(const struct fg_seal_key *key, const struct fg_seal_place *place,
                          struct fg_slice sealed, uint8_t *out, struct fg_err *err)
{
    uint8_t head[PLACE_BYTES];
    struct fg_slice ciphertext;
    EVP_CIPHER_CTX *cipher;
    bool good;

    fg_assert(sealed.len >= FG_SEAL_MORE_BYTES);
    ciphertext = fg_slice_sub(sealed, FG_SEAL_IV_BYTES, sealed.len - FG_SEAL_MORE_BYTES);
    place_head(place, head);
    cipher = page_begin(key, head, place, sealed.ptr, 0);
    good = gcm_decrypt(cipher, ciphertext, sealed.ptr + sealed.len - FG_SEAL_TAG_BYTES, out);
    EVP_CIPHER_CTX_free(cipher);
    return good ? FG_OK
                : fg_fail(err, FG_E_CORRUPT,
                          "not encrypted with key %u for this place, or changed since", place->key);
}
