/* The time line: how many places had an alarm at each tick, where new ones began, and a slider to look back. */

import { element } from "./dom.js";
import { read } from "./store.js";

const WAIT_MS = 120;
const BAR = 3; // the least width of a bar, in CSS pixels

export class Timeline {
  #ticks = [];
  #timer = 0;
  #sliding = false; // the label follows the slider; otherwise it follows what is shown
  #request = null; // the latest one to the store: the failure of an earlier one does not matter

  constructor({ store, words }) {
    Object.assign(this, { store, words });
    const { texts } = words;
    const button = (text, label, act) => element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    const swatch = (kind, text) => element("span", {}, element("span", { class: `swatch ${kind}` }), text);
    this.bars = element("canvas", { "aria-hidden": "true" });
    this.slider = element("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": texts.timeline });
    this.tip = element("span", { class: "tip", "aria-hidden": "true", hidden: true });
    this.track = element("div", { class: "track" }, this.bars, this.slider, this.tip);
    this.output = element("output", {});
    this.before = button("‹ ▲", texts.previous_alarm, () => this.#leap(-1));
    this.after = button("▲ ›", texts.next_alarm, () => this.#leap(1));
    this.back = element("button", { type: "button", hidden: true, onclick: () => this.#show(null) }, texts.now);
    this.slider.addEventListener("input", () => this.#slide());
    this.track.addEventListener("pointermove", (event) => this.#point(event));
    this.track.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.root = element("div", { class: "timeline" },
      element("span", { class: "label" }, texts.timeline), this.before, this.track, this.after, this.output, this.back,
      element("p", { class: "legend" }, swatch("new", texts.legend_new), swatch("all", texts.legend_places)));
    if (globalThis.ResizeObserver) new ResizeObserver(() => this.draw()).observe(this.track);
  }

  /** Reads the ticks again. While the present is shown, the slider stays at its end. */
  async update() {
    const { ticks } = await read("ticks.json");
    const chosen = this.store.at;
    this.#ticks = ticks;
    this.slider.max = Math.max(0, ticks.length - 1);
    const index = chosen === null ? -1 : ticks.findIndex((tick) => tick.as_of === chosen);
    this.slider.value = index < 0 ? this.slider.max : index;
    this.root.hidden = ticks.length < 2;
    this.say();
    this.draw();
  }

  get #index() {
    return Number(this.slider.value);
  }

  #slide() {
    this.#sliding = true;
    this.say();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const last = this.#index >= this.#ticks.length - 1;
      this.#show(last ? null : this.#ticks[this.#index].as_of);
    }, WAIT_MS);
  }

  /** The index of the previous (-1) or next (1) tick that drew an alarm; -1 without one. */
  #find(step) {
    for (let index = this.#index + step; index >= 0 && index < this.#ticks.length; index += step) {
      if (this.#ticks[index].alarms) return index;
    }
    return -1;
  }

  #leap(step) {
    const index = this.#find(step);
    if (index < 0) return;
    this.slider.value = index;
    this.#show(this.#ticks[index].as_of);
  }

  #show(at) {
    this.#sliding = false;
    if (at === null) this.slider.value = this.slider.max;
    const request = this.store.show(at);
    this.say();
    this.#request = request;
    if (at !== null) request.catch(() => { if (request === this.#request) this.#show(null); });
  }

  /** Writes the time that is shown, or to which the slider points. */
  say() {
    const tick = this.#sliding ? this.#ticks[this.#index]?.as_of : this.store.at ?? this.store.asOf;
    const text = tick ? this.words.time(tick) : "";
    this.output.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
    this.back.hidden = this.#index === Number(this.slider.max);
    this.before.disabled = this.#find(-1) < 0;
    this.after.disabled = this.#find(1) < 0;
  }

  /** Says what happened at the tick under the pointer. */
  #point({ clientX }) {
    const box = this.bars.getBoundingClientRect();
    const part = (clientX - box.left) / box.width;
    const tick = this.#ticks[Math.min(this.#ticks.length - 1, Math.max(0, Math.floor(part * this.#ticks.length)))];
    this.tip.hidden = !tick;
    if (!tick) return;
    this.tip.textContent = this.words.fill("tick", { ...tick, as_of: this.words.time(tick.as_of) });
    const { width } = this.track.getBoundingClientRect();
    const half = this.tip.offsetWidth / 2;
    this.tip.style.left = `${Math.min(width - half, Math.max(half, part * box.width))}px`;
  }

  /** Draws an area as high as the number of places with an alarm, and a bar at each tick that drew one. */
  draw() {
    const box = this.bars.getBoundingClientRect?.() ?? { width: 0, height: 0 };
    const ratio = globalThis.devicePixelRatio || 1;
    const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    Object.assign(this.bars, { width, height });
    const context = this.bars.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const most = Math.max(1, ...this.#ticks.map((tick) => tick.places));
    const step = width / Math.max(1, this.#ticks.length);
    const draw = (colour, x, size, wide) => {
      context.fillStyle = style.getPropertyValue(colour);
      context.fillRect(x, height - size, wide, size);
    };
    this.#ticks.forEach(({ places }, index) => {
      draw(places ? "--band" : "--line", index * step, Math.max(2, (height * places) / most), step + 1);
    });
    this.#ticks.forEach(({ alarms, places }, index) => {
      if (alarms) draw("--noisy_count", index * step, Math.max(height / 2, (height * places) / most), Math.max(BAR * ratio, step));
    });
  }
}
