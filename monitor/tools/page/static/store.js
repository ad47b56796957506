/* What is known about each place: one source for the list and the map. It reads records, folds them, and lets answers
 * expire by its own timer, even without a connection. */

import { ServerClock } from "./clock.js";
import { Fold } from "./known.js";

export const STATES = ["noisy_count", "paused", "unknown", "safe"];
const UNREACHABLE = { state: "unknown", reason: "unreachable", countAtMost: null, countAtLeast: 0 };
const RETRY_MS = 3000;
const LONGEST_RETRY_MS = 30_000;
const LONGEST_READ_MS = 30_000;
const LONGEST_TIMER_MS = 60_000;

export const read = async (path) => {
  const response = await fetch(path, { signal: AbortSignal.timeout?.(LONGEST_READ_MS) });
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
  #random;
  #fold = null;
  #past = null;
  #present = []; // by row: the answer that was shown last while the present was shown
  #silentMs = 0;
  #source = null;
  #timer = 0;
  #dirty = false;
  #expires = Infinity;
  #attempts = 0; // since the last beat
  #retry = null;
  #outdated = false;
  #settings = ""; // the digest of the registry and the slot of the last status

  constructor(setup, random = Math.random) {
    super();
    this.#setup = setup;
    this.#random = random;
  }

  /** Reads the registry and the present state, then follows the stream. Each failure dispatches "failed". */
  async start() {
    for (;;) {
      try {
        await this.#begin();
        return;
      } catch {
        this.dispatchEvent(new Event("failed"));
        await new Promise((resolve) => { setTimeout(resolve, this.#pause()); });
      }
    }
  }

  async #begin() {
    const registry = await read("v1/registry");
    this.ids = registry.ids;
    this.names = registry.names.map((name, row) => name || registry.ids[row]);
    this.latitudes = registry.latitudes;
    this.longitudes = registry.longitudes;
    this.rows = new Map(registry.ids.map((id, row) => [id, row]));
    this.earlier = (registry.earlier ?? []).map(({ digest, lacks }) => ({
      digest, lacks: lacks.map((row) => registry.ids[row]),
    }));
    await this.#load();
  }

  async #load() {
    const asked = ServerClock.mark();
    const state = await read("v1/records");
    // What is known stays, because another server of the page may be behind the one that sent it.
    this.#fold ??= this.#newFold(() => this.clock.now());
    this.#fill(this.#fold, state.records);
    this.#hear(state, asked);
    this.#refresh();
    this.#follow(state.position);
  }

  #newFold(now) {
    return new Fold({ slot: this.#setup.slotMs, locations: this.ids, earlier: this.earlier, now });
  }

  #fill(fold, records) {
    for (const record of records) fold.apply({ type: record.headers.ce_type, data: record.value });
  }

  #follow(position) {
    this.#source?.close();
    const source = new EventSource(`v1/stream?after=${position}`);
    this.#source = source;
    source.addEventListener("records", (event) => {
      this.#dirty = true;
      this.#fill(this.#fold, JSON.parse(event.data));
    });
    source.addEventListener("beat", (event) => {
      const status = JSON.parse(event.data);
      if (this.clock.isLate(Date.parse(status.now))) {
        this.#reload();
      } else {
        this.#attempts = 0;
        this.#hear(status);
      }
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

  /** Reads the state again after a pause. The pauses become longer until a beat comes. */
  #reload() {
    this.#retry ??= setTimeout(() => {
      this.#retry = null;
      this.#load().catch(() => this.#reload());
    }, this.#pause());
  }

  /** The next pause in ms. It is random, so that many visitors do not return at the same moment. */
  #pause() {
    const longest = Math.min(LONGEST_RETRY_MS, RETRY_MS * 2 ** this.#attempts);
    this.#attempts += 1;
    return longest * (0.5 + this.#random() / 2);
  }

  /** Checks the time after the device slept, or the tab was frozen or hidden. */
  wake() {
    if (!this.#source) return;
    this.#check();
    if (this.#source.readyState === EventSource.CLOSED) this.#reload();
  }

  /** Takes a status of the server: its time, and how long its own source has been silent. */
  #hear(status, asked) {
    this.clock.set(Date.parse(status.now), asked);
    this.#silentMs = status.silent_seconds === null ? Infinity : status.silent_seconds * 1000;
    if (!this.asOf || Date.parse(status.as_of) > Date.parse(this.asOf)) this.asOf = status.as_of;
    const { registry = this.#fold.digest, slot_seconds: seconds = this.#setup.slotMs / 1000 } = status;
    const settings = `${registry} ${seconds}`;
    const differs = registry !== this.#fold.digest || seconds * 1000 !== this.#setup.slotMs;
    if (differs && settings !== this.#settings) this.dispatchEvent(new Event("outdated"));
    this.#settings = settings;
    this.#outdated = seconds * 1000 !== this.#setup.slotMs; // another registry: the places of both are still known
  }

  get #isReachable() {
    return !this.#outdated && this.#silentMs + this.clock.elapsed() <= this.#setup.unreachableMs;
  }

  /** Reads the answers again if records came, an answer expired, or the source was lost or found. */
  #check() {
    const isSilent = this.clock.elapsed() > this.#setup.unreachableMs;
    if (isSilent && this.#source.readyState === EventSource.OPEN) this.#reload(); // open, but no beats: a dead connection
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
    const first = this.known.length === 0;
    const fold = this.#past ?? this.#fold;
    const hidden = !reachable && !this.#past;
    this.known = this.ids.map((id, row) => {
      const { current } = fold.get(id);
      if (!this.#past && current.state !== "unknown") this.seen[row] = current;
      return hidden ? { ...current, ...UNREACHABLE } : current;
    });
    const changed = this.#past ? [] : this.#changes();
    this.#wait();
    this.dispatchEvent(new CustomEvent("change", { detail: { changed, first } }));
  }

  /** The rows whose present state changed. Showing the past is no change. */
  #changes() {
    const before = this.#present;
    this.#present = this.known;
    return this.known.flatMap(({ state }, row) => (before.length && before[row].state !== state ? [row] : []));
  }

  /** Sets the timer for the next moment at which an answer expires or the source counts as lost. */
  #wait() {
    clearTimeout(this.#timer);
    const now = this.clock.now();
    this.#expires = Infinity;
    for (const { state, reason, validUntil } of this.#past ? [] : this.known) {
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
      this.#past = this.#newFold(() => Date.parse(at));
      this.#fill(this.#past, records);
    }
    this.#refresh();
  }

  counts() {
    const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
    for (const known of this.known) counts[known.state] += 1;
    return counts;
  }
}
