/* What stays on this device: my places, the states at the last visit, and the position. None of it is ever sent. */

import { levelOf } from "./store.js";

const PREFIX = "location-monitor.";
const CODES = { noisy_count: "n", unknown: "u", bounded: "b", safe: "s" };
const NAMES = Object.fromEntries(Object.entries(CODES).map(([name, code]) => [code, name]));

function load(name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name));
  } catch {
    return null; // storage may be refused, or contain anything
  }
}

function save(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // The page works without storage.
  }
}

export class MyPlaces {
  #ids = new Set(Array.isArray(load("mine")) ? load("mine") : []);

  has(id) {
    return this.#ids.has(id);
  }

  toggle(id) {
    if (!this.#ids.delete(id)) this.#ids.add(id);
    save("mine", [...this.#ids]);
  }
}

/** The states (levels) at the last visit. A place has changed if its state differs; a repeated answer is no change. */
export class LastVisit {
  #before = new Map(Object.entries(load("visit") ?? {}));

  /** The state at the last visit if it was another one; null otherwise. "Unknown" is no news, before or now. */
  was(id, state) {
    const before = NAMES[this.#before.get(id)];
    return before && before !== state && before !== "unknown" && state !== "unknown" ? before : null;
  }

  /** Keeps the present states for the next visit. An unknown place keeps the state that was seen before. */
  keep(ids, known) {
    if (!known.length) return;
    const states = {};
    ids.forEach((id, row) => {
      const code = CODES[levelOf(known[row])];
      states[id] = code === "u" ? this.#before.get(id) ?? code : code;
    });
    save("visit", states);
  }
}

/** The position of this device, as { latitude, longitude }. */
export function locate() {
  return new Promise((resolve, reject) => {
    if (!navigator.geolocation) reject(new Error("no geolocation"));
    else navigator.geolocation.getCurrentPosition(({ coords }) => resolve(coords), reject, { timeout: 20_000 });
  });
}

const RADIUS = 6_371_000;
const radians = (degrees) => (degrees * Math.PI) / 180;

/** Metres between two positions on the sphere. */
export function distance(a, b) {
  const [f, g] = [radians(a.latitude), radians(b.latitude)];
  const [df, dl] = [g - f, radians(b.longitude - a.longitude)];
  const h = Math.sin(df / 2) ** 2 + Math.cos(f) * Math.cos(g) * Math.sin(dl / 2) ** 2;
  return 2 * RADIUS * Math.asin(Math.sqrt(h));
}
