/*
 * A run's trace, for tests: RHRUN_TEST_TRACE=FILE (a test hook; the file is made with mode 0600, and appended to)
 * writes everything that passes between the core and its hands while a run is executed or cancelled, a line each, in
 * order. With a trace a core alone can repeat the run (tests/unit/test_core_replay.c): a failure in the field becomes a
 * test.
 *
 * While another process traces into FILE, this one traces into FILE.PID.
 *
 * A line is words between blanks; a text is a JSON string, bytes are hex. The first lines, from `trace` to the last
 * `event`, rebuild plan and state: the spec's text and the options that it was loaded with, the run's options, each
 * step's key, the journal so far. Then
 *
 *   < NAME ...   the hands tell the core something: core_take ("< take"), an alarm ("< alarm NUMBER", counted from 0
 *                as they were created), lines and ends of workers if rules or a role's readiness read them, and other
 *                calls of the core's functions by a hand
 *   finding CODE "text" "cure" NODE,...   one of the findings of the next "< take ... findings"
 *   > NAME ...   the core asks something of its hands: an effect, an event, an alarm, the time; with the answer, if
 *                that is no more than a word
 *   = ANSWER     ends a question (">") during which the hands may have told the core something
 *   untraced X   something happened that a trace does not have: it cannot be played beyond this line. Examples: files
 *                that are sent, a RUN that could not be made, a log or journal that could not be written
 *   end STATUS EXIT "error"   how the run ended; missing if rhrun was killed
 *
 * These are not in a trace, and a player does not need them: things that are only shown (METRICS are there as events),
 * the bytes of logs and of fetched files, and the content of RUN messages; so a trace has no secret. A worker's lines
 * are as the node masked them. These are not in a trace either, but a player needs them: values that `env` takes from
 * the caller, and files and folders that the spec names; a player cannot load a spec that has them. If a message names
 * the options of an unfinished run (the new run is refused, or replaces it), or how much a stopped fetch had got, a
 * player gets different words.
 */
#ifndef RHRUN_RUN_TRACE_H
#define RHRUN_RUN_TRACE_H

#include "internal.h"

/* The trace's descriptor, or -1: nothing is traced. */
int trace_open(const struct hands *h, const struct run_options *options);
void trace_close(const struct run *r);

/* Writes a line, if the run is traced. */
void trace(const struct run *r, const char *fmt, ...) FORMAT(2, 3);
void trace_text(const struct run *r, const char *what, const char *text); /* a line that ends with a text */
void trace_untraced(const struct run *r, const char *what);
bool trace_answer(const struct run *r, bool answer); /* writes "= 1" or "= 0", and returns the answer */
void trace_input(const struct run *r, const struct input *in);
void trace_effect(const struct run *r, const struct effect *e);
void trace_event(const struct run *r, const struct event *e);
void trace_line(const struct run_log *log, const char *what, const struct watch_line *line);
void trace_end(const struct run_log *log, const struct wire_worker_end *end);

/* What the hands tell the core besides struct input: each writes a line and calls the core's function of that name. */
void tell_note(struct run *r, uint32_t node, const char *fmt, ...) FORMAT(3, 4);

#endif
