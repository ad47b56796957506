/* The time line: one bar for each tick, as high as the number of alarms that it raised, and a slider to look back. */

import { element } from "./dom.js";
import { read } from "./store.js";

const WAIT_MS = 120;

export class Timeline {
  #ticks = [];
  #timer = 0;
  #request = null; // the latest one to the store: the failure of an earlier one does not matter

  constructor({ store, words }) {
    Object.assign(this, { store, words });
    const { texts } = words;
    this.bars = element("canvas", { "aria-hidden": "true", width: 600, height: 28 });
    this.slider = element("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": texts.timeline });
    this.output = element("output", {});
    this.back = element("button", { type: "button", hidden: true, onclick: () => this.#show(null) }, texts.now);
    this.slider.addEventListener("input", () => this.#slide());
    this.root = element("div", { class: "timeline" },
      element("span", { class: "label" }, texts.timeline),
      element("div", { class: "track" }, this.bars, this.slider), this.output, this.back);
  }

  /** Reads the ticks again. While the present is shown, the slider stays at its end. */
  async update() {
    const { ticks } = await read("v1/ticks");
    const chosen = this.store.at;
    this.#ticks = ticks;
    this.slider.max = Math.max(0, ticks.length - 1);
    const index = chosen === null ? -1 : ticks.findIndex((tick) => tick.as_of === chosen);
    this.slider.value = index < 0 ? this.slider.max : index;
    this.root.hidden = ticks.length < 2;
    this.#say();
    this.draw();
  }

  #slide() {
    this.#say();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const last = Number(this.slider.value) >= this.#ticks.length - 1;
      this.#show(last ? null : this.#ticks[this.slider.value].as_of);
    }, WAIT_MS);
  }

  #show(at) {
    if (at === null) this.slider.value = this.slider.max;
    this.#say();
    const request = this.store.show(at);
    this.#request = request;
    if (at !== null) request.catch(() => { if (request === this.#request) this.#show(null); });
  }

  #say() {
    const tick = this.#ticks[this.slider.value];
    const text = tick ? this.words.time(tick.as_of) : "";
    this.output.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
    this.back.hidden = Number(this.slider.value) === Number(this.slider.max);
  }

  draw() {
    const context = this.bars.getContext("2d");
    const { width, height } = this.bars;
    const most = Math.max(1, ...this.#ticks.map((tick) => tick.alarms));
    const step = width / Math.max(1, this.#ticks.length);
    const style = getComputedStyle(document.documentElement);
    context.clearRect(0, 0, width, height);
    this.#ticks.forEach(({ alarms }, index) => {
      const size = alarms ? 4 + ((height - 4) * alarms) / most : 2;
      context.fillStyle = style.getPropertyValue(alarms ? "--noisy_count" : "--line");
      context.fillRect(index * step, height - size, Math.max(1, step - 1), size);
    });
  }
}
