/* window.c: addresses of which mm/ says what is behind them, in a process.
 *
 * A window is reserved without access, and gets memory where mm/ puts some: not the very memory that it
 * was given, which is a process's own and cannot be had at two addresses, but as much of it. A page that
 * is wanted over and over is copied into a file without a name, as often as it goes into
 * PLAT_WINDOW_LARGE, and the file is mapped over and over: a long stretch would take more mappings
 * than a process may have if each page had one.
 *
 * No page tables are made, so nobody is asked for pages.
 *
 * Locking: none. Contexts: one thread, before others run; unit tests between runs. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../base/host.h"

static struct {
    char *at;
    size_t bytes;
} windows[16]; /* those that host_window_close() may be asked for */

void *plat_window(size_t bytes)
{
    size_t length = bytes + PLAT_WINDOW_LARGE;
    char *p = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    unsigned i = 0;

    if (p == MAP_FAILED)
        return NULL;
    while (i < ARRAY_SIZE(windows) && windows[i].at)
        i++;
    CHECK(i < ARRAY_SIZE(windows));
    windows[i].at = p;
    windows[i].bytes = length;
    return (char *)round_up((uintptr_t)p, (uintptr_t)PLAT_WINDOW_LARGE);
}

void host_window_close(const void *inside)
{
    for (unsigned i = 0; i < ARRAY_SIZE(windows); i++) {
        if ((uintptr_t)inside - (uintptr_t)windows[i].at >= windows[i].bytes)
            continue;
        munmap(windows[i].at, windows[i].bytes);
        windows[i].at = NULL;
        windows[i].bytes = 0;
    }
}

bool plat_window_map(void *at, void *memory, size_t bytes, plat_take_page *take, void *ctx)
{
    (void)memory;
    (void)take;
    (void)ctx;
    return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
}

bool plat_window_repeat(void *at, const void *page, size_t bytes, plat_take_page *take, void *ctx)
{
    int fd = memfd_create("window", MFD_CLOEXEC);
    bool good = fd >= 0 && ftruncate(fd, (off_t)PLAT_WINDOW_LARGE) == 0;

    (void)take;
    (void)ctx;
    for (size_t n = 0; good && n < PLAT_WINDOW_LARGE; n += PAGE_SIZE)
        good = pwrite(fd, page, PAGE_SIZE, (off_t)n) == (ssize_t)PAGE_SIZE;
    for (size_t n = 0, piece; good && n < bytes; n += piece) {
        piece = MIN(PLAT_WINDOW_LARGE, bytes - n);
        good = mmap((char *)at + n, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
               MAP_FAILED;
    }
    if (fd >= 0)
        close(fd);
    return good;
}
