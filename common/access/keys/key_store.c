#include "common/access/keys/key_store.h"

#include "common/access/keys/cooldown.h"
#include "common/access/keys/key_wrap.h"
#include "common/access/registry/registry_object.h"
#include "common/access/registry/tenant_keys_change.h"
#include "common/base/hash.h"
#include "common/base/str.h"
#include "common/runtime/log.h"
#include "common/storage/seal/key_ring.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>

enum {
    WRAPS_MAX = 8,
    PATH_MAX_BYTES = 4096,
    MISSING = 256,       /* keys that are remembered as missing */
    HASTY_READS_MAX = 8, /* of the registry in a second, for keys that were not missing before */
};

#define REQUEST_TIMEOUT_NS (10 * FG_SECOND_NS)
/* A key that the registry lacks makes it be read again if the last time is longer ago. */
#define READ_AGAIN_NS FG_SECOND_NS

#define CONF(field) FG_CONF_AT(struct fg_encryption_settings, field)

/* clang-format off */
const struct fg_conf_field fg_encryption_fields[] = {
    {"mode", FG_CONF_ENUM, CONF(mode), .def = "off", .choices = "off|per_tenant",
     .doc = "Whether new segments, blocks and heads are encrypted. per_tenant: with a key of each tenant, which is stored in the bucket, encrypted with `encryption.key_file`, Vault or KMS. off: they are not; what was encrypted before can be read as long as what encrypts the keys is set. All programs that read or write the bucket need the same section."},
    {"key_file", FG_CONF_STRING, CONF(key_file), .def = "", .max = "4000",
     .doc = "File with the key that encrypts the keys of tenants: 32 bytes, or 64 hexadecimal digits (`openssl rand -hex 32`). Others than owner and group may not read it. Without it nothing that is encrypted can be read, so keep a copy elsewhere than the bucket."},
    {"old_key_files", FG_CONF_STRING, CONF(old_key_files), .def = "", .max = "4000",
     .doc = "Files with earlier keys, separated by commas: keys of tenants that these encrypted can be read. `flamegrid encryption rewrap` encrypts all of them with what encrypts new ones again; then the earlier ones are not needed any more."},
    {"vault_address", FG_CONF_STRING, CONF(vault_address), .def = "", .max = "500",
     .doc = "Instead of `encryption.key_file`: URL of HashiCorp Vault or OpenBao, such as https://vault.example:8200, whose transit engine encrypts the keys of tenants. It is asked once for each key and process."},
    {"vault_mount", FG_CONF_STRING, CONF(vault_mount), .def = "transit", .max = "200",
     .doc = "Path where the transit engine is mounted."},
    {"vault_key", FG_CONF_STRING, CONF(vault_key), .def = "flamegrid", .max = "100",
     .doc = "Name of the key in the transit engine, of type aes256-gcm96 or chacha20-poly1305. The token needs the capability update of MOUNT/encrypt/NAME and MOUNT/decrypt/NAME."},
    {"vault_token_file", FG_CONF_STRING, CONF(vault_token_file), .def = "", .max = "4000",
     .doc = "File with the token for Vault, as Vault Agent keeps one. It is read for each call."},
    {"vault_ca_file", FG_CONF_STRING, CONF(vault_ca_file), .def = "", .max = "4000",
     .doc = "File with the CA certificates of Vault, in PEM. Empty: those of the system."},
    {"wrap_with", FG_CONF_ENUM, CONF(wrap_with), .def = "auto", .choices = "auto|key_file|vault|kms",
     .doc = "Which of `encryption.key_file`, `encryption.vault_address` and `encryption.kms.key` encrypts the keys of tenants. If others are set, too, keys that they encrypted can be read, and `flamegrid encryption rewrap` encrypts them with this one. auto: the only one that is set."},
};

#undef CONF
#define CONF(field) FG_CONF_AT(struct fg_encryption_kms_settings, field)
#define KEYS(field) CONF(keys.field)

