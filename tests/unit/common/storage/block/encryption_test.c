/* Blocks with encrypted parts: they have what plain ones have, the same bytes each time, and
 * damage, a missing and a wrong key cost what they concern. Rollups: tests/unit/compactor.
 */
#include "common/base/crc32c.h"
#include "common/storage/block/verify.h"
#include "tests/lib/block_make.h"
#include "tests/lib/made_keys.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MAX_BYTES = 1 << 26, SEEDS = 12 };

struct fixture {
    struct made_block *block;
    struct made_keys keys;
    struct fg_arena *arena;
    struct fg_buf file;
    struct fg_block_directory directory;
    struct fg_err err;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void write_file(struct fixture *f)
{
    struct fg_block_summary summary;

    fg_buf_clear(&f->file);
    must(made_block_write(f->block, 0, &f->file, &summary, &f->err), &f->err);
}

static void open_fixture(struct fixture *f, uint64_t seed, uint32_t newest)
{
    *f = (struct fixture){.block = made_block_create(seed, false),
                          .arena = fg_arena_create(MAX_BYTES)};
    made_keys_init(&f->keys, newest);
    f->block->keys = &f->keys.keys;
    fg_buf_init(&f->file, MAX_BYTES);
    write_file(f);
}

static void close_fixture(struct fixture *f)
{
    free(f->block);
    fg_buf_done(&f->file);
    fg_arena_destroy(f->arena);
}

static enum fg_code verify(struct fixture *f, const struct fg_keys *keys,
                           struct fg_block_verified *ret_verified)
{
    return fg_block_verify(fg_buf_slice(&f->file), keys, MAX_BYTES, ret_verified, &f->err);
}

static void read_directory(struct fixture *f, const struct fg_keys *keys)
{
    struct fg_slice file = fg_buf_slice(&f->file);
    uint64_t offset;

    must(fg_block_directory_offset(file, file.len, &offset, &f->err), &f->err);
    must(fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len, keys,
                                  f->arena, &f->directory, &f->err),
         &f->err);
}

static struct fg_slice bytes_of(const struct fixture *f, struct fg_block_range range)
{
    return fg_slice_sub(fg_buf_slice(&f->file), (size_t)range.offset, (size_t)range.len);
}

static enum fg_code parse_part(struct fixture *f, uint32_t part, struct fg_block_index *index)
{
    return fg_block_part_parse(
        &f->directory.parts[part],
        bytes_of(f, fg_block_part_range(&f->directory.parts[part], FG_BLOCK_WANT_SERIES)), f->arena,
        index, &f->err);
}

static bool contains(struct fg_slice bytes, struct fg_slice what)
{
    for (size_t i = 0; i + what.len <= bytes.len; i++)
        if (memcmp(bytes.ptr + i, what.ptr, what.len) == 0)
            return true;
    return false;
}

static void encrypted_blocks_have_what_plain_ones_have(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct fg_block_verified plain, encrypted;
        struct fixture f;

        open_fixture(&f, seed, 0); /* keys, but none that encrypts */
        must(verify(&f, NULL, &plain), &f.err);
        f.keys.newest = 3;
        write_file(&f);
        must(verify(&f, &f.keys.keys, &encrypted), &f.err);
        assert_memory_equal(&plain, &encrypted, sizeof plain);
        read_directory(&f, &f.keys.keys);
        for (uint32_t i = 0; i < f.directory.n_parts; i++)
            assert_int_equal(f.directory.parts[i].key, 3);
        assert_int_equal(verify(&f, NULL, &encrypted), FG_E_UNIMPLEMENTED);
        close_fixture(&f);
    }
}

static void the_same_profiles_and_keys_give_the_same_bytes(void **state)
{
    struct fg_block_summary summary;
    struct fg_buf other;
    struct fixture f;

    (void)state;
    open_fixture(&f, 5, 1);
    fg_buf_init(&other, MAX_BYTES);
    must(made_block_write(f.block, 77, &other, &summary, &f.err), &f.err);
    assert_true(fg_slice_eq(fg_buf_slice(&f.file), fg_buf_slice(&other)));
    f.keys.newest = 2;
    fg_buf_clear(&other);
    must(made_block_write(f.block, 0, &other, &summary, &f.err), &f.err);
    assert_int_equal(f.file.len, other.len);
    assert_false(fg_slice_eq(fg_buf_slice(&f.file), fg_buf_slice(&other)));
    fg_buf_done(&other);
    close_fixture(&f);
}

/* Label values are in the clear in LBL, which is too short to be packed out of recognition. */
static void nothing_of_a_part_is_in_the_clear(void **state)
{
    struct fixture f;
    bool was_there = false;

    (void)state;
    open_fixture(&f, 3, 0);
    for (uint32_t round = 0; round < 2; round++) {
        struct fg_slice parts; /* all but the directory, which names tenants and services */

        read_directory(&f, &f.keys.keys);
        parts = fg_slice_sub(fg_buf_slice(&f.file), 0, (size_t)f.directory.rollup_offset);
        for (uint32_t p = 0; p < f.block->n_parts; p++)
            for (uint32_t s = 0; s < f.block->parts[p].n_series; s++) {
                bool there = contains(parts, fg_cstr(f.block->parts[p].series[s].pod));

                was_there = was_there || there;
                assert_true(round == 0 || !there);
            }
        f.keys.newest = 1;
        write_file(&f);
    }
    assert_true(was_there);
    close_fixture(&f);
}

