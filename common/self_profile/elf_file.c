#include "common/self_profile/elf_file.h"

#include "common/base/cursor.h"
#include "common/base/search.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 64,
    SECTION_BYTES = 64,
    SYMBOL_BYTES = 24,
    SYMBOLS_MAX = 4 * 1024 * 1024,
    STT_FUNC_TYPE = 2,   /* of symbols; elf.h has names of the same spelling as enums here */
    STT_IFUNC_TYPE = 10, /* chosen when the program is loaded, as memcpy() is */
    NOTE_BUILD_ID = 3,
};

struct elf_section {
    uint32_t name, type, link;
    uint64_t address, size_bytes;
    struct fg_slice bytes;
};

static struct fg_cur cur_at(struct fg_slice file, uint64_t offset)
{
    struct fg_cur cur = fg_cur(file);

    (void)fg_cur_take(&cur, offset);
    return cur;
}

static uint16_t le16(struct fg_cur *cur)
{
    uint16_t low = fg_cur_u8(cur);

    return (uint16_t)(low | (uint16_t)fg_cur_u8(cur) << 8);
}

static bool is_elf(struct fg_slice file)
{
    /* Magic, class of 64 bits, little-endian. */
    return file.len >= HEADER_BYTES && memcmp(file.ptr, "\177ELF\002\001", 6) == 0;
}

static uint16_t sections_of(struct fg_slice file, uint64_t *ret_offset)
{
    struct fg_cur at_offset = cur_at(file, 40), at_sizes = cur_at(file, 58);
    uint16_t entry_bytes = le16(&at_sizes), count = le16(&at_sizes);

    *ret_offset = fg_cur_le64(&at_offset);
    return entry_bytes == SECTION_BYTES ? count : 0;
}

/* Returns false if there is no such section, or it lies outside of the file. */
static bool section_at(struct fg_slice file, uint32_t number, struct elf_section *ret_section)
{
    struct elf_section section;
    uint64_t offset = 0;
    uint16_t count = sections_of(file, &offset);
    struct fg_cur cur, content;
    uint64_t content_offset;

    if (number >= count)
        return false;
    cur = cur_at(file, offset);
    (void)fg_cur_take(&cur, (uint64_t)number * SECTION_BYTES);
    section.name = fg_cur_le32(&cur);
    section.type = fg_cur_le32(&cur);
    (void)fg_cur_le64(&cur); /* flags */
    section.address = fg_cur_le64(&cur);
    content_offset = fg_cur_le64(&cur);
    section.size_bytes = fg_cur_le64(&cur);
    section.link = fg_cur_le32(&cur);
    content = cur_at(file, content_offset);
    section.bytes = fg_cur_take(&content, section.size_bytes);
    *ret_section = section;
    return !cur.bad && !content.bad;
}

static bool find_section(struct fg_slice file, enum fg_elf_section_type type, uint32_t *from,
                         struct elf_section *ret_section)
{
    uint64_t offset;
    uint16_t count = is_elf(file) ? sections_of(file, &offset) : 0;

    for (; *from < count; ++*from)
        if (section_at(file, *from, ret_section) && ret_section->type == (uint32_t)type)
            return true;
    return false;
}

bool fg_elf_has(struct fg_slice file, enum fg_elf_section_type type)
{
    struct elf_section section;
    uint32_t from = 0;

    return find_section(file, type, &from, &section);
}

/* The text that starts at a place in a section of texts. */
static struct fg_slice text_at(struct fg_slice texts, uint32_t place)
{
    struct fg_slice rest = fg_slice_sub(texts, place, SIZE_MAX);

    return fg_slice_sub(rest, 0, fg_slice_find(rest, '\0'));
}

bool fg_elf_section(struct fg_slice file, const char *name, uint64_t *ret_address,
                    struct fg_slice *ret_bytes)
{
    struct fg_cur at_names = cur_at(file, 62);
    struct elf_section names, section;
    uint64_t offset;
    uint16_t count = is_elf(file) ? sections_of(file, &offset) : 0;

    if (count == 0 || !section_at(file, le16(&at_names), &names))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!section_at(file, i, &section) ||
            !fg_slice_is(text_at(names.bytes, section.name), name))
            continue;
        *ret_address = section.address;
        *ret_bytes = section.bytes;
        return true;
    }
    return false;
}

