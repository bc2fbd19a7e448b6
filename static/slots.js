/* The calendar: draw a slot over a lane to fill in the form; the form alone does all of it too.
   Tells the server the browser's time zone (a cookie) and loads the page again if it was another. */
"use strict";
(function () {
  const svg = document.getElementById("lanes");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (svg && zone && svg.dataset.zone !== zone && !document.cookie.includes("tz=" + zone)) {
    document.cookie = "tz=" + zone + ";path=/;max-age=31536000;samesite=lax" +
      (location.protocol === "https:" ? ";secure" : "");
    if (document.cookie.includes("tz=" + zone)) location.reload();
    return;
  }
  if (!svg) return;
  const LEFT = 96, WIDTH = 1096;
  const from = Number(svg.dataset.from), seconds = Number(svg.dataset.seconds);
  const step = seconds > 8 * 86400 ? 3600 * 6 : seconds > 90000 ? 3600 : 900;
  const drawn = document.getElementById("drawn"), tray = document.getElementById("tray");
  const form = document.getElementById("book");
  let lane = null, last = null, begun = 0, asked = 0;

  function point(event) {
    const at = new DOMPoint(event.clientX, event.clientY);
    return at.matrixTransform(svg.getScreenCTM().inverse());
  }
  function moment(x) {
    const share = (Math.min(Math.max(x, LEFT), WIDTH) - LEFT) / (WIDTH - LEFT);
    return from + Math.round(share * seconds / step) * step;
  }
  function place(at) { return LEFT + (WIDTH - LEFT) * (at - from) / seconds; }
  function wall(at) {
    const local = new Date(at * 1000);
    const two = function (n) { return String(n).padStart(2, "0"); };
    return local.getFullYear() + "-" + two(local.getMonth() + 1) + "-" + two(local.getDate()) +
      "T" + two(local.getHours()) + ":" + two(local.getMinutes());
  }
  function laneAt(event) {
    const found = document.elementsFromPoint(event.clientX, event.clientY)
      .find(function (one) { return one.classList.contains("bg"); });
    return found ? found.parentNode : null;
  }

  function draw(event) {
    const at = moment(point(event).x);
    const here = laneAt(event);
    if (here && here.dataset.card !== undefined && lane.dataset.card !== undefined) last = here;
    const start = Math.min(begun, at), end = Math.max(begun, at, start + step);
    const boxes = [lane, last || lane].map(function (one) { return one.querySelector(".bg").getBBox(); });
    const top = Math.min(boxes[0].y, boxes[1].y);
    drawn.setAttribute("x", place(start));
    drawn.setAttribute("width", place(end) - place(start));
    drawn.setAttribute("y", top + 1);
    drawn.setAttribute("height", Math.max(boxes[0].y, boxes[1].y) + boxes[0].height - top - 2);
    fill(start, end);
  }

  function fill(start, end) {
    form.elements.start.value = wall(start);
    form.elements.end.value = wall(end);
    form.elements.on.value = lane.dataset.node;
    if (lane.dataset.card !== undefined) {
      const first = Number(lane.dataset.card), other = Number((last || lane).dataset.card);
      form.elements.gpus.value = Math.abs(other - first) + 1;
    } else if (!form.elements.gpus.value) {
      form.elements.gpus.value = lane.dataset.cards;
    }
    form.elements.nodes.value = 1;
    clearTimeout(asked);
    asked = setTimeout(check, 120);
  }

  function check() {
    const query = new URLSearchParams(new FormData(form));
    query.delete("csrfmiddlewaretoken");
    fetch(svg.dataset.check + "?" + query, { headers: { "X-Requested-With": "fetch" } })
      .then(function (answer) { return answer.ok ? answer.text() : ""; })
      .then(function (text) {
        if (!text || text.includes("<html")) return;
        tray.innerHTML = text;
        tray.hidden = false;
        drawn.classList.toggle("no", text.includes('class="bad"'));
      })
      .catch(function () {});
  }

  svg.addEventListener("pointerdown", function (event) {
    if (event.button !== 0 || event.pointerType === "touch" || event.target.closest("a")) return;
    lane = laneAt(event);
    if (!lane) return;
    event.preventDefault();
    last = null;
    begun = moment(point(event).x);
    svg.setPointerCapture(event.pointerId);
    draw(event);
  });
  svg.addEventListener("pointermove", function (event) { if (lane) draw(event); });
  svg.addEventListener("pointerup", function () {
    if (!lane) return;
    lane = null;
    document.getElementById("submit").focus({ preventScroll: true });
  });
  svg.addEventListener("pointercancel", function () { lane = null; });
  form.addEventListener("change", function () { clearTimeout(asked); asked = setTimeout(check, 120); });
})();
