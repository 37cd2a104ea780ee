/* Keys of tenants: from the first block of a tenant to the day when they are shredded, of two
 * processes on one bucket. */
#include "common/access/keys/key_store.h"
#include "common/access/keys/key_wrap.h"
#include "common/access/registry/registry_object.h"
#include "common/access/registry/tenant_deletion.h"
#include "common/access/registry/tenant_keys_change.h"
#include "common/base/str.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/fake_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATHS = 3, PATH_BYTES = 64 };

struct fixture {
    struct fg_bucket *bucket;
    char folder[PATH_BYTES], paths[PATHS][PATH_BYTES + 16];
    struct fg_encryption_settings settings;
    struct fg_key_store *store;
    struct fg_err err;
};

static char none[] = "";

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void write_file(const char *path, const char *text, size_t len, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void open_fixture(struct fixture *f)
{
    static const char *const keys[PATHS] = {
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
        "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", "not a key\n"};

    *f = (struct fixture){.bucket = fg_bucket_memory()};
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/key_store_test_XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    for (size_t i = 0; i < PATHS; i++) {
        (void)snprintf(f->paths[i], sizeof f->paths[i], "%s/key%zu", f->folder, i);
        write_file(f->paths[i], keys[i], strlen(keys[i]), 0600);
    }
    f->settings = (struct fg_encryption_settings){.mode = FG_ENCRYPTION_PER_TENANT,
                                                  .key_file = f->paths[0],
                                                  .old_key_files = none,
                                                  .vault_address = none};
}

static enum fg_code create(struct fixture *f)
{
    return fg_key_store_create(&(struct fg_key_store_config){.settings = &f->settings,
                                                             .bucket = f->bucket,
                                                             .by = "the test"},
                               &f->store, &f->err);
}

static void restart(struct fixture *f)
{
    fg_key_store_destroy(f->store);
    must(create(f), &f->err);
    assert_non_null(f->store);
}

static void close_fixture(struct fixture *f)
{
    fg_key_store_destroy(f->store);
    assert_null(f->bucket->keys);
    for (size_t i = 0; i < PATHS; i++)
        assert_int_equal(unlink(f->paths[i]), 0);
    assert_int_equal(rmdir(f->folder), 0);
    fg_bucket_close(f->bucket);
}

/* A change by another process. */
static enum fg_code swap(struct fixture *f, fg_access_edit edit, void *arg)
{
    return fg_access_swap(
        &(struct fg_access_writer){
            .bucket = f->bucket, .by = "other", .now_ms = 1, .deadline_mono_ns = INT64_MAX},
        edit, arg, &f->err);
}

static struct fg_seal_key newest(struct fixture *f, const char *tenant, uint32_t number)
{
    struct fg_seal_key key = {{0}};
    uint32_t found = UINT32_MAX;

    must(fg_keys_newest(f->bucket->keys, fg_cstr(tenant), &found, &key, &f->err), &f->err);
    assert_int_equal(found, number);
    return key;
}

static struct fg_seal_key find(struct fixture *f, const char *tenant, uint32_t number)
{
    struct fg_seal_key key;

    must(fg_keys_find(f->bucket->keys, fg_cstr(tenant), number, &key, &f->err), &f->err);
    return key;
}

static void expect_missing(struct fixture *f, const char *tenant, uint32_t number, const char *why)
{
    struct fg_seal_key key;
    enum fg_code code;

    /* It is certain after the next read of the registry, which is a second after the last one. */
    while ((code = fg_keys_find(f->bucket->keys, fg_cstr(tenant), number, &key, &f->err)) ==
           FG_E_UNAVAILABLE)
        (void)usleep(10000);
    assert_int_equal(code, FG_E_UNIMPLEMENTED);
    if (strstr(f->err.msg, why) == NULL)
        fail_msg("%s", f->err.msg);
}

static void without_settings_there_are_no_keys(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f);
    f.settings = (struct fg_encryption_settings){
        .key_file = none, .old_key_files = none, .vault_address = none};
    must(create(&f), &f.err);
    assert_null(f.store);
    (void)newest(&f, "acme", 0);
    expect_missing(&f, "acme", 1, "this program has no keys");
    close_fixture(&f);
}

