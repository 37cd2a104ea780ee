#include "tests/lib/remove_tree.h"

#include <ftw.h>
#include <stdio.h>

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

int remove_tree(const char *folder)
{
    enum { FOLDERS_OPEN = 16 };

    return nftw(folder, remove_one, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS);
}
