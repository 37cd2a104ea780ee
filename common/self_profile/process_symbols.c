#include "common/self_profile/process_symbols.h"

#include "common/base/str.h"
#include "common/self_profile/elf_file.h"
#include "common/self_profile/file_map.h"
#include "common/self_profile/process_modules.h"

#include <stdlib.h>

enum {
    MODULES_MAX = 256,
    PATH_MAX_BYTES = 4096, /* PATH_MAX of Linux */
};

static const char debug_folder[] = "/usr/lib/debug/.build-id";

/* Of libstdc++, which has no header for C (C++ ABI, 3.4). */
extern char *__cxa_demangle(const char *mangled, char *out, size_t *size, int *status);

struct symbols_module {
    uintptr_t low, high; /* of code */
    uintptr_t bias;      /* what the addresses of the file are away from those in memory */
    char path[PATH_MAX_BYTES];
    bool is_read;
    struct fg_slice file; /* mapped: the names are in it */
    struct fg_elf_functions functions;
};

struct fg_process_symbols {
    struct symbols_module *modules[MODULES_MAX];
    uint32_t n_modules;
};

/* ---- modules ---- */

static bool knows(const struct fg_process_symbols *symbols, uintptr_t low)
{
    for (uint32_t i = 0; i < symbols->n_modules; i++)
        if (symbols->modules[i]->low == low)
            return true;
    return false;
}

static void see_module(void *arg, const struct fg_process_module *from)
{
    struct fg_process_symbols *symbols = arg;
    struct symbols_module *module;

    if (symbols->n_modules == MODULES_MAX || knows(symbols, from->low))
        return;
    module = fg_new(struct symbols_module);
    module->low = from->low;
    module->high = from->high;
    module->bias = from->bias;
    (void)snprintf(module->path, sizeof module->path, "%s", from->path);
    symbols->modules[symbols->n_modules++] = module;
}

struct fg_process_symbols *fg_process_symbols_create(void)
{
    struct fg_process_symbols *symbols = fg_new(struct fg_process_symbols);

    fg_process_symbols_refresh(symbols);
    return symbols;
}

void fg_process_symbols_refresh(struct fg_process_symbols *symbols)
{
    fg_process_modules_each(see_module, symbols);
}

void fg_process_symbols_destroy(struct fg_process_symbols *symbols)
{
    if (symbols == NULL)
        return;
    for (uint32_t i = 0; i < symbols->n_modules; i++) {
        struct symbols_module *module = symbols->modules[i];

        fg_elf_functions_done(&module->functions);
        fg_file_unmap(module->file);
        free(module);
    }
    free(symbols);
}

/* ---- files ---- */

/* Maps the debug information of a file; empty: there is none. */
static struct fg_slice map_debug_file(struct fg_slice file)
{
    struct fg_slice id = fg_elf_build_id(file), found;
    char path[sizeof debug_folder + (size_t)2 * FG_ELF_BUILD_ID_MAX_BYTES + sizeof "//.debug"];
    size_t len = sizeof debug_folder - 1;

    if (id.len < 2)
        return fg_bytes(NULL, 0);
    memcpy(path, debug_folder, len);
    path[len++] = '/';
    for (size_t i = 0; i < id.len; i++)
        len +=
            (size_t)snprintf(path + len, sizeof path - len, i == 0 ? "%02x/" : "%02x", id.ptr[i]);
    (void)snprintf(path + len, sizeof path - len, ".debug");
    found = fg_file_map(path);
    if (found.ptr == NULL || fg_elf_has(found, FG_ELF_SYMTAB))
        return found;
    fg_file_unmap(found);
    return fg_bytes(NULL, 0);
}

static void read_module(struct symbols_module *module)
{
    struct fg_slice debug = {NULL, 0};
    struct fg_err err;

    module->is_read = true;
    module->file = fg_file_map(module->path);
    if (!fg_elf_has(module->file, FG_ELF_SYMTAB))
        debug = map_debug_file(module->file);
    if (debug.ptr != NULL) {
        fg_file_unmap(module->file);
        module->file = debug;
    }
    /* Without names the module itself is one. */
    if (fg_elf_functions(module->file, FG_ELF_SYMTAB, &module->functions, &err) != FG_OK &&
        fg_elf_functions(module->file, FG_ELF_DYNSYM, &module->functions, &err) != FG_OK) {
        fg_file_unmap(module->file);
        module->file = fg_bytes(NULL, 0);
    }
}

/* ---- functions ---- */

bool fg_process_symbols_find(struct fg_process_symbols *symbols, uintptr_t pc, uint64_t *ret_id)
{
    for (uint32_t i = 0; i < symbols->n_modules; i++) {
        struct symbols_module *module = symbols->modules[i];

        if (pc < module->low || pc >= module->high)
            continue;
        if (!module->is_read)
            read_module(module);
        *ret_id = (uint64_t)i << 32 | fg_elf_function_at(&module->functions, pc - module->bias);
        return true;
    }
    return false;
}

/* Cuts what the compiler appends to names of parts and copies: .cold, .part.0, .constprop.1. */
static struct fg_slice without_suffix(struct fg_slice name)
{
    return name.len == 0 || name.ptr[0] == '.' ? name
                                               : fg_slice_sub(name, 0, fg_slice_find(name, '.'));
}

/* Cuts the parameters: from the bracket that the last one closes. */
static size_t without_parameters(const char *name)
{
    size_t len = strlen(name), at = len;
    unsigned open = 0;

    while (at > 0 && name[at - 1] != ')')
        at--;
    for (; at > 0; at--) {
        if (name[at - 1] == ')')
            open++;
        else if (name[at - 1] == '(' && --open == 0)
            /* operator() has no other name. */
            return at - 1 >= 8 && memcmp(name + at - 9, "operator", 8) == 0 ? len : at - 1;
    }
    return len;
}

static bool put_demangled(struct fg_slice mangled, struct fg_buf *out)
{
    char text[1024], *name;

    if (!fg_slice_starts(mangled, "_Z") || mangled.len >= sizeof text)
        return false;
    memcpy(text, mangled.ptr, mangled.len);
    text[mangled.len] = '\0';
    name = __cxa_demangle(text, NULL, NULL, NULL);
    if (name == NULL)
        return false;
    fg_buf_append(out, name, without_parameters(name));
    free(name);
    return true;
}

void fg_process_symbols_name(const struct fg_process_symbols *symbols, uint64_t id,
                             struct fg_buf *out)
{
    const struct symbols_module *module = symbols->modules[id >> 32];
    struct fg_slice name;

    if ((uint32_t)id == UINT32_MAX) {
        const char *slash = strrchr(module->path, '/');

        fg_buf_printf(out, "[%s]", slash != NULL ? slash + 1 : module->path);
        return;
    }
    name = without_suffix(fg_elf_function_name(&module->functions, (uint32_t)id));
    if (!put_demangled(name, out))
        fg_buf_put(out, name);
}
