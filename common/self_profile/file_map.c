#include "common/self_profile/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fg_slice fg_file_map(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    void *at = MAP_FAILED;

    if (fd < 0)
        return fg_bytes(NULL, 0);
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0)
        at = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    return at == MAP_FAILED ? fg_bytes(NULL, 0) : fg_bytes(at, (size_t)info.st_size);
}

void fg_file_unmap(struct fg_slice file)
{
    if (file.ptr != NULL)
        (void)munmap((void *)(uintptr_t)file.ptr, file.len);
}
