/*
 * The end of an object: groups, place of rollups, directory, trailer. What is stored there is
 * said where it is written (writer.c).
 */
#include "common/base/crc32c.h"
#include "common/base/search.h"
#include "common/storage/block/reader_impl.h"

enum {
    PART_MIN_BYTES = 2 + 2 + 6 + FG_ID_BYTES + 1 + 2 * 6, /* of an entry, all numbers small */
    GROUP_MIN_BYTES = 3 + FG_ID_BYTES,
};

/* ---- trailer ---- */

struct trailer {
    uint64_t offset; /* of the directory */
    uint32_t bytes, raw_bytes, crc, version;
};

static enum fg_code read_trailer(struct fg_slice tail, uint64_t file_bytes,
                                 struct trailer *ret_trailer, struct fg_err *err)
{
    struct fg_slice bytes = fg_slice_sub(tail, tail.len - FG_BLOCK_TRAILER_BYTES, SIZE_MAX);
    struct fg_cur cur = fg_cur(bytes);
    struct trailer trailer = {0};
    uint64_t said = fg_cur_le64(&cur);
    uint32_t crc;

    trailer.bytes = fg_cur_le32(&cur);
    trailer.raw_bytes = fg_cur_le32(&cur);
    trailer.crc = fg_cur_le32(&cur);
    trailer.version = fg_cur_le32(&cur);
    crc = fg_cur_le32(&cur);
    if (!fg_slice_is(fg_cur_take(&cur, 4), FG_BLOCK_MAGIC))
        return fg_fail(err, FG_E_CORRUPT, "trailer: no block, or cut short");
    if (crc != fg_crc32c(fg_slice_sub(bytes, 0, 24)))
        return fg_fail(err, FG_E_CORRUPT, "trailer: checksum");
    /* After the checksum: what a newer program wrote is not damaged, and must never be treated
     * so. */
    if (trailer.version < FG_BLOCK_VERSION_LEAST || trailer.version > FG_BLOCK_VERSION)
        return fg_fail(err, FG_E_UNIMPLEMENTED,
                       "trailer: version %u, which this program cannot read: it knows %u to %u",
                       trailer.version, (unsigned)FG_BLOCK_VERSION_LEAST,
                       (unsigned)FG_BLOCK_VERSION);
    /* An object that was cut short may end in the middle of another trailer. */
    if (said != file_bytes)
        return fg_fail(err, FG_E_CORRUPT, "trailer: %llu bytes long, should be %llu",
                       (unsigned long long)file_bytes, (unsigned long long)said);
    if (trailer.raw_bytes > FG_BLOCK_DIRECTORY_MAX_BYTES ||
        (uint64_t)trailer.bytes + FG_BLOCK_HEADER_BYTES + FG_BLOCK_TRAILER_BYTES > file_bytes)
        return fg_fail(err, FG_E_CORRUPT, "trailer: a directory of %u bytes", trailer.bytes);
    trailer.offset = file_bytes - FG_BLOCK_TRAILER_BYTES - trailer.bytes;
    *ret_trailer = trailer;
    return FG_OK;
}

enum fg_code fg_block_directory_offset(struct fg_slice tail, uint64_t file_bytes,
                                       uint64_t *ret_offset, struct fg_err *err)
{
    struct trailer trailer = {0};

    if (tail.len < FG_BLOCK_TRAILER_BYTES || file_bytes < tail.len)
        return fg_fail(err, FG_E_CORRUPT, "an object of %zu bytes is too short for a block",
                       tail.len);
    if (read_trailer(tail, file_bytes, &trailer, err) != FG_OK)
        return err->code;
    *ret_offset = trailer.offset;
    return FG_OK;
}

/* ---- directory ---- */

/* A directory on its way. */
struct directory_parsing {
    struct fg_cur cur;
    struct fg_arena *arena;
    uint64_t offset;        /* where the next section begins */
    uint64_t groups_offset; /* where the next groups begin, from the first groups */
    uint64_t rollup_offset; /* where the next NOD begins, from the first one */
    int64_t t_min_ns;       /* of the part before */
    uint32_t version;
    const struct fg_keys *keys;
    struct fg_block_section sections[FG_BLOCK_KINDS_MAX];
};

