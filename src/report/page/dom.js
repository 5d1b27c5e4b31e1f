/* Elements, numbers in words, and the box next to the pointer. h() and svg() take text as text; nothing else adds to
 * the page, so no text of a run can become an element. */
"use strict";
(function () {
  function fill(node, props, children) {
    Object.keys(props || {}).forEach(function (key) {
      var value = props[key];
      if (value === null || value === undefined || value === false) return;
      if (key.slice(0, 2) === "on") node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value === true ? "" : String(value));
    });
    children.forEach(function add(child) {
      if (child === null || child === undefined || child === false) return;
      if (Array.isArray(child)) child.forEach(add);
      else node.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
    });
    return node;
  }
  R.h = function (tag, props) {
    return fill(document.createElement(tag), props, Array.prototype.slice.call(arguments, 2));
  };
  R.svg = function (tag, props) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, Array.prototype.slice.call(arguments, 2));
  };
  R.replace = function (node) {
    node.textContent = "";
    return fill(node, null, Array.prototype.slice.call(arguments, 1));
  };

  /* ---- sections ---- */

  /* A part of the page: its head, and a link to it. Returns the element for its content. */
  R.section = function (id, title, tools) {
    var body = R.h("div");
    document.getElementById("main").appendChild(
      R.h("section", { id: id }, R.h("div", { class: "head" }, R.h("h2", null, title), tools ? R.h("div", { class: "tools" }, tools) : null), body));
    document.getElementById("links").appendChild(R.h("a", { href: "#" + id }, title));
    return body;
  };
  /* Called now, and again when another run is chosen. */
  var ofRun = [];
  R.eachRun = function (draw) {
    ofRun.push(draw);
    draw(R.chosen);
  };
  R.choose = function (run) {
    R.chosen = run;
    ofRun.forEach(function (draw) { draw(run); });
  };
  /* Called now, and again when the width or the colours change. */
  var sized = [];
  R.eachSize = function (node, draw) {
    var width = 0;
    function again(always) {
      if (!always && (node.clientWidth === width || node.clientWidth === 0)) return;
      width = node.clientWidth;
      draw(width);
    }
    sized.push(again);
    if (window.ResizeObserver) new ResizeObserver(function () { again(false); }).observe(node);
    else window.addEventListener("resize", function () { again(false); });
    again(true);
    return function () { again(true); };
  };
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
    sized.forEach(function (again) { again(true); });
  });

  R.color = function (name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  };
  /* White or nearly black: the more readable one on a colour (#rrggbb). */
  R.ink = function (color) {
    var light = [1, 3, 5].reduce(function (sum, at, i) {
      var v = parseInt(color.slice(at, at + 2), 16) / 255;
      return sum + [0.2126, 0.7152, 0.0722][i] * (v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
    }, 0);
    return light > 0.19 ? "#0e1115" : "#ffffff";
  };
  R.select = function (label, options, value, change) {
    var select = R.h("select", { onchange: function () { change(select.value); } },
      options.map(function (o) { return R.h("option", { value: o[0], selected: String(o[0]) === String(value) }, o[1]); }));
    return R.h("label", null, label, select);
  };
  R.check = function (label, on, change) {
    var box = R.h("input", { type: "checkbox", checked: on, onchange: function () { change(box.checked); } });
    return R.h("label", { class: "check" }, box, label);
  };
  R.swatch = function (color) {
    var s = R.h("i", { class: "swatch" });
    s.style.background = color;
    return s;
  };

  /* ---- words ---- */

  var kinds = { done: "good", ok: "good", failed: "bad", infra: "bad", timed_out: "bad", "timed out": "bad", unknown: "bad", running: "busy" };
  var marks = { good: "\u2713 ", bad: "\u2715 ", busy: "\u25b6 " };
  /* The name of a point, which may wrap after a comma. */
  R.broken = function (name) {
    return name.split(",").map(function (part, i) { return i ? [",", R.h("wbr"), part] : part; });
  };
  R.chip = function (word) {
    var kind = kinds[word] || "";
    return R.h("span", { class: "chip " + kind }, (marks[kind] || "") + word);
  };
  R.duration = function (ms) {
    if (ms === null || ms === undefined) return "\u2013";
    if (ms < 0) return "-" + R.duration(-ms);
    if (ms < 1000) return Math.round(ms) + " ms";
    var s = ms / 1000;
    if (s < 60) return (s < 10 ? s.toFixed(2) : s.toFixed(1)) + " s";
    var m = Math.floor(Math.round(s) / 60);
    if (m < 60) return m + " m " + Math.round(s) % 60 + " s";
    m = Math.round(s / 60);
    if (m < 60 * 24) return Math.floor(m / 60) + " h " + m % 60 + " m";
    return Math.floor(m / 1440) + " d " + Math.floor(m / 60) % 24 + " h";
  };
  R.count = function (n) { return n.toLocaleString("en"); };
  R.plural = function (n, word) { return R.count(n) + " " + word + (n === 1 ? "" : "s"); };
  R.bytes = function (n) {
    var units = ["B", "KB", "MB", "GB", "TB"], i = 0;
    while (n >= 1000 && i < units.length - 1) { n /= 1000; i++; }
    return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
  };
  R.number = function (v) {
    if (v === null || v === undefined) return "\u2013";
    if (v === 0) return "0";
    var a = Math.abs(v);
    if (a >= 1e6 || a < 1e-4) return v.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
    return String(Number(v.toPrecision(5)));
  };
  R.time = function (ms) {
    return new Date(ms).toLocaleString("en-GB", { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  };
  /* A value as a number, if all of it is one; else null. */
  R.numeric = function (text) {
    return /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(text) ? Number(text) : null;
  };
  R.rankWord = function (rank) { return rank < 0 ? "launcher" : "rank " + rank; };

  /* ---- next to the pointer ---- */

  var tip = R.h("div", { id: "tip", hidden: true, role: "status" });
  document.body.appendChild(tip);
  R.tip = function (event, text) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    var box = tip.getBoundingClientRect();
    var x = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    var y = event.clientY + 18 + box.height > window.innerHeight ? event.clientY - box.height - 12 : event.clientY + 18;
    tip.style.left = Math.max(8, x) + "px";
    tip.style.top = Math.max(8, y) + "px";
  };
  window.addEventListener("scroll", function () { tip.hidden = true; }, { passive: true });

  /* ---- tables ---- */

  /* columns: {title, num, text, mono, value(row) -> sort key, cell(row) -> content}. At first `limit` rows are
   * shown. */
  R.table = function (columns, rows, options) {
    options = options || {};
    var by = -1, up = true, limit = options.limit || 200, body = R.h("tbody"), more = R.h("p", { class: "note" });
    var heads = columns.map(function (c, i) {
      return R.h("th", { class: c.num ? "num" : null, scope: "col" },
        c.value ? R.h("button", { type: "button", onclick: function () { sort(i); } }, c.title) : c.title);
    });
    function compare(a, b) {
      if (a === b) return 0;
      if (a === null || a === undefined) return 1;
      if (b === null || b === undefined) return -1;
      var order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
      return up ? order : -order;
    }
    function draw() {
      var sorted = rows.slice();
      if (by >= 0) sorted.sort(function (a, b) { return compare(columns[by].value(a), columns[by].value(b)); });
      R.replace(body, sorted.slice(0, limit).map(function (row) {
        var tr = R.h("tr", null, columns.map(function (c) {
          return R.h("td", { class: [c.num ? "num" : "", c.text ? "text isolate" : "", c.mono ? "mono" : ""].join(" ").trim() || null }, c.cell(row));
        }));
        if (options.row) options.row(tr, row);
        return tr;
      }));
      R.replace(more, rows.length > limit ? R.h("button", { type: "button", onclick: function () { limit = rows.length; draw(); } },
        "Show all " + R.count(rows.length)) : null);
      more.hidden = rows.length <= limit;
    }
    function sort(i) {
      up = by === i ? !up : true;
      by = i;
      heads.forEach(function (th, k) {
        if (k === by) th.setAttribute("aria-sort", up ? "ascending" : "descending");
        else th.removeAttribute("aria-sort");
      });
      draw();
    }
    draw();
    return R.h("div", null, R.h("div", { class: "scroll" }, R.h("table", null, R.h("thead", null, R.h("tr", null, heads)), body)), more);
  };
})();
