/* The list of places. It shows a part of them, and more on request or when its end comes into view. */

import { actions, describe } from "./details.js";
import { element, icon } from "./dom.js";
import { levelOf, nameOf } from "./store.js";

const PART = 100;

/** Returns the names of the places that are open, and of the one with the focus, in the list of the file: the addresses
 * of their pages. */
function readServed(list) {
  const places = [...list.querySelectorAll(".place")];
  const name = (place) => place?.querySelector("a").getAttribute("href").replace(/\.html$/, "");
  const open = places.filter((place) => place.open).map(name);
  const focused = places.find((place) => place.contains(document.activeElement));
  return { open: new Set(open), focused: name(focused) };
}

export class List {
  #nodes = new Map(); // row → { item, details, signature }
  #count = PART;
  #rows = [];
  #selected = null; // the row of the place that is marked on the map
  #served; // what the visitor did in the list of the file, until the first drawing replaces it

  constructor(context) {
    this.context = context;
    this.list = document.getElementById("list");
    this.more = document.getElementById("more");
    this.#served = readServed(this.list);
    this.more.addEventListener("click", () => this.#showMore());
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.#showMore(), {
      rootMargin: "400px",
    }).observe(this.more);
  }

  #showMore() {
    if (this.more.hidden) return;
    this.#count += PART;
    this.#draw();
  }

  /** Shows these rows in this order. */
  show(rows) {
    this.#rows = rows;
    this.#draw();
  }

  #draw() {
    const shown = this.#rows.slice(0, this.#count);
    const items = shown.map((row) => this.#item(row));
    const present = this.list.children;
    const same = present.length === items.length && items.every((item, index) => item === present[index]);
    if (!same) {
      const focused = this.#focused();
      this.list.replaceChildren(...items);
      if (focused && this.list.contains(focused)) focused.focus({ preventScroll: true });
    }
    const wanted = new Set(shown);
    for (const row of this.#nodes.keys()) if (!wanted.has(row)) this.#nodes.delete(row);
    this.more.hidden = this.#count >= this.#rows.length;
    this.#served = null;
  }

  /** The element with the focus; the first drawing moves it from the file's list to the same place. */
  #focused() {
    if (!this.#served?.focused) return document.activeElement;
    const row = this.context.store.ids.findIndex((id) => nameOf(id) === this.#served.focused);
    return this.#nodes.get(row)?.summary;
  }

  /** Returns the item of a row. An item stays the same element, so that focus and open details are kept. */
  #item(row) {
    const { store, words, mine, visit, nearby } = this.context;
    const known = store.known[row];
    const [level, alarms] = [levelOf(known), store.alarms(row)];
    const was = store.at === null ? visit.was(store.ids[row], level) : null;
    const meters = nearby(row);
    const starred = mine.has(store.ids[row]);
    const lines = words.lines(known, alarms);
    const signature = JSON.stringify([known, alarms, lines, was, meters === null ? null : Math.round(meters), starred]);
    let node = this.#nodes.get(row);
    if (!node) {
      const summary = element("summary");
      const details = element("details", { open: this.#served?.open.has(nameOf(store.ids[row])) }, summary);
      details.addEventListener("toggle", () => this.#fill(row));
      node = { item: element("li", {}, details), details, summary, signature: "" };
      this.#nodes.set(row, node);
    }
    if (node.signature !== signature) {
      node.signature = signature;
      node.details.className = `place ${level}`;
      node.summary.replaceChildren(
        icon(known.mark),
        element("bdi", { class: "name" }, store.names[row], starred ? icon("star", "star") : ""),
        element("span", { class: "state" }, words.label(known.mark, known)),
        ...lines.map((line) => element("span", { class: "short" }, line)),
        ...this.#notes(was, meters),
      );
      this.#fill(row);
    }
    node.item.classList.toggle("selected", row === this.#selected);
    return node.item;
  }

  #notes(was, meters) {
    const { words } = this.context;
    const notes = [];
    if (was) notes.push(words.fill("was", { state: words.texts[was] }));
    if (meters !== null) {
      const far = meters >= 1000;
      notes.push(words.fill(far ? "km" : "m", { distance: words.number.format(far ? meters / 1000 : Math.round(meters)) }));
    }
    return notes.length ? [element("span", { class: "notes" }, notes.join(" · "))] : [];
  }

  #fill(row) {
    const node = this.#nodes.get(row);
    if (!node) return;
    const body = node.details.querySelector(".body");
    if (!node.details.open) {
      body?.remove();
      return;
    }
    const answers = element("div", {}, ...describe(row, this.context));
    if (body) body.firstChild.replaceWith(answers); // the buttons stay, and with them the focus
    else node.details.append(element("div", { class: "body" }, answers, actions(row, this.context)));
  }

  /** The row of an element that is in the list; null for others. */
  rowOf(details) {
    for (const [row, node] of this.#nodes) if (node.details === details) return row;
    return null;
  }

  /** The row of the place that is marked on the map; null without one. */
  get selected() {
    return this.#selected;
  }

  isSelected(row) {
    return row === this.#selected;
  }

  /** Highlights the place of a row; null: none. */
  select(row) {
    this.#selected = row;
    for (const [other, { item }] of this.#nodes) item.classList.toggle("selected", other === row);
  }

  /** Highlights and opens the place of a row, scrolls it into view, and moves the focus to it. */
  open(row) {
    const index = this.#rows.indexOf(row);
    if (index < 0) return;
    if (this.#selected !== row && this.#nodes.has(this.#selected)) this.#nodes.get(this.#selected).details.open = false;
    this.select(row);
    if (index >= this.#count) {
      this.#count = index + PART;
      this.#draw();
    }
    const { details, summary } = this.#nodes.get(row);
    details.open = true;
    this.#fill(row); // now, because its height decides how far to scroll
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    details.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
    summary.focus({ preventScroll: true });
  }
}
