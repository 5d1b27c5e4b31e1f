/* Steps on their nodes over time: a lane for each node, a bar for each attempt. Overlapping attempts of a node are
 * below each other. */
"use strict";
(function () {
  var h = R.h, svg = R.svg, LANES = 60, BAR = 20;

  /* Round numbers of milliseconds, about `most` of them at most. */
  function ticks(from, to, most) {
    var units = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 144e5, 288e5, 432e5, 864e5];
    var each = units.find(function (u) { return (to - from) / u <= most; }) || 864e5 * Math.ceil((to - from) / 864e5 / most);
    var list = [];
    for (var t = Math.ceil(from / each) * each; t <= to && list.length < 50; t += each) list.push(t);
    return list;
  }
  function lanesOf(run, drawn) {
    var lanes = [];
    run.nodes.forEach(function (_, node) { lanes.push({ node: node, rows: [], ends: [] }); });
    drawn.forEach(function (a) {
      var lane = lanes[a.node];
      if (!lane) return;
      var row = lane.ends.findIndex(function (end) { return end <= a.from; });
      if (row < 0) row = lane.ends.push(0) - 1;
      lane.ends[row] = a.to === null ? run.took : a.to;
      lane.rows.push([row, a]);
    });
    return lanes;
  }
  function words(run, a) {
    return R.attemptName(run, a) + (a.generation > 0 && a.point < 0 ? ", generation " + a.generation : "") + " on " + R.host(run, a.node) + "\n" + a.outcome +
      (a.cause ? ": " + (a.rank >= 0 ? R.rankWord(a.rank) + ": " : "") + a.cause : "") +
      "\n" + R.duration((a.to === null ? run.took : a.to) - a.from) + ", from +" + R.duration(a.from);
  }

  R.timeline = function () {
    var zoom = null, all = false, redraw = null;
    var body = R.section("timeline", "Timeline");

    function draw(run, box, width) {
      var drawn = run.attempts.filter(function (a) { return !a.ofRun && a.from !== null; })
        .sort(function (a, b) { return a.from - b.from; });
      var from = 0, to = Math.max(1, run.took);
      if (zoom !== null) {
        var of = drawn.filter(function (a) { return a.stepIndex === zoom; });
        from = Math.min.apply(null, of.map(function (a) { return a.from; }));
        to = Math.max.apply(null, of.map(function (a) { return a.to === null ? run.took : a.to; }));
        var pad = Math.max(1, (to - from) * 0.04);
        from -= pad;
        to += pad;
      }
      var narrow = width < 560, left = narrow ? 0 : Math.min(200, 24 + 7.2 * Math.max.apply(null, run.nodes.map(function (n) { return Math.min(22, n.host.length); })));
      var inner = width - left - 8, x = function (t) { return left + (t - from) / (to - from) * inner; };
      var lanes = lanesOf(run, drawn), shown = all ? lanes : lanes.slice(0, LANES), y = 26;
      var clip = "lanes", root = svg("svg", { role: "img", "aria-label": "Steps of each node in time" });
      root.appendChild(svg("defs", null, svg("clipPath", { id: clip }, svg("rect", { x: left, y: 0, width: inner + 8, height: 1e6 }))));
      var grid = svg("g"), bars = svg("g", { "clip-path": "url(#" + clip + ")" }), names = svg("g");
      shown.forEach(function (lane) {
        var rows = Math.max(1, lane.ends.length), host = R.host(run, lane.node);
        if (narrow) {
          names.appendChild(svg("text", { x: 0, y: y + 12, class: "name" }, host.length > 40 ? host.slice(0, 39) + "\u2026" : host));
          y += 18;
        } else {
          names.appendChild(svg("text", { x: 0, y: y + 15, class: "name" }, host.length > 24 ? host.slice(0, 23) + "\u2026" : host));
        }
        lane.rows.forEach(function (entry) { bars.appendChild(bar(run, entry[1], x, y + entry[0] * (BAR + 3))); });
        y += rows * (BAR + 3) + 8;
        grid.appendChild(svg("line", { x1: 0, x2: width, y1: y - 4.5, y2: y - 4.5, class: "grid" }));
      });
      ticks(from, to, Math.max(2, Math.floor(inner / 90))).forEach(function (t) {
        grid.appendChild(svg("line", { x1: x(t), x2: x(t), y1: 20, y2: y, class: "grid" }));
        var near = x(t) > width - 30;
        grid.appendChild(svg("text", { x: x(t), y: 13, class: "axis", "text-anchor": near ? "end" : x(t) < left + 20 ? "start" : "middle" }, t === 0 ? "0" : "+" + R.duration(t).replace(/\.0+ s$/, " s").replace(/(\.\d)0 s$/, "$1 s").replace(" m 0 s", " m").replace(" h 0 m", " h")));
      });
      root.setAttribute("height", y);
      root.setAttribute("viewBox", "0 0 " + width + " " + y);
      root.append(grid, bars, names);
      R.replace(box, root);
      return lanes.length - shown.length;
    }
    function bar(run, a, x, y) {
      var end = a.to === null ? run.took : a.to, wide = Math.max(3, x(end) - x(a.from)), color = R.stepColor(a.step);
      var g = svg("g", { class: "bar", tabindex: 0, role: "button", "aria-label": words(run, a) });
      var rect = svg("rect", { x: x(a.from), y: y, width: wide, height: BAR, rx: 3 });
      rect.style.fill = color;
      g.appendChild(rect);
      if (a.failed) {
        var rim = svg("rect", { x: x(a.from) + 1, y: y + 1, width: Math.max(1, wide - 2), height: BAR - 2, rx: 2, fill: "none", "stroke-width": 2.5, "stroke-dasharray": "3 2" });
        rim.style.stroke = R.color("text");
        g.appendChild(rim);
      }
      var label = (a.failed ? "\u2715 " : "") + R.attemptName(run, a) + (a.generation > 1 ? " #" + a.generation : "");
      var start = Math.max(x(a.from), 0);
      var room = Math.floor((wide - 14) / 7);
      if (room >= Math.min(label.length + 1, 8)) {
        var text = svg("text", { x: start + 7, y: y + 14.5 }, room > label.length ? label : label.slice(0, room - 1) + "\u2026");
        text.style.fill = R.ink(color);
        g.appendChild(text);
      }
      g.addEventListener("mousemove", function (e) { R.tip(e, words(run, a) + (a.log ? "\nclick: its log" : "")); });
      g.addEventListener("mouseleave", function () { R.tip(null, ""); });
      function open() { if (a.log) R.showLog(run, a); }
      g.addEventListener("click", open);
      g.addEventListener("keydown", function (e) { if (e.key === "Enter") open(); });
      return g;
    }
    function steps(run) {
      var by = run.steps.map(function (step, i) { return { step: step, index: i, times: [], failed: 0, kept: 0, first: null }; });
      run.attempts.forEach(function (a) {
        var s = by[a.stepIndex];
        if (a.ofRun) { s.kept++; return; }
        if (a.from !== null && a.to !== null) s.times.push(a.to - a.from);
        if (a.from !== null && (s.first === null || a.from < s.first)) s.first = a.from;
        s.failed += a.failed ? 1 : 0;
      });
      var open = run.attempts.filter(function (a) { return a.to === null && !a.ofRun; });
      function pick(f) { return function (s) { return s.times.length ? f(s.times) : null; }; }
      var least = pick(function (t) { return Math.min.apply(null, t); }), most = pick(function (t) { return Math.max.apply(null, t); });
      return R.table([
        { title: "Step", value: function (s) { return s.step; }, text: true, cell: function (s) { return s.step; } },
        { title: "Began", num: true, value: function (s) { return s.first; }, cell: function (s) { return s.first === null ? "\u2013" : "+" + R.duration(s.first); } },
        { title: "Attempts", num: true, value: function (s) { return s.times.length; }, cell: function (s) {
          var going = open.filter(function (a) { return a.stepIndex === s.index; }).length;
          return R.count(s.times.length + going);
        } },
        { title: "Kept", num: true, value: function (s) { return s.kept; }, cell: function (s) { return s.kept ? R.count(s.kept) : "\u2013"; } },
        { title: "Failed", num: true, value: function (s) { return s.failed; }, cell: function (s) { return s.failed ? "\u2715 " + R.count(s.failed) : "\u2013"; } },
        { title: "Shortest", num: true, value: least, cell: function (s) { return R.duration(least(s)); } },
        { title: "Longest", num: true, value: most, cell: function (s) { return R.duration(most(s)); } }
      ], by);
    }

    R.eachRun(function (run) {
      zoom = null;
      all = false;
      var chart = h("div"), more = h("p", { class: "note" }), legend = h("div", { class: "legend" });
      var drawn = run.steps.map(function (_, i) { return run.attempts.some(function (a) { return a.stepIndex === i && !a.ofRun && a.from !== null; }); });
      function legends() {
        R.replace(legend, run.steps.map(function (step, i) {
          return drawn[i] ? h("button", { type: "button", "aria-pressed": String(zoom === i), title: "only the time of this step",
            onclick: function () { zoom = zoom === i ? null : i; redraw(); } }, R.swatch(R.stepColor(step)), h("span", { class: "isolate" }, step)) : null;
        }), zoom === null ? null : h("button", { type: "button", onclick: function () { zoom = null; redraw(); } }, "\u2190 whole run"));
      }
      R.replace(body, h("div", { class: "card" }, legend, chart, more), h("div", { class: "card" }, steps(run)));
      redraw = R.eachSize(chart, function (width) {
        var hidden = drawn.indexOf(true) >= 0 && width > 0 ? draw(run, chart, width) : 0;
        legends();
        R.replace(more, hidden ? h("button", { type: "button", onclick: function () { all = true; redraw(); } }, "Show " + R.count(hidden) + " more nodes") :
          run.attempts_left_out ? R.plural(run.attempts_left_out, "attempt") + " more are not in this page." :
          drawn.indexOf(true) < 0 ? "This run started nothing: what it needed was done." : null);
        more.hidden = !more.firstChild;
      });
    });
  };
})();
