/* A file gives functions whose names lie in it, or none. */
#include "common/self_profile/elf_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum fg_elf_section_type types[] = {FG_ELF_SYMTAB, FG_ELF_DYNSYM};
    struct fg_slice file = fg_bytes(data, size), section;
    uint64_t address;

    for (size_t k = 0; k < FG_COUNT(types); k++) {
        struct fg_elf_functions functions;
        struct fg_err err;

        if (fg_elf_functions(file, types[k], &functions, &err) != FG_OK)
            continue;
        for (uint32_t i = 0; i < functions.count; i++) {
            struct fg_slice name = fg_elf_function_name(&functions, i);

            fg_assert(name.len <= size);
            fg_assert(i == 0 || functions.items[i - 1].address <= functions.items[i].address);
            (void)fg_elf_function_at(&functions, functions.items[i].address);
        }
        fg_elf_functions_done(&functions);
    }
    fg_assert(fg_elf_build_id(file).len <= FG_ELF_BUILD_ID_MAX_BYTES);
    (void)fg_elf_section(file, ".eh_frame", &address, &section);
    return 0;
}