enum fg_code fg_block_no_room(struct fg_err *err, const char *what)
{
    return fg_fail(err, FG_E_LIMIT, "no room for %s", what);
}

static uint32_t get_number(struct fg_cur *cur, uint32_t max)
{
    uint64_t count = fg_cur_varint(cur);

    if (count > max)
        fg_cur_fail(cur);
    return (uint32_t)count;
}

static uint32_t get_count(struct fg_cur *cur)
{
    return get_number(cur, FG_BLOCK_ITEMS_MAX);
}

static struct fg_slice get_name(struct directory_parsing *parsing)
{
    struct fg_slice name = fg_cur_lenbytes(&parsing->cur);

    if (name.len > FG_BLOCK_NAME_MAX_BYTES)
        fg_cur_fail(&parsing->cur);
    return name;
}

static bool has_what_it_needs(const struct fg_block_part *part)
{
    if (part->n_series > 0)
        return part->n_groups > 0;
    return part->n_groups == 0 && part->n_stacks == 0 && part->n_nodes == 0 && part->n_samples == 0;
}

static void get_head(struct directory_parsing *parsing, struct fg_block_part *part)
{
    struct fg_cur *cur = &parsing->cur;
    struct fg_slice digest;

    part->tenant = get_name(parsing);
    part->service = get_name(parsing);
    part->t_min_ns = fg_wrap_add(parsing->t_min_ns, fg_cur_zigzag(cur));
    part->t_max_ns = fg_wrap_add(part->t_min_ns, (int64_t)fg_cur_varint(cur));
    part->n_series = get_count(cur);
    part->n_profiles = get_number(cur, part->n_series == 0 ? UINT32_MAX : FG_BLOCK_ITEMS_MAX);
    part->n_stacks = get_count(cur);
    part->n_nodes = get_count(cur);
    part->n_groups = get_count(cur);
    part->n_samples = fg_cur_varint(cur);
    digest = fg_cur_take(cur, FG_ID_BYTES);
    part->version = parsing->version;
    part->keys = parsing->keys;
    part->symbols_version = FG_BLOCK_SYMBOLS_VERSION; /* of version 2 */
    if (parsing->version >= 3) {
        part->key = get_number(cur, UINT32_MAX);
        part->symbols_version = get_number(cur, UINT32_MAX);
        part->usage = fg_usage_get(cur);
        if (part->usage.profiles > part->n_profiles)
            fg_cur_fail(cur);
    }
    if (cur->bad || part->n_profiles == 0 || !has_what_it_needs(part) ||
        part->t_max_ns < part->t_min_ns) {
        fg_cur_fail(cur);
        return;
    }
    part->digest = fg_id_get(digest.ptr);
    parsing->t_min_ns = part->t_min_ns;
}

/* Makes a section of len bytes at *offset, and moves *offset behind it. */
static struct fg_block_section section_at(struct fg_cur *cur, uint32_t kind, uint64_t *offset,
                                          uint64_t len)
{
    struct fg_block_section section = {kind, {*offset, len}};

    if (len > INT64_MAX - *offset)
        fg_cur_fail(cur);
    else
        *offset += len;
    return section;
}

/* Reads the length, raw length and checksum of a section that is one page. */
static struct fg_block_section get_page(struct directory_parsing *parsing, uint32_t kind,
                                        uint64_t *offset, uint32_t *ret_raw_bytes,
                                        uint32_t *ret_crc)
{
    uint64_t bytes = fg_cur_varint(&parsing->cur), raw_bytes = fg_cur_varint(&parsing->cur);

    *ret_crc = fg_cur_le32(&parsing->cur);
    *ret_raw_bytes = (uint32_t)raw_bytes;
    if (raw_bytes > FG_BLOCK_PAGE_RAW_MAX_BYTES || bytes > raw_bytes)
        fg_cur_fail(&parsing->cur);
    return section_at(&parsing->cur, kind, offset, bytes);
}

