/* The first facts: how the run ended, how long it took, the last values. */
"use strict";
(function () {
  var h = R.h;

  function tile(label, value, more) {
    return h("div", { class: "tile" }, h("div", { class: "label isolate" }, label), h("div", { class: "value" }, value),
      more ? h("div", { class: "more isolate" }, more) : null);
  }
  function tiles(run) {
    var list = [tile("Status", R.chip(run.status), run.message && run.message !== run.status ? run.message : null)];
    list.push(tile(run.open ? "Running for" : "Took", R.duration(run.took), "since " + R.time(run.opened_ms)));
    list.push(tile("Nodes", R.count(run.nodes.length), run.ranks.length ? R.plural(run.ranks.filter(function (r) { return r.rank >= 0; }).length + run.ranks_left_out, "rank") : null));
    if (run.restarts) list.push(tile("Restarts", R.count(run.restarts)));
    if (run.sweep) {
      var done = run.points.filter(function (p) { return p.state === "done"; }).length;
      list.push(tile("Points done", R.count(done), "of " + R.plural(run.points.length, "point")));
      var best = R.best(run);
      if (best) list.push(tile("Best point", R.broken(best.point.name), run.best[0] + " " + R.number(best.value)));
    }
    var failed = run.attempts.filter(function (a) { return a.failed; }).length;
    if (failed) list.push(tile("Failed attempts", R.count(failed)));
    (run.sweep ? [] : run.points[0].metrics).slice(0, 8).forEach(function (m) {
      var v = R.numeric(m[1]);
      list.push(tile(m[0], v === null ? m[1] : R.number(v), "last of " + R.plural(m[3], "value") + (m[2] > 0 ? ", rank " + m[2] : "")));
    });
    return h("div", { class: "tiles" }, list);
  }

  var names = [];
  R.runs.forEach(function (run) { if (names.indexOf(run.job) < 0) names.push(run.job); });
  var title = names.slice(0, 4).join(", ") + (names.length > 4 ? " and " + (names.length - 4) + " more" : "");
  document.title = title + " \u00b7 rhrun report";
  document.getElementById("title").textContent = title;
  document.getElementById("made").textContent = "Made " + R.time(R.madeMs) + " by rhrun " + R.version + ". The page needs no network and sends nothing.";

  R.overview = function () {
    var subtitle = document.getElementById("subtitle");
    if (R.runs.length > 1)
      document.getElementById("links").appendChild(h("div", { class: "of-run" }, R.select("Run", R.runs.map(function (run) {
        return [run.index, run.label + " (" + run.status + ")"];
      }), 0, function (i) { R.choose(R.runs[Number(i)]); })));
    var body = R.section("overview", R.runs.length > 1 ? "Run" : "Overview");
    R.eachRun(function (run) {
      subtitle.textContent = R.runs.length > 1 ? R.plural(R.runs.length, "run") : "Run " + run.run;
      R.replace(body, tiles(run));
      if (R.runs.length > 1) body.insertBefore(h("p", { class: "muted isolate tiles-of" }, run.label), body.firstChild);
    });
  };
})();
