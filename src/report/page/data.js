/* The data of the page as objects, and the functions that all parts of the page share. Times of a run are milliseconds
 * since it was opened. Everything from a run is text: the page inserts it only as text (dom.js). */
"use strict";
var R = { palette: 8 };

(function () {
  var raw = JSON.parse(document.getElementById("data").textContent);
  R.version = raw.rhrun;
  R.madeMs = raw.made_ms;

  function attempt(run, a, index) {
    return {
      index: index, step: run.steps[a[0]], stepIndex: a[0], node: a[1], generation: a[2], outcome: a[3], from: a[4], to: a[5],
      cause: a[6], rank: a[7], logBytes: a[8], dropped: a[9], ofRun: a[10], point: a[11],
      launch: (a[12] & 1) !== 0, failed: (a[12] & 2) !== 0, logLeftOut: (a[12] & 4) !== 0, log: null
    };
  }
  function rank(r) {
    return { rank: r[0], role: r[1], roleRank: r[2], node: r[3], end: r[4], failed: r[5] !== 0, lines: r[6], errors: r[7], bytes: r[8],
      last: r[9], point: r[10] };
  }
  function point(run, p) {
    var params = [], metrics = [], i;
    for (i = 0; i < p[6].length; i += 2) params.push([run.names[p[6][i]], p[6][i + 1]]);
    for (i = 0; i < p[7].length; i += 4) metrics.push([run.names[p[7][i]], p[7][i + 1], p[7][i + 2], p[7][i + 3]]);
    return { run: run, name: p[0], state: p[1], place: p[2], message: p[3], started_ms: p[4], finished_ms: p[5], params: params, metrics: metrics, step: p[8] };
  }
  function line(l) {
    return { gap: l[0], rank: l[1], error: l[2] !== 0, at: l[3], text: l[4], whole: l.length > 5 ? l[5] : 0 };
  }
  function read(run, index) {
    run.index = index;
    run.attempts = run.attempts.map(function (a, i) { return attempt(run, a, i); });
    run.ranks = run.ranks.map(rank);
    run.packages = run.packages.map(function (p) { return { name: p[0], version: p[1], from: p[2], where: p[3], system: p[4] !== 0 }; });
    run.events = run.events.map(function (e) { return { at: e[0], kind: e[1], host: e[2], text: e[3] }; });
    run.logs = run.logs.map(function (log) {
      var made = { attempt: run.attempts[log.attempt], total: log.total, lines: log.lines.map(line) };
      made.attempt.log = made;
      return made;
    });
    /* by the run's own clock: its end or, for an open run, its last known time */
    run.endMs = run.closed_ms || R.madeMs;
    run.took = Math.max(0, run.endMs - run.opened_ms);
    run.label = run.job + " " + run.run.slice(0, 8);
    run.points = run.points.map(function (p) { return point(run, p); });
    run.sweep = run.points.some(function (p) { return p.name !== ""; });
    return run;
  }

  R.runs = raw.runs.map(read);
  R.chosen = R.runs[0];
  /* A step has the same colour in all runs. */
  var steps = [];
  R.runs.forEach(function (run) { run.attempts.forEach(function (a) { if (!a.ofRun && steps.indexOf(a.step) < 0) steps.push(a.step); }); });
  R.stepColor = function (step) { return R.color("c" + Math.max(0, steps.indexOf(step)) % R.palette); };
  /* The name of an attempt: for a point, the point's name. */
  R.attemptName = function (run, a) {
    var p = a.point >= 0 ? run.points[a.point] : null;
    return p ? (a.step === "point" ? "" : a.step + " of ") + p.name : a.step;
  };
  function quoted(word) { return /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replace(/'/g, "'\\''") + "'"; }
  /* The command that prints all of its log. */
  R.logsCommand = function (run, a) {
    var p = a.point >= 0 ? run.points[a.point] : null;
    return "rhrun logs " + run.run.slice(0, 8) + " --step " + quoted(p ? p.step : a.step) + (p ? "" : " --node " + a.node);
  };
  R.host = function (run, node) {
    return node < 0 ? "" : run.nodes[node] ? run.nodes[node].host : "node " + node;
  };
  /* Points of all runs: what the table and the plot of a sweep show, and what is compared. */
  R.points = [];
  R.runs.forEach(function (run) { R.points = R.points.concat(run.points); });
  /* The best point of a sweep that says by what: of those that are done; NULL: there is none. */
  R.best = function (run) {
    var best = null, most = null;
    run.points.forEach(function (p) {
      var m = run.best && p.state === "done" ? p.metrics.find(function (e) { return e[0] === run.best[0]; }) : null, v = m ? R.numeric(m[1]) : null;
      if (v !== null && (most === null || (run.best[1] === "max" ? v > most : v < most))) {
        best = p;
        most = v;
      }
    });
    return best ? { point: best, value: most } : null;
  };
  R.pointLabel = function (p) {
    return p.name ? (R.runs.length > 1 ? p.run.label + ": " : "") + p.name : p.run.label;
  };
  R.took = function (p) {
    return p.finished_ms ? p.finished_ms - p.started_ms : null;
  };
})();