static void get_sections(struct directory_parsing *parsing, struct fg_block_part *part)
{
    struct fg_cur *cur = &parsing->cur;
    uint32_t n = 0, last = 0;

    for (;;) {
        uint64_t kind = fg_cur_varint(cur);

        if (kind == 0)
            break;
        /* Ascending, so each kind is there once at most, and `sections` has room for all. */
        if (kind <= last || kind >= FG_BLOCK_PAG) {
            fg_cur_fail(cur);
            return;
        }
        last = (uint32_t)kind;
        parsing->sections[n++] =
            section_at(cur, last, last == FG_BLOCK_NOD ? &parsing->rollup_offset : &parsing->offset,
                       fg_cur_varint(cur));
    }
    parsing->sections[n++] =
        get_page(parsing, FG_BLOCK_PAG, &parsing->offset, &part->table_raw_bytes, &part->table_crc);
    parsing->sections[n++] = get_page(parsing, FG_BLOCK_GRP, &parsing->groups_offset,
                                      &part->groups_raw_bytes, &part->groups_crc);
    part->n_sections = n;
}

static int name_cmp(const struct fg_block_part *part, struct fg_slice tenant,
                    struct fg_slice service)
{
    int order = fg_slice_cmp(part->tenant, tenant);

    return order != 0 ? order : fg_slice_cmp(part->service, service);
}

static enum fg_code parse_part(struct directory_parsing *parsing,
                               struct fg_block_directory *directory, struct fg_err *err)
{
    struct fg_block_part *part = &directory->parts[directory->n_parts];
    size_t bytes;

    get_head(parsing, part);
    get_sections(parsing, part);
    if (parsing->cur.bad)
        return fg_fail(err, FG_E_CORRUPT, "directory: part %u", directory->n_parts);
    if (directory->n_parts > 0 && name_cmp(part - 1, part->tenant, part->service) >= 0)
        return fg_fail(err, FG_E_CORRUPT, "directory: part %u is out of order", directory->n_parts);
    if (directory->n_parts > 0 && directory->derived != (part->n_series == 0))
        return fg_fail(err, FG_E_CORRUPT, "directory: parts with and parts without profiles");
    /* An object has parts with profiles or derived parts, never both. */
    directory->derived = part->n_series == 0;
    bytes = part->n_sections * sizeof *part->sections;
    part->sections = fg_arena_alloc(parsing->arena, bytes);
    if (part->sections == NULL)
        return fg_block_no_room(err, "a directory");
    memcpy(part->sections, parsing->sections, bytes);
    directory->t_min_ns =
        directory->n_parts == 0 ? part->t_min_ns : FG_MIN(directory->t_min_ns, part->t_min_ns);
    directory->t_max_ns =
        directory->n_parts == 0 ? part->t_max_ns : FG_MAX(directory->t_max_ns, part->t_max_ns);
    directory->n_profiles += part->n_profiles;
    fg_usage_add(&directory->usage, &part->usage);
    directory->digest = fg_id_add(directory->digest, part->digest);
    directory->n_parts++;
    return FG_OK;
}

/* Adds the offsets of the tail: groups come after all parts, rollups after them, and then the
 * directory, without a gap. */
static enum fg_code place_tail(const struct directory_parsing *parsing,
                               struct fg_block_directory *directory, uint64_t directory_offset,
                               struct fg_err *err)
{
    uint64_t groups_offset = parsing->offset;

    /* Each of the three is at most INT64_MAX. */
    if (parsing->groups_offset > INT64_MAX - parsing->offset ||
        parsing->offset + parsing->groups_offset + parsing->rollup_offset != directory_offset)
        return fg_fail(err, FG_E_CORRUPT, "directory: at %llu, its sections say otherwise",
                       (unsigned long long)directory_offset);
    directory->rollup_offset = groups_offset + parsing->groups_offset;
    for (uint32_t i = 0; i < directory->n_parts; i++)
        for (uint32_t k = 0; k < directory->parts[i].n_sections; k++) {
            struct fg_block_section *section = &directory->parts[i].sections[k];

            if (section->kind == FG_BLOCK_GRP)
                section->range.offset += groups_offset;
            else if (section->kind == FG_BLOCK_NOD)
                section->range.offset += directory->rollup_offset;
        }
    return FG_OK;
}

