/* The log: bytes by offset, decoded here, shown as text only.
   Keeps the last LINES lines; a carriage return rewrites its line as a terminal would; colour codes
   and other terminal controls are left out. Stops when the server says that nothing will follow. */
"use strict";
(function () {
  const box = document.getElementById("log");
  if (!box) return;
  const LINES = 5000, QUICK_MS = 1000, SLOW_MS = 5000, BATCH = 65536;
  // ESC [ … letter, ESC ] … BEL or ESC \, ESC and one more; then other control bytes.
  const CONTROLS = /\x1b\[[0-?]*[ -\/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;
  const HELD = /\x1b(?:\[[0-?]*[ -\/]*|\][^\x07\x1b]{0,256})?$/;
  const follow = document.getElementById("log-follow");
  const wrap = document.getElementById("log-wrap");
  const line = document.getElementById("log-line");
  const raw = document.getElementById("log-raw");
  const pick = document.getElementById("log-stream");
  let decoder, offset, lines, last, held, cut, attempt, rank, timer, run = 0;

  function reset(nextAttempt, nextRank) {
    decoder = new TextDecoder("utf-8");
    offset = -262144;
    lines = [];
    last = held = "";
    cut = false;
    attempt = nextAttempt;
    rank = nextRank;
    run += 1;
    box.textContent = "";
    clearTimeout(timer);
    raw.href = box.dataset.src + "?" + query({ raw: "1" });
    read(run);
  }

  function query(more) {
    const wanted = new URLSearchParams(more);
    if (attempt) wanted.set("attempt", attempt);
    if (rank) wanted.set("rank", rank);
    return wanted.toString();
  }

  function rewritten(text) {
    if (text.endsWith("\r")) text = text.slice(0, -1);
    const at = text.lastIndexOf("\r");
    return at < 0 ? text : text.slice(at + 1);
  }

  function add(text) {
    text = held + text;
    const open = HELD.exec(text);
    held = open ? open[0] : "";
    if (open) text = text.slice(0, open.index);
    const pieces = (last + text.replace(CONTROLS, "")).split("\n");
    last = pieces.pop();
    if (last.length > 65536) last = last.slice(-65536);
    for (const piece of pieces) lines.push(rewritten(piece));
    if (lines.length > LINES) {
      lines = lines.slice(-LINES);
      cut = true;
    }
    box.textContent = lines.join("\n") + (lines.length ? "\n" : "") + rewritten(last);
    if (follow.checked) box.scrollTop = box.scrollHeight;
  }

  function size(bytes) {
    if (bytes < 1024) return bytes + " B";
    return bytes < 1048576 ? (bytes / 1024).toFixed(1) + " KiB" : (bytes / 1048576).toFixed(1) + " MiB";
  }

  function say(total, ended) {
    const many = size(total) + (ended ? ", complete" : "");
    if (!total) line.textContent = ended ? "The log is empty." : "Nothing written yet.";
    else line.textContent = cut ? many + "; the last " + LINES + " lines are shown" : many;
  }

  async function read(mine) {
    let wait = QUICK_MS;
    try {
      if (document.hidden) return again(SLOW_MS, mine);
      const answer = await fetch(box.dataset.src + "?" + query({ offset: String(offset) }), { credentials: "same-origin" });
      if (answer.redirected || answer.status === 401) return window.location.reload();
      if (answer.status === 503) {
        line.textContent = "The node does not answer just now; it is asked again.";
        return again(SLOW_MS, mine);
      }
      if (!answer.ok) {
        line.textContent = answer.status === 404 ? "There is no such log." : "The log cannot be read just now.";
        return answer.status >= 500 ? again(SLOW_MS, mine) : undefined;
      }
      const bytes = await answer.arrayBuffer();
      if (mine !== run) return;
      const begins = Number(answer.headers.get("X-Offset"));
      if ((offset < 0 && begins > 0) || (offset >= 0 && begins > offset)) {
        cut = true;
        decoder = new TextDecoder("utf-8");
      }
      offset = Number(answer.headers.get("X-Next-Offset"));
      const total = Number(answer.headers.get("X-Size"));
      const ended = answer.headers.get("X-Ended") === "1";
      if (bytes.byteLength) add(decoder.decode(bytes, { stream: true }));
      say(total, ended);
      if (ended) return refresh();
      wait = offset < total ? 0 : QUICK_MS;
      if (offset === 0 && !total) wait = 2 * QUICK_MS;
    } catch (gone) {
      line.textContent = "The portal does not answer just now; it is asked again.";
      wait = SLOW_MS;
    }
    again(wait, mine);
  }

  function again(wait, mine) {
    timer = setTimeout(function () { if (mine === run) read(mine); }, wait);
  }

  function refresh() {
    const part = document.querySelector("#part[hx-get]");
    if (part) window.htmx.trigger(part, "refresh");
  }

  function wrapped() {
    box.classList.toggle("wrap", wrap.checked);
    if (follow.checked) box.scrollTop = box.scrollHeight;
  }

  wrap.addEventListener("change", wrapped);
  follow.addEventListener("change", wrapped);
  box.addEventListener("wheel", function (event) {
    if (event.deltaY < 0) follow.checked = false;
  }, { passive: true });
  if (pick) {
    pick.addEventListener("change", function () {
      const [nextAttempt, nextRank] = pick.value.split(":");
      reset(nextAttempt, nextRank);
    });
  }
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest && event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    const toggle = event.key === "f" ? follow : event.key === "w" ? wrap : null;
    if (!toggle) return;
    toggle.checked = !toggle.checked;
    wrapped();
  });
  reset(box.dataset.attempt || "", box.dataset.rank === "0" ? "" : box.dataset.rank);
})();
