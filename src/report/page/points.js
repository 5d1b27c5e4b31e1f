/* The points of a sweep, or several runs: a sortable table, and a line for each across all values that vary. */
"use strict";
(function () {
  var h = R.h, svg = R.svg;

  function columnsOf(key) {
    var names = [];
    R.points.forEach(function (p) { p[key].forEach(function (e) { if (names.indexOf(e[0]) < 0) names.push(e[0]); }); });
    return names;
  }
  function valueOf(p, key, name) {
    var found = p[key].find(function (e) { return e[0] === name; });
    return found ? found[1] : null;
  }
  function sortable(text) {
    if (text === null) return null;
    var v = R.numeric(text);
    return v === null ? text : v;
  }
  function varies(key, name) {
    var first = valueOf(R.points[0], key, name);
    return R.points.some(function (p) { return valueOf(p, key, name) !== first; });
  }

  /* ---- parallel coordinates ---- */

  /* From 0 (bottom) to 1: numbers by size, or by order of magnitude if they span several; words in their order. */
  function axisOf(key, name) {
    var texts = R.points.map(function (p) { return valueOf(p, key, name); }).filter(function (t) { return t !== null; });
    var numbers = texts.map(R.numeric), numeric = numbers.every(function (v) { return v !== null; }) && texts.length > 0;
    var axis = { key: key, name: name, ticks: [] };
    if (!numeric) {
      var words = texts.filter(function (t, i) { return texts.indexOf(t) === i; }).sort();
      axis.ticks = words.map(function (w, i) { return [w, words.length > 1 ? i / (words.length - 1) : 0.5]; });
      axis.at = function (text) { return words.length > 1 ? words.indexOf(text) / (words.length - 1) : 0.5; };
      if (words.length > 12) axis.ticks = [axis.ticks[0], axis.ticks[words.length - 1]];
      return axis;
    }
    var low = Math.min.apply(null, numbers), high = Math.max.apply(null, numbers), log = low > 0 && high / low >= 50;
    var scale = function (v) {
      if (high === low) return 0.5;
      return log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
    };
    axis.at = function (text) { return scale(R.numeric(text)); };
    var distinct = numbers.filter(function (v, i) { return numbers.indexOf(v) === i; });
    if (distinct.length <= 6) axis.ticks = distinct.map(function (v) { return [R.number(v), scale(v)]; });
    else axis.ticks = [0, 0.25, 0.5, 0.75, 1].map(function (t) { return [R.number(Number((log ? low * Math.pow(high / low, t) : low + (high - low) * t).toPrecision(3))), t]; });
    return axis;
  }
  /* From low to high, dark to light (in the dark theme: light to dark): a scale that colour-blind readers can tell
   * apart too. */
  function ramp(t) {
    var dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
    var stops = dark ? [[103, 125, 240], [57, 190, 190], [250, 224, 92]] : [[68, 1, 84], [33, 130, 150], [196, 140, 0]];
    var i = t < 0.5 ? 0 : 1, f = (t - i * 0.5) * 2;
    return "rgb(" + [0, 1, 2].map(function (k) { return Math.round(stops[i][k] + (stops[i + 1][k] - stops[i][k]) * f); }).join(",") + ")";
  }
  function cut(text, most) { return text.length > most ? text.slice(0, most - 1) + "\u2026" : text; }

  function draw(box, axes, by, width, light) {
    var wide = Math.max(width, 110 * axes.length), top = 34, tall = 250, lines = svg("g"), front = svg("g");
    var root = svg("svg", { width: wide, height: top + tall + 18, viewBox: "0 0 " + wide + " " + (top + tall + 18), role: "img", "aria-label": "Parameters and metrics of each point" });
    root.style.width = wide + "px";
    var x = function (i) { return 60 + i * (wide - 120) / Math.max(1, axes.length - 1); };
    var y = function (axis, p) {
      var text = valueOf(p, axis.key, axis.name);
      return text === null ? null : top + tall - axis.at(text) * tall;
    };
    R.points.forEach(function (p) {
      var d = "", gap = true;
      axes.forEach(function (axis, i) {
        var at = y(axis, p);
        if (at !== null && !isNaN(at)) d += (gap ? "M" : "L") + x(i).toFixed(1) + " " + at.toFixed(1);
        gap = at === null || isNaN(at);
      });
      var of = valueOf(p, by.key, by.name), path = svg("path", { d: d || "M0 0", fill: "none", "stroke-width": 1.8, "stroke-linejoin": "round" });
      path.style.stroke = of === null ? R.color("muted") : ramp(by.at(of));
      path.style.opacity = R.points.length > 200 ? 0.35 : 0.8;
      path.addEventListener("mousemove", function (e) {
        R.tip(e, R.pointLabel(p) + "\n" + axes.map(function (a) { return a.name + " " + (valueOf(p, a.key, a.name) || "\u2013"); }).join("\n"));
        light(p, true);
      });
      path.addEventListener("mouseleave", function () { R.tip(null, ""); light(p, false); });
      lines.appendChild(path);
      p.path = path;
    });
    axes.forEach(function (axis, i) {
      front.appendChild(svg("line", { x1: x(i), x2: x(i), y1: top, y2: top + tall, stroke: "currentColor", "stroke-opacity": 0.35 }));
      front.appendChild(svg("text", { x: x(i), y: 16, "text-anchor": "middle", class: "name", "font-weight": axis === by ? 700 : 400 }, cut(axis.name, 18)));
      axis.ticks.forEach(function (t) {
        var last = i === axes.length - 1;
        var text = svg("text", { x: x(i) + (last ? 6 : -6), y: top + tall - t[1] * tall + 4, "text-anchor": last ? "start" : "end", class: "axis halo" }, cut(String(t[0]), 9));
        text.style.pointerEvents = "none";
        front.appendChild(text);
      });
    });
    root.append(lines, front);
    R.replace(box, root);
  }

  /* ---- the table ---- */

  function column(key, name) {
    var num = R.points.every(function (p) { var v = valueOf(p, key, name); return v === null || R.numeric(v) !== null || /^-?(nan|inf)$/.test(v); });
    return {
      title: name, num: num, text: !num, value: function (p) { return sortable(valueOf(p, key, name)); },
      cell: function (p) {
        var v = valueOf(p, key, name), n = v === null ? null : R.numeric(v);
        return v === null ? "\u2013" : key === "metrics" && n !== null ? R.number(n) : v.length > 200 ? v.slice(0, 200) + "\u2026" : v;
      }
    };
  }

  R.sweep = function () {
    if (R.points.length < 2) return;
    var one = R.runs.length === 1, params = columnsOf("params"), metrics = columnsOf("metrics"), light;
    var vary = params.filter(function (n) { return varies("params", n); }), same = params.filter(function (n) { return vary.indexOf(n) < 0; });
    var body = R.section("points", one ? "Points" : "Runs");
    var rows = new Map(), best = new Set(R.runs.map(R.best).filter(Boolean).map(function (b) { return b.point; }));
    var columns = [{ title: one ? "Point" : "Run", text: true, value: R.pointLabel, cell: function (p) {
      if (p.run.sweep) {
        var a = p.run.attempts.find(function (x) { return x.launch && x.log && p.run.points[x.point] === p; });
        return a ? h("button", { type: "button", class: "link", title: "its log", onclick: function () { R.showLog(p.run, a); } }, R.broken(R.pointLabel(p))) : R.broken(R.pointLabel(p));
      }
      return h("button", { type: "button", class: "link", onclick: function () {
        document.querySelector("#links select").value = p.run.index;
        R.choose(p.run);
      } }, p.run.label);
    } }, { title: "State", value: function (p) { return p.state; }, cell: function (p) {
      return best.has(p) ? [R.chip(p.state), h("span", { class: "chip best" }, "\u2605 best")] : R.chip(p.state);
    } }]
      .concat(vary.map(function (n) { return column("params", n); }))
      .concat(metrics.map(function (n) { return column("metrics", n); }))
      .concat([{ title: "Took", num: true, value: R.took, cell: function (p) { return R.duration(R.took(p)); } }]);
    if (R.points.some(function (p) { return p.place; }))
      columns.push({ title: "Place", text: true, value: function (p) { return p.place; }, cell: function (p) { return p.place || "\u2013"; } });
    if (!one) columns.push({ title: "Began", num: true, value: function (p) { return p.started_ms; }, cell: function (p) { return R.time(p.started_ms); } });
    light = function (p, on) {
      if (rows.get(p)) rows.get(p).classList.toggle("lit", on);
      if (p.path) p.path.style.strokeWidth = on ? 4 : 1.8;
    };
    var axes = vary.map(function (n) { return axisOf("params", n); })
      .concat(metrics.filter(function (n) { return varies("metrics", n); }).map(function (n) { return axisOf("metrics", n); })).slice(0, 12);
    if (axes.length > 1) {
      var by = axes[axes.length - 1], box = h("div", { class: "scroll" }), redraw;
      var card = h("div", { class: "card" }, h("div", { class: "head" }, h("h3", null, "What varies"), h("div", { class: "tools" },
        R.select("Colour by", axes.map(function (a, i) { return [i, a.name]; }), axes.length - 1, function (i) { by = axes[Number(i)]; redraw(); }))), box);
      body.appendChild(card);
      redraw = R.eachSize(box, function (width) { if (width > 0) draw(box, axes, by, width, light); });
    }
    body.appendChild(h("div", { class: "card" }, R.table(columns, R.points, {
      limit: 100,
      row: function (tr, p) {
        rows.set(p, tr);
        tr.addEventListener("mouseenter", function () { light(p, true); });
        tr.addEventListener("mouseleave", function () { light(p, false); });
      }
    }), same.length ? h("p", { class: "note isolate" }, "The same in all: " + same.map(function (n) {
      return n + " = " + cut(String(valueOf(R.points[0], "params", n)), 80);
    }).join(", ") + ".") : null));
  };
})();