const struct fg_conf_field fg_encryption_kms_fields[] = {
    {"key", FG_CONF_STRING, CONF(key), .def = "", .max = "380",
     .doc = "Instead of `encryption.key_file`: the symmetric key of AWS KMS, or of a server that is compatible with it, that encrypts the keys of tenants: its ARN, its id, or alias/NAME. The role needs kms:Encrypt and kms:Decrypt. KMS is asked once for each key and process. The text counts: another name of the same key is another one until `flamegrid encryption rewrap`."},
    {"old_keys", FG_CONF_STRING, CONF(old_keys), .def = "", .max = "3000",
     .doc = "Earlier values of `encryption.kms.key`, separated by commas: keys of tenants that these encrypted can be read."},
    {"region", FG_CONF_STRING, CONF(region), .def = "", .max = "60",
     .doc = "Region of KMS. Empty: that of the ARN, else AWS_REGION, else AWS_DEFAULT_REGION, else us-east-1."},
    {"endpoint", FG_CONF_STRING, CONF(endpoint), .def = "", .max = "280",
     .doc = "URL of KMS, https://HOST[:PORT], such as that of a VPC endpoint; use http:// only for tests. Empty: the AWS endpoint of the region."},
    {"ca_file", FG_CONF_STRING, CONF(ca_file), .def = "", .max = "4000",
     .doc = "CA certificates in PEM format that verify the certificates of KMS and STS. Empty: the CA certificates of the system."},
    FG_AWS_FIELDS(KEYS),
};
/* clang-format on */
const size_t fg_encryption_n_fields = FG_COUNT(fg_encryption_fields);
const size_t fg_encryption_kms_n_fields = FG_COUNT(fg_encryption_kms_fields);

/* clang-format off */
#define KEYS_METRICS(M)                                                                            \
    M(COUNTER, KEYS_UNWRAPPED, "flamegrid_encryption_keys_unwrapped_total",                        \
      "Keys of tenants that were decrypted, each once in a process")                               \
    M(COUNTER, KEYS_MADE, "flamegrid_encryption_keys_made_total", "Keys of tenants that were made") \
    M(COUNTER, KEYS_MISSING, "flamegrid_encryption_keys_missing_total",                            \
      "Look-ups of keys that are not there: they were shredded, or what encrypts them is not set")
/* clang-format on */
FG_METRICS_ENUM(keys_metric, KEYS_METRICS)
FG_METRICS_TABLE(keys_metrics, KEYS_METRICS)

/* A key that the known registry lacks, and when it was looked for first. */
struct missing {
    uint64_t key;
    int64_t since_mono_ns;
};

struct fg_key_store {
    struct fg_key_store_config config;
    struct fg_keys keys; /* what the bucket gets */
    struct fg_key_wrap *wraps[WRAPS_MAX];
    size_t n_wraps; /* the first one wraps new keys */
    struct fg_key_ring *ring;
    struct fg_metrics *metrics; /* NULL: none */

    pthread_mutex_t lock; /* of the next; held for moments */
    struct fg_access_registry *registry;

    pthread_mutex_t fetching;        /* held while a key is fetched or made; taken before `lock` */
    int64_t read_mono_ns;            /* when the registry was read by the store; 0: never */
    struct missing missing[MISSING]; /* by their hashes; a newer one replaces an older one */
    int64_t hasty_mono_ns;           /* the second in which the hasty reads were */
    unsigned n_hasty;
    struct fg_cooldown cooldown; /* of the bucket */
    bool warned;                 /* that keys may be swapped out */
};

static void count(struct fg_key_store *store, enum keys_metric metric)
{
    if (store->metrics != NULL)
        fg_metric_add(store->metrics, metric, 1);
}

static int64_t deadline(void)
{
    return fg_mono_ns(fg_clock_real()) + REQUEST_TIMEOUT_NS;
}

/* ---- the registry ---- */

/* Returns the known one, with a reference; NULL: there is none yet. */
static struct fg_access_registry *known(struct fg_key_store *store)
{
    struct fg_access_registry *registry;

    (void)pthread_mutex_lock(&store->lock);
    registry = store->registry == NULL ? NULL : fg_access_registry_ref(store->registry);
    (void)pthread_mutex_unlock(&store->lock);
    return registry;
}

/* Returns the generation of the known registry; 0: there is none yet. */
static uint64_t known_generation(struct fg_key_store *store)
{
    struct fg_access_registry *registry = known(store);
    uint64_t generation = registry == NULL ? 0 : registry->message->generation;

    fg_access_registry_unref(registry);
    return generation;
}

void fg_key_store_see(struct fg_key_store *store, struct fg_access_registry *registry)
{
    struct fg_access_registry *old;
    bool newer;

    if (store == NULL)
        return;
    (void)pthread_mutex_lock(&store->lock);
    old = store->registry;
    newer = old == NULL || old->message->generation < registry->message->generation;
    if (newer)
        store->registry = fg_access_registry_ref(registry);
    (void)pthread_mutex_unlock(&store->lock);
    if (!newer)
        return;
    fg_access_registry_unref(old);

    /* Overwrites the versions that are shredded. Those that were made since stay: what wraps them
     * may be away. */
    const Access__Registry *message = registry->message;

    for (size_t i = 0; i < message->n_keys; i++)
        if (message->keys[i]->shredded_ms != 0)
            fg_key_ring_drop(store->ring, fg_cstr(message->keys[i]->tenant),
                             message->keys[i]->version);
}

