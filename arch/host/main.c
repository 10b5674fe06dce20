/* main.c: the hosted machine's firmware: options in, struct bootinfo out. What GRUB, multiboot2 and
 * ACPI tell the metal kernel, the command line tells this one.
 *
 * Memory is one mapping, untouched, so a large one costs nothing until it is used; it starts at a
 * multiple of the largest page block and asks for huge pages, as the metal kernel's direct map has
 * them.
 *
 * The process dies with its parent, whatever happens to that: a measurement that nobody waits for
 * is a neighbour that disturbs the next one.
 *
 * Locking: none. Contexts: main(), before other threads exist. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../base/host.h"
#include "host_impl.h"

#define BLOCK_BYTES  ((size_t)4 << 20) /* the largest page block */
#define MEMORY_MIN   ((u64)1 << 20)
#define ARGS_MAX     65536
#define STATUS_USAGE 2

static const char usage[] =
    "usage: hayloft-host [--cpus N] [--memory BYTES[K|M|G]] [--telemetry FILE] [--console FILE]\n"
    "                    [--args-file FILE | --args \"NAME=VALUE …\"]\n"
    "Runs the kernel as a process. Exit: 0 ok, 35 panic, 37 refused, 39 failed, 2 usage.\n";

struct options {
    u64 cpus, memory;
    const char *telemetry, *console, *args;
};

PRINTF(1, 2) static NORETURN void fail(const char *format, ...)
{
    va_list args;

    fputs("hayloft-host: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(STATUS_USAGE);
}

static u64 number(const char *option, const char *text, u64 min, u64 max)
{
    static const char suffixes[] = "KMG";
    const char *suffix;
    char *end;
    u64 v;

    errno = 0;
    v = strtoull(text, &end, 10);
    if (*end && (suffix = strchr(suffixes, *end)) != NULL && !end[1]) {
        u64 factor = (u64)1024 << 10 * (suffix - suffixes);

        if (__builtin_mul_overflow(v, factor, &v))
            errno = ERANGE;
        end++;
    }
    if (errno || end == text || *end || *text == '-' || v < min || v > max)
        fail("--%s %s: must be a number from %llu to %llu", option, text, (unsigned long long)min,
             (unsigned long long)max);
    return v;
}

static const char *read_args(const char *path)
{
    static char text[ARGS_MAX];
    FILE *f = fopen(path, "r");
    size_t n;

    if (!f)
        fail("--args-file %s: %s", path, strerror(errno));
    n = fread(text, 1, sizeof(text), f);
    if (ferror(f))
        fail("--args-file %s: %s", path, strerror(errno));
    if (n == sizeof(text))
        fail("--args-file %s: longer than %u bytes", path, ARGS_MAX - 1);
    fclose(f);
    text[n] = 0;
    if (strlen(text) != n)
        fail("--args-file %s: has a zero byte in it", path);
    return text;
}

static void parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"cpus", required_argument, NULL, 'c'},
        {"memory", required_argument, NULL, 'm'},
        {"telemetry", required_argument, NULL, 't'},
        {"console", required_argument, NULL, 'o'},
        {"args", required_argument, NULL, 'a'},
        {"args-file", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    *o = (struct options){.cpus = 1, .memory = (u64)256 << 20, .args = ""};
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case 'c':
            o->cpus = number("cpus", optarg, 1, MAX_CPUS);
            break;
        case 'm':
            o->memory = number("memory", optarg, MEMORY_MIN, (u64)1 << 46);
            break;
        case 't':
            o->telemetry = optarg;
            break;
        case 'o':
            o->console = optarg;
            break;
        case 'a':
            o->args = optarg;
            break;
        case 'f':
            o->args = read_args(optarg);
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(STATUS_USAGE);
        }
    }
    if (optind < argc)
        fail("%s: not an option; see --help", argv[optind]);
}

static int open_output(const char *option, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0)
        fail("--%s %s: %s", option, path, strerror(errno));
    return fd;
}

static void open_outputs(const struct options *o)
{
    int fd;

    host_console_set(o->console ? open_output("console", o->console) : STDOUT_FILENO);
    if (!o->telemetry)
        return;
    fd = open_output("telemetry", o->telemetry);
    fcntl(fd, F_SETFL, O_NONBLOCK); /* a terminal or pipe that nobody empties must not stop us */
    host_sink_set(fd);
}

static void map_memory(struct bootinfo *info, u64 bytes)
{
    size_t length = (size_t)bytes & ~(PAGE_SIZE - 1);
    char *p = mmap(NULL, length + BLOCK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        fail("--memory %llu: %s", (unsigned long long)bytes, strerror(errno));
    p = (char *)round_up((uintptr_t)p, BLOCK_BYTES);
    madvise(p, length, MADV_HUGEPAGE); /* refused by some kernels; then pages are small */
    info->range[0] = (struct boot_range){.base = p, .pages = length / PAGE_SIZE};
    info->ranges = 1;
    info->memory_bytes = length;
}

/* The hypervisor that this process runs under, as CPUID names it; invariant: the TSC's rate never
 * changes. */
static void read_cpuid(struct bootinfo *info)
{
    static const struct {
        const char *signature, *name;
    } known[] = {{"KVMKVMKVM", "KVM"}, {"TCGTCGTCGTCG", "TCG"}, {"bhyve bhyve ", "bhyve"}};
    static char signature[13];
    unsigned a, b, c, d;

    info->hypervisor = "";
    if (__get_cpuid(0x80000007, &a, &b, &c, &d))
        info->cycles_invariant = d >> 8 & 1;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 31))
        return;
    __cpuid(0x40000000, a, b, c, d);
    memcpy(signature, &b, 4);
    memcpy(signature + 4, &c, 4);
    memcpy(signature + 8, &d, 4);
    info->hypervisor = signature;
    for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
        if (!strcmp(signature, known[i].signature))
            info->hypervisor = known[i].name;
    }
}

int main(int argc, char **argv)
{
    static struct bootinfo info;
    struct options o;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN); /* write() says it as well */
    parse_options(argc, argv, &o);
    open_outputs(&o);
    host_fault_init();
    info.platform = "host";
    info.args = o.args;
    info.cpus_found = info.cpus = (unsigned)o.cpus;
    info.clock = "";
    for (unsigned i = 0; i < info.cpus; i++)
        info.cpu[i].apic_id = i;
    map_memory(&info, o.memory);
    read_cpuid(&info);
    info.cycles_hz = plat_cycles_hz();
    host_entry(&info);
}