struct fg_slice fg_elf_build_id(struct fg_slice file)
{
    struct elf_section section;

    for (uint32_t from = 0; find_section(file, FG_ELF_NOTE, &from, &section); from++) {
        struct fg_cur cur = fg_cur(section.bytes);
        uint32_t name_bytes = fg_cur_le32(&cur), id_bytes = fg_cur_le32(&cur);
        uint32_t type = fg_cur_le32(&cur);
        struct fg_slice name = fg_cur_take(&cur, name_bytes), id = fg_cur_take(&cur, id_bytes);

        if (!cur.bad && type == NOTE_BUILD_ID && name.len == 4 && memcmp(name.ptr, "GNU", 4) == 0 &&
            id.len <= FG_ELF_BUILD_ID_MAX_BYTES)
            return id;
    }
    return fg_bytes(NULL, 0);
}

static int compare_addresses(const void *a, const void *b)
{
    const struct fg_elf_function *x = a, *y = b;

    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    /* Of several names the last one is found: that of the most bytes, one that other files know
     * (not __GI_memcpy, glibc's name of memcpy() for itself), and then always the same one. */
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    if (x->is_local != y->is_local)
        return x->is_local ? -1 : 1;
    return x->name < y->name ? 1 : -(x->name > y->name);
}

static void read_symbol(struct fg_cur *cur, struct fg_elf_functions *functions)
{
    struct fg_elf_function function = {.name = fg_cur_le32(cur)};
    unsigned info = fg_cur_u8(cur), type = info & 15;
    uint16_t section;

    function.is_local = info >> 4 == 0; /* STB_LOCAL */
    (void)fg_cur_u8(cur);               /* visibility */
    section = le16(cur);
    function.address = fg_cur_le64(cur);
    function.size = fg_cur_le64(cur);
    if ((type == STT_FUNC_TYPE || type == STT_IFUNC_TYPE) && section != 0 &&
        function.name < functions->names.len)
        functions->items[functions->count++] = function;
}

enum fg_code fg_elf_functions(struct fg_slice file, enum fg_elf_section_type type,
                              struct fg_elf_functions *ret_functions, struct fg_err *err)
{
    struct fg_elf_functions functions = {.count = 0};
    struct elf_section symbols, names;
    uint32_t from = 0;
    uint64_t count;
    struct fg_cur cur;

    if (!is_elf(file))
        return fg_fail(err, FG_E_INVALID, "no ELF file of 64 bits");
    if (!find_section(file, type, &from, &symbols) || !section_at(file, symbols.link, &names))
        return fg_fail(err, FG_E_NOT_FOUND, "no table of symbols");
    count = FG_MIN(symbols.bytes.len / SYMBOL_BYTES, (uint64_t)SYMBOLS_MAX);
    functions.names = names.bytes;
    functions.items = fg_calloc((size_t)count, sizeof *functions.items);
    cur = fg_cur(symbols.bytes);
    for (uint64_t i = 0; i < count; i++)
        read_symbol(&cur, &functions);
    functions.items = fg_realloc(functions.items, functions.count * sizeof *functions.items);
    qsort(functions.items, functions.count, sizeof *functions.items, compare_addresses);
    *ret_functions = functions;
    return FG_OK;
}

void fg_elf_functions_done(struct fg_elf_functions *functions)
{
    free(functions->items);
    *functions = (struct fg_elf_functions){.count = 0};
}

uint32_t fg_elf_function_at(const struct fg_elf_functions *functions, uint64_t address)
{
    uint32_t beyond =
        fg_lower_bound(i, 0, functions->count, functions->items[i].address <= address);

    if (beyond == 0)
        return UINT32_MAX;
    /* Functions in assembly may have no size: they end where the next one begins. */
    if (functions->items[beyond - 1].size > 0 &&
        address - functions->items[beyond - 1].address >= functions->items[beyond - 1].size)
        return UINT32_MAX;
    return beyond - 1;
}

struct fg_slice fg_elf_function_name(const struct fg_elf_functions *functions, uint32_t number)
{
    return text_at(functions->names, functions->items[number].name);
}