/* Reads the registry, unless it was read a moment ago. `fetching` is held. */
static enum fg_code read_again(struct fg_key_store *store, bool at_once, struct fg_err *err)
{
    struct fg_access_registry *registry = NULL;
    int64_t now_ns = fg_mono_ns(fg_clock_real());
    uint64_t generation = known_generation(store); /* before the read: a newer one may come now */

    if (!at_once && store->read_mono_ns != 0 && now_ns - store->read_mono_ns < READ_AGAIN_NS)
        return FG_OK;
    if (fg_cooldown_check(&store->cooldown, err) != FG_OK)
        return err->code;
    if (fg_access_read(store->config.bucket, deadline(), &registry, err) != FG_OK ||
        fg_access_check_generation(registry->message->generation, generation, err) != FG_OK) {
        fg_access_registry_unref(registry);
        err->code = FG_E_UNAVAILABLE; /* whatever the bucket says: no block is at fault */
        (void)fg_wrap(err, "keys of tenants cannot be read");
        fg_cooldown_begin(&store->cooldown, err);
        return err->code;
    }
    store->read_mono_ns = now_ns;
    fg_key_store_see(store, registry);
    fg_access_registry_unref(registry);
    return FG_OK;
}

/* ---- unwrapping ---- */

static enum fg_code say_shredded(const Access__TenantKey *key, enum fg_code code,
                                 struct fg_err *err)
{
    char date[32] = "";
    time_t seconds = (time_t)(key->shredded_ms / 1000);
    struct tm parts;

    if (gmtime_r(&seconds, &parts) != NULL)
        (void)strftime(date, sizeof date, "%Y-%m-%d", &parts);
    return fg_fail(err, code, "key %u of tenant %s was shredded on %s by %.100s", key->version,
                   key->tenant, date, key->shredded_by);
}

/* Unwraps a key and puts it into the ring. `fetching` is held. */
static enum fg_code unwrap(struct fg_key_store *store, const Access__TenantKey *key,
                           struct fg_seal_key *ret_key, struct fg_err *err)
{
    struct fg_slice tenant = fg_cstr(key->tenant);

    for (size_t i = 0; i < store->n_wraps; i++) {
        struct fg_key_wrap *wrap = store->wraps[i];

        if (strcmp(wrap->name, key->wrapped_by) != 0)
            continue;
        if (wrap->unwrap(wrap, tenant, fg_bytes(key->wrapped.data, key->wrapped.len), ret_key,
                         err) != FG_OK)
            return fg_wrap(err, "key %u of tenant %s", key->version, key->tenant);
        fg_key_ring_add(store->ring, tenant, key->version, ret_key);
        count(store, KEYS_UNWRAPPED);
        if (!store->warned && !fg_key_ring_is_locked(store->ring)) {
            store->warned = true;
            fg_log_warn(
                "keys of tenants may be swapped out: the process may lock too little memory",
                fg_ls("cure", "ulimit -l, LimitMEMLOCK of systemd, or no swap"));
        }
        return FG_OK;
    }
    return fg_fail(err, FG_E_UNIMPLEMENTED,
                   "key %u of tenant %s is encrypted with %.100s, which this program does not have "
                   "(encryption.key_file, vault_address, kms.key, and old_key_files, kms.old_keys)",
                   key->version, key->tenant, key->wrapped_by);
}

/* A registry that came while the key was unwrapped may say that it was shredded. */
static void drop_if_shredded(struct fg_key_store *store, struct fg_slice tenant, uint32_t number)
{
    struct fg_access_registry *registry = known(store);
    const Access__TenantKey *key = fg_tenant_key_find(registry->message, tenant, number);

    if (key == NULL || key->shredded_ms != 0)
        fg_key_ring_drop(store->ring, tenant, number);
    fg_access_registry_unref(registry);
}

/* Looks for the key in the known registry. FG_E_NOT_FOUND: it does not have it. */
static enum fg_code find_known(struct fg_key_store *store, struct fg_slice tenant, uint32_t number,
                               struct fg_seal_key *ret_key, struct fg_err *err)
{
    struct fg_access_registry *registry = known(store);
    const Access__TenantKey *key =
        registry == NULL ? NULL : fg_tenant_key_find(registry->message, tenant, number);
    enum fg_code code;

