#include "tests/unit/common/storage/store/numbered_store.h"

#include "tests/lib/remove_tree.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

char numbered_dir[64];
const char *const numbered_families[NUMBERED_FAMILIES] = {"default", "index"};

struct fg_store_config numbered_config = {
    .cache_bytes = 8 << 20,
    .write_buffer_bytes = 256 << 10,
    .wal_max_bytes = 1 << 20,
    .sync = true,
};

int numbered_set_up(void **state)
{
    (void)state;
    (void)snprintf(numbered_dir, sizeof numbered_dir, "/tmp/fg_store_XXXXXX");
    return mkdtemp(numbered_dir) == NULL;
}

int numbered_tear_down(void **state)
{
    (void)state;
    return remove_tree(numbered_dir);
}

enum fg_code numbered_try_open(struct fg_store **ret_store, struct fg_err *err)
{
    return fg_store_open(numbered_dir, numbered_families, NUMBERED_FAMILIES, &numbered_config,
                         ret_store, err);
}

struct fg_store *numbered_open(void)
{
    struct fg_store *store = NULL;
    struct fg_err err;

    if (numbered_try_open(&store, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return store;
}

struct fg_slice numbered_key(uint32_t nr, char key[16])
{
    return fg_bytes(key, (size_t)snprintf(key, 16, "%08u", nr));
}

enum fg_code numbered_write(struct fg_store *store, uint32_t nr, size_t padding, struct fg_err *err)
{
    static uint8_t bytes[64 << 10];
    struct fg_store_batch batch;
    enum fg_code code;
    uint32_t random = nr + 1;
    char key[16];

    assert_true(padding <= sizeof bytes);
    for (size_t i = 0; i < padding; i++) {
        random = random * 1103515245 + 12345;
        bytes[i] = (uint8_t)(random >> 16);
    }
    fg_store_batch_init(&batch);
    fg_store_put(&batch, 0, numbered_key(nr, key), FG_LIT("x"));
    fg_store_put(&batch, 1, numbered_key(nr, key), fg_bytes(bytes, padding));
    code = fg_store_write(store, &batch, err);
    fg_store_batch_done(&batch);
    return code;
}

bool numbered_has(struct fg_store *store, unsigned family, uint32_t nr)
{
    bool found = false;
    struct fg_err err;
    char key[16];

    if (fg_store_contains(store, family, numbered_key(nr, key), &found, &err) != FG_OK)
        fail_msg("read %u: %s", nr, err.msg);
    return found;
}

uint32_t numbered_expect(struct fg_store *store, uint32_t n)
{
    uint32_t there[NUMBERED_FAMILIES] = {0};

    for (unsigned family = 0; family < NUMBERED_FAMILIES; family++) {
        fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, family, FG_LIT(""), FG_LIT(""));
        char key[16];

        for (; iter->valid; fg_store_iter_next(iter))
            assert_true(fg_slice_eq(iter->key, numbered_key(there[family]++, key)));
        assert_int_equal(iter->err.code, FG_OK);
        assert_in_range(there[family], n, n + 1);
        for (uint32_t nr = 0; nr < n; nr++)
            assert_true(numbered_has(store, family, nr));
    }
    assert_int_equal(there[0], there[1]);
    return there[0];
}

/* ---- files ---- */

static bool is_any(const char *path)
{
    (void)path;
    return true;
}

static bool is_large(const char *path)
{
    struct stat info;

    assert_int_equal(stat(path, &info), 0);
    return info.st_size > NUMBERED_PADDING_BYTES;
}

static bool is_small(const char *path)
{
    return !is_large(path);
}

static void find_wanted(const char *prefix, const char *suffix, bool last,
                        bool (*is_wanted)(const char *path), char path[NUMBERED_PATH_BYTES])
{
    char found[64] = "";
    DIR *folder = opendir(numbered_dir);
    const struct dirent *entry;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        struct fg_slice name = fg_cstr(entry->d_name);

        if (name.len >= sizeof found || !fg_slice_starts(name, prefix) ||
            !fg_slice_ends(name, suffix))
            continue;
        (void)snprintf(path, NUMBERED_PATH_BYTES, "%s/%.63s", numbered_dir, entry->d_name);
        if ((found[0] == '\0' || (strcmp(entry->d_name, found) > 0) == last) && is_wanted(path))
            memcpy(found, entry->d_name, name.len + 1);
    }
    (void)closedir(folder);
    assert_string_not_equal(found, "");
    (void)snprintf(path, NUMBERED_PATH_BYTES, "%s/%s", numbered_dir, found);
}

void numbered_find_file(const char *prefix, const char *suffix, bool last,
                        char path[NUMBERED_PATH_BYTES])
{
    find_wanted(prefix, suffix, last, is_any, path);
}

void numbered_find_table(bool large, char path[NUMBERED_PATH_BYTES])
{
    find_wanted("", ".sst", false, large ? is_large : is_small, path);
}
