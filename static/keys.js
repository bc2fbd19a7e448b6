/* Keys: n, g h, g q, g r, g n, /, ?. Off inside fields and while a dialog is open; log.js adds f and w. */
"use strict";
(function () {
  const places = { h: "/", q: "/jobs/", r: "/reservations/", n: "/nodes/" };
  let going = false;

  function busy(event) {
    const at = event.target;
    return event.ctrlKey || event.metaKey || event.altKey || event.isComposing ||
      document.querySelector("dialog[open]") ||
      (at instanceof Element && at.closest("input, textarea, select, [contenteditable]"));
  }

  document.addEventListener("keydown", function (event) {
    if (busy(event)) return;
    const key = event.key;
    if (going && key in places) {
      window.location.assign(places[key]);
    } else if (key === "g") {
      going = true;
      setTimeout(function () { going = false; }, 1500);
      return;
    } else if (key === "n") {
      window.location.assign("/jobs/new/");
    } else if (key === "/") {
      document.getElementById("find").focus();
    } else if (key === "?") {
      document.getElementById("keys").showModal();
    } else {
      going = false;
      return;
    }
    going = false;
    event.preventDefault();
  });
})();
