/* What is known about each place: one source for the list and the map. The page decides the answers. The store reads
 * them again and again, shows the most cautious one about each place, and lets answers expire by its own timer, also if
 * the files are no longer written, or cannot be read. */

import { PageClock } from "./clock.js";

export const STATES = ["noisy_count", "unknown", "bounded", "safe"]; // the levels, the most cautious one first
const NOTHING = { state: "unknown", reason: "nothing_published" };
const READ_MS = 10_000; // between two reads of the states
const RETRY_MS = 3000;
const LONGEST_RETRY_MS = 30_000;
const LONGEST_READ_MS = 30_000;
const LONGEST_TIMER_MS = 60_000;

export const read = async (path) => {
  const response = await fetch(path, { signal: AbortSignal.timeout?.(LONGEST_READ_MS) });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
};

const PLAIN = /^[a-z0-9-]$/;

/** The name of the files of a place, without a suffix, as monitor/page/write_changed_files.py makes it of an id. */
export function nameOf(id) {
  const bytes = [...new TextEncoder().encode(id)];
  const text = bytes.map((byte) => {
    const letter = String.fromCharCode(byte);
    return PLAIN.test(letter) ? letter : `_${byte.toString(16).padStart(2, "0")}`;
  }).join("");
  return ["places", ...text.match(/.{1,120}/g)].join("/");
}

/** What the list shows by a symbol and a word, in its order. An alarm whose strength is not known is between the others. */
export const MARKS = ["far_above", "noisy_count", "just_above", "unknown", "bounded", "so_far", "safe"];

/** A place that is paused is shown as unknown: the line below its name says why. */
const show = (state) => (state === "paused" ? "unknown" : state);

/** How strong an alarm is, or that a place is safe so far; otherwise the state. A lower bound at the threshold is sure, whatever the noise. */
export const markOf = ({ state, strength, threshold, count_at_least: least, reported_percent: percent }) => {
  if (state === "safe" && percent !== undefined) return "so_far";
  return state === "noisy_count" && strength && !(least >= threshold) ? strength : show(state);
};

/** The state by which a place is counted and shown: that of an alarm while one still counts. */
export const levelOf = ({ last_alarm: alarm, state }) => (alarm || state === "below_since" ? "noisy_count" : show(state));

const hide = (answer, reason) =>
  ({ ...answer, state: "unknown", reason, count_at_most: undefined, count_at_least: 0, since_at_most: undefined,
    p_value: undefined, strength: undefined, likely_at_least: undefined });

const CAUTION = ["noisy_count", "below_since", "paused", "unknown", "safe", "bounded"];

/** Sorts the more cautious answer first, then the one that expires first. */
const byCaution = (a, b) =>
  CAUTION.indexOf(a.state) - CAUTION.indexOf(b.state) || a.expires - b.expires || (a.monitor < b.monitor ? -1 : 1);

/** Returns the answer that counts, of sorted ones. Upper bounds and hot spots compare with no threshold, so they count
 * only without other answers, the bounds first. */
function lead(answers) {
  const compared = answers.find(({ kind }) => kind !== "hot_spots" && kind !== "upper_bound");
  return compared ?? answers.find(({ kind }) => kind === "upper_bound") ?? answers[0] ?? NOTHING;
}

/** Returns the last alarm of each monitor, the latest one first. */
const listAlarms = (answers) =>
  answers.flatMap((answer) => answer.last_alarm ?? []).sort((a, b) => Date.parse(b.end) - Date.parse(a.end));

/** Adds to the answer that counts the latest alarm, the mark of the place, and the moment of its latest alarm. */
function summarize(leading, alarms) {
  const known = { ...leading, last_alarm: alarms[0] };
  const counting = leading.state === "noisy_count" ? [...alarms, leading] : alarms;
  const marks = counting.map(markOf).sort((a, b) => MARKS.indexOf(a) - MARKS.indexOf(b));
  const mark = levelOf(known) === "noisy_count" ? marks[0] ?? "noisy_count" : markOf(known);
  return { ...known, mark, alarmedAt: Math.max(0, ...counting.map(({ end }) => Date.parse(end))) };
}

