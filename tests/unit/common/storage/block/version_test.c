/* What a reader says of versions of the format, of keys, and of usage that does not add up. */
#include "common/storage/block/verify.h"
#include "tests/lib/block_make.h"
#include "tests/lib/block_repack.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MAX_BYTES = 1 << 26 };

struct fixture {
    struct fg_arena *arena;
    struct repack repack;
    struct fg_buf file;
    struct fg_err err;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void open_fixture(struct fixture *f, uint32_t version)
{
    struct made_block *block = made_block_create(1, true);
    struct fg_block_summary summary;

    f->arena = fg_arena_create(MAX_BYTES);
    block->version = version;
    fg_buf_init(&f->file, MAX_BYTES);
    must(made_block_write(block, 0, &f->file, &summary, &f->err), &f->err);
    repack_take(fg_buf_slice(&f->file), f->arena, &f->repack);
    free(block);
}

static void close_fixture(struct fixture *f)
{
    fg_buf_done(&f->file);
    fg_arena_destroy(f->arena);
}

/* Puts the parts together again, as they were changed. */
static void write_again(struct fixture *f)
{
    fg_buf_clear(&f->file);
    repack_write(&f->repack, &f->file);
}

static enum fg_code verify(struct fixture *f)
{
    struct fg_block_verified verified;

    return fg_block_verify(fg_buf_slice(&f->file), NULL, MAX_BYTES, &verified, &f->err);
}

static struct fg_slice bytes_of(const struct fixture *f, struct fg_block_range range)
{
    return fg_slice_sub(fg_buf_slice(&f->file), (size_t)range.offset, (size_t)range.len);
}

static const struct fg_block_part *first_part(struct fixture *f)
{
    struct fg_block_directory *directory = fg_arena_new(f->arena, struct fg_block_directory, 1);
    struct fg_slice file = fg_buf_slice(&f->file);
    uint64_t offset;

    must(fg_block_directory_offset(file, file.len, &offset, &f->err), &f->err);
    must(fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len, NULL,
                                  f->arena, directory, &f->err),
         &f->err);
    return &directory->parts[0];
}

static enum fg_code parse_part(struct fixture *f, const struct fg_block_part *part,
                               struct fg_block_index *index)
{
    return fg_block_part_parse(part, bytes_of(f, fg_block_part_range(part, FG_BLOCK_WANT_SERIES)),
                               f->arena, index, &f->err);
}

static void assert_refused(const struct fixture *f, enum fg_code code, const char *why)
{
    assert_int_equal(code, FG_E_UNIMPLEMENTED);
    if (strstr(f->err.msg, why) == NULL)
        fail_msg("%s: should say \"%s\"", f->err.msg, why);
}

static void version_2_has_no_usage(void **state)
{
    struct fixture f;
    const struct fg_block_part *part;
    struct fg_block_index index;

    (void)state;
    open_fixture(&f, 2);
    must(verify(&f), &f.err);
    part = first_part(&f);
    assert_int_equal(part->version, 2);
    assert_int_equal(part->symbols_version, 1);
    assert_int_equal(part->key, 0);
    assert_int_equal(part->usage.profiles, 0);
    must(parse_part(&f, part, &index), &f.err);
    assert_int_equal(index.pages[FG_BLOCK_USE].count, 0);
    close_fixture(&f);
}

/* Profiles of unknown size cost nothing: their section is not there. */
static void blocks_without_known_sizes_have_no_section_for_them(void **state)
{
    struct made_block *block = made_block_create(1, true);
    struct fg_block_summary summary;
    struct fixture f = {.arena = fg_arena_create(MAX_BYTES)};

    (void)state;
    for (uint32_t p = 0; p < block->n_parts; p++)
        for (uint32_t s = 0; s < block->parts[p].n_series; s++)
            for (uint32_t i = 0; i < block->parts[p].series[s].n_profiles; i++)
                block->parts[p].series[s].profiles[i].size = (struct fg_profile_size){0};
    fg_buf_init(&f.file, MAX_BYTES);
    must(made_block_write(block, 0, &f.file, &summary, &f.err), &f.err);
    must(verify(&f), &f.err);
    assert_int_equal(summary.usage.profiles, 0);
    assert_int_equal(first_part(&f)->sections[0].kind, FG_BLOCK_SMP);
    for (uint32_t i = 0; i < first_part(&f)->n_sections; i++)
        assert_int_not_equal(first_part(&f)->sections[i].kind, FG_BLOCK_USE);
    free(block);
    close_fixture(&f);
}

static void a_newer_version_is_refused_as_unimplemented(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0);
    f.repack.part.version = FG_BLOCK_VERSION + 1;
    write_again(&f);
    assert_refused(&f, verify(&f), "version 4, which this program cannot read");
    f.repack.part.version = 1;
    write_again(&f);
    assert_refused(&f, verify(&f), "version 1, which this program cannot read");
    close_fixture(&f);
}

