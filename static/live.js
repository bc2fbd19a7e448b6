/* Live parts: what htmx does not do by itself.
   A part is not asked for while the tab is hidden or text in it is selected; a sideways scroll
   inside it stays; trouble is told in the top bar; a question that arrives opens as a dialog. */
"use strict";
(function () {
  const live = document.getElementById("live");
  const dialog = document.getElementById("dialog");
  const keysOf = new WeakMap();
  let opener = "";

  function tell(paused) {
    if (!live) return;
    live.hidden = !document.querySelector("#part[hx-get]") && !paused;
    live.classList.toggle("paused", paused);
    live.lastElementChild.textContent = paused ? "Updates paused, tries again" : "Live";
  }

  function selecting(part) {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  function isPart(event) {
    return event.target.id === "part";
  }

  document.addEventListener("htmx:beforeRequest", function (event) {
    if (isPart(event) && (document.hidden || selecting(event.target))) event.preventDefault();
    if (event.detail.target === dialog) opener = event.target.id;
  });
  document.addEventListener("htmx:beforeSwap", function (event) {
    if (!isPart(event)) return;
    const scrolled = [];
    for (const box of event.target.querySelectorAll(".tw, pre")) scrolled.push([box.scrollLeft, box.scrollTop]);
    keysOf.set(event.detail.xhr, scrolled);
  });
  document.addEventListener("htmx:afterSwap", function (event) {
    if (event.detail.target === dialog) {
      if (!dialog.open) dialog.showModal();
      return;
    }
    const part = document.getElementById("part");
    const scrolled = keysOf.get(event.detail.xhr);
    if (!part || !scrolled) return;
    part.querySelectorAll(".tw, pre").forEach(function (box, at) {
      if (scrolled[at]) [box.scrollLeft, box.scrollTop] = scrolled[at];
    });
  });
  document.addEventListener("htmx:afterRequest", function (event) {
    const status = event.detail.xhr ? event.detail.xhr.status : 0;
    if (isPart(event) || event.detail.target === dialog) tell(!(status >= 200 && status < 400));
  });
  document.addEventListener("visibilitychange", function () {
    const part = document.querySelector("#part[hx-get]");
    if (!document.hidden && part) window.htmx.trigger(part, "refresh");
  });
  if (dialog) {
    dialog.addEventListener("click", function (event) {
      if (!event.target.closest("[data-closes]")) return;
      event.preventDefault();
      dialog.close();
    });
    dialog.addEventListener("close", function () {
      const back = document.getElementById(opener);
      if (back) back.focus();
    });
  }
  tell(false);
  const problems = document.getElementById("problems");
  if (problems) problems.focus();
})();