    if (key == NULL)
        code =
            fg_fail(err, FG_E_NOT_FOUND,
                    "encrypted with key %u of tenant %.*s, which the registry of access does not "
                    "have",
                    number, FG_S(tenant));
    else if (key->shredded_ms != 0)
        code = say_shredded(key, FG_E_UNIMPLEMENTED, err);
    else
        code = unwrap(store, key, ret_key, err);
    fg_access_registry_unref(registry);
    if (code == FG_OK)
        drop_if_shredded(store, tenant, number);
    return code;
}

/* Returns since when a key has been looked for without success; now, if it is the first time or
 * forgotten. `fetching` is held. */
static int64_t missing_since(struct fg_key_store *store, struct fg_slice tenant, uint32_t number,
                             bool *ret_first)
{
    uint64_t key = fg_mix64(fg_hash64(tenant) ^ number);
    struct missing *missing = &store->missing[key % MISSING];

    *ret_first = missing->key != key;
    if (*ret_first)
        *missing = (struct missing){key, fg_mono_ns(fg_clock_real())};
    return missing->since_mono_ns;
}

/* Returns whether the registry may be read for a new key although it was read a moment ago. Of
 * thousands of keys that are lost, most wait for the next second. `fetching` is held. */
static bool may_hurry(struct fg_key_store *store)
{
    int64_t now_ns = fg_mono_ns(fg_clock_real());

    if (now_ns - store->hasty_mono_ns >= READ_AGAIN_NS) {
        store->hasty_mono_ns = now_ns;
        store->n_hasty = 0;
    }
    return store->n_hasty++ < HASTY_READS_MAX;
}

/*
 * Decides about a key that the known registry lacks. A block is encrypted after its key was stored,
 * so a registry that was read after the block was seen, and lacks the key, lost it. An older one
 * may be from before another process made the key: its block must not be taken for unreadable.
 */
static enum fg_code fail_missing(const struct fg_key_store *store, int64_t since_mono_ns,
                                 struct fg_err *err)
{
    if (since_mono_ns > store->read_mono_ns) {
        err->code = FG_E_UNAVAILABLE;
        return fg_wrap(err, "the key may be new, try again");
    }
    /* The bytes are whole; without the key nobody can say more about them. */
    return err->code = FG_E_UNIMPLEMENTED;
}

static enum fg_code find(void *arg, struct fg_slice tenant, uint32_t number,
                         struct fg_seal_key *ret_key, struct fg_err *err)
{
    struct fg_key_store *store = arg;
    enum fg_code code;

    if (fg_key_ring_find(store->ring, tenant, number, ret_key))
        return FG_OK;
    (void)pthread_mutex_lock(&store->fetching);
    /* Somebody else may have been faster. */
    if (fg_key_ring_find(store->ring, tenant, number, ret_key))
        code = FG_OK;
    else
        code = find_known(store, tenant, number, ret_key, err);
    if (code == FG_E_NOT_FOUND) {
        bool first;
        int64_t since_ns = missing_since(store, tenant, number, &first);

        code = read_again(store, first && may_hurry(store), err);
        if (code == FG_OK)
            code = find_known(store, tenant, number, ret_key, err);
        if (code == FG_E_NOT_FOUND)
            code = fail_missing(store, since_ns, err);
    }
    (void)pthread_mutex_unlock(&store->fetching);
    if (code == FG_E_UNIMPLEMENTED)
        count(store, KEYS_MISSING);
    return code;
}

/* ---- making ---- */

struct making {
    struct fg_slice tenant;
    uint32_t version;
    struct fg_buf wrapped;
    const char *wrapped_by;
};

static enum fg_code add(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    const struct making *making = arg;

    return fg_tenant_key_add(change, making->tenant, making->version,
                             fg_buf_slice(&making->wrapped), making->wrapped_by, err);
}

static enum fg_code swap(struct fg_bucket *bucket, const char *by, uint64_t known_generation,
                         fg_access_edit edit, void *arg, struct fg_err *err)
{
    return fg_access_swap(
        &(struct fg_access_writer){.bucket = bucket,
                                   .by = by,
                                   .now_ms = fg_wall_ns(fg_clock_real()) / FG_MS_NS,
                                   .deadline_mono_ns = deadline(),
                                   .known = known_generation},
        edit, arg, err);
}

static enum fg_code swap_known(struct fg_key_store *store, fg_access_edit edit, void *arg,
                               struct fg_err *err)
{
    return swap(store->config.bucket, store->config.by, known_generation(store), edit, arg, err);
}

/* Wraps a key of a tenant with what wraps new ones, and unwraps it again: a key that cannot be had
 * back would lose all that is encrypted with it, for example if policies allow only the one. */