static void tenants_are_encrypted_each_by_itself(void **state)
{
    struct fg_block_verified verified;
    struct fg_block_index index;
    struct fixture f;
    uint32_t p = 0;

    (void)state;
    do { /* a block of several tenants */
        if (p++ > 0)
            close_fixture(&f);
        open_fixture(&f, p, 1);
    } while (f.block->n_parts < 2 ||
             strcmp(f.block->parts[0].tenant, f.block->parts[f.block->n_parts - 1].tenant) == 0);
    f.keys.plain = f.block->parts[0].tenant;
    write_file(&f);
    must(verify(&f, &f.keys.keys, &verified), &f.err);
    read_directory(&f, NULL);
    for (p = 0; p < f.directory.n_parts; p++) {
        bool plain = fg_slice_is(f.directory.parts[p].tenant, f.keys.plain);

        assert_int_equal(f.directory.parts[p].key, !plain);
        assert_int_equal(parse_part(&f, p, &index), plain ? FG_OK : FG_E_UNIMPLEMENTED);
    }
    close_fixture(&f);
}

static void a_missing_key_is_no_damage_and_says_why(void **state)
{
    struct fg_block_verified verified;
    struct fg_block_index index;
    struct fg_block_group *groups;
    struct fixture f;

    (void)state;
    open_fixture(&f, 2, 9);
    f.keys.missing = 9;
    assert_int_equal(verify(&f, &f.keys.keys, &verified), FG_E_UNIMPLEMENTED);
    assert_non_null(strstr(f.err.msg, "encrypted with key 9, which was shredded"));
    read_directory(&f, &f.keys.keys);
    assert_int_equal(parse_part(&f, 0, &index), FG_E_UNIMPLEMENTED);
    assert_int_equal(fg_block_groups_parse(&f.directory.parts[0],
                                           bytes_of(&f, fg_block_part_range(&f.directory.parts[0],
                                                                            FG_BLOCK_WANT_GROUPS)),
                                           f.arena, &groups, &f.err),
                     FG_E_UNIMPLEMENTED);
    close_fixture(&f);
}

static void a_wrong_key_is_damage(void **state)
{
    struct fg_block_verified verified;
    struct fixture f;

    (void)state;
    open_fixture(&f, 2, 9);
    f.keys.wrong = true;
    assert_int_equal(verify(&f, &f.keys.keys, &verified), FG_E_CORRUPT);
    assert_non_null(strstr(f.err.msg, "not encrypted with key 9 for this place, or changed"));
    close_fixture(&f);
}

/* Somebody who can compute checksums changes one page of samples: that page is lost, and no other.
 */
static void a_changed_page_is_lost_alone(void **state)
{
    fg_auto(fg_block_samples) *samples = fg_block_samples_create(MAX_BYTES);
    struct fg_block_index index;
    struct fixture f;
    struct fg_block_pages *pages;
    struct fg_block_page *rows;

    (void)state;
    open_fixture(&f, 4, 1);
    read_directory(&f, &f.keys.keys);
    must(parse_part(&f, 0, &index), &f.err);
    pages = &index.pages[FG_BLOCK_SMP];
    rows = fg_arena_new(f.arena, struct fg_block_page, pages->count);
    memcpy(rows, pages->pages, pages->count * sizeof *rows);
    pages->pages = rows;
    for (uint32_t i = 0; i < pages->count; i++) {
        struct fg_block_page *page = &rows[i];
        struct fg_slice bytes = bytes_of(&f, (struct fg_block_range){page->offset, page->bytes});

        must(fg_block_samples_open(samples, &index, i, bytes, &f.err), &f.err);
        f.file.ptr[page->offset + page->bytes / 2] ^= 1;
        page->crc = fg_crc32c(bytes);
        assert_int_equal(fg_block_samples_open(samples, &index, i, bytes, &f.err), FG_E_CORRUPT);
        assert_non_null(strstr(f.err.msg, "or changed since"));
        for (uint32_t k = i + 1; k < pages->count; k++)
            must(fg_block_samples_open(samples, &index, k,
                                       bytes_of(&f, (struct fg_block_range){pages->pages[k].offset,
                                                                            pages->pages[k].bytes}),
                                       &f.err),
                 &f.err);
    }
    close_fixture(&f);
}

static void version_2_cannot_be_encrypted(void **state)
{
    struct fg_block_summary summary;
    struct fixture f;

    (void)state;
    open_fixture(&f, 1, 0);
    f.block->version = 2;
    write_file(&f); /* without keys it can be written */
    f.keys.newest = 1;
    fg_buf_clear(&f.file);
    assert_int_equal(made_block_write(f.block, 0, &f.file, &summary, &f.err), FG_E_UNIMPLEMENTED);
    assert_non_null(strstr(f.err.msg, "version 2 of blocks cannot be encrypted"));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encrypted_blocks_have_what_plain_ones_have),
        cmocka_unit_test(the_same_profiles_and_keys_give_the_same_bytes),
        cmocka_unit_test(nothing_of_a_part_is_in_the_clear),
        cmocka_unit_test(tenants_are_encrypted_each_by_itself),
        cmocka_unit_test(a_missing_key_is_no_damage_and_says_why),
        cmocka_unit_test(a_wrong_key_is_damage),
        cmocka_unit_test(a_changed_page_is_lost_alone),
        cmocka_unit_test(version_2_cannot_be_encrypted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
