#include "common/access/keys/key_wrap.h"
#include "common/base/str.h"
#include "common/storage/seal/locked.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NONCE_BYTES = FG_SEAL_NONCE_BYTES,
    WRAPPED_BYTES = 1 + NONCE_BYTES + FG_SEAL_KEY_BYTES + FG_SEAL_TAG_BYTES
};
enum { FORM = 1, FILE_MAX_BYTES = 256, ID_BYTES = 8, OWNER_MAX_BYTES = 1024 };

struct wrap_file {
    struct fg_key_wrap wrap; /* first */
    struct fg_seal_key *key; /* locked */
};

static struct wrap_file *file_of(struct fg_key_wrap *wrap)
{
    return fg_container(wrap, struct wrap_file, wrap);
}

/* Writes the associated data of a wrapped key, which binds it to its owner. */
static void associate(struct fg_slice owner, struct fg_buf *out)
{
    fg_buf_init(out, OWNER_MAX_BYTES);
    fg_buf_puts(out, "flamegrid key of ");
    fg_buf_put(out, owner);
}

/* u8 form 1; nonce 12 bytes; the key, encrypted; tag 16 bytes */
static enum fg_code wrap_key(struct fg_key_wrap *wrap, struct fg_slice owner,
                             const struct fg_seal_key *key, struct fg_buf *out, struct fg_err *err)
{
    uint8_t wrapped[WRAPPED_BYTES] = {FORM}, *sealed = wrapped + 1 + NONCE_BYTES;
    struct fg_buf associated;

    if (RAND_bytes(wrapped + 1, NONCE_BYTES) != 1)
        return fg_fail(err, FG_E_INTERNAL, "no random numbers");
    associate(owner, &associated);
    fg_seal_gcm(file_of(wrap)->key, wrapped + 1, fg_buf_slice(&associated),
                fg_bytes(key->bytes, sizeof key->bytes), sealed, sealed + sizeof key->bytes);
    fg_buf_done(&associated);
    fg_buf_append(out, wrapped, sizeof wrapped);
    return FG_OK;
}

static enum fg_code unwrap_key(struct fg_key_wrap *wrap, struct fg_slice owner,
                               struct fg_slice wrapped, struct fg_seal_key *ret_key,
                               struct fg_err *err)
{
    const uint8_t *sealed = wrapped.ptr + 1 + NONCE_BYTES;
    struct fg_seal_key key;
    struct fg_buf associated;
    bool good;

    if (wrapped.len != WRAPPED_BYTES || wrapped.ptr[0] != FORM)
        return fg_fail(err, FG_E_CORRUPT, "a wrapped key of %zu bytes", wrapped.len);
    associate(owner, &associated);
    good =
        fg_seal_gcm_open(file_of(wrap)->key, wrapped.ptr + 1, fg_buf_slice(&associated),
                         fg_bytes(sealed, sizeof key.bytes), sealed + sizeof key.bytes, key.bytes);
    fg_buf_done(&associated);
    if (!good)
        return fg_fail(err, FG_E_CORRUPT, "the wrapped key was changed, or is of another owner");
    *ret_key = key;
    fg_seal_wipe(&key);
    return FG_OK;
}

static void destroy(struct fg_key_wrap *wrap)
{
    struct wrap_file *file = file_of(wrap);

    fg_locked_free(file->key, sizeof *file->key);
    free(file);
}

/* Reads the file; longer ones are cut, which is no key either. */
static enum fg_code read_file(const char *path, uint8_t text[FILE_MAX_BYTES], size_t *ret_len,
                              struct fg_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    ssize_t len;

    if (fd < 0)
        return fg_fail_errno(err, errno, "%s", path);
    len = fstat(fd, &info) == 0 ? read(fd, text, FILE_MAX_BYTES) : -1;
    if (len < 0) {
        (void)fg_fail_errno(err, errno, "%s", path);
        (void)close(fd);
        return err->code;
    }
    (void)close(fd);
    /* The group may read it: that is how Kubernetes mounts a Secret for a pod that is not root. */
    if ((info.st_mode & S_IRWXO) != 0)
        return fg_fail(err, FG_E_INVALID,
                       "%s: its mode lets others in than owner and group; chmod o= %s", path, path);
    *ret_len = (size_t)len;
    return FG_OK;
}

/* Returns whether the text is a key in one of its three forms. */
static bool parse_key(struct fg_slice text, struct fg_seal_key *key)
{
    uint8_t decoded[FILE_MAX_BYTES];
    size_t len = 0;
    bool good;

    if (text.len == sizeof key->bytes) {
        memcpy(key->bytes, text.ptr, text.len);
        return true;
    }
    text = fg_trim(text);
    if (fg_parse_hex(text, key->bytes, sizeof key->bytes))
        return true;
    good = fg_parse_base64(text, decoded, &len) && len == sizeof key->bytes;
    if (good)
        memcpy(key->bytes, decoded, len);
    OPENSSL_cleanse(decoded, sizeof decoded);
    return good;
}

static enum fg_code read_key(const char *path, struct fg_seal_key *key, struct fg_err *err)
{
    uint8_t text[FILE_MAX_BYTES];
    size_t len = 0;
    enum fg_code code = read_file(path, text, &len, err);

    if (code == FG_OK && !parse_key(fg_bytes(text, len), key))
        code = fg_fail(err, FG_E_INVALID,
                       "%s: a key is 32 bytes, as they are, as 64 hexadecimal digits (openssl rand "
                       "-hex 32) or "
                       "in base64",
                       path);
    OPENSSL_cleanse(text, sizeof text);
    return code;
}

enum fg_code fg_key_wrap_file(const char *path, struct fg_key_wrap **ret_wrap, struct fg_err *err)
{
    struct wrap_file *file = fg_new(struct wrap_file);
    struct fg_buf name;
    uint8_t id[ID_BYTES];
    bool locked; /* if not, the ring of tenants' keys is not either, which is reported */

    file->wrap = (struct fg_key_wrap){.wrap = wrap_key, .unwrap = unwrap_key, .destroy = destroy};
    file->key = fg_locked_alloc(sizeof *file->key, &locked);
    if (read_key(path, file->key, err) != FG_OK) {
        destroy(&file->wrap);
        return err->code;
    }
    /* Says which key it is and nothing about it. */
    fg_seal_expand(file->key, FG_LIT("flamegrid key id"), id, sizeof id);
    fg_buf_init(&name, sizeof file->wrap.name - 1);
    fg_buf_puts(&name, "file:");
    fg_buf_hex(&name, id, sizeof id);
    memcpy(file->wrap.name, name.ptr, name.len);
    fg_buf_done(&name);
    *ret_wrap = &file->wrap;
    return FG_OK;
}