static enum fg_code wrap_for(struct fg_key_store *store, struct fg_slice tenant,
                             const struct fg_seal_key *key, struct fg_buf *out, struct fg_err *err)
{
    struct fg_key_wrap *wrap = store->wraps[0];
    struct fg_seal_key again = {{0}};
    enum fg_code code = wrap->wrap(wrap, tenant, key, out, err);

    if (code == FG_OK)
        code = wrap->unwrap(wrap, tenant, fg_buf_slice(out), &again, err);
    if (code == FG_OK && CRYPTO_memcmp(again.bytes, key->bytes, sizeof key->bytes) != 0)
        code = fg_fail(err, FG_E_UNAVAILABLE, "%s gives back another key", wrap->name);
    fg_seal_wipe(&again);
    return code == FG_OK ? FG_OK : fg_wrap(err, "a key for tenant %.*s", FG_S(tenant));
}

/* Makes a key and stores it as a version of the tenant. FG_E_EXISTS: somebody else was faster.
 * `fetching` is held. */
static enum fg_code make(struct fg_key_store *store, struct fg_slice tenant, uint32_t version,
                         struct fg_err *err)
{
    struct fg_key_wrap *wrap = store->wraps[0];
    struct making making = {.tenant = tenant, .version = version, .wrapped_by = wrap->name};
    struct fg_seal_key key;
    enum fg_code code;

    if (RAND_priv_bytes(key.bytes, sizeof key.bytes) != 1)
        return fg_fail(err, FG_E_UNAVAILABLE, "no random numbers for a key");
    fg_buf_init(&making.wrapped, FG_TENANT_KEY_WRAPPED_MAX_BYTES);
    code = wrap_for(store, tenant, &key, &making.wrapped, err);
    fg_seal_wipe(&key);
    if (code == FG_OK)
        code = swap_known(store, add, &making, err);
    fg_buf_done(&making.wrapped);
    if (code != FG_OK)
        return code;
    count(store, KEYS_MADE);
    fg_log_info("key of a tenant made", fg_lb("tenant", tenant), fg_lu("version", version),
                fg_ls("encrypted_with", wrap->name));
    return FG_OK;
}

/* Copies the newest key of the known registry. FG_E_EXISTS: it has none. */
static enum fg_code look_newest(struct fg_key_store *store, struct fg_slice tenant,
                                uint32_t *ret_number, struct fg_seal_key *ret_key,
                                struct fg_err *err)
{
    struct fg_access_registry *registry = known(store);
    const Access__TenantKey *key =
        registry == NULL ? NULL : fg_tenant_key_newest(registry->message, tenant);
    uint32_t number = key == NULL ? 0 : key->version;
    enum fg_code code = FG_OK;

    if (key == NULL)
        code = fg_fail(err, FG_E_EXISTS, "tenant %.*s has no key", FG_S(tenant));
    else if (key->shredded_ms != 0)
        code = say_shredded(key, FG_E_NOT_FOUND, err);
    fg_access_registry_unref(registry);
    if (code == FG_OK)
        code = find(store, tenant, number, ret_key, err);
    if (code == FG_OK)
        *ret_number = number;
    return code;
}

/* Gives a tenant its first key, unless it has one in the bucket. */
static enum fg_code make_first(struct fg_key_store *store, struct fg_slice tenant,
                               struct fg_err *err)
{
    struct fg_access_registry *registry;
    enum fg_code code;
    bool has_one;

    (void)pthread_mutex_lock(&store->fetching);
    code = read_again(store, true, err);
    registry = known(store);
    has_one = registry != NULL && fg_tenant_key_newest(registry->message, tenant) != NULL;
    fg_access_registry_unref(registry);
    if (code == FG_OK && !has_one) {
        code = make(store, tenant, 1, err);
        if (code == FG_OK || code == FG_E_EXISTS)
            code = read_again(store, true, err);
    }
    (void)pthread_mutex_unlock(&store->fetching);
    return code;
}

static enum fg_code newest(void *arg, struct fg_slice tenant, uint32_t *ret_number,
                           struct fg_seal_key *ret_key, struct fg_err *err)
{
    struct fg_key_store *store = arg;
    enum fg_code code;

    if (store->config.settings->mode == FG_ENCRYPTION_OFF) {
        *ret_number = 0;
        return FG_OK;
    }
    code = look_newest(store, tenant, ret_number, ret_key, err);
    if (code == FG_E_EXISTS) {
        code = make_first(store, tenant, err);
        if (code == FG_OK)
            code = look_newest(store, tenant, ret_number, ret_key, err);
    }
    /* Whatever went wrong passes, or an operator ends it; profiles must wait, and not be set aside
     * because of it. */
    if (code != FG_OK && code != FG_E_NOT_FOUND)
        code = err->code = FG_E_UNAVAILABLE;
    return code;
}

