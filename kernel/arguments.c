/* arguments.c: from the argument line to the effective knobs, on both platforms. A refusal does not
 * end the boot here: the laboratory says hello, what was refused and bye, in the stream and on the
 * console.
 *
 * Locking: none. Contexts: boot, once, before anything whose shape a knob decides. */
#include "kernel.h"

#include "../base/fmt.h"
#include "../base/string.h"

/* provoke= is free text to knobs.c: what it can mean depends on what this machine has. */
void arguments_check_provoke(unsigned cpus)
{
    const char *why = provoke_refusal(knobs.provoke, cpus, (unsigned)knobs.maxcpus);
    struct knob_refusal *r;

    if (!why)
        return;
    if (knob_refused.count++ < KNOB_REFUSALS) {
        r = &knob_refused.at[knob_refused.count - 1];
        fmt(r->argument, sizeof(r->argument), "provoke=%s", knobs.provoke);
        text_copy(r->reason, sizeof(r->reason), why);
        text_copy(r->nearest, sizeof(r->nearest), "provoke=none");
    }
    text_copy(knobs.provoke, sizeof(knobs.provoke), "none");
}

/* With the CPUs that there are in the place of those that may be: hello echoes what was asked for. */
static void check_conflicts(unsigned cpus)
{
    u64 maxcpus = knobs.maxcpus;

    knobs.maxcpus = MIN(maxcpus, (u64)cpus);
    (void)knobs_check(&knobs, &knob_refused);
    knobs.nodes = MIN(knobs.nodes, knobs.maxcpus); /* refused, and this much can be built */
    knobs.maxcpus = maxcpus;
}

void arguments_read(const char *line, bool hosted, unsigned cpus)
{
    (void)knobs_parse(&knobs, line, hosted, &knob_refused);
    check_conflicts(cpus);
    arguments_check_provoke(cpus);
}
