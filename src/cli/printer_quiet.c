/* --quiet: the workers' output, and a note if some of it is missing. */
#include "printer.h"

static void finished(struct cli_printer *p, enum cli_printer_end how)
{
    (void)how;
    printer_put_dropped(p);
}

const struct printer_kind printer_quiet = {.people = true, .output = printer_put_line, .finished = finished};