enum fg_code fg_key_store_rotate(struct fg_key_store *store, struct fg_slice tenant,
                                 uint32_t *ret_version, struct fg_err *err)
{
    uint32_t version = 0;
    enum fg_code code;

    (void)pthread_mutex_lock(&store->fetching);
    code = read_again(store, true, err);
    if (code == FG_OK) {
        struct fg_access_registry *registry = known(store);
        const Access__TenantKey *key = fg_tenant_key_newest(registry->message, tenant);

        if (key == NULL)
            code = fg_tenant_key_none(tenant, err);
        else
            version = key->version + 1;
        fg_access_registry_unref(registry);
    }
    if (code == FG_OK)
        code = make(store, tenant, version, err);
    (void)pthread_mutex_unlock(&store->fetching);
    if (code == FG_OK)
        *ret_version = version;
    return code;
}

/* ---- other keys ---- */

enum fg_code fg_key_store_wrap(struct fg_key_store *store, struct fg_slice owner,
                               const struct fg_seal_key *key, struct fg_buf *out,
                               const char **ret_name, struct fg_err *err)
{
    struct fg_key_wrap *wrap = store->wraps[0];

    *ret_name = wrap->name;
    return wrap->wrap(wrap, owner, key, out, err);
}

enum fg_code fg_key_store_unwrap(struct fg_key_store *store, struct fg_slice owner,
                                 struct fg_slice name, struct fg_slice wrapped,
                                 struct fg_seal_key *ret_key, struct fg_err *err)
{
    for (size_t i = 0; i < store->n_wraps; i++)
        if (fg_slice_is(name, store->wraps[i]->name))
            return store->wraps[i]->unwrap(store->wraps[i], owner, wrapped, ret_key, err);
    return fg_fail(err, FG_E_PRECONDITION,
                   "it is encrypted with %.*s, which this program does not have "
                   "(encryption.key_file, vault_address, kms.key, and old_key_files, kms.old_keys)",
                   FG_S(fg_slice_sub(name, 0, FG_KEY_WRAP_NAME_MAX_BYTES)));
}

bool fg_key_store_wraps_with(const struct fg_key_store *store, struct fg_slice name)
{
    return fg_slice_is(name, store->wraps[0]->name);
}

bool fg_key_store_has_versions(const struct fg_key_store *store)
{
    return store->wraps[0]->same_version != NULL;
}

bool fg_key_store_encrypts(const struct fg_key_store *store)
{
    return store->config.settings->mode == FG_ENCRYPTION_PER_TENANT;
}

/* ---- shredding and wrapping again ---- */

struct shredding {
    struct fg_slice tenant;
    uint32_t newest;
};

static enum fg_code shred(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    struct shredding *shredding = arg;

    if (fg_tenant_key_shred(change, shredding->tenant, err) != FG_OK)
        return err->code;
    shredding->newest = fg_tenant_key_newest(change->registry, shredding->tenant)->version;
    return FG_OK;
}

enum fg_code fg_key_store_shred(struct fg_bucket *bucket, const char *by, struct fg_slice tenant,
                                uint32_t *ret_newest, struct fg_err *err)
{
    struct shredding shredding = {.tenant = tenant};
    enum fg_code code = swap(bucket, by, 0, shred, &shredding, err);

    if (code == FG_OK)
        *ret_newest = shredding.newest;
    return code;
}

static enum fg_code rewrap(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    const struct making *making = arg;

    return fg_tenant_key_rewrap(change, making->tenant, making->version,
                                fg_buf_slice(&making->wrapped), making->wrapped_by, err);
}

/* *ret_done false: it is wrapped with the newest version already. */
static enum fg_code rewrap_key(struct fg_key_store *store, const Access__TenantKey *key,
                               bool *ret_done, struct fg_err *err)
{
    struct fg_key_wrap *wrap = store->wraps[0];
    const bool same_key = strcmp(key->wrapped_by, wrap->name) == 0;
    const struct fg_slice before = fg_bytes(key->wrapped.data, key->wrapped.len);
    struct making making = {
        .tenant = fg_cstr(key->tenant), .version = key->version, .wrapped_by = wrap->name};
    struct fg_seal_key secret;
    enum fg_code code = find(store, making.tenant, key->version, &secret, err);

    if (code != FG_OK)
        return code;
    fg_buf_init(&making.wrapped, FG_TENANT_KEY_WRAPPED_MAX_BYTES);
    code = wrap_for(store, making.tenant, &secret, &making.wrapped, err);
    fg_seal_wipe(&secret);
    *ret_done =
        code == FG_OK && !(same_key && wrap->same_version(before, fg_buf_slice(&making.wrapped)));
    if (*ret_done)
        code = swap_known(store, rewrap, &making, err);
    fg_buf_done(&making.wrapped);
    return code;
}

