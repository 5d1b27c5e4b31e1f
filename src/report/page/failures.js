/* The failed attempts, the earliest first, each with its last output; and the decisions that followed. */
"use strict";
(function () {
  var h = R.h, MOST = 20;

  function lastLines(run, a) {
    if (!a.log) return h("p", { class: "note" }, a.logLeftOut ? "Its log is not in this page: " + R.logsCommand(run, a) + " prints it." : "It left no log.");
    var lines = a.log.lines;
    if (a.rank >= 0) {
      var own = lines.filter(function (l) { return l.rank === a.rank; });
      if (own.length) lines = own;
    }
    if (lines.length === 0) return h("p", { class: "note" }, "It printed nothing.");
    return h("div", null, h("div", { class: "log", tabindex: 0 }, lines.slice(-25).map(function (l) { return R.logLine(l, false); })),
      h("p", { class: "note" }, h("button", { type: "button", onclick: function () { R.showLog(run, a); } }, "More of its log")));
  }
  function toEnd(body) {
    Array.prototype.forEach.call(body.querySelectorAll(".log"), function (log) { log.scrollTop = log.scrollHeight; });
  }
  function card(run, a, first) {
    var where = R.attemptName(run, a) + (a.generation > 0 && a.point < 0 ? ", generation " + a.generation : "") + " on " + R.host(run, a.node);
    return h("div", { class: "card failure" },
      h("h3", { class: "isolate" }, first ? "First: " : "", where),
      h("p", { class: "why isolate" }, (a.rank >= 0 ? R.rankWord(a.rank) + ": " : "") + (a.cause || a.outcome),
        h("span", { class: "muted" }, " \u00b7 after " + R.duration(a.to - a.from) + ", at +" + R.duration(a.to))),
      lastLines(run, a));
  }
  R.failures = function () {
    var any = R.runs.some(function (run) { return run.events.length > 0 || run.attempts.some(function (a) { return a.failed; }); });
    if (!any) return;
    var body = R.section("failures", "Failures and decisions");
    R.eachRun(function (run) {
      var failed = run.attempts.filter(function (a) { return a.failed; }).sort(function (a, b) { return a.to - b.to; });
      R.replace(body,
        failed.length === 0 ? h("p", { class: "card muted" }, "Nothing failed in this run.") : null,
        failed.slice(0, MOST).map(function (a, i) { return card(run, a, i === 0 && failed.length > 1); }),
        failed.length > MOST ? h("p", { class: "note" }, R.count(failed.length - MOST) + " more failed later; the timeline has them.") : null,
        run.events.length ? h("div", { class: "card" }, h("h3", null, "Decided and noted"), R.table([
          { title: "When", num: true, value: function (e) { return e.at; }, cell: function (e) { return "+" + R.duration(e.at); } },
          { title: "What", value: function (e) { return e.kind; }, cell: function (e) { return e.kind; } },
          { title: "Node", value: function (e) { return e.host; }, cell: function (e) { return e.host || "\u2013"; } },
          { title: "Why", text: true, cell: function (e) { return e.text; } }
        ], run.events, { limit: 50 }),
        run.events_left_out ? h("p", { class: "note" }, R.count(run.events_left_out) + " more are not in this page.") : null) : null);
      toEnd(body);
    });
  };
})();