static void key_files_are_checked(void **state)
{
    static const struct {
        const char *text;
        bool ok;
    } texts[] = {
        {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", true},
        {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", true},
        {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", true},
        {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==", false},
        {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e", false},
        {"my secret", false},
        {"", false},
    };
    static const char raw[32] = {1, 2, 3};
    char nowhere[] = "/nowhere/key";
    struct fixture f;

    (void)state;
    open_fixture(&f);
    f.settings.key_file = f.paths[2];
    assert_int_equal(create(&f), FG_E_INVALID);
    assert_non_null(strstr(f.err.msg, "a key is 32 bytes, as they are"));
    for (size_t i = 0; i < FG_COUNT(texts); i++) {
        write_file(f.paths[2], texts[i].text, strlen(texts[i].text), 0640);
        assert_int_equal(create(&f), texts[i].ok ? FG_OK : FG_E_INVALID);
        if (texts[i].ok)
            fg_key_store_destroy(f.store);
        else if (texts[i].text[0] != '\0')
            assert_null(strstr(f.err.msg, texts[i].text));
    }
    write_file(f.paths[2], raw, sizeof raw, 0640);
    must(create(&f), &f.err);
    fg_key_store_destroy(f.store);
    assert_int_equal(chmod(f.paths[2], 0644), 0);
    assert_int_equal(create(&f), FG_E_INVALID);
    assert_non_null(strstr(f.err.msg, "lets others in than owner and group"));
    f.settings.key_file = nowhere;
    assert_int_not_equal(create(&f), FG_OK);
    assert_non_null(strstr(f.err.msg, "setting encryption.key_file: /nowhere/key"));
    f.settings.key_file = none;
    assert_int_equal(create(&f), FG_E_INVALID);
    close_fixture(&f);
}

static void each_tenant_gets_a_key_that_stays(void **state)
{
    struct fg_seal_key acme, zeta, again;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(create(&f), &f.err);
    acme = newest(&f, "acme", 1);
    zeta = newest(&f, "zeta", 1);
    assert_memory_not_equal(&acme, &zeta, sizeof acme);
    again = newest(&f, "acme", 1);
    assert_memory_equal(&acme, &again, sizeof acme);
    restart(&f); /* or another process */
    again = find(&f, "acme", 1);
    assert_memory_equal(&acme, &again, sizeof acme);
    again = newest(&f, "zeta", 1);
    assert_memory_equal(&zeta, &again, sizeof zeta);
    expect_missing(&f, "acme", 2, "which the registry of access does not have");
    f.settings.mode = FG_ENCRYPTION_OFF; /* reads, and writes plain */
    restart(&f);
    again = find(&f, "acme", 1);
    assert_memory_equal(&acme, &again, sizeof acme);
    (void)newest(&f, "acme", 0);
    close_fixture(&f);
}

static void rotation_keeps_the_old_keys(void **state)
{
    struct fg_seal_key first, second, found;
    uint32_t version = 0;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(create(&f), &f.err);
    first = newest(&f, "acme", 1);
    must(fg_key_store_rotate(f.store, FG_LIT("acme"), &version, &f.err), &f.err);
    assert_int_equal(version, 2);
    restart(&f);
    second = newest(&f, "acme", 2);
    assert_memory_not_equal(&first, &second, sizeof first);
    found = find(&f, "acme", 1);
    assert_memory_equal(&first, &found, sizeof first);
    close_fixture(&f);
}

/* A typing error makes no key. */
static void a_tenant_without_keys_cannot_be_rotated(void **state)
{
    struct fg_access_registry *registry = NULL;
    uint32_t version = 77;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(create(&f), &f.err);
    (void)newest(&f, "acme", 1);
    assert_int_equal(fg_key_store_rotate(f.store, FG_LIT("acne"), &version, &f.err),
                     FG_E_NOT_FOUND);
    assert_non_null(strstr(f.err.msg, "tenant \"acne\" has no key"));
    assert_int_equal(version, 77);
    must(fg_access_read(f.bucket, INT64_MAX, &registry, &f.err), &f.err);
    assert_int_equal(registry->message->n_keys, 1);
    fg_access_registry_unref(registry);
    close_fixture(&f);
}

static void another_key_file_needs_the_old_one_until_keys_are_wrapped_again(void **state)
{
    struct fg_seal_key key, found;
    uint32_t count = 0;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(create(&f), &f.err);
    key = newest(&f, "acme", 1);
    f.settings.key_file = f.paths[1];
    restart(&f);
    expect_missing(&f, "acme", 1, "which this program does not have");
    f.settings.old_key_files = f.paths[0];
    restart(&f);
    must(fg_key_store_rewrap(f.store, &count, &f.err), &f.err);
    assert_int_equal(count, 1);
    must(fg_key_store_rewrap(f.store, &count, &f.err), &f.err);
    assert_int_equal(count, 0);
    f.settings.old_key_files = none;
    restart(&f);
    found = find(&f, "acme", 1);
    assert_memory_equal(&key, &found, sizeof key);
    close_fixture(&f);
}

/* The store hears of it when the process sees the registry. */
static void which_of_several_encrypts_has_to_be_said(void **state)
{
    char address[] = "http://127.0.0.1:1", mount[] = "transit", key[] = "alias/flamegrid",
         on[] = "x";
    struct fixture f;

    (void)state;
    open_fixture(&f);
    f.settings.vault_address = address;
    f.settings.vault_mount = f.settings.vault_key = mount;
    f.settings.vault_token_file = f.paths[2];
    f.settings.vault_ca_file = none;
    assert_int_equal(create(&f), FG_E_INVALID);
    assert_non_null(strstr(f.err.msg, "encryption.wrap_with has to say which one"));
    f.settings.wrap_with = FG_ENCRYPTION_WRAP_KMS;
    assert_int_equal(create(&f), FG_E_INVALID);
    assert_non_null(strstr(f.err.msg, "encryption.wrap_with needs encryption.kms.key"));
    f.settings.kms = (struct fg_encryption_kms_settings){
        .key = key,
        .region = none,
        .endpoint = address,
        .ca_file = none,
        .keys = {on, on, none, none, none, none, none, none, none, none}};
    must(create(&f), &f.err);
    assert_true(fg_key_store_wraps_with(f.store, FG_LIT("kms:alias/flamegrid")));
    fg_key_store_destroy(f.store);
    f.settings.wrap_with = FG_ENCRYPTION_WRAP_VAULT;
    must(create(&f), &f.err);
    assert_true(fg_key_store_wraps_with(f.store, FG_LIT("vault:transit/transit")));
    fg_key_store_destroy(f.store);
    f.settings.wrap_with = FG_ENCRYPTION_WRAP_KEY_FILE;
    must(create(&f), &f.err);
    (void)newest(&f, "acme", 1); /* nobody else is asked */
    close_fixture(&f);
}

/* Those of the settings kms.old_keys. */
static void too_many_keys_are_refused(void **state)
{
    char address[] = "http://127.0.0.1:1", on[] = "x";
    char keys[] = "alias/1,alias/2 , alias/3,,alias/4,alias/5,alias/6,alias/7";
    char more[] = "alias/1,alias/2,alias/3,alias/4,alias/5,alias/6,alias/7,alias/8";
    struct fixture f;

    (void)state;
    open_fixture(&f);
    f.settings.kms = (struct fg_encryption_kms_settings){
        .key = none,
        .old_keys = keys,
        .region = none,
        .endpoint = address,
        .ca_file = none,
        .keys = {on, on, none, none, none, none, none, none, none, none}};
    must(create(&f), &f.err);
    fg_key_store_destroy(f.store);
    f.settings.kms.old_keys = more;
    assert_int_equal(create(&f), FG_E_INVALID);
    assert_non_null(strstr(f.err.msg, "setting encryption.kms.old_keys: more than 8 keys"));
    f.store = NULL;
    close_fixture(&f);
}

static void shredded_keys_are_gone_for_good(void **state)
{
    struct fg_access_registry *registry = NULL;
    struct fg_seal_key key, other;
    uint32_t number = 0;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(create(&f), &f.err);
    (void)newest(&f, "acme", 1);
    other = newest(&f, "zeta", 1);
    must(fg_key_store_shred(f.bucket, "the boss", FG_LIT("acme"), &number, &f.err), &f.err);
    assert_int_equal(number, 1);
    must(fg_access_read(f.bucket, INT64_MAX, &registry, &f.err), &f.err);
    assert_int_equal(fg_tenant_key_newest(registry->message, FG_LIT("acme"))->wrapped.len, 0);
    fg_key_store_see(f.store, registry);
    fg_access_registry_unref(registry);
    for (unsigned round = 0; round < 2; round++) {
        expect_missing(&f, "acme", 1, "was shredded on 20");
        assert_non_null(strstr(f.err.msg, "by the boss"));
        assert_int_equal(fg_keys_newest(f.bucket->keys, FG_LIT("acme"), &number, &key, &f.err),
                         FG_E_NOT_FOUND);
        key = newest(&f, "zeta", 1);
        assert_memory_equal(&key, &other, sizeof key);
        restart(&f);
    }
    assert_int_equal(fg_key_store_shred(f.bucket, "the boss", FG_LIT("nobody"), &number, &f.err),
                     FG_E_NOT_FOUND);
    must(fg_key_store_rotate(f.store, FG_LIT("acme"), &number, &f.err), &f.err);
    assert_int_equal(number, 2);
    restart(&f);
    (void)newest(&f, "acme", 2); /* a tenant of that name begins again */
    expect_missing(&f, "acme", 1, "was shredded on 20");
    close_fixture(&f);
}

static enum fg_code add_first(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    const struct fg_slice *wrapped = arg;

    return fg_tenant_key_add(change, FG_LIT("acme"), 1, *wrapped, "file:other", err);
}

/* Two processes write the first block of a tenant at once: the slower one takes the other's key. */
static void the_first_key_that_is_stored_wins(void **state)
{
    struct fg_slice wrapped = FG_LIT("whatever");
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(create(&f), &f.err);
    (void)newest(&f, "acme", 1);
    assert_int_equal(swap(&f, add_first, &wrapped), FG_E_EXISTS);
    close_fixture(&f);
}

static enum fg_code delete_object(struct fixture *f)
{
    struct fg_bucket_request gone = {.verb = FG_BUCKET_DELETE, .name = FG_ACCESS_REGISTRY_NAME};
    enum fg_code code = fg_bucket_call(f->bucket, &gone);

    fg_bucket_clear(&gone);
    return code;
}

static void put_object(struct fixture *f, struct fg_slice bytes)
{
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT, .name = FG_ACCESS_REGISTRY_NAME, .content = bytes};

    must(fg_bucket_call(f->bucket, &put), &put.err);
    fg_bucket_clear(&put);
}

/* With fg_bucket_clear(); its body is empty if there is none. */
static struct fg_bucket_request get_object(struct fixture *f)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = FG_ACCESS_REGISTRY_NAME,
                                    .content_max_bytes = FG_ACCESS_REGISTRY_MAX_BYTES};

    if (fg_bucket_call(f->bucket, &get) != FG_OK)
        assert_int_equal(get.code, FG_E_NOT_FOUND);
    return get;
}

/* A tenant's first key must not begin another registry: all other keys would be in none. */
static void no_key_is_made_while_the_registry_is_lost(void **state)
{
    struct fg_bucket_request first, newest_one, now;
    struct fg_seal_key acme, key;
    uint32_t number = 0;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(create(&f), &f.err);
    acme = newest(&f, "acme", 1);
    first = get_object(&f);
    must(fg_key_store_rotate(f.store, FG_LIT("acme"), &number, &f.err), &f.err);
    (void)newest(&f, "beta", 1);
    newest_one = get_object(&f);

    must(delete_object(&f), &f.err);
    assert_int_equal(fg_keys_newest(f.bucket->keys, FG_LIT("zeta"), &number, &key, &f.err),
                     FG_E_UNAVAILABLE);
    assert_non_null(strstr(f.err.msg, "access/registry is gone from the bucket"));
    now = get_object(&f);
    assert_int_equal(now.body.len, 0);
    fg_bucket_clear(&now);
    key = find(&f, "acme", 1); /* what was known is */
    assert_memory_equal(&acme, &key, sizeof key);

    put_object(&f, fg_buf_slice(&first.body)); /* from a backup */
    do {                                       /* the store rests after a failure */
        (void)usleep(10000);
        assert_int_equal(fg_keys_newest(f.bucket->keys, FG_LIT("zeta"), &number, &key, &f.err),
                         FG_E_UNAVAILABLE);
    } while (strstr(f.err.msg, "older than the known one") == NULL);
    assert_int_not_equal(fg_key_store_rotate(f.store, FG_LIT("acme"), &number, &f.err), FG_OK);
    now = get_object(&f);
    assert_true(fg_slice_eq(fg_buf_slice(&now.body), fg_buf_slice(&first.body)));
    fg_bucket_clear(&now);

    put_object(&f, fg_buf_slice(&newest_one.body));
    while (fg_keys_newest(f.bucket->keys, FG_LIT("zeta"), &number, &key, &f.err) != FG_OK)
        (void)usleep(10000);
    assert_int_equal(number, 1);
    restart(&f);
    (void)newest(&f, "acme", 2);
    fg_bucket_clear(&newest_one);
    fg_bucket_clear(&first);
    close_fixture(&f);
}

static enum fg_code create_and_delete(void *arg, const struct fg_access_change *change,
                                      struct fg_err *err)
{
    const struct fg_slice tenant = fg_cstr(arg);

    return fg_access_create_tenant(change, tenant, err) != FG_OK
               ? err->code
               : fg_access_delete_tenant(change, tenant, err);
}

/* It had sent, and its first segment comes after that: nothing of it is to be written. */
static void a_tenant_that_is_deleted_before_its_first_segment_gets_no_key(void **state)
{
    struct fg_access_registry *registry = NULL;
    char acme[] = "acme", zeta[] = "zeta";
    struct fg_seal_key key;
    uint32_t number = 0;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(create(&f), &f.err);
    (void)newest(&f, "zeta", 1);
    must(swap(&f, create_and_delete, acme), &f.err);
    must(swap(&f, create_and_delete, zeta), &f.err);
    assert_int_equal(fg_keys_newest(f.bucket->keys, FG_LIT("acme"), &number, &key, &f.err),
                     FG_E_NOT_FOUND);
    assert_int_equal(fg_key_store_rotate(f.store, FG_LIT("zeta"), &number, &f.err), FG_E_NOT_FOUND);
    must(fg_access_read(f.bucket, INT64_MAX, &registry, &f.err), &f.err);
    assert_int_equal(registry->message->n_keys, 1);
    assert_true(fg_tenant_key_is_shredded(registry->message, FG_LIT("zeta"), 1));
    fg_access_registry_unref(registry);
    close_fixture(&f);
}

/* Another process may have made it since the registry was read: blocks with it are not taken for
 * unreadable, which queries would report, and for which the compactor would leave them. */
static void a_key_of_another_process_is_found_at_once(void **state)
{
    struct fg_seal_key made, found;
    const struct fg_keys *keys;
    struct fg_key_store *store;
    uint32_t number = 0;
    enum fg_code code;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(create(&f), &f.err);
    (void)newest(&f, "acme", 1); /* the registry was read just now */
    store = f.store;
    keys = f.bucket->keys;
    must(create(&f), &f.err); /* another process */
    must(fg_key_store_rotate(f.store, FG_LIT("acme"), &number, &f.err), &f.err);
    made = find(&f, "acme", 2);
    must(fg_keys_find(keys, FG_LIT("acme"), 2, &found, &f.err), &f.err);
    assert_memory_equal(&made, &found, sizeof found);

    /* Many that are missing do not make each find a read; then it may take a second. */
    for (uint32_t lost = 100; lost < 200; lost++) {
        code = fg_keys_find(keys, FG_LIT("acme"), lost, &found, &f.err);
        assert_true(code == FG_E_UNIMPLEMENTED || code == FG_E_UNAVAILABLE);
    }
    must(fg_key_store_rotate(f.store, FG_LIT("acme"), &number, &f.err), &f.err);
    made = find(&f, "acme", 3);
    while ((code = fg_keys_find(keys, FG_LIT("acme"), 3, &found, &f.err)) != FG_OK) {
        assert_int_equal(code, FG_E_UNAVAILABLE);
        (void)usleep(10000);
    }
    assert_memory_equal(&made, &found, sizeof found);
    /* They were looked for before that read, so they are certain. */
    assert_int_equal(fg_keys_find(keys, FG_LIT("acme"), 199, &found, &f.err), FG_E_UNIMPLEMENTED);
    fg_key_store_destroy(store);
    close_fixture(&f);
}

/* A wrapped key is bound to its tenant, and every byte of it is checked. */
static void wrapped_keys_are_of_one_tenant(void **state)
{
    struct fg_seal_key key = {{1, 2, 3}}, found;
    struct fg_key_wrap *wrap = NULL;
    struct fg_buf wrapped;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(fg_key_wrap_file(f.paths[0], &wrap, &f.err), &f.err);
    fg_buf_init(&wrapped, FG_TENANT_KEY_WRAPPED_MAX_BYTES);
    must(wrap->wrap(wrap, FG_LIT("acme"), &key, &wrapped, &f.err), &f.err);
    must(wrap->unwrap(wrap, FG_LIT("acme"), fg_buf_slice(&wrapped), &found, &f.err), &f.err);
    assert_memory_equal(&key, &found, sizeof key);
    assert_int_equal(wrap->unwrap(wrap, FG_LIT("zeta"), fg_buf_slice(&wrapped), &found, &f.err),
                     FG_E_CORRUPT);
    for (size_t i = 0; i < wrapped.len; i++) {
        struct fg_slice cut = fg_slice_sub(fg_buf_slice(&wrapped), 0, i);

        wrapped.ptr[i] ^= 1;
        assert_int_equal(wrap->unwrap(wrap, FG_LIT("acme"), fg_buf_slice(&wrapped), &found, &f.err),
                         FG_E_CORRUPT);
        wrapped.ptr[i] ^= 1;
        assert_int_equal(wrap->unwrap(wrap, FG_LIT("acme"), cut, &found, &f.err), FG_E_CORRUPT);
    }
    fg_buf_done(&wrapped);
    fg_key_wrap_destroy(wrap);
    close_fixture(&f);
}

/* The form in which keys of tenants are in registries, as another implementation makes it
 * (AES-256-GCM of Python's cryptography): key file 00 01 ... 1f, nonce a0 ... ab, key of the tenant
 * 40 ... 5f. If this fails, keys that were stored before cannot be read any more. */
static void wrapped_keys_keep_their_form(void **state)
{
    static const char stored[] =
        "01a0a1a2a3a4a5a6a7a8a9aaaba6593e6e018e44f82a2ccd984b378e9120fd0b43c6e2143bc4577c"
        "dd23f62b5eaf60d21ed78688cf84a4df861db55979";
    struct fg_seal_key key, fresh;
    uint8_t bytes[(sizeof stored - 1) / 2];
    struct fg_key_wrap *wrap = NULL;
    struct fg_buf again;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(fg_key_wrap_file(f.paths[0], &wrap, &f.err), &f.err);
    assert_string_equal(wrap->name, "file:600214e9c0ab27ca");
    assert_true(fg_parse_hex(fg_cstr(stored), bytes, sizeof bytes));
    must(wrap->unwrap(wrap, FG_LIT("acme"), fg_bytes(bytes, sizeof bytes), &key, &f.err), &f.err);
    for (size_t i = 0; i < sizeof key.bytes; i++)
        assert_int_equal(key.bytes[i], 0x40 + i);
    /* Another wrapping of the same key has the same layout, and a nonce of its own. */
    fg_buf_init(&again, FG_TENANT_KEY_WRAPPED_MAX_BYTES);
    must(wrap->wrap(wrap, FG_LIT("acme"), &key, &again, &f.err), &f.err);
    assert_int_equal(again.len, sizeof bytes);
    assert_int_equal(again.ptr[0], bytes[0]);
    assert_memory_not_equal(again.ptr + 1, bytes + 1, FG_SEAL_NONCE_BYTES);
    must(wrap->unwrap(wrap, FG_LIT("acme"), fg_buf_slice(&again), &fresh, &f.err), &f.err);
    assert_memory_equal(&key, &fresh, sizeof key);
    fg_buf_done(&again);
    fg_key_wrap_destroy(wrap);
    close_fixture(&f);
}

/* Makes the second key one that cannot be decrypted. */
static enum fg_code damage_second(void *arg, const struct fg_access_change *change,
                                  struct fg_err *err)
{
    (void)arg;
    (void)err;
    assert_int_equal(change->registry->n_keys, 2);
    change->registry->keys[1]->wrapped.data[20] ^= 1;
    return FG_OK;
}

/* A version that was made after the others were shredded stays in memory: what wraps it may be
 * away. */
static void only_shredded_versions_are_forgotten(void **state)
{
    struct fg_access_registry *registry = NULL;
    struct fg_seal_key second, again;
    uint32_t number = 0;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    must(create(&f), &f.err);
    (void)newest(&f, "acme", 1);
    must(fg_key_store_shred(f.bucket, "the boss", FG_LIT("acme"), &number, &f.err), &f.err);
    must(fg_key_store_rotate(f.store, FG_LIT("acme"), &number, &f.err), &f.err);
    restart(&f);
    second = find(&f, "acme", 2);
    must(swap(&f, damage_second, NULL), &f.err);
    must(fg_access_read(f.bucket, INT64_MAX, &registry, &f.err), &f.err);
    fg_key_store_see(f.store, registry);
    fg_access_registry_unref(registry);
    again = find(&f, "acme", 2);
    assert_memory_equal(&second, &again, sizeof second);
    expect_missing(&f, "acme", 1, "was shredded on 20");
    restart(&f); /* it is known only from memory */
    assert_int_equal(fg_keys_find(f.bucket->keys, FG_LIT("acme"), 2, &again, &f.err), FG_E_CORRUPT);
    close_fixture(&f);
}

/* ---- Vault ---- */

struct vault {
    struct fake_server *server;
    struct fg_key_wrap *wrap;
    char address[64];
    _Atomic unsigned calls;
    _Atomic bool sealed;
};

/* Refuses what is bound to the tenant acme. */
static void answer_call(struct fake_connection *connection, void *arg)
{
    struct vault *vault = arg;
    char request[4096];

    while (fake_read(connection, request, sizeof request)) {
        (void)atomic_fetch_add(&vault->calls, 1);
        if (atomic_load(&vault->sealed))
            (void)fake_respond(connection, 503, "", FG_LIT("{\"errors\":[\"Vault is sealed\"]}"));
        else if (strstr(request, "ZmxhbWVncmlkIGtleSBvZiBhY21l") != NULL) /* "... of acme" */
            (void)fake_respond(connection, 400, "", FG_LIT("{\"errors\":[\"no such key\"]}"));
        else
            (void)fake_respond(connection, 200, "", FG_LIT("{\"data\":{\"ciphertext\":\"x\"}}"));
    }
}

static void open_vault(struct vault *vault, const char *token_file)
{
    struct fg_err err;

    *vault = (struct vault){.server = fake_server_start(NULL, false, answer_call, vault)};
    (void)snprintf(vault->address, sizeof vault->address, "http://127.0.0.1:%u",
                   fake_server_port(vault->server));
    must(fg_key_wrap_vault(&(struct fg_key_wrap_vault){.address = vault->address,
                                                       .mount = "transit",
                                                       .key = "flamegrid",
                                                       .token_file = token_file,
                                                       .ca_file = ""},
                           &vault->wrap, &err),
         &err);
}

static void close_vault(struct vault *vault)
{
    fg_key_wrap_destroy(vault->wrap);
    fake_server_stop(vault->server);
}

static enum fg_code wrap_for(struct vault *vault, const char *tenant, struct fg_err *err)
{
    struct fg_seal_key key = {{1, 2, 3}};
    struct fg_buf wrapped;
    enum fg_code code;

    fg_buf_init(&wrapped, FG_TENANT_KEY_WRAPPED_MAX_BYTES);
    code = vault->wrap->wrap(vault->wrap, fg_cstr(tenant), &key, &wrapped, err);
    fg_buf_done(&wrapped);
    return code;
}

/* What Vault says of the key of one tenant is no reason not to ask for others. */
static void one_key_that_a_vault_refuses_does_not_stop_the_others(void **state)
{
    struct vault vault;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    open_vault(&vault, f.paths[0]);
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(wrap_for(&vault, "acme", &f.err), FG_E_UNAVAILABLE);
        assert_non_null(strstr(f.err.msg, "status 400: no such key"));
        must(wrap_for(&vault, "zeta", &f.err), &f.err);
    }
    assert_int_equal(vault.calls, 6);
    close_vault(&vault);
    close_fixture(&f);
}

/* A segment of many tenants does not wait for each of their keys. */
static void a_sealed_vault_is_left_alone_for_a_moment(void **state)
{
    enum { TENANTS = 30 };
    struct vault vault;
    struct fixture f;

    (void)state;
    open_fixture(&f);
    open_vault(&vault, f.paths[0]);
    vault.sealed = true;
    for (unsigned i = 0; i < TENANTS; i++) {
        assert_int_equal(wrap_for(&vault, "zeta", &f.err), FG_E_UNAVAILABLE);
        assert_non_null(strstr(f.err.msg, "status 503: Vault is sealed"));
    }
    assert_in_range(vault.calls, 1, TENANTS - 1);
    vault.sealed = false;
    while (wrap_for(&vault, "zeta", &f.err) != FG_OK)
        (void)usleep(10000);
    close_vault(&vault);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_settings_there_are_no_keys),
        cmocka_unit_test(key_files_are_checked),
        cmocka_unit_test(each_tenant_gets_a_key_that_stays),
        cmocka_unit_test(rotation_keeps_the_old_keys),
        cmocka_unit_test(a_tenant_without_keys_cannot_be_rotated),
        cmocka_unit_test(another_key_file_needs_the_old_one_until_keys_are_wrapped_again),
        cmocka_unit_test(which_of_several_encrypts_has_to_be_said),
        cmocka_unit_test(too_many_keys_are_refused),
        cmocka_unit_test(shredded_keys_are_gone_for_good),
        cmocka_unit_test(the_first_key_that_is_stored_wins),
        cmocka_unit_test(no_key_is_made_while_the_registry_is_lost),
        cmocka_unit_test(a_tenant_that_is_deleted_before_its_first_segment_gets_no_key),
        cmocka_unit_test(a_key_of_another_process_is_found_at_once),
        cmocka_unit_test(wrapped_keys_are_of_one_tenant),
        cmocka_unit_test(wrapped_keys_keep_their_form),
        cmocka_unit_test(only_shredded_versions_are_forgotten),
        cmocka_unit_test(one_key_that_a_vault_refuses_does_not_stop_the_others),
        cmocka_unit_test(a_sealed_vault_is_left_alone_for_a_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
