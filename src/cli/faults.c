/* Unreachable nodes, by cause: "25 of 32 nodes: connection refused: n3, n5-n28". */
#include "internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_SHOWN = 16 };

/* Removes the parts that differ between nodes with the same cause: the node's name, its address and port, its key. */
static const char *cause_of(const char *text, struct arena *arena)
{
    const char *host = strstr(text, "host \""), *at = host ? strstr(host + 6, "\": ") : NULL;
    char *cause = arena_strdup(arena, at ? at + 3 : text), *port, *end, *key;
    if ((port = strstr(cause, " port ")) != NULL) { /* "connect: 10.0.0.3 port 22: Connection refused" */
        char *begin = port;
        end = port + strlen(" port ") + strspn(port + strlen(" port "), "0123456789");
        while (begin > cause && begin[-1] != ' ')
            begin--;
        if (strncmp(end, ": ", 2) == 0)
            end += 2;
        else if (begin - cause >= 6 && strncmp(begin - 6, " from ", 6) == 0)
            begin -= 6;
        memmove(begin, end, strlen(end) + 1);
    }
    if (strncmp(cause, "resolve: \"", 10) == 0 && (end = strstr(cause + 10, "\": ")) != NULL)
        memmove(cause + 9, end + 3, strlen(end + 3) + 1);
    if (strstr(cause, "the host key has changed: ") && (key = strstr(cause, " lists another ")) != NULL) {
        while (key > cause && *key != ':') /* before the line number */
            key--;
        *key = 0;
        cause = arena_printf(arena, "%s lists another key", cause);
    }
    if ((key = strstr(cause, " (ssh-")) != NULL || (key = strstr(cause, " (ecdsa-")) != NULL)
        *key = 0;
    if (strncmp(cause, "connect: ", 9) == 0)
        cause += 9;
    *cause = (char)tolower((unsigned char)*cause);
    return cause;
}

static int most_first(const void *a, const void *b)
{
    const struct cli_fault *x = a, *y = b;
    return x->count != y->count ? (x->count > y->count ? -1 : 1) : x->first < y->first ? -1 : x->first > y->first;
}

size_t cli_faults(const struct run *r, const struct plan *plan, struct arena *arena, struct cli_fault **ret)
{
    struct cli_fault *list = arena_array(arena, plan->node_count + 1, sizeof *list);
    size_t count = 0;
    for (uint32_t n = 0; n < plan->node_count; n++) {
        struct run_node_view v;
        size_t at = 0;
        run_node(r, n, &v);
        if (v.presence != PRESENCE_GONE || !v.error)
            continue;
        const char *cause = cause_of(v.error, arena);
        while (at < count && strcmp(list[at].cause, cause) != 0)
            at++;
        if (at == count)
            list[count++] = (struct cli_fault){.cause = cause,
                                               .hint = arena_strdup(arena, v.hint ? v.hint : ""),
                                               .first = n,
                                               .names = arena_array(arena, plan->node_count, sizeof(const char *))};
        list[at].names[list[at].count++] = v.name;
    }
    if (count)
        qsort(list, count, sizeof *list, most_first);
    *ret = list;
    return count;
}

void cli_put_fault(struct buf *b, const struct cli_fault *f, uint32_t nodes)
{
    buf_printf(b, "%zu of %u nodes: %s: ", f->count, nodes, f->cause);
    cli_put_names(b, f->names, f->count, NAMES_SHOWN);
}

void cli_group_faults(struct cli *c, const struct run *r, const struct plan *plan, struct error *err)
{
    struct cli_fault *faults;
    const size_t count = cli_faults(r, plan, c->arena, &faults);
    size_t nodes = 0;
    bool told = false; /* whether the error is about one of these nodes */
    for (size_t i = 0; i < count; i++)
        nodes += faults[i].count;
    for (uint32_t n = 0; n < plan->node_count && !told; n++) {
        struct run_node_view v;
        run_node(r, n, &v);
        told = v.presence == PRESENCE_GONE && v.error && str_starts(err->text, v.error);
    }
    if (!told || nodes < 2)
        return;
    struct buf first = {0}, rest = {0};
    for (size_t i = 0; i < count; i++) {
        struct buf *b = i == 0 || c->given[OPT_JSON] ? &first : &rest;
        buf_puts(b, b == &rest ? "  " : i ? "; " : "");
        cli_put_fault(b, &faults[i], plan->node_count);
        buf_puts(b, b == &rest ? "\n" : "");
    }
    struct error grouped = *err;
    error_set(&grouped, err->code, "%s", first.data);
    memcpy(grouped.hint, err->hint, sizeof grouped.hint);
    if (faults[0].hint[0] && !str_starts(err->hint, "running work goes on"))
        error_hint(&grouped, "%s", faults[0].hint);
    *err = grouped;
    if (rest.len)
        c->error_lines = arena_strdup(c->arena, rest.data);
    buf_free(&first);
    buf_free(&rest);
}
