// Makes a page follow what happens, where there are scripts. Everything it shows was made by the server.
"use strict";

(() => {
  const { now: serverNow, follow } = document.body.dataset;
  // The reader's clock may be another: the server's is what it said, plus what went by here.
  const now = () => Number(serverNow) + performance.now();

  /** A span in its two largest units, as the server writes it. */
  const span = (ms) => {
    const seconds = Math.floor(Math.max(0, ms) / 1000);
    const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
    const first = units.findIndex(([, size]) => seconds >= size);
    if (first < 0) return "0s";
    let rest = seconds;
    let words = "";
    for (const [name, size] of units.slice(first, first + 2)) {
      const count = Math.floor(rest / size);
      rest -= count * size;
      if (count > 0) words += `${count}${name}`;
    }
    return words;
  };

  const WORDS = {
    ago: (at) => (now() - at < 1000 ? "just now" : `${span(now() - at)} ago`),
    since: (at) => span(now() - at),
    until: (at) => `in ${span(at - now())}`,
    for: (at) => (at > now() ? `in ${span(at - now())}` : `for ${span(now() - at)}`),
  };

  const tick = () => {
    for (const time of document.querySelectorAll("time[data-at]")) {
      const words = WORDS[time.dataset.manner]?.(Number(time.dataset.at));
      if (words !== undefined && time.textContent !== words) time.textContent = words;
    }
  };
  setInterval(tick, 1000);

  for (const box of document.querySelectorAll("input[data-wraps]")) {
    const log = document.getElementById(`log-${box.dataset.wraps}`);
    box.addEventListener("change", () => log.classList.toggle("wraps", box.checked));
  }

  // What can be copied has a button where browsers let pages copy.
  if (navigator.clipboard !== undefined) {
    document.documentElement.classList.add("copies");
    document.addEventListener("click", async ({ target }) => {
      const button = target.closest("[data-copies]");
      if (button === null) return;
      const text = document.getElementById(button.dataset.copies).textContent;
      const words = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Not copied");
      button.textContent = document.getElementById("news").textContent = words;
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  }

  const logs = new Map();
  for (const element of document.querySelectorAll(".log")) {
    const name = element.id.slice("log-".length);
    const box = document.querySelector(`input[data-follows="${name}"]`);
    let end = 0;
    const toEnd = () => {
      element.scrollTop = element.scrollHeight;
      end = element.scrollTop;
    };
    const isAtEnd = () => element.scrollTop + element.clientHeight >= element.scrollHeight - 24;
    // Whoever scrolls back reads, and is left alone until they are at the end again: also while nobody has told of it yet.
    element.addEventListener("scroll", () => (box.checked = isAtEnd()));
    const follows = () => box.checked && (element.scrollTop >= end || isAtEnd());
    box.addEventListener("change", () => box.checked && toEnd());
    logs.set(name, { element, follows, toEnd, next: Number(element.dataset.next), block: element, length: element.textContent.length });
    toEnd();
  }

  if (follow === undefined || !("EventSource" in window)) return;

  const news = document.getElementById("news");
  const notice = document.getElementById("connection");
  let said = "";
  let announcing;
  /** Tells who is read to, once it has settled. */
  const announce = (words) => {
    if (words === said) return;
    said = words;
    clearTimeout(announcing);
    announcing = setTimeout(() => (news.textContent = words), 700);
  };

  const fresh = new Set();
  const button = document.getElementById("new");
  /** The rows that were told of since the page was connected, and those that it asks after by their names. */
  let told = new Set();
  let asked = new Set();
  const rows = () => [...document.querySelectorAll("#tasks > tr")].map(({ id }) => id);

  /** A row that the page does not have: what is older than the page, and only moves up, is no news. */
  const add = (id, created, asks) => {
    if (button === null || (created <= Number(serverNow) && !asks)) return;
    fresh.add(id);
    tellFresh();
  };
  const tellFresh = () => {
    button.hidden = fresh.size === 0;
    button.textContent = `${fresh.size} new: show`;
    if (fresh.size > 0) announce(`${fresh.size} new task${fresh.size === 1 ? "" : "s"}`);
  };

  /** A task that is not there any more. */
  const drop = (id) => {
    told.add(id);
    if (fresh.delete(id)) tellFresh();
    const row = document.getElementById(id);
    if (!row?.contains(document.activeElement)) row?.remove();
  };

  /** Pieces that wait until nothing of what they are put in the place of is marked any more. */
  const held = new Map();
  document.addEventListener("selectionchange", () => {
    const pieces = [...held.values()];
    held.clear();
    pieces.forEach(swap);
  });
  const isMarked = (piece) => {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && selection.containsNode(piece, true);
  };

  /** Puts a piece in the place of the one that was there; focus and what was typed or marked stay. */
  const swap = ({ id, html, created, asks }) => {
    told.add(id);
    const template = document.createElement("template");
    template.innerHTML = html;
    if (id === "title") {
      document.title = template.content.textContent;
      return;
    }
    const old = document.getElementById(id);
    if (old === null) {
      if (created !== undefined) add(id, created, asks);
      return;
    }
    const piece = template.content.firstElementChild;
    if (piece === null || same(piece, old)) return void held.delete(id);
    if (isMarked(old)) return void held.set(id, { id, html });
    const keep = kept(old);
    const open = [...old.querySelectorAll("details")].map((details) => details.open);
    if (id === "state" || id.startsWith("t-")) piece.classList.add("fresh");
    old.replaceWith(piece);
    [...piece.querySelectorAll("details")].forEach((details, at) => (details.open ||= open[at] ?? false));
    keep(piece);
    const badge = piece.querySelector(".badge");
    if (id === "state" && badge !== null) announce(`Task: ${badge.textContent.trim()}`);
    tick();
  };

  const fields = (piece) => [...piece.querySelectorAll("input:not([type=hidden]), select, textarea")];
  /** Which question a field is of, and which of its fields it is, wherever that stands. */
  const name = (field) => {
    const isOneOf = field.type === "checkbox" || field.type === "radio";
    return JSON.stringify([field.form?.elements.namedItem("key")?.value, field.name, isOneOf ? field.value : ""]);
  };

  /** What a reader has done to a piece, to be done to the one in its place. */
  const kept = (old) => {
    const typed = new Map();
    for (const field of fields(old)) {
      if (field.type === "checkbox" || field.type === "radio") {
        const { checked } = field;
        if (checked !== field.defaultChecked) typed.set(name(field), (other) => (other.checked = checked));
        continue;
      }
      const { value } = field;
      const was = field.options === undefined ? field.defaultValue : [...field.options].find((option) => option.defaultSelected)?.value;
      if (value !== was) typed.set(name(field), (other) => (other.value = value));
    }
    const active = document.activeElement;
    if (!old.contains(active)) return (piece) => fields(piece).forEach((field) => typed.get(name(field))?.(field));
    const field = fields(old).includes(active) ? name(active) : undefined;
    const steps = path(active, old);
    const { selectionStart: from, selectionEnd: to } = active;
    return (piece) => {
      fields(piece).forEach((each) => typed.get(name(each))?.(each));
      const again = field === undefined ? at(piece, steps) : fields(piece).find((each) => name(each) === field);
      again?.focus();
      if (typeof from === "number") again?.setSelectionRange?.(from, to);
    };
  };

  /** Whether two pieces say the same, whatever their times read. */
  const same = (one, other) => {
    const bare = (piece) => {
      const copy = piece.cloneNode(true);
      copy.classList.remove("fresh");
      if (copy.getAttribute("class") === "") copy.removeAttribute("class");
      for (const time of copy.querySelectorAll("time")) time.textContent = "";
      for (const details of copy.querySelectorAll("details")) details.open = false;
      return copy;
    };
    return bare(one).isEqualNode(bare(other));
  };

  /** Where an element is within another, and what is there. */
  const path = (element, root) => {
    const steps = [];
    for (let each = element; each !== root; each = each.parentElement) {
      steps.unshift([...each.parentElement.children].indexOf(each));
    }
    return steps;
  };
  const at = (root, steps) => steps.reduce((each, step) => each?.children[step], root);

  /** The most characters of output that a page holds. */
  const MOST = 2_000_000;

  /** Adds to a log: a block behind each line that is over, so that what was there before is not laid out anew for every line. */
  const put = (log, what) => {
    if (log.block.textContent.endsWith("\n")) {
      log.block = document.createElement("div");
      log.element.append(log.block);
    }
    log.length += what.textContent.length;
    log.block.append(what);
  };

  const append = ({ stream, from, next, missing, html }) => {
    const log = logs.get(stream);
    // A stream that was not there when the page was made: it is made anew.
    if (log === undefined) return location.reload();
    if (next <= log.next) return;
    // What is between the page and the stream would be missing.
    if (from > log.next) return connect();
    document.getElementById(`section-${stream}`).hidden = false;
    const follows = log.follows();
    if (missing > 0) put(log, new Text(`… ${missing} bytes were not kept …\n`));
    const template = document.createElement("template");
    template.innerHTML = html;
    put(log, template.content);
    log.next = next;
    while (log.length > MOST && log.element.childNodes.length > 1) {
      log.length -= log.element.firstChild.textContent.length;
      log.element.firstChild.remove();
    }
    if (follows) log.toEnd();
  };

  /** How many pages of one browser have a stream at a time: it has six connections for a server, however many of its windows are seen. */
  const STREAMS = 4;

  /** How many rows a page asks after that are in no list any more. */
  const ASKED = 100;

  /** How often a page without one comes back for what is new. */
  const EVERY = 2000;

  /** What gives back the right to a stream; nothing where none is free. */
  const right = (number = 0) =>
    new Promise((resolve) => {
      if (number === STREAMS) return resolve(undefined);
      // Where pages cannot agree on who has them, each has one.
      if (!("locks" in navigator)) return resolve(() => {});
      void navigator.locks.request(`longhaul-stream-${number}`, { ifAvailable: true }, (lock) => {
        if (lock === null) return void right(number + 1).then(resolve);
        return new Promise((release) => resolve(release));
      }).catch(() => resolve(() => {})); // one that may not ask for them, such as one that is being left
    });

  let source;
  let release;
  let turn;
  let pause = 1000;
  let waiting;
  let done = false;
  /** As many pages follow as the server lets. */
  let refused = false;

  const place = () => {
    const url = new URL(follow, location.href);
    for (const [name, { next }] of logs) url.searchParams.set(name, next);
    for (const id of asked) url.searchParams.append("row", id);
    return url;
  };

  async function connect() {
    close();
    told = new Set();
    const mine = (turn = {});
    const given = refused ? undefined : await right();
    if (turn !== mine) return given?.();
    release = given;
    const url = place();
    if (given === undefined) url.searchParams.set("once", "");
    let isOpen = false;
    source = new EventSource(url);
    source.addEventListener("open", () => {
      isOpen = true;
      pause = 1000;
      notice.hidden = true;
    });
    source.addEventListener("swap", ({ data }) => swap(JSON.parse(data)));
    source.addEventListener("left", ({ data }) => drop(JSON.parse(data).id));
    // All rows of the list were told of: those that are left of an earlier one are asked after.
    source.addEventListener("listed", () => {
      const missing = rows().filter((id) => !told.has(id) && !asked.has(id));
      asked = new Set([...asked].filter((id) => document.getElementById(id) !== null).concat(missing).slice(-ASKED));
      if (missing.length > 0 && given !== undefined) connect();
    });
    source.addEventListener("append", ({ data }) => append(JSON.parse(data)));
    source.addEventListener("end", () => {
      done = true;
      close();
    });
    source.addEventListener("gone", () => {
      done = true;
      close();
      announce("This task has been forgotten");
    });
    // That was all for now.
    source.addEventListener("later", ({ data }) => {
      close();
      refused = false;
      if (!done) waiting = setTimeout(connect, JSON.parse(data).more ? 0 : EVERY);
    });
    // Where it left off is for us to say, so it does not come back by itself.
    source.addEventListener("error", () => {
      close();
      if (done) return;
      refused = !isOpen && given !== undefined;
      // A stream ends now and then, and is there again at once.
      notice.hidden = pause === 1000;
      waiting = setTimeout(connect, pause);
      pause = Math.min(pause * 2, 30_000);
    });
  }

  function close() {
    clearTimeout(waiting);
    turn = undefined;
    source?.close();
    source = undefined;
    release?.();
    release = undefined;
  }

  // Pages that nobody sees follow nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") close();
    else if (source === undefined && !done) connect();
  });
  addEventListener("pagehide", close);
  connect();
})();