enum fg_code fg_key_store_rewrap(struct fg_key_store *store, uint32_t *ret_count,
                                 struct fg_err *err)
{
    struct fg_access_registry *registry;
    enum fg_code code;

    (void)pthread_mutex_lock(&store->fetching);
    code = read_again(store, true, err);
    (void)pthread_mutex_unlock(&store->fetching);
    if (code != FG_OK)
        return code;
    registry = known(store);
    *ret_count = 0;
    for (size_t i = 0; i < registry->message->n_keys && code == FG_OK; i++) {
        const Access__TenantKey *key = registry->message->keys[i];
        bool done;

        if (key->shredded_ms != 0 || (strcmp(key->wrapped_by, store->wraps[0]->name) == 0 &&
                                      store->wraps[0]->same_version == NULL))
            continue;
        code = rewrap_key(store, key, &done, err);
        *ret_count += code == FG_OK && done;
    }
    fg_access_registry_unref(registry);
    return code;
}

/* ---- life ---- */

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static enum fg_code add_file(struct fg_key_store *store, const char *path, struct fg_err *err)
{
    if (store->n_wraps == WRAPS_MAX)
        return fg_fail(err, FG_E_INVALID, "more than %d keys", WRAPS_MAX);
    if (fg_key_wrap_file(path, &store->wraps[store->n_wraps], err) != FG_OK)
        return err->code;
    store->n_wraps++;
    return FG_OK;
}

static enum fg_code add_key_file(struct fg_key_store *store, struct fg_err *err)
{
    if (add_file(store, store->config.settings->key_file, err) != FG_OK)
        return fg_wrap(err, "setting encryption.key_file");
    return FG_OK;
}

static enum fg_code add_vault(struct fg_key_store *store, struct fg_err *err)
{
    const struct fg_encryption_settings *settings = store->config.settings;
    const struct fg_key_wrap_vault config = {.address = settings->vault_address,
                                             .mount = settings->vault_mount,
                                             .key = settings->vault_key,
                                             .token_file = settings->vault_token_file,
                                             .ca_file = settings->vault_ca_file};

    if (fg_key_wrap_vault(&config, &store->wraps[store->n_wraps], err) != FG_OK)
        return err->code;
    store->n_wraps++;
    return FG_OK;
}

static enum fg_code add_kms_key(struct fg_key_store *store, const char *key, struct fg_err *err)
{
    const struct fg_encryption_kms_settings *kms = &store->config.settings->kms;
    const struct fg_key_wrap_kms config = {
        .key = key,
        .region = kms->region,
        .endpoint = kms->endpoint,
        .ca_file = kms->ca_file,
        .keys = fg_aws_sources(&kms->keys),
        .clock = store->config.clock == NULL ? fg_clock_real() : store->config.clock,
    };

    if (store->n_wraps == WRAPS_MAX)
        return fg_fail(err, FG_E_INVALID, "more than %d keys", WRAPS_MAX);
    if (fg_key_wrap_kms(&config, &store->wraps[store->n_wraps], err) != FG_OK)
        return err->code;
    store->n_wraps++;
    return FG_OK;
}

static enum fg_code add_kms(struct fg_key_store *store, struct fg_err *err)
{
    return add_kms_key(store, store->config.settings->kms.key, err);
}

/* Adds those of a list that is separated by commas. */
static enum fg_code add_old(struct fg_key_store *store, const char *list,
                            enum fg_code (*add_one)(struct fg_key_store *store, const char *text,
                                                    struct fg_err *err),
                            struct fg_err *err)
{
    struct fg_slice rest = fg_cstr(list == NULL ? "" : list);
    char text[PATH_MAX_BYTES];

    while (rest.len > 0) {
        size_t comma = FG_MIN(fg_slice_find(rest, ','), rest.len);
        struct fg_slice one = fg_trim(fg_slice_sub(rest, 0, comma));

        (void)snprintf(text, sizeof text, "%.*s", FG_S(one));
        if (one.len > 0 && add_one(store, text, err) != FG_OK)
            return err->code;
        rest = fg_slice_sub(rest, comma + 1, SIZE_MAX);
    }
    return FG_OK;
}

/* One of the three that can encrypt new keys. */
struct choice {
    const char *setting, *value; /* NULL or "": it is not set */
    enum fg_code (*add)(struct fg_key_store *store, struct fg_err *err);
};

