/* Two runs, or two points, side by side. */
"use strict";
(function () {
  var h = R.h;

  function union(a, b) {
    var names = a.map(function (e) { return e[0]; });
    b.forEach(function (e) { if (names.indexOf(e[0]) < 0) names.push(e[0]); });
    return names;
  }
  function get(list, name) {
    var found = list.find(function (e) { return e[0] === name; });
    return found && found[1] !== null ? found[1] : "\u2013";
  }
  function change(a, b) {
    var x = R.numeric(a), y = R.numeric(b);
    if (x === null || y === null || x === y) return "";
    var text = (y > x ? "+" : "\u2212") + R.number(Math.abs(y - x));
    return x !== 0 ? text + " (" + (y > x ? "+" : "\u2212") + Math.abs((y - x) / x * 100).toPrecision(3) + " %)" : text;
  }
  /* [group, rows of [name, a, b, change]] */
  function metrics(p, q) {
    return union(p.metrics, q.metrics).map(function (n) {
      var a = get(p.metrics, n), b = get(q.metrics, n);
      return [n, a, b, change(a, b)];
    });
  }
  function longest(run) {
    return run.steps.map(function (step, i) {
      var most = null;
      run.attempts.forEach(function (a) { if (a.stepIndex === i && !a.ofRun && a.to !== null && a.from !== null) most = Math.max(most || 0, a.to - a.from); });
      return [step, most];
    }).filter(function (e) { return e[1] !== null; });
  }
  function durations(p, q) {
    var took = [["whole run", R.took(p), R.took(q)]];
    if (p.run !== q.run) {
      var a = longest(p.run), b = longest(q.run);
      union(a, b).forEach(function (n) {
        var x = a.find(function (e) { return e[0] === n; }), y = b.find(function (e) { return e[0] === n; });
        took.push([n, x ? x[1] : null, y ? y[1] : null]);
      });
    } else took[0][0] = "point";
    return took.map(function (t) {
      return [t[0], R.duration(t[1]), R.duration(t[2]), t[1] && t[2] ? (t[2] / t[1]).toPrecision(3) + " \u00d7" : ""];
    });
  }
  function short(text) { return /^[0-9a-f]{40,}$/.test(text) ? text.slice(0, 12) + "\u2026" : text; }
  function plain(a, b) {
    return union(a, b).map(function (n) {
      var x = get(a, n), y = get(b, n);
      return x === y ? [n, x, y, ""] : [n, short(x), short(y), ""];
    });
  }
  function versions(run) {
    return run.packages.map(function (p) { return [p.name + (p.where ? " (" + p.where + ")" : ""), p.version]; });
  }
  function hosts(run) {
    var facts = [["nodes", String(run.nodes.length)], ["hosts", run.nodes.slice(0, 20).map(function (n) { return n.host; }).join(", ")]];
    var f = run.nodes[0] ? run.nodes[0].facts : {};
    Object.keys(f).forEach(function (k) { if (k !== "disk_free_bytes" && k !== "work_dir" && f[k] !== "") facts.push([k.replace(/_/g, " "), String(f[k])]); });
    return facts;
  }
  function spec(p, q) {
    if (p.run === q.run || p.run.spec === q.run.spec) return null;
    var a = (p.run.spec || "").split("\n"), b = (q.run.spec || "").split("\n");
    if (a.length * b.length > 4e6) return null;
    /* the longest common subsequence, from the end */
    var w = b.length + 1, t = new Uint32Array((a.length + 1) * w), i, k, out = [];
    for (i = a.length - 1; i >= 0; i--)
      for (k = b.length - 1; k >= 0; k--)
        t[i * w + k] = a[i] === b[k] ? t[(i + 1) * w + k + 1] + 1 : Math.max(t[(i + 1) * w + k], t[i * w + k + 1]);
    for (i = 0, k = 0; i < a.length || k < b.length;) {
      if (i < a.length && k < b.length && a[i] === b[k]) { i++; k++; }
      else if (k < b.length && (i === a.length || t[i * w + k + 1] >= t[(i + 1) * w + k])) out.push("+ " + b[k++]);
      else out.push("- " + a[i++]);
    }
    return out.join("\n");
  }

  R.compare = function () {
    if (R.points.length < 2) return;
    var a = 0, b = R.points.length - 1, all = false, out = h("div");
    var options = R.points.slice(0, 2000).map(function (p, i) { return [i, R.pointLabel(p)]; });
    b = Math.min(b, options.length - 1);
    var body = R.section("compare", "Compare", [
      R.select("A", options, a, function (v) { a = Number(v); draw(); }), R.select("B", options, b, function (v) { b = Number(v); draw(); }),
      R.check("also what is the same", false, function (on) { all = on; draw(); })
    ]);
    body.appendChild(out);
    function draw() {
      var p = R.points[a], q = R.points[b], rows = [], equal = 0;
      function group(title, list) {
        var shown = list.filter(function (r) { return all || r[1] !== r[2]; });
        equal += list.filter(function (r) { return r[1] === r[2]; }).length;
        if (shown.length === 0) return;
        rows.push(h("tr", { class: "group" }, h("td", { colspan: 4 }, title)));
        shown.forEach(function (r) {
          var cls = r[1] === r[2] ? "text isolate same" : "text isolate differs";
          rows.push(h("tr", null, h("td", { class: "text isolate" }, r[0]), h("td", { class: cls }, r[1]), h("td", { class: cls }, r[2]), h("td", { class: "num muted" }, r[3])));
        });
      }
      group("Result", [["state", p.state, q.state, ""], ["why", p.message || "\u2013", q.message || "\u2013", ""]]);
      group("Parameters", plain(p.params, q.params));
      group("Metrics, last values", metrics(p, q));
      group("Durations", durations(p, q));
      if (p.run !== q.run) {
        group("Provenance", plain(p.run.provenance, q.run.provenance));
        group("Packages", plain(versions(p.run), versions(q.run)));
        group("Nodes", plain(hosts(p.run), hosts(q.run)));
      }
      var lines = spec(p, q);
      R.replace(out, h("div", { class: "card" }, h("div", { class: "scroll" }, h("table", null,
        h("thead", null, h("tr", null, h("th", { scope: "col" }, ""), h("th", { scope: "col" }, "A"), h("th", { scope: "col" }, "B"), h("th", { class: "num", scope: "col" }, "B against A"))),
        h("tbody", null, rows.length ? rows : h("tr", null, h("td", { colspan: 4 }, "Nothing differs."))))),
        h("p", { class: "note" }, all ? null : R.plural(equal, "row") + " that are the same in both are left out.")),
        lines ? h("div", { class: "card" }, h("h3", null, "Spec"), h("p", { class: "note" }, "Lines of A begin with \u2212, lines of B with +."), h("pre", null, lines.replace(/^- /gm, "\u2212 "))) : null);
    }
    draw();
  };
})();
