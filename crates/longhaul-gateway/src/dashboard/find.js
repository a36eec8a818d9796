// Finds words in what a task has written, where there are scripts: marks each place, and goes from one to the next.
"use strict";

(() => {
  // Places are marked without a change to the page, so that what is copied is what was written.
  if (!("highlights" in CSS)) return;

  /** The most places that are marked. */
  const MOST = 1000;

  for (const finder of document.querySelectorAll(".finder")) {
    const log = document.getElementById(`log-${finder.dataset.finds}`);
    const [field, told] = [finder.querySelector("input"), finder.querySelector("output")];
    let places = [];
    let at = -1;

    const look = () => {
      const words = field.value.toLowerCase();
      places = words === "" ? [] : placesOf(log, words, MOST);
      at = -1;
      CSS.highlights.delete("found-here");
      CSS.highlights.set("found", new Highlight(...places));
      tell();
    };

    const tell = () => {
      if (field.value === "") told.textContent = "";
      else if (places.length === 0) told.textContent = "not found";
      else if (at < 0) told.textContent = `${places.length}${places.length === MOST ? " or more" : ""} found`;
      else told.textContent = `${at + 1} of ${places.length}`;
    };

    const go = (step) => {
      // What was written since is looked at, too; where one was, one stays.
      const was = at;
      look();
      if (places.length === 0) return;
      at = (Math.min(was, places.length - 1) + step + places.length) % places.length;
      if (was < 0) at = step > 0 ? 0 : places.length - 1;
      const place = places[at];
      CSS.highlights.set("found-here", new Highlight(place));
      const [box, whole] = [place.getBoundingClientRect(), log.getBoundingClientRect()];
      log.scrollTop += box.top - whole.top - log.clientHeight / 2;
      log.scrollLeft += Math.max(0, box.right - whole.right) - Math.max(0, whole.left - box.left);
      tell();
    };

    field.addEventListener("input", look);
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      go(event.shiftKey ? -1 : 1);
    });
    for (const button of finder.querySelectorAll("button")) {
      button.addEventListener("click", () => go(Number(button.dataset.step)));
    }
    finder.hidden = false;
  }

  /** Where words stand in an element, across those within it. */
  function placesOf(element, words, most) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const nodes = [];
    let text = "";
    while (walker.nextNode()) {
      nodes.push({ node: walker.currentNode, from: text.length });
      text += walker.currentNode.data;
    }
    const lower = text.toLowerCase();
    // A few letters are longer in the other case: then places are those of the letters as they stand.
    const within = lower.length === text.length ? lower : text;
    const found = [];
    let at = 0;
    const point = (offset) => {
      while (at + 1 < nodes.length && nodes[at + 1].from <= offset) at += 1;
      return [nodes[at].node, offset - nodes[at].from];
    };
    for (let from = within.indexOf(words); from >= 0 && found.length < most; from = within.indexOf(words, from + words.length)) {
      const range = new Range();
      range.setStart(...point(from));
      const last = point(from + words.length - 1);
      range.setEnd(last[0], last[1] + 1);
      found.push(range);
    }
    return found;
  }
})();
