/* The map: the same places as in the list, on a canvas. No tiles, and no request to another host.
 *
 * The marks are written as pixels into one image. This takes the same time with and without a graphics processor. A
 * mark that would cover an equal one exactly is left out, which saves time if there are many places. */

import { Card } from "./card.js";
import { element } from "./dom.js";
import { MARKS, levelOf } from "./store.js";

const ORDER = [...MARKS].reverse(); // the most important is drawn last
const ALARMS = ["far_above", "noisy_count", "just_above"];
const TILE = 256;
const MOST_ZOOM = 19;
const MARGIN = 40;
const LABELS = 40; // names are shown if at most this many places are in view
const CONTROLS = 60; // the size of the corners with the buttons and the scale, in which no name is written
const REACH = 22; // how far from a mark a click still selects it, in CSS pixels

const mercatorX = (longitude) => (longitude + 180) / 360;
const mercatorY = (latitude) => {
  const sine = Math.sin((Math.max(-85, Math.min(85, latitude)) * Math.PI) / 180);
  return 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI);
};

export class PlaceMap {
  #view = { x: 0.5, y: 0.5, zoom: 1 };
  #buckets = Object.fromEntries(ORDER.map((state) => [state, new Int32Array()])); // the rows to show, by mark
  stamp = 0;
  #selected = null;
  #sprites = {};
  #pending = false;
  #background = [];
  #pointers = new Map();

  constructor({ store, words, open }) {
    Object.assign(this, { store, words, open });
    this.#project();
    this.#build();
    this.#listen();
    this.fit();
  }

  get isUseful() {
    return this.placed.length > 0;
  }

