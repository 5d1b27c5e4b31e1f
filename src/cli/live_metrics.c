/* The last values of metrics in the live view: "loss 0.25  speed 312 (rank 3)". */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { INDENT = 3, GAP = 3, MORE = 12 /* "  +100 more" */ };

struct shown_value {
    const char *name;
    char text[64]; /* the number, and its rank */
};

/* In the order of the spec, those with a value. */
static struct shown_value *values_of(const struct run *r, const struct spec *spec, size_t *ret_count)
{
    struct shown_value *list = xcalloc(spec->metric_count + 1, sizeof *list);
    *ret_count = 0;
    for (uint32_t i = 0; i < spec->metric_count; i++) {
        double value;
        uint32_t rank;
        if (!run_metric(r, i, &value, &rank))
            continue;
        struct shown_value *v = &list[(*ret_count)++];
        v->name = spec->metrics[i].name;
        const int len = snprintf(v->text, sizeof v->text, "%.6g", value);
        if (rank != 0 && rank != WIRE_NO_RANK)
            snprintf(v->text + len, sizeof v->text - (size_t)len, " (rank %u)", rank);
    }
    return list;
}

/* A name may be cut, a number never. */
static void put_value(struct canvas *v, const struct shown_value *value, unsigned columns)
{
    const unsigned number = (unsigned)strlen(value->text) + 1, room = columns - INDENT - 1;
    const unsigned name = text_width(value->name, strlen(value->name));
    canvas_field(v, "2", value->name, name + number <= room || room <= number ? name : room - number);
    canvas_printf(v, "", " %s", value->text);
}

static unsigned width_of(const struct shown_value *value, unsigned columns)
{
    const unsigned whole = text_width(value->name, strlen(value->name)) + 1 + (unsigned)strlen(value->text);
    const unsigned room = columns > INDENT + 1 ? columns - INDENT - 1 : 1;
    return whole < room ? whole : room;
}

unsigned live_metrics(struct canvas *v, const struct run *r, const struct spec *spec, unsigned columns, unsigned lines)
{
    size_t count;
    unsigned used = 0, line = 0;
    struct shown_value *list = values_of(r, spec, &count);
    for (size_t i = 0; i < count && columns > 20; i++) {
        const bool more = i + 1 < count;
        unsigned room = columns - (line == lines && more ? MORE : 0);
        if (line == 0 || used + GAP + width_of(&list[i], room) > room - 1) {
            if (line == lines) {
                if (v)
                    canvas_printf(v, "2", "  +%zu more", count - i);
                break;
            }
            if (v && line > 0)
                canvas_end_line(v);
            room = columns - (++line == lines && more ? MORE : 0);
            used = 0;
        }
        const unsigned before = used ? GAP : INDENT;
        if (v) {
            canvas_printf(v, "", "%*s", (int)before, "");
            put_value(v, &list[i], room);
        }
        used += before + width_of(&list[i], room);
    }
    if (v && line > 0)
        canvas_end_line(v);
    free(list);
    return line;
}