enum { CHOICES = FG_ENCRYPTION_WRAP_KMS + 1 };

/* Finds the one that encrypts new keys. */
static enum fg_code choose(const struct choice choices[CHOICES], unsigned wrap_with,
                           unsigned *ret_chosen, struct fg_err *err)
{
    unsigned chosen = wrap_with, n_set = 0;

    for (unsigned i = 1; i < CHOICES; i++)
        if (is_set(choices[i].value)) {
            n_set++;
            if (wrap_with == FG_ENCRYPTION_WRAP_AUTO)
                chosen = i;
        }
    if (n_set == 0)
        return fg_fail(err, FG_E_INVALID,
                       "encryption.mode: per_tenant and earlier keys need encryption.key_file, "
                       "encryption.vault_address or encryption.kms.key");
    if (wrap_with == FG_ENCRYPTION_WRAP_AUTO && n_set > 1)
        return fg_fail(err, FG_E_INVALID,
                       "several of encryption.key_file, encryption.vault_address and "
                       "encryption.kms.key are set, so encryption.wrap_with has to say which one "
                       "encrypts keys of tenants; a file that did so before may also go to "
                       "encryption.old_key_files");
    if (!is_set(choices[chosen].value))
        return fg_fail(err, FG_E_INVALID, "encryption.wrap_with needs %s", choices[chosen].setting);
    *ret_chosen = chosen;
    return FG_OK;
}

/* The one that encrypts new keys comes first. */
static enum fg_code add_wraps(struct fg_key_store *store, struct fg_err *err)
{
    const struct fg_encryption_settings *settings = store->config.settings;
    const struct choice choices[CHOICES] = {
        [FG_ENCRYPTION_WRAP_KEY_FILE] = {"encryption.key_file", settings->key_file, add_key_file},
        [FG_ENCRYPTION_WRAP_VAULT] = {"encryption.vault_address", settings->vault_address,
                                      add_vault},
        [FG_ENCRYPTION_WRAP_KMS] = {"encryption.kms.key", settings->kms.key, add_kms},
    };
    unsigned chosen = 0;

    if (choose(choices, settings->wrap_with, &chosen, err) != FG_OK)
        return err->code;
    fg_assert(choices[chosen].add != NULL);
    if (choices[chosen].add(store, err) != FG_OK)
        return err->code;
    for (unsigned i = 1; i < CHOICES; i++)
        if (i != chosen && is_set(choices[i].value) && choices[i].add(store, err) != FG_OK)
            return err->code;
    if (add_old(store, settings->old_key_files, add_file, err) != FG_OK)
        return fg_wrap(err, "setting encryption.old_key_files");
    if (add_old(store, settings->kms.old_keys, add_kms_key, err) != FG_OK)
        return fg_wrap(err, "setting encryption.kms.old_keys");
    return FG_OK;
}

enum fg_code fg_key_store_create(const struct fg_key_store_config *config,
                                 struct fg_key_store **ret_store, struct fg_err *err)
{
    const struct fg_encryption_settings *settings = config->settings;
    struct fg_key_store *store;

    *ret_store = NULL;
    if (settings->mode == FG_ENCRYPTION_OFF && !is_set(settings->key_file) &&
        !is_set(settings->old_key_files) && !is_set(settings->vault_address) &&
        !is_set(settings->kms.key) && !is_set(settings->kms.old_keys))
        return FG_OK;
    store = fg_new(struct fg_key_store);
    store->config = *config;
    store->keys = (struct fg_keys){find, newest, store};
    store->ring = fg_key_ring_create();
    fg_assert(pthread_mutex_init(&store->lock, NULL) == 0);
    fg_assert(pthread_mutex_init(&store->fetching, NULL) == 0);
    if (config->registry != NULL)
        store->metrics =
            fg_metrics_register(config->registry, keys_metrics, FG_COUNT(keys_metrics));
    if (add_wraps(store, err) != FG_OK) {
        fg_key_store_destroy(store);
        return err->code;
    }
    fg_bucket_base(config->bucket)->keys = &store->keys;
    *ret_store = store;
    return FG_OK;
}

void fg_key_store_destroy(struct fg_key_store *store)
{
    if (store == NULL)
        return;
    if (fg_bucket_base(store->config.bucket)->keys == &store->keys)
        fg_bucket_base(store->config.bucket)->keys = NULL;
    for (size_t i = 0; i < store->n_wraps; i++)
        fg_key_wrap_destroy(store->wraps[i]);
    fg_key_ring_destroy(store->ring);
    fg_access_registry_unref(store->registry);
    (void)pthread_mutex_destroy(&store->fetching);
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}
