#include "common/self_profile/process_modules.h"

#include <link.h>

struct each_module {
    void (*each)(void *arg, const struct fg_process_module *module);
    void *arg;
    unsigned n_seen;
};

static int see(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct each_module *to = arg;
    struct fg_process_module module = {
        /* The program itself comes first and has no name here. */
        .path = to->n_seen == 0 ? "/proc/self/exe" : info->dlpi_name,
        .low = UINTPTR_MAX,
        .bias = info->dlpi_addr,
    };

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];

        if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0)
            continue;
        module.low = FG_MIN(module.low, info->dlpi_addr + header->p_vaddr);
        module.high = FG_MAX(module.high, info->dlpi_addr + header->p_vaddr + header->p_memsz);
    }
    to->n_seen++;
    if (module.high > 0)
        to->each(to->arg, &module);
    return 0;
}

void fg_process_modules_each(void (*each)(void *arg, const struct fg_process_module *module),
                             void *arg)
{
    struct each_module to = {.each = each, .arg = arg};

    (void)dl_iterate_phdr(see, &to);
}
