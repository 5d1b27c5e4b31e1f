/* The origin of a run: what it was started with, and on what. */
"use strict";
(function () {
  var h = R.h;

  function nodes(run) {
    var has = function (key) { return run.nodes.some(function (n) { return n.facts[key]; }); };
    function column(key, title, words) {
      return has(key) ? { title: title, text: !words, num: Boolean(words), value: function (n) { return n.facts[key]; },
        cell: function (n) { return n.facts[key] ? words ? words(n.facts[key]) : String(n.facts[key]) : "\u2013"; } } : null;
    }
    return R.table([
      { title: "Node", text: true, value: function (n) { return n.host; }, cell: function (n) { return n.host; } },
      column("cpus", "CPUs", R.count), column("memory_bytes", "Memory", R.bytes), column("gpus", "GPUs"), column("gpu_count", "GPUs", R.count),
      column("arch", "Architecture"), column("os", "System"), column("kernel", "Kernel"), column("python_version", "Python"), column("hostname", "Host name"), column("user", "User")
    ].filter(Boolean), run.nodes, { limit: 50 });
  }
  function packages(run) {
    var own = run.packages.filter(function (p) { return !p.system; }), where = run.packages.some(function (p) { return p.where; }), box = h("div");
    function draw(list) {
      R.replace(box, R.table([
        { title: "Package", text: true, value: function (p) { return p.name; }, cell: function (p) { return p.name; } },
        { title: "Version", value: function (p) { return p.version; }, cell: function (p) { return p.version; } },
        where ? { title: "Where", text: true, value: function (p) { return p.where; }, cell: function (p) { return p.where || "\u2013"; } } : null,
        { title: "From", text: true, value: function (p) { return p.system ? "" : p.from; }, cell: function (p) { return p.system ? "the interpreter's own" : p.from || "index"; } }
      ].filter(Boolean), list, { limit: 30 }));
    }
    draw(own.length ? own : run.packages);
    return h("div", { class: "card" }, h("div", { class: "head" }, h("h3", null, "Packages"), h("div", { class: "tools" },
      own.length && own.length < run.packages.length ? R.check("also the " + R.count(run.packages.length - own.length) + " of the interpreter", false,
        function (on) { draw(on ? run.packages : own); }) : null)), box,
      run.packages_left_out ? h("p", { class: "note" }, R.plural(run.packages_left_out, "package") + " more are not in this page.") : null);
  }
  R.provenance = function () {
    var body = R.section("provenance", "Provenance");
    R.eachRun(function (run) {
      var params = !run.sweep && run.points.length === 1 ? run.points[0].params : [];
      R.replace(body,
        h("div", { class: "card" }, h("dl", { class: "pairs" }, run.provenance.map(function (p) { return [h("dt", null, p[0]), h("dd", { class: "isolate" }, p[1])]; })),
          run.spec ? h("details", null, h("summary", null, "The spec as it was then"), h("pre", null, run.spec)) : null),
        params.length ? h("div", { class: "card" }, h("h3", null, "Parameters"), h("dl", { class: "pairs" }, params.map(function (p) {
          return [h("dt", { class: "isolate" }, p[0]), h("dd", { class: "isolate" }, p[1])];
        }))) : null,
        h("div", { class: "card" }, h("h3", null, "Nodes"), nodes(run)),
        run.packages.length ? packages(run) : null);
    });
  };
})();
