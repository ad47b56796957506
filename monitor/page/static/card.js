/* The card beside a mark of the map: what is known about the place that was touched. */

import { element, icon } from "./dom.js";
import { levelOf } from "./store.js";

const GAP = 18; // between the mark and the card, in CSS pixels

export class Card {
  constructor({ store, words, close }) {
    Object.assign(this, { store, words });
    const label = words.texts.close;
    this.text = element("div", {});
    this.root = element("div", { class: "card", hidden: true }, this.text,
      element("button", { type: "button", "aria-label": label, title: label, onclick: close }, "×"));
  }

  /** Writes what is known about a row now; null: nothing. */
  write(row) {
    this.root.hidden = row === null;
    if (row === null) return;
    const known = this.store.known[row];
    const level = levelOf(known);
    this.root.className = `card ${level}`;
    this.text.replaceChildren(
      element("p", { class: "title" }, icon(known.mark), element("bdi", { class: "name" }, this.store.names[row])),
      element("p", { class: "state" }, this.words.label(known.mark, known)),
      ...this.words.lines(known, this.store.alarms(row)).map((line) => element("p", { class: "short" }, line)),
    );
  }

  /** Puts the card above or below a point of the map, whichever has more room. Outside of the map it is not visible. */
  place([x, y], width, height) {
    const inside = x >= 0 && y >= 0 && x <= width && y <= height;
    const { offsetWidth: wide, offsetHeight: high } = this.root;
    const top = y > height / 2 ? y - GAP - high : y + GAP;
    Object.assign(this.root.style, {
      visibility: inside ? "visible" : "hidden",
      left: `${Math.max(6, Math.min(width - wide - 6, x - wide / 2))}px`,
      top: `${Math.max(6, Math.min(height - high - 6, top))}px`,
    });
  }
}
