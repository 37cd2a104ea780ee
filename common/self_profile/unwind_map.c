#include "common/self_profile/unwind_map.h"

#include "common/self_profile/elf_file.h"
#include "common/self_profile/file_map.h"
#include "common/self_profile/process_modules.h"

#include <stdatomic.h>
#include <stdlib.h>

static const struct fg_unwind_map *_Atomic map_of_process;

const struct fg_unwind_map *fg_unwind_map(void)
{
    return atomic_load_explicit(&map_of_process, memory_order_acquire);
}

#if defined(__x86_64__)
static void add_module(void *arg, const struct fg_process_module *from)
{
    struct fg_unwind_map *map = arg;
    struct fg_unwind_module *module = &map->modules[map->count];
    struct fg_slice file, section;
    uint64_t address;

    if (map->count == FG_UNWIND_MODULES_MAX || from->high - from->low > UINT32_MAX)
        return;
    *module = (struct fg_unwind_module){.low = from->low, .high = from->high};
    file = fg_file_map(from->path);
    if (fg_elf_section(file, ".eh_frame", &address, &section))
        fg_unwind_rows_read(section, address, from->low - from->bias, &module->rows);
    fg_file_unmap(file);
    /* The kernel's page has no file: it stays out, and its functions leave the frame pointer. */
    if (module->rows.count > 0)
        map->count++;
}

static int compare_low(const void *a, const void *b)
{
    const struct fg_unwind_module *x = a, *y = b;

    return x->low < y->low ? -1 : x->low > y->low;
}

void fg_unwind_map_make(void)
{
    struct fg_unwind_map *map;

    if (fg_unwind_map() != NULL)
        return;
    map = fg_new(struct fg_unwind_map);
    fg_process_modules_each(add_module, map);
    qsort(map->modules, map->count, sizeof *map->modules, compare_low);
    atomic_store(&map_of_process, map);
}
#else
void fg_unwind_map_make(void)
{
}
#endif
