/*
 * Reads what a profiler needs of an ELF file: the names of functions by
 * address, and sections by name. Pure; every read is
 * checked, so a file that is cut short or wrong gives fewer names and nothing worse.
 *
 * Layout (System V ABI, 64 bits, little-endian): header of 64 bytes, whose e_shoff at 40 leads to
 * e_shnum (60) section headers of 64 bytes; a symbol has 24 bytes.
 */
#ifndef FG_COMMON_SELF_PROFILE_ELF_FILE_H
#define FG_COMMON_SELF_PROFILE_ELF_FILE_H

#include "common/base/err.h"
#include "common/base/slice.h"

enum fg_elf_section_type {
    FG_ELF_SYMTAB = 2, /* SHT_SYMTAB: all symbols; a stripped file has none */
    FG_ELF_NOTE = 7,
    FG_ELF_DYNSYM = 11, /* those that other modules may use */
};

enum { FG_ELF_BUILD_ID_MAX_BYTES = 32 }; /* of SHA-1 20 */

struct fg_elf_function {
    uint64_t address, size;
    uint32_t name; /* in the text of names */
    bool is_local; /* known in its file only */
};

/* Functions by address. */
struct fg_elf_functions {
    struct fg_elf_function *items; /* ascending; owned */
    uint32_t count;
    struct fg_slice names; /* borrowed from the file */
};

/* Returns whether the file has a section of this type. */
bool fg_elf_has(struct fg_slice file, enum fg_elf_section_type type);

/* Finds a section by its name and returns where it is loaded and its bytes, borrowed. Returns false
 * if there is none. */
bool fg_elf_section(struct fg_slice file, const char *name, uint64_t *ret_address,
                    struct fg_slice *ret_bytes);

/* Returns the build id (NT_GNU_BUILD_ID); empty: there is none. Borrowed from the file. */
struct fg_slice fg_elf_build_id(struct fg_slice file);

/* Reads the functions of the table of this type. FG_E_INVALID: it is no such file. FG_E_NOT_FOUND:
 * it has no such table. Free them with fg_elf_functions_done(). */
enum fg_code fg_elf_functions(struct fg_slice file, enum fg_elf_section_type type,
                              struct fg_elf_functions *ret_functions,
                              struct fg_err *err) fg_must_check;
void fg_elf_functions_done(struct fg_elf_functions *functions);

/* Returns the number of the function that an address of the file lies in, or UINT32_MAX. */
uint32_t fg_elf_function_at(const struct fg_elf_functions *functions, uint64_t address);

/* Returns the name of a function as the linker knows it. */
struct fg_slice fg_elf_function_name(const struct fg_elf_functions *functions, uint32_t number);

#endif