static void newer_symbols_are_refused_but_series_are_read(void **state)
{
    struct fixture f;
    const struct fg_block_part *part;
    struct fg_block_index index;
    struct fg_block_tree tree;
    struct fg_block_rows rows;

    (void)state;
    open_fixture(&f, 0);
    f.repack.part.symbols_version = 2;
    write_again(&f);
    part = first_part(&f);
    must(parse_part(&f, part, &index), &f.err);
    must(fg_block_rows_parse(
             &index, 0,
             bytes_of(&f, (struct fg_block_range){index.pages[FG_BLOCK_IDX].pages[0].offset,
                                                  index.pages[FG_BLOCK_IDX].pages[0].bytes}),
             f.arena, &rows, &f.err),
         &f.err);
    assert_refused(&f,
                   fg_block_tree_parse(&index,
                                       bytes_of(&f, fg_block_part_range(part, FG_BLOCK_WANT_TREE)),
                                       f.arena, &tree, &f.err),
                   "symbols of version 2, which this program cannot read");
    assert_refused(&f, verify(&f), "symbols of version 2");
    close_fixture(&f);
}

static void an_encrypted_part_is_refused(void **state)
{
    struct fixture f;
    const struct fg_block_part *part;
    struct fg_block_index index;
    struct fg_block_group *groups;

    (void)state;
    open_fixture(&f, 0);
    f.repack.part.key = 4000000000;
    write_again(&f);
    part = first_part(&f); /* the directory can be read, and says what it is about */
    assert_int_equal(part->key, 4000000000);
    assert_true(part->n_profiles > 0);
    assert_refused(&f, parse_part(&f, part, &index),
                   "encrypted with key 4000000000, and this program has no keys");
    assert_refused(
        &f,
        fg_block_groups_parse(part, bytes_of(&f, fg_block_part_range(part, FG_BLOCK_WANT_GROUPS)),
                              f.arena, &groups, &f.err),
        "encrypted with key 4000000000");
    assert_refused(&f, verify(&f), "encrypted with key 4000000000");
    close_fixture(&f);
}

/* Of every kind of page, each by itself. */
static void an_encrypted_page_is_refused(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0);
    for (uint32_t i = 0; i < f.repack.n_pages; i++) {
        f.repack.pages[i].row.key = 7;
        write_again(&f);
        assert_refused(&f, verify(&f), "encrypted with key 7, and this program has no keys");
        f.repack.pages[i].row.key = 0;
    }
    write_again(&f);
    must(verify(&f), &f.err);
    close_fixture(&f);
}

static void samples_of_an_encrypted_page_are_refused(void **state)
{
    fg_auto(fg_block_samples) *samples = fg_block_samples_create(MAX_BYTES);
    const struct fg_block_page *page;
    struct fg_block_index index;
    struct fixture f;

    (void)state;
    open_fixture(&f, 0);
    f.repack.pages[0].row.key = 7;
    assert_int_equal(f.repack.pages[0].kind, FG_BLOCK_SMP);
    write_again(&f);
    must(parse_part(&f, first_part(&f), &index), &f.err);
    page = &index.pages[FG_BLOCK_SMP].pages[0];
    assert_refused(&f,
                   fg_block_samples_open(
                       samples, &index, 0,
                       bytes_of(&f, (struct fg_block_range){page->offset, page->bytes}), &f.err),
                   "encrypted with key 7");
    close_fixture(&f);
}

static void wrong_usage_is_detected(void **state)
{
    struct fixture f;
    struct fg_usage *usage = &f.repack.part.usage;
    uint64_t *const numbers[] = {&usage->samples, &usage->wire_bytes, &usage->raw_bytes};

    (void)state;
    open_fixture(&f, 0);
    assert_true(usage->profiles > 0);
    for (size_t i = 0; i < FG_COUNT(numbers); i++) {
        ++*numbers[i];
        write_again(&f);
        assert_int_equal(verify(&f), FG_E_CORRUPT);
        assert_non_null(strstr(f.err.msg, "directory: usage of"));
        --*numbers[i];
    }
    usage->profiles--;
    write_again(&f);
    assert_int_equal(verify(&f), FG_E_CORRUPT);
    usage->profiles = (uint64_t)f.repack.part.n_profiles + 1;
    write_again(&f);
    assert_int_equal(verify(&f), FG_E_CORRUPT);
    assert_non_null(strstr(f.err.msg, "directory: part 0"));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_2_has_no_usage),
        cmocka_unit_test(blocks_without_known_sizes_have_no_section_for_them),
        cmocka_unit_test(a_newer_version_is_refused_as_unimplemented),
        cmocka_unit_test(newer_symbols_are_refused_but_series_are_read),
        cmocka_unit_test(an_encrypted_part_is_refused),
        cmocka_unit_test(an_encrypted_page_is_refused),
        cmocka_unit_test(samples_of_an_encrypted_page_are_refused),
        cmocka_unit_test(wrong_usage_is_detected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
