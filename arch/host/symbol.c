/* symbol.c: names for addresses in this program, for backtraces. The names come from the symbol
 * table of the file itself, mapped at the first question: the dynamic one lacks static functions,
 * and would name their neighbours.
 *
 * Addresses in libraries have no name here. Nothing is allocated; a file without symbols gives no
 * names.
 *
 * Locking: none; the one caller is whoever panics. Contexts: any thread. */
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../base/host.h"

extern const char
    __ehdr_start[]; /* made by the linker: where this program's file begins in memory */

static struct {
    const Elf64_Sym *symbol;
    size_t symbols;
    const char *name;
    u64 bias; /* of the addresses in memory over those in the file */
} table;

/* The file, or NULL. It stays mapped. */
static const Elf64_Ehdr *map_self(size_t *size)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *p = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && st.st_size > (off_t)sizeof(Elf64_Ehdr)) {
        *size = (size_t)st.st_size;
        p = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

static bool within(const Elf64_Shdr *s, size_t size)
{
    return s->sh_offset <= size && s->sh_size <= size - s->sh_offset;
}

static void load(void)
{
    size_t size = 0;
    const Elf64_Ehdr *file = map_self(&size);
    const char *bytes = (const char *)file;
    const Elf64_Shdr *section;

    if (!file || file->e_shentsize != sizeof(*section) || file->e_shoff > size ||
        file->e_shnum > (size - file->e_shoff) / sizeof(*section))
        return;
    section = (const Elf64_Shdr *)(bytes + file->e_shoff);
    for (unsigned i = 0; i < file->e_shnum; i++) {
        const Elf64_Shdr *s = &section[i];

        if (s->sh_type != SHT_SYMTAB || s->sh_link >= file->e_shnum || !within(s, size) ||
            !within(&section[s->sh_link], size))
            continue;
        table.symbol = (const Elf64_Sym *)(bytes + s->sh_offset);
        table.symbols = s->sh_size / sizeof(Elf64_Sym);
        table.name = bytes + section[s->sh_link].sh_offset;
        table.bias = file->e_type == ET_DYN ? (u64)__ehdr_start : 0;
    }
}

/* Return addresses are what is asked about: one may lie just past a function that ends in a call
 * which does not return, and belongs to that function, not to the one that starts there. */
const char *host_symbol(u64 addr, u64 *offset)
{
    const char *starts_here = NULL;

    if (!table.symbol)
        load();
    *offset = 0;
    for (size_t i = 0; i < table.symbols; i++) {
        const Elf64_Sym *s = &table.symbol[i];
        u64 at = s->st_value + table.bias;

        if (ELF64_ST_TYPE(s->st_info) != STT_FUNC)
            continue;
        if (addr > at && addr - at <= s->st_size) {
            *offset = addr - at;
            return table.name + s->st_name;
        }
        if (addr == at)
            starts_here = table.name + s->st_name;
    }
    return starts_here;
}