/** Returns the answers about each row. `rows` has the first and the last row of each run. */
function spread(answers, length) {
  const about = Array.from({ length }, () => []);
  for (const { rows, ...answer } of answers) {
    answer.expires = Date.parse(answer.valid_until);
    if (answer.last_alarm) answer.last_alarm.expires = Date.parse(answer.last_alarm.valid_until);
    for (let run = 0; run < rows.length; run += 2) {
      for (let row = rows[run]; row <= rows[run + 1]; row += 1) about[row].push(answer);
    }
  }
  return about;
}

export class Store extends EventTarget {
  clock = new PageClock();
  reachable = true;
  lostAt = null;
  at = null; // the time that is shown; null: now
  asOf = null;
  known = []; // by row: the answer that counts
  seen = []; // by row: the last answer that was not unknown
  #setup;
  #random;
  #answers = null; // by row: the present answers of all monitors
  #past = null;
  #present = []; // by row: the answer that was shown last while the present was shown
  #etag = null;
  #writtenAt = -Infinity;
  #silentMs = 0;
  #timer = 0;
  #expires = Infinity;
  #attempts = 0; // since the last success
  #next = 0;

  constructor(setup, random = Math.random) {
    super();
    this.#setup = setup;
    this.#random = random;
  }

  /** Reads the registry, then the states again and again. Until there are states, each failure dispatches "failed". */
  async start() {
    for (;;) {
      try {
        await this.#readRegistry();
        await this.#readStates();
        this.#schedule();
        return;
      } catch {
        this.dispatchEvent(new Event("failed"));
        await new Promise((resolve) => { setTimeout(resolve, this.#pause()); });
      }
    }
  }

  async #readRegistry() {
    const registry = await read("registry.json");
    this.registry = registry.digest;
    this.ids = registry.ids;
    this.names = registry.names.map((name, row) => name || registry.ids[row]);
    this.kinds = registry.kinds;
    this.districts = registry.districts;
    this.latitudes = registry.latitudes;
    this.longitudes = registry.longitudes;
  }

  #schedule(failed = false) {
    clearTimeout(this.#next);
    if (!failed) this.#attempts = 0;
    const usual = Math.min(READ_MS, this.#setup.unreachableMs / 6) * (0.8 + this.#random() / 5);
    this.#next = setTimeout(() => this.#poll(), failed ? this.#pause() : usual);
  }

  async #poll() {
    const failed = await this.#readStates().then(() => false, () => true);
    this.#check();
    this.#schedule(failed);
  }

  /** Reads the states if they have changed. In both cases the response says what time it is. */
  async #readStates() {
    const asked = PageClock.mark();
    const headers = this.#etag ? { "If-None-Match": this.#etag } : {};
    const response = await fetch("states.json", { headers, cache: "no-store", signal: AbortSignal.timeout?.(LONGEST_READ_MS) });
    if (response.status === 304) return;
    if (!response.ok) throw new Error(`states.json: ${response.status}`);
    const states = await response.json();
    if (Date.parse(states.written_at) < this.#writtenAt) return; // from a cache that is behind
    this.#hear(states, asked, response.headers);
    this.#take(states);
    this.#etag = response.headers.get("ETag");
  }

  /** The next pause in ms after a failure. It is random, so that many visitors do not return at the same moment. */
  #pause() {
    const longest = Math.min(LONGEST_RETRY_MS, RETRY_MS * 2 ** this.#attempts);
    this.#attempts += 1;
    return longest * (0.5 + this.#random() / 2);
  }

  /** Checks the time after the device slept, or the tab was frozen or hidden, and reads the states. */
  wake() {
    if (!this.#answers) return;
    this.#check();
    clearTimeout(this.#next);
    this.#poll();
  }

  /** Takes a status: the time, and how long the source has been silent. Both are older if the file is old: the web
   * server says what time it is, and a cache how long it has kept the file. */
  #hear(status, asked, headers) {
    const served = Date.parse(headers.get("Date") ?? "") || Date.now();
    const age = Math.max(0, served + 1000 * (Number(headers.get("Age")) || 0) - Date.parse(status.written_at));
    this.clock.set(Date.parse(status.now) + age, asked);
    this.#silentMs = (status.silent_seconds === null ? Infinity : status.silent_seconds * 1000) + age;
    this.#writtenAt = Date.parse(status.written_at);
    this.slotMs = status.slot_seconds * 1000;
    if (status.registry !== this.registry) this.dispatchEvent(new Event("outdated"));
  }

  /** Takes states, unless they are about another registry. */
  #take({ answers, registry, as_of: asOf }) {
    if (registry !== this.registry) return;
    this.#answers = spread(answers, this.ids.length);
    this.asOf = asOf;
    this.#refresh();
  }

  get #isReachable() {
    return this.#silentMs + this.clock.elapsed() <= this.#setup.unreachableMs;
  }

  /** Shows the answers again if one has expired, or the source was lost or found. */
  #check() {
    if (!this.#answers) return;
    if (this.clock.now() > this.#expires || this.#isReachable !== this.reachable) {
      this.#refresh();
    } else {
      this.#wait();
      this.dispatchEvent(new Event("beat"));
    }
  }

  #refresh() {
    const reachable = this.#isReachable;
    if (!reachable && this.reachable) this.lostAt = new Date(this.clock.now() - this.clock.elapsed());
    this.reachable = reachable;
    const first = this.known.length === 0;
    this.known = this.ids.map((id, row) => {
      const answers = this.answers(row);
      return summarize(lead(answers), listAlarms(answers));
    });
    const changed = this.#past ? [] : this.#changes();
    this.#wait();
    this.dispatchEvent(new CustomEvent("change", { detail: { changed, first } }));
  }

  /** The rows whose present state changed. Showing the past is no change. */
  #changes() {
    const before = this.#present;
    this.#present = this.known;
    this.known.forEach((known, row) => { if (known.state !== "unknown") this.seen[row] = known; });
    return this.known.flatMap((known, row) => (before.length && levelOf(before[row]) !== levelOf(known) ? [row] : []));
  }

