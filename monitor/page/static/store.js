/* What is known about each place: one source for the list and the map. It reads records, folds them, and lets answers
 * expire by its own timer, also without a connection. */

import { ServerClock } from "./clock.js";
import { Fold } from "./known.js";

export const STATES = ["noisy_count", "paused", "unknown", "safe"];
const UNREACHABLE = { state: "unknown", reason: "unreachable", countAtMost: null, countAtLeast: 0 };
const RETRY_MS = 3000;
const LONGEST_TIMER_MS = 60_000;

export const read = async (path) => {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
};

export class Store extends EventTarget {
  clock = new ServerClock();
  reachable = true;
  lostAt = null;
  at = null; // the time that is shown; null: now
  known = []; // by row: the present answer about each place
  seen = []; // by row: the last answer that was not unknown
  #setup;
  #fold;
  #past = null;
  #silentMs = 0;
  #source = null;
  #timer = 0;
  #dirty = false;
  #expires = Infinity;

  constructor(setup) {
    super();
    this.#setup = setup;
  }

  /** Reads the registry and the present state, then follows the stream. */
  async start() {
    const registry = await read("v1/registry");
    this.ids = registry.ids;
    this.names = registry.names.map((name, row) => name || registry.ids[row]);
    this.latitudes = registry.latitudes;
    this.longitudes = registry.longitudes;
    this.rows = new Map(registry.ids.map((id, row) => [id, row]));
    await this.#load();
  }

  async #load() {
    const state = await read("v1/records");
    this.#fold = this.#fold_of(state.records, () => this.clock.now());
    this.#hear(state);
    this.#refresh();
    this.#follow(state.position);
  }

  #fold_of(records, now) {
    const fold = new Fold({ slot: this.#setup.slotMs, locations: this.ids, now });
    for (const record of records) fold.apply({ type: record.headers.ce_type, data: record.value });
    return fold;
  }

  #follow(position) {
    this.#source?.close();
    const source = new EventSource(`v1/stream?after=${position}`);
    this.#source = source;
    source.addEventListener("records", (event) => {
      this.#dirty = true;
      for (const record of JSON.parse(event.data)) {
        this.#fold.apply({ type: record.headers.ce_type, data: record.value });
      }
    });
    source.addEventListener("beat", (event) => {
      this.#hear(JSON.parse(event.data));
      this.#check();
    });
    source.addEventListener("reset", () => {
      source.close();
      this.#reload();
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) this.#reload();
    });
  }

  #reload() {
    setTimeout(() => this.#load().catch(() => this.#reload()), RETRY_MS);
  }

  /** Takes a status of the server: its time, and how long its own source has been silent. */
  #hear(status) {
    this.clock.set(Date.parse(status.now));
    this.#silentMs = status.silent_seconds === null ? Infinity : status.silent_seconds * 1000;
    this.asOf = status.as_of;
  }

  get #isReachable() {
    return this.#silentMs + this.clock.elapsed() <= this.#setup.unreachableMs;
  }

  /** Reads the answers again if records came, an answer expired, or the source was lost or found. */
  #check() {
    if (this.#dirty || this.clock.now() > this.#expires || this.#isReachable !== this.reachable) {
      this.#refresh();
    } else {
      this.#wait();
      this.dispatchEvent(new Event("beat"));
    }
  }

  #refresh() {
    this.#dirty = false;
    const reachable = this.#isReachable;
    if (!reachable && this.reachable) this.lostAt = new Date(this.clock.now() - this.clock.elapsed());
    this.reachable = reachable;
    const before = this.known;
    const fold = this.#past ?? this.#fold;
    const hidden = !reachable && !this.#past;
    this.known = this.ids.map((id, row) => {
      const { current } = fold.get(id);
      if (!this.#past && current.state !== "unknown") this.seen[row] = current;
      return hidden ? { ...current, ...UNREACHABLE } : current;
    });
    const changed = [];
    for (let row = 0; row < before.length; row += 1) if (before[row].state !== this.known[row].state) changed.push(row);
    this.#wait();
    this.dispatchEvent(new CustomEvent("change", { detail: { changed, first: before.length === 0 } }));
  }

  /** Sets the timer for the next moment at which an answer expires or the source counts as lost. */
  #wait() {
    clearTimeout(this.#timer);
    const now = this.clock.now();
    this.#expires = Infinity;
    for (const { state, reason, validUntil } of this.known) {
      if (state !== "unknown") this.#expires = Math.min(this.#expires, validUntil);
      else if (reason === "clock_behind") this.#expires = Math.min(this.#expires, now + 1000);
    }
    let next = Math.min(LONGEST_TIMER_MS, this.#expires - now + 1);
    if (this.reachable) {
      next = Math.min(next, this.#setup.unreachableMs - this.#silentMs - this.clock.elapsed() + 1);
    }
    this.#timer = setTimeout(() => this.#check(), Math.max(next, 20));
  }

  /** All answers about a place, one for each monitor, as of now. */
  answers(row) {
    const answers = (this.#past ?? this.#fold).answers(this.ids[row]).map((known) => known.current);
    return this.reachable || this.#past ? answers : answers.map((answer) => ({ ...answer, ...UNREACHABLE }));
  }

  /** Shows what was published as of a time (text); null: now. */
  async show(at) {
    this.at = at;
    if (at === null) {
      this.#past = null;
    } else {
      const { records } = await read(`v1/records?at=${encodeURIComponent(at)}`);
      if (this.at !== at) return; // meanwhile another time was chosen
      this.#past = this.#fold_of(records, () => Date.parse(at));
    }
    this.#refresh();
  }

  counts() {
    const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
    for (const known of this.known) counts[known.state] += 1;
    return counts;
  }
}
