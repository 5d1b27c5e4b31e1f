/* Which rank ran where, and how each ended. */
"use strict";
(function () {
  R.ranks = function () {
    if (R.runs.every(function (run) { return run.ranks.length === 0; })) return;
    var body = R.section("ranks", "Ranks");
    R.eachRun(function (run) {
      var roles = run.ranks.some(function (r) { return r.role !== "default" && r.role !== "launcher"; });
      var metrics = [], last = {};
      run.curves.forEach(function (c) { /* of the latest generation */
        if (metrics.indexOf(c.metric) < 0 && metrics.length < 6) metrics.push(c.metric);
        var ys = c.data[2];
        last[c.metric + "\u0000" + c.point + "/" + c.rank] = ys.length ? ys[ys.length - 1] : null;
      });
      var columns = [
        { title: "Rank", num: true, value: function (r) { return r.rank; }, cell: function (r) { return r.rank < 0 ? "launcher" : String(r.rank); } },
        run.sweep ? { title: "Point", text: true, value: function (r) { return r.point; }, cell: function (r) { return r.point < 0 ? "\u2013" : R.broken(run.points[r.point].name); } } : null,
        roles ? { title: "Role", text: true, value: function (r) { return r.role; }, cell: function (r) { return r.rank < 0 ? "\u2013" : r.role + "[" + r.roleRank + "]"; } } : null,
        { title: "Node", text: true, value: function (r) { return R.host(run, r.node); }, cell: function (r) { return R.host(run, r.node) || "\u2013"; } },
        { title: "End", text: true, value: function (r) { return r.end; }, cell: function (r) { return (r.failed ? "\u2715 " : "") + r.end; } },
        { title: "Lines", num: true, value: function (r) { return r.lines; }, cell: function (r) { return R.count(r.lines); } },
        { title: "On stderr", num: true, value: function (r) { return r.errors; }, cell: function (r) { return r.errors ? R.count(r.errors) : "\u2013"; } },
        { title: "Output", num: true, value: function (r) { return r.bytes; }, cell: function (r) { return R.bytes(r.bytes); } },
        { title: "Last line", num: true, value: function (r) { return r.last; }, cell: function (r) { return r.last === null ? "\u2013" : "+" + R.duration(r.last); } }
      ].concat(metrics.map(function (m) {
        var of = function (r) { var v = last[m + "\u0000" + r.point + "/" + r.rank]; return v === undefined ? null : v; };
        return { title: m, num: true, value: of, cell: function (r) { return R.number(of(r)); } };
      })).filter(Boolean);
      R.replace(body, run.ranks.length === 0 ? R.h("p", { class: "card muted" }, "No launch of this run has started.") :
        R.h("div", { class: "card" }, R.table(columns, run.ranks, { limit: 64 }),
          run.ranks_left_out ? R.h("p", { class: "note" }, R.plural(run.ranks_left_out, "rank") + " more are not in this page.") : null));
    });
  };
})();
