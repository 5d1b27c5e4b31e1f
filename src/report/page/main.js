/* The page from top to bottom. A part that fails says so and leaves the others alone. */
"use strict";
(function () {
  ["sweep", "overview", "curves", "timeline", "failures", "ranks", "logs", "compare", "provenance"].forEach(function (part) {
    try {
      R[part]();
    } catch (e) {
      document.getElementById("main").appendChild(R.h("p", { class: "card" }, "This part of the page (" + part + ") could not be shown: " + e.message));
      console.error(e);
    }
  });
  /* the link of the visible part */
  var links = Array.prototype.slice.call(document.querySelectorAll("#links a")), waiting = false;
  function here() {
    var found = links[0];
    waiting = false;
    links.forEach(function (a) {
      if (document.querySelector(a.getAttribute("href")).getBoundingClientRect().top < 140) found = a;
    });
    links.forEach(function (a) { a.classList.toggle("here", a === found); });
  }
  window.addEventListener("scroll", function () {
    if (!waiting) requestAnimationFrame(here);
    waiting = true;
  }, { passive: true });
  here();
  document.documentElement.setAttribute("data-ready", "");
})();
