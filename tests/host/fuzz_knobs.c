/* fuzz_knobs.c: any bytes as an argument line. Whatever comes, the parser stays inside its buffers,
 * every knob ends with a legal value, a refusal says why, and the effective values as a line of
 * their own are accepted and mean the same: what hello echoes can be typed in again. */
#include <stdlib.h>
#include <string.h>

#include "../../base/fmt.h"
#include "../../base/knobs.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static void must(bool cond)
{
    if (!cond)
        abort();
}

static void echo(const struct knobs *k, char *line, size_t size)
{
    static char value[2100];
    size_t n = 0;

    for (unsigned id = 0; id < NR_KNOBS; id++) {
        knob_value_text(k, (enum knob_id)id, value, sizeof(value));
        n += fmt(line + n, size - n, "%s=%s ", knob_name((enum knob_id)id), value);
        must(n < size);
    }
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    static char line[8192];
    static struct knobs k, again;
    static struct knob_refusals r;
    char *text =
        malloc(size + 1); /* its own block, so that the sanitizer sees a read past the end */
    bool legal;

    must(text != NULL);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    legal = knobs_parse(&k, text, false, &r);
    must(legal == (r.count == 0));
    for (unsigned i = 0; i < r.count && i < KNOB_REFUSALS; i++)
        must(r.at[i].reason[0] != 0);
    must(knobs_check(&k, &r) == (r.count == 0));
    echo(&k, line, sizeof(line));
    must(knobs_parse(&again, line, false, &r));
    memset(k.set, 0, sizeof(k.set));
    memset(again.set, 0, sizeof(again.set));
    must(!memcmp(&k, &again, offsetof(struct knobs, set)));
    (void)knobs_parse(&again, text, true, &r);
    must(knobs_test_match("*", text));
    (void)knobs_test_match(text, "malloc/64/all-cpus");
    free(text);
    return 0;
}
