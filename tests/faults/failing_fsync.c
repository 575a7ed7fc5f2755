/* Preloaded into PostgreSQL: fsync and fdatasync fail, or never return, while a file exists.
 *
 * FSYNC_FAILS and FSYNC_HANGS name the files. A call that hangs does so for ever, healed or not, as
 * one does whose device has gone; only the end of its process ends it. The postmaster never hangs, so
 * that it goes on to answer that it recovers.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_set(const char *name)
{
    const char *path = getenv(name);
    return path != NULL && access(path, F_OK) == 0;
}

static int is_child(void)
{
    char path[64], name[16] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", getppid());
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    if (fgets(name, sizeof name, file) == NULL)
        name[0] = 0;
    fclose(file);
    return strncmp(name, "postgres", 8) == 0;
}

static int fails(void)
{
    if (is_set("FSYNC_HANGS") && is_child())
        for (;;)
            pause();
    if (!is_set("FSYNC_FAILS"))
        return 0;
    errno = EIO;
    return 1;
}

int fsync(int file)
{
    int (*next)(int) = dlsym(RTLD_NEXT, "fsync");
    return fails() ? -1 : next(file);
}

int fdatasync(int file)
{
    int (*next)(int) = dlsym(RTLD_NEXT, "fdatasync");
    return fails() ? -1 : next(file);
}
