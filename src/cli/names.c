/* Many nodes in few words: "n3, n5-n28", "0-28,30-31". */
#include "internal.h"

#include <string.h>

/* The number at the end of a name; false: there is none, or it has an unusual form (leading zeros). */
static bool split(const char *name, size_t *ret_prefix, uint64_t *ret_number)
{
    size_t at = strlen(name);
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
        at--;
    *ret_prefix = at;
    return name[at] && !(name[at] == '0' && name[at + 1]) && strlen(name + at) < 10 && parse_u64(name + at, ret_number);
}

/* How many names, from the first on, have consecutive numbers. */
static size_t run_of(const char *const *names, size_t count)
{
    size_t prefix, other, n = 1;
    uint64_t first, next;
    if (!split(names[0], &prefix, &first))
        return 1;
    while (n < count && split(names[n], &other, &next) && other == prefix && next == first + n &&
           strncmp(names[0], names[n], prefix) == 0)
        n++;
    return n;
}

void cli_put_names(struct buf *b, const char *const *names, size_t count, size_t most)
{
    for (size_t i = 0, shown = 0; i < count; shown++) {
        const size_t run = run_of(names + i, count - i);
        if (shown == most) {
            buf_printf(b, " and %zu more", count - i);
            return;
        }
        buf_puts(b, shown ? ", " : "");
        buf_puts(b, names[i]);
        if (run > 2) /* with a "-" in the name, "-" would read as another range */
            buf_printf(b, "%s%s", strchr(names[i], '-') ? " to " : "-", names[i + run - 1]);
        i += run > 2 ? run : 1;
    }
}

void cli_hint_nodes(struct error *err, const char *const *names, uint32_t count)
{
    struct buf b = {0};
    cli_put_names(&b, names, count, 8);
    if (count == 1)
        error_hint(err, "there is only node 0, %s", b.data);
    else
        error_hint(err, "there are nodes 0 to %u: %s", count - 1, b.data);
    buf_free(&b);
}

void cli_put_numbers(struct buf *b, const uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count;) {
        size_t run = 1;
        while (i + run < count && numbers[i + run] == numbers[i] + run)
            run++;
        buf_printf(b, "%s%u", i ? "," : "", numbers[i]);
        if (run > 1)
            buf_printf(b, "-%u", numbers[i + run - 1]);
        i += run;
    }
}