static enum fg_code parse_directory(struct fg_slice raw, const struct trailer *trailer,
                                    const struct fg_keys *keys, struct fg_arena *arena,
                                    struct fg_block_directory *directory, struct fg_err *err)
{
    struct directory_parsing parsing = {.cur = fg_cur(raw),
                                        .arena = arena,
                                        .offset = FG_BLOCK_HEADER_BYTES,
                                        .version = trailer->version,
                                        .keys = keys};
    uint64_t level = fg_cur_varint(&parsing.cur);
    uint64_t n_parts = fg_cur_count(&parsing.cur, PART_MIN_BYTES);

    if (parsing.cur.bad || level > UINT32_MAX || n_parts > FG_BLOCK_PARTS_MAX)
        return fg_fail(err, FG_E_CORRUPT, "directory: head");
    directory->level = (uint32_t)level;
    directory->parts = fg_arena_new(arena, struct fg_block_part, n_parts);
    if (directory->parts == NULL)
        return fg_block_no_room(err, "a directory");
    while (directory->n_parts < n_parts)
        if (parse_part(&parsing, directory, err) != FG_OK)
            return err->code;
    if (!fg_cur_end(&parsing.cur))
        return fg_fail(err, FG_E_CORRUPT, "directory: bytes left over");
    return place_tail(&parsing, directory, trailer->offset, err);
}

enum fg_code fg_block_directory_parse(struct fg_slice bytes, uint64_t file_bytes,
                                      const struct fg_keys *keys, struct fg_arena *arena,
                                      struct fg_block_directory *ret_directory, struct fg_err *err)
{
    struct fg_block_directory directory = {.file_bytes = file_bytes};
    struct trailer trailer = {0};
    struct fg_slice raw = {NULL, 0};

    if (bytes.len < FG_BLOCK_TRAILER_BYTES || file_bytes < bytes.len)
        return fg_fail(err, FG_E_CORRUPT, "an object of %zu bytes is too short for a block",
                       bytes.len);
    if (read_trailer(bytes, file_bytes, &trailer, err) != FG_OK)
        return err->code;
    directory.version = trailer.version;
    if (trailer.offset != file_bytes - bytes.len)
        return fg_fail(err, FG_E_CORRUPT, "directory: at %llu, not at %llu",
                       (unsigned long long)trailer.offset,
                       (unsigned long long)(file_bytes - bytes.len));
    /* The directory itself is never encrypted. */
    if (fg_block_unpack_in(
            NULL, fg_slice_sub(bytes, 0, trailer.bytes),
            (struct fg_block_stored){.raw_bytes = trailer.raw_bytes, .crc = trailer.crc}, arena,
            &raw, err) != FG_OK)
        return fg_wrap(err, "directory");
    if (parse_directory(raw, &trailer, keys, arena, &directory, err) != FG_OK)
        return err->code;
    *ret_directory = directory;
    return FG_OK;
}

uint32_t fg_block_part_find(const struct fg_block_directory *directory, struct fg_slice tenant,
                            struct fg_slice service)
{
    return fg_lower_bound(i, 0, directory->n_parts,
                          name_cmp(&directory->parts[i], tenant, service) < 0);
}

/* ---- sections of a part ---- */

const struct fg_block_section *fg_block_section_find(const struct fg_block_part *part,
                                                     uint32_t kind)
{
    for (uint32_t i = 0; i < part->n_sections; i++)
        if (part->sections[i].kind == kind)
            return &part->sections[i];
    return NULL;
}