  #project() {
    const { latitudes, longitudes } = this.store;
    this.placed = latitudes.flatMap((latitude, row) => (latitude === null || longitudes[row] === null ? [] : [row]));
    this.x = Float64Array.from(longitudes, (longitude) => (longitude === null ? NaN : mercatorX(longitude)));
    this.y = Float64Array.from(latitudes, (latitude) => (latitude === null ? NaN : mercatorY(latitude)));
  }

  #build() {
    const { texts } = this.words;
    const button = (text, label, act) =>
      element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.ground = element("canvas", { "aria-hidden": "true" });
    this.canvas = element("canvas", { tabindex: "0", role: "application", "aria-label": texts.map_help });
    this.labels = element("canvas", { "aria-hidden": "true" });
    this.scale = element("p", { class: "scale", "aria-hidden": "true" });
    this.note = element("p", { class: "note" });
    this.root = document.getElementById("map");
    const buttons = element("div", { class: "zoom" },
      button("+", texts.zoom_in, () => this.zoom(1)),
      button("−", texts.zoom_out, () => this.zoom(-1)),
      button("⤢", texts.whole_map, () => this.fit()));
    this.card = new Card({ store: this.store, words: this.words, close: () => this.select(null) });
    this.root.append(this.ground, this.canvas, this.labels, buttons, this.scale, this.note, this.card.root);
    const missing = this.store.ids.length - this.placed.length;
    this.note.textContent = missing ? this.words.fill("not_on_map", { count: missing }) : "";
    this.root.hidden = !this.isUseful;
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(-event.deltaY / 200, event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY, moved: 0 });
    });
    canvas.addEventListener("pointermove", (event) => this.#drag(event));
    canvas.addEventListener("pointerup", (event) => {
      const pointer = this.#pointers.get(event.pointerId);
      this.#pointers.delete(event.pointerId);
      if (pointer && pointer.moved < 5) this.#choose(event.offsetX, event.offsetY, REACH);
    });
    canvas.addEventListener("pointercancel", (event) => this.#pointers.delete(event.pointerId));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("focus", () => this.draw());
    canvas.addEventListener("blur", () => this.draw());
    new ResizeObserver(() => this.#resize()).observe(this.root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#recolour());
  }

  #drag(event) {
    const pointer = this.#pointers.get(event.pointerId);
    if (!pointer) return;
    const [dx, dy] = [event.offsetX - pointer.x, event.offsetY - pointer.y];
    if (this.#pointers.size === 2) this.#pinch(event, pointer);
    const part = 1 / this.#pointers.size; // of two fingers, each moves the map by half
    this.move(-dx * part, -dy * part);
    Object.assign(pointer, { x: event.offsetX, y: event.offsetY, moved: pointer.moved + Math.hypot(dx, dy) });
  }

  #pinch(event, pointer) {
    const [other] = [...this.#pointers.values()].filter((one) => one !== pointer);
    const before = Math.hypot(pointer.x - other.x, pointer.y - other.y);
    const after = Math.hypot(event.offsetX - other.x, event.offsetY - other.y);
    if (before && after) this.zoom(Math.log2(after / before), other.x, other.y);
  }

  #key(event) {
    const step = 60;
    const act = {
      ArrowLeft: () => this.move(-step, 0), ArrowRight: () => this.move(step, 0),
      ArrowUp: () => this.move(0, -step), ArrowDown: () => this.move(0, step),
      "+": () => this.zoom(1), "=": () => this.zoom(1), "-": () => this.zoom(-1), 0: () => this.fit(),
      Enter: () => this.#choose(this.width / 2, this.height / 2, Infinity),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  get #size() {
    return TILE * 2 ** this.#view.zoom;
  }

  move(dx, dy) {
    this.#view.x += dx / this.#size;
    this.#view.y = Math.min(1, Math.max(0, this.#view.y + dy / this.#size));
    this.draw();
  }

  /** Zooms by a number of levels, around a point in CSS pixels; around the middle without one. */
  zoom(by, x = this.width / 2, y = this.height / 2) {
    const [dx, dy] = [x - this.width / 2, y - this.height / 2];
    const before = this.#size;
    this.#view.zoom = Math.min(MOST_ZOOM, Math.max(0, this.#view.zoom + by));
    this.#view.x += dx / before - dx / this.#size;
    this.#view.y += dy / before - dy / this.#size;
    this.draw();
  }

  /** Shows all places. */
  fit() {
    if (!this.isUseful || !this.width) return;
    let [west, east, north, south] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const row of this.placed) {
      [west, east] = [Math.min(west, this.x[row]), Math.max(east, this.x[row])];
      [north, south] = [Math.min(north, this.y[row]), Math.max(south, this.y[row])];
    }
    const room = (pixels, extent) => Math.log2(Math.max(1, pixels - 2 * MARGIN) / (TILE * Math.max(extent, 1e-7)));
    const zoom = Math.min(room(this.width, east - west), room(this.height, south - north), 16);
    this.#view = { x: (west + east) / 2, y: (north + south) / 2, zoom: Math.max(0, zoom) };
    this.draw();
  }

  /** Shows these rows, as the list does, in their present states. */
  show(rows) {
    const { known } = this.store;
    const buckets = Object.fromEntries(ORDER.map((state) => [state, []]));
    for (const row of rows) if (!Number.isNaN(this.x[row])) buckets[known[row].mark].push(row);
    this.card.write(this.#selected);
    for (const state of ORDER) this.#buckets[state] = Int32Array.from(buckets[state]);
    this.draw();
  }

  /** Marks a place with a card, and moves the map to it if it is not in view; null: none. */
  select(row) {
    this.#selected = row === null || Number.isNaN(this.x[row]) ? null : row;
    this.card.write(this.#selected);
    if (this.#selected === null) {
      this.draw();
      return;
    }
    const [x, y] = this.where(row);
    const hidden = x < MARGIN || y < MARGIN || x > this.width - MARGIN || y > this.height - MARGIN;
    if (hidden) Object.assign(this.#view, { x: this.x[row], y: this.y[row] });
    this.draw();
  }

  #choose(x, y, reach) {
    let [best, nearest] = [null, reach];
    for (const state of ORDER) {
      for (const row of this.#buckets[state]) {
        const [px, py] = this.where(row);
        const far = Math.hypot(px - x, py - y);
        if (far < nearest) [best, nearest] = [row, far];
      }
    }
    if (best === null) return;
    this.select(best);
    this.open(best);
  }

  /** The point of a place on the map, in CSS pixels. */
  where(row) {
    const size = this.#size;
    return [(this.x[row] - this.#view.x) * size + this.width / 2, (this.y[row] - this.#view.y) * size + this.height / 2];
  }

  /** Loads the agency's own map, a GeoJSON file of this host. */
  async loadBackground() {
    const response = await fetch("background.geojson");
    if (!response.ok) return;
    const { features } = await response.json();
    this.#background = features.filter((feature) => feature.geometry).map(({ geometry, properties }) => ({
      kind: properties?.kind ?? "",
      closed: geometry.type.endsWith("Polygon"),
      lines: linesOf(geometry).map((line) => line.map(([longitude, latitude]) => [mercatorX(longitude), mercatorY(latitude)])),
    }));
    this.draw();
  }

  #resize() {
    const box = this.root.getBoundingClientRect();
    const first = !this.width;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    if (box.width === this.width && box.height === this.height && ratio === this.ratio) return;
    [this.width, this.height, this.ratio] = [box.width, box.height, ratio];
    for (const canvas of [this.ground, this.canvas, this.labels]) {
      canvas.width = Math.max(1, Math.round(box.width * ratio));
      canvas.height = Math.max(1, Math.round(box.height * ratio));
    }
    this.image = this.canvas.getContext("2d").createImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.taken = new Uint32Array(this.pixels.length);
    this.#recolour();
    if (first) this.fit();
  }

  #recolour() {
    const style = getComputedStyle(document.documentElement);
    this.colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.#sprites = {};
    this.draw();
  }

  /** Draws once before the next frame. */
  draw() {
    if (this.#pending || !this.pixels) return;
    this.#pending = true;
    requestAnimationFrame(() => {
      this.#pending = false;
      this.#paint();
    });
  }

  #paint() {
    this.pixels.fill(0);
    this.#paintGround();
    const inView = [];
    const dense = this.placed.length > 2_000 && this.#view.zoom < 15;
    for (const state of ORDER) this.#paintState(state, dense, inView);
    this.canvas.getContext("2d").putImageData(this.image, 0, 0);
    this.#paintLabels(inView);
    this.#paintScale();
  }

  #paintState(state, dense, inView) {
    const { x, y, pixels, taken } = this;
    const { side, offsets, colours } = this.#sprite(state, dense);
    const half = side >> 1;
    const { width, height } = this.canvas;
    const scale = this.#size * this.ratio;
    const [left, top] = [width / 2 - this.#view.x * scale, height / 2 - this.#view.y * scale];
    this.stamp += 1;
    for (const row of this.#buckets[state]) {
      const px = Math.round(x[row] * scale + left);
      const py = Math.round(y[row] * scale + top);
      if (px < half || py < half || px >= width - half || py >= height - half) continue;
      if (inView.length <= LABELS) inView.push(row);
      const cell = py * width + px;
      if (taken[cell] === this.stamp) continue;
      taken[cell] = this.stamp;
      for (let index = 0; index < offsets.length; index += 1) pixels[cell + offsets[index]] = colours[index];
    }
  }

  /** The pixels of a mark: their offsets from the pixel in its middle, and their colours. */
  #sprite(state, dense) {
    const key = `${state}/${dense}/${this.canvas.width}`;
    if (this.#sprites[key]) return this.#sprites[key];
    const side = Math.round((dense ? 9 : ALARMS.includes(state) ? 22 : 18) * this.ratio) | 1;
    const canvas = element("canvas", { width: side, height: side });
    const context = canvas.getContext("2d");
    context.scale(side / 24, side / 24);
    drawMark(context, state, this.colour(ALARMS.includes(state) ? "noisy_count" : state === "so_far" ? "safe" : state), this.colour("paper"), dense);
    const data = new Uint32Array(context.getImageData(0, 0, side, side).data.buffer);
    const half = side >> 1;
    const [offsets, colours] = [[], []];
    data.forEach((colour, index) => {
      if (colour >>> 24 < 16) return;
      offsets.push((Math.floor(index / side) - half) * this.canvas.width + (index % side) - half);
      colours.push(colour);
    });
    this.#sprites[key] = { side, offsets: Int32Array.from(offsets), colours: Uint32Array.from(colours) };
    return this.#sprites[key];
  }

  #paintGround() {
    const context = this.ground.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.ground.width, this.ground.height);
    const scale = this.#size * this.ratio;
    const [left, top] = [this.ground.width / 2 - this.#view.x * scale, this.ground.height / 2 - this.#view.y * scale];
    context.lineJoin = context.lineCap = "round";
    for (const { kind, closed, lines } of this.#background) {
      context.beginPath();
      for (const line of lines) {
        line.forEach(([x, y], index) => context[index ? "lineTo" : "moveTo"](x * scale + left, y * scale + top));
        if (closed) context.closePath();
      }
      if (closed) {
        context.fillStyle = this.colour(kind === "water" ? "water" : kind === "green" ? "green" : "land");
        context.fill("evenodd");
      } else {
        context.strokeStyle = this.colour(kind === "water" ? "water" : "line");
        context.lineWidth = (kind === "water" ? 7 : kind === "rail" ? 1.5 : 3) * this.ratio;
        context.setLineDash(kind === "rail" ? [6 * this.ratio, 5 * this.ratio] : []);
        context.stroke();
      }
    }
    context.setLineDash([]);
  }

  #paintLabels(inView) {
    const context = this.labels.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = `500 12px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = "middle";
    context.lineWidth = 3.5;
    context.lineJoin = "round";
    context.strokeStyle = this.colour("paper");
    context.fillStyle = this.colour("ink");
    const boxes = [[this.width - CONTROLS, 0, this.width, 3 * CONTROLS], [0, this.height - CONTROLS / 2, 2 * CONTROLS, this.height]];
    const alarms = inView.filter((row) => levelOf(this.store.known[row]) === "noisy_count");
    const others = inView.filter((row) => !alarms.includes(row));
    for (const rows of inView.length <= LABELS ? [alarms, others] : []) { // the name of an alarm may cover other marks
      boxes.push(...rows.map((row) => {
        const [x, y] = this.where(row);
        return [x - 8, y - 8, x + 8, y + 8];
      }));
      for (const row of rows.reverse()) this.#paintLabel(context, row, boxes);
    }
    if (this.#selected !== null) this.#paintSelected(context);
    if (document.activeElement === this.canvas) this.#paintCross(context);
  }

  #paintLabel(context, row, boxes) {
    const [x, y] = this.where(row);
    const name = this.store.names[row];
    const width = context.measureText(name).width;
    for (const [dx, dy] of [[13, 0], [-13 - width, 0], [-width / 2, 18], [-width / 2, -18]]) {
      const box = [x + dx, y + dy - 7, x + dx + width, y + dy + 7];
      const free = boxes.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
      if (!free || box[0] < 0 || box[2] > this.width) continue;
      boxes.push(box);
      context.strokeText(name, x + dx, y + dy);
      context.fillText(name, x + dx, y + dy);
      return;
    }
  }

  #paintSelected(context) {
    const [x, y] = this.where(this.#selected);
    this.card.place([x, y], this.width, this.height);
    context.beginPath();
    context.arc(x, y, 16, 0, 2 * Math.PI);
    context.strokeStyle = this.colour("ink");
    context.lineWidth = 2.5;
    context.stroke();
  }

  #paintCross(context) {
    const [x, y] = [this.width / 2, this.height / 2];
    context.beginPath();
    for (const [dx, dy] of [[9, 0], [0, 9]]) {
      context.moveTo(x - dx, y - dy);
      context.lineTo(x + dx, y + dy);
    }
    context.strokeStyle = this.colour("ink");
    context.lineWidth = 1.5;
    context.stroke();
  }

  #paintScale() {
    const latitude = Math.atan(Math.sinh(Math.PI * (1 - 2 * this.#view.y)));
    const metresPerPixel = (40_075_017 * Math.cos(latitude)) / this.#size;
    const most = 110 * metresPerPixel;
    const power = 10 ** Math.floor(Math.log10(most));
    const metres = [5, 2, 1].map((factor) => factor * power).find((one) => one <= most);
    const text = metres >= 1000 ? `${this.words.number.format(metres / 1000)} km` : `${this.words.number.format(metres)} m`;
    this.scale.style.width = `${metres / metresPerPixel}px`;
    if (this.scale.textContent !== text) this.scale.textContent = text;
  }
}

const linesOf = ({ type, coordinates, geometries }) => ({
  LineString: () => [coordinates],
  MultiLineString: () => coordinates,
  Polygon: () => coordinates,
  MultiPolygon: () => coordinates.flat(),
  GeometryCollection: () => geometries.flatMap(linesOf),
}[type] ?? (() => []))();

/** Draws the symbol of a mark in a square of 24, as the page has it. If there are many places, it has no inner sign. */
function drawMark(context, mark, colour, paper, dense) {
  context.lineJoin = context.lineCap = "round";
  [...document.getElementById(`i-${mark}`).children].forEach((shape, index) => {
    if (index && dense && mark !== "bounded") return;
    const path = new Path2D(shape.getAttribute("d"));
    context.fillStyle = shape.getAttribute("fill") === "none" ? paper : colour; // a mark below does not show through
    if (!index) context.fill(path);
    if (!shape.hasAttribute("stroke")) return;
    context.strokeStyle = shape.getAttribute("stroke") === "currentColor" ? colour : paper;
    context.lineWidth = shape.getAttribute("stroke-width") * (dense ? 1.8 : 1);
    context.stroke(path);
  });
}