  /** Sets the timer for the next moment at which an answer expires or the source counts as lost. */
  #wait() {
    clearTimeout(this.#timer);
    const now = this.clock.now();
    this.#expires = Infinity;
    for (const answer of this.#past ? [] : this.#answers.flat()) {
      for (const one of [answer, answer.last_alarm]) {
        if (one && one.state !== "unknown" && one.expires >= now) this.#expires = Math.min(this.#expires, one.expires);
      }
    }
    let next = Math.min(LONGEST_TIMER_MS, this.#expires - now + 1);
    if (this.reachable) {
      next = Math.min(next, this.#setup.unreachableMs - this.#silentMs - this.clock.elapsed() + 1);
    }
    this.#timer = setTimeout(() => this.#check(), Math.max(next, 20));
  }

  /** Returns an answer as it has to be read now. One of the past stays as it was then. An alarm has its own end. */
  #judge(answer) {
    if (this.#past) return answer;
    const alarm = answer.last_alarm;
    if (alarm && this.clock.now() > alarm.expires) return this.#judge({ ...answer, last_alarm: undefined });
    if (!this.reachable) return hide(answer, "unreachable");
    return answer.state !== "unknown" && this.clock.now() > answer.expires ? hide(answer, "too_old") : answer;
  }

  /** All answers about a place, the most cautious one first. */
  answers(row) {
    return (this.#past ?? this.#answers)[row].map((answer) => this.#judge(answer)).sort(byCaution);
  }

  /** The alarms about a place that still count, the latest one first. */
  alarms(row) {
    return listAlarms(this.answers(row));
  }

  /** The answers about a place and the earlier alarms that still count, the most cautious one first. */
  statements(row) {
    const answers = this.answers(row);
    const alarms = answers.flatMap(({ state, last_alarm: alarm }) => (alarm && state !== "noisy_count" ? alarm : []));
    return alarms.length ? [...answers, ...alarms].sort(byCaution) : answers;
  }

  /** Shows what was published as of a time (text); null: now. */
  async show(at) {
    this.at = at;
    if (at === null) {
      this.#past = null;
    } else {
      const { answers, registry } = await read(`past/${at.replaceAll(":", "-")}.json`);
      if (registry !== this.registry) throw new Error("these states are about another registry");
      if (this.at !== at) return; // meanwhile another time was chosen
      this.#past = spread(answers, this.ids.length);
    }
    this.#refresh();
  }

  counts() {
    const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
    for (const known of this.known) counts[levelOf(known)] += 1;
    return counts;
  }
}