/* The range of kinds [from, to], which are next to each other. */
static struct fg_block_range range_of(const struct fg_block_part *part, uint32_t from, uint32_t to)
{
    struct fg_block_range range = {0};

    for (uint32_t i = 0; i < part->n_sections; i++) {
        const struct fg_block_section *section = &part->sections[i];

        if (section->kind < from || section->kind > to)
            continue;
        if (range.len == 0)
            range.offset = section->range.offset;
        range.len += section->range.len;
    }
    return range;
}

struct fg_block_range fg_block_part_range(const struct fg_block_part *part, unsigned wants)
{
    uint32_t from = (wants & FG_BLOCK_WANT_TREE) != 0            ? FG_BLOCK_MAP
                    : (wants & FG_BLOCK_WANT_FUNCTION_TREE) != 0 ? FG_BLOCK_NMR
                                                                 : FG_BLOCK_LBL;
    uint32_t to = (wants & FG_BLOCK_WANT_SERIES) != 0          ? FG_BLOCK_PAG
                  : (wants & FG_BLOCK_WANT_FUNCTION_TREE) != 0 ? FG_BLOCK_NMS
                                                               : FG_BLOCK_STR;

    if ((wants & FG_BLOCK_WANT_GROUPS) != 0)
        return range_of(part, FG_BLOCK_GRP, FG_BLOCK_GRP);
    return range_of(part, from, to);
}

/* ---- groups ---- */

static enum fg_code parse_groups(struct fg_cur *cur, uint32_t count, struct fg_block_group *groups,
                                 struct fg_err *err)
{
    uint64_t shard = 0, window = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t step = fg_cur_varint(cur), at = fg_cur_varint(cur), n = fg_cur_varint(cur);
        struct fg_slice digest = fg_cur_take(cur, FG_ID_BYTES);

        if (cur->bad || step > UINT16_MAX || at > UINT32_MAX || n == 0 || n > FG_BLOCK_ITEMS_MAX ||
            (i > 0 && step == 0 && at == 0))
            return fg_fail(err, FG_E_CORRUPT, "group %u", i);
        shard += step;
        window = step == 0 ? window + at : at;
        if (shard > UINT16_MAX || window > UINT32_MAX)
            return fg_fail(err, FG_E_CORRUPT, "group %u", i);
        groups[i] = (struct fg_block_group){(uint16_t)shard, (uint32_t)window, (uint32_t)n,
                                            fg_id_get(digest.ptr)};
    }
    return fg_cur_end(cur) ? FG_OK : fg_fail(err, FG_E_CORRUPT, "bytes left over");
}

enum fg_code fg_block_groups_parse(const struct fg_block_part *part, struct fg_slice bytes,
                                   struct fg_arena *arena, struct fg_block_group **ret_groups,
                                   struct fg_err *err)
{
    const struct fg_block_stored said = {part->groups_raw_bytes, part->groups_crc, part->key,
                                         FG_BLOCK_GRP, 0};
    const struct fg_seal_part seal = fg_block_seal_of_part(part);
    struct fg_block_group *groups;
    struct fg_slice raw = {NULL, 0};
    struct fg_cur cur;

    if (bytes.len != fg_block_part_range(part, FG_BLOCK_WANT_GROUPS).len)
        return fg_fail(err, FG_E_CORRUPT, "groups: %zu bytes", bytes.len);
    if (fg_block_unpack_in(&seal, bytes, said, arena, &raw, err) != FG_OK)
        return fg_wrap(err, "groups");
    cur = fg_cur(raw);
    if (part->n_groups > raw.len / GROUP_MIN_BYTES)
        return fg_fail(err, FG_E_CORRUPT, "groups: %u in %zu bytes", part->n_groups, raw.len);
    groups = fg_arena_new(arena, struct fg_block_group, part->n_groups);
    if (groups == NULL)
        return fg_block_no_room(err, "groups");
    if (parse_groups(&cur, part->n_groups, groups, err) != FG_OK)
        return fg_wrap(err, "groups");
    *ret_groups = groups;
    return FG_OK;
}
