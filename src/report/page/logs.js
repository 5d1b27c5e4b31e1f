/* Excerpts of logs: for each attempt its head, its tail, and the lines before a failure. The search covers everything
 * in the page. */
"use strict";
(function () {
  var h = R.h, MOST = 600, show = null;

  function marked(text, word) {
    if (!word) return text;
    var parts = [], lower = text.toLowerCase(), at = 0, hit;
    if (lower.length !== text.length) return text; /* a letter has another length in lower case: mark nothing */
    while ((hit = lower.indexOf(word, at)) >= 0 && parts.length < 200) {
      parts.push(text.slice(at, hit), h("mark", null, text.slice(hit, hit + word.length)));
      at = hit + word.length;
    }
    parts.push(text.slice(at));
    return parts;
  }
  R.logLine = function (l, word) {
    return h("div", { class: l.error ? "err" : null }, h("span", { class: "at" }, "+" + R.duration(l.at)),
      h("span", { class: "who" }, l.rank < 0 ? "" : String(l.rank)),
      h("span", { class: "text" }, marked(l.text, word), l.whole ? h("span", { class: "cut" }, " \u2026 (" + R.bytes(l.whole) + " in all)") : null));
  };
  function gap(n, run, a) {
    return h("div", { class: "gap" }, R.plural(n, "line") + " left out; " + R.logsCommand(run, a) + " prints all");
  }
  function title(run, a) {
    return R.attemptName(run, a) + (a.generation > 1 ? " #" + a.generation : "") + " on " + R.host(run, a.node) + (a.failed ? " \u2715" : "") + (a.ofRun ? " (kept)" : "");
  }

  R.showLog = function (run, a) {
    if (show) show(run, a);
    document.getElementById("logs").scrollIntoView();
  };
  R.logs = function () {
    if (R.runs.every(function (run) { return run.logs.length === 0; })) return;
    var word = "", box = h("input", { type: "search", placeholder: "Search in all excerpts", "aria-label": "Search in all excerpts" }), pick = h("span");
    var body = R.section("logs", "Logs", [pick, box]), chosen = 0, current = R.chosen, timer = null;

    function first(run) { /* the log to show first: of the first failure, else of the launch */
      var failed = -1, launch = -1, best = null;
      run.logs.forEach(function (log, i) {
        if (log.attempt.failed && (best === null || log.attempt.to < best)) { failed = i; best = log.attempt.to; }
        if (log.attempt.launch && launch < 0) launch = i;
      });
      return failed >= 0 ? failed : Math.max(0, launch);
    }
    function lines(run, log) {
      var list = [], left = log.total;
      log.lines.forEach(function (l) {
        if (l.gap) list.push(gap(l.gap, run, log.attempt));
        left -= l.gap + 1;
        list.push(R.logLine(l, ""));
      });
      if (left > 0) list.push(gap(left, run, log.attempt));
      return list.length ? list : h("div", { class: "gap" }, "It printed nothing.");
    }
    function hits(run) {
      var list = [], found = 0, of = 0;
      run.logs.forEach(function (log) {
        var own = log.lines.filter(function (l) { return l.text.toLowerCase().indexOf(word) >= 0; });
        if (own.length === 0) return;
        of++;
        found += own.length;
        if (list.length > MOST) return;
        list.push(h("div", { class: "source" }, title(run, log.attempt)));
        own.slice(0, MOST).forEach(function (l) { list.push(R.logLine(l, word)); });
      });
      return [list, found ? R.plural(found, "line") + " of " + R.plural(of, "excerpt") + (found > MOST ? ", the first of them shown" : "") : "No line of these excerpts has it."];
    }
    function draw() {
      var run = current, out = h("div", { class: "log", tabindex: 0 }), note, dropped = 0, absent = 0;
      run.attempts.forEach(function (a) { dropped += a.dropped; absent += a.logLeftOut ? 1 : 0; });
      if (word) {
        var found = hits(run);
        R.replace(out, found[0]);
        note = found[1] + ". rhrun logs " + run.run.slice(0, 8) + " has every line.";
      } else if (run.logs[chosen]) {
        R.replace(out, lines(run, run.logs[chosen]));
        note = R.plural(run.logs[chosen].total, "line") + " in this log" + (run.logs[chosen].attempt.launch ? "; the number before a line is its rank." : ".");
      } else {
        note = "This run has no logs.";
      }
      if (dropped) note += " " + R.bytes(dropped) + " of output were dropped on the nodes.";
      if (absent) note += " The logs of " + R.plural(absent, "attempt") + " are not in this page.";
      R.replace(body, h("div", { class: "card" }, out.firstChild ? out : null, h("p", { class: "note" }, note)));
      out.scrollTop = !word && run.logs[chosen] && run.logs[chosen].attempt.failed ? out.scrollHeight : 0;
    }
    function picker(run) {
      R.replace(pick, run.logs.length > 1 ? R.select("Of", run.logs.map(function (log, i) { return [i, title(run, log.attempt)]; }), chosen,
        function (i) { chosen = Number(i); box.value = word = ""; draw(); }) : null);
    }
    show = function (run, a) {
      if (run !== current) R.choose(run);
      chosen = Math.max(0, run.logs.findIndex(function (log) { return log.attempt === a; }));
      box.value = word = "";
      picker(run);
      draw();
    };
    box.addEventListener("input", function () {
      clearTimeout(timer);
      timer = setTimeout(function () { word = box.value.toLowerCase(); draw(); }, 120);
    });
    R.eachRun(function (run) {
      current = run;
      chosen = first(run);
      picker(run);
      draw();
    });
  };
})();
