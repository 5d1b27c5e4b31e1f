/* Metrics as curves, by uPlot: one plot per metric, with the curves of all runs. */
"use strict";
(function () {
  var h = R.h, MOST = 24;

  function metricsOf() {
    var names = [];
    R.runs.forEach(function (run) {
      run.curves.forEach(function (c) { if (names.indexOf(c.metric) < 0) names.push(c.metric); });
    });
    return names;
  }
  function lowest(curves) {
    return curves.reduce(function (a, b) { return b.rank >= 0 && (a.rank < 0 || b.rank < a.rank) ? b : a; }, curves[0]);
  }
  /* The curves of a metric: [run, curve], in the order of the runs. */
  function chosen(metric, ranks, generations) {
    var list = [];
    R.runs.forEach(function (run) {
      var of = run.curves.filter(function (c) { return c.metric === metric; }), groups = {};
      var latest = Math.max.apply(null, of.map(function (c) { return c.generation; }));
      if (generations !== "all") of = of.filter(function (c) { return c.generation === latest; });
      of.forEach(function (c) {
        var key = c.generation + "/" + c.point;
        (groups[key] = groups[key] || []).push(c);
      });
      Object.keys(groups).forEach(function (key) {
        (ranks === "all" ? groups[key].sort(function (a, b) { return a.rank - b.rank; }) : [lowest(groups[key])]).forEach(function (c) { list.push([run, c]); });
      });
    });
    return list;
  }
  /* The last value of a curve. */
  function lastOf(entry) {
    var ys = entry[1].data[2];
    for (var i = ys.length - 1; i >= 0; i--) if (ys[i] !== null) return ys[i];
    return null;
  }
  function ordered(list, order) {
    if (order === "first") return list;
    return list.slice().sort(function (a, b) {
      var x = lastOf(a), y = lastOf(b);
      return x === null || y === null ? (x === null) - (y === null) : order === "low" ? x - y : y - x;
    });
  }
  function label(run, curve, several) {
    var words = [];
    if (R.runs.length > 1) words.push(run.label);
    if (run.sweep && curve.point >= 0) words.push(run.points[curve.point].name);
    if (several.generations && curve.generation) words.push("generation " + curve.generation);
    if (several.ranks || words.length === 0) words.push(R.rankWord(curve.rank));
    return words.join(", ");
  }
  /* Sorts the steps of a curve that goes back: uPlot needs ascending values. */
  function columns(curve, axis) {
    var xs = curve.data[axis === "time" ? 1 : 0], ys = curve.data[2];
    var order = xs.map(function (_, i) { return i; });
    if (xs.some(function (x, i) { return i > 0 && x < xs[i - 1]; })) order.sort(function (a, b) { return xs[a] - xs[b] || a - b; });
    var x = [], y = [];
    order.forEach(function (i) {
      var at = axis === "time" ? xs[i] / 1000 : xs[i];
      if (x.length && x[x.length - 1] === at) { /* one value per place: the one farther from the previous one */
        var before = y.length > 1 ? y[y.length - 2] : null;
        if (before !== null && ys[i] !== null && Math.abs(ys[i] - before) > Math.abs(y[y.length - 1] - before)) y[y.length - 1] = ys[i];
        return;
      }
      x.push(at);
      y.push(ys[i]);
    });
    return [x, y];
  }
  function plot(box, metric, list, settings, width) {
    var several = {
      ranks: list.some(function (e) { return e[1].rank !== list[0][1].rank; }),
      generations: list.some(function (e) { return e[1].generation !== list[0][1].generation; })
    };
    var shown = list.slice(0, MOST), data = uPlot.join(shown.map(function (e) { return columns(e[1], settings.axis); }));
    var positive = shown.every(function (e) { return e[1].data[2].every(function (v) { return v === null || v > 0; }); });
    var ink = R.color("muted"), grid = { stroke: R.color("line-soft"), width: 1 };
    var font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
    var time = function (v) { return R.duration(v * 1000).replace(/\.0+ s$/, " s").replace(" m 0 s", " m").replace(" h 0 m", " h"); };
    function longest(texts) { return Math.max.apply(null, (texts || [""]).map(function (t) { return (t || "").length; })); }
    R.replace(box);
    var plot = new uPlot({
      width: width, height: 260,
      scales: { x: { time: false }, y: { distr: settings.log && positive ? 3 : 1 } },
      axes: [
        { stroke: ink, grid: grid, ticks: grid, font: font, space: 70, values: function (_, splits) { return splits.map(settings.axis === "time" ? time : R.number); } },
        { stroke: ink, grid: grid, ticks: grid, font: font, values: function (_, splits) { return splits.map(function (v) { return v === null ? "" : R.number(v); }); },
          size: function (_, texts) { return 24 + 7 * longest(texts); } }
      ],
      cursor: { points: { size: 7 }, sync: { key: "metrics-" + settings.axis }, drag: { x: true, y: false } },
      legend: { live: true },
      series: [{ label: settings.axis === "time" ? "time" : "step", value: function (_, v) { return v === null ? "\u2013" : settings.axis === "time" ? time(v) : R.count(v); } }]
        .concat(shown.map(function (e, i) {
          return {
            label: label(e[0], e[1], several), stroke: R.color("c" + i % R.palette), width: 1.75, spanGaps: true,
            dash: i < R.palette ? undefined : i < 2 * R.palette ? [6, 3] : [2, 3], points: { show: e[1].data[2].length < 2 },
            value: function (_, v) { return R.number(v); }
          };
        }))
    }, data, box);
    plot.root.querySelectorAll(".u-label").forEach(function (e) { e.title = e.textContent; }); /* a long one is cut */
    return plot;
  }
  function notes(metric, list) {
    var values = 0, odd = 0, group = 1;
    list.forEach(function (e) {
      values += e[1].count;
      odd += e[1].odd;
      group = Math.max(group, e[1].group);
    });
    var text = R.plural(values, "value");
    if (group > 1) text += ", drawn as the lowest and the highest of each group of up to " + R.count(group);
    if (odd) text += "; " + R.count(odd) + " of them no finite number";
    if (list.length > MOST) text += "; " + MOST + " of " + R.count(list.length) + " curves";
    return text + ".";
  }

  R.curves = function () {
    var names = metricsOf();
    if (names.length === 0) return;
    var settings = { axis: "step", log: false, ranks: "lowest", generations: "latest", order: "first" }, cards = h("div", { class: "charts" }), redraws = [];
    var most = Math.max.apply(null, names.map(function (n) { return chosen(n, "all").length - chosen(n, "lowest").length; }));
    var restarted = names.some(function (n) { return chosen(n, "lowest", "all").length > chosen(n, "lowest").length; });
    var many = names.some(function (n) { return chosen(n, "all", "all").length > MOST; });
    if (R.runs.length === 1 && most > 0 && most < 8) settings.ranks = "all";
    function again() { redraws.forEach(function (f) { f(); }); }
    var body = R.section("metrics", "Metrics", [
      R.select("Over", [["step", "step"], ["time", "time"]], "step", function (v) { settings.axis = v; again(); }),
      most > 0 ? R.select("Ranks", [["lowest", "the lowest"], ["all", "all"]], settings.ranks, function (v) { settings.ranks = v; again(); }) : null,
      restarted ? R.select("Generations", [["latest", "the latest"], ["all", "all"]], "latest", function (v) { settings.generations = v; again(); }) : null,
      many ? R.select("Curves", [["first", "the first " + MOST], ["low", "the lowest at the end"], ["high", "the highest at the end"]], "first",
        function (v) { settings.order = v; again(); }) : null,
      R.check("logarithmic", false, function (on) { settings.log = on; again(); })
    ]);
    body.appendChild(cards);
    names.forEach(function (metric) {
      var box = h("div"), note = h("p", { class: "note" }), drawn = null;
      cards.appendChild(h("div", { class: "card" }, h("h3", { class: "isolate" }, metric), box, note));
      redraws.push(R.eachSize(box, function (width) {
        var list = ordered(chosen(metric, settings.ranks, settings.generations), settings.order);
        if (drawn) drawn.destroy();
        drawn = width > 0 ? plot(box, metric, list, settings, width) : null;
        note.textContent = notes(metric, list);
      }));
    });
    var left = R.runs.reduce(function (sum, run) { return sum + run.curves_left_out; }, 0);
    var kept = R.runs.filter(function (run) { return run.curves_of; });
    body.appendChild(h("p", { class: "note" }, "Drag over a plot to look closer, double-click for all of it. ",
      left ? R.plural(left, "value") + " of further ranks are not in this page: rhrun metrics RUN --csv has them. " : null,
      kept.map(function (run) { return run.label + " kept its launch; the values are those of run " + run.curves_of + ". "; })));
  };
})();
